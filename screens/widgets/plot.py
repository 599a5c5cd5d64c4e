"""A canvas of terminal cells to plot on: lines of braille dots, marks, shading and text, each in an ink (pure)."""

from __future__ import annotations

from math import ceil, floor, log10

from screens.wording import Run

DOTS_WIDE = 2
DOTS_HIGH = 4
_BRAILLE = 0x2800
_BITS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
SHADE = "░"


class Canvas:
    """Cells of one plot; what is drawn later lies on top, and marks and text lie on dots, dots on shade."""

    def __init__(self, width: int, height: int) -> None:
        self.width = max(0, width)
        self.height = max(0, height)
        self._dots: dict[tuple[int, int], int] = {}
        self._dot_inks: dict[tuple[int, int], str] = {}
        self._shades: dict[tuple[int, int], Run] = {}
        self._marks: dict[tuple[int, int], Run] = {}

    def text(self, x: int, y: int, text: str, ink: str = "") -> None:
        """Writes from that cell on; what does not fit is cut."""
        for offset, letter in enumerate(text):
            self.mark(x + offset, y, letter, ink)

    def mark(self, x: int, y: int, letter: str, ink: str = "") -> None:
        """Puts one letter in that cell."""
        if 0 <= x < self.width and 0 <= y < self.height:
            self._marks[x, y] = Run(letter, ink)

    def letter(self, x: int, y: int) -> str:
        """The letter marked in that cell, or none."""
        return self._marks[x, y].text if (x, y) in self._marks else ""

    def shade(self, x: int, y: int, ink: str = "faint", letter: str = SHADE) -> None:
        """Puts a letter behind whatever is drawn in that cell."""
        if 0 <= x < self.width and 0 <= y < self.height:
            self._shades[x, y] = Run(letter, ink)

    def dot(self, x: int, y: int, ink: str = "") -> None:
        """Sets one braille dot; dots count from the top left, two to a cell across and four down."""
        cell = x // DOTS_WIDE, y // DOTS_HIGH
        if 0 <= cell[0] < self.width and 0 <= cell[1] < self.height:
            self._dots[cell] = self._dots.get(cell, 0) | _BITS[y % DOTS_HIGH][x % DOTS_WIDE]
            self._dot_inks[cell] = ink

    def line(self, start: tuple[int, int], end: tuple[int, int], ink: str = "", *, every: int = 1) -> None:
        """A straight line between two dots; with `every` above 1 only each so-many-th dot is set."""
        across, down = end[0] - start[0], end[1] - start[1]
        steps = max(abs(across), abs(down), 1)
        for step in range(0, steps + 1, every):
            self.dot(start[0] + round(across * step / steps), start[1] + round(down * step / steps), ink)

    def rows(self) -> list[list[Run]]:
        """The picture, line by line, neighbours of one ink joined."""
        return [self._row(y) for y in range(self.height)]

    def _row(self, y: int) -> list[Run]:
        runs: list[Run] = []
        for x in range(self.width):
            cell = self._cell(x, y)
            if runs and runs[-1].ink == cell.ink:
                runs[-1] = Run(runs[-1].text + cell.text, cell.ink)
            else:
                runs.append(cell)
        return runs

    def _cell(self, x: int, y: int) -> Run:
        if (x, y) in self._marks:
            return self._marks[x, y]
        if (x, y) in self._dots:
            return Run(chr(_BRAILLE + self._dots[x, y]), self._dot_inks[x, y])
        if (x, y) in self._shades:
            return self._shades[x, y]
        return Run(" ")


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
