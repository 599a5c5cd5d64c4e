"""What is saved of a job, in a line of its page and pane: the last complete checkpoint and what would be lost now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from console.checkpoints.saved import find_loss, list_faults, saved_folder
from console.kube.objects.jobset import JobState
from console.settings import YOU
from screens import wording
from screens.wording import Span

if TYPE_CHECKING:
    from console.checkpoints.saved import SavedState
    from console.metrics.job_measures import JobMeasures
    from screens.columns.jobs import JobLine

_RUNS = {JobState.RUNNING, JobState.RESTARTING}


def saved_runs(line: JobLine, measures: JobMeasures | None, now: float, key: str = "") -> list[Span]:
    """The line; empty for a job that trains nothing. `key`: what reads the folder, where nobody has yet."""
    if line.jobset.state not in _RUNS or measures is None or not any(measures.tracks):
        return []
    saved, found = line.saved, find_loss(line.saved, measures, now)
    if found is None:
        return []
    unsaved, by_folder = found
    seconds, gpus = max(0.0, now - unsaved.since), line.jobset.gpus
    if seconds >= 60:
        seconds -= seconds % (60 if seconds < 86_400 else 3600)  # as the duration is told, so that the product is right
    age, hours = wording.duration(seconds), seconds * gpus / 3600
    runs = [Span("checkpoint ", "dim")]
    if unsaved.step is None:
        runs += [Span(f"none in its log of the last {age}", "waits"), Span(": at least ")]
    else:
        runs += [
            Span(f"step {unsaved.step:,} ", "strong"),
            Span(f"{'complete' if by_folder else 'by its log'}, {age} ago: {age} x {gpus} GPUs = "),
        ]
    runs.append(Span(f"{hours:,.1f} GPU-hours would be lost now. "))
    if saved is not None:
        return [*runs, *_fault_runs(saved), *_reading_runs(saved, now)]
    return [*runs, *([Span(f"{key} reads its folder.", "dim")] if key and saved_folder(measures) else [])]


def should_read_unasked(line: JobLine, measures: JobMeasures | None, now: float) -> bool:
    """Whether to read the folder of a job that is looked at though nobody asked: only of one's own, and seldom."""
    if line.jobset.state is not JobState.RUNNING or line.owner != YOU or not line.may_stop:
        return False
    return bool(saved_folder(measures)) and (line.saved is None or line.saved.is_due(now, measures))


def _fault_runs(saved: SavedState) -> list[Span]:
    if saved.survey is None:
        return []
    faults = list_faults(saved.survey)
    if saved.survey.last_complete is None:
        faults.insert(0, f"none of {len(saved.survey.checkpoints)} in its folder is known to be complete")
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    return [Span(f"{faults[0][:1].upper()}{wording.one_line(faults[0][1:])}{more}. ", "waits")] if faults else []


def _reading_runs(saved: SavedState, now: float) -> list[Span]:
    read = f"read {wording.age(now - saved.at)} ago"
    if saved.survey is None:
        where = f"{wording.one_line(saved.place)} was" if saved.place else "Its folder was"
        return [Span(f"{where} not {read}: {wording.one_line(saved.problem)}", "dim")]
    return [Span(f"{wording.one_line(saved.place)}, {read}: {saved.by}.", "dim")]
