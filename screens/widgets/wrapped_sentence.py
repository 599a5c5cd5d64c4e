"""A sentence wrapped over as many lines as it needs, the figures above a table, and quota bars."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from textual.geometry import Size
from textual.reactive import reactive
from textual.strip import Strip

from screens.widgets.styled_text import (
    HELD,
    OPEN_WORD,
    SnapshotText,
    as_last_known,
    cut_sentence,
    join_numbers_and_units,
    line,
    merge_segments,
)
from screens.wording import Span


def fold_spans(spans: Sequence[Span], width: int) -> list[list[Span]]:
    """The spans by line of at most that many columns, broken at spaces only, never inside a figure."""
    lines: list[list[Span]] = [[]]
    used = 0
    for gap, word in _split_words(spans):
        length = sum(cell_len(run.text) for run in word)
        if used and used + gap + length > width:
            lines.append([])
            used = gap = 0
        lines[-1] += [Span(" " * gap), *word] if gap else word
        used += gap + length
    return lines


def cut_spans(spans: Sequence[Span], width: int, mark: str) -> list[Span]:
    """One line of spans cut at a word after which it may end, with an ellipsis at its end."""
    left = width - cell_len(mark)
    kept: list[Span] = []
    for run in spans:
        left -= cell_len(run.text)
        if left < 0:
            while kept and run.text.strip() and kept[-1].text.strip():
                kept.pop()  # the beginning of a word of several styles
            break
        kept.append(run)
    while kept and (not (word := kept[-1].text.strip()) or (OPEN_WORD.fullmatch(word) and kept[-2:-1] == [Span(" ")])):
        kept.pop()
    return [*kept, Span(mark, "dim")]


def _split_words(spans: Sequence[Span]) -> list[tuple[int, list[Span]]]:
    """(number of spaces before it, spans) of each word, as a word may have several styles."""
    words: list[tuple[int, list[Span]]] = []
    gap, fresh, at = 0, True, 0
    text = join_numbers_and_units("".join(run.text for run in spans))
    for run in spans:
        start, at = at, at + len(run.text)
        for number, part in enumerate(text[start:at].split(" ")):
            if number:
                gap, fresh = gap + 1, True
            if not part:
                continue
            if fresh:
                words.append((gap, []))
                gap, fresh = 0, False
            words[-1][1].append(Span(part.replace(HELD, " "), run.style))
    return words


class HeadingLine(SnapshotText):
    runs: reactive[tuple[Span, ...]] = reactive(())

    @property
    def spans(self) -> tuple[Span, ...]:
        return as_last_known(self.runs) if self.stale and self.runs else self.runs


class SentenceLine(HeadingLine):
    DEFAULT_CSS: ClassVar[str] = "SentenceLine { height: auto; max-height: 3; padding: 0 1; }"

    cut_mark = " …"  # stands at the end of what there is no room for
    _laid_out = 0, 0  # columns and lines; its own size is none while the tab that it is on is hidden

    def watch_runs(self, spans: tuple[Span, ...]) -> None:
        """Request a layout if the number of lines has changed."""
        width, high = self._laid_out
        if self.display and self.styles.is_auto_height and self.lines_at(width or self.size.width) != high:
            self.refresh(layout=True)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        self._laid_out = width, self.lines_at(width)
        return self._laid_out[1]

    def lines_at(self, width: int) -> int:
        return len(fold_spans(self.spans, width))

    @property
    def is_cut(self) -> bool:
        return self.display and self.lines_at(self.size.width) > self.size.height

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        lines = fold_spans(self.spans, width)
        if y >= len(lines):
            return Strip.blank(width, self.rich_style)
        ground = self.rich_style
        shown = lines[y]
        if y == self.size.height - 1 and len(lines) > self.size.height:
            shown = cut_spans(shown, width, self.cut_mark)
        segments = merge_segments(Segment(run.text, ground + self.style_of(run.style)) for run in shown)
        return Strip(segments).adjust_cell_length(width, ground)


class SummaryLine(HeadingLine):
    DEFAULT_CSS = "SummaryLine { height: 1; }"

    def render_line(self, y: int) -> Strip:
        runs = [Span("  "), *cut_sentence(self.spans, self.size.width - 2)]
        return line(runs, self.size.width, self.over(self.rich_style.background_style))
