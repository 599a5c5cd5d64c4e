"""AdmissionCheck objects."""

from __future__ import annotations

from console.models.queue import AdmissionCheck
from console.parsers.meta import ConditionWire, ObjectWire, Wire, conditions_of, shared
from console.parsers.timestamp import parse_time


class AdmissionCheckSpecWire(Wire):
    """spec of an AdmissionCheck."""

    controller_name: str | None = None


class AdmissionCheckStatusWire(Wire):
    """Status of an AdmissionCheck."""

    conditions: list[ConditionWire] | None = None


class AdmissionCheckWire(ObjectWire):
    """An AdmissionCheck."""

    spec: AdmissionCheckSpecWire | None = None
    status: AdmissionCheckStatusWire | None = None


def parse_admission_check(wire: AdmissionCheckWire) -> AdmissionCheck:
    """A check and the controller that answers it."""
    meta, spec = wire.metadata, wire.spec or AdmissionCheckSpecWire()
    return AdmissionCheck(
        name=shared(meta.name),
        uid=meta.uid or "",
        created=parse_time(meta.creation_timestamp),
        controller=shared(spec.controller_name),
        conditions=conditions_of(wire.status.conditions if wire.status else None),
    )
