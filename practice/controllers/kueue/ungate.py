"""The topology ungater: assigns nodes to the pods of an admitted Workload by rank."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from practice.controllers.base import Controller
from practice.controllers.kueue import label_names
from practice.controllers.kueue.assignment import decode_domains
from practice.controllers.kueue.podsets import gates_of
from practice.controllers.objects import Key, Object, annotations_of, is_being_deleted, is_true, key_of, labels_of
from practice.objects.resources import PODS, WORKLOADS, Resource


class TopologyUngater(Controller):
    """Removes the topology gate from pods and sets the node selector of their domain."""

    def watches(self) -> dict[Resource, Callable[[Object], Iterable[Key]]]:
        """Return the Workloads to reconcile when an object changes: admitted ones, and those of gated pods."""
        return {WORKLOADS: lambda obj: [key_of(obj)] if is_true(obj, "Admitted") else [], PODS: self._workload_of_pod}

    def _workload_of_pod(self, pod: Object) -> list[Key]:
        name = annotations_of(pod).get(label_names.WORKLOAD)
        return [(pod["metadata"]["namespace"], name)] if name and label_names.TOPOLOGY_GATE in gates_of(pod) else []

    def reconcile(self, key: Key) -> None:
        workload = self.storage.find(WORKLOADS, *key)
        if workload is None or not is_true(workload, "Admitted"):
            return
        pods = [
            pod for pod in self.storage.list(PODS, key[0]) if annotations_of(pod).get(label_names.WORKLOAD) == key[1]
        ]
        requests = {item["name"]: item.get("topologyRequest") or {} for item in workload["spec"]["podSets"]}
        for assignment in workload["status"]["admission"]["podSetAssignments"]:
            if assignment.get("topologyAssignment"):
                name = assignment["name"]
                mine = [pod for pod in pods if labels_of(pod).get(label_names.PODSET) == name and not _has_ended(pod)]
                self._assign_and_ungate(mine, assignment, requests[name])

    def _assign_and_ungate(self, pods: list[Object], assignment: Object, request: Object) -> None:
        topology = assignment["topologyAssignment"]
        places = [values for values, count in decode_domains(topology) for _ in range(count)]
        levels = topology["levels"]
        gated = [pod for pod in pods if label_names.TOPOLOGY_GATE in gates_of(pod)]
        ranks = [_rank_in_pod_set(pod, request, assignment["count"]) for pod in pods]
        ranked = (
            None not in ranks and len(set(ranks)) == len(ranks) and all((rank or 0) < len(places) for rank in ranks)
        )
        if ranked:
            order = dict(zip((key_of(pod) for pod in pods), ranks, strict=True))
            for pod in gated:
                self._assign_pod(pod, levels, places[order[key_of(pod)] or 0])
            return
        left = list(places)
        for pod in pods:
            there = tuple((pod["spec"].get("nodeSelector") or {}).get(level, "") for level in levels)
            if pod not in gated and there in left:
                left.remove(there)
        for pod, values in zip(gated, left, strict=False):
            self._assign_pod(pod, levels, values)

    def _assign_pod(self, pod: Object, levels: list[str], values: tuple[str, ...]) -> None:
        def change(obj: Object) -> None:
            spec = obj["spec"]
            gates = [gate for gate in spec.get("schedulingGates") or () if gate["name"] != label_names.TOPOLOGY_GATE]
            spec.pop("schedulingGates", None)
            if gates:
                spec["schedulingGates"] = gates
            spec["nodeSelector"] = {**(spec.get("nodeSelector") or {}), **dict(zip(levels, values, strict=True))}

        self.storage.modify(PODS, *key_of(pod), change)


def _rank_in_pod_set(pod: Object, request: Object, count: int) -> int:
    """Return a pod's number within its pod set, -1 if its labels do not show it."""
    marks = labels_of(pod)
    index = marks.get(request.get("podIndexLabel", ""))
    group = marks.get(request["subGroupIndexLabel"]) if "subGroupIndexLabel" in request else "0"
    if index is None or group is None:
        return -1
    return int(group) * (count // int(request.get("subGroupCount", 1))) + int(index)


def _has_ended(pod: Object) -> bool:
    return is_being_deleted(pod) or pod["status"].get("phase") in ("Succeeded", "Failed")
