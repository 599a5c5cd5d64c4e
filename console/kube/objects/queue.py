"""Kueue's ClusterQueues, LocalQueues and Cohorts (v1beta1 and v1beta2), with their quota and its usage."""

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from console.kube.objects.meta import (
    GPU,
    ApiSchema,
    ClusterObject,
    Condition,
    ConditionSchema,
    NamespacedObject,
    ObjectSchema,
    condition,
    conditions_of,
    identity_of,
    intern_text,
    namespaced_identity_of,
)
from console.kube.objects.node import TaintSchema, format_taint
from console.kube.objects.pod import NamedObjectSchema
from console.kube.objects.quantity import parse_amount, parse_quantity
from kueue_rules import Requirement, Toleration


def _inactive_reason(conditions: tuple[Condition, ...]) -> str:
    """The controller's reason why a queue admits nothing; empty while it is active."""
    active = condition(conditions, "Active")
    return "" if active is None or active.is_true else (active.message or active.reason or "not active")


class Quota(Struct, frozen=True):
    """A ClusterQueue's quota of one resource in one flavor: GPUs, bytes of memory, thousandths of a CPU."""

    flavor: str
    resource: str
    nominal: int = 0
    borrowing_limit: int | None = None  # None: may borrow all that the cohort has
    lending_limit: int | None = None  # None: lends all that it does not use


class Usage(Struct, frozen=True):
    flavor: str
    resource: str
    total: int = 0


class Preemption(Struct, frozen=True):
    """The conditions under which a ClusterQueue may evict others' workloads for its own."""

    within_queue: str = "Never"
    reclaim_within_cohort: str = "Never"
    borrow_within_cohort: str = "Never"
    borrow_threshold: int | None = None  # the highest priority that may go while borrowing; None: any lower one


class ClusterQueue(ClusterObject, frozen=True):
    cohort: str = ""
    strategy: str = "BestEffortFIFO"
    stop_policy: str = "None"
    preemption: Preemption = Preemption()
    next_if_preempting: bool = True  # whether the next flavor is tried where this one needs preemption
    next_if_borrowing: bool = False
    preempts_before_borrowing: bool = False
    weight: float = 1.0  # in fair sharing
    shares_fairly: bool = False  # whether Kueue writes its weighted share, as it does where fair sharing is on
    quotas: tuple[Quota, ...] = ()
    reserved: tuple[Usage, ...] = ()  # quota held by workloads with a reservation (flavorsReservation)
    pending: int = 0
    admitted: int = 0
    checks: tuple[str, ...] = ()  # AdmissionChecks every workload has to pass
    namespaces: tuple[Requirement, ...] | None = ()  # whose workloads it takes; empty: of all; None: of none
    conditions: tuple[Condition, ...] = ()

    @property
    def inactive_reason(self) -> str:
        return _inactive_reason(self.conditions)

    def nominal(self, resource: str = GPU) -> int:
        """The queue's own quota of a resource, over all flavors."""
        return sum(quota.nominal for quota in self.quotas if quota.resource == resource)

    def in_use(self, resource: str = GPU) -> int:
        """Amount of a resource reserved by its workloads, over all flavors; borrowing makes it exceed `nominal`."""
        return sum(usage.total for usage in self.reserved if usage.resource == resource)


class LocalQueue(NamespacedObject, frozen=True):
    cluster_queue: str = ""
    stop_policy: str = "None"
    reserved: tuple[Usage, ...] = ()
    pending: int = 0
    admitted: int = 0
    conditions: tuple[Condition, ...] = ()

    @property
    def inactive_reason(self) -> str:
        return _inactive_reason(self.conditions)

    def in_use(self, resource: str = GPU) -> int:
        """Amount of a resource reserved by its workloads, over all flavors."""
        return sum(usage.total for usage in self.reserved if usage.resource == resource)


class ResourceFlavor(ClusterObject, frozen=True):
    node_labels: tuple[tuple[str, str], ...] = ()
    topology: str = ""
    taints: tuple[str, ...] = ()  # key=value:effect, or key:effect: other pods do not get this flavor
    tolerations: tuple[Toleration, ...] = ()  # what pods put up with once they have this flavor


class Topology(ClusterObject, frozen=True):
    """A Kueue Topology: the node labels of its levels, widest first."""

    levels: tuple[str, ...] = ()


class Cohort(ClusterObject, frozen=True):
    """A group of ClusterQueues that lend quota to each other; it may also have quota of its own."""

    parent: str = ""
    weight: float = 1.0  # in fair sharing
    quotas: tuple[Quota, ...] = ()


Quantity = str | int | float


class ResourceSchema(ApiSchema):
    """One resource of a flavor: its quota in a spec, its usage in a status."""

    name: str | None = None
    nominal_quota: Quantity | None = None
    borrowing_limit: Quantity | None = None
    lending_limit: Quantity | None = None
    total: Quantity | None = None


