"""Steps of a training run as columns of numbers, of which any part can be drawn fast, however long it is.

Each column keeps the lowest and highest of every 64 values and running sums, so that the extremes and the mean of any
stretch cost a few microseconds: a picture shows every spike of a million steps without looking at a million numbers.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from threading import RLock
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from console.metrics.training.steps import Step

BLOCK = 64
NAN = math.nan
_LOOK_BACK = 8  # latest steps of which a late report may still add to one


class Metric(NamedTuple):
    """One figure of a step."""

    name: str  # name of the field of `Step`
    title: str
    unit: str = ""
    speed: bool = False  # a speed: what it is in the first steps after a start says nothing, and is left out


METRICS = (
    Metric("loss", "loss"),
    Metric("grad_norm", "grad norm"),
    Metric("step_time_s", "step time", "s", speed=True),
    Metric("tflops_per_gpu", "TFLOP/s per GPU", "", speed=True),
    Metric("lr", "learning rate"),
    Metric("tokens_per_s", "tokens/s", "", speed=True),
)
"""In the order of their weight."""


class Stretch(NamedTuple):
    """What one column of a picture shows of a metric: all values from one step to before another."""

    at: int  # number of the column
    low: float
    high: float
    first: float
    last: float


class Column:
    """The values of one metric; what is missing, not a number or infinite is nan."""

    def __init__(self) -> None:
        self.values: array[float] = array("d")
        self._lows: array[float] = array("d")
        self._highs: array[float] = array("d")
        self._low_lows: array[float] = array("d")
        self._high_highs: array[float] = array("d")  # the same of every 64 of these
        self._sums: array[float] = array("d", (0.0,))
        self._counts: array[int] = array("q", (0,))

    def __len__(self) -> int:
        return len(self.values)

    @property
    def known(self) -> int:
        """How many values there are."""
        return self._counts[-1]

    def append(self, value: float | None) -> None:
        finite = value is not None and math.isfinite(value)
        number = value if value is not None and finite else NAN
        self.values.append(number)
        self._sums.append(self._sums[-1] + (number if finite else 0.0))
        self._counts.append(self._counts[-1] + finite)
        if len(self.values) % BLOCK == 0:
            low, high = self._least_and_most(len(self.values) - BLOCK, len(self.values))
            self._lows.append(low)
            self._highs.append(high)
            if len(self._lows) % BLOCK == 0:
                self._low_lows.append(min(self._lows[-BLOCK:]))
                self._high_highs.append(max(self._highs[-BLOCK:]))

    def cut(self, length: int) -> None:
        """Forget what comes after so many values."""
        del self.values[length:]
        del self._sums[length + 1 :]
        del self._counts[length + 1 :]
        del self._lows[length // BLOCK :]
        del self._highs[length // BLOCK :]
        del self._low_lows[length // BLOCK**2 :]
        del self._high_highs[length // BLOCK**2 :]

    def mean(self, start: int, stop: int) -> float:
        """Mean of the values from `start` to before `stop`; nan where there are none."""
        start, stop = max(0, start), min(stop, len(self.values))
        if start >= stop:
            return NAN
        count = self._counts[stop] - self._counts[start]
        return (self._sums[stop] - self._sums[start]) / count if count else NAN

    def extremes(self, start: int, stop: int) -> tuple[float, float]:
        """Lowest and highest; inf and -inf where there are none."""
        if stop - start <= 2 * BLOCK:
            return self._least_and_most(start, stop)
        first, last = -(-start // BLOCK), stop // BLOCK
        left, right = self._least_and_most(start, first * BLOCK), self._least_and_most(last * BLOCK, stop)
        low, high = self._of_blocks(first, last)
        return min(left[0], right[0], low), max(left[1], right[1], high)

    def _of_blocks(self, start: int, stop: int) -> tuple[float, float]:
        if stop - start <= 2 * BLOCK:
            return min(self._lows[start:stop]), max(self._highs[start:stop])
        first, last = -(-start // BLOCK), stop // BLOCK
        lows = self._lows[start : first * BLOCK] + self._lows[last * BLOCK : stop] + self._low_lows[first:last]
        highs = self._highs[start : first * BLOCK] + self._highs[last * BLOCK : stop] + self._high_highs[first:last]
        return min(lows), max(highs)

    def _least_and_most(self, start: int, stop: int) -> tuple[float, float]:
        if start >= stop:
            return math.inf, -math.inf
        values = self.values[start:stop]
        if self._counts[stop] - self._counts[start] == stop - start:
            return min(values), max(values)
        finite = [each for each in values if each == each]
        return min(finite, default=math.inf), max(finite, default=-math.inf)

    def last(self, stop: int | None = None) -> float | None:
        """The latest value there is before `stop`."""
        for at in range(min(len(self.values), len(self.values) if stop is None else stop) - 1, -1, -1):
            if self.values[at] == self.values[at]:
                return self.values[at]
        return None

    def stretches(self, edges: Sequence[int]) -> list[Stretch]:
        """What each column of a picture shows: column n has the steps from edges[n] to before edges[n + 1]."""
        found: list[Stretch] = []
        values, start = self.values, edges[0]
        for at, stop in enumerate(edges[1:]):
            if stop > start:
                low, high = self.extremes(start, stop)
                if low <= high:
                    first, last = values[start], values[stop - 1]
                    found.append(
                        Stretch(at, low, high, first if first == first else low, last if last == last else high)
                    )
            start = stop
        return found

    def smooth(self, edges: Sequence[int], width: int) -> list[tuple[int, float]]:
        """Column and mean of the `width` values about its middle, for each column that has steps."""
        half, found, start = max(1, width // 2), [], edges[0]
        for at, stop in enumerate(edges[1:]):
            if stop > start:
                middle = (start + stop) // 2
                mean = self.mean(min(start, middle - half), max(stop, middle + half + 1))
                if mean == mean:
                    found.append((at, mean))
            start = stop
        return found


def _same(one: Step, other: Step) -> bool:
    """Whether they are one step with the same figures: those of a list that packs its steps are made anew each time."""
    return one is other or all(
        mine == its or (mine != mine and its != its) for mine, its in zip(one[:-1], other[:-1], strict=True)
    )


class Series:
    """The steps of one run. Written in one thread while another draws, both under `lock`."""

    def __init__(self) -> None:
        self.lock = RLock()
        self.steps: list[Step] = []
        self.numbers: array[float] = array("d")
        """The number of each step, or its place where the program gives none; never falls."""
        self.times: array[float] = array("d")  # when each was printed, seconds since the epoch; never falls
        self.columns: dict[str, Column] = {}
        self._asked: dict[tuple[float, float, int, bool, int], list[int]] = {}
        """Latest answers of `edges`: charts of one width ask the same."""

    def __len__(self) -> int:
        return len(self.numbers)

    def sync(self, steps: Sequence[Step], time: float) -> int:
        """Take over what has changed of a growing list of steps, new ones printed at `time`; from which place on."""
        with self.lock:
            known = self.steps
            at = min(len(known), len(steps))
            while at and not _same(known[at - 1], steps[at - 1]):
                at -= 1
            looked = range(max(0, at - _LOOK_BACK), at)
            at = next((back for back in looked if not _same(known[back], steps[back])), at)
            # Of a step that was only told more of, the time stays; after a step back all is new.
            times = self.times[at:] if len(steps) >= len(known) else array("d")
            self._cut(at)
            for place in range(at, len(steps)):
                self._append(steps[place], times[place - at] if place - at < len(times) else time)
            return at

    def _cut(self, length: int) -> None:
        del self.steps[length:]
        del self.numbers[length:]
        del self.times[length:]
        self._asked.clear()
        for column in self.columns.values():
            column.cut(length)

    def _append(self, step: Step, time: float) -> None:
        place = len(self.numbers)
        before = self.numbers[-1] if place else -math.inf
        number = float(step.step) if step.step is not None else max(before + 1.0, 0.0)
        self.steps.append(step)
        self.numbers.append(max(before, number))
        self.times.append(max(self.times[-1], time) if place else time)
        for metric in METRICS:
            value = None if metric.speed and step.warm_up else getattr(step, metric.name)
            column = self.columns.get(metric.name)
            if column is None:
                if value is None:
                    continue
                column = self.columns[metric.name] = Column()
                for _ in range(place):
                    column.append(None)
            column.append(value)

    def axis(self, *, by_time: bool) -> array[float]:
        return self.times if by_time else self.numbers

    def edges(self, low: float, high: float, columns: int, *, by_time: bool) -> list[int]:
        """Places of the steps at which the columns of a picture from `low` to `high` begin, and where the last ends.

        Where a column has many blocks of steps, it begins with a whole block: that is less than a dot beside its place,
        and spares looking at single steps.
        """
        asked = low, high, columns, by_time, len(self)
        if asked in self._asked:
            return self._asked[asked]
        axis, span = self.axis(by_time=by_time), (high - low) or 1.0
        first, last = bisect_left(axis, low), bisect_left(axis, math.nextafter(high, math.inf))
        whole = (last - first) // columns > 8 * BLOCK
        found = [first - first % BLOCK if whole else first]
        for column in range(1, columns):
            place = bisect_left(axis, low + span * column / columns, first, last)
            found.append(place - place % BLOCK if whole else place)
        if len(self._asked) > 8:
            self._asked.clear()
        self._asked[asked] = found = [*found, last]
        return found

    def place(self, where: float, *, by_time: bool) -> int | None:
        """The step nearest to a place on the axis; None without steps."""
        axis = self.axis(by_time=by_time)
        at = bisect_left(axis, where)
        near = [each for each in (at - 1, at) if 0 <= each < len(axis)]
        return min(near, key=lambda each: abs(axis[each] - where), default=None)
