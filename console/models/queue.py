"""Kueue's queues and what they hand out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from console.models.condition import Condition, condition

if TYPE_CHECKING:
    from console.models.suits import Requirement, Toleration

GPU = "nvidia.com/gpu"


@dataclass(frozen=True, slots=True)
class Quota:
    """What a ClusterQueue may use of one resource in one flavor: GPUs, bytes of memory, thousandths of a CPU."""

    flavor: str
    resource: str
    nominal: int = 0
    borrowing_limit: int | None = None
    """None: may borrow all that the cohort has."""
    lending_limit: int | None = None
    """None: lends all that it does not use."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What is in use of one resource in one flavor."""

    flavor: str
    resource: str
    total: int = 0
    borrowed: int = 0


@dataclass(frozen=True, slots=True)
class Preemption:
    """When a ClusterQueue may evict others' workloads for its own."""

    within_queue: str = "Never"
    reclaim_within_cohort: str = "Never"
    borrow_within_cohort: str = "Never"


@dataclass(frozen=True, slots=True)
class ClusterQueue:
    """A pool of quota that LocalQueues draw on."""

    name: str
    uid: str = ""
    created: float = 0.0
    cohort: str = ""
    strategy: str = "BestEffortFIFO"
    stop_policy: str = "None"
    preemption: Preemption = Preemption()
    quotas: tuple[Quota, ...] = ()
    reserved: tuple[Usage, ...] = ()
    """Quota held by workloads with a reservation (flavorsReservation)."""
    used: tuple[Usage, ...] = ()
    """Quota held by admitted workloads (flavorsUsage)."""
    pending: int = 0
    reserving: int = 0
    admitted: int = 0
    checks: tuple[str, ...] = ()
    """AdmissionChecks every workload has to pass."""
    namespaces: tuple[Requirement, ...] | None = ()
    """Labels of the namespaces whose workloads it takes; empty: of all; None: of none."""
    conditions: tuple[Condition, ...] = ()

    @property
    def inactive_reason(self) -> str:
        """Why it admits nothing, in the controller's words; empty while it is active."""
        active = condition(self.conditions, "Active")
        return "" if active is None or active.is_true else (active.message or active.reason or "not active")

    def nominal(self, resource: str = GPU) -> int:
        """Quota of its own, over all flavors."""
        return sum(quota.nominal for quota in self.quotas if quota.resource == resource)

    def in_use(self, resource: str = GPU) -> int:
        """Reserved or used, over all flavors; may exceed `nominal` by what is borrowed."""
        return sum(usage.total for usage in self.reserved if usage.resource == resource)

    def borrowed(self, resource: str = GPU) -> int:
        """What it uses beyond its own quota."""
        return sum(usage.borrowed for usage in self.reserved if usage.resource == resource)


@dataclass(frozen=True, slots=True)
class LocalQueue:
    """A namespace's door to a ClusterQueue."""

    namespace: str
    name: str
    uid: str = ""
    created: float = 0.0
    cluster_queue: str = ""
    stop_policy: str = "None"
    reserved: tuple[Usage, ...] = ()
    used: tuple[Usage, ...] = ()
    pending: int = 0
    reserving: int = 0
    admitted: int = 0
    conditions: tuple[Condition, ...] = ()

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name."""
        return self.namespace, self.name

    @property
    def inactive_reason(self) -> str:
        """Why it admits nothing, in the controller's words; empty while it is active."""
        active = condition(self.conditions, "Active")
        return "" if active is None or active.is_true else (active.message or active.reason or "not active")

    def in_use(self, resource: str = GPU) -> int:
        """Reserved by its workloads, over all flavors."""
        return sum(usage.total for usage in self.reserved if usage.resource == resource)


@dataclass(frozen=True, slots=True)
class ResourceFlavor:
    """A kind of machine that quota is given for."""

    name: str
    uid: str = ""
    created: float = 0.0
    node_labels: tuple[tuple[str, str], ...] = ()
    topology: str = ""
    taints: tuple[str, ...] = ()
    """key=value:effect, or key:effect: pods that do not put up with them do not get this flavor."""
    tolerations: tuple[Toleration, ...] = ()
    """What pods put up with once they have this flavor."""


@dataclass(frozen=True, slots=True)
class Topology:
    """The levels of the network that placement may ask for, widest first (node labels)."""

    name: str
    uid: str = ""
    created: float = 0.0
    levels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Cohort:
    """ClusterQueues that lend to each other; quota may also sit on the cohort itself."""

    name: str
    uid: str = ""
    created: float = 0.0
    parent: str = ""
    quotas: tuple[Quota, ...] = ()


@dataclass(frozen=True, slots=True)
class AdmissionCheck:
    """A second condition for admission, such as a provisioning request."""

    name: str
    uid: str = ""
    created: float = 0.0
    controller: str = ""
    conditions: tuple[Condition, ...] = ()
