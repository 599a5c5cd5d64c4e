"""Reading a job's log from several parts at once, each from its own place."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from contextlib import suppress
from typing import TYPE_CHECKING

from console.models.log import RankLine

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Collection

    from console.follow.joblog import JobLog
    from console.spool.part import Part

PAGE = 2000
"""Lines of a part that one reading takes at most: no rank keeps the others waiting."""
LOOK_AGAIN = 1.0
"""Seconds after which a reader looks whether it is over, though nobody woke it."""


async def read_lines(
    log: JobLog, wanted: Collection[int] | None, *, live: bool
) -> AsyncGenerator[list[RankLine], None]:
    """See `JobLog.lines`."""
    async with log.waking() as event:
        await log.ready.wait()
        while log.once and not log.finished and not log.closed:
            await _woken(event)  # what is not followed is sorted as a whole
        at = {id(part): len(part) for part in log.parts} if live else {}
        while True:
            over = log.closed or log.finished
            batch = _more(log, at, wanted)
            if batch:
                yield batch
            elif over:
                return
            else:
                await _woken(event)
                await asyncio.sleep(0)  # whoever else has lines at this moment adds them first


async def _woken(event: asyncio.Event) -> None:
    with suppress(TimeoutError):
        # Not wait_for: before Python 3.12 it swallows that the task is cancelled when the event comes at that moment.
        async with asyncio.timeout(LOOK_AGAIN):
            await event.wait()
    event.clear()


def _more(log: JobLog, at: dict[int, int], wanted: Collection[int] | None) -> list[RankLine]:
    """The next page: of parts that have more than fits, only what the others cannot come before."""
    pages: list[tuple[Part, int, int]] = []
    upto = float("inf")
    for part in [part for part in log.parts if at.get(id(part), 0) < len(part.times)]:
        if wanted is None or part.rank in wanted:
            start, length = at.get(id(part), 0), len(part)
            stop = min(length, start + PAGE)
            pages.append((part, start, stop))
            if stop < length:
                upto = min(upto, part.times[stop - 1])
    found: list[RankLine] = []
    for part, start, stop in pages:
        end = stop if upto == float("inf") else bisect_right(part.times, upto, start, stop)
        at[id(part)] = end
        found += _rank_lines(part, start, end)
    found.sort(key=lambda line: line.time)
    return found


def _rank_lines(part: Part, start: int, stop: int) -> list[RankLine]:
    rank, attempt, pod, container = part.rank, part.attempt, part.pod, part.container
    return [
        RankLine(rank, moment, text.decode("utf-8", "replace"), attempt, pod, container)
        for moment, text in zip(part.times[start:stop], part.texts(start, stop), strict=True)
    ]
