"""JobSets and the Jobs they make."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from console.models.condition import Condition, condition, holds


class JobState(StrEnum):
    """Where a JobSet is in its life."""

    PENDING = "pending"
    """Suspended: its Workload waits for quota."""
    STARTING = "starting"
    RUNNING = "running"
    RESTARTING = "restarting"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPING = "stopping"


@dataclass(frozen=True, slots=True)
class Job:
    """One batch Job, usually a child of a JobSet."""

    namespace: str
    name: str
    uid: str = ""
    created: float = 0.0
    jobset: str = ""
    jobset_uid: str = ""
    replicated_job: str = ""
    job_index: int = -1
    attempt: int = 0
    parallelism: int = 1
    active: int = 0
    ready: int = 0
    succeeded: int = 0
    failed: int = 0
    suspended: bool = False
    conditions: tuple[Condition, ...] = ()
    queue: str = ""


@dataclass(frozen=True, slots=True)
class ReplicatedJob:
    """One group of equal Jobs in a JobSet: what it asks for, and how far it is."""

    name: str
    replicas: int = 1
    """Jobs in this group."""
    pods_per_job: int = 1
    gpus_per_pod: int = 0
    ready: int = 0
    active: int = 0
    succeeded: int = 0
    failed: int = 0
    suspended: int = 0

    @property
    def pods(self) -> int:
        """Pods of the whole group when it runs."""
        return self.replicas * self.pods_per_job


@dataclass(frozen=True, slots=True)
class JobSet:
    """One JobSet: a release of ours, or anybody's."""

    namespace: str
    name: str
    uid: str = ""
    created: float = 0.0
    queue: str = ""
    """LocalQueue it was submitted to; empty if Kueue does not manage it."""
    recipe: str = ""
    release: str = ""
    """Helm release that made it; empty if none did."""
    owner: str = ""
    """Who launched it, as a short name; empty where nothing on it tells."""
    priority_class: str = ""
    suspended: bool = False
    deleting_since: float = 0.0
    restarts: int = 0
    max_restarts: int = 0
    ttl: int | None = None
    """Seconds after its end in which it is removed (ttlSecondsAfterFinished); None: it stays."""
    terminal_state: str = ""
    conditions: tuple[Condition, ...] = ()
    groups: tuple[ReplicatedJob, ...] = ()

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name."""
        return self.namespace, self.name

    @property
    def gpus(self) -> int:
        """GPUs of all its pods when it runs."""
        return sum(group.pods * group.gpus_per_pod for group in self.groups)

    @property
    def ranks(self) -> int:
        """Pods of all its groups when it runs; a rank here is a node rank."""
        return sum(group.pods for group in self.groups)

    @property
    def finished(self) -> bool:
        """Whether it has ended for good."""
        return self.state in {JobState.SUCCEEDED, JobState.FAILED}

    @property
    def finished_at(self) -> float:
        """When it ended, 0.0 while it has not."""
        ends = (condition(self.conditions, kind) for kind in ("Completed", "Failed"))
        return next((end.since for end in ends if end and end.is_true), 0.0)

    @property
    def removed_at(self) -> float:
        """When it is removed by itself, with its pods and their logs; 0.0 while that is not known, or if it stays."""
        return self.finished_at + self.ttl if self.ttl is not None and self.finished_at else 0.0

    @property
    def failure(self) -> str:
        """The controller's message when it failed."""
        end = condition(self.conditions, "Failed")
        return end.message if end and end.is_true else ""

    @property
    def state(self) -> JobState:
        """Where it is, from what its controllers say; whether its pods are up is `starting` against `running`."""
        if self.deleting_since:
            return JobState.STOPPING
        if self.terminal_state == "Completed" or holds(self.conditions, "Completed"):
            return JobState.SUCCEEDED
        if self.terminal_state == "Failed" or holds(self.conditions, "Failed"):
            return JobState.FAILED
        if self.suspended:
            return JobState.PENDING
        if holds(self.conditions, "RestartingJobSet"):
            return JobState.RESTARTING
        if self.groups and all(group.ready + group.succeeded >= group.replicas for group in self.groups):
            return JobState.RUNNING
        return JobState.RESTARTING if self.restarts else JobState.STARTING
