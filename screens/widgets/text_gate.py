"""The last gate before the terminal: whatever a widget draws, no letter in it can be obeyed as a command."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import get_character_cell_size
from rich.segment import Segment
from textual.filter import LineFilter

if TYPE_CHECKING:
    from textual.color import Color


class TextGate(LineFilter):
    """Takes what is left of control characters out of every line, without changing its width.

    Widgets make them visible where they format a text (`wording.one_line`); this is for those that forgot.
    """

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The same segments, their texts clean."""
        if all(segment.text.isprintable() for segment in segments):
            return segments
        return [
            segment if segment.control or segment.text.isprintable() else Segment(_clean(segment.text), segment.style)
            for segment in segments
        ]


def _clean(text: str) -> str:
    return "".join(
        letter if letter.isprintable() or (letter.isspace() and letter >= "\xa0" and letter not in "\u2028\u2029")
        else "·" * get_character_cell_size(letter)
        for letter in text
    )  # fmt: skip
