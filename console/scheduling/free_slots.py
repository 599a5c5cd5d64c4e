"""Free slots for a job's pods by block, subblock and host, cached per snapshot."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from console.kube.objects.meta import GPU
from console.kube.objects.node import Node
from console.kube.snapshot import Fleet, per_snapshot
from console.scheduling.kueue_snapshot import UNLABELLED_DOMAIN, gpus_assigned, node_of
from console.scheduling.quota_ledger import as_quota_holder, fewest_holders
from console.scheduling.topology import BLOCK, LEVELS, MACHINE_GPUS, SUBBLOCK, Holder, Host, host, label_of, level_name
from console.scheduling.why import QuotaHolder
from kueue_rules import (
    HOSTNAME,
    Flavor,
    SnapshotDomain,
    SnapshotPodSet,
    Toleration,
    TopologyRequest,
    TopologyTree,
    assign_topology,
    count_fitting,
    first_untolerated_taint,
    sort_by_room,
    spread,
)

_MAX_NAMED_PLACES = 4  # places named in the sentence; the rest is counted


def format_slots(count: int, size: int, *, free: bool = True) -> str:
    """A number of free hosts or slots: "2 free hosts", "1 free place for 4 GPUs"."""
    noun, of = ("host", "") if size == MACHINE_GPUS else ("place", f" for {size} GPUs")
    return f"{count} {'free ' if free else ''}{noun}{'' if count == 1 else 's'}{of}"


def _jobs_to_empty(hosts: Iterable[Host], pods: int, size: int, fleet: Fleet) -> tuple[QuotaHolder, ...]:
    """The fewest jobs whose end frees enough room on these hosts."""
    free: list[int] = []
    taken: dict[Holder, Counter[int]] = defaultdict(Counter)  # GPUs by host
    for at, each in enumerate(each for each in hosts if each.node.takes_pods):
        free.append(each.free)
        for pip in each.gpus:
            if pip.holder:
                taken[pip.holder][at] += 1
    held = {_gpu_holder(holder, fleet): gpus for holder, gpus in taken.items()}
    missing = pods - sum(gpus // size for gpus in free)

    def is_enough(holders: Sequence[QuotaHolder]) -> bool:
        freed: Counter[int] = Counter()
        for each in holders:
            freed.update(held[each])
        return sum((free[at] + gpus) // size - free[at] // size for at, gpus in freed.items()) >= missing

    return fewest_holders(list(held), is_enough, lambda each: held[each].total())


def _gpu_holder(holder: Holder, fleet: Fleet) -> QuotaHolder:
    jobset = fleet.jobset_by_uid.get(holder.uid)
    workload = fleet.workload_of(jobset) if jobset else None
    if workload is not None:
        return as_quota_holder(workload, fleet)
    queue, gpus = (jobset.queue, jobset.gpus) if jobset else ("", 0)
    return QuotaHolder(holder.namespace, holder.name, holder.owner, queue=queue, gpus=gpus)


_MAX_PLACES_TRIED = 4  # places looked at for who would have to end: those with most room, which need the fewest to go


class EligibleNodes:
    """The nodes on which pods of one kind may run, and how many of those fit by Kueue's rules."""

    def __init__(self, nodes: Sequence[Node], fleet: Fleet, size: int) -> None:
        self.nodes = tuple(nodes)
        self.size = size
        taken = gpus_assigned(fleet)  # by Kueue, which counts them before their pods come
        self._used = {
            each.name: max(max(each.gpus, each.gpu_capacity) - fleet.gpus_free(each), taken[each.name])
            for each in nodes
        }
        self._capacity: dict[str, dict[str, int]] = {}
        self._domains: dict[str, list[SnapshotDomain]] = {}
        self._trees: dict[tuple[str, ...], TopologyTree] = {}
        self._count_fitting((BLOCK, SUBBLOCK, HOSTNAME))
        self.free, self.total = sum(self.slots("").values()), sum(self.capacity("").values())

    def _count_fitting(self, levels: Sequence[str]) -> None:
        """Count how many pods fit at these topology levels."""
        tree = TopologyTree("", levels, Flavor(""), (node_of(each, levels) for each in self.nodes), {})
        pod = SnapshotPodSet("", 1, {}, {GPU: self.size})
        named = {
            level: [each for each in places.values() if each.values[-1] != UNLABELLED_DOMAIN]
            for level, places in zip(levels, tree.by_level, strict=True)
        }
        count_fitting(tree, pod, empty=True)
        for level, places in named.items():
            self._capacity[level] = {each.values[-1]: each.state for each in places}
        for name, used in self._used.items():
            if used:
                tree.add_usage((name,), {GPU: used}, 1)
        count_fitting(tree, pod)
        self._domains |= {level: sort_by_room(places) for level, places in named.items()}

    def _domains_of(self, level: str) -> list[SnapshotDomain]:
        """The domains of a level, roomiest first; empty for an unknown level."""
        if level in LEVELS and level not in self._domains:
            self._count_fitting((level, HOSTNAME))
        return self._domains.get(level, [])

    def slots(self, level: str) -> Mapping[str, int]:
        """The number of pods that fit now, by domain of a level, roomiest first; for an empty level under "" in all."""
        found = {each.values[-1]: each.state for each in self._domains_of(level or HOSTNAME)}
        return found if level else {"": sum(found.values())}

    def capacity(self, level: str) -> Mapping[str, int]:
        """The number of pods that would fit if nothing ran, by domain of a level."""
        found = self._capacity[level or HOSTNAME] if self._domains_of(level or HOSTNAME) else {}
        return found if level else {"": sum(found.values())}

    def assigned(self, pods: int, levels: tuple[str, ...], request: TopologyRequest) -> list[dict[str, str]]:
        """By level, each domain that Kueue would assign under a Topology of these levels; empty if none."""
        if levels not in self._trees:
            self._trees[levels] = self._build_tree(levels)
        tree = self._trees[levels]
        found, _ = assign_topology(tree, SnapshotPodSet("", pods, {}, {GPU: self.size}, topology=request))
        by_place = {tree.assigned_values(leaf): leaf.values for leaf in tree.leaves}
        return [dict(zip(levels, by_place[place], strict=True)) for place, _ in found]

    def _build_tree(self, levels: tuple[str, ...]) -> TopologyTree:
        """The topology tree as Kueue builds it: nodes that have the labels of all levels, and GPUs in use there."""
        nodes = [node_of(each, levels) for each in self.nodes]
        named = [each for each in nodes if UNLABELLED_DOMAIN not in each.labels.values()]
        tree = TopologyTree("", levels, Flavor(""), named, {})
        for each in named:
            if used := self._used[each.name]:
                values = tuple(each.labels[level] for level in levels)
                tree.add_usage(values[-1:] if tree.of_nodes else values, {GPU: used}, 1)
        return tree

    def shortage(self, pods: int, level: str) -> str:
        """The reason why the pods do not fit now (within one domain of `level`, if given); empty if they fit."""
        rooms = self.slots(level)
        if not rooms or max(rooms.values()) >= pods:
            return ""
        if not level:
            there = "there is" if self.free == 1 else "there are"
            return f"it needs {format_slots(pods, self.size)} and {there} {self.free or 'none'}"
        named = ", ".join(f"{name} has {free}" for name, free in list(rooms.items())[:_MAX_NAMED_PLACES])
        more = f", {len(rooms) - _MAX_NAMED_PLACES} more have less" if len(rooms) > _MAX_NAMED_PLACES else ""
        return f"no {level_name(level)} has {format_slots(pods, self.size)}: {named}{more}"

    def why_never_fits(self, pods: int, level: str) -> str:
        """The reason why the pods would not fit into one domain even if nothing ran; empty if they would."""
        largest = max(self.capacity(level).values(), default=pods) if level else pods
        if largest >= pods:
            return ""
        name = level_name(level)
        needs = f"{format_slots(pods, self.size, free=False)} in one {name}"
        return f"needs {needs}, and the largest {name} has {largest}"

    def spread(self, pods: int, level: str) -> int:
        """The fewest domains of that level that hold the pods; 0 if they do not fit."""
        chosen, left = spread(self._domains_of(level), pods)
        return 0 if left > 0 else len(chosen)


