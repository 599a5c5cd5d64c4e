"""Base of all log texts on screen: pages of lines, a filter, and a search (see `Text`)."""

from __future__ import annotations

import mmap
from abc import ABC, abstractmethod
from array import array
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from console.errors import NotFound, Unreadable
from console.logs.filter import LONGEST, matching_lines, passing_lines
from console.logs.line import NCCL, Gap, has_severity

if TYPE_CHECKING:
    import re
    from pathlib import Path

    from console.logs.consensus import Consensus

SLICE = 20_000  # lines that one step of a search looks at
WIDEST = 1 << 16  # characters of a line that are shown


class TextRow(NamedTuple):
    text: str
    time: float = 0.0
    label: str = ""  # whose line it is; empty where there is only one
    dissent: bool = False
    whole: str = ""  # the line as it was printed, where `text` is a shorter form of it


@dataclass(frozen=True, slots=True)
class LineFilter:
    pattern: re.Pattern[bytes] | None = None
    without: bool = False  # those in which the pattern is not found
    level: str = ""  # that serious or more; empty: all
    nccl: str = ""  # "only" what libnccl says, or all "without" that; empty: both

    def __call__(self, text: bytes) -> bool:
        if self.pattern is not None and (self.pattern.search(text) is None) is not self.without:
            return False
        if self.nccl and (NCCL.search(text) is not None) is not (self.nccl == "only"):
            return False
        return not self.level or has_severity(text, self.level)

    @property
    def description(self) -> str:
        """The filter in words; empty if it lets everything through."""
        said = [self.level if self.level in {"", "error"} else f"{self.level} or worse"]
        said.append({"": "", "only": "NCCL only"}.get(self.nccl, "without NCCL"))
        if self.pattern is not None:
            said.append(f"{'without' if self.without else 'with'} {self.pattern.pattern.decode('utf-8', 'replace')}")
        return ", ".join(filter(None, said))


class Text(ABC):
    """Numbered lines, maybe millions; after a filter or search, call `advance` (in any thread) until it is False."""

    def __init__(self) -> None:
        self.note = ""  # what is to be said of the text itself, such as how far it has been read; empty: nothing
        self._keep: LineFilter | None = None
        self._pattern: re.Pattern[bytes] | None = None
        self.again()

    def again(self) -> None:
        self._kept: array[int] = array("Q")
        self._matches: array[int] = array("Q")  # lines that pass the filter or match, by number or offset
        self._seen = 0

    def __len__(self) -> int:
        """Number of lines that the filter has let through so far."""
        return self.total() if self._keep is None else len(self._kept)

    @abstractmethod
    def total(self) -> int:
        """Number of all lines, shown or not."""

    @abstractmethod
    def page(self, start: int, stop: int) -> list[TextRow]: ...

    def apply_filter(self, keep: LineFilter | None) -> None:
        self._keep = keep
        self.again()

    def seek(self, pattern: re.Pattern[bytes] | None) -> None:
        self._pattern = pattern
        self.again()

    @abstractmethod
    def advance(self) -> bool:
        """Filter or search some more lines; returns whether any are left."""

    @property
    def found(self) -> int:
        return len(self._matches)

    @abstractmethod
    def place(self, match: int) -> int:
        """The number of the line that a match is in."""

    @abstractmethod
    def nearest(self, line: int) -> int:
        """The number of the first match at or after that line; `found` if there is none."""


class ListText(Text):
    """A text over a list that grows at its end; `row` returns a line."""

    @abstractmethod
    def row(self, number: int) -> TextRow: ...

    def text_of(self, number: int) -> str:
        return self.row(number).text

    def page(self, start: int, stop: int) -> list[TextRow]:
        stop = min(stop, len(self))
        return [self.row(self._kept[at] if self._keep else at) for at in range(max(0, start), stop)]

    def advance(self) -> bool:
        if self._keep is None and self._pattern is None:
            return False
        stop = min(self.total(), self._seen + SLICE)
        for number in range(self._seen, stop):
            text = self.text_of(number).encode()
            if self._keep is not None:
                if not self._keep(text):
                    continue
                self._kept.append(number)
            if self._pattern is not None and self._pattern.search(text):
                self._matches.append(number)
        self._seen = stop
        return stop < self.total()

    def place(self, match: int) -> int:
        number = self._matches[match]
        return bisect_left(self._kept, number) if self._keep else number

    def nearest(self, line: int) -> int:
        if self._keep:
            line = self._kept[line] if line < len(self._kept) else self.total()
        return bisect_left(self._matches, line)


