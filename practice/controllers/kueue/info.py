"""Converts Workload objects to the input of the library of Kueue's rules."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from kueue_rules import (
    BACK_OF_QUEUE,
    AdmissionCheck,
    AdmissionVerdict,
    Requirement,
    SnapshotPodSet,
    SnapshotWorkload,
    Toleration,
    TopologyRequest,
    open_checks,
)
from practice.clock import parse_timestamp
from practice.controllers.kueue.assignment import decode_domains
from practice.controllers.objects import Object, find_condition, is_true, key_of
from practice.controllers.quantity import Amounts, parse_amounts, pod_requests


def read_workload(obj: Object, cluster_queue: str = "", *, layers: bool = False) -> SnapshotWorkload:
    """A Workload with its total requests: from its admission if it has one, else from its pod sets.

    `layers`: whether slices within slices count, as the gate TASMultiLayerTopology says.
    """
    status = obj.get("status", {})
    admission = status.get("admission")
    failed = tuple(each["name"] for each in status.get("unhealthyNodes") or ())
    reserved = find_condition(obj, "QuotaReserved")
    return SnapshotWorkload(
        key=key_of(obj),
        uid=obj["metadata"]["uid"],
        cluster_queue=admission["clusterQueue"] if admission else cluster_queue,
        priority=int(obj["spec"].get("priority") or 0),
        queued=parse_timestamp(_queue_time(obj)),
        pod_sets=_pod_sets(obj, admission, layers=layers),
        reserved=parse_timestamp(reserved["lastTransitionTime"]) if reserved else 0.0,
        evicted=is_true(obj, "Evicted"),
        second_pass=needs_second_pass(obj),
        failed_nodes=failed,
    )


def needs_second_pass(obj: Object) -> bool:
    """Whether a Workload with quota must be tried again for nodes, since its checks became ready or a node failed."""
    if not has_quota(obj) or any(is_true(obj, each) for each in ("Finished", "Evicted")):
        return False
    status = obj["status"]
    assigned, checks = status["admission"]["podSetAssignments"], admission_checks(obj)
    if not is_true(obj, "Admitted"):
        return lacks_places(obj) and bool(checks) and not open_checks(checks)
    failed = {each["name"] for each in status.get("unhealthyNodes") or ()}
    held = (each["topologyAssignment"] for each in assigned if each.get("topologyAssignment"))
    return any(values[-1] in failed for one in held for values, _ in decode_domains(one))


def lacks_places(obj: Object) -> bool:
    """Whether a Workload has quota, and its nodes are still to be chosen."""
    return has_quota(obj) and any(
        each.get("delayedTopologyRequest") == "Pending" and not each.get("topologyAssignment")
        for each in obj["status"]["admission"]["podSetAssignments"]
    )


def why_not_tried(obj: Object, ranges: Iterable[Object]) -> str:
    """The reason why Kueue does not try a Workload: its limits or the namespace's LimitRanges; empty if it does."""
    most: Amounts = {}
    least: Amounts = {}
    for limit in (each for one in ranges for each in one["spec"].get("limits") or () if each["type"] == "Container"):
        for name, value in parse_amounts(limit.get("max")).items():
            most[name] = min(value, most.get(name, value))
        for name, value in parse_amounts(limit.get("min")).items():
            least[name] = max(value, least.get(name, value))
    over, outside = [], []
    for path, container in _iter_containers(obj):
        resources = container.get("resources") or {}
        wanted, limits = (parse_amounts(resources.get(each)) for each in ("requests", "limits"))
        asked = wanted | limits
        floor = {name: value for name, value in least.items() if name in asked}
        over += [f"{path}{names}: requests must not exceed its limits" for names in _above(wanted, limits)]
        outside += [f"{path}{names}: requests must not be above the limitRange max" for names in _above(asked, most)]
        outside += [f"{path}{names}: requests must not be below the limitRange min" for names in _above(floor, asked)]
    if over:
        return f"resources validation failed: {_format_go_list(over)}"
    return f"resources didn't satisfy LimitRange constraints: {_format_go_list(outside)}" if outside else ""


def _iter_containers(obj: Object) -> Iterator[tuple[str, Object]]:
    """Yield (text by which Kueue begins a message on it, container) of a Workload's pod sets."""
    for number, pod_set in enumerate(obj["spec"]["podSets"]):
        for kind in ("initContainers", "containers"):
            for at, container in enumerate(pod_set["template"]["spec"].get(kind) or ()):
                yield f"spec.podSets[{number}].template.spec.{kind}[{at}]: Invalid value: ", container


def _above(amounts: Amounts, bounds: Amounts) -> list[str]:
    """The names of resources whose amounts exceed the bounds, as a list of one JSON text; empty if none does."""
    found = [name for name, value in sorted(amounts.items()) if value > bounds.get(name, value)]
    return [json.dumps(found)] if found else []


def _format_go_list(faults: list[str]) -> str:
    return faults[0] if len(faults) == 1 else f"[{', '.join(faults)}]"


