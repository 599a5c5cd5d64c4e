"""Converts between Jobs or JobSets and pod sets, and applies what admission adds to them."""

from __future__ import annotations

import copy
import hashlib
from typing import TYPE_CHECKING

from practice.controllers.kueue import words
from practice.controllers.kueue.info import local_queue_of
from practice.controllers.objects import annotations_of, labels_of, reference
from practice.objects.resources import PRIORITYCLASSES, RESOURCEFLAVORS, WORKLOADPRIORITYCLASSES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from practice.controllers.objects import Object
    from practice.objects.storage import Storage


def queue_name(job: Object) -> str:
    """Return the LocalQueue a Job or JobSet asks for."""
    return labels_of(job).get(words.QUEUE, "")


def templates(job: Object) -> Iterator[tuple[str, Object, int, Object]]:
    """Yield (name, pod template, pod count, topologyRequest fields with rank labels) of each pod set."""
    if job["kind"] == "Job":
        spec = job["spec"]
        yield "main", spec["template"], _pods(spec), {"podIndexLabel": words.COMPLETION_INDEX}
        return
    for replicated in job["spec"]["replicatedJobs"]:
        spec, replicas = replicated["template"]["spec"], replicated.get("replicas", 1)
        ranks = {
            "podIndexLabel": words.COMPLETION_INDEX,
            "subGroupCount": replicas,
            "subGroupIndexLabel": words.JOB_INDEX,
        }
        yield replicated["name"], spec["template"], replicas * _pods(spec), ranks


def build_workload(job: Object, storage: Storage) -> Object:
    """Return the Workload of a Job or JobSet, not yet stored."""
    meta = job["metadata"]
    pod_sets = [_pod_set(*parts) for parts in templates(job)]
    if may_be_smaller(job):
        pod_sets[0]["minCount"] = int(annotations_of(job)[words.MIN_PARALLELISM])
    priority, class_ref = _priority(job, pod_sets, storage)
    spec: Object = {
        "active": True,
        "podSets": pod_sets,
        "priority": priority,
        "queueName": queue_name(job),
    }
    if class_ref:
        spec["priorityClassRef"] = class_ref
    if words.MAX_EXECUTION in labels_of(job):
        spec["maximumExecutionTimeSeconds"] = int(labels_of(job)[words.MAX_EXECUTION])
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {
            "name": workload_name(job),
            "namespace": meta["namespace"],
            "labels": {words.JOB_UID: meta["uid"]},
            "finalizers": [words.IN_USE],
            "ownerReferences": [reference(job)],
        },
        "spec": spec,
    }


def workload_name(job: Object) -> str:
    """Return the name Kueue gives a Workload: ``jobset-NAME-`` and five hex digits of its owner."""
    meta, kind = job["metadata"], job["kind"]
    group = job["apiVersion"].rpartition("/")[0]
    text = "\n".join((kind, group, meta["name"], meta["uid"]))
    digest = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
    return f"{kind.lower()}-{meta['name']}"[:247] + f"-{digest[:5]}"


def same_shape(workload: Object, job: Object) -> bool:
    """Whether a Workload still matches its job: same pod sets, counts and requests."""
    wanted = list(templates(job))
    there = workload["spec"]["podSets"]
    if len(wanted) != len(there):
        return False
    given = assigned_counts(workload)
    return all(
        have["name"] == name
        and count in (have["count"], given.get(name, have["count"]))
        and _shape(have["template"]) == _shape(template)
        for have, (name, template, count, _) in zip(there, wanted, strict=True)
    )


def may_be_smaller(job: Object) -> bool:
    """Whether a Job accepts partial admission."""
    return bool(job["kind"] == "Job" and words.MIN_PARALLELISM in annotations_of(job))


def assigned_counts(workload: Object) -> dict[str, int]:
    """Admitted pod counts of pod sets with partial admission."""
    admission = workload.get("status", {}).get("admission") or {}
    reducible = {item["name"] for item in workload["spec"]["podSets"] if "minCount" in item}
    listed = admission.get("podSetAssignments") or ()
    return {item["name"]: int(item["count"]) for item in listed if item["name"] in reducible}


