"""A screen whose tables can be filtered as one types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from textual import on
from textual.screen import Screen

from screens.widgets.table import ResourceTable

if TYPE_CHECKING:
    from screens.widgets.filter_line import FilterInput


class FilteredScreen(Screen[None], inherit_bindings=False):
    """Shows the line in which the filter of a table is typed, and takes it away."""

    _filtered: ResourceTable[Any]

    @on(ResourceTable.FilterAsked)
    async def _ask_filter(self, event: ResourceTable.FilterAsked) -> None:
        from screens.widgets.filter_line import FilterInput, FilterLine  # not needed for the first paint

        event.stop()
        self._filtered = event.table
        await self.query(FilterLine).remove()
        filter_line = FilterLine(event.table.filter_text)
        await self.mount(filter_line)
        filter_line.query_one(FilterInput).focus()
        filter_line.tell(len(event.table.shown), len(event.table.listing.rows))

    def on_input_changed(self, event: Any) -> None:
        """Filter as the words are typed."""
        from screens.widgets.filter_line import FilterInput

        if isinstance(event.input, FilterInput):
            event.stop()
            self._filtered.filter_by(event.value)

    @on(ResourceTable.Changed)
    def _tell_filter(self, event: ResourceTable.Changed) -> None:
        for filter_line in self.query("FilterLine"):
            filter_line.tell(len(event.table.shown), len(event.table.listing.rows))  # type: ignore[attr-defined]

    def on_filter_input_left(self, event: FilterInput.Left) -> None:
        """Back to the rows, with or without the filter."""
        event.stop()
        self._filtered.focus()
        if event.dropped or not self._filtered.filter_text:
            self.drop_filter(self._filtered)

    def drop_filter(self, table: ResourceTable[Any]) -> None:
        """Show all rows again."""
        table.filter_by("")
        self.query("FilterLine").remove()
