"""The scheduler: chooses a node for every pending pod, or records why none fits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from practice.clock import format_timestamp
from practice.controllers.base import Controller
from practice.controllers.matching import first_untolerated_taint, node_matches_spec, selector_matches
from practice.controllers.objects import Key, Object, find_condition, is_being_deleted, key_of, labels_of
from practice.controllers.quantity import Amounts, add_amounts, parse_amounts, pod_requests
from practice.objects.resources import NODES, PERSISTENTVOLUMECLAIMS, PODS, Resource

_UNRESOLVABLE = (
    "node(s) were unschedulable",
    "node(s) had untolerated taint(s)",
    "node(s) didn't match Pod's node affinity/selector",
    "node(s) didn't match pod affinity rules",
)
"""Reasons against a node that evicting its pods would not change."""
_PORTS = "node(s) didn't have free ports for the requested pod ports"
_BEYOND_CAPACITY = "\0"  # behind "Insufficient X" where the machine would have too little even if it were empty
_TOPOLOGY_LABELS = ("topology.kubernetes.io/region", "topology.kubernetes.io/zone")
"""Labels that are copied from the node to a pod when the pod is bound."""


class Scheduler(Controller):
    """Places pods: filters nodes by cordon, taints, selector, affinity and resources; prefers the fullest."""

    def watches(self) -> dict[Resource, Callable[[Object], Iterable[Key]]]:
        """Return the pending pods to reconcile: the one that changed, or all when capacity may be free."""
        return {
            PODS: self._pods_to_schedule,
            NODES: lambda _: self._all_pending_pods(),
            PERSISTENTVOLUMECLAIMS: lambda _: self._all_pending_pods(),
        }

    def _pods_to_schedule(self, pod: Object) -> list[Key]:
        if pod["spec"].get("nodeName"):
            gone = is_being_deleted(pod) or pod["status"].get("phase") in ("Succeeded", "Failed")
            return self._all_pending_pods() if gone else []
        return [key_of(pod)]

    def _all_pending_pods(self) -> list[Key]:
        return [key_of(pod) for pod in self.storage.list(PODS) if _is_schedulable(pod)]

    def reconcile(self, key: Key) -> None:
        """Place one pod, or record why it does not fit."""
        pod = self.storage.find(PODS, *key)
        if pod is None or not _is_schedulable(pod):
            return
        nodes = self.storage.list(NODES)
        why = self._missing_claim(pod)
        if why:
            none = f"0/{len(nodes)} nodes are available:"
            unhelpful = f"preemption: {none} {len(nodes)} Preemption is not helpful for scheduling."
            self._set_unschedulable(pod, f"{none} {why}. {_format_preemption(unhelpful)}")
            return
        used, taken = self._requested_per_node(), self._host_ports_per_node() if _host_ports(pod) else {}
        reasons = {
            node["metadata"]["name"]: self._node_refusals(pod, node, used, taken.get(node["metadata"]["name"], set()))
            for node in nodes
        }
        fitting = [node for node in nodes if not reasons[node["metadata"]["name"]]]
        if not fitting:
            self._set_unschedulable(pod, _format_no_node(list(reasons.values())))
            return
        self._bind_pod(pod, max(fitting, key=lambda node: (_free_gpus(used, node), node["metadata"]["name"])))

    def _requested_per_node(self) -> dict[str, Amounts]:
        used: dict[str, Amounts] = {}
        for pod in self.storage.list(PODS):
            node = pod["spec"].get("nodeName")
            if node and pod["status"].get("phase") not in ("Succeeded", "Failed"):
                total = used.setdefault(node, {})
                add_amounts(total, pod_requests(pod["spec"]))
                add_amounts(total, {"pods": 1000})
        return used

    def _host_ports_per_node(self) -> dict[str, set[tuple[str, int]]]:
        """Return by node the (protocol, port) pairs in use there."""
        taken: dict[str, set[tuple[str, int]]] = {}
        for pod in self.storage.list(PODS):
            node = pod["spec"].get("nodeName")
            if node and pod["status"].get("phase") not in ("Succeeded", "Failed"):
                taken.setdefault(node, set()).update(_host_ports(pod))
        return taken

    def _node_refusals(
        self, pod: Object, node: Object, used: dict[str, Amounts], ports: set[tuple[str, int]]
    ) -> list[str]:
        spec = node.get("spec") or {}
        tolerations = pod["spec"].get("tolerations") or []
        if spec.get("unschedulable") and not _tolerates_cordon(tolerations):
            return [_UNRESOLVABLE[0]]
        if first_untolerated_taint(spec.get("taints"), tolerations):
            return [_UNRESOLVABLE[1]]
        if not node_matches_spec(pod["spec"], node):
            return [_UNRESOLVABLE[2]]
        if ports & _host_ports(pod):
            return [_PORTS]
        room = parse_amounts(node["status"].get("allocatable"))
        taken = used.get(node["metadata"]["name"], {})
        wanted = {**pod_requests(pod["spec"]), "pods": 1000}
        short = [name for name, value in wanted.items() if value > room.get(name, 0) - taken.get(name, 0)]
        if short:
            beyond = {name for name in short if wanted[name] > room.get(name, 0)}
            marked = ((name, _BEYOND_CAPACITY if name in beyond else "") for name in sorted(short))
            return [(f"Insufficient {name}" if name != "pods" else "Too many pods") + mark for name, mark in marked]
        return [] if self._affinity_holds(pod, node) else [_UNRESOLVABLE[3]]

    def _affinity_holds(self, pod: Object, node: Object) -> bool:
        affinity = pod["spec"].get("affinity") or {}
        rule = "requiredDuringSchedulingIgnoredDuringExecution"
        near = (affinity.get("podAffinity") or {}).get(rule) or ()
        apart = (affinity.get("podAntiAffinity") or {}).get(rule) or ()
        if not near and not apart:
            return True
        others = [
            item for item in self.storage.list(PODS) if item["spec"].get("nodeName") and not is_being_deleted(item)
        ]
        places = {item["metadata"]["name"]: labels_of(item) for item in self.storage.list(NODES)}
        here = labels_of(node)

        def beside(term: Object) -> list[bool]:
            matching = [item for item in others if selector_matches(term.get("labelSelector"), labels_of(item))]
            top = term["topologyKey"]
            return [places.get(item["spec"]["nodeName"], {}).get(top) == here.get(top) for item in matching]

        first = all(selector_matches(term.get("labelSelector"), labels_of(pod)) for term in near)
        return all(any(found := beside(term)) or (not found and first) for term in near) and not any(
            any(beside(term)) for term in apart
        )

    def _missing_claim(self, pod: Object) -> str:
        for volume in pod["spec"].get("volumes") or ():
            claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
            if not claim:
                continue
            found = self.storage.find(PERSISTENTVOLUMECLAIMS, pod["metadata"]["namespace"], claim)
            if found is None:
                return f'persistentvolumeclaim "{claim}" not found'
            if found.get("status", {}).get("phase") != "Bound":
                return "pod has unbound immediate PersistentVolumeClaims"
        return ""

    def _set_unschedulable(self, pod: Object, message: str) -> None:
        found = find_condition(pod, "PodScheduled")
        if found is None or found.get("message") != message:
            self.storage.modify_status(
                PODS, *key_of(pod), lambda obj: self._set_scheduled_condition(obj, "False", "Unschedulable", message)
            )
            self.record(pod, "Warning", "FailedScheduling", message, source="default-scheduler", action="Scheduling")

    def _bind_pod(self, pod: Object, node: Object) -> None:
        name = node["metadata"]["name"]
        key = key_of(pod)
        places = {label: labels_of(node)[label] for label in _TOPOLOGY_LABELS if label in labels_of(node)}

        def bind(obj: Object) -> None:
            obj["spec"]["nodeName"] = name
            obj["metadata"].setdefault("labels", {}).update(places)

        self.storage.modify(PODS, *key, bind, subresource="binding")
        self.storage.modify_status(PODS, *key, lambda obj: self._set_scheduled_condition(obj, "True"))
        text = f"Successfully assigned {key[0]}/{key[1]} to {name}"
        self.record(pod, "Normal", "Scheduled", text, source="default-scheduler", action="Binding")

    def _set_scheduled_condition(self, pod: Object, status: str, reason: str = "", message: str = "") -> None:
        conditions = pod["status"].setdefault("conditions", [])
        new = {"type": "PodScheduled", "status": status, "lastProbeTime": None, "reason": reason, "message": message}
        new = {name: value for name, value in new.items() if value != ""}
        new["lastTransitionTime"] = format_timestamp(self.clock.now())
        pod["status"]["conditions"] = [item for item in conditions if item.get("type") != "PodScheduled"] + [new]


def _is_schedulable(pod: Object) -> bool:
    spec = pod["spec"]
    return not (spec.get("nodeName") or spec.get("schedulingGates") or is_being_deleted(pod)) and (
        spec.get("schedulerName", "default-scheduler") == "default-scheduler"
    )


def _tolerates_cordon(tolerations: list[Object]) -> bool:
    taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    return first_untolerated_taint([taint], tolerations) is None


def _host_ports(pod: Object) -> set[tuple[str, int]]:
    """The host ports that a pod uses."""
    ports = [port for each in pod["spec"].get("containers") or () for port in each.get("ports") or ()]
    return {(port.get("protocol", "TCP"), port["hostPort"]) for port in ports if port.get("hostPort")}


def _free_gpus(used: dict[str, Amounts], node: Object) -> int:
    return used.get(node["metadata"]["name"], {}).get("nvidia.com/gpu", 0)


def _format_preemption(preemption: str) -> str:
    return f"no new claims to deallocate, {preemption}"


def _format_no_node(reasons: list[list[str]]) -> str:
    """Return the scheduler's message for the reasons of all nodes."""
    total = len(reasons)
    if not total:
        return "no nodes available to schedule pods"
    histogram = Counter(reason.removesuffix(_BEYOND_CAPACITY) for node in reasons for reason in node)
    hopeless = sum(
        any(reason in _UNRESOLVABLE or reason.endswith(_BEYOND_CAPACITY) for reason in node) for node in reasons
    )
    helped = Counter({"Preemption is not helpful for scheduling": hopeless})
    helped["No preemption victims found for incoming pod"] = total - hopeless
    preemption = f"preemption: 0/{total} nodes are available: {_format_histogram(helped)}."
    return f"0/{total} nodes are available: {_format_histogram(histogram)}. {_format_preemption(preemption)}"


def _format_histogram(reasons: Counter[str]) -> str:
    return ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items() if count))
