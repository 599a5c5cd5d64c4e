"""The command palette: what the keys do here and now, found by name."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.screen import Screen
from textual.widget import Widget

if TYPE_CHECKING:
    from collections.abc import Iterator

    from textual.dom import DOMNode

HIDDEN = frozenset({"app.command_palette", "command_palette", "app.commands"})


class ActiveBindings(Provider):
    """Every binding that works on the screen below the palette; nothing is listed twice or anywhere else."""

    async def discover(self) -> Hits:
        """All of them, before anything is typed."""
        for node, action, name, help_text in self._commands():
            yield DiscoveryHit(name, partial(self._run, node, action), help=help_text)

    async def search(self, query: str) -> Hits:
        """Those whose name or explanation matches."""
        matcher = self.matcher(query)
        for node, action, name, help_text in self._commands():
            score = max(matcher.match(name), 0.5 * matcher.match(help_text))
            if score > 0:
                yield Hit(score, matcher.highlight(name), partial(self._run, node, action), help=help_text)

    def _commands(self) -> Iterator[tuple[DOMNode, str, str, str]]:
        seen: set[str] = set()
        for active in self.screen.active_bindings.values():
            binding = active.binding
            moves = isinstance(active.node, Widget) and not isinstance(active.node, Screen) and not active.tooltip
            if not binding.description or binding.action in {*seen, *HIDDEN} or binding.system or not active.enabled:
                continue
            if moves and not binding.show:
                continue  # arrow keys are no commands
            seen.add(binding.action)
            key = self.app.get_key_display(binding)
            told = f"{active.tooltip} ({key})" if active.tooltip else key
            yield active.node, binding.action, binding.description, told

    async def _run(self, node: DOMNode, action: str) -> None:
        await self.app.run_action(action, node)
