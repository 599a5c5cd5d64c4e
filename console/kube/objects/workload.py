"""Workload objects (v1beta1 and v1beta2): one job's request for quota, and its admission status."""

from collections import Counter
from enum import StrEnum

from msgspec import Struct

from console.errors import Unreadable
from console.kube.objects.meta import (
    KUEUE_PREFIX,
    ApiSchema,
    Condition,
    ConditionSchema,
    NamespacedObject,
    ObjectSchema,
    OwnerSchema,
    condition,
    conditions_of,
    controller_of,
    intern_text,
    is_condition_true,
    labels_of,
    namespaced_identity_of,
    parse_time,
)
from console.kube.objects.pod import NamedObjectSchema, PodTemplateSchema, requests_of


class WorkloadState(StrEnum):
    """The states of a Workload between submission and end."""

    PENDING = "pending"
    RESERVED = "reserved"  # has quota, still waits for its admission checks
    ADMITTED = "admitted"
    EVICTED = "evicted"  # lost its quota and waits to be queued again
    DEACTIVATED = "deactivated"
    FINISHED = "finished"


class TopologyDomain(Struct, frozen=True):
    """One domain of a topology assignment: its value at each topology level, and its number of pods."""

    values: tuple[str, ...]
    count: int


class PodSet(Struct, frozen=True):
    name: str
    count: int = 1
    requests: tuple[tuple[str, int], ...] = ()  # resource -> amount per pod
    required_topology: str = ""  # Node label whose single value all pods must share
    slices: tuple[str, int] = ("", 1)  # the Node label that so many pods at a time must share
    group: str = ""  # of two pod sets whose pods are placed together
    flavors: tuple[tuple[str, str], ...] = ()  # resource -> flavor, once quota is reserved
    domains: tuple[TopologyDomain, ...] = ()
    time_limit: float | None = None  # seconds after which each of its pods is ended, from its start

    def total(self, resource: str) -> int:
        return self.count * dict(self.requests).get(resource, 0)


class CheckState(Struct, frozen=True):
    """The state of one AdmissionCheck of a Workload: Pending, Ready, Retry or Rejected."""

    name: str
    state: str
    message: str = ""


class Workload(NamespacedObject, frozen=True):
    queue: str = ""
    cluster_queue: str = ""  # set once quota is reserved; a pending Workload's comes from its LocalQueue
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
    evictions: tuple[tuple[str, int], ...] = ()  # reason -> how often
    ran_before: float = 0.0  # seconds, before it was evicted
    time_limit: float | None = None  # seconds after which Kueue ends it, with those before

    def total(self, resource: str) -> int:
        return sum(group.total(resource) for group in self.pod_sets)

    @property
    def job_uid(self) -> str:
        """The uid of the job that the Workload stands for; its own uid for a group of pods."""
        return self.owner_uid or self.uid

    @property
    def state(self) -> WorkloadState:
        """The Workload's position in Kueue's life cycle, by type and status of its conditions; reasons are not read."""
        if is_condition_true(self.conditions, "Finished"):
            return WorkloadState.FINISHED
        if not self.active:
            return WorkloadState.DEACTIVATED
        if is_condition_true(self.conditions, "Admitted"):
            return WorkloadState.ADMITTED
        if is_condition_true(self.conditions, "QuotaReserved"):
            return WorkloadState.RESERVED
        if is_condition_true(self.conditions, "Evicted"):
            return WorkloadState.EVICTED
        return WorkloadState.PENDING

    @property
    def is_waiting(self) -> bool:
        return self.state in {WorkloadState.PENDING, WorkloadState.EVICTED}

    @property
    def queued_since(self) -> float:
        """Start of the Workload's present wait (epoch seconds): its latest eviction or requeue, else its creation."""
        requeued = condition(self.conditions, "Requeued")
        evicted = condition(self.conditions, "Evicted")
        return max(self.created, *(each.since for each in (requeued, evicted) if each and each.is_true), 0.0)


class IndividualValuesSchema(ApiSchema):
    """One value per domain: `prefix`, then the domain's root, then `suffix`."""

    prefix: str | None = None
    suffix: str | None = None
    roots: list[str] | None = None


