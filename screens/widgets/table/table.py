"""The one table of the console: rows are data, only the lines in view are formatted, and the cursor stays on its row.

    class PodTable(ResourceTable[Pod]):
        COLUMNS = (
            Column("NAME", lambda pod: pod.name, sort=lambda pod: pod.name),
            since("AGE", lambda pod: pod.created),
        )
        def row_text(self, pod): return f"{pod.namespace} {pod.name}"

    table.show_rows(fleet.pods, fleet.links.get("pods"))

Redrawing compares each visible line with what is painted, so a picture in which nothing visible changed costs no paint.
"""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Generic

from msgspec.structs import replace
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from console.kube.snapshot import WatchState, WatchStatus
from console.settings_file import ListConfig
from console.work_slices import key_expected
from screens.columns.column import PAGE, Column, RowKey, RowT
from screens.widgets.styled_text import PaintedLines, call_after
from screens.widgets.table.row_painter import GAP, MARGIN, EmptyNotice, RowPainter, notice_for
from screens.widgets.table.sorted_rows import SortedRows
from screens.wording import spans_of

PAINTED_SECONDS = 0.05  # seconds after which a key is painted in most tables
_UNWATCHED_STATUS = WatchStatus("", WatchState.LIVE)  # of rows that no watch brings


class ResourceTable(ScrollView, PaintedLines, Generic[RowT], can_focus=True, inherit_bindings=False):
    """A scrolling table of one kind of rows with declared columns."""

    DEFAULT_CSS = "ResourceTable { height: 1fr; overflow-x: hidden; overflow-y: auto; scrollbar-size-vertical: 1; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "Open", id="table.open", tooltip="Open the row under the cursor"),
        Binding("slash", "screen.filter_rows", "Filter", key_display="/", id="table.filter",
                tooltip="Filter rows by the words typed; !word hides rows that contain it"),
        Binding("o", "sort", "Sort", id="table.sort", tooltip="Sort by the next column"),
        Binding("O", "reverse", "Reverse", show=False, key_display="O", id="table.reverse",
                tooltip="Reverse the order"),
        Binding("space", "mark", "Mark", show=False, id="table.mark",
                tooltip="Mark the row: marked rows take an action together"),
        Binding("up,k", "step(-1)", "Up", show=False, id="table.up", key_display="↑ k"),
        Binding("down,j", "step(1)", "Down", show=False, id="table.down", key_display="↓ j"),
        Binding("pageup", "page(-1)", "Page up", show=False, id="table.page_up"),
        Binding("pagedown", "page(1)", "Page down", show=False, id="table.page_down"),
        Binding("home,g", "edge(0)", "First row", show=False, id="table.first", key_display="home g"),
        Binding("end,G", "edge(1)", "Last row", show=False, id="table.last", key_display="end G"),
    ]  # fmt: skip

    COLUMNS: ClassVar[Sequence[Column[Any]]] = ()
    SORTED_BY: ClassVar[str] = ""
    """Title of the column that sorts the rows at first; empty: rows keep the given order."""
    EMPTY: ClassVar[EmptyNotice] = EmptyNotice("Nothing here.")  # what stands in place of the rows when there are none
    NOUN: ClassVar[str] = "row"
    GROUPS: ClassVar[Sequence[tuple[int, str]]] = ()
    """(end, heading) of groups of rows in their given order; a group has the rows whose `place_of` is below its end."""
    LIST: ClassVar[str] = ""  # what the person's settings call this list; empty: it cannot be set

    @dataclass
    class TableMessage(Message):
        """The base of messages from a table to its page."""

        table: ResourceTable[Any]

        @property
        def control(self) -> ResourceTable[Any]:
            return self.table

    @dataclass
    class Opened(TableMessage):
        """The message that a row was opened by Enter or a double click."""

        key: RowKey

    @dataclass
    class Highlighted(TableMessage):
        """The message that the cursor has moved to another row, or to none."""

        key: RowKey | None

    class Changed(TableMessage):
        def can_replace(self, message: Message) -> bool:
            return isinstance(message, ResourceTable.Changed) and message.table is self.table

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.listing: SortedRows[RowT] = SortedRows(self.row_text)
        self.marks: set[RowKey] = set()
        self.on_cursor_moved: Callable[[], None] = lambda: None  # called when the cursor is on another row
        self.place_of: Callable[[RowKey], int] = lambda _: 0
        self._headings: list[tuple[int, str]] = []  # rows that a heading stands above, by number
        self.filter_text = ""
        self.sorted_by = ""
        self.descending = False
        self._preparing = False  # whether the next slice for the filter or an order is due
        self._laid_out_in = Size(0, 0)
        self._cursor: RowKey | None = None
        self._cursor_index = 0
        self._cursor_before: RowKey | None = None
        """The row of the cursor before the last row went, to return there with the rows; None before the first row."""
        self._link: WatchStatus | None = None
        self._notice: EmptyNotice | None = None
        self._painter: RowPainter[RowT] = RowPainter(self)
        self._own_config = ListConfig()
        self._reported_hidden: list[str] = []  # titles of chosen columns that had no room when it was reported
        self._declared_columns: Sequence[Column[Any]] = ()
        self._shows_namespaces = False
        self.set_columns(self.COLUMNS)
        if self.SORTED_BY:
            self.sort_by(self.SORTED_BY)

    def row_text(self, row: RowT) -> str:
        """The text that the filter searches: by default all cells."""
        return " ".join(run.text for column in self._painter.columns for run in spans_of(column.cell(row)))

    def set_columns(self, columns: Sequence[Column[Any]]) -> None:
        self._declared_columns = columns
        shown = [column for column in columns if column.only in {"", PAGE}]
        if self._shows_namespaces:
            shown = [replace(column, drop=0) if column.title == "NAMESPACE" else column for column in shown]
        titled = {column.title: column for column in shown}
        chosen = [titled[title] for title in self._own_config.columns if title in titled]
        self._painter.set_columns(chosen or shown)
        self._painter.measure(list(self.listing.rows.values()))
        self._report_hidden()
        self.refresh()

    def show_namespaces(self, shows_all: bool) -> None:
        """Show each row's namespace, on narrow terminals too, if there are rows of several."""
        if shows_all != self._shows_namespaces:
            self._shows_namespaces = shows_all
            self.set_columns(self._declared_columns)

    def configure(self, list_config: ListConfig) -> None:
        """Apply the person's columns and sort order for this list."""
        if list_config == self._own_config:
            return
        self._own_config = list_config
        self.set_columns(self._declared_columns)
        self.sort_by(list_config.sort or self.SORTED_BY, descending=list_config.descending)

    def _report_hidden(self) -> None:
        """Notify once of chosen columns for which there is no room."""
        if not self._own_config.columns or not self.size.width or not self.listing.rows:
            return
        room = {column.title for column, _ in self._painter.columns_now()}
        wanted = {column.title for column in self._painter.columns}
        hidden = [title for title in self._own_config.columns if title in wanted and title not in room]
        if hidden and not self._reported_hidden:
            self.notify(
                f"No room for {', '.join(hidden)}: make the terminal wider, or choose fewer columns in config.toml.",
                title=f"Columns of {self.LIST}",
                severity="warning",
            )
        self._reported_hidden = self._reported_hidden or hidden

    # rows

    def show_rows(
        self, rows: Mapping[Any, RowT], link: WatchStatus | None = _UNWATCHED_STATUS, at_once: int = sys.maxsize
    ) -> None:
        """Show these rows; cursor, marks and filter stay on their rows. `link`: the state of their watch."""
        stale_before, before = self._painter.stale, len(self.listing.rows)
        self._link = link
        self._painter.stale = link is not None and link.state in {WatchState.STALE, WatchState.FORBIDDEN}
        fills = self.listing.is_behind and self._cursor_index == 0  # then the cursor stays on the first line
        moved = self.listing.update(rows, at_once)
        if narrowed := len(rows) < before // 2:  # as after the choice of a namespace: columns are laid out anew
            self._painter.set_columns(self._painter.columns)
        new = self.listing.rows.values() if narrowed else (row for _, row in self.listing.changes)
        grew = self._painter.measure([row for row in new if row is not None])
        if self.marks:
            self.marks &= rows.keys()
        self._prepare()
        if moved:
            self._keep_in_place()
        if moved and fills:
            self._move_cursor(0)
        if grew or stale_before != self._painter.stale:
            self._painter.lay_out()
            self._report_hidden()
            self.refresh()
        elif self.listing.changes or not rows:
            self.repaint_changed()
        if self.GROUPS and self._headings != _find_heads(self):  # as a row moves from one to another in its place
            self._keep_in_place()
            self.refresh()

    def show_trouble(self, trouble: EmptyNotice | None) -> None:
        """Show a sentence in place of the rows while there are none; None: the usual one for this kind again."""
        self._notice = trouble
        self.refresh()

    @property
    def shown_keys(self) -> list[RowKey]:
        return self.listing.keys

    @property
    def lines_wanted(self) -> int:
        """The lines that the titles and all rows take, or the notice instead of rows."""
        return 1 + (len(self.listing) + len(self._headings) or len(self._painter.notice_lines(self._empty_notice())))

    @property
    def columns_wanted(self) -> int:
        """The width in columns at which no row is cut and no column left out."""
        return self._painter.columns_wanted

    @property
    def cursor(self) -> RowKey | None:
        return self._cursor

    @property
    def row(self) -> RowT | None:
        return self.listing.rows.get(self._cursor) if self._cursor is not None else None

    @property
    def chosen_keys(self) -> list[RowKey]:
        """The rows for an action: the marked ones in order, else the one under the cursor."""
        if self.marks:
            return [key for key in self.shown_keys if key in self.marks] or sorted(self.marks)
        return [self._cursor] if self._cursor is not None else []

    @property
    def chosen_rows(self) -> list[RowT]:
        return [self.listing.rows[key] for key in self.chosen_keys if key in self.listing.rows]

    def move_to(self, key: RowKey) -> bool:
        """Move the cursor to that row and scroll it into view; False if it is not shown."""
        index = self.listing.index(key)
        if index is None:
            return False
        self._move_cursor(index)
        return True

    def filter_by(self, text: str) -> None:
        if text == self.filter_text:
            return
        self.filter_text = text
        self.listing.filter_by(text)
        self._show_found()
        self._prepare()

    def _show_found(self) -> None:
        self._keep_in_place()
        self.refresh()
        self.post_message(self.Changed(self))

    def forget_search_texts(self) -> None:
        """Apply the filter again because the texts it searches have changed."""
        self.listing.forget_search_texts()
        if self.filter_text:
            self._show_found()
            self._prepare()

    def prepare_search_texts(self) -> None:
        """Prepare the texts that the filter searches, as words will probably be typed."""
        self.listing.prepare_search_texts()
        self._prepare()

    def _prepare(self, delay_seconds: float = 0.0, *, sort: bool = False) -> None:
        """Prepare the missing texts for the filter, then the next order, in slices of time.

        `sort`: begin that order too, if there are many rows and keys are likely.
        """
        if sort and self.listing.is_large and key_expected() and not self.filter_text:
            column = _next_to_sort_by(self._painter, self.sorted_by)
            if column is not None and column.order is not None:
                self.listing.expect_sort(column.order, descending=column.down)
        if (self.listing.lacks_texts or self.listing.sorting_ahead) and not self._preparing:
            self._preparing = True
            call_after(self, delay_seconds, self._prepare_slice)

    def _prepare_slice(self) -> None:
        self._preparing = False
        if not self.listing.lacks_texts:
            self.listing.sort_ahead()
        else:
            self.listing.prepare_next_texts()
            if self.filter_text and not self.listing.lacks_texts:
                self._show_found()
        self._prepare()

    def sort_by(self, name: str, *, descending: bool | None = None) -> None:
        """Sort by the column of that name ("" keeps the given order); `descending` None: the column's own direction."""
        column = next((each for each in self._painter.columns if each.name == name), None)
        self.sorted_by = name if column else ""
        self.descending = (column.down if column else False) if descending is None else descending
        self.listing.sort_by(column.order if column else None, descending=self.descending)
        self._show_found()
        self._prepare(PAINTED_SECONDS, sort=True)

    # keys

    def action_step(self, lines: int) -> None:
        self._move_cursor(self._cursor_index + lines)

    def action_page(self, pages: int) -> None:
        self._move_cursor(self._cursor_index + pages * max(1, self.size.height - 2))

    def action_edge(self, last: int) -> None:
        self._move_cursor(len(self.listing) - 1 if last else 0)

    def action_open(self) -> None:
        if self._cursor is not None:
            self.post_message(self.Opened(self, self._cursor))

    def action_sort(self) -> None:
        if (column := _next_to_sort_by(self._painter, self.sorted_by)) is not None:
            self.sort_by(column.name)

    def action_reverse(self) -> None:
        if self.sorted_by:
            self.sort_by(self.sorted_by, descending=not self.descending)

    def action_mark(self) -> None:
        if self._cursor is None:
            return
        self.marks ^= {self._cursor}
        self.refresh()
        self._move_cursor(self._cursor_index + 1)
        self.post_message(self.Changed(self))

    def clear_marks(self) -> None:
        self.marks.clear()
        self.refresh()
        self.post_message(self.Changed(self))

    # mouse

    async def _on_click(self, event: events.Click) -> None:
        event.stop()
        offset = event.get_content_offset(self)
        if offset is None:
            return
        if offset.y == 0:
            self._sort_at(offset.x)
            return
        index = _at_line(self._headings, offset.y - 1 + self.scroll_offset.y)
        if isinstance(index, int) and index < len(self.listing):
            self._move_cursor(index)
            if event.chain == 2:
                self.action_open()

    def _sort_at(self, x: int) -> None:
        left = MARGIN
        for column, width in self._painter.columns_now():
            if left <= x < left + width + GAP and column.sort:
                turn = not self.descending if column.name == self.sorted_by else None
                self.sort_by(column.name, descending=turn)
                return
            left += width + GAP

    # what is drawn

    def on_resize(self) -> None:
        """Adapt the widths of columns and keep the cursor visible; a hidden table is left as it was drawn."""
        if self.size == self._laid_out_in:
            return
        self._laid_out_in = self.size
        self._painter.lay_out()
        self._report_hidden()
        self._painted_strips.clear()
        self._keep_in_place()
        self.refresh()

    def on_focus(self) -> None:
        self.refresh()

    on_blur = on_focus

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._painter.clear_cache()

    def draw_line(self, y: int) -> Strip:
        """One visible line: titles or a row."""
        if y == 0:
            return self._painter.titles(self.sorted_by, descending=self.descending)
        if not self.listing:
            return self._painter.notice(self._empty_notice(), y - 1)
        index = _at_line(self._headings, y - 1 + self.scroll_offset.y)
        if isinstance(index, str):
            return self._painter.heading(index)
        if index >= len(self.listing):
            return Strip.blank(self.size.width, self.rich_style)
        key = self.listing.key_at(index)
        marked, focused = key in self.marks, self.screen.focused
        apart = focused is not self and isinstance(focused, ResourceTable)
        return self._painter.row(key, self.listing.rows[key], here=key == self._cursor, marked=marked, apart=apart)

    def _empty_notice(self) -> EmptyNotice:
        if self.listing.lacks_texts and self.filter_text:
            return EmptyNotice(f"Searching for “{self.filter_text}” …", glyph="◐", style="waits")
        if self.listing.rows and self.filter_text:
            return EmptyNotice(f"No {self.NOUN} matches “{self.filter_text}”.", "Esc clears the filter.")
        return self._notice or notice_for(self._link, self.EMPTY)

    # where things are

    def _keep_in_place(self) -> None:
        """Keep cursor and scroll position on their rows, or near where they were."""
        old = self._cursor_index
        self._cursor_before = key = self._cursor or self._cursor_before
        found = self.listing.index(key) if key is not None else None
        rows, self._headings, offset = len(self.listing), _find_heads(self), self.scroll_offset.y
        _scroll_over(self, Size(self.size.width, rows + len(self._headings) + 1))
        index = found if found is not None else min(old, rows - 1)
        if found is not None and offset > 0:
            self.scroll_to(y=max(0, offset + index - old), animate=False, immediate=True, force=True)
        self._move_cursor(index)

    def _move_cursor(self, index: int) -> None:
        rows = len(self.listing)
        index = max(0, min(index, rows - 1))
        key = self.listing.key_at(index) if rows else None
        before = self._cursor
        old_y, y = _line_of(self._headings, self._cursor_index), _line_of(self._headings, index)
        self._cursor_index, self._cursor = index, key
        height = max(1, self.size.height - 1)
        top, first = (
            self.scroll_offset.y,
            y - isinstance(_at_line(self._headings, y - 1), str),
        )  # with the heading above it
        if first < top:
            self.scroll_to(y=first, animate=False, immediate=True, force=True)
        elif y >= top + height:
            self.scroll_to(y=y - height + 1, animate=False, immediate=True, force=True)
        for row in {old_y, y}:
            self.refresh(Region(0, row + 1 - self.scroll_offset.y, self.size.width, 1))
        if key != before:
            self.on_cursor_moved()
            self.post_message(self.Highlighted(self, key))
            self._prepare(PAINTED_SECONDS, sort=True)


