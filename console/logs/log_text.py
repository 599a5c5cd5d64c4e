"""Log texts on screen: pages of lines, a filter, and a search (see `LogText`), which tests whole blocks of lines.

An including filter (a pattern, errors, NCCL) tests only lines with a literal that every match contains; an excluding
filter tests every line. Lines of a block are identified by the byte offset of their beginning.
"""

from __future__ import annotations

import mmap
import re
from abc import ABC, abstractmethod
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from console.errors import NotFound, Unreadable
from trainlog import DEBUG_WORDS, ERROR_WORDS, NCCL_LINE, NCCL_WORDS, WARN_WORDS, WordSearch, has_severity, is_warning

if TYPE_CHECKING:
    from pathlib import Path

SLICE_LINES = 20_000  # lines that one step of a search looks at
MAX_ROW_WIDTH = 1 << 16  # characters of a line that are shown


class TextRow(NamedTuple):
    text: str
    time: float = 0.0
    label: str = ""  # whose line it is; empty where there is only one
    is_not_from_all: bool = False
    full_text: str = ""  # the line as it was printed, where `text` is a shorter form of it


@dataclass(frozen=True, slots=True)
class LineFilter:
    pattern: re.Pattern[bytes] | None = None
    without: bool = False  # those in which the pattern is not found
    level: str = ""  # that serious or more; empty: all
    nccl: str = ""  # "only" what libnccl says, or all "without" that; empty: both

    def __call__(self, text: bytes) -> bool:
        if self.pattern is not None and (self.pattern.search(text) is None) is not self.without:
            return False
        if self.nccl and (NCCL_LINE.search(text) is not None) is not (self.nccl == "only"):
            return False
        return not self.level or has_severity(text, self.level)

    @property
    def description(self) -> str:
        """The filter in words; empty if it lets everything through."""
        parts = [self.level if self.level in {"", "error"} else f"{self.level} or worse"]
        parts.append({"": "", "only": "NCCL only"}.get(self.nccl, "without NCCL"))
        if self.pattern is not None:
            parts.append(f"{'without' if self.without else 'with'} {self.pattern.pattern.decode('utf-8', 'replace')}")
        return ", ".join(filter(None, parts))


MAX_REGEX_LINE = 1 << 20  # bytes of a line that are looked at
_LOOKAROUND = re.compile(rb"\(\?<?[!=]|\\[AZ]")  # looks at what is around a match, so that a block differs from a line
_NCCL_SEARCH = WordSearch(*NCCL_WORDS)
_WARNING_SEARCH = WordSearch(*WARN_WORDS, fold=True)
_DEBUG_SEARCH = WordSearch(*DEBUG_WORDS, fold=True)


def find_matching_lines(data: bytes, pattern: re.Pattern[bytes]) -> Iterator[int]:
    letters, fold = required_literal(pattern)
    lines: Iterable[int]
    if letters:
        lines = _iter_lines_with(data.lower() if fold else data, letters.lower() if fold else letters)
        if pattern.pattern == letters:
            yield from lines
            return
    elif _LOOKAROUND.search(pattern.pattern):
        lines = _line_offsets(data)
    else:
        lines = _iter_candidates(data, pattern)
    for begin in lines:
        if pattern.search(_line_at(data, begin)):
            yield begin


def find_passing_lines(data: bytes, line_filter: LineFilter) -> list[int]:
    # Whether it asks one thing only, and one of which the search alone says all.
    sure = not line_filter.level and (line_filter.pattern is None or not line_filter.nccl)
    some = _possible_lines(data, line_filter)
    if some is not None:
        return some if sure else [begin for begin in some if line_filter(_line_at(data, begin))]
    out = {begin for begin in _iter_doubtful_lines(data, line_filter) if sure or not line_filter(_line_at(data, begin))}
    begins = _line_offsets(data)
    return [begin for begin in begins if begin not in out] if out else list(begins)


def _possible_lines(data: bytes, line_filter: LineFilter) -> list[int] | None:
    """Offsets of lines that may pass the filter, no other does; None if it only excludes lines."""
    every: list[Iterable[int]] = []
    if line_filter.pattern is not None and not line_filter.without:
        every.append(find_matching_lines(data, line_filter.pattern))
    if line_filter.level in {"error", "warn"}:
        lines = set(ERROR_WORDS.find_lines(data))
        if line_filter.level == "warn":  # that a line warns is cheaper to see than that it tells of an error
            lines.update(
                at for at in _WARNING_SEARCH.find_lines(data) if at not in lines and is_warning(_line_at(data, at))
            )
        every.append(lines)
    if line_filter.nccl == "only":
        every.append(_NCCL_SEARCH.find_lines(data))
    return sorted(set(every[0]).intersection(*every[1:])) if every else None


def _iter_doubtful_lines(data: bytes, line_filter: LineFilter) -> Iterator[int]:
    """Yield the offsets of lines that may fail the filter; all others pass."""
    if line_filter.pattern is not None:
        yield from find_matching_lines(data, line_filter.pattern)
    if line_filter.nccl:
        yield from _NCCL_SEARCH.find_lines(data)
    if line_filter.level == "info":
        yield from _DEBUG_SEARCH.find_lines(data)


