"""Admission of JobSets: defaults and validation as by jobset v0.12."""

from __future__ import annotations

import re

from practice.admission.fields import IMMUTABLE, internal, invalid, label_faults, required_value, subdomain_faults
from practice.admission.pod_faults import duplicate_key_causes
from practice.admission.pods import quantities_as_text
from practice.controllers.jobset_children import coordinator_address
from practice.objects.api_error import FieldCause, Object

_RULE_NAME = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
_REASONS = ("BackoffLimitExceeded", "DeadlineExceeded", "FailedIndexes", "MaxFailedIndexesExceeded", "PodFailurePolicy")
_TOO_LONG = "must be no more than 63 characters"


def default_jobset(jobset: Object) -> None:
    spec = jobset.setdefault("spec", {})
    spec.setdefault("successPolicy", {"operator": "All"})
    spec.setdefault("startupPolicy", {"startupPolicyOrder": "AnyOrder"})
    network = spec.setdefault("network", {})
    for name in ("enableDNSHostnames", "publishNotReadyAddresses"):
        if network.get(name) is None:
            network[name] = True
    spec["replicatedJobs"] = spec.get("replicatedJobs") or []
    for replicated in spec["replicatedJobs"]:
        replicated.setdefault("replicas", 1)
        replicated.setdefault("groupName", "default")
        job = replicated.setdefault("template", {}).setdefault("spec", {})
        job.setdefault("completionMode", "Indexed")
        pod = job.setdefault("template", {}).setdefault("spec", {})
        pod.setdefault("restartPolicy", "OnFailure")
        for container in (*(pod.get("initContainers") or ()), *(pod.get("containers") or ())):
            quantities_as_text(container.setdefault("resources", {}))
            for port in container.get("ports") or ():
                port.setdefault("protocol", "TCP")
    policy = spec.get("failurePolicy")
    if policy is not None:
        policy.setdefault("restartStrategy", "Recreate")
        for number, rule in enumerate(policy.get("rules") or ()):
            rule.setdefault("name", f"failurePolicyRule{number}")


def duplicate_key_faults(jobset: Object) -> list[FieldCause]:
    """Return duplicate items in those lists of the pod templates that must not have any."""
    templates = [job["template"]["spec"]["template"]["spec"] for job in jobset["spec"]["replicatedJobs"]]
    path = "spec.replicatedJobs[{}].template.spec.template.spec"
    return [fault for at, spec in enumerate(templates) for fault in duplicate_key_causes(spec, path.format(at))]


def jobset_faults(jobset: Object) -> list[FieldCause]:
    spec, faults = jobset["spec"], []
    jobs = spec.get("replicatedJobs") or []
    if jobs and jobs[0].get("dependsOn"):
        faults.append(internal("DependsOn can't be set for the first ReplicatedJob"))
    faults += _subdomain_causes(spec["network"].get("subdomain") or "")
    names: set[str] = set()
    for at, replicated in enumerate(jobs):
        names.add(replicated["name"])
        faults += _name_causes(jobset["metadata"].get("name", ""), replicated, f"spec.replicatedJobs[{at}]")
        faults += [
            internal(f"replicatedJob: {replicated['name']} cannot depend on replicatedJob: {other['name']}")
            for other in replicated.get("dependsOn") or ()
            if other["name"] not in names
        ]
        pod = replicated["template"]["spec"]["template"]["spec"]
        if not pod.get("containers"):
            faults.append(required_value(f"spec.replicatedJobs[{at}].template.spec.template.spec.containers"))
    for name in spec["successPolicy"].get("targetReplicatedJobs") or ():
        if name not in names:
            faults.append(internal(f"invalid replicatedJob name '{name}' does not appear in .spec.ReplicatedJobs"))
    faults += _failure_policy_causes(spec.get("failurePolicy") or {}, names)
    if spec.get("coordinator"):
        faults += _coordinator_causes(jobset)
    return faults


def jobset_changes(new: Object, old: Object) -> list[FieldCause]:
    """Return forbidden changes of a JobSet; pod templates may change in part while suspended."""
    faults = []
    free = bool(old["spec"].get("suspend") or new["spec"].get("suspend"))
    before = [_immutable_part(job) if free else job for job in old["spec"].get("replicatedJobs") or ()]
    after = [_immutable_part(job) if free else job for job in new["spec"].get("replicatedJobs") or ()]
    if before != after:
        faults.append(invalid("spec.replicatedJobs", new["spec"].get("replicatedJobs"), IMMUTABLE))
    if old["spec"].get("managedBy") != new["spec"].get("managedBy"):
        faults.append(invalid("spec.managedBy", new["spec"].get("managedBy"), IMMUTABLE))
    for name in ("network", "successPolicy", "failurePolicy", "startupPolicy", "coordinator"):
        if old["spec"].get(name) != new["spec"].get(name):
            faults.append(invalid(f"spec.{name}", "object", "Value is immutable"))
    return faults


