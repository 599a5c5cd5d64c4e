"""The chart of a bandwidth test (busbw over message size, beside the reference), and its summary and table cells."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log2
from typing import ClassVar, NamedTuple

from textual.reactive import reactive

from console.metrics.export import format_message_size
from console.metrics.nccl.history import MeasuredTest, UsualBandwidth, mean_speedup
from console.metrics.nccl.results import (
    PASS_LINE,
    Half,
    NcclResult,
    NcclTest,
    Row,
    RowRating,
    expected_busbw,
    is_comparable,
    judge_row,
    judge_test,
)
from screens import wording
from screens.widgets.charts.canvas import DOTS_HIGH, DOTS_WIDE, Box, Canvas, Frame, Plot, round_ticks
from screens.wording import Cell, Span

OUT, IN, BOTH = "●", "○", "◉"
OUT_INK, IN_INK = "accent", "waits"


class Point(NamedTuple):
    """Bus bandwidth (GB/s) of both halves at one message size; None if not measured."""

    size: int
    out_of_place: float | None = None
    in_place: float | None = None


class Band(NamedTuple):
    """The expected range of bus bandwidth (GB/s) at one message size."""

    size: int
    low: float
    high: float


class Overlay(NamedTuple):
    """Another test's curve for comparison: (size, GB/s) points."""

    name: str
    letter: str
    ink: str
    points: tuple[tuple[int, float], ...]


def expected(band: Sequence[Band], size: float) -> tuple[float, float] | None:
    """The expected range at that size, interpolated logarithmically between known sizes; None outside them."""
    for left, right in pairwise(band):
        if left.size <= size <= right.size:
            part = (log2(size) - log2(left.size)) / (log2(right.size) - log2(left.size))
            return left.low + part * (right.low - left.low), left.high + part * (right.high - left.high)
    return (band[0].low, band[0].high) if len(band) == 1 and band[0].size == size else None


