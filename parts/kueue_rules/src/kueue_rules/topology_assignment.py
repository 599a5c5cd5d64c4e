"""Topology assignment: the narrowest domain that holds a pod set, then as few domains as possible below it.

The nodes of a flavor are a tree by the levels of its Topology: block > subblock > host > node.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from kueue_rules.node_constraints import first_untolerated_taint

Amounts = dict[str, int]  # by name of the resource

if TYPE_CHECKING:
    from kueue_rules.snapshot import Flavor, Place, SnapshotNode, SnapshotPodSet, TopologyRequest

HOSTNAME = "kubernetes.io/hostname"
_ONE_POD = {"pods": 1000}
_NO_USAGE: Mapping[tuple[str, ...], Amounts] = {}


class SnapshotDomain(Struct, eq=False):
    """A topology domain; a leaf is one node, or all nodes with equal labels if the levels end above nodes."""

    values: tuple[str, ...]
    children: list[SnapshotDomain] = field(default_factory=list)
    nodes: list[SnapshotNode] = field(default_factory=list)
    free: Amounts = field(default_factory=dict)  # what pods placed by topology may use in all (leaves only)
    used: Amounts = field(default_factory=dict)
    state: int = 0  # pods that fit, then pods that are placed
    slices: int = 0
    leader: int = 0  # 1: the leader of a group fits, then it is placed
    state_beside: int = 0  # pods that fit beside that leader
    slices_beside: int = 0


class TopologyTree:
    """The nodes of one flavor as a tree by the levels of its Topology."""

    weighs_leaders = False
    """Whether a group's leader is placed where enough room for the workers remains, as from Kueue 0.19 on."""
    before: dict[tuple[str, ...], Amounts] | None = None
    """During a cycle: the usage by all flavors before it, of each leaf that this flavor has used since; else None."""

    def __init__(
        self,
        name: str,
        levels: Sequence[str],
        flavor: Flavor,
        nodes: Iterable[SnapshotNode],
        other_usage: Mapping[str, Amounts],
    ) -> None:
        """`other_usage`: by node name, the usage of pods that topology-aware scheduling did not place."""
        self.name, self.flavor, self.levels = name, flavor, list(levels)
        self.of_nodes = self.levels[-1] == HOSTNAME
        self.by_level: list[dict[tuple[str, ...], SnapshotDomain]] = [{} for _ in self.levels]
        self.leaf_of: dict[tuple[str, ...], SnapshotDomain] = {}
        """The leaves by their level values as an assignment names them."""
        for node in nodes:
            if all(node.labels.get(key) == value for key, value in flavor.labels.items()):
                self._add_node(node, other_usage.get(node.name, {}))

    @property
    def leaves(self) -> list[SnapshotDomain]:
        """The domains of the lowest level, in order."""
        return list(self.by_level[-1].values())

    def level_of(self, key: str) -> int | None:
        """The index of a level, 0 is the widest; None if there is no such level."""
        return self.levels.index(key) if key in self.levels else None

    @property
    def assigned_levels(self) -> list[str]:
        """The levels that an assignment names: all, or only the last if that is the node."""
        return self.levels[-1:] if self.of_nodes else self.levels

    def assigned_values(self, domain: SnapshotDomain) -> tuple[str, ...]:
        return domain.values[-1:] if self.of_nodes else domain.values

    def add_usage(self, values: tuple[str, ...], pod_requests: Amounts, pods: int) -> None:
        """Add pods to the usage of a domain; a negative number removes them."""
        leaf = self.leaf_of.get(values)
        if leaf is not None:
            if self.before is not None and values not in self.before:
                self.before[values], leaf.used = leaf.used, dict(leaf.used)
            add_amounts(leaf.used, {**pod_requests, **_ONE_POD}, pods)

    def has_room(self, values: tuple[str, ...], pod_requests: Amounts, pods: int) -> bool:
        leaf = self.leaf_of.get(values)
        return leaf is not None and all(
            value * pods <= leaf.free.get(name, 0) - leaf.used.get(name, 0)
            for name, value in {**pod_requests, **_ONE_POD}.items()
        )

    def _add_node(self, node: SnapshotNode, other: Amounts) -> None:
        values = tuple([node.labels.get(level, "") for level in self.levels])
        if not all(values):
            return
        parent: SnapshotDomain | None = None
        for depth, known in enumerate(self.by_level):
            domain = known.get(values[: depth + 1])
            if domain is None:
                domain = known[values[: depth + 1]] = SnapshotDomain(values[: depth + 1])
                if parent is not None:
                    parent.children.append(domain)
            parent = domain
        if parent is not None:
            parent.nodes.append(node)
            add_amounts(parent.free, node.allocatable)
            add_amounts(parent.free, other, -1)
            self.leaf_of[self.assigned_values(parent)] = parent


