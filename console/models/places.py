"""Places in the network: blocks, subblocks and hosts, who holds their GPUs, and what would fit where."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from console.models.pools import SLOT, by_place

if TYPE_CHECKING:
    from collections.abc import Iterable

    from console.models.fleet import Fleet
    from console.models.node import Node
    from console.models.pod import Pod


@dataclass(frozen=True, slots=True)
class Host:
    """One machine with its GPUs as pips.

    The API counts GPUs and does not number them, so pips are filled from the left in the order of the pods: which of the
    eight a pod really has is not known.
    """

    node: Node
    pips: tuple[Pod | None, ...]
    """One entry per GPU: the pod that holds it, None while free."""

    @property
    def free(self) -> int:
        """GPUs nobody holds; those of a host that takes no pods count too, see `Node.takes_pods`."""
        return sum(pip is None for pip in self.pips)


@dataclass(frozen=True, slots=True)
class Subblock:
    """Hosts that share a subblock of the network."""

    name: str
    hosts: tuple[Host, ...]

    @property
    def free_hosts(self) -> int:
        """Hosts a pod with 8 GPUs could go to now."""
        return sum(host.node.takes_pods and host.free >= SLOT for host in self.hosts)


@dataclass(frozen=True, slots=True)
class Block:
    """Subblocks that share a block of the network."""

    name: str
    subblocks: tuple[Subblock, ...]

    @property
    def free_hosts(self) -> int:
        """Hosts a pod with 8 GPUs could go to now."""
        return sum(subblock.free_hosts for subblock in self.subblocks)

    @property
    def hosts(self) -> int:
        """All its hosts."""
        return sum(len(subblock.hosts) for subblock in self.subblocks)


@dataclass(frozen=True, slots=True)
class LargestFree:
    """The largest free stretches, in GPUs on whole hosts."""

    in_subblock: int
    in_block: int
    anywhere: int


def blocks(nodes: Iterable[Node], fleet: Fleet) -> tuple[Block, ...]:
    """The floor map of those nodes that have GPUs; nodes without place labels share a block without a name."""
    floor: dict[str, dict[str, list[Host]]] = defaultdict(lambda: defaultdict(list))
    for node in sorted(nodes, key=by_place):
        if node.gpus or node.gpu_capacity:
            floor[node.block][node.subblock].append(host(node, fleet))
    return tuple(
        Block(name, tuple(Subblock(sub, tuple(hosts)) for sub, hosts in subblocks.items()))
        for name, subblocks in floor.items()
    )


def host(node: Node, fleet: Fleet) -> Host:
    """One machine with the holders of its GPUs."""
    holders = sorted(fleet.pods_by_node.get(node.name, ()), key=lambda pod: (pod.created, pod.name))
    taken = [pod for pod in holders for _ in range(pod.holds_gpus)]
    width = max(node.gpus, node.gpu_capacity, len(taken))
    return Host(node, tuple(taken) + (None,) * (width - len(taken)))


def largest_free(floor: Iterable[Block]) -> LargestFree:
    """The largest free stretch in one subblock, in one block, and in all."""
    found = tuple(floor)
    return LargestFree(
        in_subblock=SLOT * max((sub.free_hosts for block in found for sub in block.subblocks), default=0),
        in_block=SLOT * max((block.free_hosts for block in found), default=0),
        anywhere=SLOT * sum(block.free_hosts for block in found),
    )


def smallest_place(floor: Iterable[Block], hosts: int) -> str:
    """The smallest place where that many pods of 8 GPUs fit now: "subblock", "block", "anywhere" or ""."""
    free = largest_free(floor)
    for name, gpus in (("subblock", free.in_subblock), ("block", free.in_block), ("anywhere", free.anywhere)):
        if hosts * SLOT <= gpus:
            return name
    return ""
