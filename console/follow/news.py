"""What somebody who reads a log has not been told yet."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from console.spool.part import Part

LOOK_AGAIN = 1.0
"""Seconds after which who waits looks whether it is over, though nobody said so."""


class News:
    """Which parts of a log may have more than somebody has taken: the others need no look, however many they are."""

    def __init__(self, parts: Iterable[Part]) -> None:
        self._parts = dict.fromkeys(parts)
        self._come = asyncio.Event()
        self._come.set()
        self._timer: asyncio.TimerHandle | None = None
        self._again()

    def tell(self, *parts: Part) -> None:
        """There may be more in these; none of them: something else has changed."""
        for part in parts:
            self._parts[part] = None
        self._come.set()

    def take(self) -> list[Part]:
        """The parts that were told of since the last look."""
        parts, self._parts = list(self._parts), {}
        return parts

    async def come(self) -> None:
        """Wait until there may be something new, but not for long."""
        await self._come.wait()
        self._come.clear()

    def _again(self) -> None:
        # One timer for all that is waited for: a timeout for each line costs more than the rest of the waiting.
        self._timer = asyncio.get_running_loop().call_later(LOOK_AGAIN, self._again)
        self._come.set()

    def close(self) -> None:
        """Nobody waits any more."""
        if self._timer is not None:
            self._timer.cancel()
