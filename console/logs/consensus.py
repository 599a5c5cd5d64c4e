"""Merges the logs of many ranks: a line that all of them print is shown once, and who differs stands out."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from console.logs.line import Gap, RankLine
from console.scheduling.ranks import format_pods, format_ranges

WINDOW = 300.0  # seconds between the first and the last rank that print the same line
MAX_MINORITY_RANKS = 4  # pods, or spans of them, that are named one by one
MAX_LINE_KEYS = 50_000  # different lines that are remembered; the one seen longest ago goes first
_RANK_SPECIFIC = re.compile(  # what is a rank's own in a line that all of them print
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?"  # times of day
    r"|\b\d\d:\d\d:\d\d(?:[.,]\d+)?"
    r"|(?i:\b(?:(?:local|global|node|dp|tp|pp|cp|ep|data|tensor|pipeline)[_ -]?)?rank)[ _:=\[\]#]*\d+\]?"
    r"|(?i:\b(?:pid|tid|cuda|gpu|worker|process|device|proc|host)[ _:=-]*\d+)"
    r"|\S+:\d+:\d+ \[\d+\]"  # libnccl's host:pid:thread [device]
    r"|^\[\d+\]:?|\b0x[0-9a-fA-F]+\b"
    r"|\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b"
)


def normalize_line(text: str, pod: str = "") -> str:
    """The line with what is specific to a rank (its number, pod, times, process ids, addresses) replaced."""
    if pod and pod in text:
        text = text.replace(pod, "<pod>")
    return _RANK_SPECIFIC.sub("#", text)


@dataclass(slots=True)
class AgreedLine:
    time: float  # when the first of them did
    text: str  # as the first of them printed it
    rank: int
    ranks: set[int] = field(default_factory=set)

    def ranks_text(self, of: int, gaps: Iterable[Gap] = ()) -> str:
        """Who printed the line: "128/128", "127/128 (all but 41)", "7/7 (7 not read)"; "pod 3" for a single one."""
        number, unread = len(self.ranks), self.ranks_unread(gaps)
        known = of - len(unread)
        if of <= 1:
            return ""
        if number == 1 or number <= min(MAX_MINORITY_RANKS, known / 2):
            said, notes = format_pods(*self.ranks), list[str]()
        else:
            missing = [rank for rank in range(of) if rank not in self.ranks and rank not in unread]
            said, notes = (
                f"{number}/{known}",
                [f"all but {_short_ranges(missing)}"] if 0 < len(missing) < known / 2 else [],
            )
        notes += [f"{_short_ranges(unread)} not read"] if unread else []
        return f"{said} ({'; '.join(notes)})" if notes else said

    def is_minority(self, of: int, gaps: Iterable[Gap] = ()) -> bool:
        """Whether some, but not all, of the pods that were read printed the line."""
        return of > 1 and len(self.ranks) != of - len(self.ranks_unread(gaps))

    def ranks_unread(self, gaps: Iterable[Gap]) -> set[int]:
        """Pods that may have printed the line, but whose log has a gap there."""
        return {gap.rank for gap in gaps if gap.since < self.time < gap.until + WINDOW} - self.ranks


def _short_ranges(pods: Collection[int]) -> str:
    """The pod numbers as ranges; just their count if there are too many ranges."""
    said = format_ranges(pods)
    return said if said.count(",") < MAX_MINORITY_RANKS else str(len(pods))


class Consensus:
    """Groups lines of different ranks, fed in the order of time."""

    def __init__(self) -> None:
        self.lines: list[AgreedLine] = []  # in the order in which they were first printed; their ranks grow
        self._open: OrderedDict[str, list[AgreedLine]] = OrderedDict()

    def add(self, lines: Iterable[RankLine]) -> None:
        """Add lines; `lines` may change from the index on where it ended before."""
        for line in lines:
            key = normalize_line(line.text, line.pod)
            groups = self._open.get(key)
            if groups is None:
                groups = self._open[key] = []
                if len(self._open) > MAX_LINE_KEYS:
                    self._open.popitem(last=False)
            else:
                self._open.move_to_end(key)
                if groups and line.time - groups[0].time > WINDOW:
                    groups[:] = [each for each in groups if line.time - each.time <= WINDOW]
            group = next((each for each in groups if line.rank not in each.ranks), None)
            if group is not None:
                group.ranks.add(line.rank)
                continue
            fresh = AgreedLine(line.time, line.text, line.rank, {line.rank})
            groups.append(fresh)
            if len(groups) > 1000:  # a line that one rank repeats: who says it again joins the later ones
                del groups[0]
            self.lines.append(fresh)
