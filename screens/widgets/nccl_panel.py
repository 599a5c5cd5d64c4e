"""The panel of an NCCL test: one sentence, the curve, and the table, all growing row by row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.getters import query_one
from textual.reactive import reactive

from console.models.link import Link, LinkState
from console.models.reference import (
    A4_ALL_REDUCE,
    PASS_LINE,
    REFERENCE_RANKS,
    expected_busbw,
    is_all_reduce,
    is_comparable,
    scan_average,
    verdict,
)
from screens import wording
from screens.widgets.column import Column
from screens.widgets.curve import Band, Curve, Point
from screens.widgets.notice import Notice
from screens.widgets.sentence_line import SentenceLine
from screens.widgets.table import ResourceTable
from screens.wording import Run

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual import events
    from textual.app import ComposeResult

    from console.models.nccl import Half, NcclTest, Row
    from screens.widgets.listing import RowKey
    from screens.wording import Cell

BAND = (0.9, 1.1)
"""What counts as reaching the reference, as a share of it; shaded behind the curve."""
_READ = Link("tests", LinkState.LIVE)
"""The table's rows come from a log, not from a watch."""
_VERDICTS = {
    "good": Run("● ok", "ok"),
    "fair": Run("◐ low", "waits"),
    "below": Run("✗ slow", "bad"),
    "wrong": Run("✗ wrong", "bad"),
}


@dataclass(frozen=True, slots=True)
class Line:
    """One row of the table, and whether there is a reference for its test."""

    row: Row
    compared: bool


def average_so_far(test: NcclTest) -> float | None:
    """The mean over rows and halves, as the footer will say it, GB/s."""
    if test.avg_busbw is not None:
        return test.avg_busbw
    values = [half.busbw for row in test.rows for half in _halves(row) if half.busbw is not None]
    return sum(values) / len(values) if values else None


def wrong_so_far(test: NcclTest) -> int:
    """Wrong elements in all rows."""
    return sum(half.wrong or 0 for row in test.rows for half in _halves(row))


def _halves(row: Row) -> list[Half]:
    return [half for half in (row.out_of_place, row.in_place) if half is not None]


def summary(test: NcclTest) -> list[Run]:
    """The test in one sentence."""
    best = max(
        (row for row in test.rows if row.best_busbw is not None), key=lambda row: row.best_busbw or 0, default=None
    )
    if best is None or best.best_busbw is None:
        return [Run("◐ ", "waits"), Run("The test has started; its first row is on the way.")]
    words = f"{best.best_busbw:,.1f} GB/s at {wording.size(best.size)}"
    reference = expected_busbw(best.size) if is_comparable(test) else None
    if reference:
        words += f": {100 * best.best_busbw / reference:.0f} % of the A4 reference ({reference:,.0f}, 16 GPUs)"
    average = average_so_far(test)
    words += f"; average {average:,.1f}{'' if test.finished else ' so far'}" if average is not None else ""
    wrong = wrong_so_far(test)
    glyph = _glyph(test, wrong)
    end = Run(f"; {wording.count(wrong, 'wrong value')}" if wrong else "; 0 wrong", "bad" if wrong else "")
    error = [Run(f"; {wording.sentence(test.error)}", "bad")] if test.error else []
    return [Run(f"{glyph.text} ", glyph.ink), Run(words), end, *_passed(test), *_not_judged(test), *error]


def _not_judged(test: NcclTest) -> list[Run]:
    if is_comparable(test) or not is_all_reduce(test):
        return []
    return [Run(f"; {test.ranks} ranks, not judged: the reference is for {REFERENCE_RANKS} GPUs", "dim")]


def _passed(test: NcclTest) -> list[Run]:
    large = scan_average(test)
    if large is None or not is_comparable(test):
        return []
    word, ink = ("over", "ok") if large >= PASS_LINE else ("under", "bad")
    return [Run(f"; 2–8 GiB average {large:,.0f} is "), Run(f"{word} the pass line of {PASS_LINE:,.0f}", ink)]


def _glyph(test: NcclTest, wrong: int) -> Run:
    if wrong or test.error or test.ok is False:
        return wording.BAD
    return wording.DONE if test.finished else wording.OK


def _value(pick: Callable[[Row], Half | None], name: str, digits: int) -> Callable[[Line], Cell]:
    def cell(line: Line) -> Cell:
        half = pick(line.row)
        value = getattr(half, name) if half else None
        return "" if value is None else f"{value:,.{digits}f}"

    return cell


def _time(pick: Callable[[Row], Half | None]) -> Callable[[Line], Cell]:
    def cell(line: Line) -> Cell:
        half = pick(line.row)
        value = half.time_us if half else None
        return "" if value is None else Run(f"{value:,.1f}" if value < 10_000 else f"{value:,.0f}", "dim")

    return cell


def _wrong(line: Line) -> Cell:
    counts = [half.wrong for half in _halves(line.row) if half.wrong is not None]
    if not counts:
        return Run("n/a", "faint")
    return Run(f"{sum(counts):,}", "bad" if sum(counts) else "dim")


