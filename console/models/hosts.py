"""Machines that a job may use, counted by place: quick sums over thousands of nodes, kept for as long as a picture."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from console.models.placement import Wish, emptying, flavor_nodes, label_of, level_name, place_of
from console.models.places import Area, host
from console.models.suits import untolerated

if TYPE_CHECKING:
    from collections.abc import Mapping

    from console.models.explanation import Held
    from console.models.fleet import Fleet
    from console.models.node import Node
    from console.models.suits import Toleration

_TRIED = 4
"""Places looked at for who would have to end: those with most room, which need the fewest to go."""
_SUBBLOCK = "cloud.google.com/gce-topology-subblock"
_BLOCK = "cloud.google.com/gce-topology-block"


@dataclass(frozen=True, eq=False)
class Machines:
    """Nodes with room counted in pods of one size."""

    nodes: tuple[Node, ...]
    rooms: tuple[int, ...]
    """Pods that fit on each node now."""
    sizes: tuple[int, ...]
    """Pods that would fit on each if nothing ran there."""
    free: int
    total: int

    def known(self, level: str) -> bool:
        """Whether the nodes say where they are at that level."""
        return any(place_of(node, level) for node in self.nodes)

    def slots(self, level: str) -> Mapping[str, int]:
        """Pods that fit now, by place."""
        return self._sum(level, self.rooms)

    def capacity(self, level: str) -> Mapping[str, int]:
        """Pods that would fit if nothing ran, by place."""
        return self._sum(level, self.sizes)

    def _sum(self, level: str, counts: tuple[int, ...]) -> Mapping[str, int]:
        found: Counter[str] = Counter()
        for node, count in zip(self.nodes, counts, strict=True):
            found[place_of(node, level) or ""] += count
        return found

    def together(self, pods: int, level: str) -> tuple[str, str] | None:
        """Level and name of the fullest place that still has room for all of them."""
        fitting = sorted((count, name) for name, count in self.slots(level).items() if count >= pods)
        return (level_name(level), fitting[0][1]) if fitting else None

    def smallest(self, pods: int) -> tuple[str, str] | None:
        """The narrowest place that has room for all of them: one host, a subblock, a block; None where none has."""
        if pods == 1 and self.free:
            # The scheduler packs: the machine with least room left is filled first.
            _, name = min((room, node.name) for room, node in zip(self.rooms, self.nodes, strict=True) if room)
            return "host", name
        for level in (_SUBBLOCK, _BLOCK):
            if self.known(level) and (found := self.together(pods, level)):
                return found
        return None

    def spread(self, pods: int, level: str) -> int:
        """The fewest places of that level over which they fit; 0 if they do not fit."""
        left = pods
        for number, count in enumerate(sorted(self.slots(level).values(), reverse=True), start=1):
            left -= count
            if left <= 0:
                return number
        return 0


_kept: WeakKeyDictionary[Fleet, dict[object, Machines]] = WeakKeyDictionary()
"""A form asks on every key, and the picture changes four times a second at most."""


def machines(
    fleet: Fleet,
    size: int,
    flavor: str,
    selector: tuple[tuple[str, str], ...],
    targets: tuple[str, ...],
    avoided: tuple[str, ...],
    tolerations: tuple[Toleration, ...],
) -> Machines:
    """Nodes of a flavor (all with GPUs, if none is named) that a pod with these wishes may be placed on.

    Labels that the console does not keep of a node are taken to match; taints of its present state keep it in `total`.
    """
    asked = (size, flavor, selector, targets, avoided, tolerations)
    known = _kept.setdefault(fleet, {})
    if asked not in known:
        nodes = flavor_nodes(flavor, fleet) if flavor else [each for each in fleet.nodes.values() if each.gpu_capacity]
        wanted, unwanted = set(targets), set(avoided)
        fits = [
            node
            for node in nodes
            if (not wanted or node.name in wanted)
            and node.name not in unwanted
            and all(label_of(node, key) in (None, value) for key, value in selector)
            and not untolerated(node.taints, tolerations, lasting=True)
        ]
        rooms = tuple(fleet.gpus_free(node) // size for node in fits)
        sizes = tuple(max(node.gpus, node.gpu_capacity) // size for node in fits)
        known[asked] = Machines(tuple(fits), rooms, sizes, sum(rooms), sum(sizes))
    return known[asked]


_blockers: WeakKeyDictionary[Fleet, dict[object, tuple[Held, ...]]] = WeakKeyDictionary()


def placed(fleet: Fleet, found: Machines, pods: int, size: int, level: str = "") -> tuple[Held, ...]:
    """The fewest jobs whose end would make room for all pods, in one place of that level if one is named."""
    asked = (id(found), pods, size, level)
    known = _blockers.setdefault(fleet, {})
    if asked not in known:
        areas: dict[str, list[Node]] = defaultdict(list)
        for node in found.nodes:
            areas[(place_of(node, level) or "") if level else ""].append(node)
        slots = found.slots(level) if level else {"": found.free}
        nearest = sorted(areas, key=lambda name: (-slots.get(name, 0), name))[:_TRIED]
        wish = Wish(pods, size, level_name(level) if level else "", level)
        answers = [
            emptying(Area(name, tuple(host(node, fleet) for node in nodes)), wish, fleet)
            for name, nodes in ((name, areas[name]) for name in nearest)
        ]
        enough = [each for each in answers if each]
        known[asked] = min(enough, key=lambda each: (len(each), sum(job.gpus for job in each)), default=())
    return known[asked]
