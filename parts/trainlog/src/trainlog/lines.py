"""The lines of a log as text: cut from chunks, found by words, without terminal codes and labels, counted if unparsed.

A search for one word costs 0.6 ns a byte; a search for all words together 0.2 ns a byte for up to 64 words, which are
compared in parallel, and 1.4 ns for more. A parser takes 1 to 10 microseconds a line, so each parser declares the words
of which every line that it can parse has one, and is given only lines with such a word.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Protocol

from ahocorasick_rs import BytesAhoCorasick, Implementation, MatchKind
from msgspec import Struct
from msgspec.structs import replace

from trainlog.regex import lazy_pattern

_WINDOW_BYTES, _MAX_WINDOW_BYTES = 1 << 13, 1 << 16  # that are searched at once; every second may be a match
_BYTES_WORTH_DFA = 1 << 20  # a DFA takes up to 3 ms to build, and two thirds of the time to search
_MAX_FAST_WORDS, _FAST_WORD_BYTES = 64, 3  # words that are compared many at once, and bytes that each has to have
_BYTES_WORTH_STEMS = 1 << 7  # of a window, for each stem in it; where there are more, all words are searched at once
_FIRST_WORD_BYTES, _UNSEARCHED_BYTES = 1 << 8, 1 << 10  # searched for a first word, and skipped behind it


class LineFinder(Protocol):
    def find_lines(self, block: bytes) -> dict[int, int]:
        """Offset -> end of each line that may be relevant, unordered."""


class WordSearch:
    """Finds the lines that contain one of many words; no word contains a line end."""

    def __init__(self, *words: bytes, fold: bool = False) -> None:
        """`fold`: ignore case; all words are then given in lower case."""
        self.words = words
        self._fold = fold
        self._letters = [word for word in words if len(word) == 1]  # searched for apart, faster
        self._longer = [word for word in words if len(word) > 1]
        self._further = max(map(len, self._longer), default=1) - 1
        self._bytes = 0  # that were searched

    @cached_property
    def _full_search(self) -> BytesAhoCorasick | None:
        """The automaton for all words (None without any), built on first use; rebuilt as a faster one for long logs."""
        kind = Implementation.DFA if self._bytes > _BYTES_WORTH_DFA else Implementation.ContiguousNFA
        return BytesAhoCorasick(self._longer, MatchKind.LeftmostFirst, kind) if self._longer else None

    @cached_property
    def _stem_search(self) -> BytesAhoCorasick | None:
        """An automaton for the words without their last letters; None if it would not be faster."""
        beginnings = Counter(word[:-1] for word in self._longer)
        stems = {word[:-1] if beginnings[word[:-1]] > 1 else word: None for word in self._longer}
        worth = len(stems) <= _MAX_FAST_WORDS < len(self._longer) and min(map(len, stems)) >= _FAST_WORD_BYTES
        return BytesAhoCorasick([*stems], MatchKind.LeftmostFirst, Implementation.ContiguousNFA) if worth else None

    def occurs_in(self, block: bytes) -> bool:
        if self._letters and any(letter in block for letter in self._letters):
            return True
        if not self._full_search or len(block) <= _WINDOW_BYTES:
            text = block.lower() if self._fold else block
            return bool(self._full_search and self._full_search.find_matches_as_indexes(text))
        windows = range(0, len(block), _WINDOW_BYTES)
        return any(self._search_window({}, block, at, _WINDOW_BYTES) for at in windows)

    def find_lines(self, block: bytes) -> dict[int, int]:
        """Start -> end of the lines that contain one of the words, unordered."""
        found, size = dict[int, int](), len(block)
        before, self._bytes = self._bytes, self._bytes + size
        if before <= _BYTES_WORTH_DFA < self._bytes:
            vars(self).pop("_full_search", None)
        for letter in self._letters:
            at = block.find(letter)
            while at >= 0:
                end = _add_line(found, block, at, size)
                at = block.find(letter, end)
        at, window = 0 if self._full_search else size, _WINDOW_BYTES
        while at < size:
            known = self._search_window(found, block, at, window)
            at, window = max(known, at + window), _WINDOW_BYTES if known else min(2 * window, _MAX_WINDOW_BYTES)
        return found

    def find_word(self, text: bytes, number: int) -> int:
        """The offset of the n-th word of a text, from 0; the text's length if it has fewer."""
        assert self._full_search is not None
        found = (
            self._full_search.find_matches_as_indexes(text.lower() if self._fold else text)
            if len(text) > number
            else ()
        )
        return found[number][1] if len(found) > number else len(text)

    def find_spans(self, text: bytes, before: int, behind: int) -> list[tuple[int, int]]:
        """The parts of a text that together contain all words found, each with some text around."""
        assert self._full_search is not None
        spans: list[tuple[int, int]] = []
        at, text = 0, text.lower() if self._fold else text
        while at < len(text):
            piece = text[at : at + _FIRST_WORD_BYTES + self._further]
            if not (found := self._full_search.find_matches_as_indexes(piece)):
                at += _FIRST_WORD_BYTES
                continue
            begin = max(0, at + found[0][1] - before)
            at += found[0][1] + _UNSEARCHED_BYTES
            if spans and spans[-1][1] >= begin:
                begin = spans.pop()[0]
            spans.append((begin, at + behind))
        return spans

    def _search_window(self, line_offsets: dict[int, int], block: bytes, offset: int, window: int) -> int:
        """Search one window of a block; returns the offset up to which its lines are known, 0 if it has no word."""
        assert self._full_search is not None
        size, known = len(block), 0
        piece = block[offset : offset + window + self._further]
        piece = piece.lower() if self._fold else piece
        if self._stem_search is not None and not self._may_hold_word(self._stem_search, piece):
            return known
        for _, start, _ in self._full_search.find_matches_as_indexes(piece):
            if offset + start >= known:
                known = _add_line(line_offsets, block, offset + start, size)
        return known

    def _may_hold_word(self, stem_search: BytesAhoCorasick, lines: bytes) -> bool:
        """Whether these lines contain a word; also True if they have too many stems to check each."""
        assert self._full_search is not None
        stems = stem_search.find_matches_as_indexes(lines)
        if len(stems) * _BYTES_WORTH_STEMS > len(lines):
            return True
        ends = [lines[start : end + self._further] for _, start, end in stems]
        return bool(ends and self._full_search.find_matches_as_indexes(b"\n".join(ends)))


