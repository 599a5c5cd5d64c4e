"""Bars for quota (used, borrowed, free), and the line of figures over a table."""

from __future__ import annotations

from textual.reactive import reactive
from textual.strip import Strip

from screens.widgets.line import Inked, fit_runs
from screens.wording import Run

OWN, BORROWED, FREE = "█", "▓", "░"


def quota_bar(used: int, nominal: int, borrowed: int, width: int) -> list[Run]:
    """A bar of that many columns over the larger of quota and use: own use full, borrowed shaded, free light."""
    whole = max(nominal, used)
    if whole <= 0 or width <= 0:
        return [Run(" " * max(0, width))]
    own = max(0, used - borrowed)
    ends = [_columns(own, whole, width), _columns(used, whole, width)]
    if own and not ends[0]:
        ends[0] = 1
    if borrowed and ends[1] <= ends[0]:
        ends = [min(ends[0], width - 1), min(ends[0], width - 1) + 1]
    ends[1] = max(ends)
    if used < whole:
        ends = [min(end, width - 1) for end in ends]
    runs = [
        Run(OWN * ends[0], "accent"),
        Run(BORROWED * (ends[1] - ends[0]), "waits"),
        Run(FREE * (width - ends[1]), "faint"),
    ]
    return [run for run in runs if run.text]


def _columns(part: int, whole: int, width: int) -> int:
    return round(width * part / whole)


def share_of(used: int, nominal: int) -> str:
    """Used and nominal, lined up over rows: "  8 / 32 "."""
    return f"{used:>4} / {nominal:<4}"


class SummaryLine(Inked):
    """The figures, in inks."""

    DEFAULT_CSS = """
    SummaryLine { height: 1; }
    """
    runs: reactive[tuple[Run, ...]] = reactive(())

    def render_line(self, y: int) -> Strip:
        back = self.rich_style.background_style
        return Strip(fit_runs([Run("  "), *self.runs], self.size.width, lambda ink: back + self.ink(ink)))
