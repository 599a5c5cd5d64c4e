"""Lines that look like a known report but could not be parsed, counted."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace


class UnparsedLines(Struct, frozen=True):
    """Lines that look like a known report but could not be parsed; the first one is kept as an example."""

    first: int  # number of the first line, from 1
    last: int
    lines: int
    text: str  # the first line
    goes_on: bool = True  # whether no line of that kind could be read after it

    @property
    def summary(self) -> str:
        """The count in words: "unreadable since line 120 (3 lines)"."""
        number = f"{self.lines:,} line{'s' if self.lines > 1 else ''}"
        if self.goes_on:
            return f"unreadable since line {self.first:,} ({number})"
        where = f"line {self.first:,}" if self.first == self.last else f"lines {self.first:,} to {self.last:,}"
        return f"{number} unreadable ({where})"


MAX_EXAMPLE_CHARACTERS = 300  # letters of a line that are kept


class UnparsedCounter:
    def __init__(self) -> None:
        self.told: UnparsedLines | None = None  # None: all could be read
        self._before = 0  # lines before the present block
        self._block, self._start = b"", 0
        self._counted, self._lines = 0, 0  # up to where the lines of the block are counted, and how many those are

    def begin_block(self, block: bytes, line: int | None = None) -> None:
        """Start the next block; `line` is the number of its first line if lines were skipped."""
        self._block, self._counted, self._lines = block, 0, 0
        if line is not None:
            self._before = line - 1

    def set_offset(self, start_offset: int) -> None:
        self._start = start_offset

    def end_block(self) -> None:
        self._before += self._block.count(b"\n")
        self._block, self._start = b"", 0

    def add_unparsed(self, text: str) -> None:
        if self._start < self._counted:
            self._counted, self._lines = 0, 0
        self._lines += self._block.count(b"\n", self._counted, self._start)
        self._counted = self._start
        number = self._before + self._lines + 1
        old = self.told
        if old is None:
            self.told = UnparsedLines(number, number, 1, text.strip()[:MAX_EXAMPLE_CHARACTERS])
        else:
            self.told = replace(old, last=number, lines=old.lines + 1, goes_on=True)

    def add_parsed(self) -> None:
        if self.told is not None and self.told.goes_on:
            self.told = replace(self.told, goes_on=False)