class LevelValuesSchema(ApiSchema):
    """The values of one topology level, for each domain of a slice."""

    universal: str | None = None
    individual: IndividualValuesSchema | None = None


class PodCountsSchema(ApiSchema):
    universal: int | None = None
    individual: list[int] | None = None


class SliceSchema(ApiSchema):
    """Several domains of a v1beta2 topology assignment in its compact form."""

    domain_count: int | None = None
    values_per_level: list[LevelValuesSchema] | None = None
    pod_counts: PodCountsSchema | None = None


class AssignmentDomainSchema(ApiSchema):
    values: list[str] | None = None
    count: int | None = None


class AssignmentSchema(ApiSchema):
    """The topologyAssignment of a pod set; `domains` is v1beta1, `slices` is v1beta2."""

    domains: list[AssignmentDomainSchema] | None = None
    slices: list[SliceSchema] | None = None


class TopologyRequestSchema(ApiSchema):
    """A pod set's topologyRequest; a preferred level is not read, as it keeps no workload waiting."""

    required: str | None = None
    pod_set_slice_required_topology: str | None = None
    pod_set_slice_size: int | None = None
    pod_set_group_name: str | None = None


class PodSetSchema(ApiSchema):
    name: str | None = None
    count: int | None = None
    template: PodTemplateSchema | None = None
    topology_request: TopologyRequestSchema | None = None


class WorkloadSpecSchema(ApiSchema):
    """A Workload's spec; `priority_class_name` is v1beta1, `priority_class_ref` is v1beta2."""

    queue_name: str | None = None
    priority: int | None = None
    priority_class_name: str | None = None
    priority_class_ref: NamedObjectSchema | None = None
    active: bool | None = None
    pod_sets: list[PodSetSchema] | None = None
    maximum_execution_time_seconds: int | None = None


class PodSetAssignmentSchema(ApiSchema):
    name: str | None = None
    flavors: dict[str, str] | None = None
    count: int | None = None
    topology_assignment: AssignmentSchema | None = None


class AdmissionSchema(ApiSchema):
    cluster_queue: str | None = None
    pod_set_assignments: list[PodSetAssignmentSchema] | None = None


class RequeueStateSchema(ApiSchema):
    count: int | None = None
    requeue_at: str | None = None


class CheckStateSchema(ApiSchema):
    name: str | None = None
    state: str | None = None
    message: str | None = None


class EvictionSchema(ApiSchema):
    reason: str | None = None
    count: int | None = None


class SchedulingStatsSchema(ApiSchema):
    evictions: list[EvictionSchema] | None = None


class WorkloadStatusSchema(ApiSchema):
    conditions: list[ConditionSchema] | None = None
    admission: AdmissionSchema | None = None
    requeue_state: RequeueStateSchema | None = None
    admission_checks: list[CheckStateSchema] | None = None
    scheduling_stats: SchedulingStatsSchema | None = None
    accumulated_past_execution_time_seconds: int | None = None
    accumulated_past_exexcution_time_seconds: int | None = None  # as v1beta1 spells it


class WorkloadSchema(ObjectSchema):
    spec: WorkloadSpecSchema | None = None
    status: WorkloadStatusSchema | None = None


MAX_DOMAINS = 100_000  # of an assignment: a few bytes may speak of any number


def _domain_values(level_values: LevelValuesSchema, count: int) -> list[str]:
    if level_values.individual is None:
        return [level_values.universal or ""] * count
    prefix, suffix = level_values.individual.prefix or "", level_values.individual.suffix or ""
    return [f"{prefix}{root}{suffix}" for root in level_values.individual.roots or ()]


def _domains_of_slice(slice_: SliceSchema) -> list[TopologyDomain]:
    count, counts = slice_.domain_count or 0, slice_.pod_counts or PodCountsSchema()
    pods = counts.individual if counts.individual is not None else [counts.universal or 0] * count
    columns = [_domain_values(each, count) for each in slice_.values_per_level or ()]
    if len(pods) != count or any(len(column) != count for column in columns):
        raise Unreadable(f"A topology assignment speaks of {count} domains and lists another number.")
    rows = zip(*columns, strict=True) if columns else [()] * count
    return [TopologyDomain(tuple(map(intern_text, row)), number) for row, number in zip(rows, pods, strict=True)]


