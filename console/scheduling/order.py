"""The order in which Kueue tries pending workloads.

Kueue sorts a ClusterQueue by priority, then by a timestamp (creation, but the eviction for workloads that lost their
quota to a readiness timeout or to an admission check), then by uid. With BestEffortFIFO a workload that does not fit
lets those behind it pass, so a position is the order of trying, not of starting.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from msgspec import Struct

from console.kube.objects.meta import condition
from console.kube.objects.workload import Workload, WorkloadState
from console.kube.snapshot import per_snapshot
from console.scheduling.kueue.state import BACK_OF_QUEUE, try_order

if TYPE_CHECKING:
    from console.kube.objects.queue import ClusterQueue, LocalQueue
    from console.kube.snapshot import Fleet

_HOLDS_QUOTA = {WorkloadState.RESERVED, WorkloadState.ADMITTED}


class QueueOrder(Struct, frozen=True):
    """The pending workloads of a ClusterQueue in Kueue's order, and the admitted ones, longest first."""

    pending: tuple[Workload, ...] = ()
    running: tuple[Workload, ...] = ()


def queue_timestamp(workload: Workload) -> float:
    """The time by which Kueue sorts workloads of equal priority."""
    evicted = condition(workload.conditions, "Evicted")
    if evicted and evicted.is_true and evicted.reason in BACK_OF_QUEUE:
        return evicted.since
    return workload.created


def _held_since(workload: Workload) -> float:
    reserved = condition(workload.conditions, "QuotaReserved")
    return reserved.since if reserved else workload.created


def cluster_queue_name(workload: Workload, fleet: Fleet) -> str:
    """The ClusterQueue that it is admitted to or waits for, existing or not; empty if unknown."""
    if workload.cluster_queue:
        return workload.cluster_queue
    door = fleet.local_queues.get((workload.namespace, workload.queue))
    return door.cluster_queue if door else ""


def closed_reason(queue: LocalQueue | ClusterQueue) -> str:
    """Why a queue admits nothing; empty if it is open."""
    if queue.stop_policy != "None":
        drained = " and drained" if queue.stop_policy == "HoldAndDrain" else ""
        return f"queue {queue.name} is stopped{drained} (stop policy {queue.stop_policy}) and admits nothing"
    return f"queue {queue.name} is not active: {queue.inactive_reason}" if queue.inactive_reason else ""


@per_snapshot
def _orders(fleet: Fleet) -> dict[str, QueueOrder]:
    waiting: dict[str, list[Workload]] = defaultdict(list)
    holding: dict[str, list[Workload]] = defaultdict(list)
    for workload in fleet.workloads.values():
        if workload.is_waiting:
            waiting[cluster_queue_name(workload, fleet)].append(workload)
        elif workload.state in _HOLDS_QUOTA:
            holding[cluster_queue_name(workload, fleet)].append(workload)
    for listed in waiting.values():
        listed.sort(key=lambda each: try_order(each.priority, queue_timestamp(each), each.uid))
    return {
        name: QueueOrder(tuple(waiting[name]), tuple(sorted(holding[name], key=_held_since)))
        for name in {*waiting, *holding}
    }


@per_snapshot
def _positions(fleet: Fleet) -> dict[tuple[str, str], int]:
    return {each.key: at for order in _orders(fleet).values() for at, each in enumerate(order.pending, start=1)}


def queue_order(fleet: Fleet, cluster_queue: str) -> QueueOrder:
    """The order of that ClusterQueue; empty if it has no workloads."""
    return _orders(fleet).get(cluster_queue, QueueOrder())


def queue_position(workload: Workload, fleet: Fleet) -> int:
    """Its position in the ClusterQueue: 1 is tried first; 0 if it does not wait."""
    return _positions(fleet).get(workload.key, 0)
