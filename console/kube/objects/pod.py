"""Pods and their containers: their position in a JobSet, their state, and their resource requests."""

from collections.abc import Iterable

import msgspec
from msgspec.structs import force_setattr

from console.kube.objects.meta import (
    GPU,
    JOBSET_PREFIX,
    ApiSchema,
    ConditionSchema,
    Meta,
    NamespacedObject,
    ObjectSchema,
    controller_of,
    intern_text,
    label_int,
    parse_time,
)
from console.kube.objects.quantity import parse_amount

HINT_AFTER_THE_END = "a4 logs shows its log; a4 cp copies what it left on shared storage from a pod that runs."
"""The hint of errors about a container that has ended."""


class Container(msgspec.Struct, frozen=True, gc=False):
    name: str
    state: str = "waiting"  # waiting, running or terminated
    reason: str = ""
    message: str = ""
    exit_code: int | None = None  # None until it has ended
    ready: bool = False
    restarts: int = 0
    started: float = 0.0
    finished_at: float = 0.0
    init: bool = False
    last_exit_code: int | None = None  # how the run before a restart ended
    last_reason: str = ""


class Pod(NamespacedObject, frozen=True, gc=False):
    """One pod; without a JobSet the fields about it are empty or -1."""

    phase: str = "Pending"
    reason: str = ""
    message: str = ""
    node: str = ""
    ip: str = ""
    gpus: int = 0  # nvidia.com/gpu requested by its containers
    containers: tuple[Container, ...] = ()
    started: float = 0.0
    deletion_asked_at: float = 0.0  # when deletion was asked for; 0.0 while nobody did
    gated: tuple[str, ...] = ()  # scheduling gates that still hold it back
    disruption: str = ""  # why others take it away, such as EvictionByEvictionAPI; empty: nobody does
    disruption_message: str = ""
    disrupted_at: float = 0.0
    unschedulable: str = ""  # the scheduler's message while it finds no node
    ready: bool = False
    jobset: str = ""
    jobset_uid: str = ""
    replicated_job: str = ""
    job_index: int = -1
    completion_index: int = -1  # Node rank inside its Job
    attempt: int = 0  # JobSet restart attempt this pod belongs to
    owner_kind: str = ""
    owner_name: str = ""
    status: str = ""  # in one word, as `kubectl get pods` shows it
    restarts: int = 0  # of all but its init containers

    def __post_init__(self) -> None:
        """Compute the sort keys of tables once; there may be a hundred thousand pods."""
        force_setattr(self, "status", _status_of(self))
        restarts = 0
        for each in self.containers:
            if not each.init:
                restarts += each.restarts
        force_setattr(self, "restarts", restarts)

    @property
    def place(self) -> tuple[str, int, int]:
        """The pod's place in its job: (replicated job, Job index, completion index)."""
        return self.replicated_job, max(0, self.job_index), max(0, self.completion_index)

    @property
    def finished(self) -> bool:
        return self.phase in {"Succeeded", "Failed"}

    @property
    def holds_gpus(self) -> int:
        """Number of GPUs that the pod occupies on its node: its requests while it is placed and not finished."""
        return self.gpus if self.node and not self.finished else 0

    @property
    def main(self) -> Container | None:
        """The main container: the first that is not an init container; None if the pod has none."""
        return next((each for each in self.containers if not each.init), None)

    def ended_text(self, container: str = "") -> str:
        """The end of a container (by default the main one) in words; empty while something may still run in it."""
        if self.finished:
            return f"{self.name} has ended ({self.status})"
        found = next((each for each in self.containers if each.name == container), None) if container else self.main
        if found is None or found.state != "terminated":
            return ""
        code = f", exit code {found.exit_code}" if found.exit_code else ""
        return f"Container {found.name} of {self.name} has ended ({found.reason or 'Terminated'}{code})"


def _status_of(pod: Pod) -> str:
    if pod.deletion_asked_at:
        return "Terminating"
    if pod.reason:
        return pod.reason
    for each in pod.containers:
        if each.init and each.state == "terminated" and each.exit_code:
            return intern_text(f"Init:{each.reason or 'Error'}")
        if each.init and each.state == "waiting" and each.reason not in {"", "PodInitializing"}:
            return intern_text(f"Init:{each.reason}")
    for each in pod.containers:
        if not each.init and each.state in {"waiting", "terminated"} and each.reason:
            return each.reason
    if pod.gated:
        return "SchedulingGated"
    return "Unschedulable" if pod.unschedulable else pod.phase


