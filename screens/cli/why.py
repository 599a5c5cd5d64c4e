"""`a4 why`: why a job failed or does not run."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec
from msgspec import structs
from msgspec.structs import asdict

from console.errors import NotAllowed, NotFound
from console.kube.find_job import find_job, require_listed
from console.kube.gpu_pods import gpu_pod_selectors
from console.kube.objects.jobset import JobSet, JobState
from console.kube.snapshot import Fleet
from console.launch.run_record import Outcome
from console.metrics.alarm import INSPECTED_PREFIX, Alarm, AlarmKind, AlarmReport, next_step
from console.metrics.health import STEPLESS_WORDS, HealthLevel, JobHealth, alarm_kind_of_health
from console.scheduling.expected_start import ExpectedStart
from console.scheduling.kueue_snapshot import workload_of_job
from console.scheduling.what_if import next_victims
from console.scheduling.why import JOB_KINDS, Category, Why
from console.scheduling.why_job import why_job
from console.scheduling.why_workload import why_workload
from screens.cli.arguments import Command, Commands, Options, json_flag, word
from screens.cli.job_arguments import alarm_json, health_code
from screens.cli.lists import (
    SELECTORS_OF_JOBS,
    expected_starts,
    import_readers,
    list_pods_of,
    read_diagnoses,
    wait_with_pods,
)
from screens.cli.open_session import Connect, open_session
from screens.cli.output import print_hint, print_json
from screens.columns.jobs import JobLine, start_json, start_words
from screens.columns.live_jobs import with_diagnoses
from screens.sanitize import one_line

if TYPE_CHECKING:
    from console.kube.objects.workload import Workload
    from console.session import Session


LIVE_LOG_SECONDS = 3.0
"""Seconds for which the log of a running job is followed before its health is judged."""
FINISHED_LOG_TIMEOUT = 5.0  # seconds that reading the end of the log of a job that is done may take

MAX_NAMED_AHEAD = 4
"""Maximum number of jobs ahead in the queue that are named."""


async def why(options: WhyOptions, connect: Connect = open_session) -> int:
    only, ahead = SELECTORS_OF_JOBS, import_readers
    async with connect(options, JOB_KINDS, waits=False, is_brief=True, selectors=only, ahead=ahead) as session:
        await wait_with_pods(session, lambda: _list_pods(session, options.job))
        fleet = session.fleet
        job = fleet.jobsets.get((session.namespace, options.job))
        other = workload_of_job(fleet, session.namespace, options.job) if job is None else None
        start = await _expected_start(session, job, other)
        reason = why_job(job, fleet, start) if job else why_workload(other, fleet, start) if other else None
        sentence = reason.sentence if reason else "is not in the cluster any more"
        card, (report, line) = await asyncio.gather(
            session.logs.first_failure(session.namespace, options.job),
            _read_health(session, job, start, reads_log=not sentence or (job is not None and job.finished)),
        )
        health = line.health if line is not None else None
        order, preempted = _preempted_next(fleet, job) if job is not None else (0, "")
        if job is None and other is None and card is None:
            await _raise_if_gone(session, options.job)
            find_job(fleet, session.namespace, options.job)
        waits = fleet.workload_of(job) if job is not None else other
        if options.json:
            shown = {
                "namespace": session.namespace,
                "name": options.job,
                "state": health.state if health else None,
                "phase": job.state if job else other.state if other else None,
                "health": asdict(health) if health else None,
                "next": (reason.next if reason else "") or " ".join(_rank_advice(line)),
                "removed": (job.removed_at or None) if job else None,
                "expected_start": start_json(start, fleet.at) if start else None,
                "preempted_next": order or None,
                "why": (health.words if health and _explains_more(health, sentence) else "") or sentence,
                "kueue_says": why_workload(waits, fleet).api_text if waits else "",
                "doing": report.phase_text,
                "card": msgspec.to_builtins(card) if card else None,
                "alarms": [alarm_json(session, each) for each in report.alarms],
            }
            print_json(shown)
            return _exit_code(reason, health)
        if other is not None and reason is not None:
            _print_workload(options.job, other, reason)
        now = job is not None and job.state is not JobState.FAILED
        if job is not None:
            text = _words(health, report) if health is not None and _explains_more(health, sentence) else ""
            print_hint(f"{options.job} {text or f'is {job.state}: {sentence}'}.")
            if preempted:
                print_hint(preempted)
            await session.watch.me()  # without it nobody is "you"
            for words in _next_steps(session, options.job, reason, line, report):
                print_hint(words)
        _print_start(reason, start, fleet.at)
        if card is not None:
            for words in (*(["What ended badly before that:"] if now else []), *card.text_lines()):
                print_hint(words)
    return _exit_code(reason, health)


async def _list_pods(session: Session, name: str) -> None:
    job = session.fleet.jobsets.get((session.namespace, name))
    if job is not None and job.finished:  # what others hold has no part in it
        await list_pods_of(session, [job])
    else:
        await session.watch.set_selector("pods", gpu_pod_selectors)


def _explains_more(health: JobHealth, sentence: str) -> bool:
    """Whether the job's health explains more than the reason why it does not run."""
    return health.over or not sentence or health.state in STEPLESS_WORDS


