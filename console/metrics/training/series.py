"""Columns of numbers for a run's steps, whose blocks keep extremes and sums, so that any range is drawn quickly."""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from typing import NamedTuple

BLOCK = 64
NAN = math.nan


class StepMetric(NamedTuple):
    """A metric of steps, with its unit."""

    name: str  # name of the field of `Step`
    title: str
    unit: str = ""
    speed: bool = False  # a speed: what it is in the first steps after a start says nothing, and is left out


METRICS = (  # in the order of their weight
    StepMetric("loss", "loss"),
    StepMetric("grad_norm", "grad norm"),
    StepMetric("step_time_s", "step time", "s", speed=True),
    StepMetric("tflops_per_gpu", "TFLOP/s per GPU", "", speed=True),
    StepMetric("lr", "learning rate"),
    StepMetric("tokens_per_s", "tokens/s", "", speed=True),
)


class ColumnRange(NamedTuple):
    """Lowest, highest, first and last value within one column of a chart."""

    at: int  # number of the column
    low: float
    high: float
    first: float
    last: float


class MetricColumn:
    """The values of one metric per step; nan if missing, not a number, or infinite."""

    def __init__(self) -> None:
        self.values: array[float] = array("d")
        self._lows: array[float] = array("d")
        self._highs: array[float] = array("d")
        self._sums: array[float] = array("d", (0.0,))
        self._counts: array[int] = array("q", (0,))

    def __len__(self) -> int:
        return len(self.values)

    @property
    def known(self) -> int:
        """Number of values that are not missing."""
        return self._counts[-1]

    def append(self, value: float | None) -> None:
        finite = value is not None and math.isfinite(value)
        number = value if value is not None and finite else NAN
        self.values.append(number)
        self._sums.append(self._sums[-1] + (number if finite else 0.0))
        self._counts.append(self._counts[-1] + finite)
        if len(self.values) % BLOCK == 0:
            low, high = self._extremes_of_values(len(self.values) - BLOCK, len(self.values))
            self._lows.append(low)
            self._highs.append(high)

    def truncate(self, length: int) -> None:
        """Keep only the first `length` values."""
        del self.values[length:]
        del self._sums[length + 1 :]
        del self._counts[length + 1 :]
        del self._lows[length // BLOCK :]
        del self._highs[length // BLOCK :]

    def mean_of(self, start: int, stop: int) -> float:
        """Mean of the values from `start` up to `stop` (exclusive); nan if there are none."""
        start, stop = max(0, start), min(stop, len(self.values))
        if start >= stop:
            return NAN
        count = self._counts[stop] - self._counts[start]
        return (self._sums[stop] - self._sums[start]) / count if count else NAN

    def extremes_of(self, start: int, stop: int) -> tuple[float, float]:
        """Lowest and highest value in the range; inf and -inf if there are none."""
        if stop - start <= 2 * BLOCK:
            return self._extremes_of_values(start, stop)
        first, last = -(-start // BLOCK), stop // BLOCK
        left, right = self._extremes_of_values(start, first * BLOCK), self._extremes_of_values(last * BLOCK, stop)
        low, high = min(self._lows[first:last]), max(self._highs[first:last])
        return min(left[0], right[0], low), max(left[1], right[1], high)

    def _extremes_of_values(self, start: int, stop: int) -> tuple[float, float]:
        if start >= stop:
            return math.inf, -math.inf
        values = self.values[start:stop]
        if self._counts[stop] - self._counts[start] == stop - start:
            return min(values), max(values)
        finite = [each for each in values if each == each]
        return min(finite, default=math.inf), max(finite, default=-math.inf)

    def last_value(self, stop: int | None = None) -> float | None:
        """The latest known value before `stop`."""
        for at in range(min(len(self.values), len(self.values) if stop is None else stop) - 1, -1, -1):
            if self.values[at] == self.values[at]:
                return self.values[at]
        return None

    def column_ranges(self, edges: Sequence[int]) -> list[ColumnRange]:
        """The value range of each chart column; column n covers steps edges[n] to edges[n + 1] (exclusive)."""
        found: list[ColumnRange] = []
        values, start = self.values, edges[0]
        for at, stop in enumerate(edges[1:]):
            if stop > start:
                low, high = self.extremes_of(start, stop)
                if low <= high:
                    first, last = values[start], values[stop - 1]
                    found.append(
                        ColumnRange(at, low, high, first if first == first else low, last if last == last else high)
                    )
            start = stop
        return found

    def smoothed(self, edges: Sequence[int], width: int) -> list[tuple[int, float]]:
        """(column, mean of `width` values around its middle) for each column that has steps."""
        half, found, start = max(1, width // 2), [], edges[0]
        for at, stop in enumerate(edges[1:]):
            if stop > start:
                middle = (start + stop) // 2
                mean = self.mean_of(min(start, middle - half), max(stop, middle + half + 1))
                if mean == mean:
                    found.append((at, mean))
            start = stop
        return found
