"""Finds the failure that ended a job or an attempt: the rank that failed first, its cause and node, its last output.

Events tell pods that a person deleted from those that controllers delete. Events expire after an hour, and of many
alike only some are stored, so nothing may be found.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from console.kube.objects.jobset import JobSet, JobState
from console.kube.objects.meta import condition
from console.kube.objects.node import Node
from console.kube.objects.pod import Pod
from console.kube.snapshot import Fleet, per_snapshot
from console.scheduling.kueue_messages import preempted_by

if TYPE_CHECKING:
    from console.kube.objects.event import Event
    from trainlog import LogFailure


_MAX_NAME_STEM = 58  # letters of the name of a pod before its random ones, at most
_RANDOM_SUFFIX_LENGTH = 5
_CLOCK_MARGIN = 0.2  # seconds by which the clocks of machines may differ
_JOB_END_REASONS = {"BackoffLimitExceeded", "PodFailurePolicy", "DeadlineExceeded"}
"""Reasons of the Job controller's events when a Job fails, after which controllers delete its pods."""
_EVICTION_REASONS = {"Evicted", "Preempted", "Preempting", "TaintManagerEviction", "NodeShutdown"}
"""Reasons of events about a pod that was removed by a controller or the kubelet, not by a person."""
_MOMENT_IN_NAME = re.compile(r"\.([0-9a-f]{15,16})$")


def first_deletion(jobset: JobSet, fleet: Fleet) -> PodFailure | None:
    """The pod deleted first, in the latest attempt with a deletion; None if none is known."""
    if jobset.deletion_asked_at or jobset.state is JobState.SUCCEEDED:
        return None
    stem = f"{jobset.name}-"
    if not any(name.startswith(stem) for name in _killed_pods(fleet).get(jobset.namespace, ())):
        return None
    found = _find_deletions(jobset, _events_of_job(jobset, fleet), _ranks_by_prefix(jobset))
    latest = max((each.attempt for each in found), default=0)
    first = min((each for each in found if each.attempt == latest), key=lambda each: each.time, default=None)
    pod = fleet.pods.get((jobset.namespace, first.pod)) if first else None
    # Containers end in whole seconds, and a deletion is what ends them.
    return replace(first, node=pod.node if pod else "", time=float(int(first.time))) if first else None


@per_snapshot
def _killed_pods(fleet: Fleet) -> dict[str, list[str]]:
    """Names of pods whose containers were asked to stop (events of reason Killing), by namespace."""
    found: dict[str, list[str]] = {}
    for event in fleet.events.values():
        if event.reason == "Killing":
            found.setdefault(event.namespace, []).append(event.object_name)
    return found


def _events_of_job(jobset: JobSet, fleet: Fleet) -> list[Event]:
    """Events about the JobSet, its Jobs and pods, without those of an earlier JobSet of the same name."""
    stem = f"{jobset.name}-"
    return [
        event
        for event in fleet.events.values()
        if event.namespace == jobset.namespace
        and event.last >= jobset.created
        and (event.object_uid == jobset.uid or event.object_name.startswith(stem))
    ]


def _ranks_by_prefix(jobset: JobSet) -> dict[str, int]:
    """Rank numbers by the constant prefix of the names of each rank's pods."""
    found = {}
    for (group, job, index), number in jobset.pod_indexes.items():
        ending = f"-{index}-"
        found[f"{jobset.name}-{group}-{job}"[: _MAX_NAME_STEM - len(ending)] + ending] = number
    return found


def _find_deletions(jobset: JobSet, events: Sequence[Event], names: dict[str, int]) -> list[PodFailure]:
    restarts = [each for each in events if each.object_uid == jobset.uid and each.reason.startswith("RestartJobSet")]
    by_job = [each for each in events if each.kind == "Job" and each.reason == "SuccessfulDelete"]
    # Of more than ten alike only some are kept as they were: who else was deleted is known until the first of them.
    many = any(each.message.startswith("(combined") for each in by_job)
    ends = [each for each in events if each.kind == "Job" and each.reason in _JOB_END_REASONS] + (
        by_job if many else []
    )
    first_last = sorted(map(_time_of_event, ends), reverse=True)
    limits = {_attempt_at(jobset, restarts, moment): moment for moment in first_last}
    theirs = {each.message.rpartition(" ")[2] for each in by_job}
    theirs |= {each.object_name for each in events if each.kind == "Pod" and each.reason in _EVICTION_REASONS}
    lives = sorted((each for each in events if each.kind == "Pod" and each.reason != "Killing"), key=_time_of_event)
    seen = {each.object_name: _time_of_event(each) for each in reversed(lives)}
    found = []
    for event in events:
        rank = names.get(event.object_name[:-_RANDOM_SUFFIX_LENGTH], -1)
        stopped = event.kind == "Pod" and event.reason == "Killing" and event.message.startswith("Stopping container")
        if rank >= 0 and stopped and event.object_name not in theirs:  # stopped: its pod goes; not: a probe failed
            # A pod lives in one attempt; one without any other record is older than all that have one.
            attempt, moment = _attempt_at(jobset, restarts, seen.get(event.object_name, 0.0)), _time_of_event(event)
            if moment + (_CLOCK_MARGIN if many else 0.0) < limits.get(attempt, float("inf")):
                ending = PodFailure(
                    attempt, rank, event.object_name, message=POD_DELETED, time=moment, cause="deletion"
                )
                found.append(replace(ending, uid=event.object_uid))
    return found


