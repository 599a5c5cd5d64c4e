"""The node controllers: heartbeats, taints by condition, and eviction from tainted nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from practice.clock import format_timestamp
from practice.controllers.base import Controller
from practice.controllers.matching import is_tolerated
from practice.controllers.objects import Key, Object, find_condition, is_being_deleted, key_of
from practice.objects.resources import NODES, PODS, Resource

_HEARTBEAT_SECONDS = 300.0
_CORDON = "node.kubernetes.io/unschedulable"
_NOT_READY = "node.kubernetes.io/not-ready"


class NodeController(Controller):
    """Keeps taints in step with cordoning and readiness, and evicts pods that do not tolerate them."""

    def watches(self) -> dict[Resource, Callable[[Object], Iterable[Key]]]:
        return {NODES: lambda obj: [key_of(obj)], PODS: self._node_of_pod}

    def _node_of_pod(self, pod: Object) -> list[Key]:
        node = self.storage.find(NODES, "", pod["spec"].get("nodeName") or "")
        return [key_of(node)] if node is not None and _no_execute_taints(node) else []

    def reconcile(self, key: Key) -> None:
        node = self.storage.find(NODES, *key)
        if node is None:
            return
        wanted = _wanted_taints(node, format_timestamp(self.clock.now()))
        if wanted != (node["spec"].get("taints") or []):
            node = self.storage.modify(NODES, *key, lambda obj: _set_taints(obj, wanted))
        for pod in self.storage.list(PODS) if _no_execute_taints(node) else ():
            if pod["spec"].get("nodeName") == key[1] and not is_being_deleted(pod):
                self._evict_untolerating(pod, _no_execute_taints(node))

    def _evict_untolerating(self, pod: Object, taints: list[Object]) -> None:
        tolerations = pod["spec"].get("tolerations") or []
        for taint in taints:
            matching = [item for item in tolerations if is_tolerated([item], taint)]
            if not matching:
                text = f"Marking for deletion Pod {'/'.join(key_of(pod))}"
                self.record(pod, "Normal", "TaintManagerEviction", text, source="taint-eviction-controller")
                self.storage.delete(PODS, *key_of(pod))
                return

    def renew_heartbeats(self) -> None:
        """Renew the heartbeats of ready nodes at intervals."""
        moment = format_timestamp(self.clock.now())
        for node in self.storage.list(NODES):
            ready = find_condition(node, "Ready")
            if ready is not None and ready["status"] == "True":
                self.storage.modify_status(NODES, *key_of(node), lambda obj: _renew_heartbeat(obj, moment))
        self.clock.call_later(_HEARTBEAT_SECONDS * self.clock.speed, self.renew_heartbeats)


def _no_execute_taints(node: Object) -> list[Object]:
    return [taint for taint in node["spec"].get("taints") or () if taint["effect"] == "NoExecute"]


def _wanted_taints(node: Object, moment: str) -> list[Object]:
    taints = list(node["spec"].get("taints") or ())
    ready = find_condition(node, "Ready")
    marks = {
        (_CORDON, "NoSchedule"): bool(node["spec"].get("unschedulable")),
        (_NOT_READY, "NoSchedule"): ready is not None and ready["status"] == "False",
    }
    for (key, effect), wanted in marks.items():
        there = [taint for taint in taints if taint["key"] == key and taint["effect"] == effect]
        if wanted and not there:
            taints.append({"key": key, "effect": effect, "timeAdded": moment})
        elif not wanted and there:
            taints = [taint for taint in taints if taint not in there]
    return taints


def _set_taints(node: Object, taints: list[Object]) -> None:
    if taints:
        node["spec"]["taints"] = taints
    else:
        node["spec"].pop("taints", None)


def _renew_heartbeat(node: Object, moment: str) -> None:
    for found in node["status"]["conditions"]:
        found["lastHeartbeatTime"] = moment
