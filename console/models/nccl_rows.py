"""The rows of a test, packed: a million of them take ninety megabytes, not five hundred."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any, TypeVar, overload

from console.models.nccl import Half, Row

if TYPE_CHECKING:
    from array import array
    from collections.abc import Iterable

_T = TypeVar("_T")
_BUSBW, _BUSBW_IN = 2, 5
"""Places of the bus bandwidths among the figures."""


class PackedRows:
    """Some rows as columns, which never change; each has both halves and all figures."""

    __slots__ = ("_counts", "_figures", "_size", "_words")

    def __init__(self, size: int, counts: array[int], figures: array[float], words: Sequence[tuple[Any, ...]]) -> None:
        """Column after column. `counts`: bytes, elements. `figures`: time, algbw and busbw of both halves.

        `words`: type, operation, root, wrong elements of both halves; of a column that is the same in all rows one.
        """
        self._size, self._counts, self._figures, self._words = size, counts, figures, words

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Row]:
        sizes, counts = self._counts[: self._size], self._counts[self._size :]
        time, alg, bus, time_in, alg_in, bus_in = (self._figure(at) for at in range(6))
        kinds, redops, roots, wrong, wrong_in = map(self._word, range(5))
        outside, inside = map(Half, time, alg, bus, wrong), map(Half, time_in, alg_in, bus_in, wrong_in)
        return map(Row, sizes, counts, kinds, redops, roots, outside, inside)

    def speeds(self, unchecked: _T) -> Iterator[tuple[int, float, float, int | _T]]:
        """Bytes, bus bandwidth of both halves and wrong elements of both, or what stands where neither was checked."""
        outside, inside = self._words[3:]
        if len(outside) == len(inside) == 1:
            wrong: Iterable[int | _T] = repeat(_sum(outside[0], inside[0], unchecked))
        else:
            wrong = map(_sum, self._word(3), self._word(4), repeat(unchecked))
        return zip(self._counts[: self._size], self._figure(_BUSBW), self._figure(_BUSBW_IN), wrong, strict=False)

    @property
    def wrong(self) -> bool:
        """Whether any has wrong elements."""
        return any(self._words[3]) or any(self._words[4])

    def _figure(self, at: int) -> array[float]:
        return self._figures[at * self._size : (at + 1) * self._size]

    def _word(self, at: int) -> Iterable[Any]:
        values = self._words[at]
        return repeat(values[0], self._size) if len(values) == 1 else values


def _sum(outside: int | None, inside: int | None, unchecked: _T) -> int | _T:
    checked = [each for each in (outside, inside) if each is not None]
    return sum(checked) if checked else unchecked


class Rows(Sequence[Row]):
    """Rows that grow."""

    __slots__ = ("_chunks", "_starts", "_tail")

    def __init__(self) -> None:
        self._chunks: list[PackedRows | list[Row]] = []
        """None of them changes."""
        self._starts: list[int] = [0]
        """Place of the first row of each chunk, and of the tail."""
        self._tail: list[Row] = []

    def __len__(self) -> int:
        return self._starts[-1] + len(self._tail)

    def __iter__(self) -> Iterator[Row]:
        return chain.from_iterable(self.pieces(0))

    @overload
    def __getitem__(self, at: int) -> Row: ...
    @overload
    def __getitem__(self, at: slice) -> list[Row]: ...
    def __getitem__(self, at: int | slice) -> Row | list[Row]:
        if isinstance(at, slice):
            return list(self)[at]
        at += len(self) if at < 0 else 0
        for piece in self.pieces(at) if at >= 0 else ():
            return next(iter(piece))
        raise IndexError(at)

    def pieces(self, start: int) -> Iterator[PackedRows | list[Row]]:
        """Those from that place on, packed as they are."""
        for at in range(bisect_right(self._starts, start) - 1, len(self._starts)):
            piece = self._chunks[at] if at < len(self._chunks) else self._tail
            begin = self._starts[at]
            if begin < start:
                piece = list(piece)[start - begin :]
            if piece:
                yield piece

    def append(self, row: Row) -> None:
        """One more."""
        self._tail.append(row)

    def extend(self, more: PackedRows) -> None:
        """Many more."""
        if self._tail:
            self._add(self._tail)
            self._tail = []
        self._add(more)

    def _add(self, chunk: PackedRows | list[Row]) -> None:
        self._chunks.append(chunk)
        self._starts.append(self._starts[-1] + len(chunk))
