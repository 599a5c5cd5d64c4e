"""Draws the columns of a table: distributes widths and caches drawn rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from console.kube.snapshot import WatchState, WatchStatus
from screens.columns.column import Column, RowKey, RowT
from screens.widgets.styled_text import (
    StyledWidget,
    StyleOf,
    cut_name,
    cut_sentence,
    fit_spans,
    line,
    merge_segments,
    phrase_ends,
    wrap_text,
)
from screens.wording import Cell, Span, plain_text, sentence, short_node, spans_of

SENTENCE_COLUMNS = 40  # columns that a sentence at the end of a line is worth
MIN_SENTENCE = 12  # columns to which it shrinks before other texts are cut: those tell rows apart
PHRASE_COLUMNS = 25  # up to which its first phrase, the verdict, has room before other columns have any
NAME_COLUMNS = 30  # columns up to which a name is whole before other columns have any, but for one with a `drop` of 1
GAP = 2
ALIKE, EMPTY = 1, 2
OPTIONAL_DROP = 5  # columns with this `drop` or more are shown only where all others have their full width


def cell_width(cell: Cell) -> int:
    if isinstance(cell, str):
        return len(cell) if cell.isascii() else cell_len(cell)
    if isinstance(cell, Span):
        return cell_width(cell.text)
    return sum(cell_width(run.text) for run in cell)


def share_width(
    columns: Sequence[Column[RowT]],
    cell_widths: Sequence[int],
    room: int,
    full_widths: Mapping[int, int] | None = None,
    idle_columns: Mapping[int, int] | None = None,
    phrase_width: int = 0,
) -> list[tuple[Column[RowT], int]]:
    """Divide the width of a table among its columns; returns the shown columns, each with its width.

    `cell_widths`: the widest cell of each column; `full_widths`: by column number the full width of shortened names;
    `idle_columns`: by number EMPTY or ALIKE columns, left out before texts are cut; `phrase_width`: the width of the
    part of a sentence that needs room.
    """
    kept = _fit_columns(columns, cell_widths, room, idle_columns or {}, phrase_width)
    widths = {id(column): min(column.floor, MIN_SENTENCE) if column.fill else column.floor for column, _ in kept}
    spare = room - sum(widths.values()) - GAP * max(0, len(kept) - 1)
    for column, want in sorted(kept, key=_width_order):
        if not column.width:
            more = max(0, min(spare, min(column.most, want) - widths[id(column)]))
            widths[id(column)] += more
            spare -= more
    for number, want in (full_widths or {}).items():
        column = columns[number]
        more = want - widths.get(id(column), want)
        if id(column) in widths and want <= column.most and more <= spare:
            widths[id(column)] += more
            spare -= more
    filling = [column for column, _ in kept if column.fill]
    for column in filling:
        widths[id(column)] += max(0, spare // len(filling))
    return [(column, widths[id(column)]) for column, _ in kept]


def _fit_columns(
    columns: Sequence[Column[RowT]], cell_widths: Sequence[int], room: int, idle: Mapping[int, int], phrase_width: int
) -> list[tuple[Column[RowT], int]]:
    """The columns that fit into a width, each with the width of its widest cell."""
    kept = list(zip(columns, cell_widths, strict=True))
    gone: list[tuple[Column[RowT], int]] = []
    silent = {id(columns[number]): how for number, how in idle.items() if columns[number].drop}
    while kept:
        last = max(kept, key=lambda pair: (silent.get(id(pair[0]), 0), pair[0].drop))
        extra = id(last[0]) in silent or last[0].drop >= OPTIONAL_DROP
        sentence = 200 if id(last[0]) in silent else SENTENCE_COLUMNS if extra else phrase_width
        if not last[0].drop or _line_width(kept, sentence, 200 if extra else NAME_COLUMNS * (last[0].drop > 1)) <= room:
            break
        kept.remove(last)
        gone.append(last)
    for pair in reversed(gone):  # what went for a wider one that went as well
        if silent.get(id(pair[0])) != EMPTY and _line_width([*kept, pair]) <= room:
            kept.append(pair)
    while sum(column.floor + GAP for column, _ in kept) - GAP > room and len(kept) > 1:  # none is cut by the edge
        narrow = (pair for pair in reversed(kept[1:]) if not pair[0].fill and pair[0].floor < SENTENCE_COLUMNS)
        if (least := next(narrow, None)) is None:
            break
        kept.remove(least)
    order = {id(column): number for number, column in enumerate(columns)}
    kept.sort(key=lambda pair: order[id(pair[0])])
    return kept


def _width_order(pair: tuple[Column[RowT], int]) -> int:
    """The order in which columns get width: names 0, other texts 1, fill columns 2, bars 3."""
    column, _ = pair
    return 3 if column.draw else 2 if column.fill else 0 if column.cut == "middle" else 1


def _line_width(columns: Sequence[tuple[Column[RowT], int]], sentence: int = 200, name: int = 200) -> int:
    """The width of a table row with all texts whole; `sentence` and `name` limit the width of those."""

    def wanted(column: Column[RowT], want: int) -> int:
        most = min(sentence, column.most) if column.fill else column.most
        most = most if column.cut == "end" else min(most, name)
        return column.floor if column.draw else max(column.floor, min(most, want))

    return sum(wanted(*pair) + GAP for pair in columns) - GAP


MARGIN = 2  # columns left of the first cell, for the cursor's and the marks' glyphs
MAX_CACHED_LINES = 400  # lines kept as they were drawn last: what one pages back to is not formatted again
MAX_MEASURED_ROWS = 1000
"""Maximum new rows of one drawing that widen columns at once, evenly chosen; the others do when they become visible."""


@dataclass(frozen=True, slots=True)
class _DrawnRow(Generic[RowT]):
    """A cache of a drawn table row; when only ages change, its other cells are not formatted again."""

    row: RowT
    row_state: tuple[object, ...]
    ages: list[Any]
    cells: list[list[Segment]]
    strip: Strip


class RowPainter(Generic[RowT]):
    """Draws rows as columns, in the width and styles of a widget."""

    def __init__(self, widget: StyledWidget) -> None:
        self._widget = widget
        self.columns: tuple[Column[Any], ...] = ()
        self.stale = False  # whether what is drawn may be out of date: it is drawn dim
        self._aging_columns: tuple[Column[Any], ...] = ()
        self._wants: list[int] = []
        self._whole: dict[int, int] = {}  # of columns with names of nodes: how wide those would be in full
        self._alike: dict[int, str] = {}  # of columns that may go: what stands in all cells so far, if it is the same
        self._measured_rows = 0  # how many rows that was
        self._phrase = 0  # of the first phrase of a column that fills the line, the widest
        self._has_unmeasured_rows = False  # whether rows came that were not measured
        self._layout: list[tuple[Column[Any], int]] = []
        self._drawn: dict[tuple[RowKey, bool], _DrawnRow[RowT]] = {}  # each row as it is under the cursor, and else
        self._mixes: dict[tuple[str, str], Style] = {}

    # widths

    def set_columns(self, columns: Sequence[Column[Any]]) -> None:
        self.columns = tuple(columns)
        self._aging_columns = tuple(column for column in columns if column.ages)
        self._wants = [column.floor for column in columns]
        self._whole = {}
        self._alike, self._measured_rows, self._phrase = {}, 0, 0
        self.lay_out()

    def lay_out(self) -> None:
        """Divide the width among the columns anew when the next line is drawn."""
        self._layout = []
        self._drawn.clear()

    def columns_now(self) -> list[tuple[Column[Any], int]]:
        if not self._layout:
            room = self._widget.size.width - MARGIN - 1
            self._layout = share_width(self.columns, self._wants, room, self._whole, self._idle_columns, self._phrase)
        return self._layout

    @property
    def columns_wanted(self) -> int:
        """The width at which no cell of the table is cut."""
        empty = {number for number, text in self._alike.items() if not text}
        kept = [(column, self._wants[number]) for number, column in enumerate(self.columns) if number not in empty]
        return MARGIN + 1 + _line_width(kept)

    @property
    def _idle_columns(self) -> dict[int, int]:
        """The columns without information: EMPTY ones, and optional ones whose cells are ALIKE."""
        several = self._measured_rows > 1
        return {
            number: ALIKE if text else EMPTY
            for number, text in self._alike.items()
            if not text or (several and self.columns[number].drop >= OPTIONAL_DROP)
        }

    def _find_differing(self, new_rows: Sequence[RowT]) -> bool:
        """Look for differing cells in columns left out while all were alike; returns whether a column differs now."""
        before = self._idle_columns
        for number, column in enumerate(self.columns):
            if not column.drop or column.ages or column.draw or (self._measured_rows and number not in self._alike):
                continue
            parts = {plain_text(column.cell(row)) for row in new_rows}
            if len(parts) == 1 and self._alike.get(number) in {None, *parts}:
                self._alike[number] = parts.pop()
            else:
                self._alike.pop(number, None)
        self._measured_rows += len(new_rows)
        return before != self._idle_columns

    def measure(self, new_rows: Sequence[RowT]) -> bool:
        """Widen columns for new rows; they never shrink, so that nothing jumps. Returns whether any grew."""
        if len(new_rows) > MAX_MEASURED_ROWS:
            self._has_unmeasured_rows = True
            new_rows = new_rows[:: -(-len(new_rows) // MAX_MEASURED_ROWS)]
        grew = self._find_differing(new_rows) if new_rows else False
        for number, column in enumerate(self.columns):
            if column.fill and self._phrase < PHRASE_COLUMNS:
                texts = ["".join(run.text for run in spans_of(column.cell(row))) for row in new_rows]
                wide = min(PHRASE_COLUMNS, max((next(iter(phrase_ends(f"{text}  ")), 0) for text in texts), default=0))
                self._phrase, grew = max(wide, self._phrase), grew or wide > self._phrase
            if column.width or not new_rows or self._wants[number] >= column.most:
                continue
            if column.cut == "node":
                names = [plain_text(column.cell(row)) for row in new_rows]
                whole, want = max(map(cell_len, names)), max(cell_len(short_node(name)) for name in names)
                if whole > max(want, self._whole.get(number, 0)):
                    self._whole[number], grew = whole, True
            else:
                want = max(column.most if column.draw else cell_width(column.cell(row)) for row in new_rows)
            if want > self._wants[number]:
                self._wants[number] = want
                grew = True
        return grew

    # lines

    def row(self, key: RowKey, row: RowT, *, here: bool, marked: bool, apart: bool = False) -> Strip:
        """One drawn row of the table; `apart`: the keys go to another table, so the cursor is hollow."""
        ground = ("cursor" if self._widget.has_focus else "cursor-blurred") if here else "marked" if marked else ""
        layout = self.columns_now()
        cursor = Span("▹", "dim") if apart else Span("▸", "accent")
        look, ages = (here, marked, ground, apart, self.stale), [column.cell(row) for column in self._aging_columns]
        drawn = self._drawn.get((key, here))
        known = drawn if drawn is not None and drawn.row is row and drawn.row_state == look else None
        if known is not None and known.ages == ages:
            return known.strip
        if self._has_unmeasured_rows and self.measure([row]):
            self.lay_out()
            self._widget.refresh()
            layout, known = self.columns_now(), None
        style_of = self._styles_on(ground)
        glyph = cursor if here else Span(" "), Span("▌" if marked else " ", "found")
        segments = fit_spans(glyph, MARGIN, style_of)
        room = self._widget.size.width - MARGIN
        cells: list[list[Segment]] = []
        for number, (column, width) in enumerate(layout):
            room -= width
            after = max(0, room) if column is layout[-1][0] else GAP
            if known is None or column.ages:
                runs = spans_of(column.draw_cell(row, width), column.style)
                named = column.cut != "end" and len(runs) == 1
                runs = cut_name(runs, width, node=column.cut == "node") if named else cut_sentence(runs, width)
                cells.append(fit_spans(runs, width, style_of, right=column.right, blanks_after=after))
            else:
                cells.append(known.cells[number])
            segments += cells[-1]
            room -= GAP
        strip = Strip(merge_segments(segments)).adjust_cell_length(self._widget.size.width, style_of(""))
        if len(self._drawn) >= MAX_CACHED_LINES:
            self._drawn.clear()
        self._drawn[key, here] = _DrawnRow(row, look, ages, cells, strip)
        return strip

    def titles(self, sorted_by: str, *, descending: bool) -> Strip:
        style_of = self._styles_on("head")
        segments = [Segment(" " * MARGIN, style_of("head"))]
        for number, (column, width) in enumerate(self.columns_now()):
            mine = column.name == sorted_by and column.sort is not None
            arrow = ("▼" if descending else "▲") if mine else ""
            title = column.title[: max(0, width - len(arrow))] + arrow
            if number:
                segments.append(Segment(" " * GAP, style_of("head")))
            segments += fit_spans([Span(title, "sorted" if mine else "head")], width, style_of, right=column.right)
        return Strip(segments).adjust_cell_length(self._widget.size.width, style_of("head"))

    def heading(self, title: str) -> Strip:
        width = self._widget.size.width
        runs = [Span(f" {title} ", "head"), Span("─" * (width - cell_len(title) - 3), "faint")]
        return line(runs, width, self._styles_on(""))

    def notice_lines(self, notice: EmptyNotice) -> list[list[Span]]:
        return notice.lines(max(1, self._widget.size.width - 2 * MARGIN))

    def notice(self, notice: EmptyNotice, y: int) -> Strip:
        """A line of the notice shown when there are no rows."""
        lines = self.notice_lines(notice)
        return line(
            [Span(" " * MARGIN), *(lines[y] if y < len(lines) else [])], self._widget.size.width, self._styles_on("")
        )

    def clear_cache(self) -> None:
        """Drop cached rows and styles after the theme changed."""
        self._mixes = {}
        self._drawn = {}

    def _styles_on(self, ground: str) -> StyleOf:
        widget, mixes, stale = self._widget, self._mixes, self.stale

        def style_of(name: str) -> Style:
            style = "dim" if stale and name not in {"head", "sorted", "faint", "accent"} else name or "text"
            mixed = mixes.get((style, ground))
            if mixed is None:
                back = widget.ground(ground) if ground else widget.rich_style.background_style
                mixed = mixes[style, ground] = back + widget.style_of(style)
            return mixed

        return style_of


@dataclass(frozen=True, slots=True)
class EmptyNotice:
    """A sentence on why there are no rows, and a hint on what to do."""

    text: str
    hint: str = ""
    glyph: str = "○"
    style: str = "dim"

    def lines(self, width: int) -> list[list[Span]]:
        """A blank line, then the sentence and the hint."""
        inner = max(1, width - 2)
        found: list[list[Span]] = [[]]
        found += [
            [Span(f"{self.glyph if not number else ' '} ", self.style), Span(text, "text")]
            for number, text in enumerate(wrap_text(self.text, inner))
        ]
        return found + [[Span("  "), Span(text, "dim")] for text in wrap_text(self.hint, inner) if self.hint]


def notice_for(link: WatchStatus | None, empty: EmptyNotice) -> EmptyNotice:
    """The notice for a kind without rows, from the state of its watch; `link` None: not connected yet."""
    if link is None or link.state is WatchState.LISTING:
        kind = link.kind if link else ""
        return EmptyNotice(
            f"Listing {kind} …" if kind else "Connecting …", sentence(link.why) if link else "", "◐", "waits"
        )
    if link.state is WatchState.LIVE:
        return empty
    glyph, style = {
        WatchState.STALE: ("◐", "waits"),
        WatchState.FORBIDDEN: ("✗", "bad"),
        WatchState.ABSENT: ("○", "dim"),
    }[link.state]
    return EmptyNotice(sentence(f"{link.kind}: {link.why or link.state}"), sentence(link.hint), glyph, style)
