"""Converts between Jobs or JobSets and pod sets, and applies what admission adds to them."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterator

from practice.controllers.kueue import label_names
from practice.controllers.kueue.info import local_queue_of
from practice.controllers.objects import Object, annotations_of, labels_of, owner_reference
from practice.objects.resources import PRIORITYCLASSES, RESOURCEFLAVORS, WORKLOADPRIORITYCLASSES
from practice.objects.storage import Storage


def queue_name(job: Object) -> str:
    """Return the LocalQueue a Job, JobSet or Pod asks for."""
    return labels_of(job).get(label_names.QUEUE, "")


def iter_templates(job: Object) -> Iterator[tuple[str, Object, int, Object]]:
    """Yield (name, pod template, pod count, topologyRequest fields with rank labels) of each pod set."""
    if job["kind"] == "Pod":
        template = {"metadata": {"annotations": annotations_of(job)}, "spec": job["spec"]}
        yield "main", template, 1, {"podIndexLabel": label_names.POD_INDEX}
        return
    if job["kind"] == "Job":
        spec = job["spec"]
        yield "main", spec["template"], _pod_count(spec), {"podIndexLabel": label_names.COMPLETION_INDEX}
        return
    for replicated in job["spec"]["replicatedJobs"]:
        spec, replicas = replicated["template"]["spec"], replicated.get("replicas", 1)
        ranks = {
            "podIndexLabel": label_names.COMPLETION_INDEX,
            "subGroupCount": replicas,
            "subGroupIndexLabel": label_names.JOB_INDEX,
        }
        yield replicated["name"], spec["template"], replicas * _pod_count(spec), ranks


def build_workload(job: Object, storage: Storage) -> Object:
    """Return the Workload of a Job or JobSet, not yet stored."""
    meta = job["metadata"]
    pod_sets = [_pod_set(*parts) for parts in iter_templates(job)]
    if allows_partial_admission(job):
        pod_sets[0]["minCount"] = int(annotations_of(job)[label_names.MIN_PARALLELISM])
    priority, class_ref = _priority_of(job, pod_sets, storage)
    spec: Object = {"active": True, "podSets": pod_sets, "priority": priority, "queueName": queue_name(job)}
    if class_ref:
        spec["priorityClassRef"] = class_ref
    if label_names.MAX_EXECUTION in labels_of(job):
        spec["maximumExecutionTimeSeconds"] = int(labels_of(job)[label_names.MAX_EXECUTION])
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {
            "name": workload_name(job),
            "namespace": meta["namespace"],
            "labels": {label_names.JOB_UID: meta["uid"]},
            "finalizers": [label_names.IN_USE],
            "ownerReferences": [owner_reference(job)],
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


def workload_matches_job(workload: Object, job: Object) -> bool:
    """Whether a Workload still matches its job: same pod sets, counts and requests."""
    wanted = list(iter_templates(job))
    there = workload["spec"]["podSets"]
    if len(wanted) != len(there):
        return False
    given = assigned_counts(workload)
    return all(
        have["name"] == name
        and count in (have["count"], given.get(name, have["count"]))
        and _template_requests(have["template"]) == _template_requests(template)
        for have, (name, template, count, _) in zip(there, wanted, strict=True)
    )


def allows_partial_admission(job: Object) -> bool:
    """Whether a Job accepts partial admission."""
    return bool(job["kind"] == "Job" and label_names.MIN_PARALLELISM in annotations_of(job))


def assigned_counts(workload: Object) -> dict[str, int]:
    """Return by pod set the admitted number of pods, where admission was partial."""
    admission = workload.get("status", {}).get("admission") or {}
    reducible = {item["name"] for item in workload["spec"]["podSets"] if "minCount" in item}
    listed = admission.get("podSetAssignments") or ()
    return {item["name"]: int(item["count"]) for item in listed if item["name"] in reducible}


def admission_additions(workload: Object, storage: Storage) -> list[Object]:
    """Return, for each pod set, the labels, annotations, selectors, tolerations and gates that admission adds."""
    found = []
    admission = workload["status"]["admission"]
    for assignment, pod_set in zip(admission["podSetAssignments"], workload["spec"]["podSets"], strict=True):
        info: Object = {
            "labels": {
                label_names.PODSET: assignment["name"],
                label_names.LOCAL_QUEUE: local_queue_of(workload),
                label_names.CLUSTER_QUEUE: admission["clusterQueue"],
            },
            "annotations": {label_names.WORKLOAD: workload["metadata"]["name"]},
            "nodeSelector": {},
            "tolerations": [],
            "schedulingGates": [],
        }
        if assignment.get("topologyAssignment"):
            info["schedulingGates"].append({"name": label_names.TOPOLOGY_GATE})
            wish = pod_set.get("topologyRequest") or {}
            if not any(name in wish for name in ("required", "preferred", "unconstrained")):
                info["annotations"][label_names.UNCONSTRAINED] = "true"
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


def add_to_template(template: Object, info: Object) -> None:
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


def remove_from_template(template: Object, pod_set: Object) -> None:
    """Remove what admission added to a pod template (a draft), by the Workload's original pod set."""
    original = pod_set["template"]
    before, meta = original.get("metadata") or {}, template.setdefault("metadata", {})
    for name in ("labels", "annotations"):
        _set_or_remove(meta, name, before.get(name))
    for name in ("nodeSelector", "tolerations", "schedulingGates"):
        _set_or_remove(template["spec"], name, original["spec"].get(name))


def _set_or_remove(parent: Object, name: str, value: object) -> None:
    if value:
        parent[name] = copy.deepcopy(value)
    else:
        parent.pop(name, None)


def _pod_count(spec: Object) -> int:
    pods = spec.get("parallelism", 1)
    return int(min(pods, spec.get("completions") or pods))


def _pod_set(name: str, template: Object, count: int, ranks: Object) -> Object:
    pod_set: Object = {"name": name, "count": count, "template": copy.deepcopy(template)}
    notes = (template.get("metadata") or {}).get("annotations") or {}
    request: Object = {}
    if label_names.REQUIRED in notes:
        request["required"] = notes[label_names.REQUIRED]
    elif label_names.PREFERRED in notes:
        request["preferred"] = notes[label_names.PREFERRED]
    elif label_names.UNCONSTRAINED in notes:
        request["unconstrained"] = notes[label_names.UNCONSTRAINED] == "true"
    if label_names.SLICE_REQUIRED in notes and label_names.SLICE_SIZE in notes:
        request["podSetSliceRequiredTopology"] = notes[label_names.SLICE_REQUIRED]
        request["podSetSliceSize"] = int(notes[label_names.SLICE_SIZE])
    if label_names.GROUP in notes and ("required" in request or "preferred" in request):
        request["podSetGroupName"] = notes[label_names.GROUP]
    request |= ranks
    if request:
        pod_set["topologyRequest"] = request
    return pod_set


def _template_requests(template: Object) -> object:
    spec = template["spec"]
    return [(item["name"], (item.get("resources") or {}).get("requests")) for item in spec["containers"]]


def _priority_of(job: Object, pod_sets: list[Object], storage: Storage) -> tuple[int, Object | None]:
    name = labels_of(job).get(label_names.PRIORITY_CLASS)
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


def requests_topology(pod: Object) -> bool:
    notes = annotations_of(pod)
    return any(name in notes for name in (label_names.REQUIRED, label_names.PREFERRED, label_names.UNCONSTRAINED))
