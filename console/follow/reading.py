"""Reading a job's log from several parts at once, each from its own place."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from console.models.log import RankLine

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Collection, Iterator

    from console.follow.joblog import JobLog
    from console.spool.part import Part

GATHER = 0.005
"""Seconds in which lines of several ranks are gathered for one reading."""
PAGE = 2000
"""Lines of a part that one reading takes at most: no rank keeps the others waiting."""
LOOK_AGAIN = 1.0
"""Seconds after which a reader looks whether it is over, though nobody woke it."""


async def read_lines(
    log: JobLog, wanted: Collection[int] | None, *, live: bool, follow: bool
) -> AsyncGenerator[list[RankLine], None]:
    """See `JobLog.lines`."""
    async with log.waking() as event:
        await log.ready.wait()
        at = {id(part): len(part) for part in log.parts} if live else {}
        while True:
            event.clear()
            over = log.closed or log.finished or (not follow and log.caught_up)
            batch = _more(log, at, wanted)
            if batch:
                yield batch
            elif over:
                return
            else:
                with suppress(TimeoutError):
                    await asyncio.wait_for(event.wait(), LOOK_AGAIN)
                await asyncio.sleep(GATHER)


def _more(log: JobLog, at: dict[int, int], wanted: Collection[int] | None) -> list[RankLine]:
    found: list[RankLine] = []
    for part in log.parts:
        start = at.get(id(part), 0)
        if start < len(part) and (wanted is None or part.rank in wanted):
            stop = min(len(part), start + PAGE)
            at[id(part)] = stop
            found += _rank_lines(part, start, stop)
    found.sort(key=lambda line: line.time)
    return found


def _rank_lines(part: Part, start: int, stop: int) -> Iterator[RankLine]:
    rank, attempt, pod, container = part.rank, part.attempt, part.pod, part.container
    for moment, text in zip(part.times[start:stop], part.texts(start, stop), strict=True):
        yield RankLine(rank, moment, text.decode("utf-8", "replace"), attempt, pod, container)
