"""The health of a job as one word and one sentence, for all screens and commands (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from console.durations import format_duration
from console.kube.objects.jobset import JobSet, JobState
from console.kube.snapshot import Fleet
from console.metrics.alarm import Alarm, AlarmKind
from console.scheduling.pod_slots import first_failure
from console.scheduling.why import Category, Why
from console.scheduling.why_job import why_job

if TYPE_CHECKING:
    from console.metrics.job_progress import JobProgress


class HealthLevel(StrEnum):
    """The urgency of a job's health."""

    GOOD = "well"  # it runs, or has done its work, and nothing is known to be wrong
    WAITS = "waits"  # it waits, starts or ends; nobody has to do anything yet
    LATE = "late"  # something should have happened by now, or takes longer than before
    BAD = "bad"  # something is wrong


class JobHealth(Struct, frozen=True):
    state: str  # where its JobSet is in its life; "diverged", "stalled", "late" or "refused" where that says more
    level: HealthLevel
    words: str = ""  # what is wrong, why it waits, or what it does before its first step, as a phrase; empty: nothing
    alarmed: bool = False  # whether an alarm tells it
    verdict: str = ""  # for whom its ranks wait, or may wait, if that was looked at
    code: int | None = None  # exit code that its program ended with; None: it goes on, or that is not known
    culprit: int | None = None  # index of the pod that failed first; None: none, or not known
    kept: bool = False  # whether its program has ended and its pods go on
    over: bool = False  # whether its JobSet has ended, so that it holds nothing any more


_HEALTH_WORDS = {AlarmKind.NAN: "diverged", AlarmKind.STALL: "stalled"}  # by alarm, the gravest first
_ALARM_KINDS = {word: kind for kind, word in _HEALTH_WORDS.items()} | {"late": AlarmKind.STALL}
STEPLESS_WORDS = {"stalled", "late"}  # for a job that makes no steps, of which nobody can say when it will end
SLOW_RANK_HEALTH = "the others wait for one rank in each step"
_LIVE_STATES = {JobState.STARTING, JobState.RUNNING, JobState.RESTARTING}


def job_health(
    jobset: JobSet,
    fleet: Fleet,
    *,
    alarms: Sequence[Alarm] = (),
    late_message: str = "",
    why_unknown: str = "",
    is_followed: bool = False,
    job_progress: JobProgress | None = None,
    faults: Sequence[str] = (),
    verdict: str = "",
    slow_rank: str = "",
    is_slow_certain: bool = True,
    is_unread: bool = False,
    why: Why | None = None,
) -> JobHealth:
    """The health of a job, from the snapshot, its alarms, and the end of its log (`job_progress`).

    `why_unknown`: the reason why nobody knows whether its next step is late; `late_message`: that it is late, by a
    reader of its steps; `is_followed`: there is such a reader, so times in the log are not needed; `faults`: findings
    of an inspection; `verdict`: the rank that the others wait for; `slow_rank`: the one they wait for in each step,
    surely if `is_slow_certain`; `is_unread`: its log was not read yet; `why`: the known reason of its state.
    """
    state, reason = jobset.state, why or why_job(jobset, fleet)
    if state is JobState.RUNNING and reason.category is Category.STARTING:
        state = JobState.STARTING  # the JobSet's own count of its pods is ahead of them, or behind
    sentence = reason.sentence
    if reason.category is Category.REFUSED:
        return JobHealth("refused", HealthLevel.BAD, f"{sentence}. {reason.next}" if reason.next else sentence)
    if state is JobState.FAILED:
        return _failed_health(jobset, fleet, sentence, job_progress)
    if is_kept(jobset, job_progress):
        assert job_progress is not None
        return _kept_health(jobset, fleet, job_progress, alarms)
    if state in _LIVE_STATES or state is JobState.SUCCEEDED:
        found = _health_by_alarms(state, alarms) or _health_by_log(
            state, late_message, job_progress, why_unknown, followed=is_followed
        )
        if found is None and faults:
            found = JobHealth(state, HealthLevel.BAD, faults[0])
        if found is None and slow_rank and is_slow_certain and state is JobState.RUNNING:
            found = JobHealth(state, HealthLevel.LATE, SLOW_RANK_HEALTH)
        if found is not None:
            by_slow_rank = slow_rank if found.state == JobState.RUNNING and found.level is HealthLevel.LATE else ""
            found = structs.replace(found, verdict=verdict if found.state in STEPLESS_WORDS else by_slow_rank)
            over = state is JobState.SUCCEEDED
            return structs.replace(found, over=over, code=0) if over else found
    if state is JobState.SUCCEEDED:
        return JobHealth(state, HealthLevel.GOOD, code=0, over=True)
    start = job_progress.start if job_progress is not None and job_progress.end is None else None
    phase = start.words(job_progress.at) if job_progress is not None and start else ""
    words = "; ".join(filter(None, (sentence, phase)))
    waits = bool(sentence) or state is not JobState.RUNNING or is_unread
    return JobHealth(state, HealthLevel.WAITS if waits else HealthLevel.GOOD, words, verdict="" if waits else slow_rank)


