"""Many logs as one text: merged by time without sorting all of it, or with a line of many ranks shown once."""

from __future__ import annotations

import heapq
import re
from array import array
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from console.logs.job_log import Gap
from console.logs.log_line import PodLine
from console.logs.log_segment import LogSegment
from console.logs.log_text import (
    MAX_ROW_WIDTH,
    SLICE_LINES,
    LineFilter,
    ListText,
    LogText,
    TextRow,
    find_matching_lines,
    find_passing_lines,
)
from rankscope import format_pods
from trainlog import format_ranges


class FilteredLines:
    def __init__(self, segment: LogSegment) -> None:
        self.segment = segment
        self.numbers: array[int] = array("Q")
        self.times: array[float] = array("d")
        self.searched_lines = 0  # lines of the part that were looked at


TimedLines = LogSegment | FilteredLines  # lines of one source, whose `times` ascend


def offsets_of_line(logs: Sequence[TimedLines], first_line: int) -> list[int]:
    """For each log the number of its lines before line `first_line` of the merged text; a binary search by time."""
    low = [0] * len(logs)
    high = [len(part.times) for part in logs]
    if first_line <= 0:
        return low
    if first_line >= sum(high):
        return high
    least = min(part.times[0] for part in logs if len(part.times))
    most = max(part.times[-1] for part in logs if len(part.times))
    while True:
        middle = least + (most - least) / 2
        if not least < middle < most:
            break
        cut = [bisect_right(part.times, middle, a, b) for part, a, b in zip(logs, low, high, strict=True)]
        if sum(cut) > first_line:
            most, high = middle, cut
        else:
            least, low = middle, cut
        if sum(high) - sum(low) <= len(logs):
            at = list(low)
            for part, number in islice(iter_lines(logs, low), first_line - sum(low)):
                at[part] = number + 1
            return at
    return _skip_lines(logs, low, first_line - sum(low))


def _skip_lines(logs: Sequence[TimedLines], positions: list[int], lines: int) -> list[int]:
    """Advance the positions in the logs by `lines` in all; fast also if many lines have the same time."""
    while lines > 0:
        moment = min(part.times[here] for part, here in zip(logs, positions, strict=True) if here < len(part.times))
        for index, part in enumerate(logs):
            printed = min(bisect_right(part.times, moment, positions[index]) - positions[index], lines)
            positions[index] += printed
            lines -= printed
    return positions


