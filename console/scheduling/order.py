"""The order in which Kueue tries pending workloads.

Kueue sorts a ClusterQueue by priority, then by a timestamp (creation, but the eviction for workloads that lost their
quota to a readiness timeout or to an admission check), then by uid. With BestEffortFIFO a workload that does not fit
lets those behind it pass, so a position is the order of trying, not of starting.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from msgspec import Struct

from console.kube.objects.meta import condition
from console.kube.objects.workload import Workload, WorkloadState
from console.scheduling.kueue.state import BACK_OF_QUEUE, try_order

if TYPE_CHECKING:
    from collections.abc import Mapping

    from console.kube.snapshot import Fleet

_HOLDS_QUOTA = {WorkloadState.RESERVED, WorkloadState.ADMITTED}


class QueuePosition(Struct, frozen=True):
    """The position of a pending workload in its queue."""

    workload: Workload
    position: int  # in its ClusterQueue; 1 is tried first


class QueueOrder(Struct, frozen=True):
    """One queue: who waits, in Kueue's order, and who holds quota, longest first."""

    name: str
    pending: tuple[QueuePosition, ...] = ()
    running: tuple[Workload, ...] = ()

    def ahead(self, workload: Workload) -> tuple[Workload, ...]:
        """Pending workloads that are tried before that one."""
        names = [each.workload.key for each in self.pending]
        place = names.index(workload.key) if workload.key in names else 0
        return tuple(each.workload for each in self.pending[:place])


def queue_timestamp(workload: Workload) -> float:
    """The moment Kueue sorts by among workloads of equal priority."""
    evicted = condition(workload.conditions, "Evicted")
    if evicted and evicted.is_true and evicted.reason in BACK_OF_QUEUE:
        return evicted.since
    return workload.created


def _rank(workload: Workload) -> tuple[int, float, str]:
    return try_order(workload.priority, queue_timestamp(workload), workload.uid)


def _held_since(workload: Workload) -> float:
    reserved = condition(workload.conditions, "QuotaReserved")
    return reserved.since if reserved else workload.created


def cluster_queue_name(workload: Workload, fleet: Fleet) -> str:
    """The ClusterQueue it holds quota of or waits for, whether or not that one exists; empty if nothing says."""
    if workload.cluster_queue:
        return workload.cluster_queue
    door = fleet.local_queues.get((workload.namespace, workload.queue))
    return door.cluster_queue if door else ""


class _Orders:
    """All queues of one snapshot, sorted once."""

    def __init__(self, fleet: Fleet) -> None:
        waiting: dict[str, list[Workload]] = defaultdict(list)
        holding: dict[str, list[Workload]] = defaultdict(list)
        for workload in fleet.workloads.values():
            if workload.is_waiting:
                waiting[cluster_queue_name(workload, fleet)].append(workload)
            elif workload.state in _HOLDS_QUOTA:
                holding[cluster_queue_name(workload, fleet)].append(workload)
        self.by_queue: Mapping[str, QueueOrder] = {
            name: _order(name, waiting.get(name, []), holding.get(name, [])) for name in {*waiting, *holding}
        }
        self.standings = {each.workload.key: each for order in self.by_queue.values() for each in order.pending}


def _order(name: str, waiting: list[Workload], holding: list[Workload]) -> QueueOrder:
    pending = (
        QueuePosition(workload, position) for position, workload in enumerate(sorted(waiting, key=_rank), start=1)
    )
    return QueueOrder(name, tuple(pending), tuple(sorted(holding, key=_held_since)))


_sorted: WeakKeyDictionary[Fleet, _Orders] = WeakKeyDictionary()
"""A screen asks for every row; a snapshot never changes, so its queues are sorted once and forgotten with it."""


def _orders(fleet: Fleet) -> _Orders:
    if fleet not in _sorted:
        _sorted[fleet] = _Orders(fleet)
    return _sorted[fleet]


def queue_order(fleet: Fleet, cluster_queue: str) -> QueueOrder:
    """That ClusterQueue's workloads; empty if it has none."""
    return _orders(fleet).by_queue.get(cluster_queue, QueueOrder(cluster_queue))


def queue_position(workload: Workload, fleet: Fleet) -> QueuePosition | None:
    """The position of that workload; None if it does not wait."""
    return _orders(fleet).standings.get(workload.key)
