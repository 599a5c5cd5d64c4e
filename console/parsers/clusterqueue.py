"""ClusterQueue objects, v1beta1 and v1beta2."""

from __future__ import annotations

from console.models.queue import ClusterQueue, Preemption
from console.models.suits import Requirement
from console.parsers.meta import ConditionWire, ObjectWire, Wire, conditions_of, shared
from console.parsers.podspec import NamedWire
from console.parsers.quota import FlavorUsageWire, ResourceGroupWire, quotas_of, usages_of
from console.parsers.timestamp import parse_time


class BorrowWithinCohortWire(Wire):
    """When a borrowing queue may preempt others of its cohort."""

    policy: str | None = None


class PreemptionWire(Wire):
    """The preemption policies."""

    within_cluster_queue: str | None = None
    reclaim_within_cohort: str | None = None
    borrow_within_cohort: BorrowWithinCohortWire | None = None


class ChecksStrategyWire(Wire):
    """Admission checks with the flavors they are for."""

    admission_checks: list[NamedWire] | None = None


class RequirementWire(Wire):
    """A match expression."""

    key: str | None = None
    operator: str | None = None
    values: list[str] | None = None


class SelectorWire(Wire):
    """A label selector."""

    match_labels: dict[str, str] | None = None
    match_expressions: list[RequirementWire] | None = None


class ClusterQueueSpecWire(Wire):
    """spec; `cohort` and `admission_checks` are v1beta1, `cohort_name` is v1beta2."""

    cohort: str | None = None
    cohort_name: str | None = None
    queueing_strategy: str | None = None
    namespace_selector: SelectorWire | None = None
    stop_policy: str | None = None
    preemption: PreemptionWire | None = None
    resource_groups: list[ResourceGroupWire] | None = None
    admission_checks: list[str] | None = None
    admission_checks_strategy: ChecksStrategyWire | None = None


class ClusterQueueStatusWire(Wire):
    """Status of a ClusterQueue."""

    flavors_reservation: list[FlavorUsageWire] | None = None
    flavors_usage: list[FlavorUsageWire] | None = None
    pending_workloads: int | None = None
    reserving_workloads: int | None = None
    admitted_workloads: int | None = None
    conditions: list[ConditionWire] | None = None


class ClusterQueueWire(ObjectWire):
    """A ClusterQueue."""

    spec: ClusterQueueSpecWire | None = None
    status: ClusterQueueStatusWire | None = None


def _preemption(wire: PreemptionWire | None) -> Preemption:
    wire = wire or PreemptionWire()
    borrow = wire.borrow_within_cohort or BorrowWithinCohortWire()
    return Preemption(
        within_queue=shared(wire.within_cluster_queue) or "Never",
        reclaim_within_cohort=shared(wire.reclaim_within_cohort) or "Never",
        borrow_within_cohort=shared(borrow.policy) or "Never",
    )


def _checks(spec: ClusterQueueSpecWire) -> tuple[str, ...]:
    strategy = (spec.admission_checks_strategy or ChecksStrategyWire()).admission_checks or []
    names = [*(spec.admission_checks or ()), *(each.name for each in strategy if each.name)]
    return tuple(dict.fromkeys(names))


def _namespaces(wire: SelectorWire | None) -> tuple[Requirement, ...] | None:
    if wire is None:
        return None
    labels = [Requirement(key, "In", (value,)) for key, value in sorted((wire.match_labels or {}).items())]
    expressions = [Requirement(each.key or "", each.operator or "In", tuple(each.values or ()))
                   for each in wire.match_expressions or ()]  # fmt: skip
    return (*labels, *expressions)


def parse_cluster_queue(wire: ClusterQueueWire) -> ClusterQueue:
    """A ClusterQueue with its quota and what is taken of it."""
    meta, spec = wire.metadata, wire.spec or ClusterQueueSpecWire()
    status = wire.status or ClusterQueueStatusWire()
    return ClusterQueue(
        name=shared(meta.name),
        uid=meta.uid or "",
        created=parse_time(meta.creation_timestamp),
        cohort=shared(spec.cohort_name or spec.cohort),
        strategy=shared(spec.queueing_strategy) or "BestEffortFIFO",
        stop_policy=shared(spec.stop_policy) or "None",
        preemption=_preemption(spec.preemption),
        quotas=quotas_of(spec.resource_groups),
        reserved=usages_of(status.flavors_reservation),
        used=usages_of(status.flavors_usage),
        pending=status.pending_workloads or 0,
        reserving=status.reserving_workloads or 0,
        admitted=status.admitted_workloads or 0,
        checks=_checks(spec),
        namespaces=_namespaces(spec.namespace_selector),
        conditions=conditions_of(status.conditions),
    )
