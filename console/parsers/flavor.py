"""ResourceFlavor objects."""

from __future__ import annotations

from console.models.queue import ResourceFlavor
from console.models.suits import Toleration
from console.parsers.meta import ObjectWire, Wire, shared
from console.parsers.node import TaintWire, taint_words
from console.parsers.timestamp import parse_time


class TolerationWire(Wire):
    """A toleration."""

    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None


class FlavorSpecWire(Wire):
    """spec of a ResourceFlavor."""

    node_labels: dict[str, str] | None = None
    topology_name: str | None = None
    node_taints: list[TaintWire] | None = None
    tolerations: list[TolerationWire] | None = None


class FlavorWire(ObjectWire):
    """A ResourceFlavor."""

    spec: FlavorSpecWire | None = None


def parse_flavor(wire: FlavorWire) -> ResourceFlavor:
    """A flavor with the labels its nodes carry."""
    meta, spec = wire.metadata, wire.spec or FlavorSpecWire()
    return ResourceFlavor(
        name=shared(meta.name),
        uid=meta.uid or "",
        created=parse_time(meta.creation_timestamp),
        node_labels=tuple(sorted((spec.node_labels or {}).items())),
        topology=shared(spec.topology_name),
        taints=tuple(map(taint_words, spec.node_taints or ())),
        tolerations=tuple(
            Toleration(each.key or "", each.operator or "Equal", each.value or "", each.effect or "")
            for each in spec.tolerations or ()
        ),
    )
