"""Quota arithmetic: what a ClusterQueue may still take, by Kueue's own rules for cohorts, borrowing and lending.

A queue keeps for itself what its lending limit does not lend; the rest lies in its cohort, where everybody takes what
nobody uses, up to their borrowing limit. Cohorts may have cohorts above them and quota of their own. Usage is what is
reserved, since a reservation binds as much as an admission.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from console.models.queue import GPU, Quota

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from console.models.fleet import Fleet


@dataclass(frozen=True, slots=True)
class Account:
    """What one ClusterQueue has, uses and could get of one resource; GPUs are counted, others as in `Quota`."""

    nominal: int = 0
    """Its own quota."""
    used: int = 0
    """Reserved by its workloads, borrowed quota included."""
    free: int = 0
    """What it could take now, by borrowing too."""
    total: int = 0
    """What it could have if nobody else used anything."""
    borrowed: int = 0
    """What it uses beyond its own quota."""
    can_borrow: int = 0
    """The part of `free` that is not its own."""
    lent: int = 0
    """The part of its own quota that it does not use and cannot take, because others of the cohort have it."""

    @property
    def words(self) -> str:
        """How its free quota comes about, such as "112 own + 8 to borrow - 96 used = 24 free"; parts of 0 are left out.

        The figures add up: what it may borrow is what it has borrowed already and what it could get in addition.
        """
        borrows = self.borrowed + self.can_borrow
        parts = [f"{self.nominal:,} own", f"+ {borrows:,} to borrow" if borrows else ""]
        parts += [f"- {self.used:,} used" if self.used else "", f"- {self.lent:,} lent" if self.lent else ""]
        said = [part for part in parts if part]
        return f"{' '.join(said)} = {self.free:,} free" if len(said) > 1 or self.nominal != self.free else (
            f"{self.free:,} free"
        )  # fmt: skip

    def __add__(self, other: Account) -> Account:
        """Both together."""
        return Account(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(self)))


class Ledger:
    """One resource of one flavor over all queues and cohorts of a picture."""

    def __init__(self, fleet: Fleet, flavor: str, resource: str) -> None:
        self._parent: dict[str, str] = {}
        self._quota: dict[str, Quota] = {}
        self._used: dict[str, int] = {}
        self._children: dict[str, list[str]] = defaultdict(list)
        for cohort in fleet.cohorts.values():
            self._add(_cohort(cohort.name), _cohort(cohort.parent), cohort.quotas, flavor, resource)
        for queue in fleet.cluster_queues.values():
            self._add(queue.name, _cohort(queue.cohort), queue.quotas, flavor, resource)
            self._used[queue.name] = sum(
                usage.total for usage in queue.reserved if (usage.flavor, usage.resource) == (flavor, resource)
            )
        self._has: dict[str, int] = {}

    def _add(self, name: str, parent: str, quotas: Iterable[Quota], flavor: str, resource: str) -> None:
        mine = (each for each in quotas if (each.flavor, each.resource) == (flavor, resource))
        self._quota[name] = next(mine, Quota(flavor, resource))
        if parent:
            self._parent[name] = parent
            self._children[parent].append(name)

    def _of(self, name: str) -> Quota:
        return self._quota.get(name) or Quota("", "")

    def _above(self, name: str, seen: frozenset[str]) -> str:
        """Its cohort, unless the cohorts run in a circle: Kueue refuses those, and so admits nothing by them."""
        parent = self._parent.get(name, "")
        return "" if parent in seen else parent

    def _subtree(self, name: str, seen: frozenset[str] = frozenset()) -> int:
        """Quota of its own and what the members below put in."""
        if name in seen:
            return 0
        if name not in self._has:
            inside, members = seen | {name}, self._children.get(name, ())
            below = (self._subtree(each, inside) - self._kept(each, inside) for each in members)
            self._has[name] = self._of(name).nominal + sum(below)
        return self._has[name]

    def _kept(self, name: str, seen: frozenset[str] = frozenset()) -> int:
        """Quota that it does not lend."""
        limit = self._of(name).lending_limit
        return 0 if limit is None else max(0, self._subtree(name, seen) - limit)

    def _usage(self, name: str, freed: Mapping[str, int], seen: frozenset[str] = frozenset()) -> int:
        """Usage of a queue; of a cohort, what its members take beyond what they keep."""
        if name in seen:
            return 0
        if name not in self._children:
            return max(0, self._used.get(name, 0) - freed.get(name, 0))
        below = self._children[name]
        return sum(max(0, self._usage(each, freed, seen | {name}) - self._kept(each)) for each in below)

    def available(self, name: str, freed: Mapping[str, int] | None = None, seen: frozenset[str] = frozenset()) -> int:
        """What it could take now, or once those amounts are freed by queue; negative if more is used than there is."""
        given = freed or {}
        parent, used = self._above(name, seen), self._usage(name, given)
        if not parent:
            return self._subtree(name) - used
        kept, limit = self._kept(name), self._of(name).borrowing_limit
        from_above = self.available(parent, given, seen | {name})
        if limit is not None:
            from_above = min(from_above, self._subtree(name) - kept - max(0, used - kept) + limit)
        return max(0, kept - used) + from_above

    def potential(self, name: str, seen: frozenset[str] = frozenset()) -> int:
        """What it could take if nothing was used."""
        parent = self._above(name, seen)
        if not parent:
            return self._subtree(name)
        limit = self._of(name).borrowing_limit
        most = self._kept(name) + self.potential(parent, seen | {name})
        return most if limit is None else min(most, self._subtree(name) + limit)

    def root(self, name: str) -> str:
        """The topmost cohort it belongs to, or the queue itself."""
        seen: frozenset[str] = frozenset()
        while parent := self._above(name, seen):
            seen, name = seen | {name}, parent
        return name

    def account(self, name: str) -> Account:
        """What that queue has, uses and could get."""
        nominal, used = self._of(name).nominal, self._used.get(name, 0)
        free = max(0, self.available(name))
        own = max(0, nominal - used)
        return Account(
            nominal=nominal,
            used=used,
            free=free,
            total=max(0, self.potential(name)),
            borrowed=max(0, used - nominal),
            can_borrow=max(0, free - own),
            lent=own - min(own, free),
        )


def _cohort(name: str) -> str:
    """Cohorts and queues may share names, so cohorts get a mark that no name can hold."""
    return f"/{name}" if name else ""


_ledgers: WeakKeyDictionary[Fleet, dict[tuple[str, str], Ledger]] = WeakKeyDictionary()
"""Kept for as long as the picture lives: every pending row asks for the same few."""


def ledger(fleet: Fleet, flavor: str, resource: str = GPU) -> Ledger:
    """The ledger of that resource and flavor."""
    kept = _ledgers.setdefault(fleet, {})
    if (flavor, resource) not in kept:
        kept[flavor, resource] = Ledger(fleet, flavor, resource)
    return kept[flavor, resource]


def account(fleet: Fleet, cluster_queue: str, flavor: str, resource: str = GPU) -> Account:
    """One queue's account of one flavor."""
    return ledger(fleet, flavor, resource).account(cluster_queue)


def queue_account(fleet: Fleet, cluster_queue: str, resource: str = GPU) -> Account:
    """One queue's account over all its flavors; a pod still has to find all it needs in one of them."""
    queue = fleet.cluster_queues.get(("", cluster_queue))
    names = dict.fromkeys(quota.flavor for quota in queue.quotas if quota.resource == resource) if queue else {}
    return sum((account(fleet, cluster_queue, each, resource) for each in names), start=Account())
