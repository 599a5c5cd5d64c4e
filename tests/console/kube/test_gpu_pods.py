"""Of a long list of pods only those are asked for that may hold GPUs."""

import json
from collections.abc import Mapping
from contextlib import aclosing
from types import SimpleNamespace
from typing import Any

import pytest

from console.errors import NotAllowed
from console.kube.client import Client
from console.kube.gpu_pods import HOLDS_ITS_NODE, gpu_pod_selectors
from console.kube.watch import LONG_LIST_OBJECTS, HttpSource, follow_kind
from console.kube.watched_kinds import reader_of
from tests.apiserver import first

PODS = "/api/v1/pods"
SET = {"ownerReferences": [{"kind": "DaemonSet", "name": "x", "controller": True}]}
GPU = {"limits": {"nvidia.com/gpu": "8"}}


class Server(Client):
    """Has a list of revisions, and pods elsewhere that claim to be of them, of which the whole list is long."""

    def __init__(self, revisions: Any, strangers: int = 0, remaining: int = LONG_LIST_OBJECTS + 1) -> None:
        self.revisions, self.strangers, self.remaining = revisions, strangers, remaining
        self.asked: list[Mapping[str, str]] = []
        self.login = SimpleNamespace(server="test")  # type: ignore[assignment]

    async def request(self, method: str, path: str, **more: Any) -> bytes:
        if path != PODS and isinstance(self.revisions, Exception):
            raise self.revisions
        if path != PODS:
            return (
                self.revisions if isinstance(self.revisions, bytes) else json.dumps({"items": self.revisions}).encode()
            )
        self.asked.append(more["params"])
        if more["params"]["limit"] == "1":
            return json.dumps({"items": [{}] * self.strangers}).encode()
        whole = {"labelSelector", "continue"}.isdisjoint(more["params"])
        meta = {"resourceVersion": "5", **({"continue": "t1", "remainingItemCount": self.remaining} if whole else {})}
        items = [{"metadata": {"namespace": "a", "name": "daemon" if whole else "job"}}]
        return json.dumps({"metadata": meta, "items": items}).encode()


def revision(name: str, resources: Any = None, namespace: str = "kube-system", **meta: Any) -> dict[str, Any]:
    labels = {"controller-revision-hash": name} if name else {}
    spec = {"containers": [{"name": "a"}, {"name": "b", "resources": resources or {"requests": {"cpu": "1"}}}]}
    return {
        "metadata": {"namespace": namespace, "labels": labels, **SET, **meta},
        "data": {"spec": {"template": {"spec": spec}}},
    }


NOT_IN = {"labelSelector": "controller-revision-hash notin (a,b)"}


@pytest.mark.parametrize(
    ("server", "query"),
    [
        (Server([revision("b"), revision("a", namespace="gmp")]), NOT_IN),
        (Server([revision("b"), revision("a"), revision("g", GPU), revision("")]), NOT_IN),
        (Server([revision("g", GPU), revision("g"), revision("g", GPU)]), {}),
        (Server([revision("s", ownerReferences=[{"kind": "StatefulSet"}])]), {}),
        (Server([{**revision("d"), "data": {"spec": None}}, {**revision("e"), "data": None}]), {}),
        (Server([revision("b"), revision("a")], strangers=1), {}),
        (Server(b"no list"), {}),
        (Server(NotAllowed("no")), {}),
        (Server([]), {}),
    ],
    ids=["daemon sets", "some with GPUs", "unclear", "others", "no template", "claimed", "odd", "no", "none"],
)  # fmt: skip
async def test_pods_are_left_out_that_certainly_ask_for_no_gpu(server: Server, query: dict[str, str]) -> None:
    assert await gpu_pod_selectors(server) == query
    assert await gpu_pod_selectors(server, HOLDS_ITS_NODE) == {"fieldSelector": HOLDS_ITS_NODE, **query}


@pytest.mark.parametrize(
    ("server", "asked"),
    [
        (Server([revision("a"), revision("b")]), ["100", "1", "2000"]),
        (Server([revision("a"), revision("b")], remaining=LONG_LIST_OBJECTS), ["100", "500"]),
        (Server([revision("a"), revision("b")], strangers=1), ["100", "1", "500"]),
    ],
    ids=["long", "short", "all are needed"],
)
async def test_only_of_a_long_list_it_is_asked_which_are_needed(server: Server, asked: list[str]) -> None:
    source = HttpSource(server, PODS, "pods", query=gpu_pod_selectors)
    async with aclosing(follow_kind(source, reader_of("pods"))) as changes:
        _, listed = await first(2, changes)
    assert [each["limit"] for each in server.asked] == asked
    assert [name for _, name in listed.objects] == (["job"] if asked[-1] == "2000" else ["daemon", "job"])
    if "1" in asked:
        claims = {
            "labelSelector": "controller-revision-hash in (a,b)",
            "fieldSelector": "metadata.namespace!=kube-system",
        }
        assert server.asked[1] == {**claims, "limit": "1"}
