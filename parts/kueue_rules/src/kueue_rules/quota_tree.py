"""The quota tree of ClusterQueues and cohorts: what each node may use, borrow and lend, and its usage.

A queue keeps the quota above its lending limit for itself; the rest is lent to its cohort, where others use free quota
up to their borrowing limits. Cohorts may have parent cohorts and quota of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from math import ceil

from msgspec import Struct, field, field as msgspec_field

FlavorResource = tuple[str, str]  # names of a flavor and of a resource
Quantities = dict[FlavorResource, int]


class FlavorQuota(Struct, frozen=True):
    """The quota of a queue or cohort for one resource in one flavor."""

    nominal: int
    borrowing: int | None = None  # how much more than that it may use; None: no limit
    lending: int | None = None  # how much of what it does not use others may have; None: all


class FairShare(Struct, frozen=True):
    """A node's dominant resource share: what it borrows relative to what its cohort could lend."""

    order: tuple[bool, float]  # whether it is infinite, then a thousandth of what could be lent, by weight
    borrowed: frozenset[FlavorResource] = frozenset()

    @property
    def rounded(self) -> int:
        """The fair share, rounded as in the status of a ClusterQueue."""
        infinite, share = self.order
        return 2**63 - 1 if infinite else ceil(share)


class QuotaNode(Struct, eq=False):
    """A ClusterQueue or a cohort in the quota tree."""

    name: str
    parent: QuotaNode | None = None
    weight: float = 1.0  # in fair sharing; 0: it borrows only what nobody else wants
    quotas: Mapping[FlavorResource, FlavorQuota] = field(default_factory=dict)
    children: list[QuotaNode] = field(default_factory=list)
    subtree: Quantities = field(default_factory=dict)  # quota of the node and what its children lend to it
    used: Quantities = field(default_factory=dict)

    def nominal(self, pair: FlavorResource) -> int:
        quota = self.quotas.get(pair)
        return quota.nominal if quota is not None else 0

    def borrowing_limit(self, pair: FlavorResource) -> int | None:
        quota = self.quotas.get(pair)
        return quota.borrowing if quota is not None else None

    def local(self, pair: FlavorResource) -> int:
        """The amount that is never lent to the parent."""
        quota = self.quotas.get(pair)
        return max(0, self.subtree.get(pair, 0) - quota.lending) if quota and quota.lending is not None else 0

    def local_free(self, pair: FlavorResource) -> int:
        return max(0, self.local(pair) - self.used.get(pair, 0))

    def available(self, pair: FlavorResource) -> int:
        """The amount that can still be used now, own and borrowed; negative if usage exceeds the quota."""
        if self.parent is None:
            return self.subtree.get(pair, 0) - self.used.get(pair, 0)
        above, limit = self.parent.available(pair), self.borrowing_limit(pair)
        if limit is not None:
            stored = self.subtree.get(pair, 0) - self.local(pair)
            taken = max(0, self.used.get(pair, 0) - self.local(pair))
            above = min(stored - taken + limit, above)
        return self.local_free(pair) + above

    def potential_available(self, pair: FlavorResource) -> int:
        """The amount that could be used if nothing were in use."""
        if self.parent is None:
            return self.subtree.get(pair, 0)
        total, limit = self.local(pair) + self.parent.potential_available(pair), self.borrowing_limit(pair)
        return total if limit is None else min(self.subtree.get(pair, 0) + limit, total)

    def add_usage(self, pair: FlavorResource, value: int) -> None:
        """Add usage; what exceeds the local part counts in the parent."""
        free = self.local_free(pair)
        self.used[pair] = self.used.get(pair, 0) + value
        if self.parent is not None and value > free:
            self.parent.add_usage(pair, value - free)

    def remove_usage(self, pair: FlavorResource, value: int) -> None:
        above = self.used.get(pair, 0) - self.local(pair)
        self.used[pair] = self.used.get(pair, 0) - value
        if above > 0 and self.parent is not None:
            self.parent.remove_usage(pair, min(value, above))

    @contextmanager
    def with_usage(self, usage: Mapping[FlavorResource, int]) -> Iterator[None]:
        """Apply additional (or negative) usage during this block."""
        self._add_usage(usage, 1)
        try:
            yield
        finally:
            self._add_usage(usage, -1)

    def _add_usage(self, usage: Mapping[FlavorResource, int], sign: int) -> None:
        for at, value in usage.items():
            self.add_usage(at, max(0, sign * value))
            self.remove_usage(at, max(0, -sign * value))

    def borrows_with(self, pair: FlavorResource, value: int) -> bool:
        """Whether using that much more would exceed the quota of this subtree."""
        return self.used.get(pair, 0) + value > self.subtree.get(pair, 0)

    def within_nominal(self, flavor_resources: Iterable[FlavorResource]) -> bool:
        """Whether nothing of these resources is borrowed."""
        return all(self.used.get(at, 0) <= self.subtree.get(at, 0) for at in flavor_resources)

    def has_room(self, usage: Quantities) -> bool:
        """Whether this additional usage fits into the subtree's quota without borrowing."""
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
        """The path from the root: "/cohort/queue"."""
        return "".join(f"/{node.name}" for node in reversed([self, *self.ancestors()]))

    def borrowing_height(self, pair: FlavorResource, value: int) -> tuple[int, bool]:
        """(levels up that the amount must be borrowed from, 0 for none; whether quota may be reclaimed)."""
        if self.parent is None or not self.borrows_with(pair, value):
            return 0, self.parent is not None
        left = value - self.local_free(pair)
        top = self.parent
        for node in self.ancestors():
            top = node
            if not node.borrows_with(pair, left):
                return node.height(), node.parent is not None
            left -= node.local_free(pair)
        return top.height(), False


class CohortQuota(Struct, frozen=True):
    """A Cohort object; a cohort that only queues name has no object and no quota of its own."""

    name: str
    parent: str = ""
    quotas: Mapping[FlavorResource, FlavorQuota] = msgspec_field(default_factory=dict)
    weight: float = 1.0


def build_cohort_trees(cohorts: Iterable[CohortQuota], queues: Iterable[tuple[QuotaNode, str]]) -> None:
    """Link queues and cohorts to trees and sum up the lendable quota."""
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
