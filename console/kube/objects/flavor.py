"""ResourceFlavor and AdmissionCheck objects."""

from __future__ import annotations

from console.kube.objects.matching import Toleration
from console.kube.objects.meta import ConditionWire, ObjectWire, Wire, conditions_of, parse_time, shared
from console.kube.objects.node import TaintWire, taint_words
from console.kube.objects.queue import AdmissionCheck, ResourceFlavor


class TolerationWire(Wire):
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


class AdmissionCheckSpecWire(Wire):
    controller_name: str | None = None


class AdmissionCheckStatusWire(Wire):
    conditions: list[ConditionWire] | None = None


class AdmissionCheckWire(ObjectWire):
    spec: AdmissionCheckSpecWire | None = None
    status: AdmissionCheckStatusWire | None = None


def parse_admission_check(wire: AdmissionCheckWire) -> AdmissionCheck:
    meta, spec = wire.metadata, wire.spec or AdmissionCheckSpecWire()
    return AdmissionCheck(
        name=shared(meta.name),
        uid=meta.uid or "",
        created=parse_time(meta.creation_timestamp),
        controller=shared(spec.controller_name),
        conditions=conditions_of(wire.status.conditions if wire.status else None),
    )