def _line_at(data: bytes, begin: int) -> bytes:
    end = data.find(b"\n", begin)
    return data[begin : min(len(data) if end < 0 else end, begin + MAX_REGEX_LINE)]


def _line_offsets(data: bytes) -> list[int]:
    """The offset of each line's beginning in the text."""
    lengths = [len(line) + 1 for line in data.split(b"\n")]
    begins = list(accumulate(lengths[:-1], initial=0))
    return begins if lengths[-1] > 1 else begins[:-1]


def _iter_lines_with(data: bytes, content: bytes) -> Iterator[int]:
    at = data.find(content)
    while at >= 0:
        yield data.rfind(b"\n", 0, at) + 1
        end = data.find(b"\n", at)
        if end < 0:
            return
        at = data.find(content, end)


def _iter_candidates(data: bytes, pattern: re.Pattern[bytes]) -> Iterator[int]:
    """Yield the offsets of lines that may match, found by searching the whole block at once."""
    search = re.compile(pattern.pattern, pattern.flags | re.MULTILINE).search
    match = search(data)
    while match is not None and (match.start() < len(data) or data[-1:] not in {b"", b"\n"}):
        yield data.rfind(b"\n", 0, match.start()) + 1
        end = data.find(b"\n", match.start())
        if end < 0:
            return
        match = search(data, end + 1)


def required_literal(pattern: re.Pattern[bytes]) -> tuple[bytes, bool]:
    """The longest run of characters that every match contains, and whether case is ignored; b"" if there is none."""
    bare = re.sub(rb"\\(?:x..|\d+|.)|\[[^\]]*\]", b"\x00", pattern.pattern)
    groups = 1
    while groups:
        bare, groups = re.subn(rb"\([^()]*\)", b"\x00", bare)
    if b"|" in bare:
        return b"", False
    bare = re.sub(rb"(?s).(?:[*?]|\{[^}]*\})", b"\x00", bare)
    bare = re.sub(rb"[.^$+()\[\]{}]", b"\x00", bare)
    runs = [run for run in bare.split(b"\x00") if run.isascii()]
    letters = max(runs, key=len, default=b"")
    return letters, bool(letters and pattern.flags & re.IGNORECASE)


class LogText(ABC):
    """Numbered lines, maybe millions. After a new filter or search, `advance` is called (in any thread) until False."""

    def __init__(self) -> None:
        self.note = ""  # a remark on the text itself, such as how far it has been read; empty: nothing
        self._filter: LineFilter | None = None
        self._pattern: re.Pattern[bytes] | None = None
        self.reset()

    def reset(self) -> None:
        self._kept: array[int] = array("Q")
        self._matches: array[int] = array("Q")  # lines that pass the filter or match, by number or offset
        self._searched_lines = 0

    def __len__(self) -> int:
        """Number of lines that the filter has let through so far."""
        return self.line_count() if self._filter is None else len(self._kept)

    @abstractmethod
    def line_count(self) -> int:
        """Number of all lines, shown or not."""

    @abstractmethod
    def read_rows(self, start: int, stop: int) -> list[TextRow]: ...

    def row_at(self, time: float) -> int:
        """The number of the first line of that time or later."""
        return bisect_left(range(len(self)), time, key=lambda at: self.read_rows(at, at + 1)[0].time)

    def apply_filter(self, line_filter: LineFilter | None) -> None:
        self._filter = line_filter
        self.reset()

    def start_search(self, pattern: re.Pattern[bytes] | None) -> None:
        self._pattern = pattern
        self.reset()

    @abstractmethod
    def advance(self) -> bool:
        """Filter or search some more lines; returns whether any are left."""

    @property
    def match_count(self) -> int:
        return len(self._matches)

    @abstractmethod
    def match_position(self, match_number: int) -> int:
        """The number of the line that contains a match."""

    @abstractmethod
    def nearest_row(self, line: int) -> int:
        """The number of the first match at or after that line; the number of matches if there is none."""


class ListText(LogText):
    """A text whose lines are the entries of a growing list, each made by `make_row`."""

    @abstractmethod
    def make_row(self, number: int) -> TextRow: ...

    def line_text(self, number: int) -> str:
        return self.make_row(number).text

    def read_rows(self, start: int, stop: int) -> list[TextRow]:
        stop = min(stop, len(self))
        return [self.make_row(self._kept[at] if self._filter else at) for at in range(max(0, start), stop)]

    def advance(self) -> bool:
        if self._filter is None and self._pattern is None:
            return False
        stop = min(self.line_count(), self._searched_lines + SLICE_LINES)
        for number in range(self._searched_lines, stop):
            text = self.line_text(number).encode()
            if self._filter is not None:
                if not self._filter(text):
                    continue
                self._kept.append(number)
            if self._pattern is not None and self._pattern.search(text):
                self._matches.append(number)
        self._searched_lines = stop
        return stop < self.line_count()

    def match_position(self, match_number: int) -> int:
        number = self._matches[match_number]
        return bisect_left(self._kept, number) if self._filter else number

    def nearest_row(self, line: int) -> int:
        if self._filter:
            line = self._kept[line] if line < len(self._kept) else self.line_count()
        return bisect_left(self._matches, line)