def _pod_sets(obj: Object, admission: Object | None, *, layers: bool) -> list[SnapshotPodSet]:
    status = obj.get("status", {})
    assigned = {item["name"]: item for item in admission["podSetAssignments"]} if admission else {}
    given_back = {item["name"]: item["count"] for item in status.get("reclaimablePods") or ()}
    updates = [
        update
        for check in status.get("admissionChecks") or ()
        if check["state"] == AdmissionVerdict.READY
        for update in check.get("podSetUpdates") or ()
    ]
    found = []
    for pod_set in obj["spec"]["podSets"]:
        given = assigned.get(pod_set["name"])
        whole = (given or pod_set).get("count") or pod_set["count"]
        left = min(whole, max(pod_set["count"] - given_back.get(pod_set["name"], 0), 0))
        one = read_pod_set(pod_set, layers=layers).scaled(left)
        if given is not None:
            held = parse_amounts(given.get("resourceUsage"))
            one.requests = {name: value * left // whole if whole else 0 for name, value in held.items()}
            one.flavors = given.get("flavors") or {}
            if given.get("topologyAssignment"):
                one.places = tuple(decode_domains(given["topologyAssignment"]))
        for update in (each for each in updates if each["name"] == pod_set["name"]):
            one.selector = {**one.selector, **(update.get("nodeSelector") or {})}
            one.tolerations = (*one.tolerations, *parse_tolerations(update.get("tolerations")))
        found.append(one)
    return found


def read_pod_set(pod_set: Object, *, layers: bool = False) -> SnapshotPodSet:
    """A pod set with the total requests of all its pods."""
    spec = pod_set["template"]["spec"]
    single = pod_requests(spec)
    affinity = spec.get("affinity") or {}
    return SnapshotPodSet(
        pod_set["name"],
        pod_set["count"],
        {name: value * pod_set["count"] for name, value in single.items()},
        single,
        topology=_topology_request(pod_set, layers=layers),
        selector=spec.get("nodeSelector") or {},
        affinity=_node_affinity_terms(affinity),
        has_affinity=bool(affinity),
        tolerations=parse_tolerations(spec.get("tolerations")),
        min_count=pod_set.get("minCount"),
    )


def _topology_request(pod_set: Object, *, layers: bool) -> TopologyRequest:
    request = pod_set.get("topologyRequest") or {}
    slices = [
        (each["topology"], each["size"]) for each in request.get("podsetSliceRequiredTopologyConstraints") or ()
    ] or [(request.get("podSetSliceRequiredTopology") or "", request.get("podSetSliceSize") or 0)]
    return TopologyRequest(
        required=request.get("required") or "",
        preferred=request.get("preferred") or "",
        unconstrained=request.get("unconstrained"),
        slice_level=slices[0][0],
        slice_size=slices[0][1] if slices[0][0] else 1,
        inner_layers=tuple(slices[1:]) if layers else (),
        group=request.get("podSetGroupName") or "",
    )


def _node_affinity_terms(affinity: Object) -> tuple[tuple[Requirement, ...], ...] | None:
    required = (affinity.get("nodeAffinity") or {}).get("requiredDuringSchedulingIgnoredDuringExecution")
    if not required:
        return None
    return tuple(
        parse_requirements([*(term.get("matchExpressions") or ()), *(term.get("matchFields") or ())])
        for term in required.get("nodeSelectorTerms") or ()
    )


def parse_requirements(expressions: Iterable[Object]) -> tuple[Requirement, ...]:
    return tuple(Requirement(each["key"], each["operator"], tuple(each.get("values") or ())) for each in expressions)


def parse_tolerations(expressions: Iterable[Object] | None) -> tuple[Toleration, ...]:
    return tuple(
        Toleration(
            each.get("key") or "", each.get("operator") or "Equal", each.get("value") or "", each.get("effect") or ""
        )
        for each in expressions or ()
    )


def local_queue_of(obj: Object) -> str:
    """Return the name of the LocalQueue a Workload waits in; empty if it names none."""
    return str(obj["spec"].get("queueName") or "")


def has_quota(obj: Object) -> bool:
    return is_true(obj, "QuotaReserved") and bool(obj["status"].get("admission"))


def admission_checks(obj: Object) -> list[AdmissionCheck]:
    """The states of a Workload's admission checks."""
    listed = obj.get("status", {}).get("admissionChecks") or ()
    return [AdmissionCheck(each["name"], each["state"], each.get("message", "")) for each in listed]


def is_active(obj: Object) -> bool:
    return bool(obj["spec"].get("active", True))


def _queue_time(obj: Object) -> str:
    """Return the time by which Kueue sorts a Workload: its creation, or the eviction that put it back."""
    evicted = find_condition(obj, "Evicted")
    if evicted is not None and evicted["status"] == "True" and evicted["reason"] in BACK_OF_QUEUE:
        return str(evicted["lastTransitionTime"])
    return str(obj["metadata"]["creationTimestamp"])
