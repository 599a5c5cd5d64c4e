"""Filter and search of a long text in the background, and program output made fit for a terminal (no control codes)."""

from __future__ import annotations

import asyncio
import re
from abc import abstractmethod
from typing import TYPE_CHECKING

from rich.cells import chop_cells
from textual.reactive import reactive
from textual.widget import Widget

from console.logs.line import HEAD, level
from screens.widgets.base import Abstract
from screens.wording import Span, one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from console.logs.text import LineFilter, Text


_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-_])")
_INKS = {"error": "bad", "warn": "waits"}
_STEP = re.compile(r"step \d+ .*?: (?:run|skip|done)")


def printable(text: str) -> str:
    """The line as a person should see it: colours gone, tabs spread, what a carriage return overwrote gone."""
    if text.isprintable():
        return text
    plain = _ANSI.sub("", text).rstrip("\r\n")
    return one_line(plain.rpartition("\r")[2].expandtabs(8))


def line_ink(text: str) -> str:
    """The ink of a whole line, from the words in it."""
    head = text[:HEAD]
    if _STEP.search(head):
        return "strong"
    serious = _INKS.get(level(head.encode()), "")
    return serious or ("dim" if head.startswith("#") else "")


def pattern(query: str) -> re.Pattern[str] | None:
    """A search as typed: a regular expression, or the text itself where it is none; case counts if it has any."""
    if not query:
        return None
    flags = re.NOFLAG if any(letter.isupper() for letter in query) else re.IGNORECASE
    try:
        return re.compile(query, flags)
    except re.error:
        return re.compile(re.escape(query), flags)


def byte_pattern(query: str) -> re.Pattern[bytes] | None:
    """The same for lines that are not decoded."""
    found = pattern(query)
    return re.compile(found.pattern.encode(), found.flags & re.IGNORECASE) if found else None


def marked(text: str, ink: str, wanted: re.Pattern[str] | None) -> list[Span]:
    """The line in its ink, with every match in the ink of what was found."""
    if wanted is None:
        return [Span(text, ink)]
    runs: list[Span] = []
    last = 0
    for match in wanted.finditer(text):
        if match.start() == match.end():
            continue
        runs += [Span(text[last : match.start()], ink), Span(match.group(), "found")]
        last = match.end()
    return [run for run in (*runs, Span(text[last:], ink)) if run.text]


def folded(text: str, width: int) -> Sequence[str]:
    """The line in pieces of at most that many columns; an empty line is one empty piece."""
    if width <= 0 or not text:
        return [text]
    if text.isascii():
        return [text[start : start + width] for start in range(0, len(text), width)]
    return chop_cells(text, width)


AT_ONCE = 20_000  # lines of a text that is looked through on the spot


class TextFilter(Widget, metaclass=Abstract):
    """A widget over a text, with what of it is shown and what is searched for."""

    text: Text
    wanted: reactive[str] = reactive("", init=False)  # what is searched for
    keep: reactive[LineFilter | None] = reactive(None, init=False)  # which lines are shown; None: all
    matches: reactive[int] = reactive(0)
    """Lines in which the search text stands, as far as they were looked at."""
    match: reactive[int] = reactive(-1)  # which of the matches was last gone to
    looking: reactive[bool] = reactive(False)  # whether lines are still to be looked at
    match_line = -1  # the line it stands in
    marks: re.Pattern[str] | None = None  # what is marked in the lines
    _label_width = 0
    _due = False  # whether the first match from here on is still to be shown
    _to_first = False  # whether the first match of all is

    def refilter(self) -> None:
        """Filter and search apply to another text."""
        if self.keep is not None:
            self.text.apply_filter(self.keep)
        if self.wanted:
            self.text.seek(byte_pattern(self.wanted))

    def watch_keep(self, keep: LineFilter | None) -> None:
        """Other lines are shown; the search begins anew among them."""
        self.text.apply_filter(keep)
        self._begin()
        self.remeasure()

    def watch_wanted(self, wanted: str) -> None:
        """Another text to find: the nearest match from here on is shown."""
        self.marks = pattern(wanted)
        self._to_first &= bool(wanted)
        self.text.seek(byte_pattern(wanted))
        self._begin()
        self._due = bool(wanted) and not self._to_first
        self._tell()
        self.refresh()

    def _begin(self) -> None:
        self.match, self.match_line, self.matches = -1, -1, 0
        if len(self.text) <= AT_ONCE or self.keep is not None:
            self.text.advance()
        self.filter_new_lines()

    def filter_new_lines(self) -> None:
        """There may be lines that were not looked at."""
        if not self.looking:
            self.looking = self.text.advance()
            if self.looking:
                self.filter_in_background()
        self._tell()

    @abstractmethod
    def filter_in_background(self) -> object:
        """Start `filter_all` in a worker."""

    @abstractmethod
    def remeasure(self) -> None:
        """The text has another number of lines."""

    @abstractmethod
    def go_to(self, line: int) -> None: ...

    async def filter_all(self) -> None:
        """Look at all lines, in a thread, telling how far it has come by what is found."""
        text = self.text
        try:
            while await asyncio.to_thread(text.advance) and text is self.text:
                self._tell()
                if self.keep is not None or self.shown_otherwise():
                    self.remeasure()
        finally:
            self.looking = False
        self._tell()
        self.remeasure()

    def shown_otherwise(self) -> bool:
        """Whether the text has more lines than are shown."""
        return True

    def _tell(self) -> None:
        self.matches = self.text.found if self.wanted else 0
        if self._to_first and self.matches:
            self._go(0)
            self._to_first = self.looking
        if self._due and self.matches:
            self._due = False
            line = round(self.scroll_y)
            self._go(min(self.text.nearest(line), self.matches - 1))

    def find_first(self, wanted: str) -> None:
        """Search for that, from the beginning: the first match is shown as soon as it is known."""
        self._to_first = True
        if self.wanted == wanted:
            self._tell()
        self.wanted = wanted
        self._due = False

    def action_match(self, step: int) -> None:
        self._to_first = False
        if self.matches:
            if self.match >= 0:
                self._go((self.match + step) % self.matches)
            else:
                at = self.text.nearest(round(self.scroll_y))
                self._go((at if step > 0 else at - 1) % self.matches)

    def _go(self, match: int) -> None:
        self.match = match
        self.match_line = self.text.place(match)
        self.go_to(self.match_line)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """`n` belongs to the search only while something is searched."""
        return bool(self.wanted) if action == "match" else True