def add_amounts(total: Amounts, added: Mapping[str, int], times: int = 1) -> None:
    for name, value in added.items():
        total[name] = total.get(name, 0) + value * times


class _ResolvedRequest(Struct):
    """A pod set's topology request, resolved for a tree."""

    count: int
    level: int
    slice_level: int
    slice_size: int = 1
    required: bool = False
    unconstrained: bool = False
    leader: Amounts | None = None  # what the leader of the group requests, which has to be placed with these pods
    inner: Mapping[int, int] = field(
        default_factory=dict
    )  # by level below that of the slices, how many pods stay together
    within: tuple[str, ...] = ()  # the values of the only domain that counts
    weighed: bool = False  # whether the leader goes where it leaves room enough


class _ExclusionCounts(Struct):
    """The number of nodes left out, in total and for each reason."""

    total: int = 0
    reasons: Counter[str] = field(default_factory=Counter)

    def words(self) -> str:
        """The counts of excluded nodes, as Kueue appends them to its message; empty if none was excluded."""
        if not self.reasons:
            return ""
        listed = ", ".join(sorted(f"{reason}: {count}" for reason, count in self.reasons.items()))
        return f". Total nodes: {self.total}; excluded: {listed}"


class WantedPlaces(NamedTuple):
    """A pod set that needs topology domains, and the tree in which they are searched."""

    tree: TopologyTree
    pod_set: SnapshotPodSet


_TakenPlaces = dict[tuple[str, ...], Amounts]


def assign_together(
    requests: Iterable[WantedPlaces], *, empty: bool = False, failed: Sequence[str] = ()
) -> tuple[list[list[Place]], str]:
    """The domains of each pod set of a workload, without overlap, and the reason why the next pod set has none.

    Pod sets of one group are placed together. `failed`: failed nodes, the first of which is replaced.
    """
    listed = list(requests)
    if len(listed) == 1 and not failed:
        places, why = assign_topology(*listed[0], assumes_empty=empty)
        return ([], why) if why else ([places], "")
    found: list[list[Place]] = [[] for _ in listed]
    by_node: _TakenPlaces = {}  # flavors may share nodes
    by_tree: dict[TopologyTree, _TakenPlaces] = {}

    def group(index: int) -> tuple[int, str]:
        tree, pod_set = listed[index]
        name = pod_set.topology.group
        if not name:
            return index, ""
        return next((lead, name) for lead, (of, one) in enumerate(listed) if of is tree and one.topology.group == name)

    for _, members in groupby(sorted(range(len(listed)), key=group), key=group):
        together = [(at, listed[at]) for at in members]
        tree = together[0][1].tree
        taken = by_node if tree.of_nodes else by_tree.setdefault(tree, {})
        ways: Iterable[tuple[int, SnapshotPodSet, list[Place], str]] = (
            ((at, one, *replace_node(of, one, failed[0], taken=taken)) for at, (of, one) in together)
            if failed
            else _assign_group(tree, [(at, each.pod_set) for at, each in together], empty=empty, taken=taken)
        )
        for at, pod_set, places, why in ways:
            if why:
                return found[:at], why
            found[at] = places
            kept = dict(pod_set.places) if failed else {}
            for values, pods in places:
                add_amounts(taken.setdefault(values, {}), {**pod_set.single, **_ONE_POD}, pods - kept.get(values, 0))
    return found, ""


