"""Results of nccl-tests: tests, and the rows of their tables.

Rows are stored packed: a million of them take ninety megabytes instead of five hundred. Consecutive rows are parsed
together, column by column without an object for each: a microsecond a row, twice as much with other lines between.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain, repeat
from math import isfinite
from typing import Any, TypeVar, overload

import msgspec
from msgspec import Struct

from trainlog.regex import lazy_pattern


class NcclHalf(msgspec.Struct, frozen=True):
    """One half (out-of-place or in-place) of a row."""

    time_us: float | None  # microseconds
    algbw: float | None  # GB/s
    busbw: float | None  # GB/s: algbw times the factor of the collective, comparable over rank counts
    wrong: int | None  # wrong elements; None where the test does not check


class NcclRow(msgspec.Struct, frozen=True):
    """One message size of a test; a msgspec Struct, since a log may hold a million of them."""

    size: int  # bytes
    count: int  # Elements
    type: str
    redop: str | None = None
    root: int | None = None
    out_of_place: NcclHalf | None = None
    in_place: NcclHalf | None = None

    @property
    def best_busbw(self) -> float | None:
        """Bus bandwidth of the better half, in GB/s; None if neither has one."""
        values = [half.busbw for half in (self.out_of_place, self.in_place) if half and half.busbw is not None]
        return max(values, default=None)


class NcclTest(Struct, frozen=True):
    """The results of one run of a test program, as far as it has printed them."""

    program: str | None = None
    version: str | None = None
    ranks: int | None = None
    rows: tuple[NcclRow, ...] = ()
    avg_busbw: float | None = None  # GB/s, the footer's mean over all rows and both halves; None until it is printed
    out_of_bounds: int | None = None  # failed checks summed over processes; None until the footer is printed
    ok: bool | None = None  # None: not checked, or rows were not read, so that nothing can be said of it
    finished: bool = False
    error: str | None = None

    @property
    def peak_busbw(self) -> float | None:
        """The best bus bandwidth of any row and half, in GB/s; None if no row has one."""
        return max((row.best_busbw for row in self.rows if row.best_busbw is not None), default=None)


_T = TypeVar("_T")
_BUSBW, _BUSBW_IN = 2, 5  # places of the bus bandwidths among the figures


class PackedRows:
    """Immutable table rows stored by column; each has both halves and all figures."""

    __slots__ = ("_counts", "_figures", "_size", "_word_columns")

    def __init__(self, size: int, counts: array[int], figures: array[float], words: Sequence[tuple[Any, ...]]) -> None:
        """Rows by column: `counts` bytes and elements, `figures` time, algbw and busbw of both halves.

        `words`: columns of type, operation, root, wrong elements of both halves, with one value if all are equal.
        """
        self._size, self._counts, self._figures, self._word_columns = size, counts, figures, words

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[NcclRow]:
        sizes, counts = self._counts[: self._size], self._counts[self._size :]
        time, alg, bus, time_in, alg_in, bus_in = (self._figure_column(at) for at in range(6))
        kinds, redops, roots, wrong, wrong_in = map(self._word_column, range(5))
        outside, inside = map(NcclHalf, time, alg, bus, wrong), map(NcclHalf, time_in, alg_in, bus_in, wrong_in)
        return map(NcclRow, sizes, counts, kinds, redops, roots, outside, inside)

    def iter_speeds(self, unchecked: _T) -> Iterator[tuple[int, float, float, int | _T]]:
        """Yield (bytes, busbw of both halves, wrong elements of both, or `unchecked`) per row."""
        outside, inside = self._word_columns[3:]
        if len(outside) == len(inside) == 1:
            wrong: Iterable[int | _T] = repeat(_add_wrong_counts(outside[0], inside[0], unchecked))
        else:
            wrong = map(_add_wrong_counts, self._word_column(3), self._word_column(4), repeat(unchecked))
        return zip(
            self._counts[: self._size], self._figure_column(_BUSBW), self._figure_column(_BUSBW_IN), wrong, strict=False
        )

    @property
    def wrong(self) -> bool:
        return any(self._word_columns[3]) or any(self._word_columns[4])

    def _figure_column(self, column: int) -> array[float]:
        return self._figures[column * self._size : (column + 1) * self._size]

    def _word_column(self, column: int) -> Iterable[Any]:
        values = self._word_columns[column]
        return repeat(values[0], self._size) if len(values) == 1 else values


def _add_wrong_counts(outside: int | None, inside: int | None, unchecked: _T) -> int | _T:
    checked = [each for each in (outside, inside) if each is not None]
    return sum(checked) if checked else unchecked


class Rows(Sequence[NcclRow]):
    __slots__ = ("_chunks", "_starts", "_tail")

    def __init__(self) -> None:
        self._chunks: list[PackedRows | list[NcclRow]] = []  # None of them changes
        self._starts: list[int] = [0]  # place of the first row of each chunk, and of the tail
        self._tail: list[NcclRow] = []

    def __len__(self) -> int:
        return self._starts[-1] + len(self._tail)

    def __iter__(self) -> Iterator[NcclRow]:
        return chain.from_iterable(self.chunks(0))

    @overload
    def __getitem__(self, index: int) -> NcclRow: ...
    @overload
    def __getitem__(self, index: slice) -> list[NcclRow]: ...
    def __getitem__(self, index: int | slice) -> NcclRow | list[NcclRow]:
        if isinstance(index, slice):
            return list(self)[index]
        index += len(self) if index < 0 else 0
        for piece in self.chunks(index) if index >= 0 else ():
            return next(iter(piece))
        raise IndexError(index)

    def chunks(self, first_row: int) -> Iterator[PackedRows | list[NcclRow]]:
        """Yield the rows from that index on in chunks, packed where they are stored packed."""
        for at in range(bisect_right(self._starts, first_row) - 1, len(self._starts)):
            piece = self._chunks[at] if at < len(self._chunks) else self._tail
            begin = self._starts[at]
            if begin < first_row:
                piece = list(piece)[first_row - begin :]
            if piece:
                yield piece

    def append(self, row: NcclRow) -> None:
        self._tail.append(row)

    def extend(self, added_rows: PackedRows) -> None:
        if self._tail:
            self._append_chunk(self._tail)
            self._tail = []
        self._append_chunk(added_rows)

    def _append_chunk(self, chunk: PackedRows | list[NcclRow]) -> None:
        self._chunks.append(chunk)
        self._starts.append(self._starts[-1] + len(chunk))


_BYTES_AT_ONCE = 1 << 14  # bytes that are tried at once
_DATA_TYPES = {
    word.encode(): word
    for word in (
        *("float", "half", "double", "bfloat16", "fp8_e4m3", "fp8_e5m2", "int8", "int32", "int64"),
        *("uint8", "uint32", "uint64"),
    )
}
_REDOPS = {word.encode(): word for word in ("sum", "prod", "max", "min", "avg", "none")}
_FIGURE_PATTERN = rb"[ \t]+(\d{1,20}(?:\.\d{0,20})?)"
_ROW_PATTERN = lazy_pattern(
    rb"[ \t]*(\d+)[ \t]+(\d+)[ \t]+(float|half|double|bfloat16|u?int(?:8|32|64)|fp8_e4m3|fp8_e5m2)[ \t]+"
    rb"(sum|prod|max|min|avg|none)"
    rb"[ \t]+(-?\d+)" + 2 * (3 * _FIGURE_PATTERN + rb"[ \t]+(\d+|N/A)") + rb"[ \t]*\r?\n"
)
_ROW_START = re.compile(rb"[ \t]*\d+[ \t]+\d+[ \t]+[a-z]")  # how each row begins
_BEFORE_OTHER_LINE = re.compile(rb"\n(?!" + _ROW_START.pattern + rb")")  # before a line that cannot be one
_ROW_END = b"|"  # what is put at the end of each row, to see that all have as many words
_COLUMNS_PER_ROW = 14
_COUNT_COLUMNS, _FIGURE_COLUMNS, _WRONG_COLUMNS = (0, 1), (5, 6, 7, 9, 10, 11), (8, 12)
_WORD_COLUMNS = (2, 3, 4, *_WRONG_COLUMNS)
_NUMBER_BYTES = b"0123456789. \t\n"  # what numbers and the blanks between them consist of


def parse_rows_at(block: bytes, offset: int) -> tuple[int, PackedRows | None]:
    """Parse consecutive plain rows at `offset`: (end, rows); None for the rows if there are none."""
    if _ROW_START.match(block, offset) is None:
        return offset, None
    found = _BEFORE_OTHER_LINE.search(block, offset, offset + _BYTES_AT_ONCE)
    end = found.end() if found else block.rfind(b"\n", offset, offset + _BYTES_AT_ONCE) + 1
    columns = _split_columns(block[offset:end])
    rows = _pack_rows(columns) if columns else None
    if rows is None:
        end, columns = _match_rows(block, offset)
        rows = _pack_rows(columns) if columns else None
    return (end, rows) if rows else (offset, None)


def _split_columns(lines: bytes) -> Sequence[Sequence[bytes]] | None:
    """The columns of a block that contains only rows; None if it contains anything else."""
    words = lines.replace(b"\n", b" |\n").split()
    size = len(words) // _COLUMNS_PER_ROW
    columns = [words[at::_COLUMNS_PER_ROW] for at in range(_COLUMNS_PER_ROW)]
    if len(words) != size * _COLUMNS_PER_ROW or columns[-1].count(_ROW_END) != size:
        return None
    letters = b"".join(chain.from_iterable(columns[at] for at in _WORD_COLUMNS)).translate(None, _NUMBER_BYTES)
    if len(lines.translate(None, _NUMBER_BYTES)) != len(letters) + lines.count(b"\r\n"):
        return None  # some stand in a number
    return columns


def _match_rows(block: bytes, offset: int) -> tuple[int, Sequence[Sequence[bytes]]]:
    """(end, columns) of consecutive rows at `offset`, matched one by one."""
    rows, end = [], offset
    while found := _ROW_PATTERN.match(block, end):
        rows.append(found.groups())
        end = found.end()
    return end, list(zip(*rows, strict=True))


def _pack_rows(columns: Sequence[Sequence[bytes]]) -> PackedRows | None:
    """Convert the columns to packed rows; None if a value has the wrong type."""
    worded = [columns[at] for at in _WORD_COLUMNS]
    try:
        counts = array("q", [*map(int, columns[0]), *map(int, columns[1])])
        figures = array("d", list(map(float, chain.from_iterable(map(columns.__getitem__, _FIGURE_COLUMNS)))))
        alike = {*zip(*worded, strict=True)}
        words = _convert_alike(*alike) if len(alike) == 1 else [*map(_convert_column, worded, _COLUMN_TYPES)]
    except (KeyError, ValueError, OverflowError):
        return None
    return PackedRows(len(worded[0]), counts, figures, words) if isfinite(sum(figures)) else None


def _parse_int(content: bytes) -> int:
    if not content.removeprefix(b"-").isdigit():
        raise ValueError(content)
    return int(content)


_COLUMN_TYPES: tuple[Callable[[bytes], object], ...] = (
    *(_DATA_TYPES.__getitem__, _REDOPS.__getitem__, _parse_int),
    *(len(_WRONG_COLUMNS) * (lambda word: None if word == b"N/A" else _parse_int(word),)),
)


@lru_cache(maxsize=256)  # few ways to run a test
def _convert_alike(row: tuple[bytes, ...]) -> tuple[tuple[object], ...]:
    return tuple((convert(word),) for convert, word in zip(_COLUMN_TYPES, row, strict=True))


def _convert_column(column: Sequence[bytes], convert: Callable[[bytes], object]) -> tuple[object, ...]:
    """The converted values of a column, each distinct text converted once; one value if all are equal."""
    known = {each: convert(each) for each in set(column)}
    return tuple(known.values() if len(known) == 1 else map(known.__getitem__, column))
