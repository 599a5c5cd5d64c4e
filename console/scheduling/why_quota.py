"""Explains why a workload or launch waits for quota: what is missing, who holds it, and whose end would free it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from console.kube.objects.meta import GPU
from console.kube.objects.workload import Workload
from console.kube.snapshot import Fleet
from console.scheduling.kueue_snapshot import cluster_queue_name, queue_order
from console.scheduling.quota_ledger import QuotaLedger, gpus_of_flavor, quota_holders, quota_ledger
from console.scheduling.why import Category, QuotaHolder, Why

if TYPE_CHECKING:
    from console.scheduling.kueue_messages import KueueMessage


def explain_quota(workload: Workload, fleet: Fleet, message: KueueMessage, why: Why) -> Why:
    """The reason why a workload waits if quota is short or can never suffice; `why` has its flavor and account."""
    have = why.account
    if message.resource not in {"", GPU} or have is None or not why.need:
        words = _why_other_resource(message)
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
    words, unblocks = quota_shortage(book, queue, why.need, held, [gpus_of_flavor(each, why.flavor) for each in before])
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


def _why_other_resource(kueue: KueueMessage) -> str:
    """Kueue's reason in words if it concerns no GPUs, or if the queue may not be listed; never empty."""
    flavor, resource = f" of flavor {kueue.flavor}" if kueue.flavor else "", kueue.resource or "quota"
    if kueue.category is Category.EXCEEDS:
        return f"needs more {resource}{flavor} than the maximum of its queue"
    if kueue.more_gpus:
        return f"needs {kueue.more_gpus} more GPUs{flavor} than are unused"
    return f"needs {f'{kueue.more} more {kueue.resource}' if kueue.more else f'more {resource}'}{flavor} than is unused"
