"""GKE's actions on nodes: replaces reported ones, provides those of DWS, runs agents."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from practice.clock import stamp
from practice.controllers.base import Controller
from practice.controllers.objects import deleting, key_of
from practice.objects.refusal import ApiError
from practice.objects.resources import NODES, PODS, PROVISIONINGREQUESTS
from practice.scene.gke import count_agents, start_exporters
from practice.scene.machines import FLEX_POOL, another_node, make_ready

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from practice.controllers.base import ControlPlane
    from practice.controllers.objects import Key, Object
    from practice.objects.resources import Resource

_FAULT, _STATUS = "cloud.google.com/fault-behavior", "cloud.google.com/report-and-replace-status"
_POOL, _RESERVED = "cloud.google.com/gke-nodepool", "cloud.google.com/reservation-name"
_STEPS = ((30.0, "PodsEvicted"), (60.0, "OperationRUNNING"))
"""Practice seconds after the one before, and what the label says from then on."""
_REPLACED = 540.0
_READY = 60.0
_ACCEPTED, _PROVISIONED = 5.0, 90.0
_CLASS = "queued-provisioning.gke.io"
_FLEX_MOST = 8


class Replacements(Controller):
    """Replaces hosts that are reported as faulty while the cluster is live."""

    def __init__(self, plane: ControlPlane) -> None:
        super().__init__(plane)
        self._taken_up: set[str] = set()

    def watches(self) -> dict[Resource, Callable[[Object], Iterable[Key]]]:
        return {NODES: lambda obj: [key_of(obj)]}

    def reconcile(self, key: Key) -> None:
        """Replace a node that was reported now; reports from before the opening are left alone."""
        node = self.storage.find(NODES, *key)
        if node is None or key[1] in self._taken_up:
            return
        labels = node["metadata"].get("labels") or {}
        if not labels.get(_FAULT) or labels.get(_STATUS):
            return
        self._taken_up.add(key[1])
        if not self.clock.live:
            return
        if not labels.get(_RESERVED):
            self.clock.after(_STEPS[0][0], lambda: self._record_event(key, "Error"))
            return
        after = 0.0
        for seconds, word in _STEPS:
            after += seconds
            self.clock.after(after, partial(self._record_event, key, word))
        self.clock.after(after + _REPLACED, lambda: self._replace(key))

    def _record_event(self, key: Key, word: str) -> None:
        def say(node: Object) -> None:
            node["metadata"].setdefault("labels", {})[_STATUS] = word
            if word == "PodsEvicted":
                node["spec"]["unschedulable"] = True

        with suppress(ApiError):  # gone in the meantime
            self.storage.modify(NODES, *key, say)
        if word == "PodsEvicted":
            evict(self, key[1])

    def _replace(self, key: Key) -> None:
        """Delete the node and create another with the same name."""
        old = self.storage.find(NODES, *key)
        if old is None:
            return
        evict(self, key[1])
        pool = old["metadata"]["labels"][_POOL]
        with suppress(ApiError):  # gone in the meantime
            self.storage.delete(NODES, *key)
        self._taken_up.discard(key[1])
        add_machine(self, pool)


class FlexStart(Controller):
    """Handles ProvisioningRequests of DWS: all nodes at once, or a refusal if there are too many."""

    def __init__(self, plane: ControlPlane) -> None:
        super().__init__(plane)
        self._seen: set[Key] = set()

    def watches(self) -> dict[Resource, Callable[[Object], Iterable[Key]]]:
        return {PROVISIONINGREQUESTS: lambda obj: [key_of(obj)]}

    def reconcile(self, key: Key) -> None:
        """Accept or refuse a new request."""
        request = self.storage.find(PROVISIONINGREQUESTS, *key)
        if request is None or key in self._seen or request["spec"].get("provisioningClassName") != _CLASS:
            return
        self._seen.add(key)
        self.clock.after(_ACCEPTED, lambda: self._accept(key))

    def _accept(self, key: Key) -> None:
        request = self.storage.find(PROVISIONINGREQUESTS, *key)
        if request is None:
            return
        wanted = sum(int(each.get("count") or 0) for each in request["spec"].get("podSets") or ())
        if wanted > _FLEX_MOST:
            words = f"The pools of this cluster can have {_FLEX_MOST} machines of this kind, not {wanted}."
            self._set(key, "Failed", "True", "NoMatchingNodePool", words)
            return
        self._set(key, "Accepted", "True", "Accepted", "Provisioning Request was successfully queued.")
        words = "Waiting for resources. Currently there are not enough resources available to fulfill the request."
        self._set(key, "Provisioned", "False", "ResourcesUnavailable", words)
        waits = float((request["metadata"].get("annotations") or {}).get("a4-practice/waits", _PROVISIONED))
        self.clock.after(waits, lambda: self._provision(key, wanted))

    def _provision(self, key: Key, wanted: int) -> None:
        if self.storage.find(PROVISIONINGREQUESTS, *key) is None:
            return
        for _ in range(wanted):
            add_machine(self, FLEX_POOL)
        self._set(key, "Provisioned", "True", "Provisioned", "Provisioning Request was successfully provisioned.")

    def _set(self, key: Key, kind: str, status: str, reason: str, words: str) -> None:
        new = {"type": kind, "status": status, "reason": reason, "message": words,
               "lastTransitionTime": stamp(self.clock.now())}  # fmt: skip

        def put(request: Object) -> None:
            conditions = request.setdefault("status", {}).setdefault("conditions", [])
            conditions[:] = [*(each for each in conditions if each["type"] != kind), new]

        with suppress(ApiError):  # gone in the meantime
            self.storage.modify(PROVISIONINGREQUESTS, *key, put, subresource="status")


class Agents(Controller):
    """Runs GKE's DaemonSets on ready nodes, and the exporter's pods in the scene."""

    def __init__(self, plane: ControlPlane, *, scene: bool) -> None:
        super().__init__(plane)
        self._scene = scene

    def watches(self) -> dict[Resource, Callable[[Object], Iterable[Key]]]:
        return {NODES: lambda _: [("", "agents")]}

    def reconcile(self, key: Key) -> None:
        if self._scene:
            start_exporters(self.storage)
        count_agents(self.storage)


def evict(controller: Controller, node: str) -> None:
    """Delete the pods of a node with their grace period."""
    for pod in controller.storage.list(PODS):
        if pod["spec"].get("nodeName") == node and not deleting(pod):
            with suppress(ApiError):  # gone in the meantime
                controller.storage.delete(PODS, *key_of(pod))


def add_machine(controller: Controller, pool: str) -> None:
    """Add a node to a pool; it becomes ready a minute later."""
    storage, clock = controller.storage, controller.clock
    nodes = (node["metadata"] for node in storage.list(NODES))
    names = sorted(meta["name"] for meta in nodes if meta.get("labels", {}).get(_POOL) == pool)
    node = another_node(pool, names, clock.now())
    key = ("", node["metadata"]["name"])
    storage.create(NODES, node, keep_status=True)

    def get_ready() -> None:
        with suppress(ApiError):  # it may be gone again
            storage.modify(NODES, *key, lambda draft: make_ready(draft, clock.now()), subresource="status")

    clock.after(_READY, get_ready)
