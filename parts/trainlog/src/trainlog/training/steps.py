"""The steps of a training run in packed form, and its metrics as columns of numbers.

A million steps with ten numbers take 100 MB instead of 1 GB. Blocks of a column store extremes and sums, so that any
range is drawn quickly. Of a run followed for long only every second older step is kept, later every fourth, and so on;
the extremes and sums still cover all.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, pairwise, repeat
from typing import Any, NamedTuple, overload

from msgspec import Struct


class Step(NamedTuple):
    """The figures of one step; None where the log has none. A tuple, because a log may hold a million of them."""

    step: int | None = None  # as the program counts, from 0 or from 1; None where the log gives no number
    total: int | None = None  # steps of the whole run
    loss: float | None = None  # training loss, averaged over the interval between two lines; may be nan or inf
    grad_norm: float | None = None
    lr: float | None = None
    step_time_s: float | None = None  # seconds for one step
    tflops_per_gpu: float | None = None  # TFLOP/s of one GPU, as the program computes it
    tokens_per_s: float | None = None  # of one GPU in torchtitan, MaxText and verl, of all elsewhere
    skipped: int | None = None  # steps since the last line whose update was left out (overflow)
    nan: bool = False  # loss or gradients are not numbers, or the loss is missing where it has to be
    warm_up: bool = False  # one of the first steps after a start: compilation, caches; its speed says nothing
    extra: dict[str, float] = {}  # noqa: RUF012  # a default of a tuple's field; nobody writes to it
    """All other printed figures, by the program's name for them, in its unit."""

    @property
    def has_all_steps(self) -> bool:
        """Whether this step is the run's last one, as its number has reached the total."""
        return self.step is not None and self.total is not None and 0 < self.total <= self.step

    def with_number(self, step: int | None, total: int | None) -> Step:
        return Step(step, total, *self[2:])  # in less than half the time of _replace


class RunPosition(NamedTuple):
    """The last step of a run, and its last valid loss."""

    step: int | None = None  # the last one; None: none was read, or it has no number
    loss: float | None = None  # the last valid one; None: none was read
    valid_loss_step: int | None = None  # the step of `loss`; None: no valid loss was read, or it has no number
    nan: bool = False  # whether the last step is an alarm
    nan_from: int | None = None  # the first of the last NaN steps in a row; None too if it is before what was read
    nan_by: int | None = None  # the first step read, where that was an alarm already: the row began there or earlier
    what: str = ""  # what is no number, if the last step is an alarm
    nan_at: float = 0.0  # when step `nan_from` was printed, seconds since the epoch; 0.0: not known

    @property
    def nan_words(self) -> str:
        """The text on a NaN loss: "loss is NaN since step 20 (last good 10.58 at 19)"; empty if all is well."""
        return f"{self.what} {find_nan_since(self)}" if self.nan else ""

    def with_nan_onset(self, earlier: RunPosition) -> RunPosition:
        """This position with the step since which the loss is NaN, as found earlier or further back in the log."""
        if not self.nan or self.nan_from is not None:
            return self
        if not earlier.nan:
            return self._replace(loss=earlier.loss, valid_loss_step=earlier.valid_loss_step)
        if earlier.nan_from is not None and self.step is not None and self.step < earlier.nan_from:
            return self  # it went back to a checkpoint since
        known = earlier._replace(step=self.step)
        return known if known.loss is not None else known._replace(loss=self.loss, valid_loss_step=self.valid_loss_step)


def find_nan_since(where: RunPosition) -> str:
    """The text since when the loss is NaN: "since step 20 (last good 10.58 at 19)"."""
    if where.nan_from is not None:
        since = f"since step {where.nan_from:,}"
    elif where.nan_by is not None:
        since = f"since step {where.nan_by:,} or earlier"
    else:
        since = f"at step {where.step:,}, not known since when" if where.step is not None else "not known since when"
    if where.loss is None:
        return since
    at = f" at {where.valid_loss_step:,}" if where.valid_loss_step is not None else ""
    return f"{since} (last good {where.loss:.4g}{at})"


