"""Flavor assignment: the flavors of a workload, whether it fits in them, and Kueue's message on what is missing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from kueue_rules.topology_assignment import WantedPlaces, assign_together

if TYPE_CHECKING:
    from kueue_rules.quota_tree import FlavorResource, Quantities
    from kueue_rules.snapshot import (
        Flavor,
        Key,
        Place,
        QueueNode,
        ResourceGroup,
        Snapshot,
        SnapshotPodSet,
        SnapshotWorkload,
        TriedFlavors,
    )

_BINARY_UNITS = (("Ti", 2**40), ("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10))


class Mode(IntEnum):
    """The degree to which a request fits, worst first; Kueue's `preemptionMode`."""

    NO_FIT = 0
    NO_CANDIDATES = 1
    PREEMPT = 2
    RECLAIM = 3
    FIT = 4


class FlavorObstacle(IntEnum):
    """The reason why a flavor cannot be used, least severe first, as in Kueue."""

    TopologyPlacementFailed = 1
    WaitingForQuota = 2
    ExceedsMaxQuota = 3
    NoMatchingFlavor = 4


class FlavorAttempt(Struct):
    """The result of trying one flavor, as listed in the QuotaReserved event."""

    flavor: str
    mode: Mode
    borrow: int = 0
    level: int = 0  # how high it borrows for what is hardest to get
    parts: dict[str, Mode] = field(default_factory=dict)  # by resource
    reasons: list[str] = field(default_factory=list)
    obstacle: FlavorObstacle = FlavorObstacle.NoMatchingFlavor  # if it does not fit
    group: ResourceGroup | None = None

    def words(self) -> str:
        """The attempt as event text; empty for a plain fit."""
        if self.mode is Mode.FIT and not self.borrow:
            return ""
        names = {Mode.NO_CANDIDATES: "NoCandidates", Mode.PREEMPT: "Preempt", Mode.RECLAIM: "Reclaim"}
        mode = f"preemptionMode={names[self.mode]}" if self.mode in names else ("Fit" if self.mode else "NoFit")
        borrow = f";borrow={self.borrow}" if self.borrow else ""
        return f"{self.flavor}({mode}{borrow}{''.join(f';{reason}' for reason in self.reasons)})"


class PodSetChoice(Struct):
    """The flavors and topology assignment of one pod set."""

    pod_set: SnapshotPodSet
    flavors: dict[str, str] = field(default_factory=dict)
    mode: Mode = Mode.NO_FIT
    reasons: list[str] = field(default_factory=list)
    error: str = ""
    attempts: list[FlavorAttempt] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)
    tree: str = ""  # the flavor whose topology places the pods, empty when none does, or not in this pass
    delayed: bool = False  # its nodes come later, and topology places it then
    short: set[str] = field(default_factory=set)  # the resources that others would have to give up
    tried: dict[str, int] = field(default_factory=dict)
    """By resource the index in its group of the last flavor tried; -1: all were tried."""


