"""JobSets (jobset.x-k8s.io) and the Jobs (batch/v1) that they create."""

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from typing import Any

import msgspec
from msgspec import Struct

from console.errors import Unreadable
from console.kube.objects.meta import (
    A4_PREFIX,
    JOBSET_PREFIX,
    KUEUE_PREFIX,
    OWNER_LABEL,
    ApiSchema,
    Condition,
    ConditionSchema,
    Meta,
    NamespacedObject,
    ObjectSchema,
    annotations_of,
    condition,
    conditions_of,
    intern_text,
    is_condition_true,
    labels_of,
    launched_by,
    namespaced_identity_of,
    parse_time,
)
from console.kube.objects.pod import ContainerSpecSchema, Pod, PodSpecSchema, gpus_of


class JobState(StrEnum):
    PENDING = "pending"  # suspended: its Workload waits for quota
    STARTING = "starting"
    RUNNING = "running"
    RESTARTING = "restarting"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPING = "stopping"


class RecipeKind(StrEnum):
    """The kind of output of a recipe's jobs: training steps, NCCL tables, or nothing known."""

    NCCL = "nccl"
    TRAINING = "training"
    PODS = "pods"  # interactive ones, and those of recipes of other people


def recipe_kind(recipe: str) -> RecipeKind:
    if recipe.startswith("nccl"):
        return RecipeKind.NCCL
    return RecipeKind.TRAINING if _TRAINING_RECIPE.search(recipe) else RecipeKind.PODS


_TRAINING_RECIPE = re.compile(r"pretrain|sft|dpo|rlhf|lustre$")


class Job(NamespacedObject, frozen=True):
    """One batch Job, usually a child of a JobSet."""

    jobset_uid: str = ""
    limit_seconds: float | None = None  # seconds after which it is ended, from its start


class Mount(Struct, frozen=True):
    """A folder mounted into a job's containers, and whether its content outlives the pods."""

    path: str
    stays: bool | None  # None: not known


class ReplicatedJob(Struct, frozen=True):
    """One group of equal Jobs in a JobSet: its requests, and its numbers of ready and finished Jobs."""

    name: str
    replicas: int = 1  # jobs in this group
    pods_per_job: int = 1
    gpus_per_pod: int = 0
    ready: int = 0
    succeeded: int = 0
    mounts: tuple[Mount, ...] = ()

    @property
    def pods(self) -> int:
        return self.replicas * self.pods_per_job


class JobSet(NamespacedObject, frozen=True):
    """A JobSet, launched by a4 or by other means."""

    queue: str = ""  # LocalQueue it was submitted to; empty if Kueue does not manage it
    recipe: str = ""
    release: str = ""  # Helm release that made it; empty if none did
    owner: str = ""  # who launched it, as a short name; empty where nothing on it tells
    owner_labelled: bool = False  # whether the console's own label tells that
    priority_class: str = ""
    suspended: bool = False
    deletion_asked_at: float = 0.0
    restarts: int = 0
    max_restarts: int = 0
    ttl: int | None = None  # seconds after its end in which it is removed (ttlSecondsAfterFinished); None: it stays
    terminal_state: str = ""
    conditions: tuple[Condition, ...] = ()
    groups: tuple[ReplicatedJob, ...] = ()

    @property
    def gpus(self) -> int:
        return sum(group.pods * group.gpus_per_pod for group in self.groups)

    @property
    def ranks(self) -> int:
        """The number of pods in all groups of the JobSet, which are its node ranks."""
        return sum(group.pods for group in self.groups)

    @property
    def places(self) -> Iterator[tuple[str, int, int]]:
        """Yield the place (replicated job, Job index, completion index) of each pod, in the order of pod indexes."""
        for group in self.groups:
            for job in range(group.replicas):
                yield from ((group.name, job, index) for index in range(group.pods_per_job))

    @property
    def pod_indexes(self) -> dict[tuple[str, int, int], int]:
        """The index in the job by a pod's place (replicated job, Job index, completion index)."""
        return {place: index for index, place in enumerate(self.places)}

    def live_pods(self, pods: Iterable[Pod]) -> dict[tuple[str, int, int], Pod]:
        """The current pod by place: of the newest attempt, and preferably one that is not being deleted."""
        pods = sorted(pods, key=lambda pod: (not pod.deletion_asked_at, pod.created))
        # The newest attempt with a pod that is not being deleted, else the JobSet's count.
        attempt = max((pod.attempt for pod in pods if not pod.deletion_asked_at), default=self.restarts)
        return {pod.place: pod for pod in pods if pod.attempt >= attempt}

    def outlives_pods(self, path: str) -> bool | None:
        """Whether data that pods write to `path` (empty, folder or address) outlive them; None if unknown."""
        scheme, address, _ = path.partition("://")
        if address and scheme != "file":
            return True
        mounts = {each for group in self.groups for each in group.mounts}
        if all(each.stays is False for each in mounts):
            return False
        folder = posixpath.normpath(path.removeprefix("file://"))
        if not folder.startswith("/"):
            return None  # where the program runs is not known here
        around = [each for each in mounts if f"{folder}/".startswith(f"{each.path.rstrip('/')}/")]
        nearest = max((len(each.path) for each in around), default=0)
        kept = {each.stays for each in around if len(each.path) == nearest}
        return kept.pop() if len(kept) == 1 else None if kept else False

    @property
    def finished(self) -> bool:
        return self.state in {JobState.SUCCEEDED, JobState.FAILED}

    @property
    def finished_at(self) -> float:
        """End of the JobSet (epoch seconds); 0.0 if it has not finished."""
        ends = (condition(self.conditions, kind) for kind in ("Completed", "Failed"))
        return next((end.since for end in ends if end and end.is_true), 0.0)

    @property
    def removed_at(self) -> float:
        """Time at which the JobSet's TTL removes it with pods and logs (epoch seconds); 0.0 if unknown or never."""
        return self.finished_at + self.ttl if self.ttl is not None and self.finished_at else 0.0

    @property
    def failure(self) -> str:
        """The message of the JobSet's Failed condition; empty if it has not failed."""
        end = condition(self.conditions, "Failed")
        return end.message if end and end.is_true else ""

    @property
    def state(self) -> JobState:
        """The state of a JobSet by its conditions, and by whether all pods are up."""
        if self.deletion_asked_at:
            return JobState.STOPPING
        if self.terminal_state == "Completed" or is_condition_true(self.conditions, "Completed"):
            return JobState.SUCCEEDED
        if self.terminal_state == "Failed" or is_condition_true(self.conditions, "Failed"):
            return JobState.FAILED
        if self.suspended:
            return JobState.PENDING
        if is_condition_true(self.conditions, "RestartingJobSet"):
            return JobState.RESTARTING
        if self.groups and all(group.ready + group.succeeded >= group.replicas for group in self.groups):
            return JobState.RUNNING
        return JobState.RESTARTING if self.restarts else JobState.STARTING


