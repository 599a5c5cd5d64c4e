"""The lateness of a run's next step, or of an NCCL test's next row, by the pace of the earlier ones.

A step is not late during a pause of a usual length, for a checkpoint or an evaluation, nor before the next line is due
in a log that prints only every hundredth step.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from msgspec import Struct

from console.durations import format_duration
from console.median import median

if TYPE_CHECKING:
    from collections.abc import Sequence

    from console.alarm_thresholds import Thresholds
    from trainlog import NcclTest

MIN_STEPS_FOR_PACE = 5  # steps after which the pace of a run is known: the first ones compile, and fill caches
MIN_STEPS_FOR_LATE = 2  # steps after which the next one may be late, by the longest of those before
RECENT_STEPS = 20  # latest steps by which the pace is judged
STEADY, ALIKE = 200, 0.05  # and at most, where those before came as fast as the latest but for this share
PAUSE_FACTOR = 3.0  # times by which a pause is longer than what usually passes from one line to the next
PAUSE_HISTORY_STEPS = 2500  # among which a pause is looked for again, such as that of every thousandth step
MAX_SINGLE_PAUSE = 300.0  # seconds that a pause made only once counts at most: longer, it may have been a fault
ROUNDS_PER_ROW = 25  # of a collective for half a row: as many as nccl-tests makes by default, and those of warming up
_LATE_FACTOR, _ALARM_FACTOR = 2.0, 3.0  # times the usual time between two lines that tell of steps
_LATE_PAUSE_FACTOR, _ALARM_PAUSE_FACTOR = 1.25, 1.5  # times the longest pause
_EARLY_LATE_SECONDS = 30.0  # seconds without a step after which one of the first is late, as another may compile too
_MIN_LATE_SECONDS = 10.0  # seconds that a line may take from the process to here
_MIN_LATE_STEPS = 3.0
_ROW_SECONDS = 10.0  # for a row of an NCCL test beside its rounds: to allocate, to check, to print
_ROW_TIME_FACTOR = 5.0  # times the estimate, as people ask for more rounds than usual


class StepCadence(Struct, frozen=True):
    """The regularity of a run's steps: pace, pauses and times between lines, in seconds."""

    pace: float  # of one step
    between: float = 0.0  # usually from one line that tells of a step to the next
    pause: float = 0.0  # the longest between two such lines, but for the start, restarts, and those made only once
    early: bool = False  # of fewer than MIN_STEPS_FOR_PACE steps: the longest of them

    def usual(self, printed_seconds: float | None) -> float:
        """The seconds that a step usually takes: as printed, or between two lines if that is longer."""
        return max(self.pace, printed_seconds or 0.0)

    @property
    def soonest_late(self) -> float:
        """Seconds after the last step in which the next one is never late, whatever the settings say."""
        return max(_LATE_FACTOR * self.between, _LATE_PAUSE_FACTOR * self.pause)

    def late_after(self, limits: Thresholds) -> float:
        """The seconds after the last step from which on the next one is late."""
        soonest = max(min(_MIN_LATE_SECONDS, limits.late), min(limits.late_steps, _MIN_LATE_STEPS) * self.pace)
        usual = max(min(limits.late, limits.late_steps * self.pace), _EARLY_LATE_SECONDS if self.early else 0.0)
        return max(soonest, usual, self.soonest_late)

    def alarm_after(self, limits: Thresholds) -> float:
        """The seconds after the last step from which on an alarm is raised."""
        pause = max(self.pause, MAX_SINGLE_PAUSE / _ALARM_PAUSE_FACTOR if self.early else 0.0)
        return max(
            limits.stall, limits.stall_steps * self.pace, _ALARM_FACTOR * self.between, _ALARM_PAUSE_FACTOR * pause
        )


def pace_by_timestamps(numbers: Sequence[float], times: Sequence[float], paced_from: int) -> float | None:
    """Seconds per step by the latest lines' times; a regular pause is shared among its steps. None if unknown."""
    if len(times) < 3:
        return None
    first = max(1, len(times) - RECENT_STEPS)
    steps, took = numbers[-1] - numbers[first], times[-1] - times[first]
    if steps <= 0 or took <= 0:
        return None
    waits = [after - before for before, after in pairwise(times[first:])]
    if len(waits) < MIN_STEPS_FOR_PACE:
        made = pairwise(numbers[first:])
        return median(
            wait / (after - before) for wait, (before, after) in zip(waits, made, strict=True) if after > before
        )
    least = PAUSE_FACTOR * median(waits)
    paused = [first + at + 1 for at, wait in enumerate(waits) if wait > least]
    if paused and paused[-1] - paused[0] >= MIN_STEPS_FOR_PACE:
        before = [after - each for each, after in pairwise(times[max(paced_from, first - 2 * RECENT_STEPS) : first])]
        if len(before) >= RECENT_STEPS and max(before) <= least:  # no rhythm: there was none of them earlier
            took -= sum(wait for wait in waits if wait > least)
            steps -= sum(numbers[at] - numbers[at - 1] for at in paused)
        return took / steps if steps > 0 and took > 0 else None
    if not paused:
        return _steady_pace(numbers, times, first, max(1, paced_from), least)
    return _pace_around_pause(numbers, times, paused[0], paused[-1], first, paced_from)