class FlavorChoice(Struct):
    """The flavors chosen for the pod sets of a workload, and how well they fit."""

    pod_sets: list[PodSetChoice] = field(default_factory=list)
    borrowing: int = 0  # 0 is none, else how high in the cohort tree it has to borrow
    by_quota: Mode = Mode.NO_FIT  # how well it fits without a look at places
    holds_quota: bool = False  # it only wants nodes

    @property
    def mode(self) -> Mode:
        """The worst mode of the pod sets: FIT, one of the preemption modes, or NO_FIT."""
        return min((choice.mode for choice in self.pod_sets), default=Mode.NO_FIT)

    @property
    def flavors_left(self) -> bool:
        """Whether some flavor has not been tried yet, so that the workload is tried again at once."""
        return any(at >= 0 for choice in self.pod_sets for at in choice.tried.values())

    @property
    def failed_by_quota(self) -> bool:
        """Whether the workload fails by quota alone, not by topology."""
        placed = len(self.pod_sets) > 1 and any(choice.tree for choice in self.pod_sets)
        return self.by_quota is not Mode.FIT and not placed

    def message(self) -> str:
        """Kueue's message on why the workload does not fit."""
        parts = []
        for choice in self.pod_sets:
            if choice.error:
                return f"failed to assign flavors to pod set {choice.pod_set.name}: {choice.error}"
            if choice.reasons:
                listed = ", ".join(sorted(choice.reasons))
                parts.append(f"couldn't assign flavors to pod set {choice.pod_set.name}: {listed}")
        return "; ".join(parts)

    def obstacle(self) -> FlavorObstacle:
        """The reason why the workload cannot fit: the most severe obstacle of all resource groups."""
        found = []
        for choice in self.pod_sets:
            least: dict[ResourceGroup | None, FlavorObstacle] = {}
            for each in choice.attempts:
                if each.mode is Mode.NO_FIT:
                    least[each.group] = min(each.obstacle, least.get(each.group, each.obstacle))
            if choice.mode is Mode.NO_FIT:
                placed = choice.tree and choice.flavors
                default = FlavorObstacle.NoMatchingFlavor
                found.append(FlavorObstacle.TopologyPlacementFailed if placed else max(least.values(), default=default))
        return max(found, default=FlavorObstacle.NoMatchingFlavor)

    def describe_attempts(self) -> str:
        """The flavors that were tried and are no plain fit, as text of the event."""
        parts = []
        for choice in self.pod_sets:
            listed = ", ".join(filter(None, (attempt.words() for attempt in choice.attempts)))
            if listed:
                parts.append(f"{choice.pod_set.name}: {listed}")
        return " | ".join(parts)

    def placed(self) -> list[PodSetChoice]:
        """The pod sets with a topology request, in the order in which nodes are assigned."""
        return sorted((one for one in self.pod_sets if one.tree), key=lambda one: one.tree)

    def assign_places(
        self, snapshot: Snapshot, *, assumes_empty: bool = False, failed_nodes: Sequence[str] = ()
    ) -> tuple[PodSetChoice, str] | None:
        """Set the domains of all pod sets; returns the first pod set without room, and why, or None."""
        placed = self.placed()
        wanted = [WantedPlaces(snapshot.trees[one.tree], one.pod_set) for one in placed]
        found, why = assign_together(wanted, empty=assumes_empty, failed=failed_nodes)
        for one, places in zip(placed, found, strict=False):
            one.places = places
        return (placed[len(found)], why) if why else None

    def usage(self) -> Quantities:
        """The quota that the workload would use with these flavors."""
        return {} if self.holds_quota else self.requested()

    def requested(self) -> Quantities:
        total: Quantities = {}
        for choice in self.pod_sets:
            for resource, flavor in choice.flavors.items():
                at = (flavor, resource)
                total[at] = total.get(at, 0) + choice.pod_set.requests.get(resource, 0)
        return total


