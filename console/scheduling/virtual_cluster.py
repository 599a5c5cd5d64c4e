"""A copy of the cluster's queues on which Kueue's cycles run until nothing changes, for forecasts and simulations."""

from __future__ import annotations

from bisect import insort
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from console.scheduling.kueue.cycle import Verdict, admission_cycle
from console.scheduling.kueue.state import Workload

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from console.scheduling.kueue.cycle import Decision
    from console.scheduling.kueue.state import Snapshot

MAX_CYCLES = 1000


class Move(NamedTuple):
    """A workload that starts, or that is preempted, and by whom."""

    workload: Workload
    preempted_by: Workload | None = None


class VirtualCluster:
    """A snapshot of running workloads; `waiting` has the others by ClusterQueue, in the order of trying."""

    def __init__(self, snapshot: Snapshot, strict: Iterable[str]) -> None:
        """`strict`: the queues with StrictFIFO."""
        self.snapshot, self._strict = snapshot, frozenset(strict)
        self.waiting: dict[str, list[Workload]] = {name: [] for name in snapshot.queues}
        self._nodes = list(
            {id(node): node for each in snapshot.queues.values() for node in (each, *each.ancestors())}.values()
        )
        self._shapes: dict[str, str] = {}  # by uid

    def submit(self, workload: Workload) -> None:
        insort(self.waiting[workload.cluster_queue], workload, key=Workload.order)

    def holds(self, workload: Workload) -> bool:
        """Whether it still runs and was not preempted since, even if it was admitted again."""
        return self.snapshot.queues[workload.cluster_queue].workloads.get(workload.key) is workload

    def checkpoint(self) -> Callable[[], None]:
        """A function that restores the present state, any number of times."""
        waiting = {name: tuple(each) for name, each in self.waiting.items()}
        used = [dict(node.used) for node in self._nodes]
        running = {name: dict(queue.workloads) for name, queue in self.snapshot.queues.items()}
        places = [(leaf, dict(leaf.used)) for tree in self.snapshot.trees.values() for leaf in tree.leaves]

        def restore() -> None:
            self.waiting = {name: list(each) for name, each in waiting.items()}
            for node, amounts in zip(self._nodes, used, strict=True):
                node.used = dict(amounts)
            for name, queue in self.snapshot.queues.items():
                queue.workloads = dict(running[name])
            for leaf, taken in places:
                leaf.used = dict(taken)

        return restore

    def admit(self, now: float = 0.0) -> list[Move]:
        """Run admission cycles until nothing more fits; preempted workloads leave at once."""
        moves: list[Move] = []
        active = {name: deque(waiting) for name, waiting in self.waiting.items() if waiting}
        hopeless: set[tuple[str, str]] = set()  # queues and shapes of which one was tried in vain
        for _ in range(MAX_CYCLES):
            heads = [head for name in list(active) if (head := self._head(name, active, hopeless)) is not None]
            if not heads:
                break
            used = [dict(node.used) for node in self._nodes]
            decisions = admission_cycle(heads, self.snapshot)
            for node, before in zip(self._nodes, used, strict=True):
                node.used = before  # a cycle holds back quota for those that wait, until the next one
            moved = any(each.verdict in {Verdict.ADMIT, Verdict.PREEMPT} for each in decisions)
            for decision in decisions:
                self._apply(decision, active, hopeless, moves, now)
                if decision.verdict is Verdict.SKIP and not moved:  # trying again at once would find the same
                    self._rest(decision.workload, active)
        return moves

    def _head(self, name: str, active: dict[str, deque[Workload]], hopeless: set[tuple[str, str]]) -> Workload | None:
        waiting = active[name]
        while waiting:
            shape = self._shapes.get(waiting[0].uid) or self._shapes.setdefault(waiting[0].uid, waiting[0].shape())
            if (name, shape) not in hopeless:
                return waiting[0]
            waiting.popleft()
        return None

    def _rest(self, workload: Workload, active: dict[str, deque[Workload]]) -> None:
        if workload.cluster_queue in self._strict:
            active[workload.cluster_queue].clear()
        else:
            active[workload.cluster_queue].popleft()

    def _apply(
        self, decision: Decision, active: dict[str, deque[Workload]], hopeless: set[tuple[str, str]],
        moves: list[Move], now: float,
    ) -> None:  # fmt: skip
        workload, queue = decision.workload, self.snapshot.queues[decision.workload.cluster_queue]
        match decision.verdict:
            case Verdict.ADMIT:
                active[queue.name].popleft()
                self.waiting[queue.name].remove(workload)
                held = queue.workloads[workload.key]
                held.reserved = now
                for at, amount in held.usage().items():
                    queue.add_usage(at, amount)
                moves.append(Move(held))
            case Verdict.PREEMPT:
                hopeless.clear()
                for target in decision.targets:
                    self.snapshot.remove_workload(target.workload)
                    self.submit(queued_again(target.workload))
                    moves.append(Move(target.workload, workload))
            case Verdict.HOPELESS:
                hopeless.add((queue.name, self._shapes[workload.uid]))
                self._rest(workload, active)
            case Verdict.WAIT:
                self._rest(workload, active)


def queued_again(workload: Workload) -> Workload:
    """The workload without its quota, as it was before admission."""
    pod_sets = [replace(each, flavors={}, places=()) for each in workload.pod_sets]
    return replace(workload, pod_sets=pod_sets, reserved=0.0)