def find_run_position(steps: Sequence[Step], times: Sequence[float] = ()) -> RunPosition:
    """The last step, the last good loss, and where NaN began; `times`: when each step was printed, if that is known."""
    at = steps.bad_from if isinstance(steps, RunSteps) else _nan_begins_at(steps)
    first_bad = steps[at] if at < len(steps) else None
    bad_at = times[at] if at < len(times) else 0.0
    before = steps[at - 1] if at else None
    while at and ((loss := steps[at - 1].loss) is None or not math.isfinite(loss) or steps[at - 1].nan):
        at -= 1
    good = steps[at - 1] if at else None
    # Programs count from 0 or from 1: nothing came before those. A step without figures says nothing of its loss.
    figures = good is not None or (before is not None and before.grad_norm is not None)
    seen = first_bad is not None and (figures or first_bad.step in {0, 1})
    return RunPosition(
        step=steps[-1].step if steps else None,
        loss=good.loss if good else None,
        valid_loss_step=good.step if good else None,
        nan=first_bad is not None,
        nan_from=first_bad.step if first_bad is not None and seen else None,
        nan_by=first_bad.step if first_bad is not None and not seen else None,
        what=describe_nan(first_bad) if first_bad is not None else "",
        nan_at=bad_at if seen else 0.0,
    )


def _nan_begins_at(steps: Sequence[Step]) -> int:
    """The index of the first of the NaN steps at the end; the length if the last step is good."""
    at = len(steps)
    while at and steps[at - 1].nan:
        at -= 1
    return at


def describe_nan(step: Step) -> str:
    """The figure of the step that is not finite, in words: the loss, else the gradients."""
    if step.loss is None or math.isnan(step.loss):  # Megatron leaves out a loss that is no number
        return "loss is NaN"
    return f"loss is {step.loss}" if math.isinf(step.loss) else "gradients are NaN"


class StepRollback(Struct, frozen=True):
    """A return to an earlier checkpoint, after which steps are repeated."""

    last: int  # last step before
    first: int  # first step after


class ProgressBar(Struct, frozen=True):
    step: int
    total: int
    elapsed_s: int | None = None
    step_time_s: float | None = None


_PACKED_STEPS = 128  # packed at once; as many of the latest are not, because reports of those may still come
_NO_COUNT = -1
_NO_NUMBER = float.fromhex("-0x1.fffffffffffffp+1023")  # "not said" in a column: the lowest number there is
_COUNT_FIELDS = frozenset({"step", "total", "skipped"})
_make_step: Callable[[Iterable[Any]], Step] = partial(tuple.__new__, Step)
_DEFAULTS: dict[str, Any] = {"nan": False, "warm_up": False}
_UNKNOWN_FIGURES: dict[str, Any] = {name: _DEFAULTS.get(name) for name in Step._fields[:-1]}


class PackedSteps:
    """Immutable steps stored by column."""

    __slots__ = ("columns", "extra", "first", "size", "whole")

    def __init__(
        self, columns: dict[str, array[Any]], extra: dict[str, array[float]], size: int, *, is_whole_file: bool
    ) -> None:
        """`columns`: each field's values; `extra`: other figures by name; `is_whole_file`: no step is missing."""
        self.columns, self.extra, self.size, self.whole = columns, extra, size, is_whole_file
        numbers = columns.get("step")
        self.first: int | None = next((each for each in numbers if each != _NO_COUNT), None) if numbers else None

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[Step]:
        others: Iterable[dict[str, float]] = ({} for _ in range(self.size))
        if self.extra:
            others = map(dict, map(partial(zip, tuple(self.extra)), zip(*self.extra.values(), strict=True)))
        fields = [self._field_column(name) for name in Step._fields[:-1]]
        return map(_make_step, zip(*fields, others, strict=False))

    def __getitem__(self, index: int) -> Step:
        values = dict(_UNKNOWN_FIGURES)
        for name, column in self.columns.items():
            value = column[index]
            if name in _DEFAULTS:
                values[name] = bool(value)
            elif value != (_NO_COUNT if name in _COUNT_FIELDS else _NO_NUMBER):
                values[name] = value
        return _make_step((*values.values(), {name: column[index] for name, column in self.extra.items()}))

    def slice(self, start: int, stop: int) -> PackedSteps:
        columns, extra = ({name: each[start:stop] for name, each in of.items()} for of in (self.columns, self.extra))
        return PackedSteps(columns, extra, stop - start, is_whole_file=self.whole)

    def _field_column(self, name: str) -> Iterable[Any]:
        values = self.columns.get(name)
        if values is None:
            return repeat(_DEFAULTS.get(name))
        if name in _DEFAULTS:
            return map(bool, values)
        missing = _NO_COUNT if name in _COUNT_FIELDS else _NO_NUMBER
        return [None if each == missing else each for each in values] if missing in values else values

    def index_of(self, number: int) -> int | None:
        numbers = self.columns.get("step")
        try:
            return numbers.index(number) if numbers is not None else None
        except ValueError:
            return None