READ_BLOCK_BYTES = 1 << 18
INDEX_STEP_BYTES = 1 << 25  # bytes that one step counts or searches


class FileText(LogText):
    """The text of a mapped file that may grow. Raises NotFound or Unreadable."""

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
        self.read_growth()

    def close(self) -> None:
        self._data = b""
        self._stream.close()

    def read_growth(self) -> None:
        """Read the text appended to the file since the last call; a truncated file is read from the start."""
        size = self._stream.seek(0, 2)
        if size == self.size:
            return
        if size < self.size:
            self._before, self._counted = array("Q", [0]), 0
            self.reset()
        self.size = size
        self._data = mmap.mmap(self._stream.fileno(), 0, access=mmap.ACCESS_READ) if size else b""
        self._counted = min(self._counted, size // READ_BLOCK_BYTES * READ_BLOCK_BYTES)
        del self._before[self._counted // READ_BLOCK_BYTES + 1 :]
        self._index_lines(1 << 22)

    def _index_lines(self, max_bytes: int) -> None:
        stop = min(self.size, self._counted + max_bytes)
        while self._counted < stop:
            end = min(self._counted + READ_BLOCK_BYTES, self.size)
            self._before.append(self._before[-1] + self._data[self._counted : end].count(b"\n"))
            self._counted = end
        share = f"{100 * self._counted // max(1, self.size)} %"
        self.note = "" if self._counted == self.size else f"{share} of the file counted"

    def line_count(self) -> int:
        whole = self._counted == self.size
        unterminated = self.size > 0 and (not whole or self._data[self.size - 1 : self.size] != b"\n")
        return self._before[-1] + unterminated

    def _offset_of_line(self, number: int) -> int:
        if number <= 0:
            return 0
        block = bisect_left(self._before, number) - 1
        at, left = block * READ_BLOCK_BYTES, number - self._before[block]
        piece = self._data[at : at + READ_BLOCK_BYTES]
        end = -1
        for _ in range(left):
            end = piece.find(b"\n", end + 1)
        return at + end + 1

    def _line_at_offset(self, first_line: int) -> int:
        block = min(first_line // READ_BLOCK_BYTES, len(self._before) - 1)
        return self._before[block] + self._data[block * READ_BLOCK_BYTES : first_line].count(b"\n")

    def _read_line(self, first_line: int) -> tuple[bytes, int]:
        """The text of the line at that offset, cut to a maximum length, and the next line's offset."""
        end = self._data.find(b"\n", first_line)
        end = self.size if end < 0 else end
        return self._data[first_line : min(end, first_line + MAX_REGEX_LINE)], end + 1

    def read_rows(self, start: int, stop: int) -> list[TextRow]:
        start, stop = max(0, start), min(stop, len(self))
        rows = []
        at = 0 if self._filter is not None or start >= stop else self._offset_of_line(start)
        for number in range(start, stop):
            raw, following = self._read_line(self._kept[number] if self._filter is not None else at)
            rows.append(TextRow(raw[:MAX_ROW_WIDTH].decode("utf-8", "replace")))
            at = following
        return rows

    def advance(self) -> bool:
        if self._counted < self.size:
            self._index_lines(INDEX_STEP_BYTES * 4)
            return True
        if self._filter is None and self._pattern is None:
            return False
        start = self._searched_lines
        stop = self._data.rfind(b"\n", start, min(self.size, start + INDEX_STEP_BYTES)) + 1
        if stop <= start:  # a line of many megabytes
            stop = self._read_line(start)[1]
        stop = min(self.size, stop) if self.size - start > INDEX_STEP_BYTES else self.size
        data, among = self._data[start:stop], None
        if self._filter is not None:
            begins = find_passing_lines(data, self._filter)
            self._kept.extend([start + begin for begin in begins] if start else begins)
            among = set(begins)
        if self._pattern is not None:
            found = find_matching_lines(data, self._pattern)
            self._matches.extend(start + begin for begin in found if among is None or begin in among)
        self._searched_lines = stop
        return stop < self.size

    def match_position(self, match_number: int) -> int:
        start = self._matches[match_number]
        return bisect_left(self._kept, start) if self._filter is not None else self._line_at_offset(start)

    def nearest_row(self, line: int) -> int:
        if line >= len(self):
            return self.match_count
        return bisect_left(self._matches, self._kept[line] if self._filter is not None else self._offset_of_line(line))


class MemoryText(ListText):
    """Lines that are appended one by one; only the newest are kept."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit
        self._rows: list[TextRow] = []

    def line_count(self) -> int:
        return len(self._rows)

    def make_row(self, number: int) -> TextRow:
        return self._rows[number]

    def append_lines(self, lines: Sequence[tuple[float, str]]) -> int:
        """Append lines (time, text); returns how many of the oldest were dropped."""
        self._rows += [TextRow(text, moment) for moment, text in lines]
        gone = len(self._rows) - self._limit
        if gone > 0:
            del self._rows[:gone]
            self.reset()
        return max(0, gone)
