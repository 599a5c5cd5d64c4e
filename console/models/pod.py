"""A pod and its containers, with its place in a JobSet."""

from __future__ import annotations

from dataclasses import dataclass

AFTER_THE_END = (
    "l, or a4 logs, shows its log; what it left on shared storage can be copied (u, or a4 cp) from a pod that runs."
)
"""What can be done with a container that has ended."""


@dataclass(frozen=True, slots=True)
class Container:
    """One container's state."""

    name: str
    state: str = "waiting"
    """waiting, running or terminated."""
    reason: str = ""
    message: str = ""
    exit_code: int | None = None
    """None until it has ended."""
    ready: bool = False
    restarts: int = 0
    started: float = 0.0
    finished: float = 0.0
    init: bool = False
    last_exit_code: int | None = None
    """How the run before a restart ended."""
    last_reason: str = ""


@dataclass(frozen=True, slots=True)
class Pod:
    """One pod; the fields of a JobSet are empty or -1 when it belongs to none."""

    namespace: str
    name: str
    uid: str = ""
    created: float = 0.0
    phase: str = "Pending"
    reason: str = ""
    message: str = ""
    node: str = ""
    ip: str = ""
    gpus: int = 0
    """nvidia.com/gpu requested by its containers."""
    containers: tuple[Container, ...] = ()
    started: float = 0.0
    deleting_since: float = 0.0
    """When deletion was asked for; 0.0 while nobody did."""
    gated: tuple[str, ...] = ()
    """Scheduling gates that still hold it back."""
    disruption: str = ""
    """Why somebody takes it away that is none of its own, such as EvictionByEvictionAPI; empty: nobody does."""
    disruption_message: str = ""
    disrupted_at: float = 0.0
    unschedulable: str = ""
    """The scheduler's message while it finds no node."""
    ready: bool = False
    job: str = ""
    jobset: str = ""
    jobset_uid: str = ""
    replicated_job: str = ""
    job_index: int = -1
    completion_index: int = -1
    """Node rank inside its Job."""
    attempt: int = 0
    """JobSet restart attempt this pod belongs to."""
    workload: str = ""
    owner_kind: str = ""
    owner_name: str = ""

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name."""
        return self.namespace, self.name

    @property
    def finished(self) -> bool:
        """Whether all its containers have ended for good."""
        return self.phase in {"Succeeded", "Failed"}

    @property
    def holds_gpus(self) -> int:
        """GPUs of its node that nobody else can have: those requested, while it is placed and not finished."""
        return self.gpus if self.node and not self.finished else 0

    @property
    def restarts(self) -> int:
        """Restarts of its containers since the pod was made."""
        return sum(each.restarts for each in self.containers if not each.init)

    @property
    def main(self) -> Container | None:
        """The container that does the work: the first that is no init container."""
        return next((each for each in self.containers if not each.init), None)

    def ended_words(self, container: str = "") -> str:
        """That nothing runs any more in that container (the main one unless named), and how it ended; empty: it may."""
        if self.finished:
            return f"{self.name} has ended ({self.status})"
        found = next((each for each in self.containers if each.name == container), None) if container else self.main
        if found is None or found.state != "terminated":
            return ""
        code = f", exit code {found.exit_code}" if found.exit_code else ""
        return f"Container {found.name} of {self.name} has ended ({found.reason or 'Terminated'}{code})"

    @property
    def status(self) -> str:
        """One word (or reason) for where it is, the way `kubectl get pods` would say it."""
        if self.deleting_since:
            return "Terminating"
        if self.reason:
            return self.reason
        for each in self.containers:
            if each.init and each.state == "terminated" and each.exit_code:
                return f"Init:{each.reason or 'Error'}"
            if each.init and each.state == "waiting" and each.reason not in {"", "PodInitializing"}:
                return f"Init:{each.reason}"
        for each in self.containers:
            if not each.init and each.state in {"waiting", "terminated"} and each.reason:
                return each.reason
        if self.gated:
            return "SchedulingGated"
        if self.unschedulable:
            return "Unschedulable"
        return self.phase
