"""Reading a job's log from several parts at once, each from its own place."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from contextlib import suppress
from typing import TYPE_CHECKING

from console.models.log import RankLine

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from console.spool.part import Part

PAGE = 2000
"""Lines of a part that one reading takes at most: no rank keeps the others waiting."""
LOOK_AGAIN = 1.0
"""Seconds after which a reader looks whether it is over, though nobody woke it."""


class Reader:
    """Where somebody stands who reads some of the ranks (all, if none are named)."""

    def __init__(self, wanted: Collection[int] | None = None) -> None:
        self._wanted = wanted
        self._at: dict[int, int] = {}
        """Part, by its identity -> lines of it that have been read."""

    def skip(self, parts: Sequence[Part]) -> None:
        """Go to the end of all there is."""
        self._at = {id(part): len(part) for part in parts}

    def more(self, parts: Sequence[Part]) -> list[RankLine]:
        """The next page: of parts that have more than fits, only what the others cannot come before."""
        pages: list[tuple[Part, int, int]] = []
        upto = float("inf")
        for part in [part for part in parts if self._at.get(id(part), 0) < len(part.times)]:
            if self._wanted is None or part.rank in self._wanted:
                start, length = self._at.get(id(part), 0), len(part)
                stop = min(length, start + PAGE)
                pages.append((part, start, stop))
                if stop < length:
                    upto = min(upto, part.times[stop - 1])
        found: list[RankLine] = []
        for part, start, stop in pages:
            end = stop if upto == float("inf") else bisect_right(part.times, upto, start, stop)
            self._at[id(part)] = end
            found += _rank_lines(part, start, end)
        found.sort(key=lambda line: line.time)
        return found


async def woken(event: asyncio.Event) -> None:
    """Wait until there may be more."""
    with suppress(TimeoutError):
        # Not wait_for: before Python 3.12 it swallows that the task is cancelled when the event comes at that moment.
        async with asyncio.timeout(LOOK_AGAIN):
            await event.wait()
    event.clear()


def _rank_lines(part: Part, start: int, stop: int) -> list[RankLine]:
    rank, attempt, pod, container = part.rank, part.attempt, part.pod, part.container
    return [
        RankLine(rank, moment, text.decode("utf-8", "replace"), attempt, pod, container)
        for moment, text in zip(part.times[start:stop], part.texts(start, stop), strict=True)
    ]
