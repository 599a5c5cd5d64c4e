"""How many GPUs a ClusterQueue could hand out: its own, what it may borrow, and what others have of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from console.models.queue import GPU, ClusterQueue, Quota

if TYPE_CHECKING:
    from collections.abc import Iterable

    from console.models.fleet import Fleet


@dataclass(frozen=True, slots=True)
class Capacity:
    """One resource of a ClusterQueue in one flavor (or over all of them), in units of the resource."""

    nominal: int
    used: int
    """Reserved by its own workloads, what they borrowed included."""
    borrowed: int
    lent: int
    """Of its own quota, in use by others of the cohort."""
    free: int
    """What a new workload could have now without evicting anybody: own and borrowable."""
    maximum: int
    """What its workloads could ever have at once: own quota and all that may be borrowed."""


def capacity(queue: ClusterQueue, fleet: Fleet, *, flavor: str = "", resource: str = GPU) -> Capacity:
    """The capacity of a ClusterQueue in one flavor, or over all its flavors."""
    flavors = {flavor} if flavor else {quota.flavor for quota in queue.quotas if quota.resource == resource}
    parts = [_one(queue, fleet, each, resource) for each in sorted(flavors)]
    return Capacity(
        nominal=sum(part.nominal for part in parts),
        used=sum(part.used for part in parts),
        borrowed=sum(part.borrowed for part in parts),
        lent=sum(part.lent for part in parts),
        free=sum(part.free for part in parts),
        maximum=sum(part.maximum for part in parts),
    )


def cohort_members(queue: ClusterQueue, fleet: Fleet) -> list[ClusterQueue]:
    """The other ClusterQueues of its cohort; cohorts nested in cohorts are not followed."""
    if not queue.cohort:
        return []
    return [
        other for other in fleet.cluster_queues.values() if other.cohort == queue.cohort and other.name != queue.name
    ]


def _one(queue: ClusterQueue, fleet: Fleet, flavor: str, resource: str) -> Capacity:
    own = _quota(queue.quotas, flavor, resource)
    used = _used(queue, flavor, resource)
    others = [
        (_quota(other.quotas, flavor, resource), _used(other, flavor, resource))
        for other in cohort_members(queue, fleet)
    ]
    shared = _shared_quota(queue, fleet, flavor, resource)
    lendable = shared + sum(_lends(quota) for quota, _ in others)
    borrowed = max(0, used - own.nominal)
    borrowed_by_others = sum(max(0, taken - quota.nominal) for quota, taken in others)
    lent = min(borrowed_by_others, _lends(own), max(0, own.nominal - used))
    in_reach = own.nominal - used - borrowed_by_others + shared
    in_reach += sum(min(_lends(quota), max(0, quota.nominal - taken)) for quota, taken in others)
    limit = own.nominal + (lendable if own.borrowing_limit is None else min(own.borrowing_limit, lendable))
    return Capacity(own.nominal, used, borrowed, lent, max(0, min(in_reach, limit - used)), limit)


def _quota(quotas: Iterable[Quota], flavor: str, resource: str) -> Quota:
    return next(
        (each for each in quotas if each.flavor == flavor and each.resource == resource), Quota(flavor, resource)
    )


def _used(queue: ClusterQueue, flavor: str, resource: str) -> int:
    return sum(each.total for each in queue.reserved if each.flavor == flavor and each.resource == resource)


def _lends(quota: Quota) -> int:
    return quota.nominal if quota.lending_limit is None else min(quota.nominal, quota.lending_limit)


def _shared_quota(queue: ClusterQueue, fleet: Fleet, flavor: str, resource: str) -> int:
    cohort = fleet.cohorts.get(("", queue.cohort))
    return _quota(cohort.quotas, flavor, resource).nominal if cohort else 0
