"""Many logs as one text in the order of time, of which any page can be had without sorting all of it."""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from itertools import islice
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from console.spool.part import Part


class Timed(Protocol):
    """Lines of one origin, known by the times at which they were printed, which never go back."""

    @property
    def times(self) -> Sequence[float]:
        """Seconds since the epoch."""


class Picked:
    """Some of the lines of a part: those that a filter lets through."""

    def __init__(self, part: Part) -> None:
        from array import array

        self.part = part
        self.numbers: array[int] = array("Q")
        self.times: array[float] = array("d")
        self.seen = 0
        """Lines of the part that were looked at."""


def find(parts: Sequence[Timed], start: int) -> list[int]:
    """How many lines of each part come before line `start` of the merged text.

    Lines at the same moment come in the order of the parts. The moment is found by halving: some 50 times a bisection
    in each part, 2 ms for 128 of them.
    """
    low = [0] * len(parts)
    high = [len(part.times) for part in parts]
    if start <= 0:
        return low
    if start >= sum(high):
        return high
    least = min(part.times[0] for part in parts if len(part.times))
    most = max(part.times[-1] for part in parts if len(part.times))
    while True:
        middle = least + (most - least) / 2
        if not least < middle < most:
            break
        cut = [bisect_right(part.times, middle, a, b) for part, a, b in zip(parts, low, high, strict=True)]
        if sum(cut) > start:
            most, high = middle, cut
        else:
            least, low = middle, cut
        if sum(high) - sum(low) <= len(parts):
            break
    return _step(parts, low, start - sum(low))


def _step(parts: Sequence[Timed], at: list[int], lines: int) -> list[int]:
    """The same place so many lines further."""
    at = list(at)
    for part, number in islice(walk(parts, at), lines):
        at[part] = number + 1
    return at


def walk(parts: Sequence[Timed], at: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Lines from that place on, each as part and number."""
    heap = [(part.times[here], index, here) for index, (part, here) in enumerate(zip(parts, at, strict=True))
            if here < len(part.times)]  # fmt: skip
    heapq.heapify(heap)
    while heap:
        _, index, here = heap[0]
        yield index, here
        times = parts[index].times
        if here + 1 < len(times):
            heapq.heapreplace(heap, (times[here + 1], index, here + 1))
        else:
            heapq.heappop(heap)


def position(parts: Sequence[Timed], part: int, number: int, moment: float) -> int:
    """Where a line stands in the merged text: the line is `number` in `part` and was printed at `moment`."""
    return number + sum(
        (bisect_right if index < part else bisect_left)(other.times, moment)
        for index, other in enumerate(parts)
        if index != part
    )
