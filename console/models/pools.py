"""Node pools: what hardware there is, what is free, what is broken."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from console.models.node import Node, Provisioning

if TYPE_CHECKING:
    from collections.abc import Iterable

    from console.models.fleet import Fleet

SLOT = 8
"""GPUs of one A4 host: the smallest slot a multi-node job asks for."""
LARGE_SLOT = 64


@dataclass(frozen=True, slots=True)
class Pool:
    """One node pool, or the nodes of one machine type where the cluster has no pools."""

    name: str
    nodes: tuple[Node, ...]
    machine_type: str = ""
    zones: tuple[str, ...] = ()
    accelerator: str = ""
    provisioning: Provisioning = Provisioning.ON_DEMAND
    reservation: str = ""
    ready: int = 0
    """Nodes whose Ready condition is true."""
    gpus: int = 0
    """Allocatable GPUs of all its nodes."""
    used: int = 0
    free: int = 0
    """GPUs a new pod could have now; less than total minus used where nodes are cordoned or not ready."""
    free_slots: int = 0
    """Hosts with all 8 GPUs free."""
    free_large_slots: int = 0
    """How many times 64 GPUs on whole hosts are free within one block."""

    @property
    def faulty(self) -> tuple[Node, ...]:
        """Nodes with something wrong."""
        return tuple(node for node in self.nodes if node.faults)

    @property
    def maintained(self) -> tuple[Node, ...]:
        """Nodes with maintenance scheduled or under way, soonest first."""
        due = [node for node in self.nodes if node.maintenance_at or node.maintenance_active]
        return tuple(sorted(due, key=lambda node: (not node.maintenance_active, node.maintenance_at)))

    @property
    def cordoned(self) -> tuple[Node, ...]:
        """Nodes that take no new pods because somebody said so."""
        return tuple(node for node in self.nodes if node.cordoned)


def pools(fleet: Fleet) -> tuple[Pool, ...]:
    """All pools: those with GPUs first, the largest of them first."""
    members: dict[str, list[Node]] = defaultdict(list)
    for node in fleet.nodes.values():
        members[pool_name(node)].append(node)
    found = [_pool(name, sorted(nodes, key=by_place), fleet) for name, nodes in members.items()]
    return tuple(sorted(found, key=lambda pool: (-pool.gpus, pool.name)))


def pool_name(node: Node) -> str:
    """The node's pool; where it has none, its machine type in brackets, so that such nodes still stand together."""
    return node.pool or f"({node.machine_type or 'no pool'})"


def by_place(node: Node) -> tuple[str, str, str, str]:
    """Order of nodes: neighbours in the network stand together."""
    return node.block, node.subblock, node.host, node.name


def _pool(name: str, nodes: list[Node], fleet: Fleet) -> Pool:
    first = nodes[0]
    return Pool(
        name=name,
        nodes=tuple(nodes),
        machine_type=_most(node.machine_type for node in nodes),
        zones=tuple(sorted({node.zone for node in nodes if node.zone})),
        accelerator=_most(node.accelerator for node in nodes),
        provisioning=first.provisioning,
        reservation=_most(node.reservation for node in nodes),
        ready=sum(node.ready for node in nodes),
        gpus=sum(node.gpus for node in nodes),
        used=sum(fleet.gpus_used.get(node.name, 0) for node in nodes),
        free=sum(fleet.gpus_free(node) for node in nodes),
        free_slots=sum(fleet.gpus_free(node) >= SLOT for node in nodes),
        free_large_slots=_large_slots(nodes, fleet),
    )


def _most(values: Iterable[str]) -> str:
    counted = Counter(value for value in values if value)
    return counted.most_common(1)[0][0] if counted else ""


def _large_slots(nodes: list[Node], fleet: Fleet) -> int:
    hosts: Counter[str] = Counter(node.block for node in nodes if node.block and fleet.gpus_free(node) >= SLOT)
    return sum(free // (LARGE_SLOT // SLOT) for free in hosts.values())