def pack_columns(columns: Mapping[str, Sequence[Any]]) -> PackedSteps:
    """Pack columns that have a value for every step; names of extra figures begin with a blank."""
    made = {
        name: array("q" if name in _COUNT_FIELDS else "b" if name in _DEFAULTS else "d", values)
        for name, values in columns.items()
    }
    extra = {name[1:]: made.pop(name) for name in columns if name[0] == " "}
    return PackedSteps(made, extra, len(next(iter(columns.values()))), is_whole_file=True)


def _pack_steps(steps: list[Step]) -> PackedSteps | list[Step]:
    """Pack these steps as columns; returns the list itself if the names of their extra figures differ."""
    *figures, extras = zip(*steps, strict=True)
    names, whole = tuple(steps[0].extra), True
    if {*map(tuple, extras)} != {names}:
        return steps
    made: dict[str, array[Any]] = {}
    for name, values in zip(Step._fields, figures, strict=False):
        if name in _DEFAULTS:
            if any(values):
                made[name] = array("b", values)
        elif (absent := values.count(None)) < len(values):
            missing = _NO_COUNT if name in _COUNT_FIELDS else _NO_NUMBER
            whole = whole and not absent
            known = [missing if value is None else value for value in values] if absent else values
            made[name] = array("q" if name in _COUNT_FIELDS else "d", known)
    extra = {name: array("d", [each[name] for each in extras]) for name in names}
    return PackedSteps(made, extra, len(steps), is_whole_file=whole)


def is_same_step(step: Step, other_step: Step) -> bool:
    """Whether two steps have equal figures; nan equals nan."""
    if step.step != other_step.step or step.extra != other_step.extra:
        return False
    mine, its = step[:-1], other_step[:-1]
    return mine == its or all(a == b or (a != a and b != b) for a, b in zip(mine, its, strict=True))


