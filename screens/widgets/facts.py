"""A widget for names and values in as many columns as fit; unknown values are left out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len
from textual.reactive import reactive
from textual.strip import Strip

from screens.widgets.line import Inked, fit_runs
from screens.widgets.table.row_painter import cell_width
from screens.wording import Cell, Span, runs_of

if TYPE_CHECKING:
    from textual.geometry import Size

Fact = tuple[str, Cell]
GAP = 3


def arrange(facts: tuple[Fact, ...], width: int) -> list[list[Fact]]:
    """The facts in lines, as many per line as fit."""
    width = max(1, width)
    known = [fact for fact in facts if cell_width(fact[1])]
    if not known:
        return []
    wide = [fact for fact in known if _width(fact) > width // 2 - GAP]
    narrow = [fact for fact in known if _width(fact) <= width // 2 - GAP]
    widest = max((_width(fact) for fact in narrow), default=width)
    columns = max(1, min(4, width // (widest + GAP)))
    lines = -(-len(narrow) // columns)
    grid = [narrow[index::lines] for index in range(lines)]
    return [*grid, *([fact] for fact in wide)]


def _width(fact: Fact) -> int:
    return NAME + cell_width(fact[1])


NAME = 14  # columns of a fact's name


class Facts(Inked):
    DEFAULT_CSS = "Facts { height: auto; padding: 0 0; }"
    facts: reactive[tuple[Fact, ...]] = reactive((), layout=True)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(arrange(self.facts, width - 4))

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        lines = arrange(self.facts, width - 4)
        back = self.rich_style.background_style
        if y >= len(lines):
            return Strip.blank(width, self.rich_style)
        count = max(map(len, lines))
        room = (width - 4) // count if len(lines[y]) > 1 else width - 4
        segments = fit_runs([Span("  ")], 2, self.over(back))
        for name, value in lines[y]:
            runs = [Span(name + " " * max(1, NAME - cell_len(name)), "head"), *runs_of(value, "text")]
            segments += fit_runs(runs, room, self.over(back))
        return Strip(segments).adjust_cell_length(width, back)