@per_snapshot
def eligible_nodes(
    fleet: Fleet,
    size: int,
    flavor: str,
    selector: tuple[tuple[str, str], ...] = (),
    target_nodes: tuple[str, ...] = (),
    avoided_nodes: tuple[str, ...] = (),
    tolerations: tuple[Toleration, ...] | None = None,
) -> EligibleNodes:
    """The nodes of a flavor (all with GPUs, if empty) on which a pod with these constraints may run.

    Labels that the console does not store count as matching. A node with a temporary taint counts in `total` only;
    without tolerations (None) taints are ignored.
    """
    found = fleet.flavors.get(("", flavor))
    wanted, unwanted = (*found.node_labels, *selector) if found else selector, frozenset(avoided_nodes)
    fits = [
        node
        for node in fleet.nodes.values()
        if node.gpu_capacity
        and (not target_nodes or node.name in target_nodes)
        and node.name not in unwanted
        and all(label_of(node, key) in (None, value) for key, value in wanted)
        and (tolerations is None or not first_untolerated_taint(node.taints, tolerations, ignore_condition_taints=True))
    ]
    return EligibleNodes(fits, fleet, size)


@per_snapshot
def jobs_blocking_placement(
    fleet: Fleet, found: EligibleNodes, pods: int, level: str = "", max_domains: int = _MAX_PLACES_TRIED
) -> tuple[QuotaHolder, ...]:
    """The fewest jobs whose end makes room for all pods, within one domain of `level` if given."""
    nodes: dict[str, list[Node]] = defaultdict(list)
    for node in found.nodes:
        nodes[(label_of(node, level) or "") if level else ""].append(node)
    nearest = [name for name, _ in zip(found.slots(level), range(max_domains), strict=False)]
    answers = [_jobs_to_empty([host(node, fleet) for node in nodes[name]], pods, found.size, fleet) for name in nearest]
    return min(filter(None, answers), key=lambda each: (len(each), sum(job.gpus for job in each)), default=())