class MountSchema(ApiSchema):
    name: str | None = None
    mount_path: str | None = None


class MountingContainerSchema(ContainerSpecSchema):
    volume_mounts: list[MountSchema] | None = None


class CsiSchema(ApiSchema):
    driver: str | None = None


class HostPathSchema(ApiSchema):
    path: str | None = None


class VolumeSchema(ApiSchema):
    """A volume of a pod; the fields of its type tell whether its content outlives the pod."""

    name: str | None = None
    empty_dir: ApiSchema | None = None
    ephemeral: ApiSchema | None = None
    config_map: ApiSchema | None = None
    secret: ApiSchema | None = None
    projected: ApiSchema | None = None
    downward_api: ApiSchema | None = msgspec.field(default=None, name="downwardAPI")
    persistent_volume_claim: ApiSchema | None = None
    nfs: ApiSchema | None = None
    csi: CsiSchema | None = None
    host_path: HostPathSchema | None = None


class MountingSpecSchema(PodSpecSchema):
    containers: list[MountingContainerSchema] | None = None  # type: ignore[assignment]
    volumes: list[VolumeSchema] | None = None


class MountingTemplateSchema(ApiSchema):
    spec: MountingSpecSchema | None = None


class JobSpecSchema(ApiSchema):
    parallelism: int | None = None
    active_deadline_seconds: int | None = None
    template: MountingTemplateSchema | None = None


class JobSchema(ObjectSchema):
    spec: JobSpecSchema | None = None


def parse_job(job: JobSchema) -> Job:
    return Job(
        **namespaced_identity_of(job.metadata),
        jobset_uid=intern_text(labels_of(job.metadata).get(JOBSET_PREFIX + "jobset-uid")),
        limit_seconds=job.spec.active_deadline_seconds if job.spec else None,
    )


class JobTemplateSchema(ApiSchema):
    spec: JobSpecSchema | None = None


class ReplicatedJobSchema(ApiSchema):
    name: str | None = None
    replicas: int | None = None
    template: JobTemplateSchema | None = None


class FailurePolicySchema(ApiSchema):
    max_restarts: int | None = None


class JobSetSpecSchema(ApiSchema):
    replicated_jobs: list[ReplicatedJobSchema] | None = None
    failure_policy: FailurePolicySchema | None = None
    suspend: bool | None = None
    ttl_seconds_after_finished: int | None = None


class ReplicatedJobStatusSchema(ApiSchema):
    name: str | None = None
    ready: int | None = None
    succeeded: int | None = None


class JobSetStatusSchema(ApiSchema):
    conditions: list[ConditionSchema] | None = None
    restarts: int | None = None
    terminal_state: str | None = None
    replicated_jobs_status: list[ReplicatedJobStatusSchema] | None = None


class JobSetSchema(ObjectSchema):
    spec: JobSetSpecSchema | None = None
    status: JobSetStatusSchema | None = None


