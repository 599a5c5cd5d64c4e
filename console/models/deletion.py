"""Pods of a job that somebody deleted: told from those that its own controllers take away, by the events of both.

Events are forgotten after an hour, and of many alike only some are kept, so this may find nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from console.models.job import JobState
from console.models.ranks import places

if TYPE_CHECKING:
    from collections.abc import Sequence

    from console.models.event import Event
    from console.models.fleet import Fleet
    from console.models.job import JobSet

_STEM = 58
"""Letters of the name of a pod before its random ones, at most."""
_RANDOM = 5
_MARGIN = 0.2
"""Seconds by which the clocks of machines may differ."""
_ENDS = {"BackoffLimitExceeded", "PodFailurePolicy", "DeadlineExceeded"}
"""What the Job controller says when a Job fails; from then on pods are taken away by controllers."""
_OTHERS = {"Evicted", "Preempted", "Preempting", "TaintManagerEviction", "NodeShutdown"}
"""Events about a pod that say who else took it away."""
_MOMENT = re.compile(r"\.([0-9a-f]{15,16})$")


_answers: WeakKeyDictionary[Fleet, dict[str, list[str]]] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class Deletion:
    """A pod that was deleted while its container worked."""

    pod: str
    rank: int
    attempt: int
    time: float
    """When its containers were told to stop."""


def first_deletion(jobset: JobSet, fleet: Fleet) -> Deletion | None:
    """The pod that was deleted first, in the latest attempt in which one was; None if none was, as far as is known."""
    if jobset.deleting_since or jobset.state is JobState.SUCCEEDED:
        return None
    stem = f"{jobset.name}-"
    if not any(name.startswith(stem) for name in _killed(fleet).get(jobset.namespace, ())):
        return None
    found = _deletions(jobset, _told(jobset, fleet), _names(jobset))
    latest = max((each.attempt for each in found), default=0)
    return min((each for each in found if each.attempt == latest), key=lambda each: each.time, default=None)


def _killed(fleet: Fleet) -> dict[str, list[str]]:
    """Namespace -> names of the pods whose containers were told to stop: a picture has few, and is asked often."""
    if fleet not in _answers:
        found = _answers[fleet] = {}
        for event in fleet.events.values():
            if event.reason == "Killing":
                found.setdefault(event.namespace, []).append(event.object_name)
    return _answers[fleet]


def _told(jobset: JobSet, fleet: Fleet) -> list[Event]:
    """Events about the JobSet, its Jobs and its pods; one of the same name before it had others."""
    stem = f"{jobset.name}-"
    return [
        event
        for event in fleet.events.values()
        if event.namespace == jobset.namespace
        and event.last >= jobset.created
        and (event.object_uid == jobset.uid or event.object_name.startswith(stem))
    ]


def _names(jobset: JobSet) -> dict[str, int]:
    """The name of the pod of each rank, as far as it is not random."""
    found = {}
    for (group, job, index), number in places(jobset).items():
        ending = f"-{index}-"
        found[f"{jobset.name}-{group}-{job}"[: _STEM - len(ending)] + ending] = number
    return found


def _deletions(jobset: JobSet, told: Sequence[Event], names: dict[str, int]) -> list[Deletion]:
    restarts = [each for each in told if each.object_uid == jobset.uid and each.reason.startswith("RestartJobSet")]
    by_job = [each for each in told if each.kind == "Job" and each.reason == "SuccessfulDelete"]
    # Of more than ten alike only some are kept as they were: who else was deleted is known until the first of them.
    many = any(each.message.startswith("(combined") for each in by_job)
    ends = [each for each in told if each.kind == "Job" and each.reason in _ENDS] + (by_job if many else [])
    limits: dict[int, float] = {}
    for moment in map(_moment, ends):
        attempt = _attempt(jobset, restarts, moment)
        limits[attempt] = min(moment, limits.get(attempt, float("inf")))
    theirs = {each.message.rpartition(" ")[2] for each in by_job}
    theirs |= {each.object_name for each in told if each.kind == "Pod" and each.reason in _OTHERS}
    seen = _first_seen(told)
    found = []
    for event in told:
        rank = names.get(event.object_name[:-_RANDOM], -1)
        if rank >= 0 and _stopped(event) and event.object_name not in theirs:
            # A pod lives in one attempt; one that nothing else is told of is older than all that is.
            attempt, moment = _attempt(jobset, restarts, seen.get(event.object_name, 0.0)), _moment(event)
            if moment + (_MARGIN if many else 0.0) < limits.get(attempt, float("inf")):
                found.append(Deletion(event.object_name, rank, attempt, moment))
    return found


def _stopped(event: Event) -> bool:
    """Whether a pod's container was told to stop, as it is where its pod goes, not where a probe failed."""
    return event.kind == "Pod" and event.reason == "Killing" and event.message.startswith("Stopping container")


def _first_seen(told: Sequence[Event]) -> dict[str, float]:
    """When each pod was first told of, but for its end."""
    found: dict[str, float] = {}
    for event in told:
        if event.kind == "Pod" and event.reason != "Killing":
            found[event.object_name] = min(_moment(event), found.get(event.object_name, float("inf")))
    return found


def _attempt(jobset: JobSet, restarts: Sequence[Event], moment: float) -> int:
    """The attempt of that moment: the count of restarts but for those that came after."""
    after = sum(
        each.count if _moment(each) >= moment else 1
        for each in restarts
        if _moment(each) >= moment or (each.count > 1 and each.last >= moment)
    )
    return max(0, jobset.restarts - after)


def _moment(event: Event) -> float:
    """When it happened first: its name ends with the nanoseconds, where its times have seconds only."""
    named = _MOMENT.search(event.name)
    exact = int(named[1], 16) / 1e9 if named else 0.0
    return exact if abs(exact - event.first) < 2 else event.first
