"""The objects that a JobSet creates: its Jobs and the headless Service."""

from __future__ import annotations

import copy
import hashlib

from practice.controllers.objects import Object, annotations_of, owner_reference

PREFIX = "jobset.sigs.k8s.io/"
RESTARTS = PREFIX + "restart-attempt"
REPLICATED_JOB = PREFIX + "replicatedjob-name"
EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"


def job_name(jobset: Object, replicated: Object, index: int) -> str:
    """Return the name of one Job of a JobSet."""
    return f"{jobset['metadata']['name']}-{replicated['name']}-{index}"


def service_name(jobset: Object) -> str:
    """Return the name of the headless Service, which is the domain of the pods' host names."""
    given: str = jobset["spec"].get("network", {}).get("subdomain") or jobset["metadata"]["name"]
    return given


def restart_count(jobset: Object) -> int:
    return int(jobset.get("status", {}).get("restarts", 0))


def build_job(jobset: Object, replicated: Object, index: int) -> Object:
    """Return one Job of a JobSet, not yet stored."""
    template = copy.deepcopy(replicated["template"])
    meta = template.get("metadata") or {}
    marks = _child_labels(jobset, replicated, index)
    exclusive = annotations_of(jobset).get(EXCLUSIVE) or (meta.get("annotations") or {}).get(EXCLUSIVE)
    extra = {EXCLUSIVE: exclusive} if exclusive else {}
    spec = template["spec"]
    pod = spec["template"]
    pod_meta = pod.setdefault("metadata", {})
    pod_meta["labels"] = {**(pod_meta.get("labels") or {}), **marks}
    pod_meta["annotations"] = {**(pod_meta.get("annotations") or {}), **marks, **extra}
    if jobset["spec"].get("network", {}).get("enableDNSHostnames", True):
        pod["spec"]["subdomain"] = service_name(jobset)
    spec["suspend"] = bool(jobset["spec"].get("suspend"))
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": job_name(jobset, replicated, index),
            "namespace": jobset["metadata"]["namespace"],
            "labels": {**(meta.get("labels") or {}), **marks},
            "annotations": {**(meta.get("annotations") or {}), **marks, **extra},
            "ownerReferences": [owner_reference(jobset)],
        },
        "spec": spec,
    }


def build_service(jobset: Object) -> Object:
    """Return the headless Service of a JobSet, not yet stored."""
    ready = jobset["spec"].get("network", {}).get("publishNotReadyAddresses", True)
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": service_name(jobset),
            "namespace": jobset["metadata"]["namespace"],
            "ownerReferences": [owner_reference(jobset)],
        },
        "spec": {
            "clusterIP": "None",
            "clusterIPs": ["None"],
            "type": "ClusterIP",
            "sessionAffinity": "None",
            "selector": {PREFIX + "jobset-name": jobset["metadata"]["name"]},
            "publishNotReadyAddresses": ready,
        },
    }


def coordinator_address(jobset: Object) -> str:
    """Return the host name of the coordinator pod, empty when the JobSet names none."""
    chosen = jobset["spec"].get("coordinator")
    if not chosen:
        return ""
    name, job, pod = jobset["metadata"]["name"], chosen.get("jobIndex", 0), chosen.get("podIndex", 0)
    return f"{name}-{chosen['replicatedJob']}-{job}-{pod}.{service_name(jobset)}"


def _child_labels(jobset: Object, replicated: Object, index: int) -> dict[str, str]:
    """Return the labels, which are also annotations, of a Job and its pods."""
    meta, spec = jobset["metadata"], jobset["spec"]
    name = job_name(jobset, replicated, index)
    group = replicated.get("groupName", "default")
    all_jobs = spec["replicatedJobs"]
    in_group = [job for job in all_jobs if job.get("groupName", "default") == group]
    marks = {
        "jobset-name": meta["name"],
        "jobset-uid": meta["uid"],
        "replicatedjob-name": replicated["name"],
        "restart-attempt": str(restart_count(jobset)),
        "replicatedjob-replicas": str(replicated.get("replicas", 1)),
        "global-replicas": str(sum(job.get("replicas", 1) for job in all_jobs)),
        "job-index": str(index),
        "job-key": hashlib.sha1(f"{meta['namespace']}/{name}".encode(), usedforsecurity=False).hexdigest(),
        "job-global-index": str(_first_global_index(all_jobs, replicated) + index),
        "group-name": group,
        "group-replicas": str(sum(job.get("replicas", 1) for job in in_group)),
        "job-group-index": str(_first_global_index(in_group, replicated) + index),
    }
    if spec.get("coordinator"):
        marks["coordinator"] = coordinator_address(jobset)
    return {PREFIX + key: value for key, value in marks.items()}


def _first_global_index(jobs: list[Object], replicated: Object) -> int:
    total = 0
    for job in jobs:
        if job["name"] == replicated["name"]:
            break
        total += job.get("replicas", 1)
    return total