def _attempt_at(jobset: JobSet, restarts: Sequence[Event], moment: float) -> int:
    """The number of the attempt that ran at a time: all restarts less those after it."""
    after = sum(
        each.count if _time_of_event(each) >= moment else 1
        for each in restarts
        if _time_of_event(each) >= moment or (each.count > 1 and each.last >= moment)
    )
    return max(0, jobset.restarts - after)


def _time_of_event(event: Event) -> float:
    """The first time of an event, in nanoseconds as in its name; its timestamps have whole seconds."""
    named = _MOMENT_IN_NAME.search(event.name)
    exact = int(named[1], 16) / 1e9 if named else 0.0
    return exact if abs(exact - event.first) < 2 else event.first


_SIGNAL_NAMES = {
    129: "SIGHUP",
    130: "SIGINT",
    134: "SIGABRT",
    135: "SIGBUS",
    136: "SIGFPE",
    137: "SIGKILL",
    139: "SIGSEGV",
    143: "SIGTERM",
}
_EVICTION_WORDS = {
    "Evicted",
    "NodeLost",
    "NodeShutdown",
    "Terminated",
    "DeletionByTaintManager",
    "TerminationByKubelet",
    "EvictionByEvictionAPI",
    "DeletionByPodGC",
}
_PREEMPTION_REASONS = {"Preempting", "Preempted", "PreemptionByScheduler"}
_CAUSE_WORDS = {"failure": "failed first", "eviction": "was evicted first", "preemption": "was preempted first"}
_MAX_NAMED_FAILURES = 4  # failures of its log that a card tells
POD_DELETED = "A user or a controller deleted its pod: its containers ran until they received SIGTERM."


class PodFailure(Struct, frozen=True):
    """The failure of a rank's pod; stored on disk, since pods are deleted."""

    attempt: int
    rank: int  # -1: all ranks at once, as when Kueue takes a job's place away
    pod: str = ""
    node: str = ""
    reason: str = ""
    message: str = ""
    exit_code: int | None = None
    time: float = 0.0
    cause: str = "failure"  # failure, eviction, preemption or deletion
    node_notes: tuple[str, ...] = ()  # what the node reported then: faults, maintenance
    uid: str = ""  # the pod's: a pod that is made in its place has the same rank and attempt

    @property
    def exit_text(self) -> str:
        """Exit code and reason: "exit code 137 (SIGKILL), OOMKilled"; or that the pod was deleted."""
        if self.cause == "deletion":
            return f"its pod was {self._deletion_words}"
        reason = self.reason if self.reason not in {"", "Error"} else ""
        return ", ".join(each for each in (self._exit_words, reason) if each) or "no reason given"

    @property
    def _exit_words(self) -> str:
        signal = _SIGNAL_NAMES.get(self.exit_code or 0, "")
        return f"exit code {self.exit_code}{f' ({signal})' if signal else ''}" if self.exit_code is not None else ""

    @property
    def _deletion_words(self) -> str:
        return f"deleted ({self._exit_words})" if self._exit_words else "deleted"

    @property
    def sentence(self) -> str:
        who = f"Pod {self.rank}" if self.rank >= 0 else "The job"
        where = f" on {self.node}" if self.node else ""
        when = f", {datetime.fromtimestamp(self.time).astimezone():%H:%M:%S}" if self.time else ""
        attempt = f", attempt {self.attempt + 1}" if self.attempt else ""
        if self.cause == "deletion":
            return f"{who if self.rank >= 0 else 'A pod of the job'} was {self._deletion_words}{where}{when}{attempt}."
        if self.rank < 0:
            how = "preempted" if self.cause == "preemption" else f"evicted ({self.exit_text})"
            return f"{who} was {how}{when}{attempt}."
        return f"{who} {_CAUSE_WORDS[self.cause]}: {self.exit_text}{where}{when}{attempt}."


