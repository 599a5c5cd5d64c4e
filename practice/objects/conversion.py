"""Converts objects between versions: Kueue's v1beta1 and v1beta2, events.k8s.io and core events."""

from __future__ import annotations

from typing import Any

from practice.objects.api_error import Object
from practice.objects.lifecycle import copy_of

_PRIORITY_SOURCES = {
    ("kueue.x-k8s.io", "WorkloadPriorityClass"): "kueue.x-k8s.io/workloadpriorityclass",
    ("scheduling.k8s.io", "PriorityClass"): "scheduling.k8s.io/priorityclass",
}


def to_v1beta1(obj: Object) -> Object:
    """Convert a stored Kueue object (v1beta2) to v1beta1."""
    obj = copy_of(obj)
    obj["apiVersion"] = "kueue.x-k8s.io/v1beta1"
    spec, status = obj.get("spec", {}), obj.get("status", {})
    if obj["kind"] == "ClusterQueue":
        _rename_key(spec, "cohortName", "cohort")
    elif obj["kind"] == "LocalQueue":
        _rename_key(status, "flavorsUsage", "flavorUsage")
    elif obj["kind"] == "Workload":
        reference = spec.pop("priorityClassRef", None)
        if reference:
            spec["priorityClassName"] = reference["name"]
            spec["priorityClassSource"] = _PRIORITY_SOURCES[reference["group"], reference["kind"]]
        _rename_key(status, "accumulatedPastExecutionTimeSeconds", "accumulatedPastExexcutionTimeSeconds")
        for assignment in _topology_assignments(status):
            assignment["domains"] = _to_domains(assignment.pop("slices", []))
    return obj


def from_v1beta1(obj: Object) -> Object:
    """Convert a Kueue object sent as v1beta1 to v1beta2, which is stored."""
    obj = copy_of(obj)
    obj["apiVersion"] = "kueue.x-k8s.io/v1beta2"
    spec, status = obj.get("spec", {}), obj.get("status", {})
    if obj["kind"] == "ClusterQueue":
        _cluster_queue_from_v1beta1(spec)
    elif obj["kind"] == "LocalQueue":
        _rename_key(status, "flavorUsage", "flavorsUsage")
        status.pop("flavors", None)
    elif obj["kind"] == "Workload":
        name, source = spec.pop("priorityClassName", ""), spec.pop("priorityClassSource", "")
        for (group, kind), known in _PRIORITY_SOURCES.items():
            if source == known:
                spec["priorityClassRef"] = {"group": group, "kind": kind, "name": name}
        _rename_key(status, "accumulatedPastExexcutionTimeSeconds", "accumulatedPastExecutionTimeSeconds")
        for assignment in _topology_assignments(status):
            assignment["slices"] = _to_slices(assignment.pop("domains", []), len(assignment["levels"]))
    return obj


def _cluster_queue_from_v1beta1(spec: Object) -> None:
    _rename_key(spec, "cohort", "cohortName")
    checks = spec.pop("admissionChecks", None)
    if checks:
        spec["admissionChecksStrategy"] = {"admissionChecks": [{"name": name} for name in checks]}
    fungibility = spec.get("flavorFungibility", {})
    for key in ("whenCanBorrow", "whenCanPreempt"):
        if fungibility.get(key) in ("Borrow", "Preempt"):
            fungibility[key] = "MayStopSearch"


def to_events_api(obj: Object) -> Object:
    """Convert a core Event to events.k8s.io/v1."""
    obj = copy_of(obj)
    obj["apiVersion"] = "events.k8s.io/v1"
    for old, new in _EVENT_FIELDS.items():
        _rename_key(obj, old, new)
    return obj


def from_events_api(obj: Object) -> Object:
    """Convert an events.k8s.io/v1 Event to the core group's, which is stored."""
    obj = copy_of(obj)
    obj["apiVersion"] = "v1"
    for old, new in _EVENT_FIELDS.items():
        _rename_key(obj, new, old)
    return obj


_EVENT_FIELDS = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}


def _rename_key(parent: Object, old_key: str, new_key: str) -> None:
    if old_key in parent:
        parent[new_key] = parent.pop(old_key)


def _topology_assignments(status: Object) -> list[Object]:
    podsets = (status.get("admission") or {}).get("podSetAssignments", [])
    return [podset["topologyAssignment"] for podset in podsets if podset.get("topologyAssignment")]


def _to_domains(slices: list[Object]) -> list[Object]:
    domains = []
    for part in slices:
        for at in range(part["domainCount"]):
            values = [_level_value(level, at) for level in part["valuesPerLevel"]]
            counts = part["podCounts"]
            count = counts["universal"] if counts.get("universal") is not None else counts["individual"][at]
            domains.append({"values": values, "count": count})
    return domains


def _level_value(level: Object, index: int) -> str:
    if level.get("universal") is not None:
        return str(level["universal"])
    individual: dict[str, Any] = level["individual"]
    return f"{individual.get('prefix', '')}{individual['roots'][index]}{individual.get('suffix', '')}"


def _to_slices(domains: list[Object], levels: int) -> list[Object]:
    if not domains:
        return []
    per_level = [{"individual": {"roots": [domain["values"][level] for domain in domains]}} for level in range(levels)]
    counts = [domain["count"] for domain in domains]
    same = len(set(counts)) == 1
    pod_counts: Object = {"universal": counts[0]} if same else {"individual": counts}
    return [{"domainCount": len(domains), "valuesPerLevel": per_level, "podCounts": pod_counts}]
