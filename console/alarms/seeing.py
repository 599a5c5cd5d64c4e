"""How a job is at one moment, by the picture of the cluster and by what was measured in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from console.models.alarm_watch import Look
from console.models.deletion import first_deletion
from console.models.job import JobState
from console.models.ranks import first_failure, ranks
from console.models.reference import Passing, judge
from console.models.training import Standing
from console.models.training_marks import MarkKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from console.measures.job import JobMeasures
    from console.models.fleet import Fleet
    from console.models.gpu_board import GpuBoard
    from console.models.hang import HangReport
    from console.models.job import JobSet

TELLS_STEPS = 10
"""Steps a rank has told of when it is taken for one that tells of all its steps."""


def faults(board: GpuBoard) -> tuple[str, ...]:
    """What is wrong with GPUs, in words."""
    return tuple(f"pod {rank.rank} GPU {gpu.index}: {', '.join(gpu.faults)}" for rank, gpu in board.every if gpu.faults)


def seen(
    jobset: JobSet | None,
    fleet: Fleet,
    measures: JobMeasures,
    behind: Mapping[int, int],
    gpus: tuple[str, ...],
    pass_line: float,
    report: HangReport | None = None,
) -> Look:
    """How a job is in that picture, by what was measured in it; `report`: the last X-ray of it."""
    every = ranks(jobset, fleet) if jobset else ()
    track = measures.track
    last = track.last if track else None
    failed = first_failure(jobset, fleet) if jobset else None
    marks = track.marks() if track else []
    where = track.standing() if track else Standing()
    # What is saved once the loss is no number is of no use.
    of_use = [mark for mark in track.checkpoints if mark.step is not None] if track else []
    if where.nan_from is not None:
        of_use = [mark for mark in of_use if mark.step is not None and mark.step < where.nan_from]
    tests = [(each, judge(each.test, pass_line, each.accelerator)) for each in measures.tests]
    return Look(
        running=bool(every) and all(rank.phase == "Running" for rank in every),
        finished=jobset is None or jobset.finished,
        restarts=(jobset.restarts if jobset else 0) + sum(rank.restarts for rank in every),
        restart_words=f"pod {failed.number} {failed.status}" if failed else "",
        step=last.step if last else None,
        step_time=track.series.times[-1] if track and len(track.series) else 0.0,
        steps=len(track.series) if track else 0,
        pace=track.pace() if track else None,
        trained=bool(track and track.finished),
        rhythm=track.rhythm() if track else None,
        blamed=f"X-ray: {report.short.rstrip('.')}" if report is not None and report.alarming else "",
        blamed_at=report.at if report is not None else 0.0,
        nan=where.nan_words,
        nan_at=max((mark.time for mark in marks if mark.kind is MarkKind.NAN), default=0.0) if where.nan else 0.0,
        failed_at=jobset.finished_at if jobset else 0.0,
        saved=f"step {of_use[-1].step:,.0f}" if of_use else "",
        held=jobset.gpus if jobset else 0,
        spikes=tuple((mark.step or 0.0, mark.time, mark.words) for mark in marks if mark.kind is MarkKind.SPIKE),
        failed_tests=tuple(
            (str(each.name), f"busbw: {told.why}") for each, told in tests if told.passing is Passing.FAILED
        ),
        behind=tuple((rank, by) for rank, by in behind.items() if by),
        gpus=gpus,
        failed=_failure(jobset, fleet) if jobset else "",
        stopped=jobset is None or bool(jobset.deleting_since),
    )


def _failure(jobset: JobSet, fleet: Fleet) -> str:
    if jobset.state is not JobState.FAILED:
        return ""
    deleted, first = first_deletion(jobset, fleet), first_failure(jobset, fleet)
    if deleted is not None and first is None:
        return f"pod {deleted.rank} was deleted"
    return f"pod {first.number} {first.status}" if first else jobset.failure.rstrip(".") or "see a4 why"
