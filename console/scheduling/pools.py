"""Node pools: hardware, free capacity, and faults."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from console.kube.objects.node import Provisioning
from console.scheduling.topology import MACHINE_GPUS, Floor, floor

if TYPE_CHECKING:
    from collections.abc import Iterable

    from console.google.node_pools import PoolStatus
    from console.kube.objects.node import Node
    from console.kube.snapshot import Fleet

NO_POOL = "no pool"  # name of the group of nodes that have neither a pool label nor a machine type
_LARGE = 64  # GPUs of the large slot that is counted per block


@dataclass(frozen=True, slots=True)
class Pool:
    """One node pool."""

    name: str
    labelled: bool = True  # False for nodes without a pool label, which are grouped by machine type
    machine_type: str = ""  # several, with commas, where nodes without a pool are grouped
    zones: tuple[str, ...] = ()
    provisioning: Provisioning = Provisioning.ON_DEMAND
    reservation: str = ""
    accelerator: str = ""
    nodes: tuple[Node, ...] = ()
    nodes_ready: int = 0
    faults: tuple[tuple[str, str], ...] = ()  # Node and what is wrong with it, one entry per fault
    starting: tuple[str, ...] = ()  # nodes that are on their way
    maintenance: tuple[Node, ...] = ()  # nodes whose maintenance is announced or under way
    floor: Floor = field(default_factory=lambda: Floor(""))
    facts: PoolStatus | None = None  # what Google says of it; None: it was not asked
    requests: int = 0  # requests to DWS that wait for machines of such a pool

    @property
    def nodes_total(self) -> int:
        """Number of nodes, including those that Google is still creating."""
        return max(len(self.nodes), (self.facts.target or 0) if self.facts else 0)

    @property
    def slots64(self) -> int:
        """Number of jobs of 64 GPUs (8 whole machines) that fit, each within one block."""
        return sum(block.slots // (_LARGE // MACHINE_GPUS) for block in self.floor.blocks)


def pools(fleet: Fleet) -> tuple[Pool, ...]:
    """All node pools, those with GPUs first, then by name."""
    grouped: dict[tuple[bool, str], list[Node]] = defaultdict(list)
    for node in fleet.nodes.values():
        grouped[bool(node.pool), node.pool or node.machine_type or NO_POOL].append(node)
    found = [_pool(name, labelled, nodes, fleet) for (labelled, name), nodes in grouped.items()]
    return tuple(sorted(found, key=lambda pool: (not pool.floor.total, not pool.labelled, pool.name)))


def _pool(name: str, labelled: bool, nodes: list[Node], fleet: Fleet) -> Pool:
    nodes.sort(key=lambda node: node.name)
    return Pool(
        name=name,
        labelled=labelled,
        machine_type=", ".join(_distinct(node.machine_type for node in nodes)),
        zones=_distinct(node.zone for node in nodes),
        provisioning=Counter(node.provisioning for node in nodes).most_common(1)[0][0],
        reservation=next((node.reservation for node in nodes if node.reservation), ""),
        accelerator=next((node.accelerator for node in nodes if node.accelerator), ""),
        nodes=tuple(nodes),
        nodes_ready=sum(node.ready for node in nodes),
        faults=tuple((node.name, fault) for node in nodes for fault in node.faults(fleet.at)),
        starting=tuple(node.name for node in nodes if node.is_starting(fleet.at)),
        maintenance=tuple(node for node in nodes if node.maintenance_at or node.maintenance_active),
        floor=floor(nodes, fleet),
    )


def _distinct(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({value for value in values if value}))
