"""Kueue's webhooks: suspend jobs with a queue, and forbid changes while they run."""

from __future__ import annotations

from practice.admission.fields import IMMUTABLE, invalid, qualified_name_faults, subdomain_faults
from practice.controllers.kueue import label_names
from practice.controllers.kueue.podsets import iter_templates, queue_name
from practice.controllers.objects import annotations_of, controller_of, labels_of
from practice.objects.api_error import ApiError, FieldCause, Object
from practice.objects.resources import JOBSETS, LOCALQUEUES
from practice.objects.storage import Storage

_DEFAULT_QUEUE = "default"


def default_queue_and_suspend(job: Object, storage: Storage) -> None:
    """Give a job the default LocalQueue when there is one, and suspend it when it has a queue."""
    namespace = job["metadata"].get("namespace") or "default"
    managed = _managed_owner(job, storage)
    if not queue_name(job) and not managed and storage.find(LOCALQUEUES, namespace, _DEFAULT_QUEUE) is not None:
        job["metadata"].setdefault("labels", {})[label_names.QUEUE] = _DEFAULT_QUEUE
    if queue_name(job) and not managed:
        job["spec"]["suspend"] = True


def default_cluster_queue(queue: Object) -> None:
    spec = queue["spec"]
    spec.setdefault("queueingStrategy", "BestEffortFIFO")
    spec.setdefault("stopPolicy", "None")
    for group in spec.get("resourceGroups") or ():
        for item in (item for flavor in group["flavors"] for item in flavor["resources"]):
            for name in ("nominalQuota", "borrowingLimit", "lendingLimit"):
                if item.get(name) is not None:
                    item[name] = str(item[name])
    fungibility = spec.setdefault("flavorFungibility", {})
    fungibility.setdefault("whenCanBorrow", "MayStopSearch")
    fungibility.setdefault("whenCanPreempt", "TryNextFlavor")
    preemption = spec.setdefault("preemption", {})
    preemption.setdefault("borrowWithinCohort", {}).setdefault("policy", "Never")
    preemption.setdefault("reclaimWithinCohort", "Never")
    preemption.setdefault("withinClusterQueue", "Never")


def cluster_queue_faults(queue: Object) -> list[FieldCause]:
    """Return the faults in the quotas of a ClusterQueue."""
    faults: list[FieldCause] = []
    for at, group in enumerate(queue["spec"].get("resourceGroups") or ()):
        for number, flavor in enumerate(group["flavors"]):
            names = [item["name"] for item in flavor["resources"]]
            for place, (name, wanted) in enumerate(zip(names, group["coveredResources"], strict=False)):
                if name != wanted:
                    path = f"spec.resourceGroups[{at}].flavors[{number}].resources[{place}].name"
                    faults.append(invalid(path, name, "must match the name in coveredResources"))
    return faults


def managed_job_faults(job: Object) -> list[FieldCause]:
    """Return the faults in queue, time limit and topology request of a new job."""
    marks, faults = labels_of(job), []
    if label_names.QUEUE in marks:
        why = subdomain_faults(marks[label_names.QUEUE])
        faults += (
            [invalid(f"metadata.labels[{label_names.QUEUE}]", marks[label_names.QUEUE], ",".join(why))] if why else []
        )
    if label_names.MAX_EXECUTION in marks:
        faults += _time_limit_causes(marks[label_names.MAX_EXECUTION])
    if job["kind"] == "Job" and label_names.MIN_PARALLELISM in annotations_of(job):
        faults += _min_parallelism_causes(annotations_of(job)[label_names.MIN_PARALLELISM], job["spec"])
    base = "spec.template.metadata.annotations"
    for at, (_, template, _, _) in enumerate(iter_templates(job)):
        if job["kind"] == "JobSet":
            base = f"spec.replicatedJobs[{at}].template.spec.template.metadata.annotations"
        faults += _topology_causes(template, base)
    return faults


def managed_job_changes(new: Object, old: Object) -> list[FieldCause]:
    """Return forbidden changes of a running job."""
    faults = []
    if not new["spec"].get("suspend") and queue_name(new) != queue_name(old):
        faults.append(invalid(f"metadata.labels[{label_names.QUEUE}]", queue_name(new), IMMUTABLE))
    limits = [labels_of(job).get(label_names.MAX_EXECUTION, "") for job in (old, new)]
    if limits[0] != limits[1] and not (new["spec"].get("suspend") and old["spec"].get("suspend")):
        faults.append(invalid(f"metadata.labels[{label_names.MAX_EXECUTION}]", limits[1], IMMUTABLE))
    before, after = (labels_of(job).get(label_names.PRIORITY_CLASS, "") for job in (old, new))
    path = f"metadata.labels[{label_names.PRIORITY_CLASS}]"
    if after and not before and not new["spec"].get("suspend"):
        faults.append(invalid(path, after, "WorkloadPriorityClass cannot be added to a non-suspended workload"))
    if before and not after:
        faults.append(invalid(path, after, "WorkloadPriorityClass cannot be removed from a workload"))
    return faults


def raise_webhook_denial(webhook: str, faults: list[FieldCause]) -> None:
    """Raise the error with which the API server reports a request denied by one of Kueue's webhooks."""
    if not faults:
        return
    sentences = [f"{fault.field}: {fault.message}" for fault in faults]
    joined = sentences[0] if len(sentences) == 1 else f"[{', '.join(sentences)}]"
    raise ApiError(403, "Forbidden", f'admission webhook "{webhook}" denied the request: {joined}', {})


def _managed_owner(job: Object, storage: Storage) -> bool:
    owner = controller_of(job)
    if owner is None or owner["kind"] != "JobSet":
        return False
    found = storage.find(JOBSETS, job["metadata"].get("namespace"), owner["name"])
    return found is not None


def _time_limit_causes(text: str) -> list[FieldCause]:
    path = f"metadata.labels[{label_names.MAX_EXECUTION}]"
    if not text.lstrip("-").isdigit():
        return [invalid(path, text, f'strconv.Atoi: parsing "{text}": invalid syntax')]
    return [] if int(text) > 0 else [invalid(path, int(text), "should be greater than 0")]


def _min_parallelism_causes(text: str, spec: Object) -> list[FieldCause]:
    path, most = f"metadata.annotations[{label_names.MIN_PARALLELISM}]", spec.get("parallelism", 1)
    most = min(most, spec.get("completions", most)) - 1
    if not text.lstrip("-").isdigit():
        return [invalid(path, text, f'strconv.Atoi: parsing "{text}": invalid syntax')]
    return [] if 0 < int(text) <= most else [invalid(path, int(text), f"should be between 0 and {most}")]


def _topology_causes(template: Object, path: str) -> list[FieldCause]:
    notes = (template.get("metadata") or {}).get("annotations") or {}
    names = [label_names.REQUIRED, label_names.PREFERRED, label_names.UNCONSTRAINED]
    found = [name for name in names if name in notes]
    if len(found) > 1:
        listed = ", ".join(f'"{name}"' for name in names)
        from_one = f"must not contain more than one topology annotation: [{listed}]"
        return [FieldCause(path, f"Invalid value: {from_one}", "FieldValueInvalid")]
    keys = (label_names.REQUIRED, label_names.PREFERRED, label_names.SLICE_REQUIRED)
    return [
        invalid(f"{path}[{key}]", notes[key], why)
        for key in keys
        if key in notes
        for why in qualified_name_faults(notes[key])
    ]
