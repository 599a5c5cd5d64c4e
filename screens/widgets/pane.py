"""The pane beside a list, with details of the row under the cursor; it never moves the list."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, ClassVar

from screens import wording
from screens.widgets.line import Inked, line
from screens.widgets.sentence_line import folded_runs
from screens.wording import Span, runs_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from textual.strip import Strip

    from console.kube.objects.event import Event
    from screens.widgets.facts import Fact

Lines = list[list[Span]]
LABELS = 13
"""Columns of the names of facts."""


def fact_lines(facts: Iterable[Fact], width: int) -> Lines:
    """One line per name and value, wrapped if long; empty values are left out."""
    found: Lines = []
    for name, cell in facts:
        if not any(run.text for run in runs_of(cell)):
            continue
        folded = folded_runs(runs_of(cell), max(8, width - LABELS))
        found += [[Span(f"{name if not at else '':<{LABELS}}", "dim"), *runs] for at, runs in enumerate(folded)]
    return found


def event_lines(events: Iterable[Event], now: float, room: int) -> Lines:
    """Events under a heading, newest first, as many as fit."""
    rows = [
        [
            Span(f"{wording.age(now - each.last):>6}  ", "dim"),
            Span(each.reason, "waits" if each.type == "Warning" else ""),
            Span(f"  {wording.sentence(each.message)}", "dim"),
        ]
        for each in list(events)[: max(0, room - 2)]
    ]
    return [[], [Span("events", "head")], *rows] if rows else []


class Pane(Inked):
    """Shows the lines that its function returns for (width, height, now); `renew` calls it again."""

    DEFAULT_CSS: ClassVar[str] = "Pane { padding: 0 1; }"

    def __init__(self, lines: Callable[[int, int, float], Lines], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._ask = lines
        self._lines: Lines = []

    def renew(self) -> None:
        """Get the lines again and repaint if they changed; a hidden pane does nothing."""
        width, height = self.content_size
        if self.display and width and height:
            before, lines = self._lines, self._ask(width, height, time.time())
            self._lines = lines if len(lines) <= height else [*lines[: height - 1], [Span("… z shows more", "faint")]]
            if self._lines != before:
                self.refresh()

    def on_resize(self) -> None:
        self.renew()

    def render_line(self, y: int) -> Strip:
        ground = self.rich_style
        runs = self._lines[y] if y < len(self._lines) else []
        return line(runs, self.content_size.width, lambda ink: ground + self.ink(ink))