def _assign_group(
    tree: TopologyTree, members: Sequence[tuple[int, SnapshotPodSet]], *, empty: bool, taken: _TakenPlaces
) -> list[tuple[int, SnapshotPodSet, list[Place], str]]:
    if len(members) == 1:
        at, pod_set = members[0]
        return [(at, pod_set, *assign_topology(tree, pod_set, assumes_empty=empty, taken=taken))]
    workers, leader = members[:2]
    if leader[1].count > workers[1].count:
        workers, leader = leader, workers
    places, beside, why = _assign_with_leader(
        tree, workers[1], assumes_empty=empty, taken=taken, leader=leader[1].single
    )
    return [(*workers, places, why), (*leader, beside, why)]


def replace_node(
    tree: TopologyTree, pod_set: SnapshotPodSet, failed: str, *, taken: Mapping[tuple[str, ...], Amounts] = _NO_USAGE
) -> tuple[list[Place], str]:
    """The domains of a pod set with a replacement for a failed node, or none and the reason."""
    kept = [(values, pods) for values, pods in pod_set.places if values[-1] != failed]
    missing = sum(pods for values, pods in pod_set.places if values[-1] == failed)
    for values, _ in kept:
        if values not in tree.leaf_of:
            stale = (
                "Cannot replace the node, because the existing topologyAssignment is invalid, as it contains the stale"
            )
            return [], f"{stale} domain {values[0]}"
    asked = pod_set.topology
    within, broken = _replacement_domain(tree, asked, kept, missing)
    if within and broken:
        whole = next((each for each in reversed(asked.layers) if missing % each[1] == 0), ("", 1))
        asked = replace(asked, slice_level=whole[0], slice_size=whole[1], inner_layers=())
        if not (asked.required or asked.preferred or asked.slice_level):  # it asked for slices alone
            return [], "topology level not specified"
    part = replace(pod_set.scaled(missing), topology=asked)
    places, _, why = _assign_with_leader(tree, part, assumes_empty=False, taken=taken, domain_values=within)
    if not why and not places:
        why = f"cannot find replacement assignment for unhealthy node: {failed}"
    if why:
        return [], why
    whole_places = Counter(dict(kept))
    whole_places.update(dict(places))
    return sorted(whole_places.items(), key=lambda each: tree.leaf_of[each[0]].values), ""


def _replacement_domain(
    tree: TopologyTree, request: TopologyRequest, kept: Sequence[Place], missing: int
) -> tuple[tuple[str, ...], bool]:
    """(values of the domain in which a failed node must be replaced, whether a slice was broken)."""
    key = request.required or request.preferred or (tree.levels[0] if request.slice_level else tree.levels[-1])
    level = tree.level_of(key)
    if level is None or not kept:
        return (), False
    layers = request.layers
    if layers and missing % layers[0][1]:
        name, size = next((each for each in reversed(layers) if missing % each[1]), layers[0])
        at = tree.level_of(name)
        if at is None:
            return (), True
        held: Counter[tuple[str, ...]] = Counter()
        for values, pods in kept:
            held[tree.leaf_of[values].values[: at + 1]] += pods
        return next((values for values, pods in held.items() if (pods + missing) % size == 0), ()), True
    return (tree.leaf_of[kept[0][0]].values[: level + 1] if request.required else ()), False


def assign_topology(
    tree: TopologyTree,
    pod_set: SnapshotPodSet,
    *,
    assumes_empty: bool = False,
    taken: Mapping[tuple[str, ...], Amounts] = _NO_USAGE,
) -> tuple[list[Place], str]:
    """The domains of all pods of a pod set, or none and the reason; `assumes_empty` ignores usage, not `taken`."""
    places, _, why = _assign_with_leader(tree, pod_set, assumes_empty=assumes_empty, taken=taken)
    return places, why