def _print_start(reason: Why | None, expected_start: ExpectedStart | None, now: float) -> None:
    """Print the position of a waiting job, the jobs ahead of it in its ClusterQueue, and its expected start."""
    if reason is not None and reason.ahead:
        ahead = ", ".join(reason.ahead[:MAX_NAMED_AHEAD]) + (" …" if len(reason.ahead) > MAX_NAMED_AHEAD else "")
        print_hint(f"Position {reason.position} in its ClusterQueue, after {ahead}.")
    if expected_start is not None:
        print_hint(f"Start: {start_words(expected_start, now)}.")


def _print_workload(name: str, workload: Workload, reason: Why) -> None:
    """Print why a workload waits that belongs to no JobSet."""
    words = f": {reason.sentence}" if reason.sentence else ""
    kind = workload.owner_kind if workload.owner_name else "group of pods"
    print_hint(f"{name} ({kind}) is {workload.state}{words}.")
    if reason.next:
        print_hint(f"{reason.next}.")


async def _expected_start(session: Session, job: JobSet | None, workload: Workload | None) -> ExpectedStart | None:
    workload = workload if workload is not None and workload.is_waiting else None
    if job is not None and job.state is JobState.PENDING:
        workload = session.fleet.workload_of(job)
    return (await expected_starts(session)).get(workload.key) if workload is not None else None


def _preempted_next(fleet: Fleet, job: JobSet) -> tuple[int, str]:
    """(position among the workloads that Kueue would preempt next, 0 for none; a sentence on it) of a running job."""
    found = next_victims(fleet) if job.state in {JobState.STARTING, JobState.RUNNING} else None
    if found is None or job.key not in found.victims:
        return 0, ""
    order = found.victims.index(job.key) + 1
    more = f"for more jobs of priority {found.priority} in queue {found.queue}, where {found.job} waits"
    return order, f"{job.name} is number {order} of those that Kueue would preempt {more}."


def _exit_code(reason: Why | None, health: JobHealth | None) -> int:
    """The exit code: that of NotAllowed if reading the reason is forbidden, else by the job's health."""
    if reason is not None and reason.category is Category.NOT_ALLOWED:
        return NotAllowed.exit_code
    return health_code(health) if health is not None else 0


def _rank_advice(line: JobLine | None) -> tuple[str, ...]:
    """The advice on the slow or late rank of a job; empty if no such rank is known."""
    known = line.reported_slow_rank if line is not None else None
    return known.advice if known is not None else ()


def _next_steps(
    session: Session, name: str, reason: Why | None, line: JobLine | None, report: AlarmReport
) -> Iterator[str]:
    health = line.health if line is not None else None
    if reason is not None and reason.next:
        yield f"{reason.next}."
    verdict = health.verdict if health is not None else ""
    if health is not None and health.level is HealthLevel.GOOD and health.words:
        yield f"a4 hang {name} shows where its processes are."
    kind = alarm_kind_of_health(health) if health is not None else None
    found, words = f"{INSPECTED_PREFIX}{verdict}" if verdict else "", ""
    if advice := _rank_advice(line):
        words = " ".join(advice)
    elif report.alarms:
        alarm = report.alarms[-1]
        more = f"{alarm.more[0].upper()}{alarm.more[1:]}. " if alarm.more else ""
        kind = AlarmKind.KEPT if alarm.kind is AlarmKind.FAILED else alarm.kind  # what failed first is above
        words = f"{more}{next_step(structs.replace(alarm, kind=kind, more=found or alarm.more), session.watch)}."
    elif kind is not None:
        held = line.jobset.gpus if line is not None and line.health.kept else 0
        words = f"{next_step(Alarm(kind, '', 0.0, session.namespace, name, more=found, held=held), session.watch)}."
    if verdict and verdict not in words:
        yield f"{verdict}."
    yield from advice or filter(None, [words])


