"""The ranks and pods of a JobSet: which pod fills each index, its state, and how numbers are written.

A rank is a process: its RANK, 0 to N-1 over the whole job, as PyTorch and NCCL print it. A pod has an index in the job,
over its replicated jobs in the order of the spec, their Jobs, and the completion indexes of each, and holds a process
for each of its GPUs.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct

from console.errors import NotFound
from console.kube.find_job import find_job

if TYPE_CHECKING:
    from console.kube.objects.jobset import JobSet
    from console.kube.objects.pod import Container, Pod
    from console.kube.snapshot import Fleet


MISSING_STATUS = "Missing"  # status of a rank that has no pod


class PodSlot(Struct, frozen=True):
    """One pod index of a JobSet, and the pod that has it at present, if any."""

    number: int  # the index, as `rankscope.PodRank` calls it
    replicated_job: str
    job_index: int
    completion_index: int
    gpus: int = 0  # GPUs the spec asks for
    pod: Pod | None = None  # the pod of the live attempt; None while there is none

    @property
    def name(self) -> str:
        return self.pod.name if self.pod else ""

    @property
    def node(self) -> str:
        return self.pod.node if self.pod else ""

    @property
    def address(self) -> str:
        return self.pod.ip if self.pod else ""

    @property
    def phase(self) -> str:
        return self.pod.phase if self.pod else ""

    @property
    def status(self) -> str:
        """The status of its pod in one word, as `kubectl get pods` shows it."""
        return self.pod.status if self.pod else MISSING_STATUS

    @property
    def ready(self) -> bool:
        return self.pod is not None and self.pod.ready

    @property
    def restarts(self) -> int:
        return self.pod.restarts if self.pod else 0

    @property
    def ended(self) -> Container | None:
        """The container that failed, else the main one if it has ended; None while it runs."""
        if not (done := [each for each in self.pod.containers if each.state == "terminated"] if self.pod else ()):
            return None
        failed = [each for each in done if each.exit_code] or [each for each in done if not each.init][:1]
        return min(failed, key=lambda each: each.finished_at, default=None)

    @property
    def exit_code(self) -> int | None:
        """The exit code of the ended container; None while it runs, or without a pod."""
        return ended.exit_code if (ended := self.ended) and (ended.exit_code or not ended.init) else None

    @property
    def failed(self) -> bool:
        return self.phase == "Failed" or bool(self.exit_code)

    @property
    def was_terminated(self) -> bool:
        """Whether the pod is being deleted and its container ended by SIGTERM or SIGKILL."""
        return self.pod is not None and self.pod.deletion_asked_at > 0 and self.exit_code in {143, 137}


def pod_slots(jobset: JobSet, fleet: Fleet) -> tuple[PodSlot, ...]:
    """All ranks of the JobSet in order, including those without a pod."""
    global _latest
    pods = fleet.pods_by_jobset.get(jobset.uid, ())
    known, known_pods, slots = _latest
    if known is not jobset or known_pods is not pods:
        live, gpus = jobset.live_pods(pods), {group.name: group.gpus_per_pod for group in jobset.groups}
        places = enumerate(jobset.places)
        slots = tuple(PodSlot(number, *place, gpus[place[0]], live.get(place)) for number, place in places)
        _latest = jobset, pods, slots
    return slots


_latest: tuple[JobSet | None, Sequence[Pod], tuple[PodSlot, ...]] = None, (), ()
"""The last result of `pod_slots` with its JobSet and pods, since one view of a job needs the slots several times."""


def find_pod_slot(fleet: Fleet, namespace: str, job: str, rank: str) -> PodSlot:
    """The rank for JOB RANK, JOB REPLICATED/INDEX or pod/NAME, with or without a pod.

    Raises BadInput for other texts, NotFound without such a job or pod, NotThere without such a rank.
    """
    from console.kube.pod_address import PodAddress  # 1 ms, for which no list waits

    address = PodAddress.parse(namespace, job, rank)
    if address.pod:
        pod = fleet.pods.get((namespace, address.pod))
        if pod is None:
            others = sorted(key for key, other in fleet.pods if other == address.pod)
            there = f"A pod of that name is in namespace {others[0]}: add -n {others[0]}." if others else ""
            message = f"There is no pod {address.pod} in namespace {namespace}."
            raise NotFound(message, there or "a4 pods -A lists all there are.")
        return PodSlot(-1, "", 0, 0, pod.gpus, pod)
    jobset = find_job(fleet, namespace, job)
    return pod_slots(jobset, fleet)[address.find_place(jobset)[0]]


def first_failure(jobset: JobSet, fleet: Fleet) -> PodSlot | None:
    """The rank whose container failed first; None if none did or its pod is gone.

    A container of a pod that is being deleted did not fail if SIGTERM or SIGKILL ended it.
    """
    failed = [slot for slot in pod_slots(jobset, fleet) if slot.failed and not slot.was_terminated]
    return min(
        failed, key=lambda rank: (rank.ended.finished_at if rank.ended else float("inf"), rank.number), default=None
    )


class PodFate(StrEnum):
    HERE = "here"  # it runs as before
    REPLACED = "replaced"  # it is gone or going, and something will make another
    OVER = "over"  # it has ended, or is gone, and nothing makes another


def pod_fate(fleet: Fleet, pod: Pod) -> PodFate:
    """Whether the pod is still there, was replaced or is over, by the snapshot."""
    now = fleet.pods.get(pod.key)
    if now is not None and now.uid == pod.uid and now.phase == "Running" and not now.deletion_asked_at:
        return PodFate.HERE
    jobset = fleet.jobsets.get((pod.namespace, pod.jobset)) if pod.jobset else None
    return PodFate.REPLACED if jobset is not None and not jobset.finished else PodFate.OVER


def find_successor(fleet: Fleet, pod: Pod) -> Pod | None:
    """The running pod that now has the same index in its job; None if there is none or it is the same."""
    jobset = fleet.jobsets.get((pod.namespace, pod.jobset)) if pod.jobset else None
    if jobset is None:
        return None
    found = jobset.live_pods(fleet.pods_by_jobset.get(jobset.uid, ())).get(pod.place)
    return found if found and found.uid != pod.uid and found.phase == "Running" else None