def domains_of(assignment: AssignmentSchema | None) -> tuple[TopologyDomain, ...]:
    if assignment is None:
        return ()
    count = sum(max(each.domain_count or 0, 0) for each in assignment.slices or ())
    if count > MAX_DOMAINS:
        raise Unreadable(f"A topology assignment speaks of {count:,} domains, more than any cluster has.")
    written = [
        TopologyDomain(tuple(map(intern_text, each.values or ())), each.count or 0) for each in assignment.domains or ()
    ]
    return (*written, *(domain for each in assignment.slices or () for domain in _domains_of_slice(each)))


def _pod_set(pod_set: PodSetSchema, assignment: PodSetAssignmentSchema) -> PodSet:
    asked, placed = pod_set.topology_request or TopologyRequestSchema(), assignment.topology_assignment
    return PodSet(
        name=intern_text(pod_set.name),
        count=1 if pod_set.count is None else pod_set.count,
        requests=tuple(sorted(requests_of(pod_set.template.spec if pod_set.template else None).items())),
        required_topology=intern_text(asked.required),
        slices=(intern_text(asked.pod_set_slice_required_topology), asked.pod_set_slice_size or 1),
        group=intern_text(asked.pod_set_group_name),
        flavors=tuple(sorted((assignment.flavors or {}).items())),
        domains=domains_of(placed),
        time_limit=pod_set.template.spec.active_deadline_seconds
        if pod_set.template and pod_set.template.spec
        else None,
    )


def _check_state(check_state: CheckStateSchema) -> CheckState:
    return CheckState(
        name=intern_text(check_state.name),
        state=intern_text(check_state.state) or "Pending",
        message=check_state.message or "",
    )


def _eviction_counts(stats: SchedulingStatsSchema | None) -> tuple[tuple[str, int], ...]:
    counted: Counter[str] = Counter()
    for each in (stats.evictions or ()) if stats else ():
        counted[intern_text(each.reason)] += each.count or 0
    return tuple(counted.items())


def parse_workload(workload: WorkloadSchema) -> Workload:
    meta, spec, status = (
        workload.metadata,
        workload.spec or WorkloadSpecSchema(),
        workload.status or WorkloadStatusSchema(),
    )
    owner, admission = controller_of(meta), status.admission or AdmissionSchema()
    if owner.kind == "Pod" and not owner.controller:  # all pods of a group own it, which has its name
        owner = OwnerSchema(kind=owner.kind)
    requeue = status.requeue_state or RequeueStateSchema()
    given = {each.name: each for each in admission.pod_set_assignments or ()}
    priority_class = spec.priority_class_ref.name if spec.priority_class_ref else spec.priority_class_name
    return Workload(
        **namespaced_identity_of(meta),
        queue=intern_text(spec.queue_name),
        cluster_queue=intern_text(admission.cluster_queue),
        priority=spec.priority or 0,
        priority_class=intern_text(priority_class),
        active=spec.active is not False,
        owner_kind=intern_text(owner.kind),
        owner_name=intern_text(owner.name),
        owner_uid=intern_text(owner.uid) or labels_of(meta).get(KUEUE_PREFIX + "job-uid", ""),
        pod_sets=tuple(
            _pod_set(each, given.get(each.name) or PodSetAssignmentSchema()) for each in spec.pod_sets or ()
        ),
        conditions=conditions_of(status.conditions),
        checks=tuple(map(_check_state, status.admission_checks or ())),
        requeue_at=parse_time(requeue.requeue_at),
        requeue_count=requeue.count or 0,
        evictions=_eviction_counts(status.scheduling_stats),
        ran_before=status.accumulated_past_execution_time_seconds
        or status.accumulated_past_exexcution_time_seconds
        or 0.0,
        time_limit=spec.maximum_execution_time_seconds,
    )
