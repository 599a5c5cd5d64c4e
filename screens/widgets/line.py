"""Lines: runs of text cut, padded and inked into one strip of a widget."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from rich.cells import cell_len, get_character_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from screens.wording import Cell, Run, one_line

InkOf = Callable[[str], Style]


def runs_of(cell: Cell, ink: str = "") -> list[Run]:
    """The cell as runs, those without an ink in the given one."""
    if isinstance(cell, str):
        return [Run(cell, ink)]
    if isinstance(cell, Run):
        return [cell if cell.ink else Run(cell.text, ink)]
    return [run if run.ink else Run(run.text, ink) for run in cell]


def fit(text: str, width: int) -> str:
    """The text in exactly that many columns; what does not fit ends in an ellipsis."""
    if text.isascii() and text.isprintable():
        length = len(text)
        if length <= width:
            return text + " " * (width - length)
        return text[: width - 1] + "…" if width > 0 else ""
    text = one_line(text)
    length = cell_len(text)
    if length <= width:
        return text + " " * (width - length)
    if width <= 0:
        return ""
    head = beginning(text, width - 1)
    return f"{head}…" + " " * (width - 1 - cell_len(head))


def beginning(text: str, width: int) -> str:
    """As much of a cleaned text as goes into that many columns."""
    if text.isascii():
        return text[: max(width, 0)]
    for at, letter in enumerate(text):
        width -= get_character_cell_size(letter)
        if width < 0:
            return text[:at]
    return text


def fit_runs(runs: Iterable[Run], width: int, ink_of: InkOf, *, right: bool = False, after: int = 0) -> list[Segment]:
    """Segments in exactly that many columns, and `after` blank ones behind them.

    Blanks join the text beside them: a change of colour costs more bytes than most words.
    """
    segments: list[Segment] = []
    left = width
    for text, ink in runs:
        if left <= 0:
            break
        clean = text if text.isascii() and text.isprintable() else one_line(text)
        length = len(clean) if clean.isascii() else cell_len(clean)
        if length > left:
            clean, length = fit(clean, left), left
        if clean:
            segments.append(Segment(clean, ink_of(ink)))
        left -= length
    if not segments:
        return [Segment(" " * (left + after), ink_of(""))] if left + after > 0 else []
    if right and left > 0:
        segments[0] = Segment(" " * left + segments[0].text, segments[0].style)
        left = 0
    if left + after > 0:
        segments[-1] = Segment(segments[-1].text + " " * (left + after), segments[-1].style)
    return segments


def keep_tail(runs: list[Run], width: int) -> list[Run]:
    """A single run too long for that many columns, cut at its front instead of its end."""
    if len(runs) != 1 or cell_len(runs[0].text) <= width or width < 2:
        return runs
    tail = beginning(one_line(runs[0].text)[::-1], width - 1)[::-1]
    return [Run(f"…{tail}", runs[0].ink)]


def joined(segments: Iterable[Segment]) -> list[Segment]:
    """The same line in fewer segments: neighbours of one style are one, and blanks belong to what they follow."""
    found: list[Segment] = []
    for segment in segments:
        if found and (segment.style == found[-1].style or (segment.text.isspace() and _alike(segment, found[-1]))):
            found[-1] = Segment(found[-1].text + segment.text, found[-1].style)
        else:
            found.append(segment)
    return found


def _alike(one: Segment, other: Segment) -> bool:
    """Whether blanks look the same in both styles."""
    return one.style is not None and other.style is not None and one.style.bgcolor == other.style.bgcolor


def changed_columns(old: Strip, new: Strip) -> tuple[int, int]:
    """First column that looks different and the one after the last; equal numbers if none does."""
    olds, news = list(old), list(new)
    left = right = 0
    while olds and news and olds[0] == news[0]:
        left += news.pop(0).cell_length
        olds.pop(0)
    while olds and news and olds[-1] == news[-1]:
        right += news.pop().cell_length
        olds.pop()
    if not olds and not news:
        return left, left
    return left, max(left, new.cell_length - right)


def line(runs: Iterable[Run], width: int, ink_of: InkOf) -> Strip:
    """One whole line of that width."""
    return Strip(fit_runs(runs, width, ink_of), width)


def wrap(text: str, width: int) -> list[str]:
    """The text in lines of at most that many columns, broken at spaces where there are any."""
    lines: list[str] = []
    rest = ""
    for word in one_line(text).split(" "):
        joined = f"{rest} {word}" if rest else word
        if cell_len(joined) <= width:
            rest = joined
            continue
        if rest:
            lines.append(rest)
        while cell_len(word) > width > 0:
            head = beginning(word, width)
            lines.append(head or "·")  # a letter that is wider than the line
            word = word[len(head) or 1 :]
        rest = word
    if rest or not lines:
        lines.append(rest)
    return lines
