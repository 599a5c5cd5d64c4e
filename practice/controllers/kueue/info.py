"""Converts Workload objects to the input of the library of Kueue's rules."""

from __future__ import annotations

from collections.abc import Iterable

from kueue_rules import (
    BACK_OF_QUEUE,
    AdmissionCheck,
    Requirement,
    SnapshotPodSet,
    SnapshotWorkload,
    Toleration,
    TopologyRequest,
)
from practice.clock import parse_timestamp
from practice.controllers.kueue.assignment import decode_domains
from practice.controllers.objects import Object, find_condition, is_true, key_of
from practice.controllers.quantity import parse_amounts, pod_requests


def read_workload(obj: Object, cluster_queue: str = "") -> SnapshotWorkload:
    """A Workload with its total requests: from its admission if it has one, else from its pod sets."""
    admission = obj.get("status", {}).get("admission")
    reserved = find_condition(obj, "QuotaReserved")
    return SnapshotWorkload(
        key=key_of(obj),
        uid=obj["metadata"]["uid"],
        cluster_queue=admission["clusterQueue"] if admission else cluster_queue,
        priority=int(obj["spec"].get("priority") or 0),
        queued=parse_timestamp(_queue_time(obj)),
        pod_sets=_pod_sets(obj, admission),
        reserved=parse_timestamp(reserved["lastTransitionTime"]) if reserved else 0.0,
        evicted=is_true(obj, "Evicted"),
    )


def _pod_sets(obj: Object, admission: Object | None) -> list[SnapshotPodSet]:
    assigned = {item["name"]: item for item in admission["podSetAssignments"]} if admission else {}
    given_back = {item["name"]: item["count"] for item in obj.get("status", {}).get("reclaimablePods") or ()}
    found = []
    for pod_set in obj["spec"]["podSets"]:
        spec = pod_set["template"]["spec"]
        single = pod_requests(spec)
        given = assigned.get(pod_set["name"])
        whole = (given or pod_set).get("count") or pod_set["count"]
        left = max(whole - given_back.get(pod_set["name"], 0), 0)
        requests = {name: value * left for name, value in single.items()}
        if given is not None:
            held = parse_amounts(given.get("resourceUsage"))
            requests = {name: value * left // whole if whole else 0 for name, value in held.items()}
        affinity = spec.get("affinity") or {}
        one = SnapshotPodSet(
            pod_set["name"],
            left,
            requests,
            single,
            topology=_topology_request(pod_set),
            selector=spec.get("nodeSelector") or {},
            affinity=_node_affinity_terms(affinity),
            has_affinity=bool(affinity),
            tolerations=tolerations(spec.get("tolerations")),
            min_count=pod_set.get("minCount"),
        )
        if given is not None:
            one.flavors = given.get("flavors") or {}
            if given.get("topologyAssignment"):
                one.places = tuple(decode_domains(given["topologyAssignment"]))
        found.append(one)
    return found


def _topology_request(pod_set: Object) -> TopologyRequest:
    request = pod_set.get("topologyRequest") or {}
    return TopologyRequest(
        required=request.get("required") or "",
        preferred=request.get("preferred") or "",
        unconstrained=request.get("unconstrained"),
        slice_level=request.get("podSetSliceRequiredTopology") or "",
        slice_size=request.get("podSetSliceSize", 1),
    )


def _node_affinity_terms(affinity: Object) -> tuple[tuple[Requirement, ...], ...] | None:
    required = (affinity.get("nodeAffinity") or {}).get("requiredDuringSchedulingIgnoredDuringExecution")
    if not required:
        return None
    return tuple(
        requirements([*(term.get("matchExpressions") or ()), *(term.get("matchFields") or ())])
        for term in required.get("nodeSelectorTerms") or ()
    )


def requirements(listed: Iterable[Object]) -> tuple[Requirement, ...]:
    return tuple(Requirement(each["key"], each["operator"], tuple(each.get("values") or ())) for each in listed)


def tolerations(listed: Iterable[Object] | None) -> tuple[Toleration, ...]:
    return tuple(
        Toleration(each.get("key") or "", each.get("operator") or "Equal", each.get("value") or "",
                   each.get("effect") or "")
        for each in listed or ()
    )  # fmt: skip


def local_queue_of(obj: Object) -> str:
    """Return the name of the LocalQueue a Workload waits in; empty when it names none."""
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
    """Return the time by which a Workload is ordered: its creation, or its eviction to the back of the queue."""
    evicted = find_condition(obj, "Evicted")
    if evicted is not None and evicted["status"] == "True" and evicted["reason"] in BACK_OF_QUEUE:
        return str(evicted["lastTransitionTime"])
    return str(obj["metadata"]["creationTimestamp"])
