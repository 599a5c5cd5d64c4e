"""GKE's actions on nodes: replaces nodes reported as faulty, provides DWS nodes, runs agents."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial

from practice.clock import Clock
from practice.controllers.base import Controller, ControlPlane
from practice.controllers.objects import Key, Object, is_being_deleted, key_of, labels_of, set_condition
from practice.objects.api_error import ApiError
from practice.objects.resources import NODES, PODS, PROVISIONINGREQUESTS, Resource
from practice.objects.storage import Storage
from practice.scene.gke import start_exporters, update_agent_status
from practice.scene.machines import FLEX_POOL, make_ready, new_node

_FAULT, _STATUS = "cloud.google.com/fault-behavior", "cloud.google.com/report-and-replace-status"
_POOL, _RESERVED = "cloud.google.com/gke-nodepool", "cloud.google.com/reservation-name"
_REPAIR_STEPS = ((30.0, "PodsEvicted"), (60.0, "OperationRUNNING"))
"""(practice seconds after the step before, value of the repair label from then on) of each step of a repair."""
_REPLACEMENT_SECONDS = 540.0
_READY_SECONDS = 60.0
_ACCEPTED, _PROVISIONED = 5.0, 90.0
_PROVISIONING_CLASS = "queued-provisioning.gke.io"
_FLEX_MAX_NODES = 8


class NodeReplacements(Controller):
    """Replaces hosts that are reported as faulty while the cluster is live."""

    def __init__(self, plane: ControlPlane) -> None:
        super().__init__(plane)
        self._taken_up: set[str] = set()

    def watches(self) -> dict[Resource, Callable[[Object], Iterable[Key]]]:
        return {NODES: lambda obj: [key_of(obj)]}

    def reconcile(self, key: Key) -> None:
        """Replace a node reported since the opening; earlier reports are ignored."""
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
            self.clock.call_later(_REPAIR_STEPS[0][0], lambda: self._record_event(key, "Error"))
            return
        after = 0.0
        for seconds, word in _REPAIR_STEPS:
            after += seconds
            self.clock.call_later(after, partial(self._record_event, key, word))
        self.clock.call_later(after + _REPLACEMENT_SECONDS, lambda: self._replace_node(key))

    def _record_event(self, key: Key, word: str) -> None:
        def say(node: Object) -> None:
            node["metadata"].setdefault("labels", {})[_STATUS] = word
            if word == "PodsEvicted":
                node["spec"]["unschedulable"] = True

        with suppress(ApiError):  # gone in the meantime
            self.storage.modify(NODES, *key, say)
        if word == "PodsEvicted":
            delete_pods_of_node(self.storage, key[1])

    def _replace_node(self, key: Key) -> None:
        """Delete the node and create another with the same name."""
        old = self.storage.find(NODES, *key)
        if old is None:
            return
        delete_pods_of_node(self.storage, key[1])
        pool = old["metadata"]["labels"][_POOL]
        with suppress(ApiError):  # gone in the meantime
            self.storage.delete(NODES, *key)
        self._taken_up.discard(key[1])
        add_machine(self.storage, self.clock, pool)


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
        if request is None or key in self._seen or request["spec"].get("provisioningClassName") != _PROVISIONING_CLASS:
            return
        self._seen.add(key)
        self.clock.call_later(_ACCEPTED, lambda: self._accept_request(key))

    def _accept_request(self, key: Key) -> None:
        request = self.storage.find(PROVISIONINGREQUESTS, *key)
        if request is None:
            return
        wanted = sum(int(each.get("count") or 0) for each in request["spec"].get("podSets") or ())
        if wanted > _FLEX_MAX_NODES:
            words = f"The pools of this cluster can have {_FLEX_MAX_NODES} machines of this kind, not {wanted}."
            self._set_condition(key, "Failed", True, "NoMatchingNodePool", words)
            return
        self._set_condition(key, "Accepted", True, "Accepted", "Provisioning Request was successfully queued.")
        words = "Waiting for resources. Currently there are not enough resources available to fulfill the request."
        self._set_condition(key, "Provisioned", False, "ResourcesUnavailable", words)
        waits = float((request["metadata"].get("annotations") or {}).get("a4-practice/waits", _PROVISIONED))
        self.clock.call_later(waits, lambda: self._provision_nodes(key, wanted))

    def _provision_nodes(self, key: Key, nodes: int) -> None:
        if self.storage.find(PROVISIONINGREQUESTS, *key) is None:
            return
        for _ in range(nodes):
            add_machine(self.storage, self.clock, FLEX_POOL)
        self._set_condition(
            key, "Provisioned", True, "Provisioned", "Provisioning Request was successfully provisioned."
        )

    def _set_condition(self, key: Key, kind: str, status: bool, reason: str, message: str) -> None:
        now = self.clock.now()
        with suppress(ApiError):  # gone in the meantime
            self.storage.modify_status(
                PROVISIONINGREQUESTS, *key, lambda request: set_condition(request, kind, status, reason, message, now)
            )


class NodeAgents(Controller):
    """Runs the DaemonSets of GKE on ready nodes, and in the full scene the exporter's pods."""

    def __init__(self, plane: ControlPlane, *, scene: bool) -> None:
        super().__init__(plane)
        self._scene = scene

    def watches(self) -> dict[Resource, Callable[[Object], Iterable[Key]]]:
        return {NODES: lambda _: [("", "agents")]}

    def reconcile(self, key: Key) -> None:
        if self._scene:
            start_exporters(self.storage)
        update_agent_status(self.storage)


def delete_pods_of_node(storage: Storage, node: str) -> None:
    """Delete the pods of a node with their grace period."""
    for pod in storage.list(PODS):
        if pod["spec"].get("nodeName") == node and not is_being_deleted(pod):
            with suppress(ApiError):  # gone in the meantime
                storage.delete(PODS, *key_of(pod))


def nodes_of(storage: Storage, pool: str) -> list[str]:
    """Names of a pool's nodes, in order."""
    return sorted(node["metadata"]["name"] for node in storage.list(NODES) if labels_of(node).get(_POOL) == pool)


def add_machine(storage: Storage, clock: Clock, pool: str, seconds: float = _READY_SECONDS) -> None:
    """Add a node to a pool; it becomes ready after some seconds of practice time."""
    node = new_node(pool, nodes_of(storage, pool), clock.now())
    storage.create(NODES, node, keep_status=True)

    def get_ready() -> None:
        with suppress(ApiError):  # it may be gone again
            storage.modify_status(NODES, *key_of(node), lambda draft: make_ready(draft, clock.now()))

    clock.call_later(seconds, get_ready)
