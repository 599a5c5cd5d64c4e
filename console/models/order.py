"""The order in which Kueue looks at what waits: priority first, then time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from console.models.condition import condition

if TYPE_CHECKING:
    from console.models.fleet import Fleet
    from console.models.workload import Workload


@dataclass(frozen=True, slots=True)
class Queued:
    """One workload in the order of its ClusterQueue."""

    workload: Workload
    cluster_queue: str
    """Empty where its LocalQueue does not exist."""
    position: int
    """1 for the first that waits; 0 for one that holds quota."""


def order(fleet: Fleet) -> tuple[Queued, ...]:
    """Unfinished workloads by ClusterQueue: those that wait in Kueue's order, then those that hold quota, oldest first."""
    by_queue: dict[str, list[Workload]] = {}
    for workload in fleet.workloads.values():
        if workload.state != "finished":
            by_queue.setdefault(_cluster_queue_name(workload, fleet), []).append(workload)
    found: list[Queued] = []
    for name in sorted(by_queue):
        waiting = sorted((each for each in by_queue[name] if each.waits), key=_turn)
        rest = sorted((each for each in by_queue[name] if not each.waits), key=lambda each: (each.created, each.key))
        found += [Queued(each, name, position) for position, each in enumerate(waiting, 1)]
        found += [Queued(each, name, 0) for each in rest]
    return tuple(found)


def ahead_of(workload: Workload, fleet: Fleet) -> tuple[Workload, ...]:
    """Workloads of the same ClusterQueue that Kueue looks at before this one."""
    name = _cluster_queue_name(workload, fleet)
    turn = _turn(workload)
    same = (
        each
        for each in fleet.workloads.values()
        if each.waits and _cluster_queue_name(each, fleet) == name and _turn(each) < turn
    )
    return tuple(sorted(same, key=_turn))


def _cluster_queue_name(workload: Workload, fleet: Fleet) -> str:
    if workload.cluster_queue:
        return workload.cluster_queue
    door = fleet.local_queues.get((workload.namespace, workload.queue))
    return door.cluster_queue if door else ""


def _turn(workload: Workload) -> tuple[int, float, str, str]:
    """Smaller comes first. An evicted workload keeps its place by creation unless it was evicted for not getting ready."""
    evicted = condition(workload.conditions, "Evicted")
    since = workload.created
    if evicted and evicted.is_true and evicted.reason in {"PodsReadyTimeout", "AdmissionCheck"}:
        since = evicted.since
    return -workload.priority, since, workload.namespace, workload.name