class FlavorAssigner:
    """Chooses flavors for one workload: tries those of its ClusterQueue in order, by its flavor fungibility."""

    def __init__(
        self,
        workload: SnapshotWorkload,
        queue: QueueNode,
        snapshot: Snapshot,
        simulate: Callable[[FlavorResource, int], tuple[Mode, int]],
        flavor_choice: FlavorChoice | None = None,
    ) -> None:
        """`flavor_choice` limits the flavors to those of an earlier choice."""
        self._flavor_choice = flavor_choice
        self._workload = workload
        self._queue = queue
        self._snapshot = snapshot
        self._simulate = simulate
        self._assumed: Quantities = {}
        self._borrowing = 0

    def assign(self) -> FlavorChoice:
        """Assign flavors and topology to every pod set as far as possible."""
        choice = FlavorChoice(holds_quota=self._workload.second_pass)
        for numbers in self._pod_set_groups():
            members = self._assign_group(numbers)
            choice.pod_sets += members
            for one in members:
                for resource, flavor in one.flavors.items():
                    at = (flavor, resource)
                    self._assumed[at] = self._assumed.get(at, 0) + one.pod_set.requests.get(resource, 0)
            if any(one.mode is Mode.NO_FIT for one in members):
                return choice
        choice.borrowing = self._borrowing
        choice.by_quota = choice.mode
        for one in choice.pod_sets:
            self._choose_tree(one)
        if choice.mode is not Mode.NO_FIT:
            self.place(choice)
        return choice

    def _pod_set_groups(self) -> list[list[int]]:
        """The indexes of pod sets, grouped by those that get the same flavors."""
        if len(self._workload.pod_sets) == 1:
            return [[0]]
        found: dict[object, list[int]] = {}
        for number, pod_set in enumerate(self._workload.pod_sets):
            found.setdefault(pod_set.topology.group or number, []).append(number)
        return list(found.values())

    def place(self, choice: FlavorChoice) -> None:
        """Assign topology to a choice that fits by quota; without room it becomes a preemption or no fit."""
        failed = self._workload.failed_nodes
        if choice.mode is Mode.FIT:
            if (found := choice.assign_places(self._snapshot, failed_nodes=failed)) is None:
                return
            one, why = found
            one.reasons.append(why)
            one.mode, one.short = Mode.PREEMPT, set(one.flavors)
        if failed:  # nobody goes for a node that failed
            return
        if found := choice.assign_places(self._snapshot, assumes_empty=True):
            found[0].mode = Mode.NO_FIT
            return
        for one in choice.placed():  # there may be no node for it even where its quota is enough
            one.mode, one.short = min(one.mode, Mode.PREEMPT), set(one.flavors)

    def _assign_group(self, numbers: Sequence[int]) -> list[PodSetChoice]:
        members = [PodSetChoice(self._with_pod_quota(self._workload.pod_sets[each]), mode=Mode.FIT) for each in numbers]
        if len(members) == 1:
            self._choose_flavors(members[0], numbers, members[0].pod_set.requests)
            return members
        requests: dict[str, int] = {}
        for one in members:
            for name, value in one.pod_set.requests.items():
                requests[name] = requests.get(name, 0) + value
        together = PodSetChoice(members[0].pod_set, mode=Mode.FIT)
        self._choose_flavors(together, numbers, requests)
        for one in members:
            one.flavors = {name: flavor for name, flavor in together.flavors.items() if name in one.pod_set.requests}
            one.short = together.short & one.flavors.keys()
            one.mode, one.reasons, one.attempts = together.mode, list(together.reasons), together.attempts
            one.tried = {name: at for name, at in together.tried.items() if name in one.flavors}
        return members

    def _choose_flavors(self, choice: PodSetChoice, numbers: Sequence[int], requests: dict[str, int]) -> None:
        if self._workload.second_pass:
            for number in numbers:
                choice.flavors |= self._workload.pod_sets[number].flavors
        for resource, value in sorted(requests.items()):
            if resource in choice.flavors:
                continue
            group = next((item for item in self._queue.groups if resource in item.resources), None)
            if group is not None:
                self._search_flavors(choice, group, numbers, resource, requests)
            elif value:
                choice.reasons, choice.mode = [f"resource {resource} unavailable in ClusterQueue"], Mode.NO_FIT
            if choice.mode is Mode.NO_FIT:
                choice.flavors = {}
                return

    def _with_pod_quota(self, pod_set: SnapshotPodSet) -> SnapshotPodSet:
        """The pod set with a request for its number of pods, if the queue has a quota of pods."""
        if not any("pods" in group.resources for group in self._queue.groups):
            return pod_set
        return replace(pod_set, requests={**pod_set.requests, "pods": 1000 * pod_set.count})

    def _choose_tree(self, choice: PodSetChoice) -> None:
        """Choose the flavor whose topology tree has room for the pods, or set the error if none has."""
        pod_set, trees = choice.pod_set, self._snapshot.trees
        if not self._wants_topology(pod_set) or not pod_set.count:
            return
        if pod_set.places and not any(values[-1] in self._workload.failed_nodes for values, _ in pod_set.places):
            choice.places = list(pod_set.places)
            return
        placed = sorted({flavor for flavor in choice.flavors.values() if flavor in trees})
        if not trees:
            choice.error = "workload requires Topology, but there is no TAS cache information"
        elif not placed:
            choice.error = "no TAS flavor assigned"
        elif len(placed) > 1:
            choice.error = f"more than one TAS flavor assigned: {', '.join(placed)}"
        elif self._workload.second_pass or placed[0] not in self._queue.provisioned:
            choice.tree = placed[0]
        else:
            choice.delayed = True
        if choice.error:
            choice.mode = Mode.NO_FIT

    def _search_flavors(
        self, one: PodSetChoice, group: ResourceGroup, numbers: Sequence[int], resource: str, requests: dict[str, int]
    ) -> None:
        """Try the flavors of one resource group that come after the last one tried, for the resources it covers."""
        wanted = {name: value for name, value in requests.items() if name in group.resources}
        number = numbers[0]
        tried_before = self._workload.tried[number] if number < len(self._workload.tried) else {}
        first = tried_before.get(resource, -1) + 1
        pod_sets = [self._workload.pod_sets[each] for each in numbers]
        nominated = (
            {self._flavor_choice.pod_sets[at].flavors.get(resource) for at in numbers} if self._flavor_choice else set()
        )
        best: FlavorAttempt | None = None
        reasons: list[str] = []
        last = len(group.flavors) - 1
        for at, flavor in enumerate(group.flavors[first:], first):
            if self._flavor_choice and flavor not in nominated:
                reasons.append(
                    f"skipping flavor {flavor} as it is not found in the nomination mapping for resource {resource}"
                )
                continue
            tried = self._try_flavor(flavor, wanted, pod_sets, group)
            one.attempts.append(tried)
            reasons += tried.reasons
            if not self._try_next(tried.mode, tried.level):
                best, last = tried, at
                break
            if tried.mode is not Mode.NO_FIT and (best is None or self._attempt_rank(tried) > self._attempt_rank(best)):
                best = tried
        one.mode = min(one.mode, best.mode if best else Mode.NO_FIT)
        if best is None:
            one.reasons = reasons
            return
        if best.mode is not Mode.FIT:
            one.reasons += reasons
        one.short |= {name for name, mode in best.parts.items() if mode is not Mode.FIT}
        one.flavors |= dict.fromkeys(wanted, best.flavor)
        one.tried |= dict.fromkeys(wanted, -1 if last == len(group.flavors) - 1 else last)
        self._borrowing = max(self._borrowing, best.borrow)

    def _attempt_rank(self, attempt: FlavorAttempt) -> tuple[bool, int, int]:
        return self._preference_key(attempt.mode, attempt.level)

    def _preference_key(self, mode: Mode, level: int) -> tuple[bool, int, int]:
        """The sort key of a flavor by the queue's preference for borrowing or preemption."""
        hopeful = mode is not Mode.NO_CANDIDATES or self._snapshot.release.minor < 19
        return (hopeful, -level, int(mode)) if self._queue.preempts_before_borrowing else (hopeful, int(mode), -level)

    def _try_flavor(
        self, flavor: str, requests: dict[str, int], pod_sets: Sequence[SnapshotPodSet], group: ResourceGroup
    ) -> FlavorAttempt:
        tried = FlavorAttempt(flavor, Mode.FIT, group=group)
        for pod_set in pod_sets:
            if why := self._why_unsuitable(flavor, pod_set, group):
                tried.mode, tried.reasons = Mode.NO_FIT, [why]
                return tried
        tried.obstacle = FlavorObstacle.WaitingForQuota
        for resource, value in sorted(requests.items()):
            mode, height, text = self._fit_quota(tried, (flavor, resource), value)
            tried.parts[resource], tried.borrow = mode, max(tried.borrow, height)
            tried.reasons += [text] if text else []
            if mode is Mode.NO_FIT:
                tried.mode, tried.level = mode, height
                break
            if (height or mode is not Mode.FIT) and self._preference_key(mode, height) < self._attempt_rank(tried):
                tried.mode, tried.level = mode, height
        tried.reasons.sort()
        return tried

    def _fit_quota(self, attempt: FlavorAttempt, pair: FlavorResource, value: int) -> tuple[Mode, int, str]:
        """Compare an amount (thousandths) with the quota: (mode, borrowing height, message; empty if it fits)."""
        flavor, resource = pair
        assumed = self._assumed.get(pair, 0)
        total, most = assumed + value, self._queue.potential_available(pair)
        if total > most:
            attempt.obstacle = FlavorObstacle.ExceedsMaxQuota
            text = (
                f"insufficient quota for {resource} in flavor {flavor}, previously considered podsets requests "
                f"({format_quantity(resource, assumed)}) + current podset request ({format_quantity(resource, value)}) "
                f"> maximum capacity ({format_quantity(resource, most)})"
            )
            return Mode.NO_FIT, 0, text
        borrow, hierarchy = self._queue.borrowing_height(pair, total)
        free = max(0, self._queue.available(pair))
        if total <= free:
            return Mode.FIT, borrow, ""
        needed = format_quantity(resource, total - free)
        text = f"insufficient unused quota for {resource} in flavor {flavor}, {needed} more needed"
        fair = bool(self._snapshot.fair_sharing) and self._queue.reclaim != "Never"
        may_borrow = fair or self._queue.borrow_within is not None
        if (pair in self._queue.quotas and self._queue.nominal(pair) >= total) or hierarchy or may_borrow:
            mode, height = self._simulate(pair, total)
            return mode, height, text
        return Mode.NO_FIT, borrow, text

    def _why_unsuitable(self, name: str, pod_set: SnapshotPodSet, group: ResourceGroup) -> str:
        flavor = self._snapshot.flavors.get(name)
        if flavor is None:
            return f"flavor {name} not found"
        if why := self._topology_mismatch(flavor, pod_set, group):
            return why
        if taint := flavor.untolerated_taint(pod_set.tolerations):
            marked, _, effect = taint.rpartition(":")
            key, _, value = marked.partition("=")
            return f"untolerated taint {{{key} {value} {effect} <nil>}} in flavor {name}"  # as Kueue prints it
        if not flavor.matches(pod_set.selector, pod_set.affinity):
            return f"flavor {name} doesn't match node affinity"
        return ""

    def _topology_mismatch(self, flavor: Flavor, pod_set: SnapshotPodSet, group: ResourceGroup) -> str:
        name, asked = flavor.name, pod_set.topology
        if not self._wants_topology(pod_set):
            return f'Flavor "{name}" supports only TopologyAwareScheduling' if flavor.topology else ""
        if not asked.explicit:
            return ""
        if not flavor.topology:
            overlaps = any(resource in group.resources for resource in pod_set.requests)
            return f'Flavor "{name}" does not support TopologyAwareScheduling' if overlaps else ""
        tree = self._snapshot.trees.get(name)
        if tree is None:
            return f'Flavor "{name}" information missing in TAS cache'
        wanted = filter(None, (asked.required, asked.preferred, asked.slice_level))
        if any(tree.level_of(key) is None for key in wanted):
            return f'Flavor "{name}" does not contain the requested level'
        return ""

    def _wants_topology(self, pod_set: SnapshotPodSet) -> bool:
        return pod_set.topology.explicit or self._topology_only()

    def _topology_only(self) -> bool:
        known = self._snapshot.flavors
        names = [name for group in self._queue.groups for name in group.flavors]
        return places_every_pod([known[name].topology if name in known else "" for name in names])

    def _try_next(self, mode: Mode, borrow: int) -> bool:
        if mode <= Mode.NO_CANDIDATES:
            return True
        if mode in (Mode.PREEMPT, Mode.RECLAIM) and self._queue.next_if_preempting:
            return True
        return borrow > 0 and self._queue.next_if_borrowing