async def _raise_if_gone(session: Session, name: str) -> None:
    """Raise NotFound with the outcome of the latest run if the job is gone and the history knows it."""
    where = session.namespace, session.watch.server
    known = [
        run
        for run in await session.launch.runs.list_runs()
        if run.name == name and (run.namespace, run.server) == where
    ]
    if not known:
        return
    require_listed(session.fleet, "jobsets", f"Whether there is a job {name} in namespace {session.namespace}")
    run = max(known, key=lambda each: (each.launched, each.number))
    why = run.why.rstrip(".")
    if run.is_open:
        how = "how it ended is not known"
    elif run.outcome is Outcome.UNKNOWN and why:
        how = f"{why[0].lower()}{why[1:]}"
    else:
        how = run.mode_words
    raise NotFound(
        f"{name} is no longer in the cluster (run {run.number}): {how}.",
        f"a4 history {run.number} has more, and a4 logs {name} what was kept of its log.",
    )


async def _read_health(
    session: Session, job: JobSet | None, expected_start: ExpectedStart | None, *, reads_log: bool
) -> tuple[AlarmReport, JobLine | None]:
    """(alarms, row of the job, None without it), by its live log if it runs, by the log's end if it ended or starts."""
    report = AlarmReport()
    if job is None:
        return report, None
    if reads_log and not job.finished:
        session.watch.follow_event.set()
        await read_diagnoses(session)
        report = await session.alarms.check_job(*job.key, LIVE_LOG_SECONDS)
    if report.progress is None and not report.refused and job.state is not JobState.PENDING:
        with suppress(TimeoutError):  # then it is not known to have ended otherwise than well
            async with asyncio.timeout(FINISHED_LOG_TIMEOUT):
                await session.measures.progress_reader.update([job.key])
        report = structs.replace(report, progress=session.measures.progress_reader.progress_of(job.uid))
    how = (report.progress, report.alarms, report.late_message, report.follows_steps)
    line = JobLine(job, session.fleet, *how, expected_start=expected_start)
    return report, with_diagnoses(session, line)


def _words(health: JobHealth, report: AlarmReport) -> str:
    state = {JobState.RUNNING: "runs", JobState.SUCCEEDED: "succeeded", "diverged": "diverged"}.get(
        health.state, f"is {health.state}"
    )
    if health.state == JobState.FAILED or health.kept:
        return health.words if health.words.startswith(health.state) else f"{health.state}: {health.words}"
    if health.words and health.level is not HealthLevel.GOOD:
        return f"{state}{', but ' if health.state == JobState.RUNNING else ': '}{health.words}"
    if report.refused:
        return f"{state}; its log cannot be read: {report.refused.rstrip('.')}"
    if report.unread_reason:
        return f"{state}; {report.unread_reason}, so whether it makes steps is not known (a4 alarms watches longer)"
    if doing := report.phase_text or health.words:
        return f"{state}, and has made no step: {one_line(doing)}"
    known = health.state == JobState.SUCCEEDED
    return state if known else f"{state}, and no alarm in {LIVE_LOG_SECONDS:g} s (a4 alarms watches longer)"


class WhyOptions(Options):
    job: str = word("JOB")
    json: bool = json_flag()


COMMANDS: Commands = {
    "why": Command(
        why,
        WhyOptions,
        description="Why a job does not run, or what ended it: a JobSet, or any other that waits in a queue of Kueue "
        "(a Job, a pod, a group of pods, …), of which the Workload tells why it waits.",
        epilog="JSON: namespace, name, state and phase (as of a4 jobs; of what is no JobSet the state of its Workload, "
        "and state is null), why (one sentence), kueue_says (Kueue's own message, where it waits for Kueue), "
        "doing (what a job does that has made no step, by its log), "
        "preempted_next (1: it is the first that Kueue would preempt for more jobs as the waiting one of the highest "
        "priority; null: it is none of them), card (what ended badly "
        "first; null if nothing did: first: rank: index of the pod, pod, node, exit_code, reason, time, …; others, "
        "lines: the last of its log, named: failures in it, with kind, text, line, rank, host, hint, times), alarms "
        "(of a job that runs: kind, words, time, …; it is watched for 3 s, for 6 s where its step is late "
        "by its log, and longer by a4 alarms). See a4 --help for exit codes.",
    )
}
