"""Keys are answered one at a time: what one opens is open before the next is looked at.

Textual hands every key to the focused widget's queue at once, so of keys that arrive together (a paste, a slow line, a
fast hand) those after the one that opens a line to type in would still be commands.
"""

from __future__ import annotations

from typing import cast

from textual import events
from textual.app import App
from textual.command import CommandPalette
from textual.widgets import Input, TextArea


class OrderedApp(App[int]):
    """An app that has done what a key asks for before it looks at the next one."""

    async def on_event(self, event: events.Event) -> None:
        """Keys that are commands or letters are answered here; all else takes Textual's way."""
        key = isinstance(event, events.Key) and not event.is_forwarded
        if not (key and self.screen.is_mounted and await self._answered(event)):  # type: ignore[arg-type]
            await super().on_event(event)

    async def _answered(self, event: events.Key) -> bool:
        typed_in = self.focused
        if isinstance(typed_in, TextArea) or (typed_in is not None and not typed_in.is_mounted):
            return False
        if await self._check_bindings(event.key, priority=True):
            return True
        if isinstance(typed_in, Input) and event.is_printable:
            await typed_in.on_event(event)
            return True
        return await self._check_bindings(event.key)

    async def action_switch_mode(self, mode: str) -> None:
        """Switch to another main screen, and wait until it is there."""
        await self.switch_mode(mode)

    async def action_command_palette(self) -> None:  # type: ignore[override]  # Textual awaits what actions return
        """Open the palette, and wait until it can be typed in."""
        if not CommandPalette.is_open(cast("App[object]", self)):
            palette = CommandPalette(id="--command-palette")
            await self.push_screen(palette)
            palette.set_focus(palette.query_one(Input))
