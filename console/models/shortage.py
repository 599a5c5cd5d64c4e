"""Too little quota: how much is missing, who has it, and whose end would be enough."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING

from console.models.explanation import Category, Held, Why
from console.models.order import cluster_queue_name, queue_order
from console.models.queue import GPU
from console.models.quota import ledger

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from console.models.fleet import Fleet
    from console.models.kueue_words import Said
    from console.models.quota import Account
    from console.models.workload import Workload

_PAIRED = 10
"""Only the largest jobs are tried in twos and threes; more would cost more than the answer is worth."""


def job_name(workload: Workload) -> str:
    """What a person calls it: the JobSet or Job it stands for."""
    return workload.owner_name or workload.name


def held_by(workload: Workload, fleet: Fleet, flavor: str = "") -> Held:
    """The GPUs a workload holds (or asks for), those of one flavor if it is named."""
    jobset = fleet.jobset_by_uid.get(workload.owner_uid)
    gpus = sum(
        group.total(GPU)
        for group in workload.pod_sets
        if not flavor or not group.flavors or dict(group.flavors).get(GPU, flavor) == flavor
    )
    return Held(
        namespace=workload.namespace,
        name=job_name(workload),
        owner=jobset.owner if jobset else "",
        queue=workload.queue,
        cluster_queue=cluster_queue_name(workload, fleet),
        gpus=gpus,
        priority=workload.priority,
    )


def holders(fleet: Fleet, cluster_queue: str, flavor: str) -> tuple[Held, ...]:
    """Jobs that hold GPU quota which that queue could use, in its own and in its cohort's queues, most first."""
    book = ledger(fleet, flavor)
    root = book.root(cluster_queue)
    found = [
        held_by(workload, fleet, flavor)
        for _, name in fleet.cluster_queues
        if book.root(name) == root
        for workload in queue_order(fleet, name).running
    ]
    return tuple(sorted((each for each in found if each.gpus), key=lambda each: (-each.gpus, each.name)))


def fewest(
    candidates: Sequence[Held], enough: Callable[[Sequence[Held]], bool], weight: Callable[[Held], int] | None = None
) -> tuple[Held, ...]:
    """The fewest of them that are enough together, and of those the ones that hold least; empty if all are not,
    or if nobody has to end.

    `weight` is what the end of one frees where it matters, by default all that it holds.
    """
    weigh = weight or (lambda each: each.gpus)
    by_size = sorted(candidates, key=weigh)
    if enough(()) or not enough(by_size):
        return ()
    for number in (1, 2, 3):
        if not enough(by_size[-number:]):
            continue
        tried = by_size if number == 1 else by_size[-_PAIRED:]
        sets = sorted(combinations(tried, number), key=lambda chosen: sum(map(weigh, chosen)))
        return tuple(reversed(next(chosen for chosen in sets if enough(chosen))))
    chosen = list(reversed(by_size))
    for each in by_size:
        without = [other for other in chosen if other is not each]
        if enough(without):
            chosen = without
    return tuple(chosen)


def best_flavor(fleet: Fleet, cluster_queue: str, said: Said) -> str:
    """The flavor to reckon with: the one Kueue speaks of, else the one with most GPUs free."""
    queue = fleet.cluster_queues.get(("", cluster_queue))
    names = [quota.flavor for quota in queue.quotas if quota.resource == GPU] if queue else []
    if said.flavor in names or not names:
        return said.flavor
    return max(names, key=lambda each: ledger(fleet, each).available(cluster_queue))


def explain_quota(workload: Workload, fleet: Fleet, said: Said, draft: Why) -> Why:
    """Quota is short, or can never be enough; `draft` says which flavor and holds the account."""
    have = draft.account
    if said.resource not in {"", GPU} or have is None or not draft.need:
        words = _unreckoned(said)
        return replace(draft, sentence=words, category=said.category or Category.QUOTA, short_by=said.more_gpus)
    if draft.need > have.total:
        return replace(draft, sentence=_never(draft, have), category=Category.EXCEEDS, short_by=draft.need - have.total)
    short = draft.need - have.free  # what Kueue said of it may be of some time ago
    queue = cluster_queue_name(workload, fleet)
    held = holders(fleet, queue, draft.flavor)
    answer = replace(draft, category=Category.QUOTA, short_by=short, holders=held)
    if short <= 0:
        words = f"needs {_gpus(draft)}; {have.words}, but Kueue has not taken them"
        return replace(answer, sentence=words, short_by=0)
    answer = replace(answer, unblocks=_unblocking(fleet, queue, answer, held))
    return replace(answer, sentence=_short(answer, have, fleet, queue))


def _unblocking(fleet: Fleet, queue: str, answer: Why, held: tuple[Held, ...]) -> tuple[Held, ...]:
    book = ledger(fleet, answer.flavor)
    now = book.available(queue)

    def enough(chosen: Sequence[Held]) -> bool:
        freed: Counter[str] = Counter()
        for each in chosen:
            freed[each.cluster_queue] += each.gpus
        return book.available(queue, freed) - now >= answer.short_by

    return fewest(held, enough)


def _gpus(why: Why) -> str:
    return f"{why.need} GPU{'' if why.need == 1 else 's'}{f' of {why.flavor}' if why.flavor else ''}"


def _short(why: Why, have: Account, fleet: Fleet, queue: str) -> str:
    parts = [f"needs {_gpus(why)}; {have.words}, {why.short_by} more needed"]
    if have.lent:
        parts.append(f"; what is lent has {_borrowers(fleet, queue, why)}")
    if why.holders:
        biggest = why.holders[0]
        parts.append(f"; biggest holder: {biggest.name} ({biggest.gpus})")
    return "".join(parts)


def _borrowers(fleet: Fleet, queue: str, why: Why) -> str:
    book = ledger(fleet, why.flavor)
    root = book.root(queue)
    names = [name for _, name in fleet.cluster_queues if name != queue and book.root(name) == root]
    return " and ".join(sorted(name for name in names if book.account(name).borrowed)) or "others"


def _never(why: Why, have: Account) -> str:
    borrow = have.total - have.nominal
    own = f" ({have.nominal} of its own, {borrow} by borrowing)" if borrow > 0 else ""
    return f"needs {_gpus(why)}, but its queue can never have more than {have.total}{own}"


def _unreckoned(said: Said) -> str:
    """What Kueue says of a resource that is not counted here, or of a queue that may not be seen."""
    flavor = f" of {said.flavor}" if said.flavor else ""
    if said.category is Category.EXCEEDS:
        return f"needs more {said.resource or 'quota'}{flavor} than its queue can ever have"
    if said.more_gpus:
        return f"needs {said.more_gpus} more GPUs{flavor} than are unused"
    return (
        f"needs {said.more} more {said.resource}{flavor} than is unused"
        if said.more
        else f"needs more {said.resource or 'quota'}{flavor} than is unused"
    )
