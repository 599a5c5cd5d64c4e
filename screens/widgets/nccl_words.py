"""A test in words and cells: the sentence above the panel, and the verdict on each row (pure)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from console.models.nccl_kept import faster
from console.models.reference import (
    PASS_LINE,
    Passing,
    Word,
    expected_busbw,
    is_comparable,
    judge,
    verdict,
)
from screens import wording
from screens.wording import Run

if TYPE_CHECKING:
    from collections.abc import Callable

    from console.models.nccl import Half, NcclTest, Row
    from console.models.nccl_kept import MeasuredTest, Usual
    from screens.wording import Cell

_VERDICTS = {
    "good": Run("● ok", "ok"),
    "fair": Run("◐ low", "waits"),
    "below": Run("✗ slow", "bad"),
    "wrong": Run("✗ wrong", "bad"),
}
_PASSED = {
    Passing.PASSED: Run("✓ passed", "ok"),
    Passing.FAILED: Run("✗ failed", "bad"),
    Passing.UNJUDGED: Run("○ not judged", "dim"),
    Passing.RUNNING: Run("● runs", "ok"),
}
NOTABLE = 0.02
"""A difference by a smaller share is none."""


@dataclass(frozen=True, slots=True)
class Line:
    """One row of the table, and what it is held against."""

    row: Row
    compared: bool
    """Whether the A4 reference speaks of its test."""
    usual: float | None = None
    """GB/s: the median of the person's own tests at this size."""
    other: float | None = None
    """GB/s of the test it is compared with."""


@dataclass(frozen=True, slots=True)
class Against:
    """What a test is held against."""

    pass_line: float = PASS_LINE
    accelerator: str = ""
    usual: Usual | None = None
    other: MeasuredTest | None = None


def average_so_far(test: NcclTest) -> float | None:
    """The mean over rows and halves, as the footer will say it, GB/s."""
    if test.avg_busbw is not None:
        return test.avg_busbw
    values = [half.busbw for row in test.rows for half in halves(row) if half.busbw is not None]
    return sum(values) / len(values) if values else None


def wrong_so_far(test: NcclTest) -> int:
    """Wrong elements in all rows."""
    return sum(half.wrong or 0 for row in test.rows for half in halves(row))


def halves(row: Row) -> list[Half]:
    """Those it has."""
    return [half for half in (row.out_of_place, row.in_place) if half is not None]


def summary(test: NcclTest, against: Against | None = None) -> list[Run]:
    """The test in one sentence: verdict, best row, average, wrong values, what is usual."""
    held = against or Against()
    best = max(
        (row for row in test.rows if row.best_busbw is not None), key=lambda row: row.best_busbw or 0, default=None
    )
    if best is None or best.best_busbw is None:
        if test.error:
            return [Run("✗ failed", "bad"), Run(f": {wording.sentence(test.error)}")]
        return [Run("◐ ", "waits"), Run("The test has started; its first row is on the way.")]
    words = f"{best.best_busbw:,.1f} GB/s at {wording.size(best.size)}"
    reference = expected_busbw(best.size) if is_comparable(test, held.accelerator) else None
    if reference:
        words += f": {100 * best.best_busbw / reference:.0f} % of the A4 reference ({reference:,.0f}, 16 GPUs)"
    words += _usually(best, held)
    average = average_so_far(test)
    words += f"; average {average:,.1f}{'' if test.finished else ' so far'}" if average is not None else ""
    wrong = wrong_so_far(test)
    end = Run(f"; {wording.count(wrong, 'wrong value')}" if wrong else "; 0 wrong", "bad" if wrong else "")
    return [*_verdict_first(test, held), Run(words), end, *_why(test, held, wrong), *_than_other(test, held)]


def _verdict_first(test: NcclTest, held: Against) -> list[Run]:
    return [_PASSED[judge(test, held.pass_line, held.accelerator).passing], Run("  ")]


def _why(test: NcclTest, held: Against, wrong: int) -> list[Run]:
    told = judge(test, held.pass_line, held.accelerator)
    if not told.why or (wrong and not test.error):
        return []
    ink = {Passing.PASSED: "ok", Passing.FAILED: "bad"}.get(told.passing, "dim")
    return [Run(f"; {wording.sentence(told.why)}", ink)]


def _usually(best: Row, held: Against) -> str:
    median = held.usual.at(best.size) if held.usual else None
    if held.usual is None or not median or best.best_busbw is None:
        return ""
    share = f"{100 * best.best_busbw / median:.0f} % of what is usual here"
    return f", {share} ({median:,.0f}, {wording.count(held.usual.tests, 'test')})"


def _than_other(test: NcclTest, held: Against) -> list[Run]:
    share = faster(held.other.test, test) if held.other else None
    if held.other is None or share is None:
        return []
    return [Run(f"; {difference_words(share)} than {held.other.job}", difference_ink(share))]


def difference_words(share: float) -> str:
    """By how many percent it is faster or slower, or that there is no difference to speak of."""
    if abs(share) < NOTABLE:
        return "not notably faster or slower"
    return f"{100 * abs(share):.0f} % {'faster' if share > 0 else 'slower'}"


def difference_ink(share: float) -> str:
    """Slower by much is bad."""
    return "bad" if share < -0.1 else "waits" if share < -NOTABLE else "ok" if share > NOTABLE else "dim"


# cells


def value_cell(pick: Callable[[Row], Half | None], name: str, digits: int) -> Callable[[Line], Cell]:
    """A figure of one half."""

    def cell(line: Line) -> Cell:
        half = pick(line.row)
        value = getattr(half, name) if half else None
        return "" if value is None else f"{value:,.{digits}f}"

    return cell


def time_cell(pick: Callable[[Row], Half | None]) -> Callable[[Line], Cell]:
    """The time of one half, microseconds."""

    def cell(line: Line) -> Cell:
        half = pick(line.row)
        value = half.time_us if half else None
        return "" if value is None else Run(f"{value:,.1f}" if value < 10_000 else f"{value:,.0f}", "dim")

    return cell


def wrong_cell(line: Line) -> Cell:
    """Wrong elements of both halves."""
    counts = [half.wrong for half in halves(line.row) if half.wrong is not None]
    if not counts:
        return Run("n/a", "faint")
    return Run(f"{sum(counts):,}", "bad" if sum(counts) else "dim")


def verdict_cell(line: Line) -> Cell:
    """How the row compares with the A4 reference."""
    told = verdict(line.row)
    if told.word != Word.WRONG and (not line.compared or told.ratio is None):
        return ""
    mark = _VERDICTS.get(told.word)
    if mark is None:
        return ""
    return [mark, Run(f" {100 * told.ratio:.0f} %", "dim")] if told.ratio is not None and line.compared else mark


def usual_cell(line: Line) -> Cell:
    """How the row compares with the person's own tests."""
    best = line.row.best_busbw
    if not line.usual or best is None:
        return ""
    share = best / line.usual - 1
    return Run(f"{100 * (1 + share):.0f} %", difference_ink(share))


def other_cell(line: Line) -> Cell:
    """By how much it is faster than the test it is compared with."""
    best = line.row.best_busbw
    if not line.other or best is None:
        return ""
    share = best / line.other - 1
    return Run(f"{100 * share:+.1f} %", difference_ink(share))


def out_of_place(row: Row) -> Half | None:
    """That half."""
    return row.out_of_place


def in_place(row: Row) -> Half | None:
    """That half."""
    return row.in_place
