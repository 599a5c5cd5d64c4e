"""A training run for display: steps as columns, progress, and events (spikes, NaN, restarts)."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Sequence
from enum import StrEnum
from itertools import accumulate, islice, pairwise
from operator import sub
from threading import RLock
from typing import NamedTuple

from console.median import median
from console.metrics.step_cadence import (
    MAX_SINGLE_PAUSE,
    MIN_STEPS_FOR_LATE,
    MIN_STEPS_FOR_PACE,
    RECENT_STEPS,
    StepCadence,
    format_late_step,
    pace_by_timestamps,
    seconds_to_end,
)
from console.metrics.time_spans import TimeRecorder
from console.scheduling.pod_failure import PodFailure
from console.settings_file import current_config
from trainlog import (
    STEP_METRICS,
    STEPS_IN_BLOCK,
    MetricColumn,
    RunPosition,
    RunReader,
    Step,
    describe_nan,
    find_run_position,
    parse_checkpoint,
)

SETTLED_STEPS = 10  # finite losses after which a spike is not taken for the beginning
SPIKE_SPREADS, SPIKE_SHARE = 6.0, 0.15  # of the usual spread, and of the loss
NEW_LEVEL_STEPS = 60  # steps after which a loss that stays up is no spike any more, but where it is now
_MEAN_WEIGHT = 0.1  # weight of the newest loss in the running mean
MIN_PLATEAU_STEPS = 200  # steps that a plateau has at least, twice over
PLATEAU_SHARE = 0.002  # the loss falls by less than this share from one half of a plateau to the other
STEPS_PER_PLATEAU_CHECK = 25
PACE_STEPS, EARLIER_PACE_STEPS, STEPS_PER_PACE_CHECK = 20, 100, 40  # compared with so many before, and how often
SLOWER_SHARE, SLOWER_SPREADS = 0.1, 6.0  # of the earlier time, and of its usual spread


class RunEventKind(StrEnum):
    SPIKE = "spike"
    NAN = "nan"
    PLATEAU = "plateau"
    SLOWER = "slower"
    RESTART = "restart"
    CHECKPOINT = "checkpoint"
    EVICTION = "eviction"
    PREEMPTION = "preemption"
    FAILURE = "failure"


class RunEvent(NamedTuple):
    kind: RunEventKind
    step: float | None  # where on the axis of steps; None: only its time is known
    time: float  # seconds since the epoch
    words: str


class Slowdown(NamedTuple):
    """A lasting rise of the time per step of a run."""

    words: str
    slower_since: float  # when the first of them was printed
    recovery_cost: float  # what a step costs, below which the run is as fast again: seconds, or seconds for a token


class RunEventFinder:
    """Finds spikes, plateaus and NaN in the losses of a run, step by step."""

    def __init__(self) -> None:
        self.marks: list[RunEvent] = []
        self._mean = self._spread = self._peak = 0.0
        self._seen = 0
        self._rising_count = 0  # steps for which the loss has been up
        self._is_nan = self._has_loss = False
        self._flat_since = 0  # place at which the last plateau began; 0: the loss is falling
        kept = PACE_STEPS + EARLIER_PACE_STEPS
        self._step_costs: deque[tuple[float, float, float]] = deque(maxlen=kept)  # number, time, cost
        self._by_tokens = False  # whether a step's cost is seconds for a token; else those that it took
        self._slowdowns: list[Slowdown] = []  # each slower yet than the one before; the run is as slow as the last one

    def add_step(self, step: Step, number: float, time: float) -> None:
        """Add a new step, printed at `time`, as number `number`, and record the events that it causes."""
        if step.nan:
            if not self._is_nan:
                unseen = not self._has_loss and number > 1  # what was read begins in the middle of it
                words = f"{describe_nan(step)} at {number:,.0f}{' or earlier' if unseen else ''}"
                self._add_event(RunEventKind.NAN, number, time, words)
            self._is_nan = self._has_loss = True
            return
        self._is_nan, self._has_loss = False, True
        loss = step.loss
        if loss is not None and math.isfinite(loss):
            self._check_loss(loss, number, time)

    def _check_loss(self, loss: float, number: float, time: float) -> None:
        above = loss - self._mean
        if self._seen >= SETTLED_STEPS and above > max(SPIKE_SPREADS * self._spread, SPIKE_SHARE * abs(self._mean)):
            self._check_spike(loss, number, time)
            if self._rising_count < NEW_LEVEL_STEPS:
                return
            self._seen, above = 0, 0.0
        self._rising_count = 0
        if self._seen == 0:
            self._mean, self._spread = loss, 0.0
        else:
            self._mean += _MEAN_WEIGHT * above
            self._spread += _MEAN_WEIGHT * (abs(above) - self._spread)
        self._seen += 1

    def _check_spike(self, loss: float, number: float, time: float) -> None:
        self._rising_count += 1
        if self._rising_count == 1:
            self._peak = loss
            self._add_event(RunEventKind.SPIKE, number, time, self._format_spike(number))
        elif loss > self._peak:
            self._peak = loss
            last = self.marks[-1] if self.marks else None
            if last is not None and last.kind is RunEventKind.SPIKE and last.step is not None:
                self.marks[-1] = last._replace(words=self._format_spike(last.step))

    def _format_spike(self, number: float) -> str:
        return f"loss up from {self._mean:.4g} to {self._peak:.4g} at {number:,.0f}"

    def check_plateau(self, run: TrainingRun, column: MetricColumn) -> None:
        """Check whether the loss has stopped falling; call it at intervals."""
        length = len(column)
        half = max(MIN_PLATEAU_STEPS, length // 8)
        if length < 2 * half + MIN_PLATEAU_STEPS:
            return
        before, after = column.mean_of(length - 2 * half, length - half), column.mean_of(length - half, length)
        fall = (before - after) / abs(before) if before else 0.0
        if not self._flat_since and abs(fall) < PLATEAU_SHARE:
            self._flat_since = length - 2 * half
            number = run.numbers[self._flat_since]
            words = f"loss flat at {after:.4g} since {number:,.0f}"
            self._add_event(RunEventKind.PLATEAU, number, run.times[self._flat_since], words)
        elif self._flat_since and fall > 3 * PLATEAU_SHARE:
            self._flat_since = 0

    def check_pace(self, steps: Iterable[tuple[float, float, float | None, float | None]]) -> None:
        """Compare the seconds and tokens/s of steps with earlier ones, at fixed step numbers, to find a slowdown.

        `steps`: (number, print time, seconds, tokens/s) of each. Printed tokens/s take precedence over seconds, since
        steps of longer sequences take longer at the same speed.
        """
        known = self._step_costs
        for number, time, took, tokens in steps:
            cost = 1 / tokens if tokens else took
            if cost is None or (self._by_tokens and not tokens):
                continue
            if tokens and not self._by_tokens:
                self._by_tokens = True
                known.clear()
            before = known[-1][0] if known else number
            known.append((number, time, cost))
            every = STEPS_PER_PACE_CHECK * max(1.0, number - before)
            if number // every != before // every and len(known) >= PACE_STEPS + EARLIER_PACE_STEPS // 3:
                self._compare_paces()

    def _compare_paces(self) -> None:
        times = [took for _, _, took in self._step_costs]
        usual, now = median(times[:-PACE_STEPS]), median(times[-PACE_STEPS:])
        spread = median(abs(took - usual) for took in times[:-PACE_STEPS])
        while self._slowdowns and now <= self._slowdowns[-1].recovery_cost:
            self._slowdowns.pop()
        above = usual + max(SLOWER_SHARE * usual, SLOWER_SPREADS * spread)
        if now > above and (not self._slowdowns or usual > self._slowdowns[-1].recovery_cost):
            middle = (usual + now) / 2
            at = next(
                at for at in range(len(times) - 1, -1, -1) if max(times[max(0, at - 3) : at], default=0.0) < middle
            )
            since, printed, _ = self._step_costs[at]
            by_step = f"{usual:.3g} to {now:.3g} s a step"
            change = f"{1 / usual:,.4g} to {1 / now:,.4g} tokens/s" if self._by_tokens else by_step
            what = "tokens" if self._by_tokens else "steps"
            words = f"{what} take {100 * now / usual - 100:.0f} % longer since {since:,.0f} ({change})"
            self._slowdowns.append(Slowdown(words, printed, middle))
            self._add_event(RunEventKind.SLOWER, since, printed, words)

    @property
    def slowdown(self) -> Slowdown | None:
        """The slowdown of the steps; None if they are not slower, or normal again."""
        return self._slowdowns[-1] if self._slowdowns else None

    @property
    def cost(self) -> float | None:
        """Seconds per step, or per token if tokens/s are printed, of the latest steps; None if too few are known."""
        latest = [cost for _, _, cost in islice(reversed(self._step_costs), PACE_STEPS)]
        return median(latest) if len(latest) == PACE_STEPS else None

    def _add_event(self, kind: RunEventKind, number: float, time: float, sentence: str) -> None:
        if not any(mark.kind is kind and mark.step == number for mark in self.marks[-_LATEST_STEPS:]):
            self.marks.append(RunEvent(kind, number, time, sentence))


class PauseHistory:
    """The longest times between two step lines, updated with each line."""

    def __init__(self) -> None:
        self._longest = self._second_longest = 0.0

    def add_pause(self, seconds: float) -> None:
        if seconds > self._longest:
            self._longest, self._second_longest = seconds, self._longest
        elif seconds > self._second_longest:
            self._second_longest = seconds

    @property
    def longest(self) -> float:
        """The longest pause in seconds; one that occurred only once counts for at most MAX_SINGLE_PAUSE."""
        return max(self._second_longest, min(self._longest, MAX_SINGLE_PAUSE))


GROSS_OUTLIER_FACTOR = 2.0  # times by which a printed step time that is believed may exceed the time between lines
_LATEST_STEPS = 20
MAX_STORED_STEPS = 20_000  # steps that are kept of a run, half of them the latest ones: 4 MB however long it is watched
BURST_SECONDS = 1.0  # seconds in which lines come that were printed long before


class TrainingRun(RunReader):
    """A training run that the parser extends: times and metrics as columns; a reader in another thread holds `lock`."""

    __eq__, __hash__ = object.__eq__, object.__hash__

    def __init__(
        self,
        format_: str = "",
        began_at: float = 0.0,
        lock: RLock | None = None,
        max_points: int = MAX_STORED_STEPS,
        *,
        keeps_events: bool = True,
    ) -> None:
        """`began_at`: print time of the first line; `max_points`: steps kept; `keeps_events`: whether events are."""
        super().__init__(format_)
        self._max_points, self._keeps_events = max_points, keeps_events
        self.lock = lock or RLock()
        self.numbers: array[float] = array("d")  # of each step, or its place; never falls
        self.times: array[float] = array("d")  # when each was printed, seconds since the epoch; never falls
        self.columns: dict[str, MetricColumn] = {}
        self._old, self._stride = 0, 1  # of so many of the first only every `_stride`th is kept
        self._asked: dict[tuple[float, float, int, bool, int], list[int]] = {}  # charts of one width ask the same
        self.goes_on = True  # whether its job runs
        self.checkpoints: list[RunEvent] = []
        self.checkpoint_folder = ""  # folder that the last checkpoint was saved to, as the log says
        self.restarts: list[RunEvent] = []
        self.earlier: RunPosition | None = None  # what lines from before those that were read say of a lost loss
        self.endings: tuple[RunEvent, ...] = ()  # evictions, preemptions and failures, by their time
        self.time_recorder = TimeRecorder(began_at)
        self.finder = RunEventFinder()
        self._seen = 0  # steps that the finder has looked at
        self._looked = 0
        self._cached_position: tuple[int, Step | None, RunPosition] | None = None  # for so many steps, the last this
        self._pauses = PauseHistory()
        self._paced_from = MIN_STEPS_FOR_PACE  # the first step before which a pause counts: none do after a start

    def __len__(self) -> int:
        return len(self.numbers)

    def _append_figures(self, steps: Sequence[Step], times: Sequence[float]) -> None:
        place = len(self.numbers)
        number, latest = (self.numbers[-1], self.times[-1]) if place else (-math.inf, -math.inf)
        fields = dict(zip(Step._fields, zip(*steps, strict=True), strict=False))
        for step in fields.get("step", ()):
            number = max(number, float(step) if step is not None else max(number + 1.0, 0.0))
            self.numbers.append(number)
        self.times.extend(islice(accumulate(times, max, initial=latest), 1, None))
        for metric in STEP_METRICS if steps else ():
            values: Sequence[float | None] = fields[metric.name]
            if metric.speed:
                values = [None if warm else value for value, warm in zip(values, fields["warm_up"], strict=True)]
            if metric.name not in self.columns:
                if not any(value is not None for value in values):
                    continue
                self.columns[metric.name] = MetricColumn()
                self.columns[metric.name].extend([None] * place)
            self.columns[metric.name].extend(values)

    def x_axis(self, *, by_time: bool) -> array[float]:
        return self.times if by_time else self.numbers

    def column_edges(self, lowest: float, highest: float, columns: int, *, by_time: bool) -> list[int]:
        """Indexes of the first step of each chart column, and of the end; multiples of a block if steps are many."""
        asked = lowest, highest, columns, by_time, len(self)
        if asked in self._asked:
            return self._asked[asked]
        axis, span = self.x_axis(by_time=by_time), (highest - lowest) or 1.0
        first, last = bisect_left(axis, lowest), bisect_left(axis, math.nextafter(highest, math.inf))
        whole = (last - first) // columns > 8 * STEPS_IN_BLOCK
        found = [first - first % STEPS_IN_BLOCK if whole else first]
        for column in range(1, columns):
            place = bisect_left(axis, lowest + span * column / columns, first, last)
            found.append(place - place % STEPS_IN_BLOCK if whole else place)
        if len(self._asked) > 8:
            self._asked.clear()
        self._asked[asked] = found = [*found, last]
        return found

    def index_at(self, x: float, *, by_time: bool) -> int | None:
        """The index of the step nearest to a position on the x axis; None without steps."""
        axis = self.x_axis(by_time=by_time)
        at = bisect_left(axis, x)
        near = [each for each in (at - 1, at) if 0 <= each < len(axis)]
        return min(near, key=lambda each: abs(axis[each] - x), default=None)

    def sync(self, time: float, printed_times: Sequence[float] = ()) -> int:
        """Add to the columns what the parser added or changed; returns the index of the first such step.

        `printed_times`: print times of the last steps; the others count as printed at `time`.
        """
        with self.lock:
            if self.finished:
                self.time_recorder.finish(time)
            at, taken = self._append_steps(time, printed_times)
            start = max(at, self._seen) if at >= self._seen - 1 else at
            if start < self._seen:
                self._paced_from = start + MIN_STEPS_FOR_PACE
            for place, step in enumerate(taken[start - at :], start) if self._keeps_events else ():
                number, when = self.numbers[place], self.times[place]
                self.finder.add_step(step, number, when)
                self.time_recorder.feed_step(int(number), when, step.step_time_s)
                if step.total and number >= step.total:
                    self.time_recorder.finish(when)
            if (first := max(start, self._paced_from)) < len(self):
                self._check_paces(first, taken[first - at :])
            self._seen = len(self)
            if self._seen - self._looked >= STEPS_PER_PLATEAU_CHECK or self._seen < self._looked:
                self._looked = self._seen
                if (column := self.columns.get("loss")) is not None:
                    self.finder.check_plateau(self, column)
            if len(self) > self._max_points:
                self._drop_old_steps()
            return at

    def _append_steps(self, time: float, printed_times: Sequence[float]) -> tuple[int, Sequence[Step]]:
        """(index of the first new step, the new steps); after a step back all steps are new."""
        steps, back = self.steps, self.rewinds[len(self.restarts) :]
        at = min(steps.take_changed(), len(self), len(steps))
        times = self.times[at:] if len(steps) >= len(self) and not back else array("d")
        times.extend([time] * max(0, len(steps) - len(printed_times) - at - len(times)))
        times.extend(printed_times[len(printed_times) - (len(steps) - at - len(times)) :])
        self._old = min(self._old, at)
        del self.numbers[at:], self.times[at:]
        self._asked.clear()
        for column in self.columns.values():
            column.truncate(at)
        taken = steps[at:]
        self._append_figures(taken, times)
        if back and printed_times:  # it went back at the first of the steps that were done again
            time = self.times[bisect_left(self.numbers, back[-1].first)]
        for each in back:
            words = f"from {each.last:,} back to {each.first:,}"
            self.restarts.append(RunEvent(RunEventKind.RESTART, float(each.first), time, words))
        return at, taken

    def _drop_old_steps(self) -> None:
        """Drop every second older step or more, but never the first step, an extreme, or the first NaN."""
        stop, bad, old, stride = len(self) - self._max_points // 2, self.steps.bad_from, self._old, self._stride
        while old * self._stride + stop - old > stride * self._max_points // 4:
            stride *= 2
        firsts = {0, *range(0, old, stride // self._stride)} if stride > self._stride else set[int]()
        start = 0 if firsts else old
        firsts |= {*range(old, stop, stride), *(each for each in (1, bad, bad + 1) if start < each < stop)}
        groups = sorted(firsts)
        self.steps.thin_out(groups, stop)
        for each in (self.numbers, self.times):
            each[start:stop] = array("d", [each[after - 1] for after in (*groups[1:], stop)])
        for column in self.columns.values():
            column.thin_out(groups, stop)
        self._old, self._stride = start + len(groups), stride
        gone = stop - self._old
        self._seen, self._looked = self._seen - gone, self._looked - gone
        self._paced_from = max(MIN_STEPS_FOR_PACE, self._paced_from - gone)
        self._asked.clear()
        self._cached_position = None

    def add_checkpoint(self, step: int | None, time: float, path: str = "") -> None:
        """Record a checkpoint saved at `time`, of the last step if `step` is None; `path`: its folder, if known."""
        self.checkpoint_folder = path or self.checkpoint_folder
        number = float(step) if step is not None else self.numbers[-1] if len(self) else None
        if number is not None:
            self.time_recorder.add_saved(int(number), time)
        if number is not None and all(mark.step != number for mark in self.checkpoints[-4:]):
            self.checkpoints.append(RunEvent(RunEventKind.CHECKPOINT, number, time, f"saved at {number:,.0f}"))

    def feed_phase_line(self, text: str, time: float) -> bool:
        """Read a line that may announce a checkpoint or an evaluation; returns whether a checkpoint was saved."""
        self.time_recorder.feed_line(text, time)
        found = parse_checkpoint(text)
        if found is not None:
            self.add_checkpoint(found.step, time, found.place)
        return found is not None

    def add_failures(self, endings: Iterable[PodFailure]) -> None:
        """Record the first failed rank of each attempt as an event."""
        first: dict[int, PodFailure] = {}
        for each in endings:
            old = first.get(each.attempt)
            if each.time and (old is None or each.time < old.time):
                first[each.attempt] = each
        kinds = {"eviction": RunEventKind.EVICTION, "preemption": RunEventKind.PREEMPTION}
        self.endings = tuple(
            RunEvent(
                kinds.get(each.cause, RunEventKind.FAILURE),
                None,
                each.time,
                f"pod {each.rank}: {each.exit_text}" if each.rank >= 0 else each.reason,
            )
            for each in first.values()
        )

    def list_events(self) -> list[RunEvent]:
        """All events in order of time; those with a time only are placed at the step of that time."""
        with self.lock:
            before = (max(0, bisect_left(self.times, mark.time) - 1) for mark in self.endings)
            steps = [self.numbers[at] if len(self) else None for at in before]
            placed = [mark._replace(step=step) for mark, step in zip(self.endings, steps, strict=True)]
        every = [*self.finder.marks, *self.restarts, *self.checkpoints, *placed]
        return sorted(every, key=lambda mark: (mark.time, mark.step or 0.0))

    @property
    def last(self) -> Step | None:
        return self.steps[-1] if self.steps else None

    @property
    def nan(self) -> bool:
        return self.last is not None and self.last.nan

    def latest_value(self, metric: str) -> float | None:
        column = self.columns.get(metric)
        return column.last_value() if column else None

    def recent_mean(self, metric: str) -> float | None:
        """The median of a metric's latest values; None if there are none."""
        column = self.columns.get(metric)
        values = [value for value in column.values[-RECENT_STEPS:] if value == value] if column else []
        return median(values) if values else None

    def recent_speeds(self) -> dict[str, float]:
        """The latest speeds by metric; those that the program does not print are left out."""
        found = {metric: self.recent_mean(metric) for metric in ("tflops_per_gpu", "tokens_per_s")}
        return {metric: value for metric, value in found.items() if value is not None}

    def _check_paces(self, first_index: int, steps: Sequence[Step]) -> None:
        """Check the time between steps for a slowdown, from step index `first_index` on."""
        numbers, times = self.numbers[first_index - 1 :], self.times[first_index - 1 :]
        waits = list(map(sub, times[1:], times))
        for wait in waits:
            self._pauses.add_pause(wait)
        took: Iterable[float | None]
        if (column := self.columns.get("step_time_s")) is not None:
            took = [printed if printed == printed else None for printed in column.values[first_index:]]
        else:
            counts = map(sub, numbers[1:], numbers)
            took = [wait / count if count > 0 and wait > 0 else None for wait, count in zip(waits, counts, strict=True)]
        tokens = (None if step.warm_up else step.tokens_per_s for step in steps)
        self.finder.check_pace(zip(numbers[1:], times[1:], took, tokens, strict=True))

    def pace(self) -> float | None:
        """Seconds per step, as printed, else by the timestamps; None if neither shows it."""
        printed = self.recent_mean("step_time_s")
        return printed if printed is not None else pace_by_timestamps(self.numbers, self.times, self._paced_from)

    def step_interval(self) -> float | None:
        """Seconds from one step to the next, for the estimated end: as printed, unless the timestamps contradict.

        The time between the lines of the latest steps is used if it is longer than the printed one (evaluations and
        checkpoints take time too) or less than half of it. Lines printed in one burst, as by a program with buffered
        output, show no speed. None if neither is known.
        """
        printed, seen = self.recent_mean("step_time_s"), pace_by_timestamps(self.numbers, self.times, self._paced_from)
        if printed is None or seen is None:
            return seen if printed is None else printed
        burst = seen * min(RECENT_STEPS, len(self)) < BURST_SECONDS
        return seen if seen > printed or (seen * GROSS_OUTLIER_FACTOR < printed and not burst) else printed

    def eta(self, now: float = 0.0) -> float | None:
        """Estimated seconds from now, or from the last step, to the end; None if unknown, stalled or diverged."""
        last, total, pace = self.last, self.total, self.step_interval()
        if last is None or last.step is None or total is None or pace is None or self.finished:
            return None
        if any(mark.time >= self.times[-1] for mark in self.endings):
            return None
        if not self.goes_on or last.nan or (now and self.late_text(now)):
            return None
        return seconds_to_end(total - last.step, pace, now - self.times[-1] if now else 0.0)

    def cadence(self) -> StepCadence | None:
        """The regularity of the run's steps; None if there are too few."""
        lasting = self.step_interval()
        if MIN_STEPS_FOR_LATE <= len(self) < MIN_STEPS_FOR_PACE:
            between = max(after - before for before, after in pairwise(self.times))
            steps = max(after - before for before, after in pairwise(self.numbers))
            pace = max(between / (steps or 1.0), self.steps[-1].step_time_s or 0.0)
            return StepCadence(pace, between, early=True) if pace else None
        if len(self) < MIN_STEPS_FOR_PACE or lasting is None:
            return None
        between = median(after - before for before, after in pairwise(self.times[-RECENT_STEPS:]))
        steps = median(after - before for before, after in pairwise(self.numbers[-RECENT_STEPS:]))
        return StepCadence(between / steps if between and steps else lasting, between, self._pauses.longest)

    def late_text(self, now: float) -> str:
        """The delay of the next step in words; empty if not late or unknown."""
        rhythm = self.cadence()
        if rhythm is None or self.finished or not self.goes_on:
            return ""
        quiet = now - self.times[-1]
        if quiet <= rhythm.soonest_late or quiet <= rhythm.late_after(current_config().config.alarms):
            return ""
        return format_late_step(quiet, self.last.step if self.last else None, rhythm.usual(self.pace()))

    def position(self) -> RunPosition:
        """The run's last step, and its last valid loss with the step of that."""
        with self.lock:
            steps = self.steps
            if self._cached_position is None or self._cached_position[:2] != (len(steps), steps[-1] if steps else None):
                self._cached_position = len(steps), steps[-1] if steps else None, find_run_position(steps, self.times)
            where = self._cached_position[2]
        return where.with_nan_onset(self.earlier) if self.earlier is not None else where
