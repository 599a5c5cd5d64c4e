"""Topology assignment: the narrowest domain that holds a pod set, then as few domains as possible below it.

The nodes of a flavor are a tree by the levels of its Topology: block > subblock > host > node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct, field

from kueue_rules.node_constraints import first_untolerated_taint

if TYPE_CHECKING:
    from kueue_rules.state import Amounts, Flavor, Place, SnapshotNode, SnapshotPodSet

HOSTNAME = "kubernetes.io/hostname"
_ONE_POD = {"pods": 1000}
_NOTHING: Mapping[tuple[str, ...], Amounts] = {}


class Domain(Struct, eq=False):
    """One topology domain; a leaf is a node, or all nodes with the same labels if levels end above nodes."""

    values: tuple[str, ...]
    children: list[Domain] = field(default_factory=list)
    nodes: list[SnapshotNode] = field(default_factory=list)
    free: Amounts = field(default_factory=dict)  # what pods placed by topology may use in all (leaves only)
    used: Amounts = field(default_factory=dict)
    state: int = 0  # pods that fit, then pods that are placed
    slices: int = 0


class TopologyTree:
    """The nodes of one flavor as a tree by the levels of its Topology."""

    def __init__(
        self,
        name: str,
        levels: Sequence[str],
        flavor: Flavor,
        nodes: Iterable[SnapshotNode],
        others: Mapping[str, Amounts],
    ) -> None:
        """`others`: by node name, the usage of pods that are not scheduled by topology."""
        self.name, self.flavor, self.levels = name, flavor, list(levels)
        self.of_nodes = self.levels[-1] == HOSTNAME
        self.by_level: list[dict[tuple[str, ...], Domain]] = [{} for _ in self.levels]
        self._leaves: dict[tuple[str, ...], Domain] = {}
        for node in nodes:
            if all(node.labels.get(key) == value for key, value in flavor.labels.items()):
                self._add(node, others.get(node.name, {}))

    @property
    def leaves(self) -> list[Domain]:
        """The domains of the lowest level, in order."""
        return list(self.by_level[-1].values())

    def level_of(self, key: str) -> int | None:
        """The index of a level, 0 is the widest; None if there is no such level."""
        return self.levels.index(key) if key in self.levels else None

    @property
    def assigned_levels(self) -> list[str]:
        """The levels listed in an assignment: all, or only the last if that is the node."""
        return self.levels[-1:] if self.of_nodes else self.levels

    def assigned(self, domain: Domain) -> tuple[str, ...]:
        return domain.values[-1:] if self.of_nodes else domain.values

    def use(self, values: tuple[str, ...], single: Amounts, pods: int) -> None:
        """Add pods to the usage of a domain; a negative number removes them."""
        leaf = self._leaves.get(values)
        if leaf is not None:
            add_amounts(leaf.used, {**single, **_ONE_POD}, pods)

    def has_room(self, values: tuple[str, ...], single: Amounts, pods: int) -> bool:
        leaf = self._leaves.get(values)
        return leaf is not None and all(
            value * pods <= leaf.free.get(name, 0) - leaf.used.get(name, 0)
            for name, value in {**single, **_ONE_POD}.items()
        )

    def _add(self, node: SnapshotNode, other: Amounts) -> None:
        values = tuple([node.labels.get(level, "") for level in self.levels])
        if not all(values):
            return
        parent: Domain | None = None
        for depth, known in enumerate(self.by_level):
            domain = known.get(values[: depth + 1])
            if domain is None:
                domain = known[values[: depth + 1]] = Domain(values[: depth + 1])
                if parent is not None:
                    parent.children.append(domain)
            parent = domain
        if parent is not None:
            parent.nodes.append(node)
            add_amounts(parent.free, node.allocatable)
            add_amounts(parent.free, other, -1)
            self._leaves[self.assigned(parent)] = parent


def add_amounts(into: Amounts, more: Mapping[str, int], times: int = 1) -> None:
    for name, value in more.items():
        into[name] = into.get(name, 0) + value * times


class _Request(Struct):
    """A pod set's topology request, resolved for a tree."""

    count: int
    level: int
    slice_level: int
    slice_size: int = 1
    required: bool = False
    unconstrained: bool = False


class _Exclusions(Struct):
    """Counts why nodes were left out."""

    total: int = 0
    reasons: Counter[str] = field(default_factory=Counter)

    def words(self) -> str:
        """The counts as Kueue appends them to its message."""
        if not self.reasons:
            return ""
        listed = ", ".join(sorted(f"{reason}: {count}" for reason, count in self.reasons.items()))
        return f". Total nodes: {self.total}; excluded: {listed}"


