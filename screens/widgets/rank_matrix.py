"""All ranks of a job at a glance: one cell per rank, up to 32 a line."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rich.segment import Segment
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip

from screens.widgets.ink import Inked
from screens.wording import Run

if TYPE_CHECKING:
    from textual import events
    from textual.geometry import Size

A_LINE = 32
CELL = 2
FRESH = ((10.0, "ok"), (60.0, "text"), (300.0, "dim"), (float("inf"), "faint"))
"""Seconds since the last line of a rank that runs, and how bright it is up to then."""
GUTTER = 5


@dataclass(frozen=True, slots=True)
class RankCell:
    """One rank: its number and the glyph of its state."""

    number: int
    glyph: Run
    heard: float = 0.0
    """When it printed its last line; 0.0 if that is not known."""
    behind: int = 0
    """Steps behind the foremost rank."""

    def run(self, now: float) -> Run:
        """Its mark: the fresher its last line, the brighter; behind the others, whatever its state."""
        if self.behind and self.glyph.ink != "bad":
            return Run("▼", "bad")
        if self.glyph.ink != "ok" or not self.heard:
            return self.glyph
        quiet = now - self.heard
        return Run(self.glyph.text, next(ink for limit, ink in FRESH if quiet < limit))


class RankMatrix(Inked, can_focus=True):
    """The cells, with a cursor; Enter opens the rank under it."""

    DEFAULT_CSS: ClassVar[str] = "RankMatrix { height: auto; }"

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "move(-1, 0)", "Previous pod", show=False, id="ranks.left"),
        Binding("right", "move(1, 0)", "Next pod", show=False, id="ranks.right"),
        Binding("up", "move(0, -1)", "Pods above", show=False, id="ranks.up"),
        Binding("down", "move(0, 1)", "Pods below", show=False, id="ranks.down"),
        Binding("enter", "open", "Open", id="ranks.open", tooltip="The log of this pod"),
    ]

    cells: reactive[tuple[RankCell, ...]] = reactive(())
    cursor: reactive[int] = reactive(0)

    @dataclass
    class Opened(Message):
        """Enter or a click on a rank."""

        number: int

    @dataclass
    class Pointed(Message):
        """The cursor is on another rank."""

        number: int

    def a_line(self, width: int) -> int:
        """How many ranks stand on one line: the largest power of two that fits, 32 at most."""
        fitting = max(1, (width - GUTTER) // CELL)
        return min(A_LINE, 1 << (fitting.bit_length() - 1))

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Lines for all ranks."""
        return -(-len(self.cells) // self.a_line(width))

    def watch_cells(self, before: tuple[RankCell, ...], cells: tuple[RankCell, ...]) -> None:
        """More ranks may need more lines."""
        if len(before) != len(cells):
            self.refresh(layout=True)
        self.cursor = max(0, min(self.cursor, len(cells) - 1))

    def render_line(self, y: int) -> Strip:
        """One line of cells."""
        ground, now = self.rich_style, time.time()
        count = self.a_line(self.size.width)
        first = y * count
        segments = [Segment(f"{first:>{GUTTER - 1}} ", ground + self.ink("dim"))]
        for index, cell in enumerate(self.cells[first : first + count], first):
            back = ground + self.ground("cursor") if self.has_focus and index == self.cursor else ground
            mark = cell.run(now)
            segments.append(Segment(mark.text, back + self.ink(mark.ink)))
            segments.append(Segment(" ", ground))
        return Strip(segments).adjust_cell_length(self.size.width, ground)

    def action_move(self, across: int, down: int) -> None:
        """The rank beside, above or below; stays where there is none."""
        to = self.cursor + across + down * self.a_line(self.size.width)
        if 0 <= to < len(self.cells):
            self.cursor = to
            self.post_message(self.Pointed(self.cells[to].number))

    def action_open(self) -> None:
        """Says which rank is meant."""
        if self.cells:
            self.post_message(self.Opened(self.cells[self.cursor].number))

    def on_click(self, event: events.Click) -> None:
        """A click points, a second one opens."""
        count = self.a_line(self.size.width)
        column = (event.x - GUTTER) // CELL
        index = event.y * count + column
        if 0 <= column < count and index < len(self.cells):
            again = index == self.cursor
            self.cursor = index
            self.post_message(self.Pointed(self.cells[index].number))
            if again and event.chain > 1:
                self.action_open()
