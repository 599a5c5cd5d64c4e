"""A copy of the cluster's queues on which Kueue's cycles run until nothing changes, for forecasts and simulations."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import chain
from operator import itemgetter
from typing import NamedTuple

from console.scheduling.kueue.cycle import Decision, Verdict, admission_cycle, failed_before
from console.scheduling.kueue.state import Snapshot, Workload

MAX_CYCLES = 1000


class Move(NamedTuple):
    """A workload that starts, or that is preempted, and by whom."""

    workload: Workload
    preempted_by: Workload | None = None


class VirtualCluster:
    """A snapshot of running workloads, and those that wait in its queues."""

    def __init__(self, snapshot: Snapshot, strict: Iterable[str]) -> None:
        """`strict`: the queues with StrictFIFO."""
        self.snapshot, self._strict = snapshot, frozenset(strict)
        self._waiting: dict[str, dict[str, list[Workload]]] = {name: {} for name in snapshot.queues}
        """By queue and shape, each in the order of trying."""
        snapshot.failures = {}

    @property
    def waiting(self) -> dict[str, list[Workload]]:
        """Those that wait by ClusterQueue, in the order of trying."""
        return {name: sorted(chain(*alike.values()), key=Workload.order) for name, alike in self._waiting.items()}

    @property
    def has_waiting(self) -> bool:
        return any(self._waiting.values())

    def submit(self, workload: Workload) -> None:
        insort(self._waiting[workload.cluster_queue].setdefault(workload.shape(), []), workload, key=Workload.order)

    def withdraw(self, workload: Workload) -> None:
        """Take a workload that waits out of its queue."""
        alike = self._waiting[workload.cluster_queue]
        alike[workload.shape()].remove(workload)
        if not alike[workload.shape()]:
            del alike[workload.shape()]

    def holds(self, workload: Workload) -> bool:
        """Whether it still runs and was not preempted since, even if it was admitted again."""
        return self.snapshot.queues[workload.cluster_queue].workloads.get(workload.key) is workload

    def checkpoint(self) -> Callable[[], None]:
        """A function that restores the present state, any number of times."""
        waiting = {name: {shape: tuple(each) for shape, each in alike.items()} for name, alike in self._waiting.items()}
        used = [dict(node.used) for node in self.snapshot.nodes]
        running = {name: dict(queue.workloads) for name, queue in self.snapshot.queues.items()}
        places = [(leaf, dict(leaf.used)) for tree in self.snapshot.trees.values() for leaf in tree.leaves]

        def restore() -> None:
            self._waiting = {
                name: {shape: list(each) for shape, each in alike.items()} for name, alike in waiting.items()
            }
            for node, amounts in zip(self.snapshot.nodes, used, strict=True):
                node.used = dict(amounts)
            for name, queue in self.snapshot.queues.items():
                queue.workloads = dict(running[name])
            for leaf, taken in places:
                leaf.used = dict(taken)

        return restore

    def admit(self, now: float = 0.0) -> list[Move]:
        """Run admission cycles until nothing more fits; preempted workloads leave at once."""
        moves: list[Move] = []
        passed: dict[str, tuple[object, ...]] = {name: () for name, alike in self._waiting.items() if alike}
        """By queue that has more to try, the order before which all were tried."""
        hopeless: dict[str, set[str]] = defaultdict(set)  # by queue, shapes of which one was tried in vain
        for _ in range(MAX_CYCLES):
            heads = [head for name in list(passed) if (head := self._head(name, passed, hopeless)) is not None]
            if not heads:
                break
            if all(failed_before(head, self.snapshot) for head in heads):
                for head in heads:
                    hopeless[head.cluster_queue].add(head.shape())
                    self._rest(head, passed)
                continue
            used = [dict(node.used) for node in self.snapshot.nodes]
            decisions = admission_cycle(heads, self.snapshot)
            for node, before in zip(self.snapshot.nodes, used, strict=True):
                node.used = before  # a cycle holds back quota for those that wait, until the next one
            moved = any(each.verdict in {Verdict.ADMIT, Verdict.PREEMPT} for each in decisions)
            for decision in decisions:
                self._apply(decision, passed, hopeless, moves, now)
                if decision.verdict is Verdict.SKIP and not moved:  # trying again at once would find the same
                    self._rest(decision.workload, passed)
        for move in moves:
            if move.preempted_by is not None:
                self.submit(queued_again(move.workload))
        return moves

    def _head(
        self, name: str, passed: dict[str, tuple[object, ...]], hopeless: Mapping[str, set[str]]
    ) -> Workload | None:
        before, tried, found = passed[name], hopeless[name], []
        for shape, alike in self._waiting[name].items():
            if shape not in tried:
                order, at = alike[0].order(), 0
                if order < before:
                    at = bisect_left(alike, before, key=Workload.order)
                found += [(alike[at].order() if at else order, alike[at])] if at < len(alike) else []
        if not found:
            del passed[name]
            return None
        passed[name], first = min(found, key=itemgetter(0))
        return first

    def _rest(self, workload: Workload, passed: dict[str, tuple[object, ...]]) -> None:
        if workload.cluster_queue in self._strict:
            del passed[workload.cluster_queue]
        else:
            passed[workload.cluster_queue] = (*workload.order(), "")

    def _apply(
        self, decision: Decision, passed: dict[str, tuple[object, ...]], hopeless: dict[str, set[str]],
        moves: list[Move], now: float,
    ) -> None:  # fmt: skip
        workload, queue = decision.workload, self.snapshot.queues[decision.workload.cluster_queue]
        match decision.verdict:
            case Verdict.ADMIT:
                self.withdraw(workload)
                held = queue.workloads[workload.key]
                held.reserved = now
                for at, amount in held.usage().items():
                    queue.add_usage(at, amount)
                moves.append(Move(held))
            case Verdict.PREEMPT:
                hopeless.clear()
                for target in decision.targets:
                    self.snapshot.remove_workload(target.workload)
                    moves.append(Move(target.workload, workload))
            case Verdict.HOPELESS:
                hopeless[queue.name].add(workload.shape())
                self._rest(workload, passed)
            case Verdict.WAIT:
                self._rest(workload, passed)


def queued_again(workload: Workload) -> Workload:
    """The workload without its quota, as it was before admission."""
    pod_sets = [replace(each, flavors={}, places=()) for each in workload.pod_sets]
    return replace(workload, pod_sets=pod_sets, reserved=0.0)
