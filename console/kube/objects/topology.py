"""Topology objects, and the topology assignments in Workloads."""

from __future__ import annotations

from msgspec import Struct

from console.errors import Unreadable
from console.kube.objects.meta import ObjectWire, Wire, intern_text, parse_time
from console.kube.objects.queue import Topology


class TopologyDomain(Struct, frozen=True):
    """A place that a topology assignment names: values of the assignment's levels, and how many pods go there."""

    values: tuple[str, ...]
    count: int


class LevelWire(Wire):
    """A level: the node label whose values are its domains."""

    node_label: str | None = None


class TopologySpecWire(Wire):
    levels: list[LevelWire] | None = None


class TopologyWire(ObjectWire):
    spec: TopologySpecWire | None = None


class IndividualValuesWire(Wire):
    """One value per domain: prefix, then its root, then suffix."""

    prefix: str | None = None
    suffix: str | None = None
    roots: list[str] | None = None


class LevelValuesWire(Wire):
    """Values of one level over the domains of a slice."""

    universal: str | None = None
    individual: IndividualValuesWire | None = None


class PodCountsWire(Wire):
    """Pods per domain: the same everywhere, or one number each."""

    universal: int | None = None
    individual: list[int] | None = None


class SliceWire(Wire):
    """A group of domains of a v1beta2 assignment, written compactly."""

    domain_count: int | None = None
    values_per_level: list[LevelValuesWire] | None = None
    pod_counts: PodCountsWire | None = None


class DomainWire(Wire):
    """A domain of a v1beta1 assignment, written out."""

    values: list[str] | None = None
    count: int | None = None


class AssignmentWire(Wire):
    """topologyAssignment: `domains` is v1beta1, `slices` is v1beta2."""

    domains: list[DomainWire] | None = None
    slices: list[SliceWire] | None = None


def parse_topology(wire: TopologyWire) -> Topology:
    """A topology with its levels, widest first."""
    meta, spec = wire.metadata, wire.spec or TopologySpecWire()
    return Topology(
        name=intern_text(meta.name),
        uid=meta.uid or "",
        created=parse_time(meta.creation_timestamp),
        levels=tuple(intern_text(each.node_label) for each in spec.levels or ()),
    )


MAX_DOMAINS = 100_000  # of an assignment: a few bytes may speak of any number


def _values(wire: LevelValuesWire, count: int) -> list[str]:
    if wire.individual is None:
        return [wire.universal or ""] * count
    prefix, suffix = wire.individual.prefix or "", wire.individual.suffix or ""
    return [f"{prefix}{root}{suffix}" for root in wire.individual.roots or ()]


def _slice(wire: SliceWire) -> list[TopologyDomain]:
    count, counts = wire.domain_count or 0, wire.pod_counts or PodCountsWire()
    pods = counts.individual if counts.individual is not None else [counts.universal or 0] * count
    columns = [_values(each, count) for each in wire.values_per_level or ()]
    if len(pods) != count or any(len(column) != count for column in columns):
        raise Unreadable(f"A topology assignment speaks of {count} domains and lists another number.")
    rows = zip(*columns, strict=True) if columns else [()] * count
    return [TopologyDomain(tuple(map(intern_text, row)), number) for row, number in zip(rows, pods, strict=True)]


def domains_of(wire: AssignmentWire | None) -> tuple[TopologyDomain, ...]:
    """The topology domains of a pod set's assignment, from either API version."""
    if wire is None:
        return ()
    count = sum(max(each.domain_count or 0, 0) for each in wire.slices or ())
    if count > MAX_DOMAINS:
        raise Unreadable(f"A topology assignment speaks of {count:,} domains, more than any cluster has.")
    written = [
        TopologyDomain(tuple(map(intern_text, each.values or ())), each.count or 0) for each in wire.domains or ()
    ]
    return (*written, *(domain for each in wire.slices or () for domain in _slice(each)))
