"""The line in which a table's filter is typed."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.widgets import Input, Static

if TYPE_CHECKING:
    from textual.app import ComposeResult


class FilterInput(Input):
    """The input itself: Enter goes to the rows, Esc drops the filter."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "screen.leave_filter(True)", "Clear filter", id="filter.drop"),
        Binding("enter,down", "screen.leave_filter(False)", "To the rows", id="filter.keep", key_display="⏎"),
    ]


class FilterLine(Horizontal):
    """A slash, the words, and how many rows they leave."""

    DEFAULT_CSS = """
    FilterLine {
        height: 1; background: $surface; color: $foreground;
        & > .slash { width: 3; color: $accent; padding: 0 1; }
        & > .found { width: auto; color: $ink-dim; padding: 0 1; }
        & > FilterInput { width: 1fr; height: 1; border: none; padding: 0; background: $surface; }
    }
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text
        self._found = ""

    def compose(self) -> ComposeResult:
        """The three parts."""
        yield Static("/", classes="slash")
        yield FilterInput(self._text, placeholder="words to keep, !word to drop", compact=True)
        yield Static(self._found, classes="found", markup=False)

    def tell(self, shown: int, of: int) -> None:
        """Say how many rows the filter leaves."""
        self._found = f"{shown:,} of {of:,}"
        for found in self.query(".found").results(Static):  # none before it is mounted
            found.update(self._found)
