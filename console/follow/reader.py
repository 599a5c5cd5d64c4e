"""Reading a job's log from several parts at once, each from its own place."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from console.models.log import RankLine

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from console.follow.news import News
    from console.spool.part import Part

PAGE = 2000
"""Lines of a part that one reading takes at most: no rank keeps the others waiting."""


class Reader:
    """Where somebody stands who reads some of the ranks (all, if none are named)."""

    def __init__(self, news: News, wanted: Collection[int] | None = None) -> None:
        self._news = news
        self._wanted = wanted
        self._at: dict[Part, int] = {}
        """Lines of each part that have been read."""

    def skip(self, parts: Iterable[Part]) -> None:
        """Go to the end of all there is."""
        self._at = {part: len(part) for part in parts}

    def more(self) -> list[RankLine]:
        """The next page: of parts that have more than fits, only what the others cannot come before."""
        pages: list[tuple[Part, int, int]] = []
        upto = float("inf")
        for part in self._news.take():
            start, length = self._at.get(part, 0), len(part)
            if start < length and (self._wanted is None or part.rank in self._wanted):
                stop = min(length, start + PAGE)
                pages.append((part, start, stop))
                if stop < length:
                    upto = min(upto, part.times[stop - 1])
        found: list[RankLine] = []
        for part, start, stop in pages:
            end = stop if upto == float("inf") else bisect_right(part.times, upto, start, stop)
            self._at[part] = end
            found += _rank_lines(part, start, end)
            if end < len(part):
                self._news.tell(part)
        found.sort(key=_moment_and_rank)
        return found


def _moment_and_rank(line: RankLine) -> tuple[float, int]:
    return line.time, line.rank


def _rank_lines(part: Part, start: int, stop: int) -> list[RankLine]:
    rank, attempt, pod, container = part.rank, part.attempt, part.pod, part.container
    return [
        RankLine(rank, moment, text.decode("utf-8", "replace"), attempt, pod, container)
        for moment, text in zip(part.times[start:stop], part.texts(start, stop), strict=True)
    ]