def iter_lines(logs: Sequence[TimedLines], positions: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the lines from these positions on, each as (part index, line number)."""
    heap = [
        (part.times[here], index, here)
        for index, (part, here) in enumerate(zip(logs, positions, strict=True))
        if here < len(part.times)
    ]
    heapq.heapify(heap)
    while heap:
        _, index, here = heap[0]
        yield index, here
        times = logs[index].times
        if here + 1 < len(times):
            heapq.heapreplace(heap, (times[here + 1], index, here + 1))
        else:
            heapq.heappop(heap)


def position_in_merged(logs: Sequence[TimedLines], part: int, number: int, moment: float) -> int:
    """Line number in the merged text of line `number` of part `part`, which was printed at `moment`."""
    return number + sum(
        (bisect_right if index < part else bisect_left)(other.times, moment)
        for index, other in enumerate(logs)
        if index != part
    )


CUT_NOTE = b" (the line goes on)"


class MergedText(LogText):
    """Several logs as one text in order of time; `segments` returns the logs, `label` names one."""

    def __init__(self, segments: Callable[[], Sequence[LogSegment]], label: Callable[[LogSegment], str]) -> None:
        self._list_segments = segments
        self._label = label
        self._segments: list[LogSegment] = list(segments())
        super().__init__()

    def reset(self) -> None:
        self._filtered_by_segment: dict[int, FilteredLines] = {}
        self._matches_by_segment: dict[int, FilteredLines] = {}

    def set_segments(self) -> None:
        """Update the list of logs: add new ones and drop those that `segments` returns no more."""
        self._segments = list(self._list_segments())

    def _visible_parts(self) -> Sequence[TimedLines]:
        if self._filter is None:
            return self._segments
        return [self._filtered_part(self._filtered_by_segment, part) for part in self._segments]

    @staticmethod
    def _filtered_part(picks: dict[int, FilteredLines], segment: LogSegment) -> FilteredLines:
        return picks.get(id(segment)) or picks.setdefault(id(segment), FilteredLines(segment))

    def __len__(self) -> int:
        return sum(len(part.times) for part in self._visible_parts())

    def line_count(self) -> int:
        return sum(len(part.times) for part in self._segments)

    def read_rows(self, start: int, stop: int) -> list[TextRow]:
        """The rows from `start` up to `stop`, read with one access per part."""
        shown = self._visible_parts()
        places = list(islice(iter_lines(shown, offsets_of_line(shown, max(0, start))), max(0, stop - max(0, start))))
        numbers: dict[int, list[int]] = {}
        for index, number in places:
            picked = shown[index]
            numbers.setdefault(index, []).append(
                picked.numbers[number] if isinstance(picked, FilteredLines) else number
            )
        texts = {index: iter(self._segments[index].read_texts_at(each)) for index, each in numbers.items()}
        rows = []
        for index, number in places:
            text = next(texts[index])
            cut = text if len(text) <= MAX_ROW_WIDTH else text[:MAX_ROW_WIDTH] + CUT_NOTE
            moment, label = shown[index].times[number], self._label(self._segments[index])
            rows.append(TextRow(cut.decode("utf-8", "replace"), moment, label))
        return rows

    def start_search(self, pattern: re.Pattern[bytes] | None) -> None:
        self._pattern, self._matches_by_segment = pattern, {}

    def advance(self) -> bool:
        more = False
        each = max(500, SLICE_LINES // max(1, len(self._segments)))
        for part in self._segments:
            if self._filter is not None:
                kept = self._filtered_part(self._filtered_by_segment, part)
                more |= _search_block(part, kept, each, self._filter)
            if self._pattern is not None:
                more |= _search_block(
                    part, self._filtered_part(self._matches_by_segment, part), each, self._filter, self._pattern
                )
        return more

    def _matching_lines(self) -> list[FilteredLines]:
        return [self._filtered_part(self._matches_by_segment, part) for part in self._segments]

    @property
    def match_count(self) -> int:
        return sum(len(each.times) for each in self._matching_lines())

    def match_position(self, match_number: int) -> int:
        found, shown = self._matching_lines(), self._visible_parts()
        index, at = next(iter_lines(found, offsets_of_line(found, match_number)))
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
    segment: LogSegment,
    picked: FilteredLines,
    lines: int,
    line_filter: LineFilter | None,
    pattern: re.Pattern[bytes] | None = None,
) -> bool:
    """Search the next `lines` lines of a part by `pattern`, else by `line_filter`; returns whether lines remain."""
    start = picked.searched_lines
    stop = min(len(segment), start + lines)
    block = b"".join([text + b"\n" for text in segment.read_texts(start, stop)])
    number, last = start, 0
    for begin in _find_wanted_lines(block, line_filter, pattern):
        number += block.count(b"\n", last, begin)
        last = begin
        picked.numbers.append(number)
        picked.times.append(segment.times[number])
    picked.searched_lines = stop
    return stop < len(segment)


def _find_wanted_lines(block: bytes, keep: LineFilter | None, pattern: re.Pattern[bytes] | None) -> Iterable[int]:
    """Offsets of the lines that match the pattern, or without one of those that the filter keeps."""
    if pattern is None:
        return find_passing_lines(block, keep) if keep is not None else ()
    matches = find_matching_lines(block, pattern)
    if keep is None:
        return matches
    among = set(find_passing_lines(block, keep))
    return (begin for begin in matches if begin in among)


CONSENSUS_SECONDS = 300.0  # seconds between the first and the last rank that print the same line
MAX_MINORITY_RANKS = 4  # pods, or spans of them, that are named one by one
MAX_LINE_KEYS = 50_000  # different lines that are remembered; the one seen longest ago goes first
_RANK_SPECIFIC_PART = re.compile(  # what is a rank's own in a line that all of them print
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?"  # times of day
    r"|\b\d\d:\d\d:\d\d(?:[.,]\d+)?"
    r"|(?i:\b(?:(?:local|global|node|dp|tp|pp|cp|ep|data|tensor|pipeline)[_ -]?)?rank)[ _:=\[\]#]*\d+\]?"
    r"|(?i:\b(?:pid|tid|cuda|gpu|worker|process|device|proc|host)[ _:=-]*\d+)"
    r"|\S+:\d+:\d+ \[\d+\]"  # libnccl's host:pid:thread [device]
    r"|^\[\d+\]:?|\b0x[0-9a-fA-F]+\b"
    r"|\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b"
)


def normalize_line(text: str, pod: str = "") -> str:
    """The line with "#" for the parts that differ between ranks: number, pod, times, process ids, addresses."""
    if pod and pod in text:
        text = text.replace(pod, "<pod>")
    return _RANK_SPECIFIC_PART.sub("#", text)


@dataclass(slots=True)
class CommonLine:
    time: float  # when the first of them did
    text: str  # as the first of them printed it
    ranks: set[int] = field(default_factory=set)

    def ranks_text(self, rank_count: int, gaps: Iterable[Gap] = ()) -> str:
        """The ranks: "128/128", "127/128 (all but 41)", "7/7 (7 not read)", "pod 3"; empty if `rank_count` is 1."""
        number, unread = len(self.ranks), self.ranks_unread(gaps)
        known = rank_count - len(unread)
        if rank_count <= 1:
            return ""
        if number == 1 or number <= min(MAX_MINORITY_RANKS, known / 2):
            text, notes = format_pods(*self.ranks), list[str]()
        else:
            missing = [rank for rank in range(rank_count) if rank not in self.ranks and rank not in unread]
            text, notes = (
                f"{number}/{known}",
                [f"all but {_format_pod_ranges(missing)}"] if 0 < len(missing) < known / 2 else [],
            )
        notes += [f"{_format_pod_ranges(unread)} not read"] if unread else []
        return f"{text} ({'; '.join(notes)})" if notes else text

    def is_not_from_all(self, rank_count: int, gaps: Iterable[Gap] = ()) -> bool:
        """Whether fewer pods printed the line than were read: `rank_count`, less those with one of `gaps` then."""
        return rank_count > 1 and len(self.ranks) != rank_count - len(self.ranks_unread(gaps))

    def ranks_unread(self, gaps: Iterable[Gap]) -> set[int]:
        """The pods that may have printed the line, as their log has a gap there."""
        return {gap.rank for gap in gaps if gap.since < self.time < gap.until + CONSENSUS_SECONDS} - self.ranks


def _format_pod_ranges(pods: Collection[int]) -> str:
    """The pod numbers as ranges; just their count if there are too many ranges."""
    text = format_ranges(pods)
    return text if text.count(",") < MAX_MINORITY_RANKS else str(len(pods))


class CommonLineFinder:
    """Groups lines that several ranks print alike within seconds; the lines must come in order of time."""

    def __init__(self) -> None:
        self.lines: list[CommonLine] = []  # in the order in which they were first printed; their ranks grow
        self._recent_groups: OrderedDict[str, list[CommonLine]] = OrderedDict()

    def add(self, lines: Iterable[PodLine]) -> None:
        """Add new lines to the groups, in order of time; earlier groups may gain ranks."""
        for line in lines:
            key = normalize_line(line.text, line.pod)
            groups = self._recent_groups.get(key)
            if groups is None:
                groups = self._recent_groups[key] = []
                if len(self._recent_groups) > MAX_LINE_KEYS:
                    self._recent_groups.popitem(last=False)
            else:
                self._recent_groups.move_to_end(key)
                if groups and line.time - groups[0].time > CONSENSUS_SECONDS:
                    groups[:] = [each for each in groups if line.time - each.time <= CONSENSUS_SECONDS]
            group = next((each for each in groups if line.rank not in each.ranks), None)
            if group is not None:
                group.ranks.add(line.rank)
                continue
            fresh = CommonLine(line.time, line.text, {line.rank})
            groups.append(fresh)
            if len(groups) > 1000:  # a line that one rank repeats: who says it again joins the later ones
                del groups[0]
            self.lines.append(fresh)


class CommonLinesText(ListText):
    def __init__(self, finder: CommonLineFinder, rank_count: int, list_gaps: Callable[[], Sequence[Gap]]) -> None:
        """`list_gaps` returns the periods in which ranks lack lines, as of now."""
        super().__init__()
        self._finder = finder
        self._rank_count = rank_count
        self._list_gaps = list_gaps

    def line_count(self) -> int:
        return len(self._finder.lines)

    def make_row(self, number: int) -> TextRow:
        line, gaps, count = self._finder.lines[number], self._list_gaps(), self._rank_count
        return TextRow(line.text, line.time, line.ranks_text(count, gaps), line.is_not_from_all(count, gaps))

    def line_text(self, number: int) -> str:
        """The text of the line, without the ranks that printed it."""
        return self._finder.lines[number].text
