"""One admission cycle on a snapshot: each queue's head is admitted, preempts others, or waits, as in Kueue 0.18."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from msgspec import Struct, field
from msgspec.structs import replace

from kueue_rules.fair_sharing import choose_fairest
from kueue_rules.flavor_assignment import FlavorAssigner, FlavorChoice, Mode, PodSetChoice
from kueue_rules.preemption import PreemptionSearch, PreemptionTarget
from kueue_rules.snapshot import KueueRelease, Snapshot, SnapshotWorkload

MAX_FAILURES = 20_000
NO_LONGER_FITS = "Workload no longer fits after processing another workload"
PLACELESS = "its leader takes a place that its workers lack then, which the API server refuses"


class CycleVerdict(Enum):
    """The decision of a cycle on the head of a queue."""

    ADMIT = "admit"
    PREEMPT = "preempt"  # its targets are evicted; it is tried again once they are gone
    WAIT = "wait"
    HOPELESS = "hopeless"  # it waits, and none of its shape fits until something changes
    SKIP = "skip"  # another head came first; it is tried again in the next cycle
    EVICT = "evict"  # a node of it failed, and no other is free: it gives its quota back


class Decision(Struct, eq=False):
    """A cycle's decision on the head of a queue, with Kueue's message."""

    workload: SnapshotWorkload
    verdict: CycleVerdict = CycleVerdict.SKIP
    choice: FlavorChoice = field(default_factory=FlavorChoice)
    targets: list[PreemptionTarget] = field(default_factory=list)
    message: str = ""

    def reason(self, release: KueueRelease) -> str:
        """The reason of the condition QuotaReserved=False that follows from the decision."""
        if not release.observability:
            return "Pending"
        if self.verdict is CycleVerdict.HOPELESS and self.choice.mode is Mode.NO_FIT:
            return self.choice.obstacle().name
        return {CycleVerdict.WAIT: "Misconfigured", CycleVerdict.PREEMPT: "WaitingForPreemptedWorkloads"}.get(
            self.verdict, "WaitingForQuota"
        )


def admission_cycle(heads: Iterable[SnapshotWorkload], snapshot: Snapshot) -> list[Decision]:
    """The decisions on all queues' heads in order, skipped ones last; the snapshot then holds the admitted ones."""
    with snapshot.one_cycle():
        return _new_decisions(heads, snapshot)


def _new_decisions(heads: Iterable[SnapshotWorkload], snapshot: Snapshot) -> list[Decision]:
    cycle = _Cycle(snapshot)
    refused, entries = [], []
    for head in heads:
        message = head.refused
        if not snapshot.queues[head.cluster_queue].accepts_namespace(head.namespace_labels):
            message = "Workload namespace doesn't match ClusterQueue selector"
        if message:
            refused.append(Decision(head, CycleVerdict.WAIT, message=message))
        else:
            entries.append(cycle.assign(Decision(head)))
    entries.sort(
        key=lambda each: (
            not each.workload.second_pass,
            each.choice.borrowing,
            -each.workload.priority,
            each.workload.queued,
        )
    )
    decided = []
    while entries:
        decided.append(choose_fairest(entries, snapshot) if snapshot.fair_sharing else entries[0])
        entries.remove(decided[-1])
        cycle.decide(decided[-1])
    for one in cycle.reserved:
        cycle.use_places(one, -1)
    return refused + sorted(decided, key=lambda each: each.verdict is CycleVerdict.SKIP)


def failed_before(head: SnapshotWorkload, snapshot: Snapshot) -> FlavorChoice | None:
    """The remembered choice of an equal workload that did not fit; None if there is none for the quota used now."""
    known = snapshot.failures.get(_failure_key(head, snapshot) or ()) if snapshot.failures else None
    return None if known is None or known.flavors_left else known