def _scroll_over(table: ScrollView, size: Size) -> None:
    """Set the size of a table's scrolled area, with a new layout only if something moves."""
    follows = not table.styles.height or table.styles.height.is_auto
    if (
        follows
        or size.width != table.virtual_size.width
        or table.show_vertical_scrollbar != (size.height > table.size.height)
    ):
        table.virtual_size = size
        return
    table.set_reactive(ScrollView.virtual_size, size)
    table.vertical_scrollbar.window_virtual_size = size.height
    table.scroll_y = min(table.scroll_y, table.max_scroll_y)


def _next_to_sort_by(painter: RowPainter[Any], sorted_by: str) -> Column[Any] | None:
    columns = [column for column, _ in painter.columns_now() if column.sort]
    at = next((number for number, each in enumerate(columns, 1) if each.name == sorted_by), 0)
    return columns[at % len(columns)] if columns else None


def _find_heads(table: ResourceTable[Any]) -> list[tuple[int, str]]:
    """(index, heading) of each row with which a new group begins; empty if rows are not grouped."""
    if not table.GROUPS or table.sorted_by:
        return []
    ends = [0, *(bisect_left(table.shown_keys, place, key=table.place_of) for place, _ in table.GROUPS)]
    found = [(at, title) for (at, end), (_, title) in zip(pairwise(ends), table.GROUPS, strict=False) if at < end]
    return found if found[1:] else []


def _line_of(headings: Sequence[tuple[int, str]], index: int) -> int:
    return index + sum(at <= index for at, _ in headings)


def _at_line(headings: Sequence[tuple[int, str]], number: int) -> int | str:
    """The index of the row on a line of the table, or the group's heading if the line has one."""
    for many, (at, title) in enumerate(headings):
        if number <= at + many:
            return title if number == at + many else number - many
    return number - len(headings)
