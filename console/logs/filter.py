"""Finds the lines of a block of bytes that a filter or a search matches, without testing each line.

A filter that wants something (a pattern, errors, what NCCL says) asks only about lines in which letters stand that
every such line has; one that wants all but something takes every line but those. Lines are told by where they begin.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import TYPE_CHECKING

from console.logs.line import DEBUG_WORDS, ERROR_WORDS, NCCL_WORDS, WARN_WORDS, is_warning
from console.logs.word_search import WordSearch

if TYPE_CHECKING:
    from console.logs.text import LineFilter

MAX_REGEX_LINE = 1 << 20  # bytes of a line that are looked at
_AROUND = re.compile(rb"\(\?<?[!=]|\\[AZ]")  # looks at what is around a match, so that a block differs from a line
_NCCL = WordSearch(*NCCL_WORDS)
_ERRORS = WordSearch(*ERROR_WORDS, fold=True)  # one of these stands in every line that tells of an error
_WARNINGS = WordSearch(*WARN_WORDS, fold=True)
_DEBUG = WordSearch(*DEBUG_WORDS, fold=True)


def find_matching_lines(data: bytes, pattern: re.Pattern[bytes]) -> Iterator[int]:
    """Yield the offsets of the lines that match the pattern."""
    letters, fold = required_literal(pattern)
    lines: Iterable[int]
    if letters:
        lines = _iter_lines_with(data.lower() if fold else data, letters.lower() if fold else letters)
        if pattern.pattern == letters:
            yield from lines
            return
    elif _AROUND.search(pattern.pattern):
        lines = _line_offsets(data)
    else:
        lines = _iter_candidates(data, pattern)
    for begin in lines:
        if pattern.search(_line_at(data, begin)):
            yield begin


def find_passing_lines(data: bytes, keep: LineFilter) -> list[int]:
    """Offsets of the lines that pass the filter."""
    # Whether it asks one thing only, and one of which the search alone says all.
    sure = not keep.level and (keep.pattern is None or not keep.nccl)
    some = _possible_lines(data, keep)
    if some is not None:
        return some if sure else [begin for begin in some if keep(_line_at(data, begin))]
    out = {begin for begin in _iter_doubtful_lines(data, keep) if sure or not keep(_line_at(data, begin))}
    begins = _line_offsets(data)
    return [begin for begin in begins if begin not in out] if out else list(begins)


def _possible_lines(data: bytes, keep: LineFilter) -> list[int] | None:
    """Offsets of lines that may pass, where all others fail; None if the filter only excludes lines."""
    every: list[Iterable[int]] = []
    if keep.pattern is not None and not keep.without:
        every.append(find_matching_lines(data, keep.pattern))
    if keep.level in {"error", "warn"}:
        lines = set(_ERRORS.find_lines(data))
        if keep.level == "warn":  # that a line warns is cheaper to see than that it tells of an error
            lines.update(at for at in _WARNINGS.find_lines(data) if at not in lines and is_warning(_line_at(data, at)))
        every.append(lines)
    if keep.nccl == "only":
        every.append(_NCCL.find_lines(data))
    return sorted(set(every[0]).intersection(*every[1:])) if every else None


def _iter_doubtful_lines(data: bytes, keep: LineFilter) -> Iterator[int]:
    """Yield the offsets of lines that may fail, where all others pass."""
    if keep.pattern is not None:
        yield from find_matching_lines(data, keep.pattern)
    if keep.nccl:
        yield from _NCCL.find_lines(data)
    if keep.level == "info":
        yield from _DEBUG.find_lines(data)


def _line_at(data: bytes, begin: int) -> bytes:
    end = data.find(b"\n", begin)
    return data[begin : min(len(data) if end < 0 else end, begin + MAX_REGEX_LINE)]


def _line_offsets(data: bytes) -> list[int]:
    """The offset of each line; none after the last line end."""
    lengths = [len(line) + 1 for line in data.split(b"\n")]
    begins = list(accumulate(lengths[:-1], initial=0))
    return begins if lengths[-1] > 1 else begins[:-1]


def _iter_lines_with(data: bytes, word: bytes) -> Iterator[int]:
    at = data.find(word)
    while at >= 0:
        yield data.rfind(b"\n", 0, at) + 1
        end = data.find(b"\n", at)
        if end < 0:
            return
        at = data.find(word, end)


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
