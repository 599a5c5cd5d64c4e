"""Whole lines of text from bytes in any pieces, without what a terminal is told by the way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from console.parsers.blocks import Blocks
from console.parsers.nccl_line import ANSI

if TYPE_CHECKING:
    from collections.abc import Iterator

LONGEST = 1 << 14
"""Bytes of a line that are kept."""


class Lines:
    """Turns bytes into lines; what is left at the end counts as a line too."""

    def __init__(self, longest: int = LONGEST) -> None:
        """`longest`: bytes of a line that are kept."""
        self._longest = longest
        self._blocks = Blocks(longest, returns=True)

    def add(self, data: bytes) -> Iterator[str]:
        """The lines that are whole now."""
        for raw in self._blocks.add(data).split(b"\n")[:-1]:
            yield plain(raw[: self._longest])

    def end(self) -> Iterator[str]:
        """The last line, if it had no end."""
        rest = self._blocks.end()
        if rest:
            yield plain(rest)


def plain(raw: bytes) -> str:
    """The text of a line."""
    text = raw.decode("utf-8", "replace")
    return ANSI.sub("", text) if "\x1b" in text else text
