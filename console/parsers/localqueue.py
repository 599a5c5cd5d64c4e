"""LocalQueue objects, v1beta1 and v1beta2."""

from __future__ import annotations

from console.models.queue import LocalQueue
from console.parsers.meta import ConditionWire, ObjectWire, Wire, conditions_of, shared
from console.parsers.quota import FlavorUsageWire, usages_of
from console.parsers.timestamp import parse_time


class LocalQueueSpecWire(Wire):
    """spec of a LocalQueue."""

    cluster_queue: str | None = None
    stop_policy: str | None = None


class LocalQueueStatusWire(Wire):
    """Status; `flavor_usage` is v1beta1, `flavors_usage` is v1beta2."""

    flavors_reservation: list[FlavorUsageWire] | None = None
    flavors_usage: list[FlavorUsageWire] | None = None
    flavor_usage: list[FlavorUsageWire] | None = None
    pending_workloads: int | None = None
    reserving_workloads: int | None = None
    admitted_workloads: int | None = None
    conditions: list[ConditionWire] | None = None


class LocalQueueWire(ObjectWire):
    """A LocalQueue."""

    spec: LocalQueueSpecWire | None = None
    status: LocalQueueStatusWire | None = None


def parse_local_queue(wire: LocalQueueWire) -> LocalQueue:
    """A LocalQueue; an empty stop policy is none."""
    meta, spec, status = wire.metadata, wire.spec or LocalQueueSpecWire(), wire.status or LocalQueueStatusWire()
    return LocalQueue(
        namespace=shared(meta.namespace),
        name=shared(meta.name),
        uid=meta.uid or "",
        created=parse_time(meta.creation_timestamp),
        cluster_queue=shared(spec.cluster_queue),
        stop_policy=shared(spec.stop_policy) or "None",
        reserved=usages_of(status.flavors_reservation),
        used=usages_of(status.flavors_usage or status.flavor_usage),
        pending=status.pending_workloads or 0,
        reserving=status.reserving_workloads or 0,
        admitted=status.admitted_workloads or 0,
        conditions=conditions_of(status.conditions),
    )