def is_kept(jobset: JobSet, job_progress: JobProgress | None) -> bool:
    """Whether the job's program has ended, by its log, while its pods still run."""
    end = job_progress.end if job_progress is not None else None
    return end is not None and end.kept and jobset.state in _LIVE_STATES


def _failed_health(jobset: JobSet, fleet: Fleet, why: str, job_progress: JobProgress | None) -> JobHealth:
    """The health of a failed job with the reason in its log, else the pod that failed."""
    first = first_failure(jobset, fleet)
    reason = job_progress.failure if job_progress is not None else ""
    words = "; ".join(filter(None, (reason, (why or jobset.failure).removeprefix("failed: "))))
    code, culprit = (first.exit_code, first.number) if first is not None else (None, None)
    return JobHealth(JobState.FAILED, HealthLevel.BAD, words, code=code, culprit=culprit, over=True)


def _kept_health(jobset: JobSet, fleet: Fleet, job_progress: JobProgress, alarms: Sequence[Alarm]) -> JobHealth:
    end = job_progress.end
    assert end is not None
    state, level = ("failed", HealthLevel.BAD) if end.code else ("succeeded", HealthLevel.LATE)
    reason = job_progress.reason
    if job_progress.nan and not end.code:
        state, level, reason = "diverged", HealthLevel.BAD, job_progress.nan_words
    elif reason:
        level = HealthLevel.BAD
    words = "; ".join(filter(None, (reason, kept_words(jobset, job_progress, fleet.at))))
    alarmed = any(each.is_active and each.kind in {AlarmKind.KEPT, AlarmKind.NAN, AlarmKind.BUSBW} for each in alarms)
    culprit = end.pod if end.code else None
    return JobHealth(state, level, words, alarmed and not end.code, code=end.code, culprit=culprit, kept=True)


def why_end_unknown(health: JobHealth) -> str:
    """The reason why the job's end cannot be forecast (stalled, kept, diverged); empty if it ends by itself."""
    if health.kept:
        return f"{health.state}, pods kept"
    return health.state if health.state in STEPLESS_WORDS or health.state == "diverged" else ""


def kept_words(jobset: JobSet, job_progress: JobProgress, now: float) -> str:
    """The idle time of an ended job's GPUs: "pods kept, 16 GPUs idle since 12 min"; empty if its end is unknown."""
    end = job_progress.end
    if end is None:
        return ""
    if job_progress.in_use:
        return "pods kept, in use"
    since = format_duration(max(0.0, max(now, job_progress.at) - end.time))
    # A pod that failed tells no other: these may wait for it in a collective.
    how = "held" if end.pod and end.code else "idle"
    return f"pods kept, {jobset.gpus} GPUs {how} since {since}" if jobset.gpus else f"pods kept since {since}"


def alarm_kind_of_health(health: JobHealth) -> AlarmKind | None:
    """The alarm kind that matches the job's health, for the choice of a next step; None if there is none."""
    if health.kept:
        return AlarmKind.KEPT
    slower = health.state == JobState.RUNNING and health.level is HealthLevel.LATE
    return AlarmKind.SPIKE if slower else _ALARM_KINDS.get(health.state)


def _health_by_alarms(state: JobState, alarms: Sequence[Alarm]) -> JobHealth | None:
    lasting = [each for each in alarms if each.is_active]
    for kind, word in _HEALTH_WORDS.items():
        found = next((each for each in lasting if each.kind is kind), None)
        if found is not None and (state in _LIVE_STATES or kind is AlarmKind.NAN):
            return JobHealth(word, HealthLevel.BAD, found.words, alarmed=True)
    return JobHealth(state, HealthLevel.BAD, lasting[-1].words, alarmed=True) if lasting else None


def _health_by_log(
    state: JobState, late: str, job_progress: JobProgress | None, why_unknown: str, *, followed: bool
) -> JobHealth | None:
    if job_progress is not None and job_progress.nan:
        return JobHealth("diverged", HealthLevel.BAD, job_progress.nan_words)
    if job_progress is not None and job_progress.fault:
        return JobHealth(state, HealthLevel.BAD, job_progress.fault)
    if state not in _LIVE_STATES:
        return None
    if late or why_unknown:
        return JobHealth("late", HealthLevel.LATE, late) if late else JobHealth(state, HealthLevel.WAITS, why_unknown)
    if job_progress is not None and job_progress.late_text and not followed:
        return (
            JobHealth("stalled", HealthLevel.BAD, job_progress.late_text)
            if job_progress.is_stalled
            else JobHealth("late", HealthLevel.LATE, job_progress.late_text)
        )
    return (
        JobHealth(state, HealthLevel.LATE, job_progress.slower)
        if job_progress is not None and job_progress.slower
        else None
    )