def _failure_key(workload: SnapshotWorkload, snapshot: Snapshot) -> tuple[object, ...] | None:
    """A key equal for workloads that fail by quota in the same way; None if evicting others could help."""
    if snapshot.failures is None or PreemptionSearch(snapshot, workload).may_have_targets():
        return None
    used = tuple([tuple(node.used.items()) for node in snapshot.nodes])
    tried = tuple(tuple(each.items()) for each in workload.tried)
    return workload.cluster_queue, workload.shape(), tried, used


class _Cycle:
    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._preempted: list[SnapshotWorkload] = []
        self.reserved: list[PodSetChoice] = []  # nodes that those which wait keep from others until the cycle ends

    def assign(self, entry: Decision) -> Decision:
        failures, key = self._snapshot.failures, _failure_key(entry.workload, self._snapshot)
        if failures is None or key is None:
            return self._assign_flavors(entry)
        if (failed := failures.get(key)) is not None:
            entry.choice, entry.targets, entry.message = failed, [], failed.message()
        elif not self._assign_flavors(entry).targets and entry.choice.failed_by_quota and not entry.workload.may_shrink:
            if len(failures) >= MAX_FAILURES:
                failures.clear()
            failures[key] = entry.choice
        return entry

    def _assign_flavors(self, entry: Decision, flavor_choice: FlavorChoice | None = None) -> Decision:
        entry.choice, entry.targets = self._choose_flavors(entry.workload, flavor_choice)
        partial = "PartialAdmission" not in self._snapshot.release.off and not entry.workload.second_pass
        if partial and entry.choice.mode is not Mode.FIT and not entry.targets:
            entry.choice, entry.targets = self._try_partial_admission(entry.workload) or (entry.choice, [])
        entry.message = entry.choice.message()
        return entry

    def _choose_flavors(
        self, workload: SnapshotWorkload, flavor_choice: FlavorChoice | None = None
    ) -> tuple[FlavorChoice, list[PreemptionTarget]]:
        preemption = PreemptionSearch(self._snapshot, workload)
        queue = self._snapshot.queues[workload.cluster_queue]
        choice = FlavorAssigner(workload, queue, self._snapshot, preemption.simulate, flavor_choice).assign()
        lacks = Mode.NO_FIT < choice.mode < Mode.FIT and not workload.failed_nodes
        targets = preemption.targets(choice) if lacks else []
        if targets and choice.placed():
            with self._snapshot.without_workloads([target.workload for target in targets]):
                choice.assign_places(self._snapshot)
        return choice, targets

    def _try_partial_admission(self, workload: SnapshotWorkload) -> tuple[FlavorChoice, list[PreemptionTarget]] | None:
        """The choice with the most pods that fit, at least each minimum, and whom it preempts; None if none fits."""
        spare = [each.count - (each.count if each.min_count is None else each.min_count) for each in workload.pod_sets]
        found, low, high = None, 1, sum(spare)
        while low <= high:  # how many pods are left out in all; each pod set gives its share of them
            out = (low + high) // 2
            shares = [less * out // sum(spare) for less in spare]
            fewer = [
                replace(each.scaled(each.count - less), asked=each.count)
                for each, less in zip(workload.pod_sets, shares, strict=True)
            ]
            choice, targets = self._choose_flavors(replace(workload, pod_sets=fewer))
            if choice.mode is Mode.FIT or targets:
                found, high = (choice, targets), out - 1
            else:
                low = out + 1
        return found

    def decide(self, entry: Decision) -> None:
        quota, places = self._still_fits(entry)
        release = self._snapshot.release
        recompute = release.minor >= 18 and "TASRecomputeAssignmentWithinSchedulingCycle" not in release.off
        if quota and not places and recompute:
            entry.workload.tried = ()
            self._assign_flavors(entry, entry.choice)
            quota, places = self._still_fits(entry)
        queue = self._snapshot.queues[entry.workload.cluster_queue]
        replaces = entry.workload.failed_nodes and "TASFailedNodeReplacementFailFast" not in release.off
        if replaces and entry.choice.mode is not Mode.FIT:
            lost = ",".join(entry.workload.failed_nodes)
            entry.verdict = CycleVerdict.EVICT
            entry.message = f"Workload was evicted as there was no replacement for unhealthy node(s): {lost}"
            return
        if entry.choice.mode is Mode.NO_FIT:
            entry.verdict = CycleVerdict.HOPELESS
            return
        if entry.choice.mode is not Mode.FIT and not entry.targets:
            self._hold_back(entry)
            entry.verdict = CycleVerdict.HOPELESS
            return
        if any(target.workload in self._preempted for target in entry.targets):
            entry.message = "Workload has overlapping preemption targets with another workload"
            return
        if not (quota and places):
            entry.message = NO_LONGER_FITS
            return
        if entry.choice.mode is Mode.FIT and all(one.places for one in entry.choice.placed()):
            self._record_admission(entry)
            return
        self._preempted += [target.workload for target in entry.targets]
        for at, value in entry.choice.usage().items():
            queue.add_usage(at, value)
        self._reserve_places(*entry.choice.placed())
        if entry.choice.mode is Mode.FIT:  # those behind it lack what it takes in each cycle
            entry.message = PLACELESS
            return
        entry.verdict = CycleVerdict.PREEMPT
        entry.message += f". Pending the preemption of {len(entry.targets)} workload(s)"

    def _record_admission(self, entry: Decision) -> None:
        entry.verdict = CycleVerdict.ADMIT
        if entry.workload.second_pass:
            self._snapshot.remove_workload(entry.workload)
        self._snapshot.add_workload(_admitted_workload(entry))
        for one in entry.choice.placed():  # a node that was replaced is free from the next cycle on
            kept = dict(one.places)
            left = [(at, more) for at, pods in one.pod_set.places if (more := pods - kept.get(at, 0)) > 0]
            self._reserve_places(replace(one, places=left))

    def _still_fits(self, entry: Decision) -> tuple[bool, bool]:
        """Whether the chosen (quota, topology domains) are still free after the earlier admissions of this cycle."""
        queue, trees = self._snapshot.queues[entry.workload.cluster_queue], self._snapshot.trees
        with self._snapshot.without_workloads([*self._preempted, *(target.workload for target in entry.targets)]):
            quota = all(value <= queue.available(at) for at, value in entry.choice.usage().items())
            places = all(
                trees[one.tree].has_room(values, one.pod_set.single, more)
                for one in entry.choice.placed()
                # Where a node is replaced, only pods that move there use more; 0.18 did not look.
                if not one.pod_set.places or self._snapshot.release.minor > 18
                for values, pods in one.places
                if (more := pods - dict(one.pod_set.places).get(values, 0)) > 0
            )
        return quota, places

    def _reserve_places(self, *placed: PodSetChoice) -> None:
        for one in placed:
            self.reserved.append(one)
            self.use_places(one, 1)

    def use_places(self, choice: PodSetChoice, times: int) -> None:
        for values, pods in choice.places:
            self._snapshot.trees[choice.tree].add_usage(values, choice.pod_set.single, times * pods)

    def _hold_back(self, entry: Decision) -> None:
        """Reserve quota for a waiting workload whose queue could not reclaim it from all others of the cohort."""
        queue = self._snapshot.queues[entry.workload.cluster_queue]
        if queue.reclaim == "Any":
            return
        for at, value in entry.choice.usage().items():
            nominal, used, limit = queue.nominal(at), queue.used.get(at, 0), queue.borrowing_limit(at)
            kept = max(0, min(value, nominal - used))
            if entry.choice.borrowing:
                kept = value if limit is None else max(0, min(value, nominal + limit - used))
            queue.add_usage(at, kept)
        self._reserve_places(*entry.choice.placed())


def _admitted_workload(entry: Decision) -> SnapshotWorkload:
    """The workload with its assigned flavors and topology."""
    pod_sets = [
        replace(one.pod_set, flavors=dict(one.flavors), places=tuple(one.places)) for one in entry.choice.pod_sets
    ]
    return replace(entry.workload, pod_sets=pod_sets)
