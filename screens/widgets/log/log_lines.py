"""A widget for millions of text lines, of which only visible ones are read: follow, pause, wrap, search."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import dropwhile
from typing import ClassVar

from rich.cells import cell_len, chop_cells
from rich.segment import Segment
from textual import events, work
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip

from console.logs.log_text import LineFilter, LogText, MemoryText, TextRow
from console.metrics.log_search import SAME_TIME_SECONDS, contains_number
from screens.sanitize import one_line
from screens.widgets.styled_text import StyledWidget, StyleOf, call_after
from screens.wording import Span
from trainlog import MAX_HEAD_CHARACTERS, detect_level, shorten_iteration_line

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-_])")
_STYLE_OF_SEVERITY = {"error": "bad", "warn": "waits"}
_STAGE_LINE = re.compile(r"step \d+ .*?: (?:run|skip|done)")


def printable(text: str) -> str:
    r"""The line as a terminal shows it: no colour codes, no text overwritten after \\r, tabs expanded."""
    if text.isprintable():
        return text
    plain = _ANSI.sub("", text).rstrip("\r\n")
    return one_line(plain.rpartition("\r")[2].expandtabs(8))


def line_style(text: str) -> str:
    head = text[:MAX_HEAD_CHARACTERS]
    if _STAGE_LINE.search(head):
        return "strong"
    serious = _STYLE_OF_SEVERITY.get(detect_level(head.encode()), "")
    return serious or ("dim" if head.startswith("#") else "")


def pattern(query: str) -> re.Pattern[str] | None:
    """Compile a search text as a regular expression, else literally; None if it is empty."""
    if not query:
        return None
    flags = re.NOFLAG if any(letter.isupper() for letter in query) else re.IGNORECASE
    try:
        return re.compile(query, flags)
    except re.error:
        return re.compile(re.escape(query), flags)


def byte_pattern(query: str) -> re.Pattern[bytes] | None:
    """Compile a search text as a regular expression for bytes; None if it is empty."""
    found = pattern(query)
    return re.compile(found.pattern.encode(), found.flags & re.IGNORECASE) if found else None


def marked(text: str, style: str, pattern: re.Pattern[str] | None) -> list[Span]:
    """The line as spans, with every match of `pattern` highlighted."""
    if pattern is None:
        return [Span(text, style)]
    runs: list[Span] = []
    last = 0
    for match in pattern.finditer(text):
        if match.start() == match.end():
            continue
        runs += [Span(text[last : match.start()], style), Span(match.group(), "found")]
        last = match.end()
    return [run for run in (*runs, Span(text[last:], style)) if run.text]


def wrap_line(text: str, width: int) -> Sequence[str]:
    """The line in pieces of at most that many columns; an empty line is one empty piece."""
    if width <= 0 or not text:
        return [text]
    if text.isascii():
        return [text[start : start + width] for start in range(0, len(text), width)]
    return chop_cells(text, width)


MAX_MEMORY_LINES = 50_000  # lines that are kept of a log that is in memory only; the oldest go first
REDRAW_SECONDS = 1 / 30  # seconds between two drawings while lines stream in
LINES_SEARCHED_AT_ONCE = 20_000  # lines of a text that is looked through on the spot
MAX_SAME_TIME = 200  # lines of one moment among which one is looked for again
MAX_LABEL = 34  # columns of the longest label that is shown
MAX_LETTERS_PER_CELL = 5  # at most, with the accents that one letter may carry


class LogLines(ScrollView, StyledWidget, can_focus=True):
    """A widget that shows the lines of a log or of a text; the scroll bar counts lines."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "toggle('follow')", "Pause/follow", id="log.follow", tooltip="Stop here, or follow again"),
        Binding("up,k", "move(-1)", "Up", show=False, id="log.up"),
        Binding("down,j", "move(1)", "Down", show=False, id="log.down"),
        Binding("pageup", "page(-1)", "Page up", show=False, id="log.page-up"),
        Binding("pagedown", "page(1)", "Page down", show=False, id="log.page-down"),
        Binding("home,g", "top", "First line", show=False, id="log.top"),
        Binding("end,G", "bottom", "Last line", show=False, id="log.bottom"),
        Binding("left", "shift(-16)", "Left", show=False, id="log.left"),
        Binding("right", "shift(16)", "Right", show=False, id="log.right"),
        Binding("W", "toggle('wrap')", "Wrap", id="log.wrap", tooltip="Fold long lines"),
        Binding(
            "C",
            "toggle('short')",
            "Short steps",
            key_display="C",
            id="log.short",
            tooltip="Lines of Megatron as printed, or those that are too long as it 20/97  loss 10.580  gn 0.31",
        ),
        Binding("T", "toggle('times')", "Times", id="log.times", tooltip="Show when each line was printed"),
        Binding("n", "match(1)", "Next match", id="log.next"),
        Binding("N", "match(-1)", "Previous match", show=False, id="log.previous"),
    ]

    follow: reactive[bool] = reactive(True)
    wrap: reactive[bool] = reactive(False)
    fold = staticmethod(wrap_line)
    times: reactive[bool] = reactive(False)
    short: reactive[bool] = reactive(True)
    """Whether iteration lines that are too long are shortened if lines are not wrapped; a search match in the left-out
    words shows the whole line, and saved text is never shortened."""
    shown: reactive[int] = reactive(0)
    total: reactive[int] = reactive(0)
    wanted: reactive[str] = reactive("", init=False)  # what is searched for
    keep: reactive[LineFilter | None] = reactive(None, init=False)  # which lines are shown; None: all
    match_count: reactive[int] = reactive(0)
    """The number of lines with the search text, among those searched so far."""
    match: reactive[int] = reactive(-1)  # which of the matches was last gone to
    is_searching: reactive[bool] = reactive(False)  # whether lines are still to be looked at
    match_line = -1  # the marked line: the one that the match stands in, or that of a step that was asked for
    marks: re.Pattern[str] | None = None  # what is marked in the lines
    _label_width = 0
    _jumps_to_match = False  # whether the first match from here on is still to be shown
    _to_first = False  # whether the first match of all is
    position_before_search: tuple[bool, float, float] | None = None
    """(follow mode, scroll x, scroll y) before the search that is being typed moved the lines; None if none has."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.text: LogText = MemoryText(MAX_MEMORY_LINES)
        self._pending_lines: list[tuple[float, str]] = []
        self._flush_due = False
        self._scrolls_by_itself = False
        self._longest_columns = 0
        self._last_page: tuple[int, list[TextRow]] = (0, [])
        self._visible_pieces: list[tuple[int, str, bool]] = []
        """While lines are wrapped: for each visible row (line, piece of the line, whether it is the first piece)."""

    # what comes in

    def show_text(self, text: LogText) -> None:
        self.text = text
        self._pending_lines, self._longest_columns, self.match, self.match_line = [], 0, -1, -1
        self.follow = True
        if self.keep is not None:
            text.apply_filter(self.keep)
        if self.wanted:
            text.start_search(byte_pattern(self.wanted))
        self.show_changes()

    def switch_source(self, text: LogText) -> None:
        """Replace the text by the same log from another source, keeping the top line in place."""
        follow, top = self.follow, round(self.scroll_y)
        first = next(iter(self.text.read_rows(top, top + 1)), None)
        self.show_text(text)
        if follow or first is None:
            return
        low = self.text.row_at(first.time)
        alike = (low + at for at, row in enumerate(text.read_rows(low, low + MAX_SAME_TIME)) if row.text == first.text)
        self.follow = False
        self._scroll_to_row(next(alike, low))

    def show_time(self, time: float, number: float) -> bool:
        """Show and mark the line printed at `time`, of several the one with `number`; returns whether there is one."""
        start = self.text.row_at(time - SAME_TIME_SECONDS)
        rows = self.text.read_rows(start, start + MAX_SAME_TIME)
        found = [(at, row.text) for at, row in enumerate(rows, start) if row.time <= time + SAME_TIME_SECONDS]
        if found:
            self._show_line(next((at for at, text in found if contains_number(text, number)), found[0][0]))
        return bool(found)

    def rows_in_sight(self) -> list[TextRow]:
        """The visible lines: the marked one, then the others from the last one up."""
        top = round(self.scroll_y)
        high = len({number for number, _, _ in self._visible_pieces}) if self.wrap else self._rows_high()
        rows = list(self._read_lines(top, top + high))
        marked = rows[self.match_line - top :][:1] if self.match_line >= top else []
        return [*marked, *reversed(rows)]

    def append(self, lines: Iterable[tuple[float, str]]) -> None:
        """Append lines (time, text) to its own text; they are drawn together after a short delay."""
        self._pending_lines.extend(lines)
        if not self._flush_due and self.is_attached:
            self._flush_due = True
            call_after(self, REDRAW_SECONDS, self.flush)

    def on_mount(self) -> None:
        self.flush()

    def clear(self) -> None:
        self.show_text(MemoryText(MAX_MEMORY_LINES))

    def flush(self) -> None:
        self._flush_due = False
        fresh, self._pending_lines = self._pending_lines, []
        if fresh and isinstance(self.text, MemoryText):
            gone = self.text.append_lines(fresh)
            if gone and not self.follow:
                self._scroll_to_row(self.scroll_y - gone)
        self.show_changes()

    def show_changes(self) -> None:
        """Update after the text has changed; scrolls to the end if following."""
        self._filter_new_lines()
        self.remeasure()

    def remeasure(self) -> None:
        self.shown, self.total = len(self.text), self.text.line_count()
        self._last_page = (0, [])
        self._measure_lines()

    def _measure_lines(self) -> None:
        height = self.shown
        if self.wrap:
            height = self._max_top() + max(1, self._rows_high())
        width = self.size.width if self.wrap else self._longest_columns + self._left_columns()
        self.virtual_size = Size(width, height)
        if self.follow:
            self._scroll_to_row(self.max_scroll_y)
        self._fold_lines()
        self.refresh()

    # what is drawn

    def _rows_high(self) -> int:
        return self.scrollable_content_region.height

    def _left_columns(self) -> int:
        return (9 if self.times else 0) + self._label_width

    def _text_width(self) -> int:
        return max(1, self.scrollable_content_region.width - self._left_columns())

    def _read_lines(self, first_line: int, end_line: int) -> Sequence[TextRow]:
        """The lines from `first_line` to before `end_line`, taken from the last page read if it has them."""
        first, rows = self._last_page
        end_line = min(end_line, self.shown)
        if not (first <= first_line and end_line <= first + len(rows)):
            first = max(0, first_line)
            rows = [self._printable_row(row) for row in self.text.read_rows(first, end_line)]
            self._last_page = first, rows
            self._label_width = max((min(MAX_LABEL, len(row.label)) + 1 for row in rows if row.label), default=0)
            widest = max((cell_len(row.text) for row in rows), default=0)
            if widest > self._longest_columns and not self.wrap:
                self._longest_columns = widest
                self.virtual_size = Size(widest + self._left_columns(), self.virtual_size.height)
        return rows[first_line - first : end_line - first]

    def _printable_row(self, row: TextRow) -> TextRow:
        text = printable(row.text)
        shortens = self.short and not self.wrap and "iteration" in text and cell_len(text) > self._text_width()
        brief = shorten_iteration_line(text) if shortens else ""
        if self.marks is not None and self.marks.search(text) and not self.marks.search(brief):
            brief = ""
        return row._replace(text=brief or text, full_text=text)

    def _max_top(self) -> int:
        high, width = self._rows_high(), self._text_width()
        top, rows = self.shown, 0
        for row in reversed(self._read_lines(max(0, self.shown - high), self.shown)):
            rows += len(self.fold(row.text, width))
            if rows > high and top < self.shown:
                break
            top -= 1
        return max(0, top)

    def _fold_lines(self) -> None:
        self._visible_pieces = []
        if not self.wrap:
            return
        top, width = round(self.scroll_y), self._text_width()
        for number, row in enumerate(self._read_lines(top, top + self._rows_high()), top):
            pieces, high = list(enumerate(self.fold(row.text, width))), self._rows_high()
            if number == self.match_line and len(pieces) > high and self.marks is not None:  # it begins at its match
                pieces = [*dropwhile(lambda each: self.marks and not self.marks.search(each[1]), pieces)] or pieces
            self._visible_pieces += [(number, piece, at == 0) for at, piece in pieces[:high]]

    def render_line(self, y: int) -> Strip:
        width, ground = self.scrollable_content_region.width, self.base_style
        top = round(self.scroll_y)
        if self.wrap:
            number, piece, first = self._visible_pieces[y] if y < len(self._visible_pieces) else (self.shown, "", True)
        else:
            number, piece, first = top + y, "", True
        if number >= self.shown:
            return Strip.blank(width, ground)
        found = self._read_lines(top, top + max(1, self._rows_high()))[number - top : number - top + 1]
        if not found:
            return Strip.blank(width, ground)
        row, ground = found[0], ground + self.ground("cursor") if number == self.match_line else ground
        left = 0 if self.wrap or row.text != row.full_text else round(self.scroll_x)
        in_view = (left + width) * MAX_LETTERS_PER_CELL  # of a line of 64 KiB only what is seen is painted
        runs, style_of = self.paint(piece if self.wrap else row.text[:in_view], row.full_text), self.over(ground)
        body = Strip([Segment(run.text, style_of(run.style)) for run in runs])
        body = body.crop(left, left + width - self._left_columns())
        return Strip([*self._margin(row, style_of, is_first=first), *body]).adjust_cell_length(width, ground)

    def _margin(self, row: TextRow, style_of: StyleOf, *, is_first: bool) -> list[Segment]:
        head = []
        if self.times:
            stamp = f"{datetime.fromtimestamp(row.time).astimezone():%H:%M:%S} " if is_first and row.time else " " * 9
            head.append(Segment(stamp, style_of("dim")))
        if self._label_width:
            label = row.label[:MAX_LABEL] if is_first else ""
            style = "waits" if row.is_not_from_all else "accent"
            head.append(Segment(f"{label:>{self._label_width - 1}} ", style_of(style)))
        return head

    def paint(self, text: str, full_text: str) -> list[Span]:
        """Style a piece of a line; the severity is that of the whole line."""
        return marked(text, line_style(full_text), self.marks)

    def on_resize(self, event: events.Resize) -> None:
        self._last_page = (0, [])
        self._measure_lines()
        self._show_columns()  # what was found before the log was in front had no width to be shown in

    # following

    def _scroll_to_row(self, row: float) -> None:
        """Scroll without pausing or resuming the follow mode."""
        self._scrolls_by_itself = True
        self.scroll_to(y=max(0, row), animate=False, immediate=True, force=True)
        self._scrolls_by_itself = False

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Pause following when scrolled up; resume it at the end."""
        super().watch_scroll_y(old_value, new_value)
        self._fold_lines()
        if self._scrolls_by_itself:
            return
        if new_value < old_value and new_value < self.max_scroll_y:
            self.follow = False
        elif new_value > old_value and new_value >= self.max_scroll_y:
            self.follow = True

    def watch_follow(self, follow: bool) -> None:
        if follow:
            self._scroll_to_row(self.max_scroll_y)

    def _show_columns(self) -> None:
        """Scroll sideways to the match; back to the first columns if the match is there."""
        if self.wrap or self.marks is None or self.match_line < 0:
            return
        top = round(self.scroll_y)
        rows = self._read_lines(top, top + max(1, self._rows_high()))
        if not 0 <= self.match_line - top < len(rows):
            return
        text = rows[self.match_line - top].text
        found = next((each for each in self.marks.finditer(text) if each.group()), None)
        if found is None:
            return
        first, last, room = cell_len(text[: found.start()]), cell_len(text[: found.end()]), self._text_width()
        left = round(self.scroll_x)
        if last <= room:
            left = 0
        elif first < left or last > left + room:
            left = max(0, min(first, (first + last - room) // 2))
        self.scroll_to(x=left, animate=False, immediate=True, force=True)

    def action_move(self, lines: int) -> None:
        self.scroll_to(y=self.scroll_y + lines, animate=False, immediate=True, force=True)

    def action_page(self, pages: int) -> None:
        rows = len({number for number, _, _ in self._visible_pieces}) if self.wrap else self._rows_high()
        self.action_move(pages * max(1, rows - 1))

    def action_top(self) -> None:
        self.follow = False
        self._scroll_to_row(0)

    def action_bottom(self) -> None:
        self.follow = True

    def action_shift(self, columns: int) -> None:
        self.scroll_to(x=self.scroll_x + columns, animate=False, immediate=True, force=True)

    def watch_wrap(self) -> None:
        """Wrap or unwrap the lines; the first visible line stays."""
        top = self.scroll_y
        self._last_page, self._longest_columns = (0, []), 0
        self._measure_lines()
        if not self.follow:
            self._scroll_to_row(top)
            self._fold_lines()

    def watch_times(self) -> None:
        self.watch_wrap()
        self.refresh_bindings()

    def hides(self) -> dict[str, str]:
        times = {"toggle('times')": "Hide times"} if self.times else {}
        short = {"toggle('short')": "Whole steps"} if self.short else {}
        return times | short | ({} if self.match_count else {"match(1)": ""})

    watch_short = watch_times

    # filter and search

    def watch_keep(self, line_filter: LineFilter | None) -> None:
        """Apply another filter (None: all lines) and restart the search."""
        self.text.apply_filter(line_filter)
        self._restart_search()
        self.remeasure()

    def watch_wanted(self, search_text: str) -> None:
        """Search for another text and show the nearest match from here."""
        self.marks = pattern(search_text)
        self._last_page = (0, [])
        self._to_first &= bool(search_text)
        self.text.start_search(byte_pattern(search_text))
        self._restart_search()
        self._jumps_to_match = bool(search_text) and not self._to_first
        self._show_found_match()
        self.refresh()

    def _restart_search(self) -> None:
        self.match, self.match_line, self.match_count = -1, -1, 0
        if len(self.text) <= LINES_SEARCHED_AT_ONCE or self.keep is not None:
            self.text.advance()
        self._filter_new_lines()

    def _filter_new_lines(self) -> None:
        if not self.is_searching:
            self.is_searching = self.text.advance()
            if self.is_searching:
                self._filter_all()
        self._show_found_match()

    @work(group="filter", exclusive=True)
    async def _filter_all(self) -> None:
        """Filter and search all lines in a thread, reporting progress."""
        text = self.text
        try:
            while await asyncio.to_thread(text.advance) and text is self.text:
                self._show_found_match()
                self.remeasure()
        finally:
            self.is_searching = False
        self._show_found_match()
        self.remeasure()

    def _show_found_match(self) -> None:
        self.match_count = self.text.match_count if self.wanted else 0
        if self._to_first and self.match_count:
            self._show_match(0)
            self._to_first = self.is_searching
        if self._jumps_to_match and self.match_count:
            self._jumps_to_match = False
            self.position_before_search = self.position_before_search or (self.follow, self.scroll_x, self.scroll_y)
            self._show_match(min(self.text.nearest_row(round(self.scroll_y)), self.match_count - 1))

        elif self._jumps_to_match and not self.is_searching and self.position_before_search is not None:
            self.follow, left, top = self.position_before_search
            self.position_before_search = None
            self._scroll_to_row(self.max_scroll_y if self.follow else top)
            self.scroll_to(x=left, animate=False, immediate=True, force=True)

    def find_first(self, search_text: str) -> None:
        """Search from the beginning and show the first match as soon as it is found."""
        self._to_first = True
        if self.wanted == search_text:
            self._show_found_match()
        self.wanted = search_text
        self._jumps_to_match = False

    def action_match(self, step: int) -> None:
        self._to_first = False
        if self.match_count:
            if self.match >= 0:
                self._show_match((self.match + step) % self.match_count)
            else:
                at = self.text.nearest_row(round(self.scroll_y))
                self._show_match((at if step > 0 else at - 1) % self.match_count)

    def _show_match(self, match_number: int) -> None:
        """Show the line of that match in the middle and pause following."""
        self.match = match_number
        self._show_line(self.text.match_position(match_number))
        self._show_columns()

    def _show_line(self, number: int) -> None:
        self.match_line = number
        self.follow = False
        middle = 0 if self.wrap else self._rows_high() // 2
        self._scroll_to_row(number - middle)
        self._fold_lines()
        self.refresh()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Whether an action is enabled: `n` only while there is a search."""
        return bool(self.wanted) if action == "match" else True
