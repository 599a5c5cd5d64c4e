"""A screen whose tables are filtered as one types, and the line in which the filter is typed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.screen import Screen
from textual.widgets import Input, Static

from screens.widgets.table.table import ResourceTable
from screens.wording import MINE

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.widget import Widget


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
        yield Static("/", classes="slash")
        yield FilterInput(self._text, placeholder="words to keep, !word to drop", compact=True)
        yield Static(self._found, classes="found", markup=False)

    def tell(self, shown: int, of: int) -> None:
        self._found = f"{shown:,} of {of:,}"
        for found in self.query(".found").results(Static):  # none before it is mounted
            found.update(self._found)


ONLY_MINE = Binding("m", "mine", "Mine", id="table.mine", tooltip="Only what you launched, or everything again")


class FilteredScreen(Screen[None], inherit_bindings=False):
    """Shows the line in which the filter of a table is typed, and takes it away."""

    _filtered: ResourceTable[Any]

    async def action_filter_rows(self) -> None:
        """Show the line for the table with the keys; when this returns, the keys are in the line."""
        table = self.focused
        if not isinstance(table, ResourceTable):
            return
        self._filtered = table
        await self.query(FilterLine).remove()
        filter_line = FilterLine(table.filter_text)
        await self.mount(filter_line)
        self.set_focus(filter_line.query_one(FilterInput))
        filter_line.tell(len(table.shown), len(table.listing.rows))

    def on_input_changed(self, event: Input.Changed) -> None:
        if isinstance(event.input, FilterInput):
            event.stop()
            if event.input is self.focused:  # else it tells of letters typed before the line was left
                self._filtered.filter_by(event.value)

    @on(ResourceTable.Changed)
    def _tell_filter(self, event: ResourceTable.Changed) -> None:
        for filter_line in self.query(FilterLine):
            if event.table is self._filtered:
                filter_line.tell(len(event.table.shown), len(event.table.listing.rows))

    def action_mine(self) -> None:
        """Only what whoever looks has launched, or everything again."""
        table = self.focused
        if not isinstance(table, ResourceTable):
            return
        if table.filter_text == MINE:
            self.drop_filter(table)
            return
        self._filtered = table
        table.filter_by(MINE)
        self.query(FilterLine).remove()
        line = FilterLine(MINE)
        line.tell(len(table.shown), len(table.listing.rows))
        self.mount(line)

    def show_filter_of(self, part: Widget) -> None:
        """Another part of the screen is in front: show the filter that a table in it has, and no other."""
        self.query(FilterLine).remove()
        for table in part.query(ResourceTable):
            if table.filter_text:
                self._filtered = table
                filter_line = FilterLine(table.filter_text)
                filter_line.tell(len(table.shown), len(table.listing.rows))
                self.mount(filter_line)
                break

    def action_leave_filter(self, drop: bool) -> None:
        """Back to the rows, with or without the filter."""
        if not drop:  # the last letters' own message may still be on its way
            self._filtered.filter_by(self.query_one(FilterInput).value)
        self.set_focus(self._filtered)
        if drop or not self._filtered.filter_text:
            self.drop_filter(self._filtered)

    def drop_filter(self, table: ResourceTable[Any]) -> None:
        table.filter_by("")
        self.query(FilterLine).remove()
