"""How far a job is, as the end of its log says it: for a line in a list."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from console.models.alarm import Thresholds
from console.models.lateness import Rhythm, late_words
from console.models.reference import Passing, judge
from console.models.training import standing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from console.models.nccl import NcclTest
    from console.models.training import TrainingRun
    from console.models.training_track import Track


@dataclass(frozen=True, slots=True)
class Glance:
    """The latest figures of a job; None where its log says nothing."""

    step: int | None = None
    total: int | None = None
    loss: float | None = None
    nan: bool = False
    tflops: float | None = None
    """TFLOP/s of one GPU."""
    step_time: float | None = None
    """Seconds, as printed."""
    nan_words: str = ""
    """What is no number, since when, as far as the end of its log tells."""
    loss_step: int | None = None
    """The step that the loss is of."""
    pace: float | None = None
    """Seconds from one step to the next, see `Track.lasting`."""
    rhythm: Rhythm | None = None
    finished: bool = False
    """The program said that training is over."""
    stepped: float = 0.0
    """When the last step was printed, seconds since the epoch; 0: not known."""
    size: int | None = None
    """Bytes, the largest message that was measured."""
    busbw: float | None = None
    """GB/s, the best."""
    average: float | None = None
    """GB/s, of a test at its end."""
    passing: Passing = Passing.RUNNING
    at: float = 0.0
    """When it was looked at, seconds since the epoch."""

    @property
    def eta(self) -> float | None:
        """Seconds to the end, by the time between the lines of the log; None too of a run that stands still, or has
        diverged: nobody should wait for it.
        """
        pace = self.step_time if self.pace is None else self.pace
        if self.step is None or self.total is None or pace is None:
            return None
        if self.late or self.nan:
            return None
        return max(0.0, (self.total - self.step) * pace)

    @property
    def late(self) -> str:
        """That its next step was late when it was looked at, in words; empty: it was not, or that cannot be said."""
        if self.rhythm is None or not self.stepped or self.finished:
            return ""
        quiet = self.at - self.stepped
        late = quiet > self.rhythm.late_after(Thresholds())
        return late_words(quiet, self.step, self.step_time or self.pace) if late else ""

    @property
    def stalled(self) -> bool:
        """Whether it was so late that this is an alarm."""
        rhythm = self.rhythm
        return rhythm is not None and bool(self.late) and self.at - self.stepped > rhythm.alarm_after(Thresholds())

    @property
    def empty(self) -> bool:
        """Whether it says nothing."""
        return self.step is None and self.loss is None and self.busbw is None


def of_tests(tests: Sequence[NcclTest], at: float, pass_line: float, accelerator: str = "") -> Glance | None:
    """What the last of these tests says, and the verdict of the last that is over; None if none has a row."""
    test = next((each for each in reversed(tests) if each.rows), None)
    if test is None:
        return None
    over = next((each for each in reversed(tests) if each.rows and each.finished), test)
    passing = judge(test, pass_line, accelerator).passing
    if passing is Passing.RUNNING:
        passing = judge(over, pass_line, accelerator).passing
    return Glance(
        size=test.rows[-1].size, busbw=test.peak_busbw, average=over.avg_busbw, passing=passing, at=at
    )  # fmt: skip


def with_verdict(before: Glance | None, now: Glance) -> Glance:
    """The figures of a test that runs again, with the verdict of the one before it, whose end is out of sight."""
    if before is None or before.passing is Passing.RUNNING or now.passing is not Passing.RUNNING or now.busbw is None:
        return now
    return replace(now, passing=before.passing, average=before.average)


def of_runs(runs: Sequence[TrainingRun], tracks: Sequence[Track], at: float) -> Glance | None:
    """What the last of these runs says, of each of which there is the track; None if none has a step."""
    run, track = next(((run, track) for run, track in zip(runs[::-1], tracks[::-1], strict=True) if run.steps),
                      (None, None))  # fmt: skip
    if run is None or track is None:
        return None
    last, where = run.steps[-1], standing(run.steps)

    def latest(name: str) -> float | None:
        return next((value for step in reversed(run.steps[-20:]) if (value := getattr(step, name)) is not None), None)

    return Glance(
        step=last.step,
        total=last.total,
        loss=where.loss,
        loss_step=where.loss_step,
        nan=last.nan,
        nan_words=where.nan_words,
        tflops=latest("tflops_per_gpu"),
        step_time=latest("step_time_s"),
        pace=track.lasting(),
        rhythm=track.rhythm(),
        finished=run.finished,
        stepped=track.series.times[-1],
        at=at,
    )
