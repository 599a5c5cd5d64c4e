"""A line of tabs, each with its key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from rich.segment import Segment
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip

from screens.widgets.line import Inked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual import events


class Tab(NamedTuple):
    """One tab: internal name, key, title, and a note."""

    name: str
    key: str
    title: str
    note: str = ""


def _pieces(key: str, title: str, note: str) -> list[tuple[str, str]]:
    words = f"{title} {note}".strip()
    texts = [(f" {key} ", "key"), (title, "text"), (f" {note} " if note else " ", "dim")]
    return texts if words else [(f" {key}", "key")]


def _width(parts: Sequence[tuple[Tab, str, str]]) -> int:
    return sum(len(text) for tab, title, note in parts for text, _ in _pieces(tab.key, title, note)) + len(parts)


class TabStrip(Inked):
    DEFAULT_CSS: ClassVar[str] = "TabStrip { height: 1; }"

    tabs: reactive[tuple[Tab, ...]] = reactive(())
    here: reactive[str] = reactive("")

    @dataclass
    class Picked(Message):
        name: str

    def _parts(self) -> list[tuple[str, list[tuple[str, str]]]]:
        """The styled texts of each tab; on a narrow line without notes, or only with the keys."""
        full = [(tab, tab.title, tab.note) for tab in self.tabs]
        bare = [(tab, tab.title, "") for tab in self.tabs]
        keys = [(tab, tab.title if tab.name == self.here else "", "") for tab in self.tabs]
        fitting = next((each for each in (full, bare) if _width(each) <= self.size.width), keys)
        return [(tab.name, _pieces(tab.key, title, note)) for tab, title, note in fitting]

    def render_line(self, y: int) -> Strip:
        segments: list[Segment] = []
        for name, pieces in self._parts():
            here = name == self.here
            back = self.ground("here") if here else self.ground("bar")
            segments += [Segment(text, back + self.ink("here" if here else ink)) for text, ink in pieces]
            segments.append(Segment(" ", self.ground("bar")))
        return Strip(segments).adjust_cell_length(self.size.width, self.ground("bar"))

    def on_click(self, event: events.Click) -> None:
        left = 0
        for name, pieces in self._parts():
            left += sum(len(text) for text, _ in pieces) + 1
            if event.x < left:
                self.post_message(self.Picked(name))
                return
