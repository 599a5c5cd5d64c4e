"""Scroll bars that are repainted only when something about them has changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.scroll_view import ScrollView

if TYPE_CHECKING:
    from textual.geometry import Size


class Steady(ScrollView):
    """A view that knows its own height.

    Textual tells such a view its size at every layout, whatever moved, with a height that is not its own; it then
    repaints its bar, and with it everything between this bar and what did move.
    """

    _told: tuple[Size, Size] | None = None

    def _size_updated(self, size: Size, virtual_size: Size, container_size: Size, layout: bool = True) -> bool:
        if self._told == (size, container_size):
            return False
        self._told = size, container_size
        return super()._size_updated(size, virtual_size, container_size, layout)