def _verdict(line: Line) -> Cell:
    told = verdict(line.row)
    if told.word != "wrong" and (not line.compared or told.ratio is None):
        return ""
    mark = _VERDICTS.get(told.word)
    if mark is None:
        return ""
    return [mark, Run(f" {100 * told.ratio:.0f} %", "dim")] if told.ratio is not None else mark


def _out(row: Row) -> Half | None:
    return row.out_of_place


def _in(row: Row) -> Half | None:
    return row.in_place


class NcclTable(ResourceTable[Line]):
    """The rows of one test."""

    COLUMNS: ClassVar = (
        Column("SIZE", lambda line: wording.size(line.row.size), width=8, right=True),
        Column("µs", _time(_out), width=9, right=True, drop=3),
        Column("ALGBW", _value(_out, "algbw", 1), width=7, right=True, drop=4),
        Column("● BUSBW", _value(_out, "busbw", 1), width=7, right=True, ink="accent"),
        Column("µs", _time(_in), width=9, right=True, drop=3),
        Column("ALGBW", _value(_in, "algbw", 1), width=7, right=True, drop=4),
        Column("○ BUSBW", _value(_in, "busbw", 1), width=7, right=True, ink="waits"),
        Column("WRONG", _wrong, width=5, right=True),
        Column("OF A4", _verdict, width=12),
    )
    EMPTY = Notice("No row yet.")
    NOUN = "size"


class NcclPanel(Container):
    """Shows the tests of one job; the last one unless another is chosen."""

    DEFAULT_CSS: ClassVar[str] = """
    NcclPanel { layout: vertical; height: 1fr;
        & > Container { layout: vertical; height: 1fr; }
        & Curve { height: 1fr; padding: 0 1; }
        & NcclTable { height: 1fr; }
        &.-wide > Container { layout: horizontal; }
        &.-wide Curve { width: 1fr; }
        &.-wide NcclTable { width: 66; }
        &.-huge NcclTable { width: 104; }
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
    tests: reactive[tuple[NcclTest, ...]] = reactive(())
    waiting: reactive[str] = reactive("No NCCL test has printed a table in this job.")
    """What stands there before the first table."""
    chosen: reactive[int | None] = reactive(None)
    """Which test is shown; None: the last."""

    def compose(self) -> ComposeResult:
        """Sentence above; curve and table below it, or beside each other."""
        yield SentenceLine()
        with Container():
            yield Curve()
            yield NcclTable()

    @property
    def test(self) -> NcclTest | None:
        """The test shown."""
        if not self.tests:
            return None
        return self.tests[-1 if self.chosen is None else min(self.chosen, len(self.tests) - 1)]

    def watch_tests(self) -> None:
        """New rows: everything follows."""
        if self.is_mounted:
            self._draw()

    watch_waiting = watch_tests
    watch_chosen = watch_tests

    def on_mount(self) -> None:
        """What was set before."""
        self._draw()

    def _draw(self) -> None:
        test = self.test
        if test is None:
            self.sentence.runs = (Run("○ ", "dim"), Run(self.waiting, "dim"))
            self.curve.points, self.curve.band = (), reference_band()
            self.table.show_rows({}, _READ)
            return
        compared = is_comparable(test)
        self.sentence.runs = (*self._which(), *summary(test))
        self.curve.band = reference_band() if compared else ()
        self.curve.points = tuple(
            Point(row.size, _busbw(row.out_of_place), _busbw(row.in_place)) for row in test.rows if row.size > 0
        )
        at_end = self.table.cursor is None or self.table.cursor in self.table.shown[-1:]
        rows: dict[RowKey, Line] = {
            (str(index), str(row.size)): Line(row, compared) for index, row in enumerate(test.rows)
        }
        self.table.show_rows(rows, _READ)
        if at_end and rows:
            self.table.move_to(list(rows)[-1])
        self._mark()

    def _which(self) -> list[Run]:
        if len(self.tests) < 2:
            return []
        at = len(self.tests) if self.chosen is None else self.chosen + 1
        return [Run(f"test {at} of {len(self.tests)}  ", "dim")]

    @on(ResourceTable.Highlighted)
    def _follow_cursor(self, event: ResourceTable.Highlighted) -> None:
        event.stop()
        self._mark()

    def _mark(self) -> None:
        line = self.table.row
        self.curve.marked = line.row.size if line else None

    def action_turn(self, step: int) -> None:
        """The test before or after."""
        last = len(self.tests) - 1
        at = (last if self.chosen is None else self.chosen) + step
        self.chosen = None if at >= last else max(0, at)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """One test needs no turning."""
        return len(self.tests) > 1 if action == "turn" else True

    def on_resize(self, event: events.Resize) -> None:
        """Beside each other where there is room, else below; no curve where it would be a smudge."""
        self.set_class(event.size.width >= 116, "-wide")
        self.set_class(event.size.width >= 190, "-huge")
        self.set_class(event.size.width < 116 and event.size.height < 14, "-low")


def _busbw(half: Half | None) -> float | None:
    return half.busbw if half else None


def reference_band() -> tuple[Band, ...]:
    """What counts as reaching the reference, at the sizes it is known for."""
    return tuple(Band(size, BAND[0] * value, BAND[1] * value) for size, value in A4_ALL_REDUCE)