def admitted_info(workload: Object, storage: Storage) -> list[Object]:
    """Return, for each pod set, the labels, annotations, selectors, tolerations and gates that admission adds."""
    found = []
    admission = workload["status"]["admission"]
    for assignment, pod_set in zip(admission["podSetAssignments"], workload["spec"]["podSets"], strict=True):
        info: Object = {
            "labels": {
                words.PODSET: assignment["name"],
                words.LOCAL_QUEUE: local_queue_of(workload),
                words.CLUSTER_QUEUE: admission["clusterQueue"],
            },
            "annotations": {words.WORKLOAD: workload["metadata"]["name"]},
            "nodeSelector": {},
            "tolerations": [],
            "schedulingGates": [],
        }
        if assignment.get("topologyAssignment"):
            info["schedulingGates"].append({"name": words.TOPOLOGY_GATE})
            wish = pod_set.get("topologyRequest") or {}
            if not any(name in wish for name in ("required", "preferred", "unconstrained")):
                info["annotations"][words.UNCONSTRAINED] = "true"
        for flavor in dict.fromkeys((assignment.get("flavors") or {}).values()):
            spec = storage.get(RESOURCEFLAVORS, "", flavor).get("spec") or {}
            info["nodeSelector"] |= spec.get("nodeLabels") or {}
            info["tolerations"] += spec.get("tolerations") or []
        for check in workload["status"].get("admissionChecks") or ():
            for update in check.get("podSetUpdates") or ():
                if update["name"] == assignment["name"]:
                    for name in ("labels", "annotations", "nodeSelector"):
                        info[name] |= update.get(name) or {}
                    info["tolerations"] += update.get("tolerations") or []
        found.append(info)
    return found


def merge_info(template: Object, info: Object) -> None:
    """Add what admission adds to a pod template (a draft)."""
    meta, spec = template.setdefault("metadata", {}), template["spec"]
    for name in ("labels", "annotations"):
        meta[name] = {**(meta.get(name) or {}), **info[name]}
    if info["nodeSelector"]:
        spec["nodeSelector"] = {**(spec.get("nodeSelector") or {}), **info["nodeSelector"]}
    for name in ("tolerations", "schedulingGates"):
        more = [item for item in info[name] if item not in (spec.get(name) or ())]
        if more:
            spec[name] = [*(spec.get(name) or ()), *more]


def restore(template: Object, pod_set: Object) -> None:
    """Remove from a pod template (a draft) what admission had added, by means of the Workload."""
    original = pod_set["template"]
    before, meta = original.get("metadata") or {}, template.setdefault("metadata", {})
    for name in ("labels", "annotations"):
        _put(meta, name, before.get(name))
    for name in ("nodeSelector", "tolerations", "schedulingGates"):
        _put(template["spec"], name, original["spec"].get(name))


def _put(place: Object, name: str, value: object) -> None:
    if value:
        place[name] = copy.deepcopy(value)
    else:
        place.pop(name, None)


def _pods(spec: Object) -> int:
    pods = spec.get("parallelism", 1)
    return int(min(pods, spec.get("completions") or pods))


def _pod_set(name: str, template: Object, count: int, ranks: Object) -> Object:
    pod_set: Object = {"name": name, "count": count, "template": copy.deepcopy(template)}
    notes = (template.get("metadata") or {}).get("annotations") or {}
    request: Object = {}
    if words.REQUIRED in notes:
        request["required"] = notes[words.REQUIRED]
    elif words.PREFERRED in notes:
        request["preferred"] = notes[words.PREFERRED]
    elif words.UNCONSTRAINED in notes:
        request["unconstrained"] = notes[words.UNCONSTRAINED] == "true"
    if words.SLICE_REQUIRED in notes and words.SLICE_SIZE in notes:
        request["podSetSliceRequiredTopology"] = notes[words.SLICE_REQUIRED]
        request["podSetSliceSize"] = int(notes[words.SLICE_SIZE])
    if words.GROUP in notes and ("required" in request or "preferred" in request):
        request["podSetGroupName"] = notes[words.GROUP]
    request |= ranks
    if request:
        pod_set["topologyRequest"] = request
    return pod_set


def _shape(template: Object) -> object:
    spec = template["spec"]
    return [(item["name"], (item.get("resources") or {}).get("requests")) for item in spec["containers"]]


def _priority(job: Object, pod_sets: list[Object], storage: Storage) -> tuple[int, Object | None]:
    name = labels_of(job).get(words.PRIORITY_CLASS)
    if name:
        found = storage.get(WORKLOADPRIORITYCLASSES, "", name)
        return int(found["value"]), {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": name}
    names = [pod_set["template"]["spec"].get("priorityClassName") for pod_set in pod_sets]
    name = next(filter(None, names), None)
    if name:
        found = storage.get(PRIORITYCLASSES, "", name)
        return int(found["value"]), {"group": "scheduling.k8s.io", "kind": "PriorityClass", "name": name}
    for found in storage.list(PRIORITYCLASSES):
        if found.get("globalDefault"):
            ref = {"group": "scheduling.k8s.io", "kind": "PriorityClass", "name": found["metadata"]["name"]}
            return int(found["value"]), ref
    return 0, None


def gates_of(pod: Object) -> list[str]:
    """Return the names of the scheduling gates of a pod."""
    return [gate["name"] for gate in pod["spec"].get("schedulingGates") or ()]


def asks_for_topology(pod: Object) -> bool:
    notes = annotations_of(pod)
    return any(name in notes for name in (words.REQUIRED, words.PREFERRED, words.UNCONSTRAINED))
