"""GPU quota of a snapshot's queues by Kueue's rules: free and missing GPUs, their holders, and sentences on both.

Usage counts reserved quota, since a reservation binds as much as an admission.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from itertools import combinations
from typing import TYPE_CHECKING

from msgspec.structs import replace

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
from console.scheduling.why import Category, QuotaAccount, QuotaHolder, Why
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


def _gpus_of(workload: Workload, flavor: str) -> int:
    """GPUs of a flavor (any if empty) that a workload holds, or requests while it holds none."""
    return sum(
        group.total(GPU)
        for group in workload.pod_sets
        if not flavor or not group.flavors or dict(group.flavors).get(GPU) == flavor
    )


def quota_holder_of(workload: Workload, fleet: Fleet, flavor: str = "") -> QuotaHolder:
    """The workload as a QuotaHolder, with its GPUs of one flavor if given."""
    jobset = fleet.jobset_by_uid.get(workload.owner_uid)
    return QuotaHolder(
        namespace=workload.namespace,
        name=job_name(workload),
        owner=jobset.owner if jobset else "",
        queue=workload.queue,
        cluster_queue=cluster_queue_name(workload, fleet),
        gpus=_gpus_of(workload, flavor),
        priority=workload.priority,
    )


def quota_holders(fleet: Fleet, cluster_queue: str, flavor: str) -> tuple[QuotaHolder, ...]:
    """Jobs that hold GPU quota which the queue could use, in its own or its cohort's queues, most first."""
    book = quota_ledger(fleet, flavor)
    found = [
        quota_holder_of(workload, fleet, flavor)
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


def explain_quota(workload: Workload, fleet: Fleet, message: KueueMessage, why: Why) -> Why:
    """The reason why a workload waits if quota is short or can never suffice; `why` has its flavor and account."""
    have = why.account
    if message.resource not in {"", GPU} or have is None or not why.need:
        words = _other_resource_reason(message)
        return replace(why, sentence=words, category=message.category or Category.QUOTA, short_by=message.more_gpus)
    gpus = f"{why.need} GPU{'' if why.need == 1 else 's'}{f' of flavor {why.flavor}' if why.flavor else ''}"
    if why.need > have.total:
        words = f"needs {gpus}, but its queue can have at most {have.limit_text}"
        return replace(why, sentence=words, category=Category.EXCEEDS, short_by=why.need - have.total)
    short = why.need - have.free  # Kueue's message on it may be of some time ago
    queue, book = cluster_queue_name(workload, fleet), quota_ledger(fleet, why.flavor)
    held = quota_holders(fleet, queue, why.flavor)
    answer = replace(why, category=Category.QUOTA, holders=held)
    if short <= 0:
        words = f"needs {gpus}; {have.sum_text}, but Kueue has not assigned them"
        return replace(answer, sentence=words)
    before = queue_order(fleet, queue).pending[: max(0, why.position - 1)]
    words, unblocks = quota_shortage(book, queue, why.need, held, [_gpus_of(each, why.flavor) for each in before])
    return replace(answer, sentence=words, short_by=short, unblocks=unblocks)


def quota_shortage(
    ledger: QuotaLedger,
    queue: str,
    need: int,
    holders: Sequence[QuotaHolder],
    gpus_ahead: Sequence[int],
    evicted: Sequence[QuotaHolder] = (),
) -> tuple[str, tuple[QuotaHolder, ...]]:
    """The quota that a waiting job or launch lacks, and the smallest set of jobs whose end would free it.

    `gpus_ahead`: GPUs of the workloads tried before it; `evicted`: the jobs that Kueue may evict for it.
    """
    have = ledger.account(queue)
    words = f"needs {need} GPU{'' if need == 1 else 's'} of flavor {ledger.flavor.name}; {have.sum_text}, "
    words += f"{need - have.free} more needed"
    if have.lent:
        others = (name for name in ledger.snapshot.queues if name != queue and ledger.shares(name, queue))
        borrowers = sorted(name for name in others if ledger.account(name).borrowed)
        words += f"; what is lent has {' and '.join(borrowers) or 'others'}"
    if evicted:
        return f"{words}; Kueue may evict {named_holders(evicted)} for it", ()
    return words, ledger.fewest_to_end(queue, holders, need, gpus_ahead)


_MAX_NAMED_JOBS = 3  # jobs that are named in a sentence; the rest is counted


def named_holders(holders: Sequence[QuotaHolder]) -> str:
    named = [f"{each.name} ({each.gpus})" if each.gpus else each.name for each in holders[:_MAX_NAMED_JOBS]]
    return ", ".join(named) + (f" and {len(holders) - _MAX_NAMED_JOBS} more" if len(holders) > _MAX_NAMED_JOBS else "")


def _other_resource_reason(kueue: KueueMessage) -> str:
    """Kueue's reason in words if it concerns no GPUs, or if the queue may not be listed; never empty."""
    flavor, resource = f" of flavor {kueue.flavor}" if kueue.flavor else "", kueue.resource or "quota"
    if kueue.category is Category.EXCEEDS:
        return f"needs more {resource}{flavor} than the maximum of its queue"
    if kueue.more_gpus:
        return f"needs {kueue.more_gpus} more GPUs{flavor} than are unused"
    return f"needs {f'{kueue.more} more {kueue.resource}' if kueue.more else f'more {resource}'}{flavor} than is unused"
