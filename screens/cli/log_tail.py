"""The last lines of each rank, of a log that may be kept from long before them, and then what is printed after it."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict, deque
from operator import itemgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from console.follow.joblog import JobLog
    from console.models.log import RankLine

CATCHES_UP = 2.0
"""Seconds after which what is there is printed at the latest, though more of it may come."""
_QUIET = 0.3
"""Seconds without a line after which all that was there has come, once every rank is connected."""


class Last:
    """The last lines of each rank: what is kept of a log may begin long before them."""

    def __init__(self, number: int) -> None:
        self._ranks: dict[int, deque[tuple[int, RankLine]]] = defaultdict(lambda: deque(maxlen=max(0, number)))
        self._seen = 0

    def add(self, lines: list[RankLine]) -> None:
        """Lines in the order of time."""
        for line in lines:
            self._ranks[line.rank].append((self._seen, line))
            self._seen += 1

    @property
    def lines(self) -> list[RankLine]:
        """Those of all ranks, in the order in which they came."""
        return [line for _, line in sorted((each for rank in self._ranks.values() for each in rank), key=itemgetter(0))]


async def last_first(
    lines: AsyncGenerator[list[RankLine], None], log: JobLog, number: int, *, follow: bool
) -> AsyncGenerator[list[RankLine], None]:
    """So many last lines of each rank of all that was printed before this moment, then every line that comes.

    What is kept on this machine, and what was printed since without being read, both come first, and neither says where
    it ends: lines are held until no more come, or for `CATCHES_UP`.
    """
    last = Last(number)
    new: list[RankLine] = []
    began, until = time.time(), time.monotonic() + CATCHES_UP
    coming = _next(lines)
    try:
        while await _more_is_there(coming, log, until if follow else None) and (batch := coming.result()) is not None:
            last.add([line for line in batch if not follow or line.time < began])
            new += [line for line in batch if follow and line.time >= began]
            coming = _next(lines)
        yield [*last.lines, *new]
        while (batch := await coming) is not None:
            yield batch
            coming = _next(lines)
    finally:
        coming.cancel()
        await asyncio.gather(coming, return_exceptions=True)


async def with_pauses(lines: AsyncGenerator[list[RankLine], None]) -> AsyncGenerator[list[RankLine], None]:
    """The same, and an empty batch whenever none came for a moment."""
    coming = _next(lines)
    try:
        while True:
            await asyncio.wait({coming}, timeout=_QUIET)
            if not coming.done():
                yield []
            elif (batch := coming.result()) is None:
                return
            else:
                yield batch
                coming = _next(lines)
    finally:
        coming.cancel()
        await asyncio.gather(coming, return_exceptions=True)
        await lines.aclose()


def _next(lines: AsyncGenerator[list[RankLine], None]) -> asyncio.Future[list[RankLine] | None]:
    return asyncio.ensure_future(anext(lines, None))


async def _more_is_there(coming: asyncio.Future[list[RankLine] | None], log: JobLog, until: float | None) -> bool:
    """Whether more came of what was there; without `until`, a log that is not followed, until it ends."""
    if until is None:
        await asyncio.wait({coming})
        return True
    while (left := until - time.monotonic()) > 0:
        connected = not log.coverage.waiting and not log.coverage.reconnecting
        await asyncio.wait({coming}, timeout=min(left, _QUIET))
        if coming.done() or connected:
            return coming.done()
    return False
