"""Texts of a job's page: header, explanation, and why a panel is still empty."""

from __future__ import annotations

from typing import TYPE_CHECKING

from console.kube.objects.jobset import JobSet, JobState, RecipeKind, recipe_kind
from console.kube.objects.pod import Pod
from console.metrics.alarm import ALARM_GLYPH, AlarmKind
from console.metrics.health import HealthLevel
from console.scheduling.pod_slots import first_failure
from screens import wording
from screens.columns.column import RowKey
from screens.columns.jobs import (
    JobLine,
    attempt_cell,
    failure_words,
    ranks_cell,
    short_reasons,
    start_words,
    state_cell,
)
from screens.wording import Cell, Span, spans_of

if TYPE_CHECKING:
    from console.kube.objects.event import Event


def head(line: JobLine | None, key: tuple[str, str], *, gone: bool, now: float = 0.0) -> list[Span]:
    """The header of a job's page: state, name, and figures that differ from the usual."""
    if line is None:
        glyph = Span("○ ", "dim") if gone else Span("◐ ", "waits")
        return [glyph, Span(f"{key[1]} ", "strong"), Span(f"in {key[0]}: {'gone' if gone else 'not seen yet'}", "dim")]
    jobset = line.jobset
    at = line.fleet.at if gone else max(now, line.fleet.at)
    runs = [Span("○ ", "dim"), Span("gone", "dim")] if gone else spans_of(state_cell(line))
    runs += [Span("  "), Span(jobset.name, "strong"), Span(f" in {jobset.namespace}".replace(" ", "\u00a0"), "dim")]
    left = wording.age(max(0.0, jobset.removed_at - at)) if jobset.removed_at and not gone else ""
    parts: list[tuple[str, Cell]] = [
        ("", line.owner),
        ("", f"{jobset.gpus}\u00a0GPUs" if jobset.gpus else ""),
        ("pods", "" if jobset.state is JobState.SUCCEEDED else ranks_cell(line)),
        ("attempt", attempt_cell(line) if jobset.restarts else ""),
        ("queue", jobset.queue or "none"),
        ("", jobset.recipe),
        ("", wording.age(at - jobset.created) if jobset.created else ""),
        ("priority", jobset.priority_class),
        ("removed in", left),
    ]
    for label, cell in parts:
        values = [run for run in spans_of(cell, "dim") if run.text]
        # The spaces inside a part do not break, so a label stays with its value.
        runs += (
            [Span(" ·\u00a0", "faint"), Span(f"{label} ".replace(" ", "\u00a0") if label else "", "dim"), *values]
            if values
            else []
        )
    return runs


def first_tab(jobset: JobSet | None) -> str:
    """The tab that a job's page opens with: progress, or pods if it waits or has failed."""
    waits = jobset is None or jobset.state in {JobState.PENDING, JobState.FAILED}
    return "pods" if waits or jobset is None else recipe_kind(jobset.recipe)


TAB_OF_HEALTH = {
    AlarmKind.STALL: "Hang",
    AlarmKind.BEHIND: "Hang",
    AlarmKind.NAN: "Training",
    AlarmKind.SPIKE: "Training",
    AlarmKind.BUSBW: "NCCL",
    AlarmKind.GPU: "GPUs",
}
"""The tab of the job's page that shows the cause of an alarm; the log for kinds that are not listed."""


