"""Base classes of the panels for NCCL tests and training runs."""

from __future__ import annotations

from abc import abstractmethod

from rich.segment import Segment
from textual.containers import Container
from textual.reactive import reactive
from textual.strip import Strip

from console.logs.line import UnparsedLines
from screens import wording
from screens.widgets.base import Abstract
from screens.widgets.charts.canvas import Canvas
from screens.widgets.line import Inked
from screens.wording import Span


class Plot(Inked, metaclass=Abstract):
    """A widget that draws a canvas of its own size, once per change."""

    _rows: list[Strip] | None = None
    _drawn_at: tuple[int, int] = (0, 0)

    @abstractmethod
    def plot(self, width: int, height: int) -> Canvas: ...

    def redraw(self) -> None:
        self._rows = None

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self.redraw()

    def render_line(self, y: int) -> Strip:
        size, ground = (self.size.width, self.size.height), self.rich_style
        if self._rows is None or self._drawn_at != size:
            rows = self.plot(*size).rows()
            self._rows = [
                Strip([Segment(run.text, ground + self.ink(run.ink)) for run in row], size[0]) for row in rows
            ]
            self._drawn_at = size
        return self._rows[y] if y < len(self._rows) else Strip.blank(size[0], ground)


class MeasuresPanel(Container, metaclass=Abstract):
    """Shows one of a job's measurements: the latest, unless another is chosen."""

    waiting: reactive[str] = reactive("")
    """What stands there before the first."""
    chosen: reactive[int | None] = reactive(None)  # which one is shown; None: the last
    unreadable: reactive[tuple[int, UnparsedLines] | None] = reactive(None)

    @property
    @abstractmethod
    def number(self) -> int:
        """Number of measurements."""

    @abstractmethod
    def draw(self) -> None: ...

    @property
    def place(self) -> int:
        last = self.number - 1
        return last if self.chosen is None else min(self.chosen, last)

    def redraw(self) -> None:
        if self.is_mounted and self.children:  # none: the page is being closed, and its session with it
            self.draw()

    def on_mount(self) -> None:
        self.draw()

    watch_waiting = redraw
    watch_chosen = redraw
    watch_unreadable = redraw

    def which(self, what: str, about: str = "") -> list[Span]:
        return [Span(f"{what} {self.place + 1} of {self.number}{about}  ", "dim")] if self.number > 1 else []

    def not_read(self) -> list[Span]:
        if self.unreadable is None:
            return []
        rank, what = self.unreadable
        where = f" of pod {rank}" if rank else ""
        return [Span(f"⚠ {what.summary}{where}: “{wording.sentence(what.text)[:80]}”  ", "waits")]

    def action_turn(self, step: int) -> None:
        at = self.place + step
        self.chosen = None if at >= self.number - 1 else max(0, at)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return self.number > 1 if action == "turn" else True