class FlavorResourcesSchema(ApiSchema):
    name: str | None = None
    resources: list[ResourceSchema] | None = None


class ResourceGroupSchema(ApiSchema):
    flavors: list[FlavorResourcesSchema] | None = None


def _quota_limit(resource: str, amount: Quantity | None) -> int | None:
    return None if amount is None else parse_amount(resource, amount)


def quotas_of(groups: list[ResourceGroupSchema] | None) -> tuple[Quota, ...]:
    """The quotas of all resource groups and flavors, in the order of the spec, which is Kueue's order of trying."""
    return tuple(
        Quota(
            flavor=intern_text(flavor.name),
            resource=intern_text(each.name),
            nominal=parse_amount(each.name or "", each.nominal_quota or 0),
            borrowing_limit=_quota_limit(each.name or "", each.borrowing_limit),
            lending_limit=_quota_limit(each.name or "", each.lending_limit),
        )
        for group in groups or ()
        for flavor in group.flavors or ()
        for each in flavor.resources or ()
    )


def usages_of(flavors: list[FlavorResourcesSchema] | None) -> tuple[Usage, ...]:
    return tuple(
        Usage(
            flavor=intern_text(flavor.name),
            resource=intern_text(each.name),
            total=parse_amount(each.name or "", each.total or 0),
        )
        for flavor in flavors or ()
        for each in flavor.resources or ()
    )


class BorrowWithinCohortSchema(ApiSchema):
    policy: str | None = None
    max_priority_threshold: int | None = None


class PreemptionSchema(ApiSchema):
    within_cluster_queue: str | None = None
    reclaim_within_cohort: str | None = None
    borrow_within_cohort: BorrowWithinCohortSchema | None = None


class FungibilitySchema(ApiSchema):
    when_can_borrow: str | None = None
    when_can_preempt: str | None = None
    preference: str | None = None


class ChecksStrategySchema(ApiSchema):
    admission_checks: list[NamedObjectSchema] | None = None


class RequirementSchema(ApiSchema):
    key: str | None = None
    operator: str | None = None
    values: list[str] | None = None


class SelectorSchema(ApiSchema):
    match_labels: dict[str, str] | None = None
    match_expressions: list[RequirementSchema] | None = None


class FairSharingSchema(ApiSchema):
    weight: Quantity | None = None
    weighted_share: int | None = None


def _fair_weight(fair_sharing: FairSharingSchema | None) -> float:
    return 1.0 if fair_sharing is None or fair_sharing.weight is None else float(parse_quantity(fair_sharing.weight))


class ClusterQueueSpecSchema(ApiSchema):
    """A ClusterQueue's spec; `cohort` and `admission_checks` are v1beta1, `cohort_name` is v1beta2."""

    cohort: str | None = None
    cohort_name: str | None = None
    queueing_strategy: str | None = None
    namespace_selector: SelectorSchema | None = None
    stop_policy: str | None = None
    preemption: PreemptionSchema | None = None
    flavor_fungibility: FungibilitySchema | None = None
    fair_sharing: FairSharingSchema | None = None
    resource_groups: list[ResourceGroupSchema] | None = None
    admission_checks: list[str] | None = None
    admission_checks_strategy: ChecksStrategySchema | None = None


class QueueStatusSchema(ApiSchema):
    flavors_reservation: list[FlavorResourcesSchema] | None = None
    pending_workloads: int | None = None
    admitted_workloads: int | None = None
    fair_sharing: FairSharingSchema | None = None
    conditions: list[ConditionSchema] | None = None


class ClusterQueueSchema(ObjectSchema):
    spec: ClusterQueueSpecSchema | None = None
    status: QueueStatusSchema | None = None


def _preemption_of(preemption: PreemptionSchema | None) -> Preemption:
    preemption = preemption or PreemptionSchema()
    borrow = preemption.borrow_within_cohort or BorrowWithinCohortSchema()
    return Preemption(
        within_queue=intern_text(preemption.within_cluster_queue) or "Never",
        reclaim_within_cohort=intern_text(preemption.reclaim_within_cohort) or "Never",
        borrow_within_cohort=intern_text(borrow.policy) or "Never",
        borrow_threshold=borrow.max_priority_threshold,
    )


def _admission_checks(spec: ClusterQueueSpecSchema) -> tuple[str, ...]:
    strategy = (spec.admission_checks_strategy or ChecksStrategySchema()).admission_checks or []
    names = [*(spec.admission_checks or ()), *(each.name for each in strategy if each.name)]
    return tuple(dict.fromkeys(names))


def _namespace_requirements(selector: SelectorSchema | None) -> tuple[Requirement, ...] | None:
    if selector is None:
        return None
    labels = [Requirement(key, "In", (value,)) for key, value in sorted((selector.match_labels or {}).items())]
    expressions = [
        Requirement(each.key or "", each.operator or "In", tuple(each.values or ()))
        for each in selector.match_expressions or ()
    ]
    return (*labels, *expressions)


