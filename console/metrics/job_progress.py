"""The progress of a job and its latest figures, for lists and sentences."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import isfinite
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from console.logs.log_end import LogEnd
from console.median import median
from console.metrics.start_phase import StartPhase
from console.metrics.step_cadence import StepCadence, cadence_of_rows, format_late_row, format_late_step, seconds_to_end
from console.metrics.training_run import SLOWER_SHARE, SLOWER_SPREADS
from console.settings_file import current_config
from trainlog import MetricColumn, NcclResult, RunPosition, judge_test

if TYPE_CHECKING:
    from console.metrics.job_measures import JobMeasures
    from console.metrics.training_run import TrainingRun
    from trainlog import NcclTest


_NO_POSITION = RunPosition()
TREND_PARTS = 8
MIN_EARLIER_RUNS = 2  # earlier runs from which one can say what is usual
MIN_STEPS_FOR_SPEED = 10  # steps after which a run is as fast as it will be


class JobProgress(Struct, frozen=True):
    """The latest figures of a job; None where the log does not show them."""

    step: int | None = None
    total: int | None = None
    loss: float | None = None
    nan: bool = False
    tflops: float | None = None  # TFLOP/s of one GPU
    speed: float | None = None  # of its latest steps; None in its first ones
    speed_metric: str = "tflops_per_gpu"  # or tokens_per_s, where the program prints no TFLOP/s
    step_time: float | None = None  # seconds, as printed
    where: RunPosition = _NO_POSITION  # the same of the whole run, as far back as was read
    nan_words: str = ""  # what is no number, and since when
    pace: float | None = None  # seconds from one step to the next, see `TrainingRun.step_interval`
    rhythm: StepCadence | None = None
    slower: str = ""  # that its steps take longer than before, in words
    slower_since: float = 0.0  # when the first of them was printed; 0: not known
    cost: float | None = None  # of its latest steps, see `Slowdown.limit`
    finished: bool = False  # the program printed that training is over
    end: LogEnd | None = None  # how its program ended; None: it goes on, or its log does not tell
    in_use: bool | None = None  # whether a GPU was busy after that end; None: not known
    fault: str = ""  # why a test failed
    stepped: float = 0.0  # when the last step or row was printed, seconds since the epoch; 0: not known
    size: int | None = None  # bytes, the largest message that was measured
    busbw: float | None = None  # GB/s, the best
    average: float | None = None  # GB/s, of a test at its end
    passing: NcclResult = NcclResult.RUNNING
    repeats: bool = False  # average and verdict are of the test before; the one that is measured has not ended
    trend: tuple[float, ...] = ()  # means of at most TREND_PARTS parts of the losses, or of a test's bandwidths
    start: StartPhase | None = None  # what it does before its first step; None: that is made, or nothing is known
    at: float = 0.0  # when it was looked at, seconds since the epoch
    printed: float = 0.0  # when the latest of these figures was printed, by the clock of the node; 0: not known

    @property
    def eta(self) -> float | None:
        """Estimated seconds from `at` to the end, by the time between log lines; None if it stalled or diverged."""
        return None if self.nan else self.seconds_left

    @property
    def seconds_left(self) -> float | None:
        """The estimated seconds to the last step, also of a diverged run; None if unknown, late or ended."""
        pace = self.step_time if self.pace is None else self.pace
        if self.step is None or self.total is None or pace is None or self.late_text or self.end is not None:
            return None
        return seconds_to_end(self.total - self.step, pace, self.at - self.stepped if self.stepped else 0.0)

    @property
    def late_text(self) -> str:
        """The delay of the next step, row or start phase when the log was read, in words; empty if none or unknown."""
        if self.start is not None:
            return self.start.late_text(self.at) if self.end is None else ""
        if self.rhythm is None or not self.stepped or self.finished or self.end is not None:
            return ""
        quiet = self.at - self.stepped
        if quiet <= self.rhythm.soonest_late or quiet <= self.rhythm.late_after(current_config().config.alarms):
            return ""
        if self.step is None and self.size is not None:
            return format_late_row(quiet, self.size, self.rhythm.pace)
        return format_late_step(quiet, self.step, self.rhythm.usual(self.step_time))

    @property
    def moved_at(self) -> float:
        """Time of the job's last step, else of the start of its present start phase (epoch seconds); 0.0 if unknown."""
        return self.start.since if self.start is not None else self.stepped

    @property
    def is_stalled(self) -> bool:
        """Whether the step was late enough for a stall alarm."""
        if self.start is not None:
            return self.end is None and self.start.is_stalled(self.at, current_config().config.alarms)
        quiet = self.at - self.stepped
        return (
            self.rhythm is not None
            and bool(self.late_text)
            and quiet > self.rhythm.alarm_after(current_config().config.alarms)
        )

    def is_older_than(self, older_progress: JobProgress | None) -> bool:
        """Whether this progress, of a log read anew, has not yet reached `older_progress`; False if that is None."""
        return (
            older_progress is not None
            and self.printed < older_progress.printed
            and replace(self, at=0.0, printed=0.0) != replace(older_progress, at=0.0, printed=0.0)
        )

    @property
    def is_empty(self) -> bool:
        return (self.step, self.loss, self.busbw, self.end, self.start) == (None,) * 5

    @property
    def failure(self) -> str:
        """The cause of the failure, without the exit code; empty if unknown."""
        end = self.end
        named = "; ".join(filter(None, (end.reason, end.stage))) if end is not None else ""
        return self.fault or named

    @property
    def reason(self) -> str:
        """The reason of a failure: wrong values of a test, the log's failure or the exit code; empty if none."""
        ended = self.end.words if self.end is not None else ""
        if self.fault and self.end is not None:  # the test's last lines say no more
            ended = replace(self.end, reason="").words
        return "; ".join(filter(None, (self.fault, ended)))


