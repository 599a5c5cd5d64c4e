"""A copy of the cluster's queues on which Kueue's cycles run until nothing changes, for forecasts and simulations."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import NamedTuple

from msgspec.structs import replace

from kueue_rules.admission_cycle import PLACELESS, CycleVerdict, Decision, admission_cycle, failed_before
from kueue_rules.flavor_assignment import TriedFlavorMemory
from kueue_rules.quota_tree import QuotaNode
from kueue_rules.snapshot import Snapshot, SnapshotWorkload

MAX_CYCLES = 1000
MAX_PREEMPTION_ROUNDS = 20  # of preemptions after one event: in Kueue too workloads may evict each other for ever


class Move(NamedTuple):
    """One event of a simulated workload: its start, or its preemption by another workload."""

    workload: SnapshotWorkload
    preempted_by: SnapshotWorkload | None = None


_WorkloadsByShape = dict[str, list[SnapshotWorkload]]  # by shape, each in the order of trying


class VirtualCluster:
    """A simulated cluster: running workloads, and those waiting in queues, with Kueue's admission cycles.

    A workload that did not fit is parked until a workload in its cohort tree ends; the head of a StrictFIFO queue and
    one waiting for its victims are tried in each cycle. Preempted workloads return their quota when nothing else is
    left to try, since pods take time to end.
    """

    def __init__(self, snapshot: Snapshot, strict_queues: Iterable[str]) -> None:
        """`strict_queues`: the queues with StrictFIFO."""
        self.snapshot, self._strict = snapshot, frozenset(strict_queues)
        self._active: dict[str, _WorkloadsByShape] = {name: {} for name in snapshot.queues}
        self._parked: dict[str, _WorkloadsByShape] = {name: {} for name in snapshot.queues}
        self._hopeless: dict[str, set[str]] = {name: set() for name in snapshot.queues}
        """By queue the shapes of workloads of which one did not fit."""
        self._freed: set[QuotaNode] = set()  # trees in which something ended
        self._first: dict[str, SnapshotWorkload] = {}
        """By queue the workload that waits for its victims: it is the head until it starts."""
        self._leaving: list[SnapshotWorkload] = []
        self._refused: list[SnapshotWorkload] = []  # by the API server in the last cycle: the next of its queue comes
        self._turns = TriedFlavorMemory()
        snapshot.failures = {}

    @property
    def waiting(self) -> dict[str, list[SnapshotWorkload]]:
        """The waiting workloads of each ClusterQueue, in the order in which they are tried."""
        return {
            name: sorted(chain(*self._active[name].values(), *self._parked[name].values()), key=SnapshotWorkload.order)
            for name in self.snapshot.queues
        }

    def submit(self, workload: SnapshotWorkload) -> None:
        hopeless = workload.shape() in self._hopeless[workload.cluster_queue]
        where = self._parked if hopeless else self._active
        insort(where[workload.cluster_queue].setdefault(workload.shape(), []), workload, key=SnapshotWorkload.order)

    def withdraw(self, workload: SnapshotWorkload) -> None:
        """Remove a waiting workload from its queue."""
        name, shape = workload.cluster_queue, workload.shape()
        where = self._active if workload in self._active[name].get(shape, ()) else self._parked
        where[name][shape].remove(workload)
        if not where[name][shape]:
            del where[name][shape]

    def end(self, workload: SnapshotWorkload) -> None:
        """End a running workload, after which those that wait are tried again."""
        self.snapshot.remove_workload(workload)
        self._freed.add(self.snapshot.queues[workload.cluster_queue].root)
        self._turns.written(workload.cluster_queue)

    def is_running(self, workload: SnapshotWorkload) -> bool:
        """Whether the workload has run since its admission without a preemption in between."""
        return self.snapshot.queues[workload.cluster_queue].workloads.get(workload.key) is workload

    def checkpoint(self) -> Callable[[], None]:
        """A function that restores the present state, any number of times."""
        stored = [_copy_queues(where) for where in (self._active, self._parked)]
        hopeless = {name: set(shapes) for name, shapes in self._hopeless.items()}
        used = [dict(node.used) for node in self.snapshot.nodes]
        running = {name: dict(queue.workloads) for name, queue in self.snapshot.queues.items()}
        leaves = {id(leaf.used): leaf for tree in self.snapshot.trees.values() for leaf in tree.leaves}
        places = [(leaf.used, dict(leaf.used)) for leaf in leaves.values()]  # each once: flavors may share nodes

        def restore() -> None:
            self._active, self._parked = (_copy_queues(where) for where in stored)
            self._hopeless = {name: set(shapes) for name, shapes in hopeless.items()}
            self._freed.clear()
            self._first.clear()
            self._leaving, self._turns = [], TriedFlavorMemory()
            for node, amounts in zip(self.snapshot.nodes, used, strict=True):
                node.used = dict(amounts)
            for name, queue in self.snapshot.queues.items():
                queue.workloads = dict(running[name])
                for workload in queue.workloads.values():
                    workload.evicted = False
            for used_now, taken in places:
                used_now.clear()
                used_now.update(taken)

        return restore

    def admit(self, now: float = 0.0) -> list[Move]:
        """Run admission cycles until nothing more fits."""
        moves: list[Move] = []
        rounds = 0
        for _ in range(MAX_CYCLES):
            if self._run_cycle(moves, now):
                continue
            if self._freed:
                self._try_all_again()
            elif self._leaving:
                self._release_preempted()
                rounds += 1
            else:
                break
            if rounds > MAX_PREEMPTION_ROUNDS:
                break
        self._release_preempted()
        return moves

    def _next_workload(self, name: str) -> SnapshotWorkload | None:
        alike = self._active[name]
        if not alike:
            return None
        head = self._first.get(name)
        if head is None or head not in alike.get(head.shape(), ()):
            others = self._refused and [each for each in chain(*alike.values()) if each not in self._refused]
            head = min(others or [each[0] for each in alike.values()], key=SnapshotWorkload.order)
        head.tried = self._turns.tried_flavors(head)
        return head

    def _run_cycle(self, moves: list[Move], now: float) -> bool:
        """Run one cycle; returns whether anything has changed."""
        heads = [head for name in self._active if (head := self._next_workload(name)) is not None]
        self._refused, failures = [], []
        for head in heads:
            if (failure := failed_before(head, self.snapshot)) is None:
                break
            failures.append(failure.message())
        else:
            for head, message in zip(heads, failures, strict=True):
                self._turns.note(head, message)
            changed = [self._set_aside(head, alike=True) for head in heads]
            return any(changed)
        used = [dict(node.used) for node in self.snapshot.nodes]
        decisions = admission_cycle(heads, self.snapshot)
        for node, before in zip(self.snapshot.nodes, used, strict=True):
            node.used = before  # a cycle holds back quota for those that wait, until the next one
        changed = [self._apply_decision(each, moves, now) for each in decisions]
        self._refused = [each.workload for each in decisions if each.message == PLACELESS]
        again = self._refused or any(_is_tried_again(each) for each in decisions)
        return any(changed) or (bool(again) and self._turns.meet_anew(heads))

    def _apply_decision(self, decision: Decision, moves: list[Move], now: float) -> bool:
        workload, queue = decision.workload, self.snapshot.queues[decision.workload.cluster_queue]
        self._turns.note(workload, decision.message, decision.choice if _is_tried_again(decision) else None)
        match decision.verdict:
            case CycleVerdict.ADMIT:
                self.withdraw(workload)
                self._turns.admitted(workload)
                if self._first.get(queue.name) is workload:
                    del self._first[queue.name]
                held = queue.workloads[workload.key]
                held.reserved = now
                for at, amount in held.usage().items():
                    queue.add_usage(at, amount)
                moves.append(Move(held))
                return True
            case CycleVerdict.PREEMPT:
                victims = [each.workload for each in decision.targets if not each.workload.evicted]
                for victim in victims:
                    victim.evicted = True
                    self._turns.written(victim.cluster_queue)
                    moves.append(Move(victim, workload))
                self._leaving += victims
                if queue.name not in self._strict:
                    self._first[queue.name] = workload
                return bool(victims)
            case CycleVerdict.HOPELESS | CycleVerdict.WAIT if not _is_tried_again(decision):
                return self._set_aside(workload, alike=decision.verdict is CycleVerdict.HOPELESS)
        return False

    def _set_aside(self, workload: SnapshotWorkload, *, alike: bool) -> bool:
        """Park a workload, and with `alike` all of its shape, until another ends; returns whether it was active."""
        name, shape = workload.cluster_queue, workload.shape()
        if name in self._strict:
            return False
        parked = [workload]
        if alike:
            self._hopeless[name].add(shape)
            parked = self._active[name][shape]
        self._active[name][shape] = [each for each in self._active[name][shape] if each not in parked]
        if not self._active[name][shape]:
            del self._active[name][shape]
        self._parked[name][shape] = sorted([*self._parked[name].get(shape, ()), *parked], key=SnapshotWorkload.order)
        return True

    def _try_all_again(self) -> None:
        """Try all parked workloads of a cohort again after one ended."""
        for name, parked in self._parked.items():
            if self.snapshot.queues[name].root in self._freed:
                self._hopeless[name].clear()
                for shape, alike in parked.items():
                    active = self._active[name].get(shape)
                    self._active[name][shape] = (
                        sorted([*active, *alike], key=SnapshotWorkload.order) if active else alike
                    )
                parked.clear()
        self._freed.clear()
        self._turns.changed()

    def _release_preempted(self) -> None:
        """End preempted workloads whose pods are gone: they return their quota and queue again."""
        leaving, self._leaving = self._leaving, []
        for victim in leaving:
            self.end(victim)
            victim.evicted = False
        for victim in leaving:
            self.submit(without_quota(victim))


def _is_tried_again(decision: Decision) -> bool:
    """Whether flavors are left with which the workload is tried again at once."""
    return decision.verdict is CycleVerdict.HOPELESS and decision.choice.flavors_left


def _copy_queues(where: Mapping[str, _WorkloadsByShape]) -> dict[str, _WorkloadsByShape]:
    return {name: {shape: list(each) for shape, each in alike.items()} for name, alike in where.items()}


def without_quota(workload: SnapshotWorkload) -> SnapshotWorkload:
    """The workload without its quota, as it was before admission."""
    whole = [each.scaled(each.asked) if each.asked else each for each in workload.pod_sets]
    pod_sets = [replace(each, flavors={}, places=(), asked=0) for each in whole]
    return replace(workload, pod_sets=pod_sets, reserved=0.0)
