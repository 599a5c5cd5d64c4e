"""Lines worth reading, found in large pieces of a log by a search for words.

Nearly all lines of a log say nothing to a parser, and a parser that looks at each of them is slow: looking costs 1 to
10 microseconds a line, searching a piece for words costs half a nanosecond a byte. So a parser names the words without
which a line cannot mean anything to it, and sees only lines that hold one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from console.parsers.words import Words


class Blocks:
    """Cuts bytes that come in any pieces into whole lines, and keeps the beginning of the last one."""

    def __init__(self, longest: int, *, returns: bool = False) -> None:
        self._longest = longest
        self._returns = returns
        self._rest = b""
        self.raw = b""
        """What `add` gave last, with the carriage returns that it had."""

    def add(self, data: bytes) -> bytes:
        """All lines that are whole now, with their line ends; `returns` makes a carriage return a line end."""
        cut = data.rfind(b"\n") + 1
        if self._returns:
            cut = max(cut, data.rfind(b"\r") + 1)
        if not cut:
            self._rest = (self._rest + data)[: self._longest]
            self.raw = b""
            return b""
        self.raw = self._rest + data[:cut]
        self._rest = data[cut : cut + self._longest]
        return self.raw.replace(b"\r", b"\n") if self._returns else self.raw

    def end(self) -> bytes:
        """What is left without a line end."""
        rest, self._rest = self._rest, b""
        return rest


def spans_with(words: Words, block: bytes, eager: Callable[[], bool]) -> Iterator[tuple[int, int]]:
    """Where lines begin and end that hold one of the words, in their order; all lines while `eager` says so."""
    found = words.lines(block)
    at, size = 0, len(block)
    for start in [*sorted(found), size]:
        while at < min(start, size) and eager():
            end = _end(block, at, size)
            yield at, end
            at = end + 1
        if at <= start < size:
            end = found[start]
            yield start, end
            at = end + 1


def line_end(block: bytes, at: int) -> int:
    """Where the line after the one there begins."""
    return block.find(b"\n", at) + 1 or len(block)


def _end(block: bytes, at: int, size: int) -> int:
    end = block.find(b"\n", at)
    return size if end < 0 else end