def progress_of_tests(
    tests: Sequence[NcclTest], time: float, pass_line: float, accelerator: str = ""
) -> JobProgress | None:
    """The last test's figures with the last finished one's verdict (`pass_line`: GB/s); None if no test has rows."""
    test = next((each for each in reversed(tests) if each.rows), None)
    if test is None:
        return None
    over = next((each for each in reversed(tests) if each.rows and each.finished), test)
    judged = judge_test(test, pass_line, accelerator)
    repeats = over is not test and judged.passing is NcclResult.RUNNING
    if repeats:
        judged = judge_test(over, pass_line, accelerator)
    fault = judged.why if judged.passing is NcclResult.FAILED else ""
    speeds = MetricColumn()
    for row in test.rows:
        speeds.append(row.best_busbw)
    return JobProgress(
        size=test.rows[-1].size,
        busbw=test.peak_busbw,
        average=over.avg_busbw,
        passing=judged.passing,
        at=time,
        fault=fault,
        repeats=repeats,
        trend=trend_means(speeds),
        rhythm=cadence_of_rows(test),
    )


def keep_previous_verdict(older: JobProgress | None, now: JobProgress) -> JobProgress:
    """The figures `now`, if a test is repeated with the verdict of its last run, `older`, which the log's end lacks."""
    running = NcclResult.RUNNING
    if older is None or older.passing is running or now.passing is not running or now.busbw is None:
        return now
    return replace(now, passing=older.passing, average=older.average, fault=older.fault, repeats=True)


def trend_means(column: MetricColumn) -> tuple[float, ...]:
    """The means of at most TREND_PARTS equal parts of the values; parts without a number are left out."""
    parts = min(TREND_PARTS, len(column))
    edges = [len(column) * at // parts for at in range(parts + 1)] if parts > 1 else []
    return tuple(mean for start, stop in pairwise(edges) if isfinite(mean := column.mean_of(start, stop)))


def progress_of_runs(runs: Sequence[TrainingRun], time: float) -> JobProgress | None:
    """The figures, as of `time`, of the last run that has steps; None if none has."""
    track = next((each for each in reversed(runs) if each.last is not None), None)
    if track is None or track.last is None:
        return None
    last, where = track.last, track.position()

    def latest(name: str) -> float | None:
        steps = reversed(track.steps[-20:])
        return next((value for step in steps if (value := getattr(step, name)) is not None), None)

    slowdown = track.finder.slowdown
    metric, speed = next(iter(track.recent_speeds().items()), ("tflops_per_gpu", None))
    return JobProgress(
        step=last.step,
        total=last.total,
        loss=where.loss,
        where=where,
        nan=last.nan,
        nan_words=where.nan_words,
        tflops=latest("tflops_per_gpu"),
        speed=speed if len(track) >= MIN_STEPS_FOR_SPEED else None,
        speed_metric=metric,
        step_time=latest("step_time_s"),
        pace=track.step_interval(),
        rhythm=None if last.has_all_steps else track.cadence(),
        slower=slowdown.words if slowdown is not None else "",
        slower_since=slowdown.slower_since if slowdown is not None else 0.0,
        cost=track.finder.cost,
        finished=track.finished,
        stepped=track.times[-1],
        at=time,
        printed=track.times[-1],
        trend=trend_means(track.columns["loss"]) if "loss" in track.columns else (),
    )


def compare_with_earlier(progress: JobProgress, earlier_speeds: Sequence[float], accelerator: str) -> JobProgress:
    """The progress, marked as slower if earlier runs of the recipe on as many GPUs were notably faster."""
    if progress.speed is None or progress.finished or len(earlier_speeds) < MIN_EARLIER_RUNS:
        return progress
    usual = median(earlier_speeds)
    spread = median(abs(each - usual) for each in earlier_speeds)
    if progress.speed >= usual - max(SLOWER_SHARE * usual, SLOWER_SPREADS * spread):
        return progress
    from console.metrics.gpu_metrics import MAX_MFU, peak_tflops  # most lists of jobs need nothing of GPUs

    peak = peak_tflops(accelerator)
    if progress.speed_metric == "tokens_per_s":
        words = f"{progress.speed:,.0f} tokens/s, {usual:,.0f} is usual here"
    elif peak is not None and usual <= MAX_MFU * peak:
        words = f"{100 * progress.speed / peak:.0f} % MFU, {100 * usual / peak:.0f} % is usual here"
    else:
        words = f"{progress.speed:,.0f} TFLOP/s per GPU, {usual:,.0f} is usual here"
    return replace(progress, slower="; ".join(filter(None, (progress.slower, words))))


def progress_of_measures(measures: JobMeasures, time: float, pass_line: float) -> JobProgress | None:
    """The progress as of `time` by these measurements; `pass_line`: GB/s of a test. None if they show none."""
    tests = [each.test for each in measures.tests]
    found = progress_of_tests(tests, time, pass_line, measures.accelerator)
    if found is not None:
        printed = max(each.at for each in measures.tests)
        found = replace(found, printed=printed, stepped=printed)
    else:
        found = progress_of_runs(measures.tracks, time)
    if found is None and (start := measures.start) is not None:
        found = JobProgress(start=start, at=time, printed=start.printed)
    if (end := measures.end) is not None:
        # Those of the other pods wait in a collective for the one that failed, and are busy with that.
        read = [each for each in measures.gpus if each.at > end.time and each.rank in measures.pod_ends]
        shares = [gpu.utilization for each in read for gpu in each.gpus if gpu.utilization is not None]
        busy = any(share > 0 for share in shares) if shares else None
        found = replace(found or JobProgress(at=time, printed=end.time), end=end, in_use=busy)
    return None if found is None or found.is_empty else found