class FailureCard(Struct, frozen=True):
    """The facts about the first failure of a job's attempt."""

    first: PodFailure
    others: tuple[int, ...] = ()  # ranks that ended badly after it, in the order of time
    lines: tuple[str, ...] = ()  # what the rank printed last
    named: tuple[LogFailure, ...] = ()
    """Failures that the rank's log names, with counts of their lines in the part of the log that was read."""
    unread: str = ""  # why its log is not here though its pod may have one

    def text_lines(self) -> list[str]:
        """The card as lines of text; the first line is the main sentence."""
        first = self.first
        parts = [first.sentence]
        parts += [first.message] if first.message else []
        parts += [f"Node: {note}" for note in first.node_notes]
        parts += [f"{each.sentence}. {each.hint}".rstrip() for each in self.named[:_MAX_NAMED_FAILURES]]
        unnamed = len(self.named) - _MAX_NAMED_FAILURES
        parts += [f"Its log contains {unnamed} more."] if unnamed > 0 else []
        if self.unread:
            parts.append(f"{self.unread}.")
        elif first.cause == "deletion" and not self.lines:
            parts.append("No log of that pod is known.")
        if self.others:
            more = f" and {len(self.others) - 8} more" if len(self.others) > 8 else ""
            pods = f"pod{'s' if len(self.others) > 1 else ''} {', '.join(map(str, self.others[:8]))}"
            parts.append(f"After it: {pods}{more}.")
        if self.lines:
            many = f"{len(self.lines)} lines" if len(self.lines) > 1 else "line"
            parts.append(f"The last {many} of the log of {f'pod {first.rank}' if first.rank >= 0 else first.pod}:")
        return parts + [f"  {line}" for line in self.lines]


def rank_failures(jobset: JobSet, fleet: Fleet) -> list[PodFailure]:
    """All failures of ranks in the snapshot, earliest first."""
    indexes = jobset.pod_indexes
    found = []
    for pod in fleet.pods_by_jobset.get(jobset.uid, ()):
        ending = _failure_of_pod(pod, indexes.get(pod.place, -1), fleet.nodes.get(("", pod.node)), fleet.at)
        if ending is not None:
            found.append(ending)
    found += [each for each in (_last_eviction(jobset, fleet), first_deletion(jobset, fleet)) if each]
    return sorted(deduplicate(found), key=_sort_key)


def deduplicate(failures: list[PodFailure]) -> list[PodFailure]:
    """The failures without duplicates; a deletion and the exit that it caused become one failure."""
    once = {(each.attempt, each.rank, each.pod, each.cause): each for each in failures}
    for each in [each for each in once.values() if each.cause == "deletion"]:
        ended = once.pop((each.attempt, each.rank, each.pod, "failure"), None)
        if ended is not None:
            once[each.attempt, each.rank, each.pod, each.cause] = replace(
                ended, cause=each.cause, time=each.time, message=each.message
            )
    return list(once.values())


def _sort_key(failure: PodFailure) -> tuple[int, float, bool, int]:
    """Sort key: attempt, then time; at the same second a deletion precedes the exits that it causes."""
    return failure.attempt, failure.time or float("inf"), failure.cause != "deletion", failure.rank


def _failure_of_pod(pod: Pod, rank: int, node: Node | None, now: float) -> PodFailure | None:
    bad = min(
        (each for each in pod.containers if each.state == "terminated" and each.exit_code),
        key=lambda each: each.finished_at,
        default=None,
    )
    if bad is None and pod.phase != "Failed" and not pod.disruption:
        return None
    why = pod.disruption or pod.reason
    cause = "eviction" if why in _EVICTION_WORDS else "preemption" if why in _PREEMPTION_REASONS else "failure"
    return PodFailure(
        pod.attempt,
        rank,
        pod.name,
        pod.node,
        why or (bad.reason if bad else ""),
        pod.message or pod.disruption_message or (bad.message if bad else ""),
        bad.exit_code if bad else None,
        bad.finished_at if bad else pod.disrupted_at,
        cause,
        _node_notes(node, now),
        pod.uid,
    )


def _node_notes(node: Node | None, now: float) -> tuple[str, ...]:
    """Conditions and faults of a node that may end a pod."""
    if node is None:
        return ()
    due = datetime.fromtimestamp(node.maintenance_at).astimezone()
    return (*node.faults(now), *([f"maintenance due {due:%Y-%m-%d %H:%M}"] if node.maintenance_at else ()))


def _last_eviction(jobset: JobSet, fleet: Fleet) -> PodFailure | None:
    """Kueue's last eviction of this job, if it happened since the job was created; None if none did."""
    workload = fleet.workload_of(jobset)
    evicted = condition(workload.conditions, "Evicted") if workload else None
    if evicted is None or not evicted.is_true:
        return None
    cause, message = "eviction", evicted.message
    if workload is not None and evicted.reason == "Preempted":
        cause, (other, why) = "preemption", preempted_by(workload, fleet)
        message = f"Kueue preempted it for {other}{f': {why}' if why else ''}." if other else message
    return PodFailure(jobset.restarts, -1, reason=evicted.reason, message=message, time=evicted.since, cause=cause)


def first_of_latest_attempt(failures: list[PodFailure]) -> tuple[PodFailure, tuple[int, ...]] | None:
    """(first failure of the latest attempt that has one, ranks that failed after it); None if there is no failure."""
    if not failures:
        return None
    attempt = max(each.attempt for each in failures)
    of = sorted((each for each in failures if each.attempt == attempt), key=_sort_key)
    return of[0], tuple(dict.fromkeys(each.rank for each in of[1:] if each.rank not in {of[0].rank, -1}))
