"""The panel of an NCCL test: summary, curve (busbw over message size, beside the reference) and table of its rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, log2
from types import MappingProxyType
from typing import ClassVar, NamedTuple

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.getters import query_one
from textual.reactive import reactive

from console.metrics.export_results import REFERENCE_BAND, format_message_size
from console.metrics.nccl_history import (
    MeasuredTest,
    NodeBandwidth,
    UsualBandwidth,
    comparable_tests,
    mean_speedup,
    usual_bandwidth,
)
from screens import wording
from screens.columns.column import Column, RowKey
from screens.columns.nodes import busbw_words
from screens.widgets.charts.braille import (
    DOTS_HIGH,
    DOTS_WIDE,
    Canvas,
    MeasuresPanel,
    PlotBox,
    PlotFrame,
    PlotWidget,
    round_ticks,
)
from screens.widgets.side_pane import Lines, SidePane
from screens.widgets.styled_text import cut_name
from screens.widgets.table.row_painter import EmptyNotice
from screens.widgets.table.table import ResourceTable
from screens.widgets.wrapped_sentence import SentenceLine
from screens.wording import Cell, Span
from trainlog import (
    PASS_LINE,
    NcclHalf,
    NcclResult,
    NcclRow,
    NcclTest,
    RowRating,
    expected_busbw,
    is_comparable,
    judge_row,
    judge_test,
    reference_curve,
)

OUT_OF_PLACE_MARK, IN_PLACE_MARK, BOTH_MARK = "●", "○", "◉"
OUT_STYLE, IN_STYLE = "accent", "waits"


class CurvePoint(NamedTuple):
    """Bus bandwidth (GB/s) of both halves at one message size; None if not measured."""

    size: int
    out_of_place: float | None = None
    in_place: float | None = None


class ExpectedRange(NamedTuple):
    """The expected range of bus bandwidth (GB/s) at one message size."""

    size: int
    low: float
    high: float


class OtherCurve(NamedTuple):
    """The curve of another test for comparison: (size, GB/s) points."""

    name: str
    letter: str
    style: str
    points: tuple[tuple[int, float], ...]


def expected_at_size(band: Sequence[ExpectedRange], size: float) -> tuple[float, float] | None:
    """The expected bandwidth range at a message size, interpolated between known sizes; None outside them."""
    for left, right in pairwise(band):
        if left.size <= size <= right.size:
            part = (log2(size) - log2(left.size)) / (log2(right.size) - log2(left.size))
            return left.low + part * (right.low - left.low), left.high + part * (right.high - left.high)
    return (band[0].low, band[0].high) if len(band) == 1 and band[0].size == size else None


class SizeFrame(PlotFrame):
    """Axes of a bandwidth curve: linear from 0 for bandwidth, logarithmic for message size."""

    def __init__(
        self,
        points: Sequence[CurvePoint],
        band: Sequence[ExpectedRange],
        width: int,
        height: int,
        overlays: Sequence[OtherCurve] = (),
    ) -> None:
        laid = [point for each in overlays for point in each.points]
        sizes = [point.size for point in points if point.size > 0] + [each.size for each in band]
        sizes += [size for size, _ in laid if not points]
        values = [value for point in points for value in (point.out_of_place, point.in_place) if value is not None]
        values += [value for _, value in laid]
        self.first, self.last = min(sizes, default=1), max(sizes, default=1)
        ticks = round_ticks(max([*values, *(each.high for each in band)], default=1.0) or 1.0, max(1, height // 4))
        uneven = (height - 4) % (len(ticks) - 1)  # lines by which one distance between ticks would be larger
        super().__init__(PlotBox(0, 0, width, height - uneven), 0.0, ticks[-1], ticks=ticks, gap=1, margin=1)

    def column(self, size: float) -> float:
        """The distance of a message size (bytes) from the y axis, in dots."""
        span = log2(self.last) - log2(self.first)
        part = (log2(size) - log2(self.first)) / span if span else 0.5
        return part * (self.dots() - 1)

    def sizes_along(self) -> list[tuple[int, str]]:
        """(cell, label) of the sizes on the x axis, at even distances, as close as the labels allow."""
        span = round(log2(self.last) - log2(self.first))
        labels = [format_message_size(self.first << power) for power in range(span + 1)]
        step = max(1, ceil((max(map(len, labels)) + 2.5) * span / self.columns))
        return [
            (self.left + round(self.column(self.first << power)) // DOTS_WIDE, labels[power])
            for power in range(0, span + 1, step)
        ]

    def dot(self, size: float, value: float) -> tuple[int, int]:
        row = self.row(value)
        assert row is not None, "the scale begins at 0 and is no logarithm"
        return self.left * DOTS_WIDE + round(self.column(size)), row

    def cell(self, size: float, value: float) -> tuple[int, int]:
        x, y = self.dot(size, value)
        return x // DOTS_WIDE, y // DOTS_HIGH


def draw_curve(
    points: Sequence[CurvePoint],
    band: Sequence[ExpectedRange],
    width: int,
    height: int,
    marked_size: int | None = None,
    overlays: Sequence[OtherCurve] = (),
) -> Canvas:
    """Draw the chart: legend, axes with units, reference band, a line at `marked_size`, both halves with marks."""
    canvas = Canvas(width, height)
    if not (points or band or overlays):
        return canvas
    if width < 24 or height < 6:
        canvas.text(0, 0, "too small for a curve", "dim")
        return canvas
    frame = SizeFrame(points, band, width, height, overlays)
    _shade_band(canvas, frame, band)
    frame.draw(canvas, frame.sizes_along())
    if marked_size is not None and frame.first <= marked_size <= frame.last:
        x, _ = frame.cell(marked_size, 0)
        frame.draw_vertical(canvas, x, "dim", "┊")
    shown = [point for point in points if point.size > 0]
    for each in overlays:
        inside = [(size, value) for size, value in each.points if frame.first <= size <= frame.last]
        _draw_half(canvas, frame, inside, each.style, every=4)
        for size, value in inside:
            canvas.mark(*frame.cell(size, value), each.letter, each.style)
    _draw_half(canvas, frame, [(each.size, each.in_place) for each in shown], IN_STYLE, every=3)
    _draw_half(canvas, frame, [(each.size, each.out_of_place) for each in shown], OUT_STYLE, every=1)
    both = _draw_marks(canvas, frame, shown)
    _draw_legend(canvas, both=both, with_band=bool(band), overlays=overlays)
    return canvas


def _shade_band(canvas: Canvas, frame: SizeFrame, band: Sequence[ExpectedRange]) -> None:
    for column in range(frame.columns):
        dots = column * DOTS_WIDE + 0.5
        span = log2(frame.last) - log2(frame.first)
        size = 2 ** (log2(frame.first) + span * dots / (frame.columns * DOTS_WIDE - 1))
        reach = expected_at_size(band, size)
        if reach is None:
            continue
        (_, top), (_, bottom) = (frame.cell(size, value) for value in reversed(reach))
        for y in range(top, bottom + 1):
            canvas.shade(frame.left + column, y)


def _draw_half(
    canvas: Canvas, frame: SizeFrame, values: Sequence[tuple[int, float | None]], style: str, *, every: int
) -> None:
    dots = [frame.dot(size, value) for size, value in values if value is not None]
    for start, end in pairwise(dots):
        canvas.line(start, end, style, dot_step=every)


def _draw_marks(canvas: Canvas, frame: SizeFrame, points: Sequence[CurvePoint]) -> bool:
    """Draw the in-place and out-of-place marks of each message size; returns whether two share a cell."""
    both = False
    for point in points:
        below, above = point.in_place, point.out_of_place
        if below is not None and above is not None:
            apart = abs(frame.dot(point.size, below)[1] - frame.dot(point.size, above)[1])
            below = above if apart < DOTS_HIGH // 2 else below
        if below is not None:
            canvas.mark(*frame.cell(point.size, below), IN_PLACE_MARK, IN_STYLE)
        if above is not None:
            x, y = frame.cell(point.size, above)
            here = canvas.letter(x, y) == IN_PLACE_MARK
            both |= here
            canvas.mark(x, y, BOTH_MARK if here else OUT_OF_PLACE_MARK, OUT_STYLE)
    return both


def _draw_legend(canvas: Canvas, *, both: bool, with_band: bool, overlays: Sequence[OtherCurve]) -> None:
    canvas.text(0, 0, "busbw GB/s", "dim")
    room = canvas.width - 12
    entries = [(OUT_OF_PLACE_MARK, OUT_STYLE, "out-of-place"), (IN_PLACE_MARK, IN_STYLE, "in-place")]
    entries += [(BOTH_MARK, OUT_STYLE, "both")] if both else []
    if with_band:
        entries.append(("░", "faint", "A4 reference"))
    entries += [(each.letter, each.style, each.name) for each in overlays]
    if sum(len(text) + 4 for _, _, text in entries) > room:
        entries = [(sign, style, _SHORT_NAMES.get(text, text.partition(" (")[0])) for sign, style, text in entries]
    while entries and sum(len(text) + 4 for _, _, text in entries) > room:
        entries.pop()
    x = canvas.width - sum(len(text) + 4 for *_, text in entries) + 2
    for sign, style, text in entries:
        canvas.mark(x, 0, sign, style)
        canvas.text(x + 2, 0, text, "dim")
        x += len(text) + 4


_SHORT_NAMES = {"out-of-place": "out", "in-place": "in", "A4 reference": "A4"}


class CurveWidget(PlotWidget):
    """A widget that draws the curve at its own size: out-of-place as a full line, in-place dotted."""

    DEFAULT_CSS: ClassVar[str] = "CurveWidget { height: 1fr; width: 1fr; min-height: 6; }"

    points: reactive[tuple[CurvePoint, ...]] = reactive(())
    band: reactive[tuple[ExpectedRange, ...]] = reactive(())
    overlays: reactive[tuple[OtherCurve, ...]] = reactive(())
    marked_size: reactive[int | None] = reactive(None)  # message size to point out, bytes

    watch_points = PlotWidget.redraw
    watch_band = PlotWidget.redraw
    watch_overlays = PlotWidget.redraw
    watch_marked_size = PlotWidget.redraw

    def plot(self, width: int, height: int) -> Canvas:
        return draw_curve(self.points, self.band, width, height, self.marked_size, self.overlays)


_VERDICT_STYLES = {
    "good": Span("● ok", "ok"),
    "fair": Span("⚠ low", "waits"),
    "below": Span("✗ slow", "bad"),
    "wrong": Span("✗ wrong", "bad"),
}
_PASS_STYLES = {
    NcclResult.PASSED: Span("✓ passed", "ok"),
    NcclResult.FAILED: Span("✗ failed", "bad"),
    NcclResult.UNJUDGED: Span("○ not judged", "dim"),
    NcclResult.RUNNING: Span("● no problem so far", "ok"),
}
MIN_BEFORE_LINES = 4  # lines that a table leaves from which on what was measured before is below it
MIN_CHANGE = 0.02  # a difference by a smaller share is none


@dataclass(frozen=True, slots=True)
class NcclLine:
    row: NcclRow
    has_reference: bool  # whether the A4 reference speaks of its test
    usual_busbw: float | None = None  # GB/s: the median of the person's own tests at this size
    other_busbw: float | None = None  # GB/s of the test it is compared with


def average_so_far(test: NcclTest) -> float | None:
    values = [half.busbw for row in test.rows for half in measured_halves(row) if half.busbw is not None]
    return test.avg_busbw if test.avg_busbw is not None or not values else sum(values) / len(values)


def measured_points(test: NcclTest) -> tuple[CurvePoint, ...]:
    return tuple(
        CurvePoint(row.size, *(half.busbw if half else None for half in (row.out_of_place, row.in_place)))
        for row in test.rows
        if row.size > 0
    )


def measured_halves(row: NcclRow) -> list[NcclHalf]:
    return [half for half in (row.out_of_place, row.in_place) if half is not None]


def summary(
    test: NcclTest,
    pass_line: float = PASS_LINE,
    accelerator: str = "",
    usual_bandwidth: UsualBandwidth | None = None,
    compared_test: MeasuredTest | None = None,
) -> list[Span]:
    """The summary of an NCCL test: verdict, best row, average and wrong values, compared with others."""
    best = max(
        (row for row in test.rows if row.best_busbw is not None), key=lambda row: row.best_busbw or 0, default=None
    )
    if best is None or best.best_busbw is None:
        if test.error:
            return [Span("✗ failed", "bad"), Span(f": {wording.sentence(test.error)}")]
        return [Span("◐ ", "waits"), Span("The test has started; its first row is on the way.")]
    compared = is_comparable(test, accelerator)
    verdict = judge_test(test, pass_line, accelerator)
    mark, why = _PASS_STYLES[verdict.passing], wording.sentence(verdict.why)
    rated = [(rating.ratio, row.size, rating.word) for row in test.rows if (rating := judge_row(row)).ratio]
    if verdict.passing in {NcclResult.RUNNING, NcclResult.UNJUDGED} and compared and rated:
        share, size, word = min(rated, key=lambda each: each[0] or 0.0)
        if share and word != RowRating.GOOD:
            mark, why = _VERDICT_STYLES[word], f"{100 * share:.0f} % of the A4 reference at {wording.size(size)}"
        elif verdict.passing is NcclResult.UNJUDGED:
            mark = _VERDICT_STYLES[RowRating.GOOD]  # as each of its rows is marked
    figures = [f"{best.best_busbw:,.1f} GB/s at {wording.size(best.size)}"]
    if compared and (reference := expected_busbw(best.size)):
        figures.append(f"{100 * best.best_busbw / reference:.0f} % of the A4 reference ({reference:,.0f})")
    if usual_bandwidth and (median := usual_bandwidth.usual_at(best.size)):
        figures.append(f"{100 * best.best_busbw / median:.0f} % of the usual ({median:,.0f})")
    if (average := average_so_far(test)) is not None:
        figures.append(f"average {average:,.1f}{'' if test.finished else ' so far'}")
    wrong = any(half.wrong for row in test.rows for half in measured_halves(row))
    figures += [] if wrong else ["0 wrong"]
    figures += [f"pass line {pass_line:,.0f} over 2–8 GiB"] if verdict.passing is NcclResult.RUNNING else []
    runs = [mark, Span("  "), Span(f"{why} · " if why else "", mark.style), Span(" · ".join(figures))]
    if compared_test is not None and (speedup := mean_speedup(compared_test.test, test)) is not None:
        other_words = f"{100 * abs(speedup):.0f} % {'more' if speedup > 0 else 'less'} GB/s than"
        text = other_words if abs(speedup) >= MIN_CHANGE else "about as many GB/s as"
        runs.append(Span(f" · {text} {compared_test.job}", difference_style(speedup)))
    return runs


def lines_of_before(
    shown: MeasuredTest, earlier: Sequence[MeasuredTest], nodes: Mapping[str, NodeBandwidth], now: float, room: int
) -> Lines:
    """Lines on the last results of a test's hosts and on comparable earlier tests; `room`: maximum number of lines."""
    found: Lines = (
        [[], [Span("hosts, in their last test", "head")]] if any(each in nodes for each in shown.nodes) else []
    )
    known = [each for each in shown.nodes if each in nodes][: room // 3]
    found += [[Span(f"{wording.short_node(each):<18}"), *busbw_words(nodes[each], now)] for each in known]
    if not earlier or room - len(found) < 3:
        return found
    heads = (
        f"{'earlier tests like it':<21}{'when':>12}{'this one':>10}{'peak GB/s':>11}{'average':>9}{'2–8 GiB':>9}  hosts"
    )
    found += [[], [Span(heads, "head")]]
    for each in earlier[: room - len(found)]:
        (name,) = cut_name([Span(each.job or "test")], 20, node=False)
        change, when = mean_speedup(each.test, shown.test), wording.clock_time(each.at, now) if each.at else ""
        values = each.test.peak_busbw, each.test.avg_busbw, each.busbw
        figures = "".join(
            f"{value:>{wide},.1f}" if value else " " * wide for value, wide in zip(values, (11, 9, 9), strict=True)
        )
        words = Span(f"{100 * change:>+8.1f} %", difference_style(change)) if change is not None else Span(" " * 10)
        hosts = Span(f"  {wording.first_names([*map(wording.short_node, each.nodes)], 2)}", "dim")
        found.append([Span(f"{name.text:<21}"), Span(f"{when:>12}", "dim"), words, Span(figures), hosts])
    return found


def difference_style(share: float) -> str:
    return "bad" if share < -0.1 else "waits" if share < -MIN_CHANGE else "ok" if share > MIN_CHANGE else "dim"


# cells


def value_cell(half: str, name: str, style: str = "") -> Callable[[NcclLine], Cell]:
    """A function from a row to the cell for a figure of one half, in GB/s or microseconds; empty if not measured."""

    def figure_cell(line: NcclLine) -> Cell:
        value: float | None = getattr(getattr(line.row, half), name, None)
        return "" if value is None else Span(f"{value:,.1f}" if value < 10_000 else f"{value:,.0f}", style)

    return figure_cell


def wrong_cell(line: NcclLine) -> Cell:
    counts = [half.wrong for half in measured_halves(line.row) if half.wrong is not None]
    if not counts:
        return Span("n/a", "dim")
    return Span(f"{sum(counts):,}", "bad" if sum(counts) else "dim")


def verdict_cell(line: NcclLine) -> Cell:
    rating = judge_row(line.row)
    if rating.word != RowRating.WRONG and (not line.has_reference or rating.ratio is None):
        return ""
    mark = _VERDICT_STYLES.get(rating.word)
    if mark is None:
        return ""
    if rating.word == RowRating.WRONG or rating.ratio is None:
        return mark
    return [mark, Span(f" {100 * rating.ratio:.0f} %", "dim")]


def share_cell(line: NcclLine, reference_busbw: float | None, *, change: bool = False) -> Cell:
    """The best bandwidth of a row as a share of a reference, or as the change from it; empty if either is unknown."""
    best = line.row.best_busbw
    if not reference_busbw or best is None:
        return ""
    share = best / reference_busbw
    return Span(f"{100 * (share - 1):+.1f} %" if change else f"{100 * share:.0f} %", difference_style(share - 1))


_USUAL_COLUMN, _EARLIER_COLUMN = "USUAL", "EARLIER"


class NcclTable(ResourceTable[NcclLine]):
    """A table with the rows of one test; comparison columns without data are hidden."""

    COLUMNS: ClassVar = (
        Column("SIZE", lambda line: wording.size(line.row.size), width=8, right=True),
        Column("µs", value_cell("out_of_place", "time_us", "dim"), width=9, right=True, drop=3),
        Column("ALGBW", value_cell("out_of_place", "algbw"), width=7, right=True, drop=5),
        Column("● BUSBW", value_cell("out_of_place", "busbw", "accent"), width=7, right=True, style="accent"),
        Column("µs", value_cell("in_place", "time_us", "dim"), width=9, right=True, drop=4),
        Column("ALGBW", value_cell("in_place", "algbw"), width=7, right=True, drop=6),
        Column("○ BUSBW", value_cell("in_place", "busbw", "waits"), width=7, right=True, style="waits"),
        Column("WRONG", wrong_cell, width=5, right=True),
        Column("% OF A4", verdict_cell, width=11),
        Column(_USUAL_COLUMN, lambda line: share_cell(line, line.usual_busbw), width=6, right=True, drop=2),
        Column(
            _EARLIER_COLUMN, lambda line: share_cell(line, line.other_busbw, change=True), width=7, right=True, drop=1
        ),
    )
    EMPTY = EmptyNotice("No row yet.")
    NOUN = "size"
    _hidden_columns: frozenset[str] = frozenset()

    def set_comparison(self, *, usual: bool, other: bool) -> None:
        without = frozenset(title for title, known in ((_USUAL_COLUMN, usual), (_EARLIER_COLUMN, other)) if not known)
        if without != self._hidden_columns:
            self._hidden_columns = without
            self.set_columns([column for column in self.COLUMNS if column.title not in without])


class NcclPanel(MeasuresPanel):
    DEFAULT_CSS: ClassVar[str] = """
    NcclPanel { layout: vertical; height: 1fr;
        & > Container { layout: vertical; height: 1fr; }
        & CurveWidget { height: 1fr; padding: 0 1; }
        & #figures { layout: vertical; height: 1fr; width: 68; }
        & NcclTable { height: 1fr; width: 100%; }
        & #before { display: none; }
        &.-wide > Container { layout: horizontal; }
        &.-wide CurveWidget { width: 1fr; }
        &.-huge #figures { width: 107; }
        &.-low CurveWidget { display: none; }
    }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("less_than_sign", "turn(-1)", "Test before", key_display="<", id="nccl.before"),
        Binding("greater_than_sign", "turn(1)", "Test after", key_display=">", id="nccl.after"),
    ]

    curve = query_one(CurveWidget)
    table = query_one(NcclTable)
    earlier_pane = query_one(SidePane)
    sentence = query_one(SentenceLine)
    job_tests: reactive[tuple[MeasuredTest, ...]] = reactive(())
    stored_tests: reactive[tuple[MeasuredTest, ...]] = reactive(())  # tests that were measured before
    waiting_text: reactive[str] = reactive("No NCCL test has printed a table in this job.")
    compared_test: reactive[MeasuredTest | None] = reactive(None)  # the test it is compared with
    pass_line: reactive[float] = reactive(PASS_LINE)
    is_over: reactive[bool] = reactive(False)  # whether nothing more will be printed
    late_spans: reactive[tuple[Span, ...]] = reactive(())  # the state of a job whose next row does not come
    nodes: Mapping[str, NodeBandwidth] = MappingProxyType({})  # what each reached in the tests that were seen
    log_tail: Callable[[int, int, float], Lines] = staticmethod(lambda *_: [])  # the last lines of the log
    is_comparable: reactive[bool] = reactive(True)  # whether the A4 reference speaks of a test on that many GPUs

    def compose(self) -> ComposeResult:
        yield SentenceLine()
        with Container():
            yield CurveWidget()
            with Container(id="figures"):
                yield NcclTable()
                yield SidePane(self._earlier_result_lines, id="before")

    @property
    def tests(self) -> tuple[NcclTest, ...]:
        return tuple(each.test for each in self.job_tests)

    @property
    def shown(self) -> MeasuredTest | None:
        return self.job_tests[self.shown_index] if self.job_tests else None

    @property
    def number(self) -> int:
        return len(self.job_tests)

    @property
    def test(self) -> NcclTest | None:
        return self.shown.test if self.shown else None

    @property
    def earlier(self) -> list[MeasuredTest]:
        """Earlier tests that can be compared with the shown one, newest first."""
        others = {each.name: each for each in (*self.stored_tests, *self.job_tests)}
        return comparable_tests(others.values(), self.shown) if self.shown else []

    watch_job_tests = watch_compared_test = watch_pass_line = watch_stored_tests = MeasuresPanel.redraw
    watch_is_comparable = watch_is_over = watch_late_spans = MeasuresPanel.redraw

    def draw(self) -> None:
        shown = self.shown
        if shown is None:
            self.sentence.runs = (*self.waiting_spans, Span("  "), *self.unreadable_spans())
            self.curve.points, self.curve.overlays = (), ()
            self.curve.band = reference_band() if self.is_comparable else ()
            self.table.set_comparison(usual=False, other=False)
            self.table.show_rows({})
            return
        test = shown.test
        own = usual_bandwidth([each for each in self.earlier if each.uid != shown.uid or not shown.uid])
        spans = summary(test, self.pass_line, shown.accelerator, own, self.compared_test)
        if self.is_over and not test.rows and not test.error:
            spans = [Span("○ The test began and printed no row.", "dim")]
        elif self.is_over and not (test.finished or test.error) and spans[0] == _PASS_STYLES[NcclResult.RUNNING]:
            spans = [Span("○ cut off", "dim"), *spans[1:]]
        elif self.late_spans and not (self.is_over or test.finished or test.error):
            spans = [*self.late_spans, *([spans[1], *spans[3:]] if test.rows else [Span("  "), *spans[1:]])]
        compared = is_comparable(test, shown.accelerator)
        attempt = f", attempt {shown.attempt + 1}" if shown.attempt else ""
        about = f"{attempt}, pod {shown.rank}" if shown.rank else attempt
        self.sentence.runs = (*spans, Span("  "), *self.ordinal("test", about), *self.unreadable_spans())
        self.curve.band = reference_band(max((row.size for row in test.rows), default=0)) if compared else ()
        found = []
        if own is not None:
            points = tuple((size, middle) for size, (_, middle, _) in own.sizes.items())
            found.append(OtherCurve(f"usual ({wording.count(own.tests, 'test')})", "·", "dim", points))
        if self.compared_test is not None:
            measured = self.compared_test.test.rows
            points = tuple((row.size, row.best_busbw) for row in measured if row.size > 0 and row.best_busbw)
            found.append(OtherCurve(self.compared_test.job or "earlier", "△", "text", points))
        self.curve.overlays, self.curve.points = tuple(found), measured_points(test)
        other = {row.size: row.best_busbw for row in self.compared_test.test.rows} if self.compared_test else {}
        at_end = self.table.cursor is None or self.table.cursor in self.table.shown_keys[-1:]
        rows: dict[RowKey, NcclLine] = {
            (str(index), str(row.size)): NcclLine(
                row, compared, own.usual_at(row.size) if own else None, other.get(row.size)
            )
            for index, row in enumerate(test.rows)
        }
        self.table.set_comparison(usual=own is not None, other=self.compared_test is not None)
        self.table.show_rows(rows)
        if at_end and rows:
            self.table.move_to(list(rows)[-1])
        self._mark_row()
        self._make_room()
        self.refresh_bindings()

    def _earlier_result_lines(self, width: int, height: int, now: float) -> Lines:
        found = lines_of_before(self.shown, self.earlier, self.nodes, now, height) if self.shown is not None else []
        return [*found, *self.log_tail(width, height - len(found), now)]

    def _make_room(self) -> None:
        """Show earlier results below the table, if it has all of its rows or those that an earlier test had."""
        rows = max((len(each.test.rows) for each in (self.shown, *self.earlier[:1]) if each is not None), default=0)
        room = self.size.height - min(3, self.sentence.lines_at(self.size.width - 2)) - rows - 1
        self.earlier_pane.display = self.has_class("-wide") and room > MIN_BEFORE_LINES
        if self.earlier_pane.display and str(self.earlier_pane.styles.height) != str(room):
            self.earlier_pane.styles.height = room
        self.earlier_pane.renew()

    @on(ResourceTable.Highlighted)
    def _follow_cursor(self, event: ResourceTable.Highlighted) -> None:
        event.stop()
        self._mark_row()

    def _mark_row(self) -> None:
        line = self.table.row
        self.curve.marked_size = line.row.size if line else None

    def on_resize(self, event: events.Resize) -> None:
        """Put table and curve side by side on wide screens; hide the curve if it would be too small."""
        self.set_class(event.size.width >= 116, "-wide")
        self.set_class(event.size.width >= 190, "-huge")
        self.set_class(event.size.width < 116 and event.size.height < 14, "-low")
        self._make_room()


def reference_band(largest: int = 0) -> tuple[ExpectedRange, ...]:
    """The range that counts as reaching the reference, at its known sizes and extended to `largest`."""
    low, high = REFERENCE_BAND
    return tuple(ExpectedRange(size, low * value, high * value) for size, value in reference_curve(largest))
