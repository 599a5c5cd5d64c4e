"""Quota of ClusterQueues in their cohorts: what each may use, borrow and lend, and what is used.

A queue keeps for itself what its lending limit does not lend; the rest lies in its cohort, where everybody takes what
nobody uses, up to their borrowing limit. Cohorts may have cohorts above them and quota of their own.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from math import ceil
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct
from msgspec import field as msgspec_field

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

FlavorResource = tuple[str, str]  # names of a flavor and of a resource
Quantities = dict[FlavorResource, int]


class Quota(Struct, frozen=True):
    """What a queue or cohort has of one resource in one flavor."""

    nominal: int
    borrowing: int | None = None  # how much more than that it may use; None: no limit
    lending: int | None = None  # how much of what it does not use others may have; None: all


class FairShare(NamedTuple):
    """The dominant resource share: what is borrowed against what could be lent, of the resource with most of it."""

    order: tuple[bool, float]  # whether it is infinite, then a thousandth of what could be lent, by weight
    borrowed: frozenset[FlavorResource] = frozenset()

    @property
    def rounded(self) -> int:
        """As the status of a queue shows it."""
        infinite, share = self.order
        return 2**63 - 1 if infinite else ceil(share)


@dataclass(eq=False)
class QuotaNode:
    """A ClusterQueue or a cohort in the quota tree."""

    name: str
    parent: QuotaNode | None = None
    weight: float = 1.0  # in fair sharing; 0: it borrows only what nobody else wants
    quotas: Mapping[FlavorResource, Quota] = field(default_factory=dict)
    children: list[QuotaNode] = field(default_factory=list)
    subtree: Quantities = field(default_factory=dict)  # quota of the node and what its children lend to it
    used: Quantities = field(default_factory=dict)

    def nominal(self, at: FlavorResource) -> int:
        quota = self.quotas.get(at)
        return quota.nominal if quota is not None else 0

    def borrowing_limit(self, at: FlavorResource) -> int | None:
        quota = self.quotas.get(at)
        return quota.borrowing if quota is not None else None

    def local(self, at: FlavorResource) -> int:
        """What is never lent to the parent."""
        quota = self.quotas.get(at)
        return max(0, self.subtree.get(at, 0) - quota.lending) if quota and quota.lending is not None else 0

    def local_free(self, at: FlavorResource) -> int:
        return max(0, self.local(at) - self.used.get(at, 0))

    def available(self, at: FlavorResource) -> int:
        """How much more may be used now, own and borrowed; negative when more is used than there is."""
        if self.parent is None:
            return self.subtree.get(at, 0) - self.used.get(at, 0)
        above, limit = self.parent.available(at), self.borrowing_limit(at)
        if limit is not None:
            stored = self.subtree.get(at, 0) - self.local(at)
            taken = max(0, self.used.get(at, 0) - self.local(at))
            above = min(stored - taken + limit, above)
        return self.local_free(at) + above

    def potential_available(self, at: FlavorResource) -> int:
        """How much could be used if nothing else were."""
        if self.parent is None:
            return self.subtree.get(at, 0)
        total, limit = self.local(at) + self.parent.potential_available(at), self.borrowing_limit(at)
        return total if limit is None else min(self.subtree.get(at, 0) + limit, total)

    def add_usage(self, at: FlavorResource, value: int) -> None:
        """Use more; what exceeds the own part counts in the parent."""
        free = self.local_free(at)
        self.used[at] = self.used.get(at, 0) + value
        if self.parent is not None and value > free:
            self.parent.add_usage(at, value - free)

    def remove_usage(self, at: FlavorResource, value: int) -> None:
        """Use less."""
        above = self.used.get(at, 0) - self.local(at)
        self.used[at] = self.used.get(at, 0) - value
        if above > 0 and self.parent is not None:
            self.parent.remove_usage(at, min(value, above))

    @contextmanager
    def using(self, usage: Mapping[FlavorResource, int]) -> Iterator[None]:
        """See the world as if that much more were used, or less where it is negative."""
        self._use(usage, 1)
        try:
            yield
        finally:
            self._use(usage, -1)

    def _use(self, usage: Mapping[FlavorResource, int], sign: int) -> None:
        for at, value in usage.items():
            self.add_usage(at, max(0, sign * value))
            self.remove_usage(at, max(0, -sign * value))

    def borrows_with(self, at: FlavorResource, value: int) -> bool:
        """Whether using that much more would exceed the quota of this subtree."""
        return self.used.get(at, 0) + value > self.subtree.get(at, 0)

    def within_nominal(self, what: Iterable[FlavorResource]) -> bool:
        """Whether nothing of this is borrowed."""
        return all(self.used.get(at, 0) <= self.subtree.get(at, 0) for at in what)

    def has_room(self, usage: Quantities) -> bool:
        """Whether all of that fits into the quota of this subtree."""
        return not any(self.borrows_with(at, value) for at, value in usage.items())

    def fair_share(self) -> FairShare:
        borrowed: dict[str, int] = {}
        found = frozenset(at for at, quota in self.subtree.items() if self.used.get(at, 0) > quota)
        if self.parent is None or not found:
            return FairShare((False, 0.0))
        for at in found:
            borrowed[at[1]] = borrowed.get(at[1], 0) + self.used[at] - self.subtree[at]
        lendable = dict.fromkeys(borrowed, 0)
        for at in self.root.subtree:
            if at[1] in lendable:
                lendable[at[1]] += self.parent.potential_available(at)
        ratio = max(value * 1000 / lendable[name] if lendable[name] > 0 else 0.0 for name, value in borrowed.items())
        return FairShare((not self.weight and ratio > 0, ratio / (self.weight or 1)), found)

    def ancestors(self) -> Iterator[QuotaNode]:
        node = self.parent
        while node is not None:
            yield node
            node = node.parent

    @property
    def root(self) -> QuotaNode:
        return next(reversed([self, *self.ancestors()]))

    def height(self) -> int:
        return max((child.height() + 1 for child in self.children), default=0)

    def path(self) -> str:
        """The way from the root: "/cohort/queue"."""
        return "".join(f"/{node.name}" for node in reversed([self, *self.ancestors()]))

    def borrowing_height(self, at: FlavorResource, value: int) -> tuple[int, bool]:
        """How high in the cohort tree that much has to borrow (0 not at all), and whether quota may be reclaimed."""
        if self.parent is None or not self.borrows_with(at, value):
            return 0, self.parent is not None
        left = value - self.local_free(at)
        top = self.parent
        for node in self.ancestors():
            top = node
            if not node.borrows_with(at, left):
                return node.height(), node.parent is not None
            left -= node.local_free(at)
        return top.height(), False


class Cohort(Struct, frozen=True):
    """A Cohort as it is written; one that only queues name has no object and no quota of its own."""

    name: str
    parent: str = ""
    quotas: Mapping[FlavorResource, Quota] = msgspec_field(default_factory=dict)
    weight: float = 1.0


def build_cohort_trees(cohorts: Iterable[Cohort], queues: Iterable[tuple[QuotaNode, str]]) -> None:
    """Join queues, each with the name of its cohort, to trees, and sum up what there is to lend."""
    listed, members = list(cohorts), list(queues)
    known = {each.name: QuotaNode(each.name, weight=each.weight, quotas=each.quotas) for each in listed}
    for node, name in [*((known[each.name], each.parent) for each in listed), *members]:
        if name:
            above = known.setdefault(name, QuotaNode(name))
            if (
                node is not above and node not in above.ancestors()
            ):  # Kueue admits nothing by cohorts that run in a circle
                node.parent = above
                above.children.append(node)
    for node in (*known.values(), *(queue for queue, _ in members)):
        if node.parent is None:
            _sum_up(node)


def _sum_up(node: QuotaNode) -> None:
    node.subtree = {at: quota.nominal for at, quota in node.quotas.items()}
    for child in node.children:
        _sum_up(child)
        for at, value in child.subtree.items():
            node.subtree[at] = node.subtree.get(at, 0) + value - child.local(at)
