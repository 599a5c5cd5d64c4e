"""Admission of Jobs: defaults, the generated selector, and immutable fields."""

from __future__ import annotations

from practice.admission.fields import IMMUTABLE, invalid, required_value, unsupported_value
from practice.admission.pod_faults import pod_faults, template_faults
from practice.admission.pods import default_spec
from practice.objects.api_error import FieldCause, Object

_UID, _NAME = "controller-uid", "job-name"


def default_job(job: Object) -> None:
    spec, meta = job["spec"], job["metadata"]
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    for name, value in (
        ("parallelism", 1),
        ("backoffLimit", 6),
        ("completionMode", "NonIndexed"),
        ("suspend", False),
        ("manualSelector", False),
        ("podReplacementPolicy", "TerminatingOrFailed"),
    ):
        if spec.get(name) is None:
            spec[name] = value
    template = spec.setdefault("template", {})
    marks = {_UID: meta["uid"], _NAME: meta["name"]}
    marks |= {f"batch.kubernetes.io/{key}": value for key, value in marks.items()}
    labels = template.setdefault("metadata", {}).setdefault("labels", {})
    if not spec["manualSelector"]:
        labels |= marks
        spec["selector"] = {"matchLabels": {f"batch.kubernetes.io/{_UID}": meta["uid"]}}
    default_spec(template.setdefault("spec", {}))
    if not meta.get("labels"):
        meta["labels"] = dict(labels)


def job_faults(job: Object) -> list[FieldCause]:
    spec = job["spec"]
    template = spec["template"]
    faults = [
        *template_faults(template.get("metadata") or {}, "spec.template"),
        *pod_faults(template["spec"], "spec.template.spec", template=True),
    ]
    if spec["completionMode"] == "Indexed" and spec.get("completions") is None:
        faults.append(required_value("spec.completions", "when completion mode is Indexed"))
    policy = spec["template"]["spec"].get("restartPolicy")
    if policy == "Always":  # which is also what it is unless it is given
        faults.append(required_value("spec.template.spec.restartPolicy", 'valid values: "OnFailure", "Never"'))
    elif policy not in ("OnFailure", "Never"):
        faults.append(unsupported_value("spec.template.spec.restartPolicy", str(policy), ["OnFailure", "Never"]))
    for name in ("parallelism", "completions", "backoffLimit"):
        value = spec.get(name)
        if isinstance(value, int) and value < 0:
            faults.append(invalid(f"spec.{name}", value, "must be greater than or equal to 0"))
    return faults


def job_changes(new: Object, old: Object) -> list[FieldCause]:
    """Return forbidden changes of a Job; its template may change in part while suspended and not started."""
    faults = []
    for name in ("completions", "selector", "completionMode", "podFailurePolicy", "managedBy"):
        before, after = old["spec"].get(name), new["spec"].get(name)
        scaled = name == "completions" and after == new["spec"].get("parallelism") and before is not None
        if before != after and not scaled:
            faults.append(invalid(f"spec.{name}", after, IMMUTABLE))
    before, after = old["spec"]["template"], new["spec"]["template"]
    if before != after:
        free = old["spec"].get("suspend") and not old.get("status", {}).get("startTime")
        if not free or _immutable_part(before) != _immutable_part(after):
            faults.append(invalid("spec.template", after, IMMUTABLE))
    return faults


def _immutable_part(template: Object) -> Object:
    """Return the immutable part of a pod template."""
    mutable = ("nodeSelector", "tolerations", "schedulingGates", "affinity")
    spec = {key: value for key, value in template["spec"].items() if key not in mutable}
    return {"spec": _without_resources(spec)}


def _without_resources(spec: Object) -> Object:
    cut = [{**container, "resources": {}} for container in spec.get("containers") or ()]
    return {**spec, "containers": cut}
