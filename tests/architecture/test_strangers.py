"""A test that reaches an address which no configuration names fails, and strace's lines are read as they are."""

from __future__ import annotations

import socket
from collections import Counter
from contextlib import suppress

import pytest

from tests.strangers import Strangers, is_stranger, of_system_calls


@pytest.mark.parametrize(
    ("host", "strange"),
    [
        ("127.0.0.1", False), ("127.8.0.1", False), ("::1", False), ("::1%lo", False), ("0.0.0.0", False),
        ("localhost", False), ("", False), ("nobody.invalid", False), ("203.0.113.7", False), ("10.0.0.1", True),
        ("2001:db8::1", False), ("fd00::1", True), ("container.googleapis.com", True), ("example.com", True),
    ],
)  # fmt: skip
def test_this_machine_and_reserved_names_are_no_strangers(host: str, strange: bool) -> None:
    assert is_stranger(host) == strange


def test_a_planted_stranger_is_seen_before_anything_is_sent(request: pytest.FixtureRequest) -> None:
    guard = request.config.pluginmanager.get_plugin("strangers")
    assert isinstance(guard, Strangers)
    guard.take()
    closed = socket.socket()
    closed.close()
    with suppress(OSError):
        closed.connect(("10.0.0.1", 443))
    with suppress(OSError):
        socket.getaddrinfo("stranger.com", 443, flags=socket.AI_NUMERICHOST)
    assert guard.take() == Counter({"10.0.0.1": 1, "stranger.com": 1})


def test_what_other_programs_reach_is_read_from_their_system_calls() -> None:
    calls = """
7 connect(5, {sa_family=AF_INET, sin_port=htons(6443), sin_addr=inet_addr("10.0.0.1")}, 16) = -1 EINPROGRESS
7 connect(6, {sa_family=AF_INET6, sin6_port=htons(443), inet_pton(AF_INET6, "::1", &sin6_addr)}, 28) = 0
8 connect(3, {sa_family=AF_UNIX, sun_path="/run/x"}, 110) = 0
8 connect(3, {sa_family=AF_INET, sin_port=htons(0), sin_addr=inet_addr("203.0.113.7")}, 16) = 0
9 sendto(4, "x", 1, MSG_NOSIGNAL, {sa_family=AF_INET, sin_port=htons(53), sin_addr=inet_addr("10.0.0.2")}, 16) = 1
""".splitlines()  # a connect to port 0 sends nothing: libraries ask for the route by it
    assert of_system_calls(calls) == Counter({"10.0.0.1": 1, "::1": 1, "10.0.0.2": 1})
