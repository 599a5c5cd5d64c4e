"""The lines of a form, drawn; only those in view cost anything, so a form may have any number of fields."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip

from screens.widgets.form_words import row_runs
from screens.widgets.ink import Inked
from screens.widgets.line import changed_columns, line
from screens.widgets.steady import Steady

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.style import Style
    from textual import events

    from console.models.offer import Offer
    from screens.widgets.form_model import FormModel
    from screens.widgets.form_values import Row


class FormLines(Steady, Inked):
    """Draws a model; whoever holds it moves the cursor."""

    DEFAULT_CSS: ClassVar[str] = "FormLines { height: 1fr; overflow-x: hidden; scrollbar-size-vertical: 1; }"

    virtual_size = reactive(Size(0, 0))
    """How many lines there are; Textual's own would lay out the whole screen anew at every other number."""

    @dataclass
    class Clicked(Message):
        """A line was clicked."""

        row: Row

    @dataclass
    class Scrolled(Message):
        """Other lines are in view."""

    def __init__(self) -> None:
        super().__init__()
        self.model: FormModel | None = None
        self.offers: Mapping[str, Offer] = {}
        self.here: Row | None = None
        self._painted: dict[int, Strip] = {}
        self._looking = False
        self._mixes: dict[str, Style] = {}

    def measure(self) -> None:
        """The model has other lines now."""
        self.virtual_size = Size(self.room, len(self.model.rows) if self.model else 0)
        self._scroll_update(self.virtual_size)
        self.repaint_changed()

    def show_row(self, at: int, height: int = 1) -> None:
        """Scrolls so far that these lines are in view, and the section's title above the first of them."""
        top = int(self.scroll_y)
        if at < top or at + height > top + self.size.height:
            wanted = at - 2 if at < top else at + height - self.size.height + 1
            self.scroll_to(y=max(0, wanted), animate=False, immediate=True, force=True)

    def repaint_changed(self) -> None:
        """Repaints the lines in view that would now look different, once for all that one key changes."""
        if not self._looking:
            self._looking = True
            self.call_later(self._repaint)

    def _repaint(self) -> None:
        self._looking = False
        for y in range(self.size.height):
            old, new = self._painted.get(y), self._strip(y)
            left, end = changed_columns(old, new) if old is not None else (0, self.room)
            if left < end:
                self.refresh(Region(left, y, end - left, 1))

    def render_line(self, y: int) -> Strip:
        """One line."""
        strip = self._painted[y] = self._strip(y)
        return strip

    @property
    def room(self) -> int:
        """How wide lines are."""
        return self.scrollable_content_region.width

    def _strip(self, y: int) -> Strip:
        width = self.room
        at = y + int(self.scroll_y)
        if self.model is None or at >= len(self.model.rows):
            return Strip.blank(width, self._ground)
        row = self.model.rows[at]
        here = self.here is not None and self.here.path == row.path and self.here.kind is row.kind
        runs = row_runs(self.model, row, self.offers, width, here=here)
        return line(runs, width, self._ink_here)

    @property
    def _ground(self) -> Style:
        if "" not in self._mixes:
            self._mixes[""] = self.rich_style  # costs more than the rest of a line
        return self._mixes[""]

    def _ink_here(self, name: str) -> Style:
        name = name or "text"
        if name not in self._mixes:
            self._mixes[name] = self._ground + self.ink(name)
        return self._mixes[name]

    def notify_style_update(self) -> None:
        """Another theme."""
        super().notify_style_update()
        self._mixes = {}

    def on_click(self, event: events.Click) -> None:
        """Says which line is under the mouse."""
        at = event.y + int(self.scroll_y)
        if self.model is not None and at < len(self.model.rows):
            self.post_message(self.Clicked(self.model.rows[at]))

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """What floats over the lines has to follow."""
        super().watch_scroll_y(old_value, new_value)
        if round(old_value) != round(new_value):
            self.post_message(self.Scrolled())

    def on_resize(self) -> None:
        """Lines are as wide as the form."""
        self._painted.clear()
        self.measure()
