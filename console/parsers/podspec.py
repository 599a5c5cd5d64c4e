"""What a pod asks for: of a pod itself, or of the template in a Job, JobSet or Workload."""

from __future__ import annotations

from typing import TYPE_CHECKING

from console.models.queue import GPU
from console.parsers.meta import Wire
from console.parsers.quantity import parse_amount

if TYPE_CHECKING:
    from collections.abc import Iterable

Amounts = dict[str, str | int | float]
"""Resource -> quantity; inside custom resources a quantity may be a bare number."""


class ResourcesWire(Wire):
    """requests and limits of a container."""

    requests: Amounts | None = None
    limits: Amounts | None = None


class ContainerSpecWire(Wire):
    """A container of a pod spec."""

    name: str | None = None
    resources: ResourcesWire | None = None
    restart_policy: str | None = None


class NamedWire(Wire):
    """Anything with a name, such as a scheduling gate."""

    name: str | None = None


class PodSpecWire(Wire):
    """spec of a pod or of a pod template."""

    node_name: str | None = None
    containers: list[ContainerSpecWire] | None = None
    init_containers: list[ContainerSpecWire] | None = None
    scheduling_gates: list[NamedWire] | None = None
    priority_class_name: str | None = None


class TemplateWire(Wire):
    """A pod template."""

    spec: PodSpecWire | None = None


def _asked(container: ContainerSpecWire) -> dict[str, int]:
    """Requests of one container; where only a limit is given, that is the request."""
    resources = container.resources
    if resources is None:
        return {}
    return {
        name: parse_amount(name, amount)
        for name, amount in {**(resources.limits or {}), **(resources.requests or {})}.items()
    }


def _sum(all_asked: Iterable[dict[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for asked in all_asked:
        for name, amount in asked.items():
            total[name] = total.get(name, 0) + amount
    return total


def requests_of(spec: PodSpecWire | None) -> dict[str, int]:
    """Resource -> amount for the pod: its containers together, or one init container if that needs more."""
    if spec is None:
        return {}
    total = _sum(_asked(each) for each in spec.containers or ())
    sidecars: dict[str, int] = {}
    for each in spec.init_containers or ():
        asked = _asked(each)
        if each.restart_policy == "Always":  # runs beside the containers for the pod's whole life
            sidecars = _sum((sidecars, asked))
            total = _sum((total, asked))
            continue
        for name, amount in _sum((sidecars, asked)).items():
            total[name] = max(total.get(name, 0), amount)
    return total


def gpus_of(spec: PodSpecWire | None) -> int:
    """nvidia.com/gpu the pod asks for."""
    return requests_of(spec).get(GPU, 0) if spec else 0