def assign_together(
    wanted: Iterable[tuple[TopologyTree, SnapshotPodSet]], *, empty: bool = False
) -> tuple[list[list[Place]], str]:
    """The domains of each pod set of a workload, none of which takes the room of another, and why the next has none."""
    found: list[list[Place]] = []
    taken: dict[TopologyTree, dict[tuple[str, ...], Amounts]] = {}
    for tree, pod_set in wanted:
        earlier = taken.setdefault(tree, {})
        places, why = assign_topology(tree, pod_set, empty=empty, taken=earlier)
        if why:
            return found, why
        found.append(places)
        for values, pods in places:
            add_amounts(earlier.setdefault(values, {}), {**pod_set.single, **_ONE_POD}, pods)
    return found, ""


def assign_topology(
    tree: TopologyTree,
    pod_set: SnapshotPodSet,
    *,
    empty: bool = False,
    taken: Mapping[tuple[str, ...], Amounts] = _NOTHING,
) -> tuple[list[Place], str]:
    """The domains of all pods of a pod set, or none and the reason; `empty` ignores usage, not what is taken."""
    request, why = _request(tree, pod_set)
    if request is None:
        return [], why
    excluded = _count_fitting_pods(tree, pod_set, request, empty=empty, taken=taken)
    level, domains, why = _find_level(tree, request, request.level, excluded)
    if why:
        return [], why
    chosen = _place_in_order(domains, request, request.slice_size, by_slices=True)
    last = len(tree.levels) - 1
    while level < min(last, request.slice_level):
        below = [child for domain in chosen for child in domain.children]
        chosen = _place_in_order(_sorted(below, request), request, request.slice_size, by_slices=True)
        level += 1
    while level < last:
        parents, chosen = chosen, []
        for parent in parents:
            part = _Request(parent.state, request.level, request.slice_level, 1, unconstrained=request.unconstrained)
            chosen += _place_in_order(_sorted(parent.children, request), part, 1, by_slices=False)
        level += 1
    chosen.sort(key=lambda domain: domain.values)
    return [(tree.assigned(domain), domain.state) for domain in chosen if domain.state], ""


def fill(tree: TopologyTree, pod_set: SnapshotPodSet, *, empty: bool = False) -> None:
    """Set `state` of every domain to the number of such pods that fit now, or with `empty` if nothing ran."""
    _count_fitting_pods(tree, pod_set, _Request(pod_set.count, 0, len(tree.levels) - 1), empty=empty)


def roomiest(domains: Iterable[Domain]) -> list[Domain]:
    """Domains in the order of trying: most room first."""
    return sorted(domains, key=lambda domain: (-domain.slices, domain.state, domain.values))


def _request(tree: TopologyTree, pod_set: SnapshotPodSet) -> tuple[_Request | None, str]:
    asked, last = pod_set.topology, len(tree.levels) - 1
    key = asked.required or asked.preferred or (tree.levels[0] if asked.slice_level else "")
    level = tree.level_of(key) if key else last
    if level is None:
        return None, f"no requested topology level: {key}"
    slice_key = asked.slice_level or tree.levels[last]
    slice_level = tree.level_of(slice_key)
    if slice_level is None:
        return None, f"no requested topology level for slices: {slice_key}"
    if slice_level < level:
        return None, f"podset slice topology {slice_key} is above the podset topology {key}"
    free = bool(asked.unconstrained) or not (asked.required or asked.preferred)
    return _Request(pod_set.count, level, slice_level, asked.slice_size, bool(asked.required), free), ""