def _add_line(line_offsets: dict[int, int], block: bytes, offset: int, size: int) -> int:
    """Add the line around that offset to `line_offsets`; returns its end."""
    end = block.find(b"\n", offset)
    if end < 0:
        end = size
    line_offsets[block.rfind(b"\n", 0, offset) + 1] = end
    return end


ANSI_CODE = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])")  # colours and the like


class LineBlocks:
    """Joins chunks and cuts them into whole lines; keeps the beginning of the last line."""

    def __init__(self, max_length: int, *, returns: bool = False) -> None:
        self._max_length = max_length
        self._returns = returns
        self._rest = b""
        self.raw = b""  # what `feed` gave last, with the carriage returns that it had

    def feed(self, data: bytes) -> bytes:
        """The complete lines so far, with line ends, else empty; with `returns` a carriage return ends a line too."""
        cut = data.rfind(b"\n") + 1
        if self._returns:
            cut = max(cut, data.rfind(b"\r") + 1)
        if not cut:
            self._rest = (self._rest + data)[: self._max_length]
            self.raw = b""
            return b""
        self.raw = self._rest + data[:cut]
        self._rest = data[cut : cut + self._max_length]
        return self.raw.replace(b"\r", b"\n") if self._returns else self.raw

    def flush(self) -> bytes:
        rest, self._rest = self._rest, b""
        return rest


