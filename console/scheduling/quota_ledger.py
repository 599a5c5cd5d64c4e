"""GPU quota of a snapshot's queues by Kueue's rules: free and missing GPUs, and their holders.

Usage counts reserved quota, since a reservation binds as much as an admission.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from itertools import combinations
from typing import TYPE_CHECKING

from console.kube.objects.meta import GPU
from console.kube.objects.workload import Workload
from console.kube.snapshot import Fleet, per_snapshot
from console.scheduling.kueue_snapshot import (
    cluster_queue_name,
    flavor_of,
    gpu_flavors,
    job_name,
    kueue_snapshot,
    queue_order,
)
from console.scheduling.why import QuotaAccount, QuotaHolder
from kueue_rules import QuotaNode

if TYPE_CHECKING:
    from console.scheduling.kueue_messages import KueueMessage


class QuotaLedger:
    """GPU quota of one flavor over all queues and cohorts of a snapshot."""

    def __init__(self, fleet: Fleet, flavor: str) -> None:
        self.at = flavor, GPU
        self.flavor = flavor_of(fleet, flavor)
        self.snapshot = kueue_snapshot(fleet, (flavor,))
        self.strict_queues = {each.name for each in fleet.cluster_queues.values() if each.strategy == "StrictFIFO"}

    def _queue_node(self, name: str) -> QuotaNode:
        return self.snapshot.queues.get(name) or QuotaNode(name)

    def available(self, name: str, freed: Mapping[str, int] | None = None) -> int:
        """The GPUs that a queue could take now, after the `freed` amounts by queue if given; negative if overused."""
        with ExitStack() as gone:
            for queue, amount in (freed or {}).items():
                node = self._queue_node(queue)
                gone.enter_context(node.with_usage({self.at: -min(amount, node.used.get(self.at, 0))}))
            return self._queue_node(name).available(self.at)

    def fewest_to_end(
        self, name: str, candidates: Sequence[QuotaHolder], need: int, gpus_ahead: Sequence[int]
    ) -> tuple[QuotaHolder, ...]:
        """The smallest set of these jobs whose end frees enough GPUs for that queue, those in `gpus_ahead` first."""
        if len(gpus_ahead) > _MAX_AHEAD:
            return ()

        def is_enough(holders: Sequence[QuotaHolder]) -> bool:
            freed: Counter[str] = Counter()
            for each in holders:
                freed[each.cluster_queue] += each.gpus
            free = self.available(name, freed)
            for first in gpus_ahead:
                if first <= free:
                    free -= first
                elif name in self.strict_queues:
                    return False
            return free >= need

        return fewest_holders(candidates, is_enough)

    def shares(self, name: str, other: str) -> bool:
        """Whether two queues have the same root cohort, or are the same."""
        return self._queue_node(name).root is self._queue_node(other).root

    def account(self, name: str) -> QuotaAccount:
        queue = self._queue_node(name)
        nominal, used, free = queue.nominal(self.at), queue.used.get(self.at, 0), max(0, queue.available(self.at))
        own = max(0, nominal - used)
        return QuotaAccount(
            nominal=nominal,
            used=used,
            free=free,
            total=max(0, queue.potential_available(self.at)),
            borrowed=max(0, used - nominal),
            can_borrow=max(0, free - own),
            lent=own - min(own, free),
        )


@per_snapshot
def quota_ledger(fleet: Fleet, flavor: str) -> QuotaLedger:
    """The ledger of one flavor, cached per snapshot because every pending row needs it."""
    return QuotaLedger(fleet, flavor)


def flavor_account(fleet: Fleet, cluster_queue: str, flavor: str) -> QuotaAccount:
    return quota_ledger(fleet, flavor).account(cluster_queue)


def queue_account(fleet: Fleet, cluster_queue: str) -> QuotaAccount:
    """A queue's account over all its flavors together, although a pod needs all its GPUs in one."""
    names = gpu_flavors(fleet.cluster_queues.get(("", cluster_queue)))
    return sum((flavor_account(fleet, cluster_queue, each) for each in names), start=QuotaAccount())


_MAX_PAIRED = 10
"""Number of largest jobs that are tried in pairs and triples; trying more would cost too much time."""
_MAX_AHEAD = 50  # jobs in front; behind more it is not known whose end would do


def gpus_of_flavor(workload: Workload, flavor: str) -> int:
    """GPUs of a flavor (any if empty) that a workload holds, or requests while it holds none."""
    return sum(
        group.total(GPU)
        for group in workload.pod_sets
        if not flavor or not group.flavors or dict(group.flavors).get(GPU) == flavor
    )


def as_quota_holder(workload: Workload, fleet: Fleet, flavor: str = "") -> QuotaHolder:
    """The workload as a QuotaHolder, with its GPUs of one flavor if given."""
    jobset = fleet.jobset_by_uid.get(workload.owner_uid)
    return QuotaHolder(
        namespace=workload.namespace,
        name=job_name(workload),
        owner=jobset.owner if jobset else "",
        queue=workload.queue,
        cluster_queue=cluster_queue_name(workload, fleet),
        gpus=gpus_of_flavor(workload, flavor),
        priority=workload.priority,
    )


def quota_holders(fleet: Fleet, cluster_queue: str, flavor: str) -> tuple[QuotaHolder, ...]:
    """Jobs that hold GPU quota which the queue could use, in its own or its cohort's queues, most first."""
    book = quota_ledger(fleet, flavor)
    found = [
        as_quota_holder(workload, fleet, flavor)
        for _, name in fleet.cluster_queues
        if book.shares(name, cluster_queue)
        for workload in queue_order(fleet, name).running
    ]
    return tuple(sorted((each for each in found if each.gpus), key=lambda each: (-each.gpus, each.name)))


def fewest_holders(
    candidates: Sequence[QuotaHolder],
    is_enough: Callable[[Sequence[QuotaHolder]], bool],
    weight: Callable[[QuotaHolder], int] | None = None,
) -> tuple[QuotaHolder, ...]:
    """The fewest candidates that suffice together, preferring those that hold least; empty if not even all do.

    `weight`: GPUs that the end of a candidate frees for this purpose, by default all that it holds.
    """
    weigh = weight or (lambda each: each.gpus)
    by_size = sorted(candidates, key=weigh)
    if is_enough(()) or not is_enough(by_size):
        return ()
    for number in (1, 2, 3):
        if not is_enough(by_size[-number:]):
            continue
        tried = by_size if number == 1 else by_size[-_MAX_PAIRED:]
        sets = sorted(combinations(tried, number), key=lambda chosen: sum(map(weigh, chosen)))
        return tuple(reversed(next(chosen for chosen in sets if is_enough(chosen))))
    chosen = list(reversed(by_size))
    for each in by_size:
        without = [other for other in chosen if other is not each]
        if is_enough(without):
            chosen = without
    return tuple(chosen)


def best_flavor(fleet: Fleet, cluster_queue: str, message: KueueMessage) -> str:
    """The flavor on which explanations are based: that of Kueue's message, else the one with most free GPUs."""
    names = gpu_flavors(fleet.cluster_queues.get(("", cluster_queue)))
    if message.flavor in names or not names:
        return message.flavor
    return max(names, key=lambda each: quota_ledger(fleet, each).available(cluster_queue))