def parse_cluster_queue(cluster_queue: ClusterQueueSchema) -> ClusterQueue:
    meta, spec, status = (
        cluster_queue.metadata,
        cluster_queue.spec or ClusterQueueSpecSchema(),
        cluster_queue.status or QueueStatusSchema(),
    )
    turns = spec.flavor_fungibility or FungibilitySchema()
    return ClusterQueue(
        **identity_of(meta),
        cohort=intern_text(spec.cohort_name or spec.cohort),
        strategy=intern_text(spec.queueing_strategy) or "BestEffortFIFO",
        stop_policy=intern_text(spec.stop_policy) or "None",
        preemption=_preemption_of(spec.preemption),
        next_if_preempting=(turns.when_can_preempt or "TryNextFlavor") == "TryNextFlavor",
        next_if_borrowing=turns.when_can_borrow == "TryNextFlavor",
        preempts_before_borrowing=turns.preference == "PreemptionOverBorrowing",
        weight=_fair_weight(spec.fair_sharing),
        shares_fairly=status.fair_sharing is not None and status.fair_sharing.weighted_share is not None,
        quotas=quotas_of(spec.resource_groups),
        reserved=usages_of(status.flavors_reservation),
        pending=status.pending_workloads or 0,
        admitted=status.admitted_workloads or 0,
        checks=_admission_checks(spec),
        namespaces=_namespace_requirements(spec.namespace_selector),
        conditions=conditions_of(status.conditions),
    )


class LocalQueueSpecSchema(ApiSchema):
    cluster_queue: str | None = None
    stop_policy: str | None = None


class LocalQueueSchema(ObjectSchema):
    spec: LocalQueueSpecSchema | None = None
    status: QueueStatusSchema | None = None


def parse_local_queue(queue: LocalQueueSchema) -> LocalQueue:
    """Build a LocalQueue; a missing stop policy means "None"."""
    meta, spec, status = queue.metadata, queue.spec or LocalQueueSpecSchema(), queue.status or QueueStatusSchema()
    return LocalQueue(
        **namespaced_identity_of(meta),
        cluster_queue=intern_text(spec.cluster_queue),
        stop_policy=intern_text(spec.stop_policy) or "None",
        reserved=usages_of(status.flavors_reservation),
        pending=status.pending_workloads or 0,
        admitted=status.admitted_workloads or 0,
        conditions=conditions_of(status.conditions),
    )


class CohortSpecSchema(ApiSchema):
    """A Cohort's spec; `parent` is the older name of `parent_name`."""

    parent: str | None = None
    parent_name: str | None = None
    fair_sharing: FairSharingSchema | None = None
    resource_groups: list[ResourceGroupSchema] | None = None


class CohortSchema(ObjectSchema):
    spec: CohortSpecSchema | None = None


def parse_cohort(cohort: CohortSchema) -> Cohort:
    meta, spec = cohort.metadata, cohort.spec or CohortSpecSchema()
    return Cohort(
        **identity_of(meta),
        parent=intern_text(spec.parent_name or spec.parent),
        weight=_fair_weight(spec.fair_sharing),
        quotas=quotas_of(spec.resource_groups),
    )


class FlavorSpecSchema(ApiSchema):
    node_labels: dict[str, str] | None = None
    topology_name: str | None = None
    node_taints: list[TaintSchema] | None = None
    tolerations: list[Toleration] | None = None


class FlavorSchema(ObjectSchema):
    spec: FlavorSpecSchema | None = None


def parse_flavor(flavor: FlavorSchema) -> ResourceFlavor:
    meta, spec = flavor.metadata, flavor.spec or FlavorSpecSchema()
    return ResourceFlavor(
        **identity_of(meta),
        node_labels=tuple(sorted((spec.node_labels or {}).items())),
        topology=intern_text(spec.topology_name),
        taints=tuple(map(format_taint, spec.node_taints or ())),
        tolerations=tuple(spec.tolerations or ()),
    )


class TopologyLevelSchema(ApiSchema):
    node_label: str | None = None


class TopologySpecSchema(ApiSchema):
    levels: list[TopologyLevelSchema] | None = None


class TopologySchema(ObjectSchema):
    spec: TopologySpecSchema | None = None


def parse_topology(topology: TopologySchema) -> Topology:
    meta, spec = topology.metadata, topology.spec or TopologySpecSchema()
    return Topology(**identity_of(meta), levels=tuple(intern_text(each.node_label) for each in spec.levels or ()))


PARSERS: dict[str, tuple[type[Any], Callable[[Any], Any]]] = {
    "clusterqueues": (ClusterQueueSchema, parse_cluster_queue),
    "localqueues": (LocalQueueSchema, parse_local_queue),
    "resourceflavors": (FlavorSchema, parse_flavor),
    "topologies": (TopologySchema, parse_topology),
    "cohorts": (CohortSchema, parse_cohort),
}
