"""What is said above a job, and what its parts wait for (pure)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from console.models.alarm import GLYPH, AlarmKind
from console.models.command_words import in_namespace
from console.models.health import Level
from console.models.job import JobState
from console.models.ranks import first_failure
from screens import wording
from screens.widgets.job_line import attempt_cell, failure_words, place_words, ranks_cell, reasons, state_cell
from screens.widgets.line import runs_of
from screens.wording import Run

if TYPE_CHECKING:
    from console.models.event import Event
    from console.models.job import JobSet
    from console.models.pod import Pod
    from screens.widgets.job_line import JobLine
    from screens.widgets.listing import RowKey
    from screens.wording import Cell


def head(line: JobLine | None, key: tuple[str, str], *, gone: bool, short: bool = False, now: float = 0.0) -> list[Run]:
    """State and numbers of a job in one line; `short` leaves out who and where. Its age is that at `now`, or in the
    picture if that is later; a job that is gone ages no more.
    """
    if line is None:
        return [Run("◐ ", "waits"), Run(f"{key[1]} ", "strong"), Run(f"in {key[0]}: not seen yet", "dim")]
    jobset = line.jobset
    runs = [Run("○ ", "dim"), Run("gone", "dim")] if gone else runs_of(state_cell(line))
    at = line.fleet.at if gone else max(now, line.fleet.at)
    parts: list[tuple[str, Cell]] = [
        ("", Run(jobset.name, "strong")),
        ("", jobset.recipe or "JobSet"),
        ("pods", ranks_cell(line)),
        ("GPUs", str(jobset.gpus)),
        ("try", attempt_cell(line)),
        ("queue", jobset.queue or "none"),
        ("priority", jobset.priority_class),
        ("owner", line.owner),
        ("age", wording.age(at - jobset.created) if jobset.created else ""),
        ("removed in", wording.age(max(0.0, jobset.removed_at - at)) if jobset.removed_at and not gone else ""),
        ("namespace", jobset.namespace),
    ]
    for label, cell in parts:
        if short and label in {"priority", "owner", "namespace"}:
            continue
        values = runs_of(cell)
        if any(run.text for run in values):
            # The spaces inside a part do not break, so a label stays with its value.
            runs += [Run("  "), Run(f"{label}\u00a0" if label else "", "dim"), *values]
    return runs


TRAINS = re.compile(r"pretrain|sft|dpo|rlhf|lustre$")
"""Names of recipes that print training steps."""


def tab_of(recipe: str) -> str:
    """The tab with the progress of such a job: of what is no test and no known training, its pods."""
    return "nccl" if recipe.startswith("nccl") else "training" if TRAINS.search(recipe) else "pods"


def first_tab(jobset: JobSet | None) -> str:
    """The tab that a job's page opens with: its progress; its pods while it waits, and where they failed."""
    waits = jobset is None or jobset.state in {JobState.PENDING, JobState.FAILED}
    return "pods" if waits or jobset is None else tab_of(jobset.recipe)


def told(line: JobLine | None, *, gone: bool) -> list[Run]:
    """Why it is as it is, in sentences."""
    if line is None:
        return [Run("Waits for the JobSet to appear in the cluster.", "dim")]
    if gone:
        return [Run("The JobSet has been deleted; this is what was last seen of it.", "waits")]
    runs: list[Run] = []
    told_here = [alarm for alarm in line.alarms if alarm.kind is not AlarmKind.FAILED]  # why it failed is said below
    for alarm in told_here[-2:]:
        runs.append(Run(f"{GLYPH} {in_namespace(alarm.full, line.outside)} ", "bad"))
    first = first_failure(line.jobset, line.fleet)
    if first is not None:
        when = wording.moment(first.ended.finished if first.ended else 0.0, line.fleet.at)
        where = f" on {first.node}" if first.node else ""
        runs.append(Run(f"First failure: {failure_words(first)}{where}{f', {when}' if when else ''}. ", "bad"))
    sentence, own = reasons(line)
    if sentence and first is None and not line.health.alarmed:
        ink = {Level.BAD: "bad", Level.LATE: "waits"}.get(line.health.level, "")
        runs.append(Run(f"{sentence} ", ink))
    if own:
        runs.append(Run(own, "dim"))
    if not runs:
        runs.append(Run(_well(line), "dim"))
    return runs


def _well(line: JobLine) -> str:
    """What is said of a job of which nothing is known to be wrong."""
    place = place_words(line)
    if line.jobset.state is JobState.SUCCEEDED:
        return "Done."
    if line.health.level is not Level.WELL:
        return f"It is {line.health.state}."
    return f"All is well, {place}." if place else "All is well."


def rank_waits(rank: int, pod: Pod | None, *, over: bool = False) -> str:
    """What the log of a rank waits for; empty once its container has started; `over`: no pod will come any more."""
    if pod is None:
        return f"pod {rank} is gone, and its log with it" if over else f"pod {rank} has not been created yet"
    main = pod.main
    if pod.finished or pod.restarts or (main is not None and main.state != "waiting"):
        return ""
    why = pod.unschedulable or pod.message or (main.message if main else "")
    return f"pod {rank} waits: {pod.status}" + (f" ({wording.sentence(why)})" if why else "")


def nccl_waits(line: JobLine) -> str:
    """What the NCCL panel waits for while there is no table."""
    jobset = line.jobset
    if jobset.state is JobState.PENDING:
        return f"The test has not started: {wording.sentence(line.why.sentence) or 'the job waits in its queue'}"
    if jobset.finished:
        return "No NCCL table was printed in this job."
    first = line.ranks[0].pod if line.ranks else None
    waits = rank_waits(0, first)
    if waits:
        return f"The test has not started: {waits}"
    up = f"{line.up} of {wording.count(jobset.ranks, 'pod')} up"
    if jobset.recipe.startswith("nccl"):
        return f"Waits for the first table: {up}."
    return f"No NCCL table in the log of pod 0 so far ({up})."


def training_waits(line: JobLine) -> str:
    """What the training panel waits for while no step has been printed."""
    jobset = line.jobset
    if jobset.state is JobState.PENDING:
        return f"Training has not started: {wording.sentence(line.why.sentence) or 'the job waits in its queue'}"
    if jobset.finished:
        return "No training step was printed in this job."
    waits = rank_waits(0, line.ranks[0].pod if line.ranks else None)
    if waits:
        return f"Training has not started: {waits}"
    return f"No training step in the log so far ({line.up} of {wording.count(jobset.ranks, 'pod')} up)."


def events_of(line: JobLine) -> dict[RowKey, Event]:
    """What was reported of the job, its Jobs, its pods and its Workload, newest first."""
    fleet, jobset = line.fleet, line.jobset
    workload = fleet.workload_of(jobset)
    uids = {jobset.uid, workload.uid if workload else jobset.uid}
    uids |= {job.uid for job in fleet.jobs_by_jobset.get(jobset.uid, ())}
    uids |= {pod.uid for pod in fleet.pods_by_jobset.get(jobset.uid, ())}
    found = [event for uid in uids if uid for event in fleet.events_by_object.get(uid, ())]
    found.sort(key=lambda event: (-event.last, event.name))
    return {(event.namespace, event.name): event for event in found}
