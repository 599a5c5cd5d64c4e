"""One line of figures over a table."""

from __future__ import annotations

from textual.reactive import reactive
from textual.strip import Strip

from screens.widgets.ink import Inked
from screens.widgets.line import fit_runs
from screens.wording import Run


class SummaryLine(Inked):
    """The figures, in inks."""

    DEFAULT_CSS = """
    SummaryLine { height: 1; }
    """
    runs: reactive[tuple[Run, ...]] = reactive(())

    def render_line(self, y: int) -> Strip:
        """The line."""
        back = self.rich_style.background_style
        return Strip(fit_runs([Run("  "), *self.runs], self.size.width, lambda ink: back + self.ink(ink)))
