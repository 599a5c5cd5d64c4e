"""A file of any size as a text (a `console.logs.text.Text`): opened at once, counted and searched as one looks at it.

The file is mapped, never read as a whole. What is kept of it is the number of lines in each block; one line is found by
looking through one block. Filter and search go through blocks of bytes (see `console.logs.filter`).
"""

from __future__ import annotations

import mmap
from array import array
from bisect import bisect_left
from typing import TYPE_CHECKING

from console.errors import NotFound, Unreadable
from console.logs.filter import LONGEST, matching_lines, passing_lines
from console.logs.text import WIDEST, SearchedText, TextRow

if TYPE_CHECKING:
    from pathlib import Path

BLOCK = 1 << 18
STEP = 1 << 25  # bytes that one step counts or searches


class FileText(SearchedText):
    """The lines of a file, which may grow; raises NotFound and Unreadable."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.file = file
        try:
            self._stream = file.open("rb")
        except FileNotFoundError as error:
            raise NotFound(f"There is no file {file}.") from error
        except OSError as error:
            raise Unreadable(f"{file} cannot be read: {error.strerror}.") from error
        self._data: mmap.mmap | bytes = b""
        self._size = 0
        self._before: array[int] = array("Q", [0])  # line ends before each block
        self._counted = 0
        self.grow()

    @property
    def size(self) -> int:
        return self._size

    def close(self) -> None:
        self._data = b""
        self._stream.close()

    def grow(self) -> None:
        """Take in what was added to the file since; one that was cut short begins anew."""
        size = self._stream.seek(0, 2)
        if size == self._size:
            return
        if size < self._size:
            self._before, self._counted = array("Q", [0]), 0
            self.again()
        self._size = size
        self._data = mmap.mmap(self._stream.fileno(), 0, access=mmap.ACCESS_READ) if size else b""
        self._counted = min(self._counted, size // BLOCK * BLOCK)
        del self._before[self._counted // BLOCK + 1 :]
        self._count(1 << 22)

    # lines

    def _count(self, most: int) -> None:
        stop = min(self._size, self._counted + most)
        while self._counted < stop:
            end = min(self._counted + BLOCK, self._size)
            self._before.append(self._before[-1] + self._data[self._counted : end].count(b"\n"))
            self._counted = end
        share = f"{100 * self._counted // max(1, self._size)} %"
        self.note = "" if self._counted == self._size else f"{share} of the file counted"

    def total(self) -> int:
        whole = self._counted == self._size
        unterminated = self._size > 0 and (not whole or self._data[self._size - 1 : self._size] != b"\n")
        return self._before[-1] + unterminated

    def _start(self, number: int) -> int:
        if number <= 0:
            return 0
        block = bisect_left(self._before, number) - 1
        at, left = block * BLOCK, number - self._before[block]
        piece = self._data[at : at + BLOCK]
        end = -1
        for _ in range(left):
            end = piece.find(b"\n", end + 1)
        return at + end + 1

    def _number(self, start: int) -> int:
        block = min(start // BLOCK, len(self._before) - 1)
        return self._before[block] + self._data[block * BLOCK : start].count(b"\n")

    def _line(self, start: int) -> tuple[bytes, int]:
        """The line that begins there, as far as it is looked at, and where the next one does."""
        end = self._data.find(b"\n", start)
        end = self._size if end < 0 else end
        return self._data[start : min(end, start + LONGEST)], end + 1

    def page(self, start: int, stop: int) -> list[TextRow]:
        start, stop = max(0, start), min(stop, len(self))
        rows = []
        at = 0 if self._keep is not None or start >= stop else self._start(start)
        for number in range(start, stop):
            raw, following = self._line(self._kept[number] if self._keep is not None else at)
            rows.append(TextRow(raw[:WIDEST].decode("utf-8", "replace")))
            at = following
        return rows

    # filter and search

    def advance(self) -> bool:
        """Count some more, and look through some more."""
        if self._counted < self._size:
            self._count(STEP * 4)
            return True
        if self._keep is None and self._pattern is None:
            return False
        start = self._seen
        stop = self._data.rfind(b"\n", start, min(self._size, start + STEP)) + 1
        if stop <= start:  # a line of many megabytes
            stop = self._line(start)[1]
        stop = min(self._size, stop) if self._size - start > STEP else self._size
        data, among = self._data[start:stop], None
        if self._keep is not None:
            begins = passing_lines(data, self._keep)
            self._kept.extend([start + begin for begin in begins] if start else begins)
            among = set(begins)
        if self._pattern is not None:
            found = matching_lines(data, self._pattern)
            self._matches.extend(start + begin for begin in found if among is None or begin in among)
        self._seen = stop
        return stop < self._size

    def place(self, match: int) -> int:
        start = self._matches[match]
        return bisect_left(self._kept, start) if self._keep is not None else self._number(start)

    def nearest(self, line: int) -> int:
        """The first match from that line on."""
        if line >= len(self):
            return self.found
        return bisect_left(self._matches, self._kept[line] if self._keep is not None else self._start(line))
