"""Job objects (batch/v1)."""

from __future__ import annotations

from console.models.job import Job
from console.parsers.meta import (
    JOBSET,
    KUEUE,
    ConditionWire,
    ObjectWire,
    Wire,
    conditions_of,
    labels_of,
    number,
    shared,
)
from console.parsers.podspec import TemplateWire
from console.parsers.timestamp import parse_time


class JobSpecWire(Wire):
    """spec of a Job, or of the Job template in a JobSet."""

    parallelism: int | None = None
    suspend: bool | None = None
    template: TemplateWire | None = None


class JobStatusWire(Wire):
    """Status of a Job."""

    active: int | None = None
    ready: int | None = None
    succeeded: int | None = None
    failed: int | None = None
    conditions: list[ConditionWire] | None = None


class JobWire(ObjectWire):
    """A Job."""

    spec: JobSpecWire | None = None
    status: JobStatusWire | None = None


def parse_job(wire: JobWire) -> Job:
    """A Job, with its place in a JobSet from its labels."""
    meta, spec, status = wire.metadata, wire.spec or JobSpecWire(), wire.status or JobStatusWire()
    labels = labels_of(meta)
    return Job(
        namespace=shared(meta.namespace),
        name=meta.name or "",
        uid=meta.uid or "",
        created=parse_time(meta.creation_timestamp),
        jobset=shared(labels.get(JOBSET + "jobset-name")),
        jobset_uid=shared(labels.get(JOBSET + "jobset-uid")),
        replicated_job=shared(labels.get(JOBSET + "replicatedjob-name")),
        job_index=number(labels, JOBSET + "job-index", -1),
        attempt=number(labels, JOBSET + "restart-attempt", 0),
        parallelism=1 if spec.parallelism is None else spec.parallelism,
        active=status.active or 0,
        ready=status.ready or 0,
        succeeded=status.succeeded or 0,
        failed=status.failed or 0,
        suspended=bool(spec.suspend),
        conditions=conditions_of(status.conditions),
        queue=shared(labels.get(KUEUE + "queue-name")),
    )