def _immutable_part(replicated: Object) -> Object:
    """Return the immutable part of a replicated job."""
    job = replicated["template"]["spec"]
    mutable = ("nodeSelector", "tolerations", "schedulingGates")
    pod = {key: value for key, value in job["template"]["spec"].items() if key not in mutable}
    return {**replicated, "template": {**replicated["template"], "spec": {**job, "template": {"spec": pod}}}}


def _subdomain_causes(name: str) -> list[FieldCause]:
    if not name:
        return []
    path = "spec.network.subdomain"
    long = ".spec.network.subdomain is too long, must be less than 63 characters"
    faults = [invalid(path, name, text) for text in subdomain_faults(name)]
    return faults + [invalid(path, name, long if text == _TOO_LONG else text) for text in label_faults(name)]


def _name_causes(jobset: str, replicated: Object, path: str) -> list[FieldCause]:
    replicas, spec, group = replicated["replicas"], replicated["template"]["spec"], replicated["groupName"]
    faults = [invalid(f"{path}.groupName", group, text) for text in label_faults(group)]
    longest = f"{jobset}-{replicated['name']}-{replicas - 1}"
    checks = [(longest, "job")]
    if spec["completionMode"] == "Indexed" and spec.get("completions") is not None:
        checks.append((f"{longest}-{spec['completions'] - 1}-abcde", "pod"))
    for name, kind in checks:
        text = f"JobSet name is too long, {kind} names generated for this JobSet will exceed 63 characters"
        faults += [invalid(f"{path}.name", longest, text if why == _TOO_LONG else why) for why in label_faults(name)]
    return faults


def _failure_policy_causes(policy: Object, names: set[str]) -> list[FieldCause]:
    faults: list[FieldCause] = []
    if policy.get("restartStrategy") == "InPlaceRestart":
        text = "InPlaceRestart restart strategy cannot be set when InPlaceRestart feature gate is disabled"
        faults.append(internal(text))
    rules = policy.get("rules") or []
    if any(rule["action"] in ("RestartJob", "RestartJobAndIgnoreMaxRestarts") for rule in rules):
        text = "RestartJob and RestartJobAndIgnoreMaxRestarts failure policy actions are not allowed when "
        return [*faults, internal(text + "RestartJob feature gate is disabled")]
    for rule in rules:
        if not _RULE_NAME.fullmatch(rule["name"]):
            text = f"invalid failure policy rule name '{rule['name']}', a failure policy rule name must start with an "
            text += "alphabetic character, optionally followed by a string of alphanumeric characters or '_,:', and "
            faults.append(internal(text + "must end with an alphanumeric character or '_'"))
        for name in rule.get("targetReplicatedJobs") or ():
            if name not in names:
                text = f"invalid replicatedJob name '{name}' in failure policy does not appear in .spec.ReplicatedJobs"
                faults.append(internal(text))
        for reason in rule.get("onJobFailureReasons") or ():
            if reason not in _REASONS:
                text = f"invalid job failure reason '{reason}' in failure policy is not a recognized job failure reason"
                faults.append(internal(text))
    return faults


def _coordinator_causes(jobset: Object) -> list[FieldCause]:
    chosen = jobset["spec"]["coordinator"]
    name, job, pod = chosen["replicatedJob"], chosen.get("jobIndex", 0), chosen.get("podIndex", 0)
    found = next((item for item in jobset["spec"]["replicatedJobs"] if item["name"] == name), None)
    if found is None:
        return [internal(f"coordinator replicatedJob {name} does not exist")]
    if not 0 <= job < found["replicas"]:
        return [internal(f"coordinator job index {job} is invalid for replicatedJob {name}")]
    completions = found["template"]["spec"].get("completions")
    if completions is None or found["template"]["spec"]["completionMode"] != "Indexed":
        text = "job for coordinator pod must be indexed completion mode, and completions number must be set"
        return [internal(text)]
    if not 0 <= pod < completions:
        return [internal(f"coordinator pod index {pod} is invalid for replicatedJob {name} job index {job}")]
    if len(coordinator_address(jobset)) > 63:
        label = "jobset.sigs.k8s.io/coordinator"
        text = f'spec will lead to invalid label value "{coordinator_address(jobset)}" for coordinator label '
        return [internal(text + f'"{label}" (long JobSet / ReplicatedJob / SubDomain name?): {_TOO_LONG}')]
    return []