class RunSteps(Sequence[Step]):
    """The steps of a run, which a parser appends and corrects; readers ask which have changed."""

    __slots__ = ("_chunks", "_firsts", "_starts", "_tail", "_unchanged")

    def __init__(self, steps: Iterable[Step] = ()) -> None:
        self._chunks: list[PackedSteps | list[Step]] = []  # none of them changes: one whose step changes is replaced
        self._starts: list[int] = [0]  # place of the first step of each chunk, and of the tail
        self._firsts: list[int] = []  # first number in each chunk, or in the chunks before it; never falls
        self._tail: list[Step] = []
        self._unchanged = 0  # steps that are as they were at the last `take_changed`
        for step in steps:
            self.append(step)

    def __len__(self) -> int:
        return self._starts[-1] + len(self._tail)

    def __iter__(self) -> Iterator[Step]:
        for chunk in self._chunks:
            yield from chunk
        yield from self._tail

    @overload
    def __getitem__(self, index: int) -> Step: ...
    @overload
    def __getitem__(self, index: slice) -> list[Step]: ...
    def __getitem__(self, index: int | slice) -> Step | list[Step]:
        if index == -1 and self._tail:
            return self._tail[-1]
        if isinstance(index, slice):
            return self._slice_steps(*index.indices(len(self)))
        index += len(self) if index < 0 else 0
        if index >= self._starts[-1]:
            return self._tail[index - self._starts[-1]]
        if index < 0:
            raise IndexError(index)
        chunk = bisect_right(self._starts, index) - 1
        return self._chunks[chunk][index - self._starts[chunk]]

    def _slice_steps(self, first_index: int, end_index: int, steps_between: int) -> list[Step]:
        if steps_between != 1:
            return [self[at] for at in range(first_index, end_index, steps_between)]
        return list(chain.from_iterable(self.chunks(first_index, end_index)))

    def chunks(self, first_index: int, end_index: int) -> Iterator[PackedSteps | list[Step]]:
        """The steps from `first_index` to before `end_index` in chunks, packed where they are stored packed."""
        for at in range(max(0, bisect_right(self._starts, first_index) - 1), len(self._starts)):
            begin, chunk = self._starts[at], self._chunks[at] if at < len(self._chunks) else self._tail
            if begin >= end_index:
                break
            if isinstance(chunk, PackedSteps) and begin >= first_index and begin + len(chunk) <= end_index:
                yield chunk
            else:
                yield list(chunk)[max(0, first_index - begin) : end_index - begin]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(mine == its for mine, its in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]  # it grows

    def __repr__(self) -> str:
        return repr(tuple(self))

    @property
    def nans(self) -> int:
        """Number of steps with `nan` set, counted without unpacking."""
        packed = sum(sum(chunk.columns.get("nan", ())) for chunk in self._chunks if isinstance(chunk, PackedSteps))
        others = (
            step.nan for chunk in (*self._chunks, self._tail) if not isinstance(chunk, PackedSteps) for step in chunk
        )
        return packed + sum(others)

    @property
    def bad_from(self) -> int:
        """The index of the first of the NaN steps at the end; the number of steps if the last is good."""
        at = _nan_begins_at(self._tail)
        for chunk in reversed(self._chunks) if not at else ():
            bad = chunk.columns.get("nan") if isinstance(chunk, PackedSteps) else [step.nan for step in chunk]
            found = bytes(bad).rfind(0) + 1 if bad is not None else len(chunk)
            at += found - len(chunk)
            if found:
                break
        return self._starts[-1] + at

    @property
    def last(self) -> Step | None:
        return self._tail[-1] if self._tail else self[-1] if self._chunks else None

    def take_changed(self) -> int:
        """The index of the first step that is new or changed since the last call."""
        at, self._unchanged = self._unchanged, len(self)
        return at

    def append(self, step: Step) -> None:
        self._tail.append(step)
        if len(self._tail) >= 2 * _PACKED_STEPS:
            self._append_chunk(_pack_steps(self._tail[:_PACKED_STEPS]))
            del self._tail[:_PACKED_STEPS]

    def extend(self, added_steps: PackedSteps) -> None:
        if self._tail:
            self._append_chunk(_pack_steps(self._tail))
            self._tail = []
        self._append_chunk(added_steps)

    def _append_chunk(self, chunk: PackedSteps | list[Step]) -> None:
        self._chunks.append(chunk)
        self._starts.insert(len(self._starts) - 1, self._starts[-1])
        self._starts[-1] += len(chunk)
        first = chunk.first if isinstance(chunk, PackedSteps) else _first_number(chunk)
        self._firsts.append(first if first is not None else self._firsts[-1] if self._firsts else -1)

    def __setitem__(self, index: int, step: Step) -> None:
        index += len(self) if index < 0 else 0
        if is_same_step(self[index], step):
            return  # another rank that tells of it
        self._unchanged = min(self._unchanged, index)
        if index < self._starts[-1]:
            chunk = bisect_right(self._starts, index) - 1
            steps = list(self._chunks[chunk])
            steps[index - self._starts[chunk]] = step
            self._chunks[chunk] = _pack_steps(steps)
        else:
            self._tail[index - self._starts[-1]] = step

    def insert_step(self, index: int, step: Step) -> None:
        rest = [step, *self[index:]]
        self.truncate(index)
        for each in rest:
            self.append(each)

    def thin_out(self, firsts: Sequence[int], end_index: int) -> None:
        """Keep the last step of each group; `firsts` are the groups' first indexes, `end_index` ends the last one."""
        start, kept = firsts[0], RunSteps()
        old = self[start:end_index]
        groups = _pack_steps([old[after - start - 1] for after in (*firsts[1:], end_index)])
        for chunk in (*self.chunks(0, start), groups, *self.chunks(end_index, len(self))):
            if isinstance(chunk, PackedSteps):
                kept.extend(chunk)
            else:
                for step in chunk:
                    kept.append(step)
        self._unchanged = max(0, self._unchanged - (end_index - start - len(firsts)))
        self._chunks, self._starts, self._firsts, self._tail = kept._chunks, kept._starts, kept._firsts, kept._tail

    def truncate(self, size: int) -> None:
        self._unchanged = min(self._unchanged, size)
        while size < self._starts[-1]:
            rest = list(self._chunks.pop())
            self._firsts.pop()
            del self._starts[-1]
            self._tail = rest
        del self._tail[size - self._starts[-1] :]

    def index_of(self, number: int) -> int | None:
        for at in range(len(self._tail) - 1, -1, -1):
            known = self._tail[at].step
            if known == number:
                return self._starts[-1] + at
            if known is not None and known < number:
                return None
        for chunk in range(bisect_right(self._firsts, number) - 1, -1, -1):
            here = self._chunks[chunk]
            unpacked = (at for at, step in enumerate(here) if step.step == number)
            found = here.index_of(number) if isinstance(here, PackedSteps) else next(unpacked, None)
            if found is not None:
                return self._starts[chunk] + found
            if (here.first if isinstance(here, PackedSteps) else _first_number(here)) is not None:
                return None
        return None


