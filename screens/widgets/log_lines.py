"""Lines of text: only the visible ones are drawn, so they may be many; followed, paused, folded, searched."""

from __future__ import annotations

from bisect import bisect_right
from datetime import datetime
from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip

from screens.widgets.ink import Inked
from screens.widgets.log_text import folded, line_ink, marked, pattern, printable

if TYPE_CHECKING:
    import re
    from collections.abc import Iterable

    from textual import events
    from textual.timer import Timer

    from screens.wording import Run

LIMIT = 50_000
"""Lines kept; the oldest go first."""
FLUSH = 1 / 30
"""Seconds between two drawings while lines stream in."""


class LogLines(ScrollView, Inked, can_focus=True):
    """The lines themselves."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "toggle_follow", "Pause/follow", id="log.follow", tooltip="Stop here, or follow again"),
        Binding("up,k", "move(-1)", "Up", show=False, id="log.up"),
        Binding("down,j", "move(1)", "Down", show=False, id="log.down"),
        Binding("pageup", "page(-1)", "Page up", show=False, id="log.page-up"),
        Binding("pagedown", "page(1)", "Page down", show=False, id="log.page-down"),
        Binding("home,g", "top", "First line", show=False, id="log.top"),
        Binding("end,G", "bottom", "Last line", show=False, id="log.bottom"),
        Binding("left", "shift(-16)", "Left", show=False, id="log.left"),
        Binding("right", "shift(16)", "Right", show=False, id="log.right"),
        Binding("W", "toggle_wrap", "Wrap", id="log.wrap", tooltip="Fold long lines"),
        Binding("T", "toggle_times", "Times", id="log.times", tooltip="Show when each line was printed"),
        Binding("n", "match(1)", "Next match", id="log.next"),
        Binding("N", "match(-1)", "Previous match", show=False, id="log.previous"),
    ]

    follow: reactive[bool] = reactive(True)
    wrap: reactive[bool] = reactive(False)
    times: reactive[bool] = reactive(False)
    wanted: reactive[str] = reactive("")
    """What is searched for."""
    shown: reactive[int] = reactive(0)
    """Lines held."""
    matches: reactive[tuple[int, ...]] = reactive(())
    """Lines in which the search text stands."""
    match: reactive[int] = reactive(-1)
    """Which of the matches was last gone to."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.texts: list[str] = []
        self._stamps: list[float] = []
        self._widest = 0
        self._ends: list[int] = []
        self._fresh: list[tuple[float, str]] = []
        self._jumping = False
        self._flush_due: Timer | None = None
        self._pattern: re.Pattern[str] | None = None

    # what comes in

    def append(self, lines: Iterable[tuple[float, str]]) -> None:
        """Adds lines (moment, text); they are drawn together a moment later."""
        self._fresh.extend(lines)
        if self._flush_due is None and self.is_attached:
            self._flush_due = self.set_timer(FLUSH, self.flush)

    def on_mount(self) -> None:
        """Lines that came before."""
        self.flush()

    def clear(self) -> None:
        """Forgets all lines; another log begins."""
        self.texts, self._stamps, self._ends, self._fresh = [], [], [], []
        self._widest, self.shown, self.matches, self.match, self.follow = 0, 0, (), -1, True
        self._measure()

    def flush(self) -> None:
        """Takes in what was appended, and goes to the end if following."""
        self._flush_due = None
        fresh, self._fresh = self._fresh[-LIMIT:], []
        if not fresh:
            return
        first = len(self.texts)
        for stamp, text in fresh:
            plain = printable(text)
            self.texts.append(plain)
            self._stamps.append(stamp)
            self._widest = max(self._widest, len(plain) if plain.isascii() else cell_len(plain))
        gone = len(self.texts) - LIMIT
        if gone > 0:
            self._drop(gone)
            first = 0
        self._grow(first)
        self.shown = len(self.texts)
        self._find(first)
        self._measure()

    def _drop(self, gone: int) -> None:
        lines = self._ends[gone - 1] if self.wrap and gone <= len(self._ends) else gone
        del self.texts[:gone], self._stamps[:gone]
        self._ends.clear()
        if not self.follow:
            self._jump(self.scroll_y - lines)

    def _grow(self, first: int) -> None:
        if not self.wrap:
            return
        width = self._room()
        if first == 0 or len(self._ends) < first:
            self._ends, first = [], 0
        end = self._ends[-1] if self._ends else 0
        for text in self.texts[first:]:
            end += len(folded(text, width))
            self._ends.append(end)

    def _measure(self) -> None:
        height = self._ends[-1] if self.wrap and self._ends else len(self.texts)
        width = self.size.width if self.wrap else self._widest + self._margin()
        self.virtual_size = Size(width, height)
        if self.follow:
            self._jump(self.max_scroll_y)
        self.refresh()

    def _margin(self) -> int:
        return 9 if self.times else 0

    def _room(self) -> int:
        return max(1, self.scrollable_content_region.width - self._margin())

    # what is drawn

    def render_line(self, y: int) -> Strip:
        """One visible line."""
        width = self.scrollable_content_region.width
        ground = self.rich_style
        row = y + round(self.scroll_y)
        index = bisect_right(self._ends, row) if self.wrap else row
        if index >= len(self.texts):
            return Strip.blank(width, ground)
        text, part = self.texts[index], 0
        if self.matches and self.match >= 0 and self.matches[self.match] == index:
            ground += self.ground("cursor")
        whole = text
        if self.wrap:
            part = row - (self._ends[index - 1] if index else 0)
            text = folded(text, self._room())[part]
        runs = self.paint(text, whole)
        segments = [Segment(run.text, ground + self.ink(run.ink)) for run in runs]
        left = 0 if self.wrap else round(self.scroll_x)
        body = Strip(segments).crop(left, left + width - self._margin())
        if self.times:
            stamp = f"{datetime.fromtimestamp(self._stamps[index]).astimezone():%H:%M:%S} " if not part else " " * 9
            body = Strip.join([Strip([Segment(stamp, ground + self.ink("dim"))]), body])
        return body.adjust_cell_length(width, ground)

    def paint(self, text: str, whole: str) -> list[Run]:
        """A piece of a line in its inks; the words of the whole line decide."""
        return marked(text, line_ink(whole), self._pattern)

    def on_resize(self, event: events.Resize) -> None:
        """Another width folds differently."""
        self._grow(0)
        self._measure()

    # following

    def _jump(self, row: float) -> None:
        """Scrolls without taking it for the person's wish."""
        self._jumping = True
        self.scroll_to(y=max(0, row), animate=False, immediate=True, force=True)
        self._jumping = False

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Whoever scrolls up wants to read; whoever comes back to the end wants to follow."""
        super().watch_scroll_y(old_value, new_value)
        if self._jumping:
            return
        if new_value < old_value and new_value < self.max_scroll_y:
            self.follow = False
        elif new_value > old_value and new_value >= self.max_scroll_y:
            self.follow = True

    def watch_follow(self, follow: bool) -> None:
        """Following means to be at the end."""
        if follow:
            self._jump(self.max_scroll_y)

    def action_toggle_follow(self) -> None:
        """Stops here, or goes to the end and stays there."""
        self.follow = not self.follow

    def action_move(self, lines: int) -> None:
        """Some lines up or down."""
        self.scroll_to(y=self.scroll_y + lines, animate=False, immediate=True, force=True)

    def action_page(self, pages: int) -> None:
        """A page up or down, with one line kept."""
        self.action_move(pages * max(1, self.scrollable_content_region.height - 1))

    def action_top(self) -> None:
        """The first line."""
        self.follow = False
        self.scroll_to(y=0, animate=False, immediate=True, force=True)

    def action_bottom(self) -> None:
        """The last line, and what comes."""
        self.follow = True

    def action_shift(self, columns: int) -> None:
        """Some columns left or right."""
        self.scroll_to(x=self.scroll_x + columns, animate=False, immediate=True, force=True)

    def action_toggle_wrap(self) -> None:
        """Folds long lines, or lets them run off to the right."""
        self.wrap = not self.wrap

    def action_toggle_times(self) -> None:
        """Shows or hides when each line was printed."""
        self.times = not self.times

    def _refold(self) -> None:
        first = self._first_line()
        self._ends = []
        self._grow(0)
        self._measure()
        if not self.follow:
            self._jump(self._top_of(first))

    def watch_wrap(self) -> None:
        """The lines are folded anew, and the first visible one stays first."""
        self._refold()

    watch_times = watch_wrap

    def _first_line(self) -> int:
        row = round(self.scroll_y)
        return bisect_right(self._ends, row) if self._ends else row

    def _top_of(self, index: int) -> int:
        if not (self.wrap and self._ends):
            return index
        return self._ends[index - 1] if 0 < index <= len(self._ends) else 0

    # searching

    def watch_wanted(self, wanted: str) -> None:
        """Another text to find: the nearest match from here on is shown."""
        self._pattern = pattern(wanted)
        self.matches, self.match = (), -1
        self._find(0)
        if self.matches:
            here = self._first_line()
            self._go(next((at for at, line in enumerate(self.matches) if line >= here), len(self.matches) - 1))
        self.refresh()

    def _find(self, first: int) -> None:
        if self._pattern is None:
            return
        search = self._pattern.search
        found = tuple(first + at for at, text in enumerate(self.texts[first:]) if search(text))
        self.matches = found if first == 0 else self.matches + found

    def action_match(self, step: int) -> None:
        """The next or previous match, round the end."""
        if self.matches:
            self._go((self.match + step) % len(self.matches))

    def _go(self, match: int) -> None:
        self.match = match
        self.follow = False
        middle = self.scrollable_content_region.height // 2
        self.scroll_to(y=max(0, self._top_of(self.matches[match]) - middle), animate=False, immediate=True, force=True)
        self.refresh()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """`n` belongs to the search only while something is searched."""
        return bool(self.wanted) if action == "match" else True
