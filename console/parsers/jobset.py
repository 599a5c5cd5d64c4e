"""JobSet objects (jobset.x-k8s.io)."""

from __future__ import annotations

from console.models.job import JobSet, ReplicatedJob
from console.models.owner import owner_in
from console.parsers.job import JobSpecWire
from console.parsers.meta import (
    KUEUE,
    OURS,
    ConditionWire,
    Meta,
    ObjectWire,
    Wire,
    annotations_of,
    conditions_of,
    labels_of,
    shared,
)
from console.parsers.podspec import TemplateWire, gpus_of
from console.parsers.timestamp import parse_time


class JobTemplateWire(Wire):
    """template of a replicated job."""

    spec: JobSpecWire | None = None


class ReplicatedJobWire(Wire):
    """An entry of replicatedJobs."""

    name: str | None = None
    replicas: int | None = None
    template: JobTemplateWire | None = None


class FailurePolicyWire(Wire):
    """What JobSet does after a failure."""

    max_restarts: int | None = None


class JobSetSpecWire(Wire):
    """spec of a JobSet."""

    replicated_jobs: list[ReplicatedJobWire] | None = None
    failure_policy: FailurePolicyWire | None = None
    suspend: bool | None = None
    ttl_seconds_after_finished: int | None = None


class ReplicatedJobStatusWire(Wire):
    """An entry of replicatedJobsStatus."""

    name: str | None = None
    ready: int | None = None
    succeeded: int | None = None
    failed: int | None = None
    active: int | None = None
    suspended: int | None = None


class JobSetStatusWire(Wire):
    """Status of a JobSet."""

    conditions: list[ConditionWire] | None = None
    restarts: int | None = None
    terminal_state: str | None = None
    replicated_jobs_status: list[ReplicatedJobStatusWire] | None = None


class JobSetWire(ObjectWire):
    """A JobSet."""

    spec: JobSetSpecWire | None = None
    status: JobSetStatusWire | None = None


def _template(wire: ReplicatedJobWire) -> tuple[JobSpecWire, TemplateWire]:
    job = (wire.template.spec if wire.template else None) or JobSpecWire()
    return job, job.template or TemplateWire()


def _group(wire: ReplicatedJobWire, status: ReplicatedJobStatusWire) -> ReplicatedJob:
    job, template = _template(wire)
    return ReplicatedJob(
        name=shared(wire.name),
        replicas=1 if wire.replicas is None else wire.replicas,
        pods_per_job=1 if job.parallelism is None else job.parallelism,
        gpus_per_pod=gpus_of(template.spec),
        ready=status.ready or 0,
        active=status.active or 0,
        succeeded=status.succeeded or 0,
        failed=status.failed or 0,
        suspended=status.suspended or 0,
    )


def _release(meta: Meta) -> str:
    """The Helm release that made the object, if one did."""
    labels = labels_of(meta)
    named = annotations_of(meta).get("meta.helm.sh/release-name", "")
    if named or labels.get("app.kubernetes.io/managed-by") != "Helm":
        return named
    return labels.get("app.kubernetes.io/instance", "")


def _priority_class(labels_class: str | None, groups: list[ReplicatedJobWire]) -> str:
    """Kueue's label, else the priority class of the pods."""
    specs = (_template(each)[1].spec for each in groups)
    return labels_class or next((each.priority_class_name for each in specs if each and each.priority_class_name), "")


def parse_jobset(wire: JobSetWire) -> JobSet:
    """A JobSet with its groups; the counts of a group are of its Jobs."""
    meta, spec, status = wire.metadata, wire.spec or JobSetSpecWire(), wire.status or JobSetStatusWire()
    labels, wires = labels_of(meta), spec.replicated_jobs or []
    told = {each.name: each for each in status.replicated_jobs_status or ()}
    return JobSet(
        namespace=shared(meta.namespace),
        name=meta.name or "",
        uid=shared(meta.uid),
        created=parse_time(meta.creation_timestamp),
        queue=shared(labels.get(KUEUE + "queue-name")),
        recipe=shared(labels.get(OURS + "recipe")),
        release=_release(meta),
        owner=shared(owner_in(labels, annotations_of(meta))),
        priority_class=shared(_priority_class(labels.get(KUEUE + "priority-class"), wires)),
        suspended=bool(spec.suspend),
        deleting_since=parse_time(meta.deletion_timestamp),
        restarts=status.restarts or 0,
        max_restarts=(spec.failure_policy.max_restarts or 0) if spec.failure_policy else 0,
        ttl=spec.ttl_seconds_after_finished,
        terminal_state=status.terminal_state or "",
        conditions=conditions_of(status.conditions),
        groups=tuple(_group(each, told.get(each.name) or ReplicatedJobStatusWire()) for each in wires),
    )
