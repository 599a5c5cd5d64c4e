"""Quota at one moment: ClusterQueues in their cohorts, what each may use, borrow and lend, and what is used."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from practice.controllers.kueue.info import has_quota, read_workload
from practice.controllers.objects import is_true
from practice.controllers.quantity import milli
from practice.objects.resources import CLUSTERQUEUES, COHORTS, RESOURCEFLAVORS, WORKLOADS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from practice.controllers.kueue.info import FlavorResource, Quantities, WorkloadInfo
    from practice.controllers.kueue.topology import TopologySnapshot
    from practice.controllers.objects import Key, Object
    from practice.objects.storage import Storage


@dataclass(frozen=True, slots=True)
class Quota:
    """What a queue has of one flavor and resource, in milli-units; None is no limit."""

    nominal: int
    borrowing: int | None = None
    lending: int | None = None


@dataclass(eq=False)
class QuotaNode:
    """A ClusterQueue or a cohort in the quota tree."""

    name: str
    parent: QuotaNode | None = None
    quotas: dict[FlavorResource, Quota] = field(default_factory=dict)
    children: list[QuotaNode] = field(default_factory=list)
    subtree: Quantities = field(default_factory=dict)  # quota of the node and what its children lend to it
    used: Quantities = field(default_factory=dict)

    def local(self, at: FlavorResource) -> int:
        """Return what is never lent to the parent."""
        quota = self.quotas.get(at)
        if quota is None or quota.lending is None:
            return 0
        return max(0, self.subtree.get(at, 0) - quota.lending)

    def local_free(self, at: FlavorResource) -> int:
        """Return what is left of that."""
        return max(0, self.local(at) - self.used.get(at, 0))

    def available(self, at: FlavorResource) -> int:
        """Return how much more may be used now, own and borrowed; negative when over-used."""
        if self.parent is None:
            return self.subtree.get(at, 0) - self.used.get(at, 0)
        above = self.parent.available(at)
        quota = self.quotas.get(at)
        if quota is not None and quota.borrowing is not None:
            stored = self.subtree.get(at, 0) - self.local(at)
            taken = max(0, self.used.get(at, 0) - self.local(at))
            above = min(stored - taken + quota.borrowing, above)
        return self.local_free(at) + above

    def most(self, at: FlavorResource) -> int:
        """Return how much could be used if nothing else were."""
        if self.parent is None:
            return self.subtree.get(at, 0)
        total = self.local(at) + self.parent.most(at)
        quota = self.quotas.get(at)
        if quota is not None and quota.borrowing is not None:
            total = min(self.subtree.get(at, 0) + quota.borrowing, total)
        return total

    def add(self, at: FlavorResource, value: int) -> None:
        """Use more; what exceeds the own part counts in the parent."""
        free = self.local_free(at)
        self.used[at] = self.used.get(at, 0) + value
        if self.parent is not None and value > free:
            self.parent.add(at, value - free)

    def take(self, at: FlavorResource, value: int) -> None:
        above = self.used.get(at, 0) - self.local(at)
        self.used[at] = self.used.get(at, 0) - value
        if above > 0 and self.parent is not None:
            self.parent.take(at, min(value, above))

    def borrows_with(self, at: FlavorResource, value: int) -> bool:
        """Whether using ``value`` more would exceed the quota of this subtree."""
        return self.used.get(at, 0) + value > self.subtree.get(at, 0)

    def within_nominal(self, what: Iterable[FlavorResource]) -> bool:
        """Whether nothing of this is borrowed."""
        return all(self.used.get(at, 0) <= self.subtree.get(at, 0) for at in what)

    def above(self) -> Iterator[QuotaNode]:
        node = self.parent
        while node is not None:
            yield node
            node = node.parent

    def height(self) -> int:
        return max((child.height() + 1 for child in self.children), default=0)

    def path(self) -> str:
        """Return the way from the root: ``/cohort/queue``."""
        return "".join(f"/{node.name}" for node in reversed([self, *self.above()]))


@dataclass(eq=False)
class QueueNode(QuotaNode):
    """A ClusterQueue: its wish, and the Workloads that hold its quota."""

    obj: Object = field(default_factory=dict)
    workloads: dict[Key, WorkloadInfo] = field(default_factory=dict)

    @property
    def active(self) -> bool:
        return is_true(self.obj, "Active")

    @property
    def groups(self) -> list[Object]:
        """The resource groups, each with its resources and flavors in order."""
        found: list[Object] = self.obj["spec"].get("resourceGroups") or []
        return found

    def policy(self, name: str) -> str:
        """Return a preemption policy: Never, LowerPriority, LowerOrNewerEqualPriority or Any."""
        return str((self.obj["spec"].get("preemption") or {}).get(name, "Never"))

    def hold(self, workload: WorkloadInfo) -> None:
        self.workloads[workload.key] = workload
        for at, value in workload.usage().items():
            self.add(at, value)

    def release(self, workload: WorkloadInfo) -> None:
        self.workloads.pop(workload.key, None)
        for at, value in workload.usage().items():
            self.take(at, value)


class Snapshot:
    """Everything admission decides on, at one moment; what is tried on it is taken back."""

    def __init__(self, storage: Storage, topology: TopologySnapshot | None) -> None:
        self.topology = topology
        self.flavors = {item["metadata"]["name"]: item for item in storage.list(RESOURCEFLAVORS)}
        self.queues: dict[str, QueueNode] = {}
        self._cohorts: dict[str, QuotaNode] = {}
        for obj in storage.list(COHORTS):
            self._cohort(obj["metadata"]["name"]).quotas = _quotas(obj)
        for obj in storage.list(COHORTS):
            if obj["spec"].get("parentName"):
                self._hang(self._cohort(obj["metadata"]["name"]), obj["spec"]["parentName"])
        for obj in storage.list(CLUSTERQUEUES):
            queue = QueueNode(obj["metadata"]["name"], quotas=_quotas(obj), obj=obj)
            if obj["spec"].get("cohortName"):
                self._hang(queue, obj["spec"]["cohortName"])
            self.queues[queue.name] = queue
        for node in (*self._cohorts.values(), *self.queues.values()):
            if node.parent is None:
                _sum_up(node)
        for obj in storage.list(WORKLOADS):
            if has_quota(obj) and not is_true(obj, "Finished"):
                self.hold(read_workload(obj))

    def hold(self, workload: WorkloadInfo) -> None:
        """Count a Workload in, quota and topology."""
        if workload.cluster_queue in self.queues:
            self.queues[workload.cluster_queue].hold(workload)
        if self.topology is not None:
            self.topology.count(workload, 1)

    def release(self, workload: WorkloadInfo) -> None:
        if workload.cluster_queue in self.queues:
            self.queues[workload.cluster_queue].release(workload)
        if self.topology is not None:
            self.topology.count(workload, -1)

    @contextmanager
    def without(self, workloads: Iterable[WorkloadInfo]) -> Iterator[None]:
        """See the world as if some Workloads were gone."""
        gone = [item for item in workloads if item.key in self.queues[item.cluster_queue].workloads]
        for item in gone:
            self.release(item)
        try:
            yield
        finally:
            for item in gone:
                self.hold(item)

    def _cohort(self, name: str) -> QuotaNode:
        return self._cohorts.setdefault(name, QuotaNode(name))

    def _hang(self, node: QuotaNode, parent: str) -> None:
        node.parent = self._cohort(parent)
        node.parent.children.append(node)


def _quotas(obj: Object) -> dict[FlavorResource, Quota]:
    found = {}
    for group in obj["spec"].get("resourceGroups") or ():
        for flavor in group["flavors"]:
            for item in flavor["resources"]:
                limits = [item.get("borrowingLimit"), item.get("lendingLimit")]
                borrowing, lending = (milli(str(limit)) if limit is not None else None for limit in limits)
                quota = Quota(milli(str(item["nominalQuota"])), borrowing, lending)
                found[flavor["name"], item["name"]] = quota
    return found


def _sum_up(node: QuotaNode) -> None:
    node.subtree = {at: quota.nominal for at, quota in node.quotas.items()}
    for child in node.children:
        _sum_up(child)
        for at, value in child.subtree.items():
            node.subtree[at] = node.subtree.get(at, 0) + value - child.local(at)