def _steady_pace(
    numbers: Sequence[float], times: Sequence[float], first_index: int, paced_from: int, longest: float
) -> float:
    """Seconds per step by the lines from `first_index` on and earlier ones of the same pace, none after `longest`."""
    pace = (times[-1] - times[first_index]) / (numbers[-1] - numbers[first_index])
    while first_index - RECENT_STEPS >= paced_from and len(times) - first_index < STEADY:
        before = first_index - RECENT_STEPS
        if max(after - each for each, after in pairwise(times[before : first_index + 1])) > longest:
            break
        steps, earlier = numbers[first_index] - numbers[before], times[first_index] - times[before]
        if steps <= 0 or abs(earlier / steps - pace) > ALIKE * pace:
            break
        first_index = before
    return (times[-1] - times[first_index]) / (numbers[-1] - numbers[first_index])


def _pace_around_pause(
    numbers: Sequence[float], times: Sequence[float], began: int, end_index: int, first_index: int, paced_from: int
) -> float | None:
    """Seconds per step, or None, where a pause, from step `began` to `end_index`, is among those from `first_index` on.

    If a pause of that kind was made before, the time since that earlier pause is averaged. A pause made only once, as
    when somebody stopped the ranks for a moment, does not count. Slow steps close together are one pause.
    """
    longest = times[end_index] - times[began - 1]
    for before in range(began - MIN_STEPS_FOR_PACE, max(paced_from, began - PAUSE_HISTORY_STEPS) - 1, -1):
        steps = numbers[end_index] - numbers[before]
        if steps > 0 and times[before] - times[before - 1] >= longest / 2:
            return (times[end_index] - times[before]) / steps
    steps = numbers[-1] - numbers[first_index] - (numbers[end_index] - numbers[began - 1])
    took = times[-1] - times[first_index] - longest
    return took / steps if steps > 0 and took > 0 else None


def seconds_to_end(steps: float, pace: float, silent_seconds: float) -> float | None:
    """The seconds for so many more steps, `silent_seconds` after the last; None if the silence disproves it."""
    left, silent_seconds = max(0.0, steps * pace), max(0.0, silent_seconds)
    return None if silent_seconds > 2 * left + 60 else max(0.0, left - silent_seconds)


def format_late_step(silent_seconds: float, step: int | None, pace: float | None) -> str:
    """The delay of the next step in words: "no step for 34 s after step 9, usually one takes 2.8 s"."""
    after = f" after step {step:,}" if step is not None else ""
    usual = f", usually one takes {_format_seconds(pace)}" if pace else ""
    return f"no step for {format_duration(silent_seconds)}{after}{usual}"


def cadence_of_rows(test: NcclTest) -> StepCadence | None:
    """The pace of a test's table rows, by its last row; None if the test has ended or too little is known."""
    if test.finished or test.error or len(test.rows) < 2:
        return None
    before, last = test.rows[-2], test.rows[-1]
    took = sum(half.time_us or 0.0 for half in (last.out_of_place, last.in_place) if half)
    if not took or not before.size:
        return None
    pace = ROUNDS_PER_ROW * took / 1e6 * max(1.0, last.size / before.size)
    return StepCadence(pace, max(_ROW_SECONDS, _ROW_TIME_FACTOR * pace))


def format_late_row(silent_seconds: float, size: int, pace: float) -> str:
    """The delay of an NCCL test's next row in words: "no row for 65 s after that of 64 MiB, …"."""
    of = f"{size >> 20:,} MiB" if size >= 1 << 20 else f"{size:,} bytes"
    silence = format_duration(silent_seconds)
    return f"no row for {silence} after that of {of}, the next one takes about {_format_seconds(pace)}"


def _format_seconds(value: float) -> str:
    return f"{value:.3g} s" if value >= 1 else f"{1000 * value:.3g} ms"