def _first_number(steps: list[Step]) -> int | None:
    return next((step.step for step in steps if step.step is not None), None)


STEPS_IN_BLOCK = 64
NAN = math.nan


class StepMetric(Struct, frozen=True):
    name: str  # name of the field of `Step`
    title: str
    unit: str = ""
    speed: bool = False  # a speed: what it is in the first steps after a start says nothing, and is left out


STEP_METRICS = (  # in the order of their weight
    StepMetric("loss", "loss"),
    StepMetric("grad_norm", "grad norm"),
    StepMetric("step_time_s", "step time", "s", speed=True),
    StepMetric("tflops_per_gpu", "TFLOP/s per GPU", "", speed=True),
    StepMetric("lr", "learning rate"),
    StepMetric("tokens_per_s", "tokens/s", "", speed=True),
)


class ColumnRange(NamedTuple):
    """The lowest, highest, first and last value of a metric within one column of a chart."""

    at: int  # number of the column
    low: float
    high: float
    first: float
    last: float


class MetricColumn:
    """The values of one metric per step; nan if missing, not a number, or infinite."""

    def __init__(self) -> None:
        self.values: array[float] = array("d")
        self._thinned: tuple[array[float], array[float], array[float], array[int]] = (
            array("d"),
            array("d"),
            array("d"),
            array("q"),
        )  # lowest, highest, sum and count of what each of the first values stands for
        self._lows: array[float] = array("d")  # of each block
        self._highs: array[float] = array("d")
        self._sums: array[float] = array("d", (0.0,))  # of all blocks before
        self._counts: array[int] = array("q", (0,))

    def __len__(self) -> int:
        return len(self.values)

    @property
    def known(self) -> int:
        """Number of values that are not missing."""
        return self._counts[-1] + self._total_of_values(len(self._lows) * STEPS_IN_BLOCK, len(self.values))[1]

    def append(self, value: float | None) -> None:
        self.extend((value,))

    def extend(self, values: Sequence[float | None]) -> None:
        self.values.extend([value if value is not None and math.isfinite(value) else NAN for value in values])
        for start in range(len(self._lows) * STEPS_IN_BLOCK, len(self.values) - STEPS_IN_BLOCK + 1, STEPS_IN_BLOCK):
            self._add_block(start)

    def _add_block(self, first_index: int) -> None:
        low, high = self._extremes_of_values(first_index, first_index + STEPS_IN_BLOCK)
        total, count = self._total_of_values(first_index, first_index + STEPS_IN_BLOCK)
        self._lows.append(low)
        self._highs.append(high)
        self._sums.append(self._sums[-1] + total)
        self._counts.append(self._counts[-1] + count)

    def truncate(self, length: int) -> None:
        """Keep only the first `length` values."""
        blocks = length // STEPS_IN_BLOCK
        del self.values[length:], self._lows[blocks:], self._highs[blocks:]
        del self._sums[blocks + 1 :], self._counts[blocks + 1 :]
        for each in self._thinned:
            del each[length:]

    def thin_out(self, firsts: Sequence[int], end_index: int) -> None:
        """Keep the last value of each group; `firsts` are the groups' first indexes, `end_index` ends the last one."""
        groups = list(pairwise((*firsts, end_index)))
        fresh = self.values[len(self._thinned[0]) : end_index]
        there = [value == value for value in fresh]
        lows, highs, sums, counts = self._thinned
        for each, missing in ((lows, math.inf), (highs, -math.inf), (sums, 0.0)):
            each.extend(fresh if all(there) else [value if value == value else missing for value in fresh])
        counts.extend(there)
        lows[firsts[0] : end_index] = array("d", [min(lows[start:end]) for start, end in groups])
        highs[firsts[0] : end_index] = array("d", [max(highs[start:end]) for start, end in groups])
        sums[firsts[0] : end_index] = array("d", [sum(sums[start:end]) for start, end in groups])
        counts[firsts[0] : end_index] = array("q", [sum(counts[start:end]) for start, end in groups])
        self.values[firsts[0] : end_index] = array("d", [self.values[end - 1] for _, end in groups])
        self._lows, self._highs, self._sums, self._counts = array("d"), array("d"), array("d", (0.0,)), array("q", (0,))
        for start in range(0, len(self.values) - STEPS_IN_BLOCK + 1, STEPS_IN_BLOCK):
            self._add_block(start)

    def mean_of(self, first_index: int, end_index: int) -> float:
        """Mean of the values from `first_index` up to `end_index` (exclusive); nan if there are none."""
        first_index, end_index = max(0, first_index), min(end_index, len(self.values))
        first, last = -(-first_index // STEPS_IN_BLOCK), end_index // STEPS_IN_BLOCK
        if first >= last:
            total, count = self._total_of_values(first_index, end_index)
            return total / count if count else NAN
        left, right = (
            self._total_of_values(first_index, first * STEPS_IN_BLOCK),
            self._total_of_values(last * STEPS_IN_BLOCK, end_index),
        )
        count = left[1] + right[1] + self._counts[last] - self._counts[first]
        return (left[0] + right[0] + self._sums[last] - self._sums[first]) / count if count else NAN

    def extremes_of(self, first_index: int, end_index: int) -> tuple[float, float]:
        """Lowest and highest value in the range; inf and -inf if there are none."""
        if end_index - first_index <= 2 * STEPS_IN_BLOCK:
            return self._extremes_of_values(first_index, end_index)
        first, last = -(-first_index // STEPS_IN_BLOCK), end_index // STEPS_IN_BLOCK
        left, right = (
            self._extremes_of_values(first_index, first * STEPS_IN_BLOCK),
            self._extremes_of_values(last * STEPS_IN_BLOCK, end_index),
        )
        low, high = min(self._lows[first:last]), max(self._highs[first:last])
        return min(left[0], right[0], low), max(left[1], right[1], high)

    def _extremes_of_values(self, first_index: int, end_index: int) -> tuple[float, float]:
        if first_index >= end_index:
            return math.inf, -math.inf
        lows, highs, *_ = self._thinned
        values = _present_values(self.values[max(first_index, len(lows)) : max(first_index, end_index)])
        low, high = min(values, default=math.inf), max(values, default=-math.inf)
        if first_index >= len(lows):
            return low, high
        return min(low, *lows[first_index:end_index]), max(high, *highs[first_index:end_index])

    def _total_of_values(self, first_index: int, end_index: int) -> tuple[float, int]:
        """Sum and count of the known values from step index `first_index` up to `end_index`."""
        _, _, sums, counts = self._thinned
        values = _present_values(self.values[max(first_index, len(sums)) : max(first_index, end_index)])
        return sum(sums[first_index:end_index]) + sum(values), sum(counts[first_index:end_index]) + len(values)

    def last_value(self) -> float | None:
        """The latest known value; None if none is known."""
        return next((value for value in reversed(self.values) if value == value), None)

    def column_ranges(self, edges: Sequence[int]) -> list[ColumnRange]:
        """The range of values in each chart column; column n has the steps from edges[n] to before edges[n + 1]."""
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


def _present_values(values: array[float]) -> Sequence[float]:
    """The values that are not missing."""
    total = sum(values)
    return values if total == total else [each for each in values if each == each]