def _pod_template(replicated_job: ReplicatedJobSchema) -> tuple[JobSpecSchema, MountingTemplateSchema]:
    job = (replicated_job.template.spec if replicated_job.template else None) or JobSpecSchema()
    return job, job.template or MountingTemplateSchema()


_GCS_FUSE_DRIVER = "gcsfuse.csi.storage.gke.io"  # the driver that mounts a bucket into a pod without a claim
_SYSTEM_FOLDERS = ("/home/kubernetes/bin", "/dev", "/sys", "/proc", "/usr", "/lib")  # of a node: no place for data


def _outlives_pod(volume: VolumeSchema | None) -> bool | None:
    """Whether a volume's data outlive the pod; None for a host folder and for unknown volume types."""
    if volume is None:
        return None
    if volume.persistent_volume_claim or volume.nfs or (volume.csi and volume.csi.driver == _GCS_FUSE_DRIVER):
        return True
    if volume.host_path and f"{volume.host_path.path or '/'}/".startswith(
        tuple(f"{each}/" for each in _SYSTEM_FOLDERS)
    ):
        return False
    own = volume.empty_dir, volume.ephemeral, volume.config_map, volume.secret, volume.projected, volume.downward_api
    return False if any(each is not None for each in own) else None


def _mounts_of(spec: MountingSpecSchema | None) -> tuple[Mount, ...]:
    if spec is None or not spec.containers:
        return ()
    volumes = {each.name: each for each in spec.volumes or ()}
    mounted = (each for container in spec.containers for each in container.volume_mounts or () if each.mount_path)
    return tuple(dict.fromkeys(Mount(each.mount_path or "", _outlives_pod(volumes.get(each.name))) for each in mounted))


def _replicated_job(replicated_job: ReplicatedJobSchema, status: ReplicatedJobStatusSchema) -> ReplicatedJob:
    job, template = _pod_template(replicated_job)
    return ReplicatedJob(
        name=intern_text(replicated_job.name),
        replicas=1 if replicated_job.replicas is None else replicated_job.replicas,
        pods_per_job=1 if job.parallelism is None else job.parallelism,
        gpus_per_pod=gpus_of(template.spec),
        ready=status.ready or 0,
        succeeded=status.succeeded or 0,
        mounts=_mounts_of(template.spec),
    )


MAX_PODS = 20_000  # of a JobSet: each is listed, and a few bytes may ask for billions


def _replicated_jobs(
    groups: list[ReplicatedJobSchema], fields: dict[str | None, ReplicatedJobStatusSchema]
) -> tuple[ReplicatedJob, ...]:
    found = tuple(_replicated_job(each, fields.get(each.name) or ReplicatedJobStatusSchema()) for each in groups)
    if any(group.replicas > MAX_PODS for group in found) or sum(group.pods for group in found) > MAX_PODS:
        raise Unreadable(f"It asks for more than {MAX_PODS:,} pods, more than any cluster has machines for.")
    return found


def _helm_release(meta: Meta) -> str:
    labels = labels_of(meta)
    named = annotations_of(meta).get("meta.helm.sh/release-name", "")
    if named or labels.get("app.kubernetes.io/managed-by") != "Helm":
        return named
    return labels.get("app.kubernetes.io/instance", "")


def _priority_class(labels_class: str | None, groups: list[ReplicatedJobSchema]) -> str:
    """The job's priority class: Kueue's label, else that of the pod templates; empty if neither names one."""
    specs = (_pod_template(each)[1].spec for each in groups)
    return labels_class or next((each.priority_class_name for each in specs if each and each.priority_class_name), "")


def parse_jobset(jobset: JobSetSchema) -> JobSet:
    meta, spec, status = jobset.metadata, jobset.spec or JobSetSpecSchema(), jobset.status or JobSetStatusSchema()
    labels, groups = labels_of(meta), spec.replicated_jobs or []
    by_name = {each.name: each for each in status.replicated_jobs_status or ()}
    return JobSet(
        **namespaced_identity_of(meta),
        queue=intern_text(labels.get(KUEUE_PREFIX + "queue-name")),
        recipe=intern_text(labels.get(A4_PREFIX + "recipe")),
        release=_helm_release(meta),
        owner=intern_text(launched_by(labels, annotations_of(meta))),
        owner_labelled=OWNER_LABEL in labels,
        priority_class=intern_text(_priority_class(labels.get(KUEUE_PREFIX + "priority-class"), groups)),
        suspended=bool(spec.suspend),
        deletion_asked_at=parse_time(meta.deletion_timestamp),
        restarts=status.restarts or 0,
        max_restarts=(spec.failure_policy.max_restarts or 0) if spec.failure_policy else 0,
        ttl=spec.ttl_seconds_after_finished,
        terminal_state=status.terminal_state or "",
        conditions=conditions_of(status.conditions),
        groups=_replicated_jobs(groups, by_name),
    )


PARSERS: dict[str, tuple[type[Any], Callable[[Any], Any]]] = {
    "jobsets": (JobSetSchema, parse_jobset),
    "jobs": (JobSchema, parse_job),
}