Quantities = dict[str, str | int | float]  # by resource; inside custom resources a quantity may be a bare number


class ResourcesSchema(ApiSchema):
    requests: Quantities | None = None
    limits: Quantities | None = None


class ContainerSpecSchema(ApiSchema):
    name: str | None = None
    resources: ResourcesSchema | None = None
    restart_policy: str | None = None


class NamedObjectSchema(ApiSchema):
    name: str | None = None


class PodSpecSchema(ApiSchema):
    node_name: str | None = None
    containers: list[ContainerSpecSchema] | None = None
    init_containers: list[ContainerSpecSchema] | None = None
    scheduling_gates: list[NamedObjectSchema] | None = None
    priority_class_name: str | None = None
    active_deadline_seconds: int | None = None


class PodTemplateSchema(ApiSchema):
    spec: PodSpecSchema | None = None


def _resource_requests(container: ContainerSpecSchema) -> dict[str, int]:
    """Amounts that one container requests, by resource; a limit without a request counts as the request."""
    resources = container.resources
    if resources is None:
        return {}
    return {
        name: parse_amount(name, amount)
        for name, amount in {**(resources.limits or {}), **(resources.requests or {})}.items()
    }


def _sum_requests(all_asked: Iterable[dict[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for asked in all_asked:
        for name, amount in asked.items():
            total[name] = total.get(name, 0) + amount
    return total


def requests_of(spec: PodSpecSchema | None) -> dict[str, int]:
    """Amounts that a pod requests, by resource: its containers' sum, or one init container's if more; empty if None."""
    if spec is None:
        return {}
    total = _sum_requests(_resource_requests(each) for each in spec.containers or ())
    sidecars: dict[str, int] = {}
    for each in spec.init_containers or ():
        asked = _resource_requests(each)
        if each.restart_policy == "Always":  # runs beside the containers for the pod's whole life
            sidecars = _sum_requests((sidecars, asked))
            total = _sum_requests((total, asked))
            continue
        for name, amount in _sum_requests((sidecars, asked)).items():
            total[name] = max(total.get(name, 0), amount)
    return total


def gpus_of(spec: PodSpecSchema | None) -> int:
    if spec is None:
        return 0
    total = sidecars = 0
    for each in spec.containers or ():
        total += _gpus_of_container(each)
    for each in spec.init_containers or ():
        gpus = _gpus_of_container(each)
        if each.restart_policy == "Always":
            sidecars += gpus
            total += gpus
        else:
            total = max(total, sidecars + gpus)
    return total


def _gpus_of_container(container: ContainerSpecSchema) -> int:
    resources = container.resources
    if resources is None:
        return 0
    for amounts in (resources.requests, resources.limits):
        if amounts and GPU in amounts:
            return parse_amount(GPU, amounts[GPU])
    return 0


class ContainerStateSchema(ApiSchema):
    reason: str | None = None
    message: str | None = None
    started_at: str | None = None
    finished_at: str | None = None
    exit_code: int | None = None


class ContainerStatesSchema(ApiSchema):
    waiting: ContainerStateSchema | None = None
    running: ContainerStateSchema | None = None
    terminated: ContainerStateSchema | None = None


class ContainerStatusSchema(ApiSchema):
    name: str | None = None
    ready: bool | None = None
    restart_count: int | None = None
    state: ContainerStatesSchema | None = None
    last_state: ContainerStatesSchema | None = None


class PodStatusSchema(ApiSchema):
    phase: str | None = None
    reason: str | None = None
    message: str | None = None
    pod_ip: str | None = msgspec.field(default=None, name="podIP")
    start_time: str | None = None
    conditions: list[ConditionSchema] | None = None
    container_statuses: list[ContainerStatusSchema] | None = None
    init_container_statuses: list[ContainerStatusSchema] | None = None


class PodLabels(ApiSchema):
    """Those labels and annotations of a pod that are decoded; all others are skipped."""

    jobset: str = msgspec.field(default="", name=JOBSET_PREFIX + "jobset-name")
    jobset_uid: str = msgspec.field(default="", name=JOBSET_PREFIX + "jobset-uid")
    replicated_job: str = msgspec.field(default="", name=JOBSET_PREFIX + "replicatedjob-name")
    job_index: str = msgspec.field(default="", name=JOBSET_PREFIX + "job-index")
    completion_index: str = msgspec.field(default="", name="batch.kubernetes.io/job-completion-index")
    attempt: str = msgspec.field(default="", name=JOBSET_PREFIX + "restart-attempt")


class PodAnnotations(ApiSchema):
    """Those annotations of a pod that are decoded; before Kubernetes 1.28 only they have the completion index."""

    completion_index: str = msgspec.field(default="", name="batch.kubernetes.io/job-completion-index")


_NO_LABELS, _NO_ANNOTATIONS, _NO_CONDITION = PodLabels(), PodAnnotations(), ConditionSchema()


class PodMeta(Meta):
    labels: PodLabels | None = None  # type: ignore[assignment]  # of its forty those that are used
    annotations: PodAnnotations | None = None  # type: ignore[assignment]


class PodSchema(ObjectSchema):
    metadata: PodMeta = msgspec.field(default_factory=PodMeta)
    spec: PodSpecSchema | None = None
    status: PodStatusSchema | None = None


def _container(container_status: ContainerStatusSchema, *, is_init: bool) -> Container:
    state = container_status.state or ContainerStatesSchema()
    if state.running is not None:
        name, now = "running", state.running
    elif state.terminated is not None:
        name, now = "terminated", state.terminated
    else:
        name, now = "waiting", state.waiting or ContainerStateSchema()
    before = container_status.last_state.terminated if container_status.last_state else None
    return Container(
        name=intern_text(container_status.name),
        state=name,
        reason=intern_text(now.reason),
        message=now.message or "",
        exit_code=now.exit_code,
        ready=bool(container_status.ready),
        restarts=container_status.restart_count or 0,
        started=parse_time(now.started_at),
        finished_at=parse_time(now.finished_at),
        init=is_init,
        last_exit_code=before.exit_code if before else None,
        last_reason=intern_text(before.reason) if before else "",
    )


def _build_containers(
    specs: list[ContainerSpecSchema] | None, statuses: list[ContainerStatusSchema] | None, *, init: bool
) -> list[Container]:
    """Build the containers in the order of the spec; one without a status yet counts as waiting."""
    by_name = {each.name: each for each in statuses or ()}
    found = []
    for each in specs or ():
        status = by_name.pop(each.name, None)
        found.append(_container(status, is_init=init) if status else Container(name=intern_text(each.name), init=init))
    for left in by_name.values():
        found.append(_container(left, is_init=init))
    return found


def parse_pod(pod: PodSchema) -> Pod:
    meta, spec, status = pod.metadata, pod.spec or PodSpecSchema(), pod.status or PodStatusSchema()
    labels, annotations = meta.labels or _NO_LABELS, meta.annotations or _NO_ANNOTATIONS
    owner = controller_of(meta)
    conditions = {each.type: each for each in status.conditions or ()}
    scheduled, ready = conditions.get("PodScheduled"), conditions.get("Ready")
    taken = conditions.get("DisruptionTarget")
    if taken is None or taken.status != "True":
        taken = _NO_CONDITION
    containers = _build_containers(spec.containers, status.container_statuses, init=False)
    if spec.init_containers or status.init_container_statuses:
        containers = [*_build_containers(spec.init_containers, status.init_container_statuses, init=True), *containers]
    unschedulable = scheduled is not None and scheduled.status == "False" and scheduled.reason == "Unschedulable"
    return Pod(
        namespace=intern_text(meta.namespace),
        name=meta.name or "",
        uid=meta.uid or "",
        created=parse_time(meta.creation_timestamp),
        phase=intern_text(status.phase) or "Pending",
        reason=intern_text(status.reason),
        message=status.message or "",
        node=intern_text(spec.node_name),
        ip=status.pod_ip or "",
        gpus=gpus_of(spec),
        containers=tuple(containers),
        started=parse_time(status.start_time),
        deletion_asked_at=parse_time(meta.deletion_timestamp),
        gated=tuple(intern_text(each.name) for each in spec.scheduling_gates) if spec.scheduling_gates else (),
        disruption=intern_text(taken.reason),
        disruption_message=taken.message or "",
        disrupted_at=parse_time(taken.last_transition_time),
        unschedulable=intern_text(scheduled.message) if scheduled and unschedulable else "",
        ready=ready is not None and ready.status == "True",
        jobset=intern_text(labels.jobset),
        jobset_uid=intern_text(labels.jobset_uid),
        replicated_job=intern_text(labels.replicated_job),
        job_index=label_int(labels.job_index, -1),
        completion_index=label_int(labels.completion_index, label_int(annotations.completion_index, -1)),
        attempt=label_int(labels.attempt, 0),
        owner_kind=intern_text(owner.kind),
        owner_name=intern_text(owner.name),
    )