def _count_fitting_pods(
    tree: TopologyTree, pod_set: SnapshotPodSet, request: _Request, *, empty: bool,
    taken: Mapping[tuple[str, ...], Amounts] = _NOTHING,
) -> _Exclusions:  # fmt: skip
    """Set the number of fitting pods in every domain; returns why nodes were left out."""
    excluded = _Exclusions()
    tolerations = (*pod_set.tolerations, *tree.flavor.tolerations)
    single = sorted((name, value) for name, value in {**pod_set.single, **_ONE_POD}.items() if value > 0)
    chosen = bool(pod_set.selector) or pod_set.affinity is not None
    for leaf in tree.leaves:
        leaf.state = leaf.slices = 0
        excluded.total += 1
        if tree.of_nodes:
            node = leaf.nodes[0]
            if node.taints and (taint := first_untolerated_taint(node.taints, tolerations)):
                excluded.reasons[f'taint "{taint}"'] += 1
                continue
            if chosen and not pod_set.selects(node.name, node.labels):
                excluded.reasons["affinity" if pod_set.has_affinity else "nodeSelector"] += 1
                continue
        used = {} if empty else leaf.used
        if taken and (more := taken.get(tree.assigned(leaf))):
            used = dict(used)
            add_amounts(used, more)
        free = [(max(leaf.free.get(name, 0) - used.get(name, 0), 0) // value, name) for name, value in single]
        leaf.state, scarce = min(free)
        if not leaf.state:
            excluded.reasons[f'resource "{scarce}"'] += 1
    for root in tree.by_level[0].values():
        _sum_up(root, 0, request)
    return excluded


def _sum_up(domain: Domain, level: int, request: _Request) -> None:
    for child in domain.children:
        _sum_up(child, level + 1, request)
    if domain.children:
        domain.state = sum(child.state for child in domain.children)
        domain.slices = sum(child.slices for child in domain.children)
    if level == request.slice_level:
        domain.slices = domain.state // request.slice_size


def _find_level(
    tree: TopologyTree, request: _Request, level: int, excluded: _Exclusions
) -> tuple[int, list[Domain], str]:
    """The level and domains to start with: one domain that holds all, at this level or a wider one."""
    domains = _sorted(list(tree.by_level[level].values()), request)
    if not domains:
        return 0, [], f"no topology domains at level: {tree.levels[level]}"
    slices = request.count // request.slice_size
    if request.unconstrained:
        fitting = [domain for domain in domains if domain.slices >= slices]
        if fitting:
            return level, [fitting[0]], ""
    elif domains[0].slices >= slices:
        return level, [best_fit(domains, slices)], ""
    if request.required:
        return 0, [], _not_fitting(tree, domains[0].slices, request, excluded)
    if level > 0 and not request.unconstrained:
        return _find_level(tree, request, level - 1, excluded)
    chosen, left = spread(domains, slices, unconstrained=request.unconstrained)
    if left > 0:
        return 0, [], _not_fitting(tree, slices - left, request, excluded)
    return level, chosen, ""


def spread(
    domains: Iterable[Domain], needed: int, *, unconstrained: bool = False, by_slices: bool = True
) -> tuple[list[Domain], int]:
    """The domains that together hold everything needed, and what remains if they are too few."""
    chosen, left, rest = [], needed, list(domains)
    while left > 0 and rest:
        domain = rest[0]
        if not unconstrained and _fitting_count(domain, by_slices) >= left:
            domain = best_fit(rest, left, by_slices=by_slices)
        rest.remove(domain)
        if room := _fitting_count(domain, by_slices):
            chosen.append(domain)
            left -= room
    return chosen, left


def _place_in_order(domains: list[Domain], request: _Request, size: int, *, by_slices: bool) -> list[Domain]:
    """Take domains in order until all pods are placed; sets the pods taken in each domain."""
    left = request.count // size if by_slices else request.count
    chosen, _ = spread(domains, left, unconstrained=request.unconstrained, by_slices=by_slices)
    for domain in chosen:
        taken = min(_fitting_count(domain, by_slices), left)
        left -= taken
        domain.slices, domain.state = (taken, taken * size) if by_slices else (domain.slices, taken)
    return chosen


def _fitting_count(domain: Domain, by_slices: bool) -> int:
    return domain.slices if by_slices else domain.state


def best_fit(domains: list[Domain], needed: int, *, by_slices: bool = True) -> Domain:
    """The domain with the least sufficient room; the first, which is the roomiest, if none suffices."""
    best = domains[0]
    for domain in domains:
        if needed <= _fitting_count(domain, by_slices) < _fitting_count(best, by_slices):
            best = domain
    return best


def _sorted(domains: list[Domain], request: _Request) -> list[Domain]:
    if request.unconstrained:
        return sorted(domains, key=lambda domain: (domain.slices, domain.state, domain.values))
    return roomiest(domains)


def _not_fitting(tree: TopologyTree, fit: int, request: _Request, excluded: _Exclusions) -> str:
    unit = "pod" if request.slice_size == 1 else "slice"
    total = request.count // request.slice_size
    text = f'topology "{tree.name}" allows to fit only {fit} out of {total} {unit}(s)'
    if not fit:
        text = f'topology "{tree.name}" doesn\'t allow to fit any of {total} {unit}(s)'
    return text + excluded.words()