def explanation(line: JobLine | None, *, is_gone: bool, ended: str = "", now: float = 0.0) -> list[Span]:
    """The reason for a job's state, and its expected start, as spans; `ended`: the outcome of a deleted job."""
    if line is None:
        return [Span(ended) if ended else Span("Waiting for the JobSet to appear in the cluster.", "dim")]
    if is_gone:
        after = f" {ended}" if ended else ""
        return [Span(f"The JobSet has been deleted; this is its last known state.{after}", "waits")]
    runs: list[Span] = []
    # Why it failed is shown below, and for how long its pods are kept.
    alarms = [alarm for alarm in line.alarms if alarm.kind not in {AlarmKind.FAILED, AlarmKind.KEPT}]
    for alarm in alarms[-2:]:
        look = TAB_OF_HEALTH.get(alarm.kind, "Log")
        text = alarm.next_step(
            line.owner, may_stop=line.may_stop, look=look, stop_key="Stop", act="X", has_checkpoint=line.has_checkpoint
        )
        runs.append(Span(f"{ALARM_GLYPH} {alarm.text}. {text}. ", "bad"))
    first = first_failure(line.jobset, line.fleet)
    if first is not None:
        when = wording.moment(first.ended.finished_at if first.ended else 0.0, line.fleet.at)
        where = f" on {wording.short_node(first.node)}" if first.node else ""
        if line.job_progress is not None and (reason := line.job_progress.failure):
            runs.append(Span(f"{wording.sentence(reason)}. ", "bad"))
        runs.append(Span(f"First failure: {failure_words(first)}{where}{f', {when}' if when else ''}. ", "bad"))
    sentence, own = short_reasons(line)
    if first is None and (line.health.kept or not line.health.alarmed) and (sentence or line.health.verdict):
        style = {HealthLevel.BAD: "bad", HealthLevel.LATE: "waits"}.get(line.health.level, "")
        found = _verdict_words(line)
        runs.append(Span(f"{sentence}. {found}" if sentence and found else found or f"{sentence} ", style))
    if line.expected_start is not None and line.jobset.state is JobState.PENDING:
        runs += [Span(" starts ", "dim"), Span(start_words(line.expected_start, max(now, line.fleet.at)))]
        own = f"  {own}" if own else ""  # it is the first to be cut
    return [*runs, Span(own, "dim")] if own else runs


def _verdict_words(line: JobLine) -> str:
    """A text that names the rank that others wait for, and the key for the next step; empty if unknown."""
    found, act = line.health.verdict, ""
    if line.health.level is HealthLevel.GOOD and line.health.words and not found:
        return "H shows where its processes are. "
    if found and line.may_stop and not line.jobset.finished:
        act = "X lists what can be done. " if line.has_trouble else "M in the Hang tab measures whether they wait. "
    return f"{wording.short_nodes(found)}. {act}" if found else ""


def why_no_rank_log(rank: int, pod: Pod | None, *, is_over: bool = False) -> str:
    """The reason why a rank has no log yet; empty once its container has started. `is_over`: its job has ended."""
    if pod is None:
        return f"pod {rank} was deleted, and its log with it" if is_over else f"pod {rank} has not been created yet"
    main = pod.main
    if pod.finished or pod.restarts or (main is not None and main.state != "waiting"):
        return ""
    why = pod.unschedulable or pod.message or (main.message if main else "")
    return f"pod {rank} waits: {pod.status}" + (f" ({wording.sentence(why)})" if why else "")


def _why_no_figures(line: JobLine, subject: str, ended_text: str) -> str:
    """The reason why a job prints no figures yet, `ended_text` if it has ended; empty once its first pod runs."""
    jobset = line.jobset
    if jobset.state is JobState.PENDING:
        return f"{subject} has not started: {wording.sentence(line.why.sentence) or 'the job waits in its queue'}"
    if jobset.finished or jobset.state is JobState.STOPPING:
        return ended_text
    waits = why_no_rank_log(0, line.pod_slots[0].pod if line.pod_slots else None)
    return f"{subject} has not started: {waits}" if waits else ""


def why_no_table(line: JobLine) -> str:
    """The reason why the NCCL panel has no table yet."""
    jobset = line.jobset
    if waits := _why_no_figures(line, "The test", "No NCCL table was printed in this job."):
        return waits
    up = f"{line.ready} of {wording.count(jobset.ranks, 'pod')} up"
    if recipe_kind(jobset.recipe) is RecipeKind.NCCL:
        return f"Waiting for the first table: {up}."
    return f"No NCCL table in the log of pod 0 so far ({up})."


def why_no_step(line: JobLine) -> str:
    """The reason why the training panel has no step yet."""
    waits = _why_no_figures(line, "Training", "No training step was printed in this job.")
    up = f"{line.ready} of {wording.count(line.jobset.ranks, 'pod')} up"
    return waits or f"No training step in the log so far ({wording.sentence(line.health.words) or up})."


def events_of(line: JobLine) -> dict[RowKey, Event]:
    """Events of the job, its Jobs, pods and Workload, newest first."""
    return {(event.namespace, event.name): event for event in line.fleet.events_of(line.jobset)}
