"""The base classes of pages with a list, and a side pane or a line for the selected row."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, get_args

from textual import events, getters, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.widget import Widget

from console.config import PaneSize
from screens.base import LiveScreen
from screens.widgets.pane import Lines, Pane
from screens.widgets.sentence_line import SentenceLine
from screens.widgets.table.table import ResourceTable
from screens.wording import Span

LEAST = 8  # lines that rows have to leave to a pane below them, for it to have these
LARGE = 62  # percent of the columns that a large pane has at least
SIZES = get_args(PaneSize)


def _set_height(widget: Widget, lines: int | None) -> None:
    """Lines of a widget, or None for those of its sheet; what is as before lays nothing out again."""
    inline = widget.styles.inline
    if lines != (inline.height.value if inline.has_rule("height") and inline.height else None):
        widget.styles.height = lines


class PanedScreen(LiveScreen):
    """The pane is right of the list on wide terminals, below on high ones, else hidden until requested."""

    DEFAULT_CSS = """
    PanedScreen {
        #split { height: 1fr; }
        #list { width: 1fr; height: 1fr; }
        #pane, #under { display: none; }
        #under { height: 1fr; border-top: solid $ink-faint; }
        &.-right #split { layout: horizontal; }
        &.-right #pane { display: block; border-left: solid $ink-faint; }
        &.-below #pane { display: block; border-top: solid $ink-faint; }
        &.-below.-large #pane { height: 60%; }
        & #pane.-bare { border: none; }
    }
    """
    BELOW: ClassVar[int] = 30  # lines of a terminal from which on the pane is below the list
    RIGHT: ClassVar[int] = 130  # columns of a terminal from which on it is right of it
    TAKES: ClassVar[bool] = True  # whether a pane below a long list takes lines of it
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("z", "pane", "Pane", id="pane.size", tooltip="The pane of the row under the cursor: usual, large, off"),
    ]
    pane = getters.query_one("#pane", Pane)
    under = getters.query_one("#under", Pane)

    def beside_pane(self, *parts: Widget) -> ComposeResult:
        for part in parts:
            if isinstance(part, ResourceTable):
                part.moved = self._other_row  # at once, so that both are painted together
        with Container(id="split"):
            with Container(id="list"):
                yield from parts
                yield Pane(self.under_lines, id="under", classes="of-snapshot")
            yield Pane(self.pane_lines, id="pane", classes="of-snapshot")

    @abstractmethod
    def pane_lines(self, width: int, height: int, now: float) -> Lines:
        """The pane's text for the selected row, most important first."""

    @property
    def pane_shown(self) -> bool:
        return self.has_class("-right") or self.has_class("-below")

    def tick(self) -> None:
        super().tick()
        self.renew_pane()

    def under_lines(self, width: int, height: int, now: float) -> Lines:
        """What stands below a list that leaves room beside its pane."""
        return []

    def renew_pane(self) -> None:
        """Draw the panes again; below a list they get the lines that the rows leave."""
        under = self.under
        *_, last = parts = [part for part in self.query_one("#list").children if part.display and part is not under]
        rows = sum(part.styles.margin.height + getattr(part, "lines_wanted", 1) for part in parts)
        left = self.query_one("#split").size.height - max(rows, LEAST)
        below = self.has_class("-below") and not self.has_class("-large")
        usual = self.app.loaded.config.panes.below if self.TAKES else 0
        _set_height(self.pane, (left if left >= LEAST else usual) if below else None)
        roomy = self.has_class("-right") and left > LEAST
        shown = roomy and under.has_lines(self.size.width, left)
        if shown != under.display:
            under.display = shown
        _set_height(last, getattr(last, "lines_wanted", 1) if shown else None)
        self.pane.renew()
        self.pane.set_class(not self.pane.lines, "-bare")

    def on_mount(self) -> None:
        self._place_pane(self.size.width, self.size.height)

    def on_screen_resume(self) -> None:
        self._place_pane(self.size.width, self.size.height)

    def on_resize(self, event: events.Resize) -> None:
        self._place_pane(event.size.width, event.size.height)

    def take_config(self) -> None:
        super().take_config()
        self._place_pane(self.size.width, self.size.height)

    def _place_pane(self, width: int, height: int) -> None:
        size = self.app.pane_size
        place = "-right" if width >= self.RIGHT else "-below" if height >= self.BELOW or size == "large" else ""
        for each in ("-right", "-below"):
            self.set_class(each == place and size != "off", each)
        self.set_class(size == "large", "-large")
        usual = self.app.loaded.config.panes.right
        columns = max(LARGE, usual) if size == "large" else usual
        self.pane.styles.width = f"{columns}%" if place == "-right" else None
        self.renew_pane()
        self.refresh_bindings()  # the pane's key says what it does next

    def hides(self) -> dict[str, str]:
        verb = "Hide pane" if self.app.pane_size == "large" else "Larger pane"
        return {**super().hides(), **({"pane": verb} if self.pane_shown else {})}

    def action_pane(self) -> None:
        """Switch to the next pane size, for every page."""
        self.app.pane_size = SIZES[(SIZES.index(self.app.pane_size) + 1) % len(SIZES)]
        self._place_pane(self.size.width, self.size.height)
        self.call_after_refresh(self.renew_pane)

    def _other_row(self) -> None:
        if self.is_mounted:
            self.pane.renew()
            self.under.renew()


class ReasonScreen(PanedScreen):
    """Where there is no pane, the selected row's reason is below the list; if it is cut, a key shows all of it."""

    DEFAULT_CSS = """
    ReasonScreen {
        #reason { border-top: solid $ink-faint; }
        &.-right #reason, &.-below #reason { display: none; }
        &.-low #reason { border-top: none; background: $panel; }
    }
    """
    SHOWS: ClassVar = {"why": ("-whole", "Hide reason")}
    reason = getters.query_one("#reason", SentenceLine)
    _why_offered = False

    def with_reason(self, *parts: Widget) -> ComposeResult:
        yield from self.beside_pane(*parts)
        yield SentenceLine(id="reason", classes="of-snapshot")

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(event.size.height < 30, "-low")

    def tick(self) -> None:
        super().tick()
        self._offer_why()

    def show_reason(self, *runs: Span) -> None:
        self.reason.runs = runs
        self.call_after_refresh(self._offer_why)  # whether it is cut is known once it is laid out

    @on(SentenceLine.Resized)
    def _offer_why(self) -> None:
        if self._why_offered != self._has_more:
            self.refresh_bindings()

    @property
    def _has_more(self) -> bool:
        """Whether the key that shows all of the reason, or less again, changes anything."""
        return self.reason.is_cut or (self.reason.display and self.has_class("-whole"))

    def offers(self) -> dict[str, object]:
        self._why_offered = self._has_more
        return super().offers() | {"why": self._why_offered or self.pane_shown}

    def action_why(self) -> None:
        """Show all of the reason: below the list, or in the pane, which is large for it."""
        if self.pane_shown:
            self.app.pane_size = "usual" if self.app.pane_size == "large" else "large"
            self._place_pane(self.size.width, self.size.height)
            self.call_after_refresh(self.renew_pane)
        else:
            self.toggle_class("-whole")
            self.refresh_bindings()