BLOCK = 1 << 18
STEP = 1 << 25  # bytes that one step counts or searches


class FileText(Text):
    """A mapped file that may grow; only the lines in each block are counted. NotFound, Unreadable."""

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
        self.size = 0
        self._before: array[int] = array("Q", [0])  # line ends before each block
        self._counted = 0
        self.grow()

    def close(self) -> None:
        self._data = b""
        self._stream.close()

    def grow(self) -> None:
        """Take in what was appended to the file; a truncated file is read from the start."""
        size = self._stream.seek(0, 2)
        if size == self.size:
            return
        if size < self.size:
            self._before, self._counted = array("Q", [0]), 0
            self.again()
        self.size = size
        self._data = mmap.mmap(self._stream.fileno(), 0, access=mmap.ACCESS_READ) if size else b""
        self._counted = min(self._counted, size // BLOCK * BLOCK)
        del self._before[self._counted // BLOCK + 1 :]
        self._count(1 << 22)

    def _count(self, most: int) -> None:
        stop = min(self.size, self._counted + most)
        while self._counted < stop:
            end = min(self._counted + BLOCK, self.size)
            self._before.append(self._before[-1] + self._data[self._counted : end].count(b"\n"))
            self._counted = end
        share = f"{100 * self._counted // max(1, self.size)} %"
        self.note = "" if self._counted == self.size else f"{share} of the file counted"

    def total(self) -> int:
        whole = self._counted == self.size
        unterminated = self.size > 0 and (not whole or self._data[self.size - 1 : self.size] != b"\n")
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
        """The text of the line at that offset, cut to a maximum length, and the next line's offset."""
        end = self._data.find(b"\n", start)
        end = self.size if end < 0 else end
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

    def advance(self) -> bool:
        if self._counted < self.size:
            self._count(STEP * 4)
            return True
        if self._keep is None and self._pattern is None:
            return False
        start = self._seen
        stop = self._data.rfind(b"\n", start, min(self.size, start + STEP)) + 1
        if stop <= start:  # a line of many megabytes
            stop = self._line(start)[1]
        stop = min(self.size, stop) if self.size - start > STEP else self.size
        data, among = self._data[start:stop], None
        if self._keep is not None:
            begins = passing_lines(data, self._keep)
            self._kept.extend([start + begin for begin in begins] if start else begins)
            among = set(begins)
        if self._pattern is not None:
            found = matching_lines(data, self._pattern)
            self._matches.extend(start + begin for begin in found if among is None or begin in among)
        self._seen = stop
        return stop < self.size

    def place(self, match: int) -> int:
        start = self._matches[match]
        return bisect_left(self._kept, start) if self._keep is not None else self._number(start)

    def nearest(self, line: int) -> int:
        if line >= len(self):
            return self.found
        return bisect_left(self._matches, self._kept[line] if self._keep is not None else self._start(line))


class MemoryText(ListText):
    """Lines that are appended one by one; only the newest are kept."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit
        self._rows: list[TextRow] = []

    def total(self) -> int:
        return len(self._rows)

    def row(self, number: int) -> TextRow:
        return self._rows[number]

    def append(self, lines: Sequence[tuple[float, str]]) -> int:
        """Append lines (time, text); returns how many of the oldest were dropped."""
        self._rows += [TextRow(text, moment) for moment, text in lines]
        gone = len(self._rows) - self._limit
        if gone > 0:
            del self._rows[:gone]
            self.again()
        return max(0, gone)

    def clear(self) -> None:
        self._rows = []
        self.again()


class AgreedText(ListText):
    def __init__(self, consensus: Consensus, ranks: int, gaps: Callable[[], Sequence[Gap]]) -> None:
        """`gaps`: whose lines of what time are not known at this moment."""
        super().__init__()
        self._consensus = consensus
        self._ranks = ranks
        self._gaps = gaps

    def total(self) -> int:
        return len(self._consensus.lines)

    def row(self, number: int) -> TextRow:
        line, gaps = self._consensus.lines[number], self._gaps()
        return TextRow(line.text, line.time, line.ranks_text(self._ranks, gaps), line.is_minority(self._ranks, gaps))

    def text_of(self, number: int) -> str:
        """The text of the line, without the ranks that printed it."""
        return self._consensus.lines[number].text
