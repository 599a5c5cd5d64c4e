"""A canvas of terminal cells for plots: braille lines, marks, shading, text and axes; bases of the panels."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from itertools import groupby, pairwise
from math import ceil, floor, log10
from typing import NamedTuple

from rich.segment import Segment
from textual.reactive import reactive
from textual.strip import Strip

from screens import wording
from screens.widgets.styled_text import AbstractWidgetMeta, NeverScrolled, Room, StyledWidget
from screens.wording import Span
from trainlog import UnparsedLines

DOTS_WIDE = 2
DOTS_HIGH = 4
_BRAILLE = 0x2800
_BRAILLE_BITS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
SHADE = "░"
_BRAILLE_LETTERS = (" ", *(chr(_BRAILLE + bits) for bits in range(1, 256)))


def _dot_steps(side: int, top_row: int, bottom: int, *, sparse: bool) -> int:
    rows = [row for row in range(top_row, bottom + 1) if not sparse or row in (top_row, bottom) or row % 2 == 0]
    return sum(_BRAILLE_BITS[row][side] for row in rows)


_BRAILLE_RANGES = tuple(
    tuple(
        tuple(
            tuple(_dot_steps(side, top, bottom, sparse=sparse) for bottom in range(DOTS_HIGH))
            for top in range(DOTS_HIGH)
        )
        for side in range(DOTS_WIDE)
    )
    for sparse in (False, True)
)
"""Runs of dots of one cell, indexed by sparse, side, top dot and bottom dot."""
_SPARSE_BITS = tuple(_BRAILLE_BITS[0][side] | _BRAILLE_BITS[2][side] for side in range(DOTS_WIDE))
"""The bits of every other dot, for the left and the right column of a cell."""


class Canvas:
    """The cells of one plot. Later drawing covers earlier drawing; marks and text cover dots, dots cover shading."""

    def __init__(self, width: int, height: int) -> None:
        self.width = max(0, width)
        self.height = max(0, height)
        cells = self.width * self.height
        self._dots = bytearray(cells)
        self._dot_styles = [""] * cells
        self._shades: list[dict[int, Span]] = [{} for _ in range(self.height)]
        self._marks: list[dict[int, Span]] = [{} for _ in range(self.height)]

    def text(self, x: int, y: int, text: str, style: str = "") -> None:
        for offset, letter in enumerate(text):
            self.mark(x + offset, y, letter, style)

    def mark(self, x: int, y: int, letter: str, style: str = "") -> None:
        if 0 <= x < self.width and 0 <= y < self.height:
            self._marks[y][x] = Span(letter, style)

    def letter(self, x: int, y: int) -> str:
        found = self._marks[y].get(x) if 0 <= y < self.height else None
        return found.text if found else ""

    def shade(self, x: int, y: int, style: str = "faint", letter: str = SHADE) -> None:
        """Put a character behind whatever is drawn in that cell."""
        if 0 <= x < self.width and 0 <= y < self.height:
            self._shades[y][x] = Span(letter, style)

    def dot(self, x: int, y: int, style: str = "") -> None:
        """Set one braille dot; dots count from the top left, two per cell across and four down."""
        column, row = x // DOTS_WIDE, y // DOTS_HIGH
        if 0 <= column < self.width and 0 <= row < self.height:
            cell = row * self.width + column
            self._dots[cell] |= _BRAILLE_BITS[y % DOTS_HIGH][x % DOTS_WIDE]
            self._dot_styles[cell] = style

    def vertical_line(self, x: int, top_row: int, bottom: int, style: str = "", *, sparse: bool = False) -> None:
        column, height = x // DOTS_WIDE, self.height * DOTS_HIGH
        top_row, bottom = max(0, top_row), min(height - 1, bottom)
        if not 0 <= column < self.width or top_row > bottom:
            return
        side = x % DOTS_WIDE
        ranges, dots, styles, width = _BRAILLE_RANGES[sparse][side], self._dots, self._dot_styles, self.width
        first, last = top_row // DOTS_HIGH * width + column, bottom // DOTS_HIGH * width + column
        styles[first] = styles[last] = style
        if first == last:
            dots[first] |= ranges[top_row % DOTS_HIGH][bottom % DOTS_HIGH]
            return
        dots[first] |= ranges[top_row % DOTS_HIGH][DOTS_HIGH - 1]
        dots[last] |= ranges[0][bottom % DOTS_HIGH]
        whole = _SPARSE_BITS[side] if sparse else ranges[0][DOTS_HIGH - 1]
        for cell in range(first + width, last, width):
            dots[cell] |= whole
            styles[cell] = style

    def line(self, point: tuple[int, int], end: tuple[int, int], style: str = "", *, dot_step: int = 1) -> None:
        across, down = end[0] - point[0], end[1] - point[1]
        if not across and dot_step == 1:
            self.vertical_line(point[0], min(point[1], end[1]), max(point[1], end[1]), style)
            return
        steps = max(abs(across), abs(down), 1)
        for step in range(0, steps + 1, dot_step):
            self.dot(point[0] + round(across * step / steps), point[1] + round(down * step / steps), style)

    def path(self, dots: Sequence[tuple[int, int]], style: str = "") -> None:
        """Draw a line through these dots, replacing what was drawn in its cells."""
        width, cells = self.width, set()
        for (_, y), (to_x, to_y) in pairwise(dots):
            low, high = y // DOTS_HIGH, to_y // DOTS_HIGH
            if low == high:
                cells.add(low * width + to_x // DOTS_WIDE)
            else:
                cells.update(row * width + to_x // DOTS_WIDE for row in range(min(low, high), max(low, high) + 1))
        for cell in cells:
            if 0 <= cell < len(self._dots):
                self._dots[cell] = 0
        for (x, y), (to_x, to_y) in pairwise(dots):
            if to_x - x == 1:
                top, bottom = (y + 1, to_y) if to_y > y else (to_y, y - 1) if to_y < y else (y, y)
                self.vertical_line(to_x, top, bottom, style)
            else:
                self.line((x, y), (to_x, to_y), style)

    def rows(self) -> list[list[Span]]:
        """The drawing as lines of spans; neighbours of one style are joined."""
        return [self._row_spans(y) for y in range(self.height)]

    def _row_spans(self, y: int) -> list[Span]:
        start, end = y * self.width, (y + 1) * self.width
        dots, styles = self._dots[start:end], self._dot_styles[start:end]
        letters = [_BRAILLE_LETTERS[bits] for bits in dots]
        for x, (letter, style) in self._shades[y].items():
            if not dots[x]:
                letters[x], styles[x] = letter, style
        for x, (letter, style) in self._marks[y].items():
            letters[x], styles[x] = letter, style
        runs, at = [], 0
        for style, same in groupby(styles):
            upto = at + len(list(same))
            runs.append(Span("".join(letters[at:upto]), style))
            at = upto
        return runs


def round_step(span: float, max_parts: int) -> float:
    """The smallest step of 1, 2, 2.5, 4 or 5 times a power of ten that divides the span into `max_parts` or fewer."""
    if span <= 0 or max_parts <= 0:
        return 1.0
    raw = span / max_parts
    scale = 10.0 ** floor(log10(raw))
    return next((factor * scale for factor in (1, 2, 2.5, 4, 5) if factor * scale >= raw), 10 * scale)


def round_ticks(upper_bound: float, max_parts: int) -> list[float]:
    step = round_step(upper_bound, max_parts)
    return [step * index for index in range(max(1, ceil(upper_bound / step - 1e-9)) + 1)]


def round_values(lowest: float, highest: float, max_parts: int) -> list[float]:
    """Round values between `lowest` and `highest`, at most `max_parts` + 1 steps."""
    step = round_step(highest - lowest, max_parts + 1)
    return [step * number for number in range(ceil(lowest / step - 1e-9), floor(highest / step + 1e-9) + 1)]


def tick_words(value: float) -> str:
    """An axis value in few characters: "2.5", "12,000", "3e-05"."""
    if value == 0:
        return "0"
    if abs(value) >= 100_000 or abs(value) < 0.001:
        return f"{value:.3g}".replace("e+0", "e").replace("e-0", "e-")
    return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"


class PlotBox(NamedTuple):
    x: int
    y: int
    width: int
    height: int


class PlotFrame:
    """A plot area with its axes; maps values to the y axis."""

    def __init__(
        self,
        box: PlotBox,
        lowest: float,
        highest: float,
        *,
        log: bool = False,
        ticks: Sequence[float] = (),
        lines_below: int = 2,
        gap: int = 0,
        margin: int = 0,
    ) -> None:
        """Prepare a plot area with axis `ticks` and `lines_below` it, a `gap` before and a `margin` after, in cells."""
        self.box, self.log = box, log and lowest > 0
        self.low, self.high = (log10(lowest), log10(highest)) if self.log else (lowest, highest)
        if self.high - self.low < 1e-12 * max(1.0, abs(self.high)):
            pad = abs(self.high) * 0.01 or 1.0
            self.low, self.high = self.low - pad, self.high + pad
        self.lines = max(1, box.height - 1 - lines_below)
        self._first, self._last = (box.y + 1) * DOTS_HIGH, self.lines * DOTS_HIGH - 1
        self._per_unit = self._last / (self.high - self.low)
        self.ticks = self._without_crowding(
            ticks or self._tick_values(max(1, self.lines // 4 if self.lines > 6 else 1))
        )
        self._tick_labels, self._gap = [tick_words(tick) for tick in self.ticks], gap
        self.left = box.x + max(map(len, self._tick_labels), default=0) + 1 + gap
        self.columns = max(1 + (not margin), box.x + box.width - self.left - margin)
        self.top = box.y + 1
        self.base = self.top + self.lines

    def _tick_values(self, max_parts: int) -> list[float]:
        if self.log:
            found = [
                factor * 10.0**power
                for power in range(floor(self.low), ceil(self.high) + 1)
                for factor in ((1, 2, 5) if self.high - self.low < 2.5 else (1,))
            ]
            inside = [each for each in found if self.low - 1e-9 <= log10(each) <= self.high + 1e-9]
            return inside if len(inside) > 1 else self._round_or_ends(10.0**self.low, 10.0**self.high, max_parts)
        return self._round_or_ends(self.low, self.high, max_parts)

    def _round_or_ends(self, lowest: float, highest: float, max_parts: int) -> list[float]:
        """Round values for the ticks of an axis, else the two ends of it."""
        found = round_values(lowest, highest, max_parts)
        return found if len(found) > 1 else [lowest, highest]

    def _without_crowding(self, ticks: Sequence[float]) -> list[float]:
        rows = {(self.row(tick) or 0) // DOTS_HIGH: tick for tick in reversed(ticks)}
        return list(reversed(rows.values()))

    def row(self, value: float) -> int | None:
        """The value's row in dots from the top of the canvas; None if it is outside the scale."""
        if self.log:
            if value <= 0:
                return None
            value = log10(value)
        at = round((self.high - value) * self._per_unit)
        return self._first + (0 if at < 0 else self._last if at > self._last else at)

    def dots(self) -> int:
        return self.columns * DOTS_WIDE

    def draw_vertical(self, canvas: Canvas, x: int, style: str, letter: str) -> None:
        for y in range(self.top, self.base):
            canvas.shade(x, y, style, letter)

    def draw(self, canvas: Canvas, x_labels: Iterable[tuple[int, str]] | None) -> None:
        for y in range(self.top, self.base):
            canvas.mark(self.left - 1, y, "│", "faint")
        for tick, words in zip(self.ticks, self._tick_labels, strict=True):
            dot = self.row(tick)
            if dot is not None:
                canvas.text(self.left - 1 - self._gap - len(words), dot // DOTS_HIGH, words, "dim")
                canvas.mark(self.left - 1, dot // DOTS_HIGH, "┤", "faint")
        if x_labels is None:
            return
        canvas.text(self.left - 1, self.base, "└" + "─" * self.columns, "faint")
        taken = -2
        for x, words in x_labels:
            start = max(self.box.x, min(x - len(words) // 2, self.box.x + self.box.width - len(words)))
            if start > taken + 1:
                canvas.mark(x, self.base, "┴", "faint")
                canvas.text(start, self.base + 1, words, "dim")
                taken = start + len(words)


class PlotWidget(StyledWidget, NeverScrolled, metaclass=AbstractWidgetMeta):
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
                Strip([Segment(run.text, ground + self.style_of(run.style)) for run in row], size[0]) for row in rows
            ]
            self._drawn_at = size
        return self._rows[y] if y < len(self._rows) else Strip.blank(size[0], ground)


READING_LOG = (Span("◐ ", "waits"), Span("Reading the log up to now …"))


class MeasuresPanel(Room, metaclass=AbstractWidgetMeta):
    """A panel with one of a job's measurements: the latest, unless another is chosen."""

    waiting_text: reactive[str] = reactive("")
    """The text shown before the first measurement."""
    reading: reactive[bool] = reactive(False)  # whether the log was not yet read up to now
    chosen: reactive[int | None] = reactive(None)  # which one is shown; None: the last
    unreadable: reactive[tuple[int, UnparsedLines] | None] = reactive(None)

    @property
    @abstractmethod
    def number(self) -> int:
        """The number of measurements."""

    @abstractmethod
    def draw(self) -> None: ...

    @property
    def shown_index(self) -> int:
        last = self.number - 1
        return last if self.chosen is None else min(self.chosen, last)

    def redraw(self) -> None:
        if self.is_mounted and self.children:  # none: the page is being closed, and its session with it
            self.draw()

    def on_mount(self) -> None:
        self.draw()

    watch_waiting_text = watch_reading = redraw
    watch_chosen = redraw
    watch_unreadable = redraw

    @property
    def waiting_spans(self) -> tuple[Span, ...]:
        """The line in place of the measurements while there are none: the log is being read, or `waiting_text`."""
        return READING_LOG if self.reading else (Span("○ ", "dim"), Span(self.waiting_text, "dim"))

    def ordinal(self, label: str, subject: str = "") -> list[Span]:
        return [Span(f"{label} {self.shown_index + 1} of {self.number}{subject}  ", "dim")] if self.number > 1 else []

    def unreadable_spans(self) -> list[Span]:
        if self.unreadable is None:
            return []
        rank, what = self.unreadable
        where = f" of pod {rank}" if rank else ""
        return [Span(f"⚠ {what.summary}{where}: “{wording.sentence(what.text)[:80]}”  ", "waits")]

    def action_turn(self, step: int) -> None:
        at = self.shown_index + step
        self.chosen = None if at >= self.number - 1 else max(0, at)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return self.number > 1 if action == "turn" else True