class SizeFrame(Frame):
    """Axes of a bandwidth curve: linear from 0 for bandwidth, logarithmic for message size."""

    def __init__(
        self, points: Sequence[Point], band: Sequence[Band], width: int, height: int, overlays: Sequence[Overlay] = ()
    ) -> None:
        laid = [point for each in overlays for point in each.points]
        sizes = [point.size for point in points if point.size > 0] + [each.size for each in band]
        sizes += [size for size, _ in laid if not points]
        values = [value for point in points for value in (point.out_of_place, point.in_place) if value is not None]
        values += [value for _, value in laid]
        self.first, self.last = min(sizes, default=1), max(sizes, default=1)
        ticks = round_ticks(max([*values, *(each.high for each in band)], default=1.0) or 1.0, max(1, height // 4))
        super().__init__(Box(0, 0, width, height), 0.0, ticks[-1], ticks=ticks, gap=1, margin=1)

    def column(self, size: float) -> float:
        """The size's column in dots from the y axis."""
        span = log2(self.last) - log2(self.first)
        part = (log2(size) - log2(self.first)) / span if span else 0.5
        return part * (self.dots() - 1)

    def dot(self, size: float, value: float) -> tuple[int, int]:
        row = self.row(value)
        assert row is not None, "the scale begins at 0 and is no logarithm"
        return self.left * DOTS_WIDE + round(self.column(size)), row

    def cell(self, size: float, value: float) -> tuple[int, int]:
        x, y = self.dot(size, value)
        return x // DOTS_WIDE, y // DOTS_HIGH


def draw(
    points: Sequence[Point],
    band: Sequence[Band],
    width: int,
    height: int,
    marked: int | None = None,
    overlays: Sequence[Overlay] = (),
) -> Canvas:
    """Draw the chart: legend, axes with units, reference band, and both halves as lines with marks."""
    canvas = Canvas(width, height)
    if width < 24 or height < 6:
        canvas.text(0, 0, "too small for a curve", "dim")
        return canvas
    frame = SizeFrame(points, band, width, height, overlays)
    _shade_band(canvas, frame, band)
    sizes = sorted({point.size for point in points if point.size > 0} | {each.size for each in band})
    frame.draw(
        canvas, [(frame.left + round(frame.column(size)) // DOTS_WIDE, format_message_size(size)) for size in sizes]
    )
    if marked is not None and frame.first <= marked <= frame.last:
        x, _ = frame.cell(marked, 0)
        frame.upright(canvas, x, "dim", "┊")
    shown = [point for point in points if point.size > 0]
    for each in overlays:
        _draw_overlay(canvas, frame, each)
    _draw_half(canvas, frame, [(each.size, each.in_place) for each in shown], IN_INK, every=3)
    _draw_half(canvas, frame, [(each.size, each.out_of_place) for each in shown], OUT_INK, every=1)
    both = _draw_marks(canvas, frame, shown)
    _draw_legend(canvas, both=both, with_band=bool(band), overlays=overlays)
    return canvas


def _draw_overlay(canvas: Canvas, frame: SizeFrame, overlay: Overlay) -> None:
    inside = [(size, value) for size, value in overlay.points if frame.first <= size <= frame.last]
    _draw_half(canvas, frame, inside, overlay.ink, every=4)
    for size, value in inside:
        canvas.mark(*frame.cell(size, value), overlay.letter, overlay.ink)


def _shade_band(canvas: Canvas, frame: SizeFrame, band: Sequence[Band]) -> None:
    for column in range(frame.columns):
        dots = column * DOTS_WIDE + 0.5
        span = log2(frame.last) - log2(frame.first)
        size = 2 ** (log2(frame.first) + span * dots / (frame.columns * DOTS_WIDE - 1))
        reach = expected(band, size)
        if reach is None:
            continue
        (_, top), (_, bottom) = (frame.cell(size, value) for value in reversed(reach))
        for y in range(top, bottom + 1):
            canvas.shade(frame.left + column, y)


def _draw_half(
    canvas: Canvas, frame: SizeFrame, values: Sequence[tuple[int, float | None]], ink: str, *, every: int
) -> None:
    dots = [frame.dot(size, value) for size, value in values if value is not None]
    for start, end in pairwise(dots):
        canvas.line(start, end, ink, every=every)


def _draw_marks(canvas: Canvas, frame: SizeFrame, points: Sequence[Point]) -> bool:
    """One mark for both halves where they are nearer than half a line, even if a line's edge is between them.

    Returns whether there is such a mark.
    """
    both = False
    for point in points:
        below, above = point.in_place, point.out_of_place
        if below is not None and above is not None:
            apart = abs(frame.dot(point.size, below)[1] - frame.dot(point.size, above)[1])
            below = above if apart < DOTS_HIGH // 2 else below
        if below is not None:
            canvas.mark(*frame.cell(point.size, below), IN, IN_INK)
        if above is not None:
            x, y = frame.cell(point.size, above)
            here = canvas.letter(x, y) == IN
            both |= here
            canvas.mark(x, y, BOTH if here else OUT, OUT_INK)
    return both


def _draw_legend(canvas: Canvas, *, both: bool, with_band: bool, overlays: Sequence[Overlay]) -> None:
    canvas.text(0, 0, "busbw GB/s", "dim")
    room = canvas.width - 12
    entries = [(OUT, OUT_INK, "out-of-place"), (IN, IN_INK, "in-place")]
    entries += [(BOTH, OUT_INK, "both")] if both else []
    if with_band:
        entries.append(("░", "faint", "A4 reference"))
    entries += [(each.letter, each.ink, each.name) for each in overlays]
    if sum(len(text) + 4 for _, _, text in entries) > room:
        entries = [(sign, ink, _SHORT.get(text, text.partition(" (")[0])) for sign, ink, text in entries]
    while entries and sum(len(text) + 4 for _, _, text in entries) > room:
        entries.pop()
    x = canvas.width - sum(len(text) + 4 for *_, text in entries) + 2
    for sign, ink, text in entries:
        canvas.mark(x, 0, sign, ink)
        canvas.text(x + 2, 0, text, "dim")
        x += len(text) + 4


_SHORT = {"out-of-place": "out", "in-place": "in", "A4 reference": "A4"}


class Curve(Plot):
    """A widget that draws the curve at its own size: out-of-place as a full line, in-place dotted."""

    DEFAULT_CSS: ClassVar[str] = "Curve { height: 1fr; width: 1fr; min-height: 6; }"

    points: reactive[tuple[Point, ...]] = reactive(())
    band: reactive[tuple[Band, ...]] = reactive(())
    overlays: reactive[tuple[Overlay, ...]] = reactive(())
    marked: reactive[int | None] = reactive(None)  # message size to point out, bytes

    watch_points = Plot.redraw
    watch_band = Plot.redraw
    watch_overlays = Plot.redraw
    watch_marked = Plot.redraw

    def plot(self, width: int, height: int) -> Canvas:
        return draw(self.points, self.band, width, height, self.marked, self.overlays)


_VERDICTS = {
    "good": Span("● ok", "ok"),
    "fair": Span("◐ low", "waits"),
    "below": Span("✗ slow", "bad"),
    "wrong": Span("✗ wrong", "bad"),
}
_PASSED = {
    NcclResult.PASSED: Span("✓ passed", "ok"),
    NcclResult.FAILED: Span("✗ failed", "bad"),
    NcclResult.UNJUDGED: Span("○ not judged", "dim"),
    NcclResult.RUNNING: Span("● runs", "ok"),
}
NOTABLE = 0.02  # a difference by a smaller share is none


@dataclass(frozen=True, slots=True)
class Line:
    row: Row
    compared: bool  # whether the A4 reference speaks of its test
    usual: float | None = None  # GB/s: the median of the person's own tests at this size
    other: float | None = None  # GB/s of the test it is compared with


@dataclass(frozen=True, slots=True)
class ComparisonBasis:
    pass_line: float = PASS_LINE
    accelerator: str = ""
    usual: UsualBandwidth | None = None
    other: MeasuredTest | None = None


def average_so_far(test: NcclTest) -> float | None:
    if test.avg_busbw is not None:
        return test.avg_busbw
    values = [half.busbw for row in test.rows for half in halves(row) if half.busbw is not None]
    return sum(values) / len(values) if values else None


def halves(row: Row) -> list[Half]:
    return [half for half in (row.out_of_place, row.in_place) if half is not None]


def summary(test: NcclTest, against: ComparisonBasis | None = None) -> list[Span]:
    """The test as a sentence: verdict, best row, average, wrong values, and the usual value."""
    held = against or ComparisonBasis()
    best = max(
        (row for row in test.rows if row.best_busbw is not None), key=lambda row: row.best_busbw or 0, default=None
    )
    if best is None or best.best_busbw is None:
        if test.error:
            return [Span("✗ failed", "bad"), Span(f": {wording.sentence(test.error)}")]
        return [Span("◐ ", "waits"), Span("The test has started; its first row is on the way.")]
    words = f"{best.best_busbw:,.1f} GB/s at {wording.size(best.size)}"
    reference = expected_busbw(best.size) if is_comparable(test, held.accelerator) else None
    if reference:
        words += f": {100 * best.best_busbw / reference:.0f} % of the A4 reference ({reference:,.0f}, 16 GPUs)"
    if held.usual and (median := held.usual.usual_at(best.size)):
        usual = f"{median:,.0f}, {wording.count(held.usual.tests, 'test')}"
        words += f", {100 * best.best_busbw / median:.0f} % of what is usual here ({usual})"
    average = average_so_far(test)
    words += f"; average {average:,.1f}{'' if test.finished else ' so far'}" if average is not None else ""
    wrong = sum(half.wrong or 0 for row in test.rows for half in halves(row))
    end = Span(f"; {wording.count(wrong, 'wrong value')}" if wrong else "; 0 wrong", "bad" if wrong else "")
    verdict = judge_test(test, held.pass_line, held.accelerator)
    mark = _PASSED[verdict.passing]
    why = f"; {wording.sentence(verdict.why)}" if verdict.why and (test.error or not wrong) else ""
    ink = "dim" if verdict.passing is NcclResult.RUNNING else mark.ink
    return [mark, Span("  "), Span(words), end, Span(why, ink), *_than_other(test, held)]


def _than_other(test: NcclTest, held: ComparisonBasis) -> list[Span]:
    share = mean_speedup(held.other.test, test) if held.other else None
    if held.other is None or share is None:
        return []
    return [Span(f"; {difference_words(share)} than {held.other.job}", difference_ink(share))]


def difference_words(share: float) -> str:
    """By how many percent it is faster or slower; small differences count as none."""
    if abs(share) < NOTABLE:
        return "not notably faster or slower"
    return f"{100 * abs(share):.0f} % {'faster' if share > 0 else 'slower'}"


def difference_ink(share: float) -> str:
    return "bad" if share < -0.1 else "waits" if share < -NOTABLE else "ok" if share > NOTABLE else "dim"


# cells


def value_cell(half: str, name: str, ink: str = "") -> Callable[[Line], Cell]:
    """A cell function for a figure of one half, in GB/s or microseconds."""

    def cell(line: Line) -> Cell:
        value: float | None = getattr(getattr(line.row, half), name, None)
        return "" if value is None else Span(f"{value:,.1f}" if value < 10_000 else f"{value:,.0f}", ink)

    return cell


def wrong_cell(line: Line) -> Cell:
    counts = [half.wrong for half in halves(line.row) if half.wrong is not None]
    if not counts:
        return Span("n/a", "dim")
    return Span(f"{sum(counts):,}", "bad" if sum(counts) else "dim")


def verdict_cell(line: Line) -> Cell:
    told = judge_row(line.row)
    if told.word != RowRating.WRONG and (not line.compared or told.ratio is None):
        return ""
    mark = _VERDICTS.get(told.word)
    if mark is None:
        return ""
    return [mark, Span(f" {100 * told.ratio:.0f} %", "dim")] if told.ratio is not None and line.compared else mark


def usual_cell(line: Line) -> Cell:
    return _comparison_cell(line, line.usual, lambda ratio: f"{100 * ratio:.0f} %")


def other_cell(line: Line) -> Cell:
    return _comparison_cell(line, line.other, lambda ratio: f"{100 * (ratio - 1):+.1f} %")


def _comparison_cell(line: Line, held: float | None, words: Callable[[float], str]) -> Cell:
    best = line.row.best_busbw
    return Span(words(best / held), difference_ink(best / held - 1)) if held and best is not None else ""
