"""A sentence in several inks, folded over as many lines as it needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from textual.reactive import reactive
from textual.strip import Strip

from screens.widgets.ink import Inked
from screens.wording import Run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.geometry import Size


def folded_runs(runs: Sequence[Run], width: int) -> list[list[Run]]:
    """The runs in lines of at most that many columns, broken at spaces."""
    lines: list[list[Run]] = [[]]
    used = 0
    for run in runs:
        for number, word in enumerate(run.text.split(" ")):
            gap = " " if number else ""
            length = cell_len(gap + word)
            if used + length > width and used and word:
                lines.append([])
                used, gap, length = 0, "", cell_len(word)
            lines[-1].append(Run(gap + word, run.ink))
            used += length
    return lines


class SentenceLine(Inked):
    """The sentence."""

    DEFAULT_CSS: ClassVar[str] = "SentenceLine { height: auto; max-height: 3; padding: 0 1; }"

    runs: reactive[tuple[Run, ...]] = reactive((), layout=True)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """As many lines as the sentence folds into."""
        return len(folded_runs(self.runs, width))

    def render_line(self, y: int) -> Strip:
        """One line of it."""
        width = self.size.width
        lines = folded_runs(self.runs, width)
        if y >= len(lines):
            return Strip.blank(width, self.rich_style)
        segments = [Segment(run.text, self.rich_style + self.ink(run.ink)) for run in lines[y]]
        return Strip(segments).adjust_cell_length(width, self.rich_style)
