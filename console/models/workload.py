"""A Kueue Workload: one job's claim on quota, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from console.models.condition import Condition, condition, holds


class WorkloadState(StrEnum):
    """Where a Workload is between submission and end."""

    PENDING = "pending"
    RESERVED = "reserved"
    """Has quota, still waits for its admission checks."""
    ADMITTED = "admitted"
    EVICTED = "evicted"
    """Lost its quota and waits to be queued again."""
    DEACTIVATED = "deactivated"
    FINISHED = "finished"


@dataclass(frozen=True, slots=True)
class TopologyDomain:
    """A place that a topology assignment names: values of the assignment's levels, and how many pods go there."""

    values: tuple[str, ...]
    count: int


@dataclass(frozen=True, slots=True)
class PodSet:
    """A group of equal pods, and what admission gave it."""

    name: str
    count: int = 1
    requests: tuple[tuple[str, int], ...] = ()
    """Resource -> amount per pod."""
    required_topology: str = ""
    """Node label whose single value all pods must share."""
    preferred_topology: str = ""
    unconstrained_topology: bool = False
    flavors: tuple[tuple[str, str], ...] = ()
    """Resource -> flavor, once quota is reserved."""
    topology_levels: tuple[str, ...] = ()
    domains: tuple[TopologyDomain, ...] = ()

    def total(self, resource: str) -> int:
        """Amount of that resource over all pods of the group."""
        return self.count * dict(self.requests).get(resource, 0)


@dataclass(frozen=True, slots=True)
class CheckState:
    """How one AdmissionCheck of a Workload stands: Pending, Ready, Retry or Rejected."""

    name: str
    state: str
    message: str = ""
    since: float = 0.0


@dataclass(frozen=True, slots=True)
class Workload:
    """One Workload with its claim and its state."""

    namespace: str
    name: str
    uid: str = ""
    created: float = 0.0
    queue: str = ""
    cluster_queue: str = ""
    """Set once quota is reserved; a pending Workload's comes from its LocalQueue."""
    priority: int = 0
    priority_class: str = ""
    active: bool = True
    owner_kind: str = ""
    owner_name: str = ""
    owner_uid: str = ""
    pod_sets: tuple[PodSet, ...] = ()
    conditions: tuple[Condition, ...] = ()
    checks: tuple[CheckState, ...] = ()
    requeue_at: float = 0.0
    requeue_count: int = 0
    evictions: tuple[tuple[str, int], ...] = ()
    """Reason -> how often."""

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name."""
        return self.namespace, self.name

    def total(self, resource: str) -> int:
        """Amount of that resource over all its pods."""
        return sum(group.total(resource) for group in self.pod_sets)

    @property
    def state(self) -> WorkloadState:
        """Where it is; conditions are read by type and status, so unknown reasons still count."""
        if holds(self.conditions, "Finished"):
            return WorkloadState.FINISHED
        if not self.active:
            return WorkloadState.DEACTIVATED
        if holds(self.conditions, "Admitted"):
            return WorkloadState.ADMITTED
        if holds(self.conditions, "QuotaReserved"):
            return WorkloadState.RESERVED
        if holds(self.conditions, "Evicted"):
            return WorkloadState.EVICTED
        return WorkloadState.PENDING

    @property
    def waits(self) -> bool:
        """Whether it stands in a queue."""
        return self.state in {WorkloadState.PENDING, WorkloadState.EVICTED}

    @property
    def queued_since(self) -> float:
        """When its present wait began: the last eviction or requeue, else its creation."""
        requeued = condition(self.conditions, "Requeued")
        evicted = condition(self.conditions, "Evicted")
        return max(self.created, *(each.since for each in (requeued, evicted) if each and each.is_true), 0.0)