def places_every_pod(topologies: Sequence[str]) -> bool:
    """Whether a queue with flavors of these topologies chooses nodes even for pods that request no topology."""
    return bool(topologies) and all(topologies)


def format_quantity(resource: str, value: int) -> str:
    """An amount as Kueue prints it: binary units for memory and storage, else plain numbers."""
    if value % 1000:
        return f"{value}m"
    whole = value // 1000
    binary = resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-")
    for suffix, factor in _BINARY_UNITS if binary else (("k", 1000),):
        if whole and whole % factor == 0:
            return f"{whole // factor}{suffix}"
    return str(whole)


class TriedFlavorMemory:
    """The flavors that each waiting workload has tried, by queue, as Kueue remembers them."""

    def __init__(self) -> None:
        self._tried: defaultdict[str, dict[Key, TriedFlavors]] = defaultdict(dict)
        self._messages: dict[Key, str] = {}
        self._seen: set[tuple[object, ...]] = set()

    def tried_flavors(self, workload: SnapshotWorkload) -> TriedFlavors:
        return self._tried[workload.cluster_queue].get(workload.key, ())

    def note(self, workload: SnapshotWorkload, message: str, choice: FlavorChoice | None = None) -> None:
        """Remember a workload's message and, if the last one was the same, the flavors that `choice` has tried."""
        known = self._messages.get(workload.key) == message
        self._messages[workload.key] = message
        tried = self._tried[workload.cluster_queue]
        tried.pop(workload.key, None)
        if known and choice is not None and choice.flavors_left:
            tried[workload.key] = tuple(each.tried for each in choice.pod_sets)

    def meet_anew(self, heads: Iterable[SnapshotWorkload]) -> bool:
        """Whether these heads are tried for the first time since the last change of the cluster; remembers them."""
        turns = tuple((each.key, self._messages.get(each.key), repr(self.tried_flavors(each))) for each in heads)
        new = turns not in self._seen
        self._seen.add(turns)
        return new

    def admitted(self, workload: SnapshotWorkload) -> None:
        self._messages.pop(workload.key, None)
        self.written(workload.cluster_queue)

    def written(self, queue: str) -> None:
        """Forget the flavors tried in a queue, as Kueue does when the status of one of its workloads is written."""
        self._tried[queue].clear()
        self.changed()

    def changed(self) -> None:
        """Forget all failures after a change of the cluster by which a workload may fit."""
        self._seen.clear()