def _assign_with_leader(
    tree: TopologyTree,
    pod_set: SnapshotPodSet,
    *,
    assumes_empty: bool,
    taken: Mapping[tuple[str, ...], Amounts],
    leader: Amounts | None = None,
    domain_values: tuple[str, ...] = (),
) -> tuple[list[Place], list[Place], str]:
    """(domains of a pod set, domains of its group's leader, reason if there are none)."""
    request, why = _resolve_request(tree, pod_set)
    if request is None:
        return [], [], why
    request.leader, request.within, request.weighed = leader, domain_values, tree.weighs_leaders
    excluded = _count_fitting_pods(tree, pod_set, request, assumes_empty=assumes_empty, taken=taken)
    level, domains, why = _find_level(tree, request, request.level, excluded)
    if why:
        return [], [], why
    leaders = int(leader is not None)
    chosen = _place_in_order(domains, request, request.count, leaders, request.slice_size, by_slices=True)
    last = len(tree.levels) - 1
    while level < min(last, request.slice_level):
        below = _sort_by_room([child for domain in chosen for child in domain.children], request)
        chosen = _place_in_order(below, request, request.count, leaders, request.slice_size, by_slices=True)
        level += 1
    while level < last:
        level += 1
        parents, chosen, size = chosen, [], request.inner.get(level, 1)
        for parent in parents:
            below = _sort_by_room(parent.children, request)
            if size > 1:
                for child in below:
                    child.slices, child.slices_beside = child.state // size, child.state_beside // size
            chosen += _place_in_order(below, request, parent.state, parent.leader, size, by_slices=size > 1)
    chosen.sort(key=lambda domain: domain.values)
    places, beside = (
        [(tree.assigned_values(domain), pods) for domain in chosen if (pods := getattr(domain, kind))]
        for kind in ("state", "leader")
    )
    return places, beside if leader is not None else [], ""


def count_fitting(tree: TopologyTree, pod_set: SnapshotPodSet, *, empty: bool = False) -> None:
    """Set the number of pods that fit in every domain now, or (`empty`) if nothing ran."""
    _count_fitting_pods(tree, pod_set, _ResolvedRequest(pod_set.count, 0, len(tree.levels) - 1), assumes_empty=empty)


def sort_by_room(domains: Iterable[SnapshotDomain]) -> list[SnapshotDomain]:
    """Domains in the order of trying: most room first."""
    return sorted(domains, key=lambda domain: (-domain.slices, domain.state, domain.values))


def _resolve_request(tree: TopologyTree, pod_set: SnapshotPodSet) -> tuple[_ResolvedRequest | None, str]:
    asked, last = pod_set.topology, len(tree.levels) - 1
    key = asked.required or asked.preferred or (tree.levels[0] if asked.slice_level else "")
    level = tree.level_of(key) if key else last
    if level is None:
        return None, f"no requested topology level: {key}"
    if asked.slice_level and not asked.slice_size:
        return None, "slice topology requested, but slice size not provided"
    slice_key = asked.slice_level or tree.levels[last]
    slice_level = tree.level_of(slice_key)
    if slice_level is None:
        return None, f"no requested topology level for slices: {slice_key}"
    if slice_level < level:
        return None, f"podset slice topology {slice_key} is above the podset topology {key}"
    inner, why = _inner_layers(tree, asked, slice_level)
    if why:
        return None, why
    free = bool(asked.unconstrained) or not (asked.required or asked.preferred)
    size = asked.slice_size if asked.slice_level else 1
    return _ResolvedRequest(pod_set.count, level, slice_level, size, bool(asked.required), free, inner=inner), ""


