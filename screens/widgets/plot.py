"""A canvas of terminal cells to plot on: lines of braille dots, marks, shading and text, each in an ink (pure)."""

from __future__ import annotations

from math import ceil, floor, log10

from screens.wording import Run

DOTS_WIDE = 2
DOTS_HIGH = 4
_BRAILLE = 0x2800
_BITS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
SHADE = "░"
_LETTERS = tuple(chr(_BRAILLE + bits) for bits in range(256))


_COLUMN = tuple(sum(_BITS[y][x] for y in range(DOTS_HIGH)) for x in range(DOTS_WIDE))
"""All dots of one column of a cell."""


class Canvas:
    """Cells of one plot; what is drawn later lies on top, and marks and text lie on dots, dots on shade."""

    def __init__(self, width: int, height: int) -> None:
        self.width = max(0, width)
        self.height = max(0, height)
        cells = self.width * self.height
        self._dots = bytearray(cells)
        self._dot_inks = [""] * cells
        self._shades: dict[int, Run] = {}
        self._marks: dict[int, Run] = {}

    def text(self, x: int, y: int, text: str, ink: str = "") -> None:
        """Writes from that cell on; what does not fit is cut."""
        for offset, letter in enumerate(text):
            self.mark(x + offset, y, letter, ink)

    def mark(self, x: int, y: int, letter: str, ink: str = "") -> None:
        """Puts one letter in that cell."""
        if 0 <= x < self.width and 0 <= y < self.height:
            self._marks[y * self.width + x] = Run(letter, ink)

    def letter(self, x: int, y: int) -> str:
        """The letter marked in that cell, or none."""
        found = self._marks.get(y * self.width + x) if 0 <= x < self.width and 0 <= y < self.height else None
        return found.text if found else ""

    def shade(self, x: int, y: int, ink: str = "faint", letter: str = SHADE) -> None:
        """Puts a letter behind whatever is drawn in that cell."""
        if 0 <= x < self.width and 0 <= y < self.height:
            self._shades[y * self.width + x] = Run(letter, ink)

    def dot(self, x: int, y: int, ink: str = "") -> None:
        """Sets one braille dot; dots count from the top left, two to a cell across and four down."""
        column, row = x // DOTS_WIDE, y // DOTS_HIGH
        if 0 <= column < self.width and 0 <= row < self.height:
            cell = row * self.width + column
            self._dots[cell] |= _BITS[y % DOTS_HIGH][x % DOTS_WIDE]
            self._dot_inks[cell] = ink

    def upright(self, x: int, top: int, bottom: int, ink: str = "") -> None:
        """A line straight down from one dot to another, whole cells at a time."""
        column = x // DOTS_WIDE
        top, bottom = max(0, top), min(self.height * DOTS_HIGH - 1, bottom)
        if not 0 <= column < self.width or top > bottom:
            return
        first, last = -(-top // DOTS_HIGH), (bottom + 1) // DOTS_HIGH
        for y in (*range(top, min(first * DOTS_HIGH, bottom + 1)), *range(max(last * DOTS_HIGH, top), bottom + 1)):
            self.dot(x, y, ink)
        whole = _COLUMN[x % DOTS_WIDE]
        for cell in range(first * self.width + column, last * self.width + column, self.width):
            self._dots[cell] |= whole
            self._dot_inks[cell] = ink

    def line(self, start: tuple[int, int], end: tuple[int, int], ink: str = "", *, every: int = 1) -> None:
        """A straight line between two dots; with `every` above 1 only each so-many-th dot is set."""
        across, down = end[0] - start[0], end[1] - start[1]
        if not across and every == 1:
            self.upright(start[0], min(start[1], end[1]), max(start[1], end[1]), ink)
            return
        steps = max(abs(across), abs(down), 1)
        for step in range(0, steps + 1, every):
            self.dot(start[0] + round(across * step / steps), start[1] + round(down * step / steps), ink)

    def rows(self) -> list[list[Run]]:
        """The picture, line by line, neighbours of one ink joined."""
        return [self._row(y) for y in range(self.height)]

    def _row(self, y: int) -> list[Run]:
        runs: list[Run] = []
        letters: list[str] = []
        ink = ""
        dots, inks, shades, marks = self._dots, self._dot_inks, self._shades, self._marks
        for cell in range(y * self.width, (y + 1) * self.width):
            if cell in marks:
                letter, own = marks[cell]
            elif dots[cell]:
                letter, own = _LETTERS[dots[cell]], inks[cell]
            elif cell in shades:
                letter, own = shades[cell]
            else:
                letter, own = " ", ""
            if own != ink and letters:
                runs.append(Run("".join(letters), ink))
                letters = []
            ink = own
            letters.append(letter)
        if letters:
            runs.append(Run("".join(letters), ink))
        return runs


def round_step(span: float, parts: int) -> float:
    """The smallest of 1, 2, 2.5, 4, 5 times a power of ten that divides the span into at most so many parts."""
    if span <= 0 or parts <= 0:
        return 1.0
    raw = span / parts
    scale = 10.0 ** floor(log10(raw))
    return next((factor * scale for factor in (1, 2, 2.5, 4, 5) if factor * scale >= raw), 10 * scale)


def round_ticks(top: float, parts: int) -> list[float]:
    """Ticks from 0 to at least `top`, at round distances, at most `parts` steps (and one step at least)."""
    step = round_step(top, parts)
    return [step * index for index in range(max(1, ceil(top / step - 1e-9)) + 1)]
