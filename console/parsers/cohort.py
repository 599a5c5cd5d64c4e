"""Cohort objects."""

from __future__ import annotations

from console.models.queue import Cohort
from console.parsers.meta import ObjectWire, Wire, shared
from console.parsers.quota import ResourceGroupWire, quotas_of
from console.parsers.timestamp import parse_time


class CohortSpecWire(Wire):
    """spec; `parent` is the older spelling of `parent_name`."""

    parent: str | None = None
    parent_name: str | None = None
    resource_groups: list[ResourceGroupWire] | None = None


class CohortWire(ObjectWire):
    """A Cohort."""

    spec: CohortSpecWire | None = None


def parse_cohort(wire: CohortWire) -> Cohort:
    """A cohort with quota of its own, if it has any."""
    meta, spec = wire.metadata, wire.spec or CohortSpecWire()
    return Cohort(
        name=shared(meta.name),
        uid=meta.uid or "",
        created=parse_time(meta.creation_timestamp),
        parent=shared(spec.parent_name or spec.parent),
        quotas=quotas_of(spec.resource_groups),
    )
