import json
from typing import Any

import pytest

from console.errors import Conflict, Gone, NotAllowed, NotFound, NotLoggedIn, Refused, Unreachable
from console.kube.api_errors import error_from_status


def status(code: int, message: str = "", **fields: Any) -> bytes:
    return json.dumps({"kind": "Status", "code": code, "message": message, **fields}).encode()


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (400, Refused),
        (401, NotLoggedIn),
        (403, NotAllowed),
        (404, NotFound),
        (409, Conflict),
        (410, Gone),
        (422, Refused),
    ],
)
def test_every_refusal_has_its_class(code: int, kind: type[Refused]) -> None:
    error = error_from_status(code, status(code, "so it is", reason="Because"), action="list pods")
    assert type(error) is kind
    assert isinstance(error, Refused)
    assert (error.status, error.reason, error.message) == (code, "Because", "Could not list pods: so it is.")


def test_a_refused_list_says_what_to_ask_for() -> None:
    said = 'pods is forbidden: User "anna" cannot list resource "pods" in API group "" at the cluster scope'
    assert error_from_status(403, status(403, said), action="list pods").hint == "Ask for `list pods`."
    said = (
        'workloads.kueue.x-k8s.io is forbidden: User "a" cannot watch resource "workloads" '
        'in API group "kueue.x-k8s.io" in the namespace "n"'
    )
    assert (
        error_from_status(403, status(403, said), action="x").hint
        == "Ask for `watch workloads.kueue.x-k8s.io` in namespace n."
    )


def test_busy_servers_say_when_to_come_back() -> None:
    told = error_from_status(429, status(429, "slow down", details={"retryAfterSeconds": 3}), action="x")
    header = error_from_status(429, b"slow down", action="x", retry_after=7)
    assert isinstance(told, Refused)
    assert isinstance(header, Refused)
    assert (told.retry_after, header.retry_after) == (3.0, 7.0)


@pytest.mark.parametrize("code", [500, 502, 503, 504])
def test_a_broken_server_may_be_asked_again(code: int) -> None:
    error = error_from_status(code, status(code, "etcdserver: leader changed"), action="list pods")
    assert isinstance(error, Unreachable)
    assert "leader changed" in error.message
    assert str(code) in error.message


@pytest.mark.parametrize(
    "body", [b"", b"<html><body>nginx</body></html>", b"\xff\xfe", b"[1]", b"null", b'{"code": "x"}']
)
def test_bodies_that_are_no_status(body: bytes) -> None:
    error = error_from_status(404, body, action="read pod p")
    assert error.message.startswith("Could not read pod p: ")
    assert "<html" not in error.message


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ('unable to upgrade connection: container not found ("main")', "container main"),
        ("error executing command in container: cannot exec in a stopped container", "its container"),
        ("failed to load task: no running task found: task 0a1 not found", "its container"),
        ("container 0a1 is not running", "its container"),
    ],
)
def test_a_container_that_has_ended_is_no_broken_server(said: str, name: str) -> None:
    error = error_from_status(500, status(500, said), action="open a shell in pod x")
    assert isinstance(error, Unreachable), "a tunnel goes on trying: the pod may be replaced"
    assert error.message == f"Could not open a shell in pod x: {name} has ended, or has not started yet."
    assert "a4 logs" in error.hint