def iter_spans_with(line_finder: LineFinder, block: bytes, eager: Callable[[], bool]) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of the lines that contain one of the words, in order; of all lines while `eager()` is true."""
    return iter_spans(line_finder.find_lines(block), block, eager, 0, len(block))


def iter_spans(
    line_offsets: dict[int, int], block: bytes, eager: Callable[[], bool], offset: int, size: int
) -> Iterator[tuple[int, int]]:
    """Yield (offset, end) of the lines found from `offset` up to `size`."""
    for start in [*sorted(line_offsets), size]:
        while offset < min(start, size) and eager():
            end = block.find(b"\n", offset)
            end = size if end < 0 else end
            yield offset, end
            offset = end + 1
        if offset <= start < size:
            end = line_offsets[start]
            yield start, end
            offset = end + 1


MAX_LINE_BYTES = 1 << 14  # bytes of a line that are kept


class TextLineSplitter:
    """Splits bytes into text lines; an unterminated last line counts too."""

    def __init__(self, max_length: int = MAX_LINE_BYTES) -> None:
        self._max_length = max_length
        self._line_blocks = LineBlocks(max_length, returns=True)

    def feed(self, data: bytes) -> Iterator[str]:
        for raw in self._line_blocks.feed(data).split(b"\n")[:-1]:
            yield strip_terminal_codes(raw[: self._max_length])

    def flush(self) -> Iterator[str]:
        """Yield the last line if it has no line end."""
        rest = self._line_blocks.flush()
        if rest:
            yield strip_terminal_codes(rest)


def strip_terminal_codes(line: bytes) -> str:
    text = line.decode("utf-8", "replace")
    return ANSI_CODE.sub("", text) if "\x1b" in text else text


_LABEL_PATTERNS = (  # what launchers and log readers put in front of a line, and whether it tells processes apart
    (r"\s*\[(\d+,\d+)\]<std(?:out|err)>: ?", True),
    (r"\s*\[(pod/[^\]\s]+)\] ?", True),
    (r"()\s*\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)? ", False),
    (r"()\s*\[\+ *[\d.]+\] ", False),
    (r"()\s*> ?", False),
    (r"\s*(\d+): ", True),
    (r"([\w.-]{1,253}(?: \d+)?): (?=[#\s\d])", True),
)
_LABELS = tuple((lazy_pattern(pattern), tells) for pattern, tells in _LABEL_PATTERNS)
_ANY_LABEL = lazy_pattern("|".join(pattern for pattern, _ in _LABEL_PATTERNS))
_LABEL_CHARACTERS = ":[>\x1b"  # one of these stands in every label, and in no row


def split_label(line: str) -> tuple[str, str]:
    """The process label in front of a line, such as "[rank3]:", and the line without it."""
    if line[:1] == "#" and "\x1b" not in line:
        return "", line
    if not any(map(line.__contains__, _LABEL_CHARACTERS)):
        return "", line
    text, stream = ANSI_CODE.sub("", line) if "\x1b" in line else line, ""
    for _ in range(6 if _ANY_LABEL.match(text) else 0):
        for pattern, tells in _LABELS:
            found = pattern.match(text)
            if found:
                stream = f"{stream}{found.group(1)}|" if tells else stream
                text = text[found.end() :]
                break
        else:
            break
    return stream, text


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
        self.unparsed_lines: UnparsedLines | None = None  # None: all could be read
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
        old = self.unparsed_lines
        if old is None:
            self.unparsed_lines = UnparsedLines(number, number, 1, text.strip()[:MAX_EXAMPLE_CHARACTERS])
        else:
            self.unparsed_lines = replace(old, last=number, lines=old.lines + 1, goes_on=True)

    def add_parsed(self) -> None:
        if self.unparsed_lines is not None and self.unparsed_lines.goes_on:
            self.unparsed_lines = replace(self.unparsed_lines, goes_on=False)
