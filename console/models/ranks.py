"""Ranks of a JobSet: each place its pods fill, with the pod that fills it now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from console.models.pod import Pod

if TYPE_CHECKING:
    from console.models.fleet import Fleet
    from console.models.job import JobSet

Place = tuple[str, int, int]
"""Replicated job, index of the Job in it, completion index of the pod in the Job."""


@dataclass(frozen=True, slots=True)
class Rank:
    """One node rank of a JobSet; `number` counts over all replicated jobs in their order."""

    number: int
    group: str
    """Name of the replicated job."""
    job_index: int
    completion_index: int
    pod: Pod | None = None
    """The live pod of the newest attempt; None while there is none."""

    @property
    def status(self) -> str:
        """The pod's status word; "no pod" without one."""
        return self.pod.status if self.pod else "no pod"

    @property
    def exit_code(self) -> int | None:
        """How the main container ended, or how it ended before it was last restarted."""
        main = self.pod.main if self.pod else None
        if main is None:
            return None
        return main.exit_code if main.exit_code is not None else main.last_exit_code


def ranks(jobset: JobSet, fleet: Fleet) -> tuple[Rank, ...]:
    """All ranks of a JobSet in order, with or without a pod."""
    live = _live_pods(fleet.pods_by_jobset.get(jobset.uid, ()))
    places = [
        (group.name, job, pod)
        for group in jobset.groups
        for job in range(group.replicas)
        for pod in range(group.pods_per_job)
    ]
    return tuple(Rank(number, *place, live.get(place)) for number, place in enumerate(places))


def _live_pods(pods: list[Pod] | tuple[Pod, ...]) -> dict[Place, Pod]:
    """The pod that fills each place: of the newest attempt, not going away, the youngest of those left."""
    live: dict[Place, Pod] = {}
    for pod in pods:
        place = pod.replicated_job, pod.job_index, pod.completion_index
        if place not in live or _precedence(pod) > _precedence(live[place]):
            live[place] = pod
    return live


def _precedence(pod: Pod) -> tuple[int, bool, float]:
    return pod.attempt, not pod.deleting_since, pod.created


def first_failure(jobset: JobSet, fleet: Fleet) -> Pod | None:
    """The pod of the JobSet whose main container failed first, by the time it ended."""
    failed = [
        (main.finished, pod)
        for pod in fleet.pods_by_jobset.get(jobset.uid, ())
        if (main := pod.main) is not None and main.state == "terminated" and main.exit_code
    ]
    return min(failed, key=lambda each: (each[0], each[1].name))[1] if failed else None
