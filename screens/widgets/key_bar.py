"""The bottom line with the keys that work at present, the most likely first."""

from __future__ import annotations

from typing import NamedTuple

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.reactive import reactive
from textual.strip import Strip

from screens.widgets.line import Inked

READING = (
    "log.search", "log.filter", "log.next", "log.mode", "log.first-error", "log.save", "log.level", "log.wrap",
    "log.nccl", "log.times",
)  # fmt: skip
"""Bindings that stand first wherever lines are read, in this order: on a narrow terminal only the first few fit."""


class KeyHint(NamedTuple):
    """A key, its meaning, and the action that a click runs."""

    key: str
    verb: str
    action: str
    last: bool = False  # stands at the right end and stays when the others no longer fit


class KeyBar(Inked):
    DEFAULT_CSS = "KeyBar { dock: bottom; height: 1; width: 1fr; }"

    hints: reactive[tuple[KeyHint, ...]] = reactive(())

    def render_line(self, y: int) -> Strip:
        bar = self.ground("bar")
        key, verb = bar + self.ink("key"), bar + self.ink("dim")
        segments: list[Segment] = []
        at = 0
        for left, hint in self._places():
            segments.append(Segment(" " * (left - at), bar))
            click = Style(meta={"@click": f"screen.run_hint({hint.action!r})"})
            segments += [Segment(hint.key, key + click), Segment(f" {hint.verb}", verb + click)]
            at = left + _width(hint)
        return Strip(segments).adjust_cell_length(self.size.width, bar)

    def _places(self) -> list[tuple[int, KeyHint]]:
        width = self.size.width
        ends = [hint for hint in self.hints if hint.last]
        room = width - sum(_width(hint) + 2 for hint in ends)
        placed: list[tuple[int, KeyHint]] = []
        at = 1
        for hint in sorted(self.hints, key=lambda hint: hint.last):
            if hint.last:
                at = max(at, room + 1)
            if at + _width(hint) <= (width if hint.last else room):
                placed.append((at, hint))
                at += _width(hint) + 2
        return placed


def _width(hint: KeyHint) -> int:
    return cell_len(hint.key) + 1 + cell_len(hint.verb)
