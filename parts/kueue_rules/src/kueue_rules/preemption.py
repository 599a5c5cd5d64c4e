"""Preemption: the workloads to evict so that another fits.

With fair sharing, victims are taken from the queue with the largest share, as long as the preemptor's stays below it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from msgspec import Struct

from kueue_rules.fair_sharing import LESS_THAN_INITIAL, below_common_cohort, unfairest_first
from kueue_rules.flavor_assignment import FlavorChoice, Mode
from kueue_rules.quota_tree import FlavorResource, Quantities, QuotaNode
from kueue_rules.snapshot import QueueNode, Snapshot, SnapshotWorkload
from kueue_rules.topology_assignment import WantedPlaces, assign_together

HUMAN_REASONS = {
    "InClusterQueue": "prioritization in the ClusterQueue",
    "InCohortReclamation": "reclamation within the cohort",
    "InCohortReclaimWhileBorrowing": "reclamation within the cohort while borrowing",
    "InCohortFairSharing": "Fair Sharing within the cohort",
}


class PreemptionTarget(Struct, frozen=True):
    workload: SnapshotWorkload
    reason: str


class _PreemptionCandidate(Struct, frozen=True):
    workload: SnapshotWorkload
    top: QuotaNode | None  # the lowest cohort that holds both queues; None in the same queue
    hierarchical: bool
    while_borrowing: bool  # may be evicted even when the preemptor then borrows

    @property
    def reason(self) -> str:
        if self.top is None:
            return "InClusterQueue"
        if self.while_borrowing and not self.hierarchical:
            return "InCohortReclaimWhileBorrowing"
        return "InCohortReclamation"


class PreemptionSearch:
    """Finds preemption targets for one workload on a snapshot."""

    def __init__(self, snapshot: Snapshot, workload: SnapshotWorkload) -> None:
        self._snapshot = snapshot
        self._workload = workload
        self._queue = snapshot.queues[workload.cluster_queue]
        self._needed: set[FlavorResource] = set()  # what is short of quota
        self._usage: Quantities = {}  # what the Workload would use in all
        self._choice: FlavorChoice | None = None  # its places count too; None: quota alone

    def may_have_targets(self) -> bool:
        """Whether any workload might be evicted for this one, before its needs are looked at."""
        own, within, reclaim = self._queue, self._queue.within_queue, self._queue.reclaim
        if within != "Never" and any(self._may_evict(within, each) for each in own.workloads.values()):
            return True
        others = () if reclaim == "Never" or own.parent is None else self._snapshot.queues.values()
        return any(
            self._may_evict(reclaim, each)
            for queue in others
            if queue is not own and queue.root is own.root and not queue.within_nominal(queue.used)
            for each in queue.workloads.values()
        )

    def targets(self, choice: FlavorChoice) -> list[PreemptionTarget]:
        """The workloads to evict for this flavor choice; empty if preemption does not help."""
        needed = {
            (flavor, resource)
            for one in choice.pod_sets
            for resource, flavor in one.flavors.items()
            if resource in one.short
        }
        self._needed, self._usage, self._choice = needed, choice.requested(), choice
        return self._search_targets()

    def simulate(self, pair: FlavorResource, value: int) -> tuple[Mode, int]:
        """(mode, borrowing height): whether preemption could free the amount, and what must be borrowed then."""
        self._needed, self._usage, self._choice = {pair}, {pair: value}, None
        found = self._search_targets()
        if not found:
            return Mode.NO_CANDIDATES, self._queue.borrowing_height(pair, value)[0]
        with self._snapshot.without_workloads([target.workload for target in found]):
            height = self._queue.borrowing_height(pair, value)[0]
        own = any(target.workload.cluster_queue == self._queue.name for target in found)
        return Mode.PREEMPT if own else Mode.RECLAIM, height

    def _search_targets(self) -> list[PreemptionTarget]:
        if self._snapshot.fair_sharing:
            return self._fair_search()
        own, hierarchy, priority = self._list_candidates()
        candidates = _evicted_first(hierarchy, priority, own)
        forbidden = self._queue.borrow_within is None
        under = all(self._queue.nominal(at) > self._queue.used.get(at, 0) for at in self._needed)
        attempts = [True, False]
        if (not hierarchy and not priority) or (forbidden and not under):
            attempts = [True]
        elif forbidden and not hierarchy:
            attempts = [False, True]
        for borrow in attempts:
            found = self._remove_until_fits(candidates, may_borrow=borrow)
            if found:
                return found
        return []

    def _remove_until_fits(self, candidates: list[_PreemptionCandidate], *, may_borrow: bool) -> list[PreemptionTarget]:
        removed: list[PreemptionTarget] = []
        try:
            for candidate in candidates:
                if not self._is_valid(candidate, may_borrow=may_borrow):
                    continue
                self._snapshot.remove_workload(candidate.workload)
                removed.append(PreemptionTarget(candidate.workload, candidate.reason))
                if self._fits_now(may_borrow=may_borrow):
                    self._keep_unneeded_targets(removed, may_borrow=may_borrow)
                    return list(removed)
            return []
        finally:
            for item in removed:
                self._snapshot.add_workload(item.workload)

    def _keep_unneeded_targets(self, removed_targets: list[PreemptionTarget], *, may_borrow: bool) -> None:
        """Put back targets that need not be evicted after all, tried from the last but one backwards."""
        for at in range(len(removed_targets) - 2, -1, -1):
            self._snapshot.add_workload(removed_targets[at].workload)
            if self._fits_now(may_borrow=may_borrow):
                removed_targets[at] = removed_targets[-1]
                removed_targets.pop()
            else:
                self._snapshot.remove_workload(removed_targets[at].workload)

    def _fits_now(self, *, may_borrow: bool) -> bool:
        for at, value in self._usage.items():
            if not may_borrow and self._queue.borrows_with(at, value):
                return False
            if value > self._queue.available(at):
                return False
        trees, placed = self._snapshot.trees, self._choice.placed() if self._choice else []
        return not assign_together(WantedPlaces(trees[one.tree], one.pod_set) for one in placed)[1]

    def _is_valid(self, candidate: _PreemptionCandidate, *, may_borrow: bool) -> bool:
        if candidate.top is None:
            return True
        if may_borrow and not candidate.hierarchical and not candidate.while_borrowing:
            return False
        queue = self._snapshot.queues[candidate.workload.cluster_queue]
        if queue.within_nominal(self._needed):
            return False
        for node in queue.ancestors():
            if node is candidate.top:
                break
            if node.within_nominal(self._needed):
                return False
        return True

    def _list_candidates(
        self,
    ) -> tuple[list[_PreemptionCandidate], list[_PreemptionCandidate], list[_PreemptionCandidate]]:
        """(candidates of the same queue, of queues that hierarchy lets be reclaimed, by priority) for eviction."""
        own = list(self._candidates_in_queue(self._queue, None, hierarchical=False))
        hierarchy: list[_PreemptionCandidate] = []
        priority: list[_PreemptionCandidate] = []
        if self._queue.parent is not None and self._queue.reclaim != "Never":
            left = dict(self._usage)
            advantage = self._queue.has_room(left)
            below: QuotaNode = self._queue
            for top in self._queue.ancestors():
                left = {at: max(0, value - below.local_free(at)) for at, value in left.items()}
                into = hierarchy if advantage else priority
                into += self._candidates_in_subtree(top, top, below, hierarchical=advantage)
                advantage = advantage or top.has_room(left)
                below = top
        for found in (own, hierarchy, priority):
            found.sort(key=lambda each: self._sort_key(each.workload))
        return own, hierarchy, priority

    def _candidates_in_subtree(
        self, node: QuotaNode, subtree: QuotaNode, skip: QuotaNode, *, hierarchical: bool
    ) -> Iterator[_PreemptionCandidate]:
        for child in node.children:
            if child is skip or child is self._queue or child.within_nominal(self._needed):
                continue
            queue = self._snapshot.queues.get(child.name)
            if queue is child:
                yield from self._candidates_in_queue(queue, subtree, hierarchical=hierarchical)
            else:
                yield from self._candidates_in_subtree(child, subtree, skip, hierarchical=hierarchical)

    def _candidates_in_queue(
        self, queue: QueueNode, subtree: QuotaNode | None, *, hierarchical: bool
    ) -> Iterator[_PreemptionCandidate]:
        policy = self._queue.within_queue if subtree is None else self._queue.reclaim
        if policy == "Never":
            return
        for workload in queue.workloads.values():
            if self._may_evict(policy, workload) and self._needed & workload.usage().keys():
                borrowing = self._is_victim_while_borrowing(workload)
                yield _PreemptionCandidate(workload, subtree, hierarchical, borrowing)

    def _may_evict(self, policy: str, victim: SnapshotWorkload) -> bool:
        if policy == "Any":
            return True
        if victim.priority < self._workload.priority:
            return policy in {"LowerPriority", "LowerOrNewerEqualPriority"}
        newer = victim.queued > self._workload.queued
        return policy == "LowerOrNewerEqualPriority" and victim.priority == self._workload.priority and newer

    def _is_victim_while_borrowing(self, candidate: SnapshotWorkload) -> bool:
        policy = self._queue.borrow_within
        if policy is None or candidate.priority >= self._workload.priority:
            return False
        return policy < 0 or candidate.priority <= policy

    def _sort_key(self, workload: SnapshotWorkload) -> tuple[bool, bool, int, float, str]:
        """Sort key: other queues first, then lower priority, then latest admission."""
        own = workload.cluster_queue == self._queue.name
        return not workload.evicted, own, workload.priority, -workload.reserved, workload.uid

    def _fair_search(self) -> list[PreemptionTarget]:
        removed: list[PreemptionTarget] = []
        with self._queue.with_usage(self._usage):  # shares are those that the preemptor has once it is admitted
            fits = any(self._fits_by_fairness(removed))
        if fits:
            self._keep_unneeded_targets(removed, may_borrow=True)
        for item in removed:
            self._snapshot.add_workload(item.workload)
        return removed if fits else []

    def _fits_by_fairness(self, removed_targets: list[PreemptionTarget]) -> Iterator[bool]:
        """Remove candidates one by one, by the first strategy, then the second; yields whether it fits now."""
        strategies = self._snapshot.fair_sharing
        left = self._fair_candidates()
        retry: dict[str, list[SnapshotWorkload]] = defaultdict(list)
        entitled = self._queue.within_nominal(self._needed)
        for queue in unfairest_first(self._queue, left, self._sort_key, set()):
            if queue is self._queue or entitled:
                reason = "InClusterQueue" if queue is self._queue else "InCohortReclamation"
                yield self._take_target(left[queue.name].pop(0), reason, removed_targets)
                continue
            mine, theirs = below_common_cohort(self._queue, queue)
            new, old = mine.fair_share().order, theirs.fair_share().order
            while left[queue.name]:
                workload = left[queue.name].pop(0)
                with self._snapshot.without_workloads([workload]):
                    rest = theirs.fair_share().order
                if new < old if strategies[0] == LESS_THAN_INITIAL else new <= rest:
                    yield self._take_target(workload, "InCohortFairSharing", removed_targets)
                    break
                retry[queue.name].append(workload)
        done: set[QuotaNode] = set()
        for queue in unfairest_first(self._queue, retry, self._sort_key, done) if len(strategies) > 1 else ():
            mine, theirs = below_common_cohort(self._queue, queue)
            if mine.fair_share().order < theirs.fair_share().order:
                yield self._take_target(retry[queue.name][0], "InCohortFairSharing", removed_targets)
            done.add(queue)

    def _take_target(self, workload: SnapshotWorkload, reason: str, removed_targets: list[PreemptionTarget]) -> bool:
        self._snapshot.remove_workload(workload)
        removed_targets.append(PreemptionTarget(workload, reason))
        with self._queue.with_usage({at: -value for at, value in self._usage.items()}):
            return self._fits_now(may_borrow=True)

    def _fair_candidates(self) -> dict[str, list[SnapshotWorkload]]:
        """By queue the candidates of the own queue and of borrowing queues, first to be evicted first."""
        found = {}
        for queue in self._snapshot.queues.values():
            own = queue is self._queue
            if own or (queue.root is self._queue.root and not queue.within_nominal(self._needed)):
                may_go = self._candidates_in_queue(queue, None if own else queue.root, hierarchical=False)
                found[queue.name] = sorted((each.workload for each in may_go), key=self._sort_key)
        return found


def _evicted_first(*lists: Iterable[_PreemptionCandidate]) -> list[_PreemptionCandidate]:
    every = [candidate for found in lists for candidate in found]
    return sorted(every, key=lambda candidate: not candidate.workload.evicted)
