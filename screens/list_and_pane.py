"""The base classes of pages with a list, and a side pane or a line for the selected row."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, Literal, get_args

from textual import events, getters
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.widget import Widget

from console.settings_file import PaneSize
from screens.live_screen import LiveScreen
from screens.widgets.side_pane import Lines, SidePane, side_by_side
from screens.widgets.styled_text import Room
from screens.widgets.table.table import ResourceTable
from screens.widgets.wrapped_sentence import SentenceLine
from screens.wording import Span

MIN_ROWS_ABOVE_PANE = 8  # lines that rows have to leave to a pane below them, for it to have these
MIN_PANE_LINES = 4  # lines of a pane below a longer list, which keeps the rows of a lower terminal that has none
OTHER_LINES = 4  # lines of a terminal that are none of a list: title, reason, keys
MIN_COLUMNS = 60  # columns that a pane has beside a list at least
PARTED = 150  # columns of a pane below a list from which on it has two parts
MAX_PANE_PERCENT = 42  # percent of the columns that a pane has beside a list at most
MAX_PANE_LINES = 12  # lines that a pane has below a longer list at most
LARGE_PANE_PERCENT = 62  # percent of the columns that a large pane has at least
PANE_SIZES = get_args(PaneSize)


def set_size(widget: Widget, dimension: Literal["width", "height"], cells: int | None) -> None:
    """Set a widget's width or height in cells, None for its stylesheet's; an unchanged size costs no layout."""
    inline = widget.styles.inline
    before = getattr(inline, dimension) if inline.has_rule(dimension) else None
    if cells != (before.value if before else None):
        setattr(widget.styles, dimension, cells)


class PanedScreen(LiveScreen):
    """A page with a list and a pane beside or below it, or hidden, by the size of the terminal."""

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
    shows_under = False  # whether what may stand under a list is shown
    _pane_placement = "", False  # where the pane is, and whether it is large
    BELOW: ClassVar[int] = 30  # lines of a terminal from which on the pane is below the list
    RIGHT: ClassVar[int] = 130  # columns of a terminal from which on a large one is right of it
    PANE_TAKES_LINES: ClassVar[bool] = True  # whether a pane below a long list takes lines of it
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("z", "pane", "Pane", id="pane.size", tooltip="The pane of the row under the cursor: usual, large, off")
    ]
    pane = getters.query_one("#pane", SidePane)
    under = getters.query_one("#under", SidePane)

    def beside_pane(self, *widgets: Widget) -> ComposeResult:
        for part in widgets:
            if isinstance(part, ResourceTable):
                part.on_cursor_moved = self._on_other_row  # at once, so that both are painted together
        with Room(id="split"):
            with Room(id="list"):
                yield from widgets
                yield SidePane(self.under_lines, id="under", classes="of-snapshot")
            yield SidePane(self._pane_or_rest_lines, id="pane", classes="of-snapshot")

    @abstractmethod
    def pane_lines(self, width: int, height: int, now: float) -> Lines:
        """The pane's text for the selected row, most important first."""

    @property
    def pane_shown(self) -> bool:
        return self.has_class("-right") or self.has_class("-below")

    def tick(self) -> None:
        super().tick()
        self.redraw_pane()

    def under_lines(self, width: int, height: int, now: float) -> Lines:
        """Lines for the room left below the list or beside the pane."""
        return []

    def _pane_or_rest_lines(self, width: int, height: int, now: float) -> Lines:
        left = width // 2
        other = self.under_lines(width - left - 3, height, now) if self.has_class("-below") and width >= PARTED else []
        self.shows_under = bool(other) or self.under.display
        return (
            side_by_side(self.pane_lines(left, height, now), other, left)
            if other
            else self.pane_lines(width, height, now)
        )

    def room_beside(self, width: int, height: int) -> int:
        """The columns free beside the list if none of its own columns is cut, on a terminal of that size."""
        return width - max(getattr(part, "columns_wanted", 0) for part in self.query_one("#list").children)

    def redraw_pane(self, size: Size | None = None) -> None:
        """Redraw the panes if the list's rows leave room for them; `size` is the terminal's, by default the current."""
        (width, height), chosen, panes = size or self.size, self.app.pane_size, self.app.loaded.config.panes
        split, under, large = self.query_one("#split"), self.under, chosen == "large"
        *_, last = parts = [part for part in self.query_one("#list").children if part.display and part is not under]
        others = (each for each in self.children if each.display and each is not split and each.id != "reason")
        room = height - sum(each.outer_size.height for each in others)
        rows = sum(part.styles.margin.height + getattr(part, "lines_wanted", 1) for part in parts)
        left = room - max(rows, MIN_ROWS_ABOVE_PANE)
        share = panes.right or MAX_PANE_PERCENT
        columns = width * (max(LARGE_PANE_PERCENT, share) if large else share) // 100
        own = large or panes.right  # what somebody has chosen may leave a list less
        columns = (columns if width >= self.RIGHT else 0) if own else min(columns, self.room_beside(width, height))
        spare = (panes.below or min(MAX_PANE_LINES, room - self.BELOW + OTHER_LINES)) if self.PANE_TAKES_LINES else 0
        below = left if left >= MIN_ROWS_ABOVE_PANE else spare if spare >= MIN_PANE_LINES else 0
        place = "-right" if columns >= MIN_COLUMNS else "-below" if large or (below and height >= self.BELOW) else ""
        place = "" if chosen == "off" else place
        for each in ("-right", "-below"):
            self.set_class(each == place, each)
        self.set_class(large, "-large")
        set_size(self.pane, "width", columns if place == "-right" else None)
        set_size(self.pane, "height", below if place == "-below" and not large else None)
        shown = place == "-right" and left > MIN_ROWS_ABOVE_PANE and under.has_lines(width - columns, left)
        if shown != under.display:
            under.display = shown
        set_size(last, "height", getattr(last, "lines_wanted", 1) if shown else None)
        self.pane.more_text = "…" if large else SidePane.more_text
        self.pane.renew()
        self.pane.set_class(not self.pane.lines, "-bare")
        if (place, large) != self._pane_placement:
            self._pane_placement = place, large
            self.refresh_bindings()  # the pane's key says what it does next

    def on_mount(self) -> None:
        self.redraw_pane()

    def on_screen_resume(self) -> None:
        self.redraw_pane()

    def on_resize(self, event: events.Resize) -> None:
        self.redraw_pane(event.size)

    def apply_config(self) -> None:
        super().apply_config()
        self.redraw_pane()

    def hides(self) -> dict[str, str]:
        verb = "Hide pane" if self.app.pane_size == "large" else "Larger pane"
        return {**super().hides(), **({"pane": verb} if self.pane_shown else {})}

    def action_pane(self) -> None:
        """Switch to the next pane size, for every page."""
        self.app.pane_size = PANE_SIZES[(PANE_SIZES.index(self.app.pane_size) + 1) % len(PANE_SIZES)]
        self.redraw_pane()
        self.call_after_refresh(self.redraw_pane)

    def _on_other_row(self) -> None:
        if self.is_mounted:
            self.pane.renew()
            self.under.renew()


class ReasonScreen(PanedScreen):
    """A page that shows the selected row's reason below the list when there is no pane."""

    DEFAULT_CSS = """
    ReasonScreen {
        #reason { border-top: solid $ink-faint; }
        &.-right #reason, &.-below #reason { display: none; }
        &.-low #reason { border-top: none; background: $panel; }
    }
    """
    reason = getters.query_one("#reason", SentenceLine)

    def with_reason(self, *widgets: Widget) -> ComposeResult:
        yield from self.beside_pane(*widgets)
        yield SentenceLine(id="reason", classes="of-snapshot")

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(event.size.height < 30, "-low")

    def show_reason(self, *span: Span) -> None:
        self.reason.runs = span