def _inner_layers(tree: TopologyTree, request: TopologyRequest, above: int) -> tuple[dict[int, int], str]:
    """(by topology level below `above`, how many pods must stay together; the fault of an invalid request, or "")."""
    found: dict[int, int] = {}
    size = request.slice_size
    for name, part in request.inner_layers:
        level = tree.level_of(name)
        if level is None:
            return {}, f"no requested topology level for additional slice layer: {name}"
        if level <= above:
            upper = tree.levels[above]
            return {}, f"additional slice layer topology {name} must be at a lower level than {upper}"
        if size % part:
            return {}, f"additional slice layer size {part} must evenly divide parent layer size {size}"
        found |= dict.fromkeys(range(above + 1, level + 1), part)
        size, above = part, level
    return found, ""


def _count_fitting_pods(
    tree: TopologyTree,
    pod_set: SnapshotPodSet,
    request: _ResolvedRequest,
    *,
    assumes_empty: bool,
    taken: Mapping[tuple[str, ...], Amounts] = _NO_USAGE,
) -> _ExclusionCounts:
    """Set the number of fitting pods in every domain; returns why nodes were left out."""
    excluded = _ExclusionCounts()
    tolerations = (*pod_set.tolerations, *tree.flavor.tolerations)
    single = sorted((name, value) for name, value in {**pod_set.single, **_ONE_POD}.items() if value > 0)
    leader = request.leader and {**request.leader, **_ONE_POD}
    chosen = bool(pod_set.selector) or pod_set.affinity is not None
    size = request.slice_size if request.slice_level == len(tree.levels) - 1 else sys.maxsize
    for leaf in tree.leaves:
        leaf.state = leaf.slices = leaf.leader = leaf.state_beside = leaf.slices_beside = 0
        excluded.total += 1
        if tree.of_nodes:
            node = leaf.nodes[0]
            if node.taints and (taint := first_untolerated_taint(node.taints, tolerations)):
                excluded.reasons[f'taint "{taint}"'] += 1
                continue
            if chosen and not pod_set.selects(node.name, node.labels):
                excluded.reasons["affinity" if pod_set.has_affinity else "nodeSelector"] += 1
                continue
        if request.within and leaf.values[: len(request.within)] != request.within:
            excluded.reasons["topologyDomain"] += 1
            continue
        used = {} if assumes_empty else leaf.used
        if taken and (more := taken.get(tree.assigned_values(leaf))):
            used = dict(used)
            add_amounts(used, more)
        free = leaf.free
        leaf.state, scarce = _count_pods_that_fit(free, used, single)
        leaf.slices = leaf.state // size
        if scarce:
            excluded.reasons[f'resource "{scarce}"'] += 1
        if leader is not None:
            left = {name: max(free.get(name, 0) - used.get(name, 0), 0) for name in free}
            leaf.leader = int(all(value <= left.get(name, 0) for name, value in leader.items()))
            add_amounts(left, leader, -leaf.leader)
            leaf.state_beside = min(left.get(name, 0) // value for name, value in single)
            leaf.slices_beside = leaf.state_beside // size
    for root in tree.by_level[0].values():
        _sum_up(root, 0, request)
    return excluded


def _count_pods_that_fit(free: Amounts, used: Amounts, single: Iterable[tuple[str, int]]) -> tuple[int, str]:
    """(number of pods that fit, or 0; then the resource that is short, else "")."""
    fewest = sys.maxsize
    for name, value in single:
        fits = (free.get(name, 0) - used.get(name, 0)) // value
        if fits <= 0:
            return 0, name
        if fits < fewest:
            fewest = fits
    return fewest, ""


def _sum_up(domain: SnapshotDomain, level: int, request: _ResolvedRequest) -> None:
    state = slices = 0  # a loop: in half the time of two sums, as most domains have few children
    for child in domain.children:
        if child.children:
            _sum_up(child, level + 1, request)
        state += child.state
        slices += child.slices
    if domain.children:
        together = request.inner.get(level + 1, 1) if request.inner else 1
        domain.state, domain.slices = state, slices
        if together > 1:
            domain.state = sum(_slice_count(child.state, together) for child in domain.children)
        if request.leader is not None:
            beside = [child for child in domain.children if child.leader]
            domain.leader = int(bool(beside))
            lost = min(
                (_slice_count(child.state, together) - _slice_count(child.state_beside, together) for child in beside),
                default=0,
            )
            domain.state_beside = domain.state - lost if beside else 0
            lost = min((child.slices - child.slices_beside for child in beside), default=0)
            domain.slices_beside = domain.slices - lost if beside else 0
    if level == request.slice_level:
        domain.slices = domain.state // request.slice_size
        domain.slices_beside = domain.state_beside // request.slice_size


def _slice_count(pods: int, together: int) -> int:
    return pods // together * together


def _find_level(
    tree: TopologyTree, request: _ResolvedRequest, level: int, excluded: _ExclusionCounts
) -> tuple[int, list[SnapshotDomain], str]:
    """(level, domains, reason) to start with: a domain that holds all, at this level or a wider one."""
    leaders = int(request.leader is not None)
    domains = _sort_by_room(list(tree.by_level[level].values()), request, leaders)
    if not domains:
        return 0, [], f"no topology domains at level: {tree.levels[level]}"
    slices = request.count // request.slice_size
    beside = leaders * request.weighed
    if request.unconstrained:
        fitting = [each for each in domains if each.leader >= beside and _room_of(each, leaders=beside) >= slices]
        if fitting:
            return level, [fitting[0]], ""
    elif _room_of(domains[0], leaders=leaders) >= slices and domains[0].leader >= leaders:
        return level, [best_fit(domains, slices, leaders=leaders)], ""
    if request.required:
        return 0, [], _not_fitting(tree, level, domains[0].slices, request, excluded)
    if level > 0 and not request.unconstrained:
        return _find_level(tree, request, level - 1, excluded)
    chosen, left = (
        _fewest_with_leader(domains, request, slices)
        if leaders
        else spread(domains, slices, unconstrained=request.unconstrained)
    )
    if left > 0:
        return 0, [], _not_fitting(tree, level, slices - left if chosen else 0, request, excluded)
    return level, chosen, ""


def _fewest_with_leader(
    domains: list[SnapshotDomain], request: _ResolvedRequest, slices: int
) -> tuple[list[SnapshotDomain], int]:
    """The domains for a pod set and its leader, who goes into the first one."""
    domains = _leader_first(domains, request, slices, by_slices=True)
    first = domains[0]
    if not first.leader:
        return [], slices
    if not request.unconstrained and first.slices_beside >= slices:
        first = best_fit(domains, slices, leaders=1)
    others = _sort_by_room(domains[1:], request)
    rest, left = spread(others, slices - first.slices_beside, unconstrained=request.unconstrained)
    return [first, *rest], left


def spread(
    domains: Iterable[SnapshotDomain], needed: int, *, unconstrained: bool = False, by_slices: bool = True
) -> tuple[list[SnapshotDomain], int]:
    """The domains that together hold everything needed, and what remains if they are too few."""
    chosen, left, rest = [], needed, list(domains)
    while left > 0 and rest:
        domain = rest[0]
        if not unconstrained and _room_of(domain, by_slices) >= left:
            domain = best_fit(rest, left, by_slices=by_slices)
        rest.remove(domain)
        if room := _room_of(domain, by_slices):
            chosen.append(domain)
            left -= room
    return chosen, left


def _leader_first(
    domains: list[SnapshotDomain], request: _ResolvedRequest, needed: int, *, by_slices: bool
) -> list[SnapshotDomain]:
    """The domains with the one first in which the leader leaves enough room for all pods."""
    spare = sum(_room_of(each, by_slices) for each in domains) - needed
    for each in domains if request.weighed else ():
        if each.leader and _room_of(each, by_slices) - _room_of(each, by_slices, 1) <= spare:
            return [each, *(other for other in domains if other is not each)]
    return domains


def _place_in_order(
    domains: list[SnapshotDomain], request: _ResolvedRequest, pods: int, leaders: int, size: int, *, by_slices: bool
) -> list[SnapshotDomain]:
    """Take domains in order until all pods and leaders are placed; sets the pods taken in each domain."""
    left = pods // size if by_slices else pods
    chosen: list[SnapshotDomain] = []
    at = 0
    if leaders:
        domains = _leader_first(domains, request, left, by_slices=by_slices)
    while leaders and at < len(domains):
        domain = domains[at]
        if not request.unconstrained and domain.leader and _room_of(domain, by_slices, leaders) >= left:
            domain = best_fit(domains[at:], left, by_slices=by_slices, leaders=leaders)
        at += 1
        taken = min(_room_of(domain, by_slices, leaders), left)
        domain.state, left, leaders = taken * size, left - taken, leaders - domain.leader
        chosen.append(domain)
        if not leaders and not left:
            return chosen
    rest, _ = spread(domains[at:], left, unconstrained=request.unconstrained, by_slices=by_slices)
    for domain in rest:
        taken = min(_room_of(domain, by_slices), left)
        left -= taken
        domain.leader = 0
        domain.slices, domain.state = (taken, taken * size) if by_slices else (domain.slices, taken)
    return [] if left or leaders else chosen + rest  # up to 0.18 a leader may take a place that its workers lack then


def _room_of(domain: SnapshotDomain, by_slices: bool = True, leaders: int = 0) -> int:
    """The number of slices or pods that fit in a domain, beside the leader if `leaders` are still to be placed."""
    if leaders:
        return domain.slices_beside if by_slices else domain.state_beside
    return domain.slices if by_slices else domain.state


def best_fit(domains: list[SnapshotDomain], needed: int, *, by_slices: bool = True, leaders: int = 0) -> SnapshotDomain:
    """The domain with the least sufficient room; the first, which is the roomiest, if none suffices."""
    best, least = domains[0], None
    for domain in domains:
        room = _room_of(domain, by_slices, leaders)
        if room >= needed and domain.leader >= leaders and (least is None or room < least):
            best, least = domain, room
    return best


def _sort_by_room(domains: list[SnapshotDomain], request: _ResolvedRequest, leaders: int = 0) -> list[SnapshotDomain]:
    if leaders:
        sign = 1 if request.unconstrained else -1
        return sorted(domains, key=lambda one: (-one.leader, sign * one.slices_beside, one.state_beside, one.values))
    if request.unconstrained:
        return sorted(domains, key=lambda domain: (domain.slices, domain.state, domain.values))
    return sort_by_room(domains)


def _not_fitting(
    tree: TopologyTree, level: int, fit: int, request: _ResolvedRequest, excluded: _ExclusionCounts
) -> str:
    unit = "pod" if request.slice_size == 1 else "slice"
    total = request.count // request.slice_size
    text = f'topology "{tree.name}" allows to fit only {fit} out of {total} {unit}(s)'
    if request.inner:
        text = f'topology "{tree.name}" doesn\'t allow to fit' + _fitting_layers(tree, level, request)
    elif not fit:
        text = f'topology "{tree.name}" doesn\'t allow to fit any of {total} {unit}(s)'
    return text + excluded.words()


def _fitting_layers(tree: TopologyTree, level: int, request: _ResolvedRequest) -> str:
    """A text on how many slices of each layer fit in the roomiest domain."""

    def slices(domain: SnapshotDomain, index: int, size: int, below: int) -> int:
        if index == below:
            return domain.state // size
        return sum(slices(child, index + 1, size, below) for child in domain.children)

    best = min(tree.by_level[level].values(), key=lambda domain: (-domain.slices, ",".join(domain.values)))
    layers = {request.slice_level: request.slice_size}
    for below, size in request.inner.items():
        if request.inner.get(below + 1) != size:
            layers[below] = size
    return "".join(
        f"; {slices(best, level, size, below)}/{request.count // size} slice(s) fit on level {tree.levels[below]}"
        for below, size in layers.items()
    )
