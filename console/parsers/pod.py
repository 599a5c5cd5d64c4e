"""Pod objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from console.models.pod import Container, Pod
from console.parsers.meta import (
    JOBSET,
    KUEUE,
    ConditionWire,
    ObjectWire,
    Wire,
    annotations_of,
    labels_of,
    number,
    owner_of,
    shared,
)
from console.parsers.podspec import PodSpecWire, gpus_of
from console.parsers.timestamp import parse_time

if TYPE_CHECKING:
    from collections.abc import Iterator


class StateWire(Wire):
    """What a container waits for, since when it runs, or how it ended."""

    reason: str | None = None
    message: str | None = None
    started_at: str | None = None
    finished_at: str | None = None
    exit_code: int | None = None


class StatesWire(Wire):
    """state or lastState of a container: one of the three is there."""

    waiting: StateWire | None = None
    running: StateWire | None = None
    terminated: StateWire | None = None


class ContainerStatusWire(Wire):
    """An entry of containerStatuses."""

    name: str | None = None
    ready: bool | None = None
    restart_count: int | None = None
    state: StatesWire | None = None
    last_state: StatesWire | None = None


class PodStatusWire(Wire):
    """Status of a pod."""

    phase: str | None = None
    reason: str | None = None
    message: str | None = None
    pod_ip: str | None = msgspec.field(default=None, name="podIP")
    start_time: str | None = None
    conditions: list[ConditionWire] | None = None
    container_statuses: list[ContainerStatusWire] | None = None
    init_container_statuses: list[ContainerStatusWire] | None = None


class PodWire(ObjectWire):
    """A Pod."""

    spec: PodSpecWire | None = None
    status: PodStatusWire | None = None


def _container(wire: ContainerStatusWire, *, init: bool) -> Container:
    state = wire.state or StatesWire()
    name, now = next(
        ((name, each) for name in ("running", "terminated", "waiting") if (each := getattr(state, name)) is not None),
        ("waiting", StateWire()),
    )
    before = wire.last_state.terminated if wire.last_state else None
    return Container(
        name=shared(wire.name),
        state=name,
        reason=shared(now.reason),
        message=now.message or "",
        exit_code=now.exit_code,
        ready=bool(wire.ready),
        restarts=wire.restart_count or 0,
        started=parse_time(now.started_at),
        finished=parse_time(now.finished_at),
        init=init,
        last_exit_code=before.exit_code if before else None,
        last_reason=shared(before.reason) if before else "",
    )


def _containers(spec: PodSpecWire, status: PodStatusWire) -> Iterator[Container]:
    """Init containers first; one without a status yet waits."""
    for specs, statuses, init in (
        (spec.init_containers, status.init_container_statuses, True),
        (spec.containers, status.container_statuses, False),
    ):
        told = {each.name: each for each in statuses or ()}
        for each in specs or ():
            found = told.pop(each.name, None)
            yield _container(found, init=init) if found else Container(name=shared(each.name), init=init)
        for left in told.values():
            yield _container(left, init=init)


def parse_pod(wire: PodWire) -> Pod:
    """A pod, with its place in a JobSet from the labels JobSet gave it."""
    meta, spec, status = wire.metadata, wire.spec or PodSpecWire(), wire.status or PodStatusWire()
    labels, owner = labels_of(meta), owner_of(meta)
    conditions = {each.type: each for each in status.conditions or ()}
    scheduled, ready = conditions.get("PodScheduled"), conditions.get("Ready")
    taken = conditions.get("DisruptionTarget")
    if taken is None or taken.status != "True":
        taken = ConditionWire()
    unschedulable = scheduled is not None and scheduled.status == "False" and scheduled.reason == "Unschedulable"
    return Pod(
        namespace=shared(meta.namespace),
        name=meta.name or "",
        uid=meta.uid or "",
        created=parse_time(meta.creation_timestamp),
        phase=shared(status.phase) or "Pending",
        reason=shared(status.reason),
        message=status.message or "",
        node=shared(spec.node_name),
        ip=status.pod_ip or "",
        gpus=gpus_of(spec),
        containers=tuple(_containers(spec, status)),
        started=parse_time(status.start_time),
        deleting_since=parse_time(meta.deletion_timestamp),
        gated=tuple(shared(each.name) for each in spec.scheduling_gates or ()),
        disruption=shared(taken.reason),
        disruption_message=taken.message or "",
        disrupted_at=parse_time(taken.last_transition_time),
        unschedulable=shared(scheduled.message) if scheduled and unschedulable else "",
        ready=ready is not None and ready.status == "True",
        job=shared(labels.get("batch.kubernetes.io/job-name")),
        jobset=shared(labels.get(JOBSET + "jobset-name")),
        jobset_uid=shared(labels.get(JOBSET + "jobset-uid")),
        replicated_job=shared(labels.get(JOBSET + "replicatedjob-name")),
        job_index=number(labels, JOBSET + "job-index", -1),
        completion_index=_completion_index(wire),
        attempt=number(labels, JOBSET + "restart-attempt", 0),
        workload=shared(annotations_of(meta).get(KUEUE + "workload")),
        owner_kind=shared(owner.kind),
        owner_name=shared(owner.name),
    )


def _completion_index(wire: PodWire) -> int:
    """From the label (Kubernetes 1.28 and later), else the annotation of the same name."""
    name = "batch.kubernetes.io/job-completion-index"
    by_label = number(labels_of(wire.metadata), name, -1)
    return by_label if by_label >= 0 else number(annotations_of(wire.metadata), name, -1)
