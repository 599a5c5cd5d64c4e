"""The panel of an NCCL test: summary, curve and table, which grow with each result row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.getters import query_one
from textual.reactive import reactive

from console.kube.snapshot import WatchState, WatchStatus
from console.metrics.export import REFERENCE_BAND
from console.metrics.nccl.history import MeasuredTest, comparable_tests, usual_bandwidth
from console.metrics.nccl.results import PASS_LINE, NcclTest, is_comparable, reference_curve
from screens import wording
from screens.columns.column import Column
from screens.widgets.charts.canvas import MeasuresPanel
from screens.widgets.charts.nccl_curve import (
    Band,
    ComparisonBasis,
    Curve,
    Line,
    Overlay,
    Point,
    other_cell,
    summary,
    usual_cell,
    value_cell,
    verdict_cell,
    wrong_cell,
)
from screens.widgets.sentence_line import SentenceLine
from screens.widgets.table.listing import RowKey
from screens.widgets.table.row_painter import Notice
from screens.widgets.table.table import ResourceTable
from screens.wording import Span

_READ = WatchStatus("tests", WatchState.LIVE)  # the table's rows come from a log, not from a watch


_OF_A4, _USUAL, _OTHER = "% OF A4", "USUAL", "EARLIER"


class NcclTable(ResourceTable[Line]):
    """The rows of one test; comparison columns without data are hidden."""

    COLUMNS: ClassVar = (
        Column("SIZE", lambda line: wording.size(line.row.size), width=8, right=True),
        Column("µs", value_cell("out_of_place", "time_us", "dim"), width=9, right=True, drop=3),
        Column("ALGBW", value_cell("out_of_place", "algbw"), width=7, right=True, drop=5),
        Column("● BUSBW", value_cell("out_of_place", "busbw", "accent"), width=7, right=True, ink="accent"),
        Column("µs", value_cell("in_place", "time_us", "dim"), width=9, right=True, drop=4),
        Column("ALGBW", value_cell("in_place", "algbw"), width=7, right=True, drop=6),
        Column("○ BUSBW", value_cell("in_place", "busbw", "waits"), width=7, right=True, ink="waits"),
        Column("WRONG", wrong_cell, width=5, right=True),
        Column(_OF_A4, verdict_cell, width=12),
        Column(_USUAL, usual_cell, width=6, right=True, drop=2),
        Column(_OTHER, other_cell, width=7, right=True, drop=1),
    )
    EMPTY = Notice("No row yet.")
    NOUN = "size"
    _without: frozenset[str] = frozenset()

    def hold_against(self, *, usual: bool, other: bool) -> None:
        known = {_USUAL: usual, _OTHER: other}
        without = frozenset(title for title, is_known in known.items() if not is_known)
        if without != self._without:
            self._without = without
            self.set_columns([column for column in self.COLUMNS if column.title not in without])


class NcclPanel(MeasuresPanel):
    DEFAULT_CSS: ClassVar[str] = """
    NcclPanel { layout: vertical; height: 1fr;
        & > Container { layout: vertical; height: 1fr; }
        & Curve { height: 1fr; padding: 0 1; }
        & NcclTable { height: 1fr; }
        &.-wide > Container { layout: horizontal; }
        &.-wide Curve { width: 1fr; }
        &.-wide NcclTable { width: 70; }
        &.-huge NcclTable { width: 108; }
        &.-low Curve { display: none; }
    }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("less_than_sign", "turn(-1)", "Test before", key_display="<", id="nccl.before"),
        Binding("greater_than_sign", "turn(1)", "Test after", key_display=">", id="nccl.after"),
    ]

    curve = query_one(Curve)
    table = query_one(NcclTable)
    sentence = query_one(SentenceLine)
    measured: reactive[tuple[MeasuredTest, ...]] = reactive(())
    kept: reactive[tuple[MeasuredTest, ...]] = reactive(())  # tests that were measured before
    waiting: reactive[str] = reactive("No NCCL test has printed a table in this job.")
    against: reactive[MeasuredTest | None] = reactive(None)  # the test it is compared with
    pass_line: reactive[float] = reactive(PASS_LINE)

    def compose(self) -> ComposeResult:
        yield SentenceLine()
        with Container():
            yield Curve()
            yield NcclTable()

    @property
    def tests(self) -> tuple[NcclTest, ...]:
        return tuple(each.test for each in self.measured)

    @tests.setter
    def tests(self, tests: Sequence[NcclTest]) -> None:
        self.measured = tuple(MeasuredTest(each, index=at) for at, each in enumerate(tests))

    @property
    def shown(self) -> MeasuredTest | None:
        return self.measured[self.place] if self.measured else None

    @property
    def number(self) -> int:
        return len(self.measured)

    @property
    def test(self) -> NcclTest | None:
        return self.shown.test if self.shown else None

    @property
    def earlier(self) -> list[MeasuredTest]:
        """Earlier tests that can be compared with the shown one, newest first."""
        others = {each.name: each for each in (*self.kept, *self.measured)}
        return comparable_tests(others.values(), self.shown) if self.shown else []

    watch_measured = MeasuresPanel.redraw
    watch_against = MeasuresPanel.redraw
    watch_pass_line = MeasuresPanel.redraw
    watch_kept = MeasuresPanel.redraw

    def draw(self) -> None:
        shown = self.shown
        if shown is None:
            self.sentence.runs = (Span("○ ", "dim"), Span(f"{self.waiting}  ", "dim"), *self.not_read())
            self.curve.points, self.curve.band, self.curve.overlays = (), reference_band(), ()
            self.table.show_rows({}, _READ)
            return
        test = shown.test
        own = usual_bandwidth([each for each in self.earlier if each.uid != shown.uid or not shown.uid])
        held = ComparisonBasis(self.pass_line, shown.accelerator, own, self.against)
        compared = is_comparable(test, shown.accelerator)
        about = f", attempt {shown.attempt + 1}" if shown.attempt else ""
        about += f", pod {shown.rank}" if shown.rank else ""
        self.sentence.runs = (*self.which("test", about), *summary(test, held), Span("  "), *self.not_read())
        self.curve.band = reference_band(max((row.size for row in test.rows), default=0)) if compared else ()
        found = []
        if own is not None:
            points = tuple((size, middle) for size, (_, middle, _) in own.sizes.items())
            found.append(Overlay(f"usual ({wording.count(own.tests, 'test')})", "·", "dim", points))
        if self.against is not None:
            points = tuple(
                (row.size, row.best_busbw) for row in self.against.test.rows if row.size > 0 and row.best_busbw
            )
            found.append(Overlay(self.against.job or "earlier", "△", "text", points))
        self.curve.overlays = tuple(found)
        self.curve.points = tuple(
            Point(row.size, *(half.busbw if half else None for half in (row.out_of_place, row.in_place)))
            for row in test.rows
            if row.size > 0
        )
        other = {row.size: row.best_busbw for row in self.against.test.rows} if self.against else {}
        at_end = self.table.cursor is None or self.table.cursor in self.table.shown[-1:]
        rows: dict[RowKey, Line] = {
            (str(index), str(row.size)): Line(
                row, compared, own.usual_at(row.size) if own else None, other.get(row.size)
            )
            for index, row in enumerate(test.rows)
        }
        self.table.hold_against(usual=own is not None, other=self.against is not None)
        self.table.show_rows(rows, _READ)
        if at_end and rows:
            self.table.move_to(list(rows)[-1])
        self._mark()
        self.refresh_bindings()

    @on(ResourceTable.Highlighted)
    def _follow_cursor(self, event: ResourceTable.Highlighted) -> None:
        event.stop()
        self._mark()

    def _mark(self) -> None:
        line = self.table.row
        self.curve.marked = line.row.size if line else None

    def on_resize(self, event: events.Resize) -> None:
        """Put table and curve side by side on wide screens; hide the curve if it would be too small."""
        self.set_class(event.size.width >= 116, "-wide")
        self.set_class(event.size.width >= 190, "-huge")
        self.set_class(event.size.width < 116 and event.size.height < 14, "-low")


def reference_band(largest: int = 0) -> tuple[Band, ...]:
    """The range that counts as reaching the reference, at its known sizes and extended to `largest`."""
    return tuple(
        Band(size, REFERENCE_BAND[0] * value, REFERENCE_BAND[1] * value) for size, value in reference_curve(largest)
    )
