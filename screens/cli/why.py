"""The command `a4 why`: why a job failed, or why it does not run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import asdict

from console.errors import NotAllowed, NotFound
from console.kube.find_job import find_job, require_jobs
from console.kube.objects.jobset import JobState
from console.launch.run_record import Outcome
from console.metrics.health import job_health
from console.scheduling.why_answer import WAIT_KINDS, Category
from console.scheduling.why_job import why_jobset
from screens.cli.alarm_words import alarm_json
from screens.cli.arguments import Command, Commands, Options, json_flag, word
from screens.cli.connect import open_session
from screens.cli.output import print_hint, print_json

if TYPE_CHECKING:
    from console.kube.objects.jobset import JobSet
    from console.metrics.alarm_rules import Alarm
    from console.metrics.health import Health
    from console.scheduling.why_answer import Why
    from console.session import Session


LISTENS = 3.0
"""Seconds for which a job that runs is listened to: what its log tells is known by then, a stall is not."""


async def why(options: WhyOptions) -> int:
    """Print the card of the first failure, and why the job is as it is now."""
    async with open_session(options, (*WAIT_KINDS, "jobsets", "pods", "nodes", "events"), brief=True) as session:
        fleet = session.fleet
        card = await session.logs.first_failure(session.namespace, options.job)
        job = fleet.jobsets.get((session.namespace, options.job))
        if job is None and card is None:
            await _require_unknown(session, options.job)
            find_job(fleet, session.namespace, options.job)
        reason = why_jobset(job, session.fleet) if job else None
        sentence = reason.sentence if reason else "is not in the cluster any more"
        alarms: tuple[Alarm, ...] = ()
        refused, health = "", None
        if job and not sentence:
            alarms, refused, health = await _looked_at(session, job)
        if options.json:
            health = health or (job_health(job, session.fleet) if job else None)
            told = {"namespace": session.namespace, "name": options.job, "state": health.state if health else None,
                    "phase": job.state if job else None, "health": asdict(health) if health else None,
                    "next": reason.next if reason else "", "removed": (job.removed_at or None) if job else None,
                    "why": sentence or (health.words if health else ""),
                    "card": msgspec.to_builtins(card) if card else None,
                    "alarms": [alarm_json(session, each) for each in alarms]}  # fmt: skip
            print_json(told)
            return _code(reason)
        for line in card.text_lines() if card else ():
            print_hint(line)
        if card is None or (job and job.state is not JobState.FAILED):
            print_hint(f"{options.job} {sentence or (_words(health, refused) if health else 'is done')}.")
            if reason is not None and reason.next:
                print_hint(f"{reason.next}.")
            for alarm in alarms[-1:]:
                more = f"{alarm.more[0].upper()}{alarm.more[1:]}. " if alarm.more else ""
                print_hint(f"{more}{alarm.next_step}.")
    return _code(reason)


def _code(reason: Why | None) -> int:
    """That of a refusal where the account may not see why."""
    return NotAllowed.exit_code if reason is not None and reason.category is Category.NOT_ALLOWED else 0


async def _require_unknown(session: Session, name: str) -> None:
    """NotFound with the end of its latest run, if the history has one of a job that is in the cluster no longer."""
    where = session.namespace, session.watch.server
    known = [
        run for run in await session.launch.runs.all() if run.name == name and (run.namespace, run.server) == where
    ]
    if not known:
        return
    require_jobs(session.fleet, f"Whether there is a job {name} in namespace {session.namespace}")
    run = max(known, key=lambda each: (each.launched, each.number))
    why = run.why.rstrip(".")
    if run.open:
        how = "how it ended is not known"
    elif run.outcome is Outcome.UNKNOWN and why:
        how = f"{why[0].lower()}{why[1:]}"
    else:
        how = run.how
    raise NotFound(
        f"{name} is no longer in the cluster (run {run.number}): {how}.",
        f"a4 history {run.number} has more, and a4 logs {name} what was kept of its log.",
    )


async def _looked_at(session: Session, job: JobSet) -> tuple[tuple[Alarm, ...], str, Health]:
    """Alarms of a job that nothing keeps from running, and why it cannot be heard; else the end of its log."""
    alarms: tuple[Alarm, ...] = ()
    refused = late = ""
    if not job.finished:
        session.watch.keep_watching()
        heard = await session.alarms.check_job(*job.key, LISTENS)
        alarms, refused, late = heard.alarms, heard.refused, heard.late
    else:
        await session.measures.glancing.poll([job.key])
    glance = session.measures.glancing.of(job.uid)
    return alarms, refused, job_health(job, session.fleet, alarms=alarms, late=late, glance=glance)


def _words(health: Health, refused: str) -> str:
    """How it is, after its name."""
    state = {JobState.RUNNING: "runs", JobState.SUCCEEDED: "is done", "diverged": "diverged"}.get(
        health.state, f"is {health.state}"
    )
    if health.words:
        return f"{state}{', but ' if health.state == JobState.RUNNING else ': '}{health.words}"
    if refused:
        return f"{state}; its log cannot be read: {refused.rstrip('.')}"
    known = health.state == JobState.SUCCEEDED
    return state if known else f"{state}, and no alarm in {LISTENS:g} s (a4 alarms watches longer)"


@dataclass(frozen=True, slots=True, kw_only=True)
class WhyOptions(Options):
    job: str = word("JOB")
    json: bool = json_flag()


COMMANDS: Commands = {
    "why": Command(
        why,
        WhyOptions,
        epilog="JSON: namespace, name, state and phase (as of a4 jobs), why (one sentence), card (what ended badly "
        "first; null if nothing did: first: rank: index of the pod, pod, node, exit_code, reason, time, …; others, "
        "lines: the last of its log, named: failures in it, with kind, text, line, rank, host, hint, times), alarms "
        "(of a job that runs: kind, words, time, …; it is watched for 3 s, longer by a4 alarms). See a4 --help for "
        "exit codes.",
    ),
}
