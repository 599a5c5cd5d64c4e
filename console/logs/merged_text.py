"""Many logs merged by time into one text, of which any page can be read without sorting all of it."""

from __future__ import annotations

import heapq
import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Protocol

from console.logs.filter import find_matching_lines, find_passing_lines
from console.logs.segment import LogSegment
from console.logs.text import MAX_ROW_WIDTH, LineFilter, LogText, TextRow


class TimedLines(Protocol):
    """Lines of one source with their times, in ascending order."""

    @property
    def times(self) -> Sequence[float]:
        """The time of each line, in seconds since the epoch."""


class FilteredLines:
    def __init__(self, part: LogSegment) -> None:
        self.part = part
        self.numbers: array[int] = array("Q")
        self.times: array[float] = array("d")
        self.seen = 0  # lines of the part that were looked at


def offsets_of_line(parts: Sequence[TimedLines], start: int) -> list[int]:
    """How many lines of each part precede line `start` of the merged text, found by halving the time."""
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
            at = list(low)
            for part, number in islice(iter_lines(parts, low), start - sum(low)):
                at[part] = number + 1
            return at
    return _skip_lines(parts, low, start - sum(low))


def _skip_lines(parts: Sequence[TimedLines], at: list[int], lines: int) -> list[int]:
    """Advance the positions by so many lines, which is fast even if many lines have the same time."""
    while lines > 0:
        moment = min(part.times[here] for part, here in zip(parts, at, strict=True) if here < len(part.times))
        for index, part in enumerate(parts):
            printed = min(bisect_right(part.times, moment, at[index]) - at[index], lines)
            at[index] += printed
            lines -= printed
    return at


def iter_lines(parts: Sequence[TimedLines], at: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the lines from these positions on, each as (part index, line number)."""
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


def position_in_merged(parts: Sequence[TimedLines], part: int, number: int, moment: float) -> int:
    """Line number in the merged text of line `number` of part `part`, which was printed at `moment`."""
    return number + sum(
        (bisect_right if index < part else bisect_left)(other.times, moment)
        for index, other in enumerate(parts)
        if index != part
    )


SLICE_LINES = 20_000  # lines that one step looks at
BLOCK_LINES = b" (the line goes on)"


class MergedText(LogText):
    """Shows `parts`, a function that returns the current logs, as one text; `label` names the source of a part."""

    def __init__(self, parts: Callable[[], Sequence[LogSegment]], label: Callable[[LogSegment], str]) -> None:
        self._get = parts
        self._label = label
        self._parts: list[LogSegment] = list(parts())
        super().__init__()

    def reset(self) -> None:
        self._kept_of: dict[int, FilteredLines] = {}
        self._matches_of: dict[int, FilteredLines] = {}

    def set_segments(self) -> None:
        """Update the list of logs: add new ones and drop those that are no longer wanted."""
        self._parts = list(self._get())

    def _visible_parts(self) -> Sequence[TimedLines]:
        if self._keep is None:
            return self._parts
        return [self._filtered_part(self._kept_of, part) for part in self._parts]

    @staticmethod
    def _filtered_part(picks: dict[int, FilteredLines], part: LogSegment) -> FilteredLines:
        return picks.get(id(part)) or picks.setdefault(id(part), FilteredLines(part))

    def __len__(self) -> int:
        return sum(len(part.times) for part in self._visible_parts())

    def line_count(self) -> int:
        return sum(len(part.times) for part in self._parts)

    def read_rows(self, start: int, stop: int) -> list[TextRow]:
        """Lines start to stop of the merged text, read with one access per part."""
        shown = self._visible_parts()
        places = list(islice(iter_lines(shown, offsets_of_line(shown, max(0, start))), max(0, stop - max(0, start))))
        numbers: dict[int, list[int]] = {}
        for index, number in places:
            picked = shown[index]
            numbers.setdefault(index, []).append(
                picked.numbers[number] if isinstance(picked, FilteredLines) else number
            )
        texts = {index: iter(self._parts[index].read_texts_at(each)) for index, each in numbers.items()}
        return [self._make_row(index, shown[index].times[number], next(texts[index])) for index, number in places]

    def _make_row(self, index: int, moment: float, text: bytes) -> TextRow:
        shown = text if len(text) <= MAX_ROW_WIDTH else text[:MAX_ROW_WIDTH] + BLOCK_LINES
        return TextRow(shown.decode("utf-8", "replace"), moment, self._label(self._parts[index]))

    def start_search(self, pattern: re.Pattern[bytes] | None) -> None:
        self._pattern, self._matches_of = pattern, {}

    def advance(self) -> bool:
        more = False
        each = max(500, SLICE_LINES // max(1, len(self._parts)))
        for part in self._parts:
            if self._keep is not None:
                kept = self._filtered_part(self._kept_of, part)
                more |= _search_block(part, kept, each, self._keep)
            if self._pattern is not None:
                more |= _search_block(
                    part, self._filtered_part(self._matches_of, part), each, self._keep, self._pattern
                )
        return more

    def _matching_lines(self) -> list[FilteredLines]:
        return [self._filtered_part(self._matches_of, part) for part in self._parts]

    @property
    def match_count(self) -> int:
        return sum(len(each.times) for each in self._matching_lines())

    def match_position(self, match: int) -> int:
        found, shown = self._matching_lines(), self._visible_parts()
        index, at = next(iter_lines(found, offsets_of_line(found, match)))
        number, moment = found[index].numbers[at], found[index].times[at]
        picked = shown[index]
        if isinstance(picked, FilteredLines):
            number = bisect_left(picked.numbers, number)
        return position_in_merged(shown, index, number, moment)

    def nearest_row(self, line: int) -> int:
        """The number of the first match at or after that line's time."""
        shown = self._visible_parts()
        at = next(iter_lines(shown, offsets_of_line(shown, line)), None)
        if at is None:
            return self.match_count
        moment = shown[at[0]].times[at[1]]
        return sum(bisect_left(each.times, moment) for each in self._matching_lines())


def _search_block(
    part: LogSegment,
    picked: FilteredLines,
    lines: int,
    keep: LineFilter | None,
    pattern: re.Pattern[bytes] | None = None,
) -> bool:
    """Search the next `lines` lines of a part as one block; returns whether lines remain."""
    start = picked.seen
    stop = min(len(part), start + lines)
    block = b"".join([text + b"\n" for text in part.read_texts(start, stop)])
    number, last = start, 0
    for begin in _find_wanted_lines(block, keep, pattern):
        number += block.count(b"\n", last, begin)
        last = begin
        picked.numbers.append(number)
        picked.times.append(part.times[number])
    picked.seen = stop
    return stop < len(part)


def _find_wanted_lines(block: bytes, keep: LineFilter | None, pattern: re.Pattern[bytes] | None) -> Iterable[int]:
    """Offsets of the lines that match the pattern, or without one of those that the filter keeps."""
    if pattern is None:
        return find_passing_lines(block, keep) if keep is not None else ()
    matches = find_matching_lines(block, pattern)
    if keep is None:
        return matches
    among = set(find_passing_lines(block, keep))
    return (begin for begin in matches if begin in among)
