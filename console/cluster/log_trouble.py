"""What to do when a log cannot be read."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import TYPE_CHECKING

from console.errors import ConsoleError, NotFound, Unreachable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from console.cluster.watch import Backoff

GIVE_UP = 600.0
"""Seconds without an answer after which following ends in an error."""


class Trouble:
    """What to do when a log cannot be read: wait and go on, take it for ended, or give up."""

    def __init__(self, follow: bool, backoff: Backoff, rest: Callable[[float], Awaitable[None]], *, seen: bool) -> None:
        """`rest` waits so many seconds, or less if that is no use; `seen`: whether lines of it were given before."""
        self._follow = follow
        self._backoff = backoff
        self._rest = rest
        self._failures = 0
        self._seen = seen
        self._since = 0.0
        self.broke = False
        """Whether the connection broke, and since then no line has come and no connection has ended well."""

    def over(self) -> None:
        """A line has come."""
        self._failures, self._seen, self.broke = 0, True, False

    async def weather(self, error: ConsoleError) -> bool:
        """Wait as long as is right, and say whether the log has ended; raises the error if waiting is no use."""
        if isinstance(error, NotFound) and self._seen:
            return True
        if not self._follow or not (isinstance(error, Unreachable) or _waits(error)):
            raise error
        self.broke = isinstance(error, Unreachable)
        now = asyncio.get_running_loop().time()
        self._failures += 1
        if self._failures == 1:
            self._since = now
            await asyncio.sleep(0 if self._seen else self._backoff.first)
            return False
        if now - self._since > GIVE_UP and isinstance(error, Unreachable):
            raise error
        if _waits(error):
            await asyncio.sleep(self._backoff.first)
        else:
            await self._rest(self._backoff.wait(error, self._failures))
        return False


def _waits(error: ConsoleError) -> bool:
    """Whether the refusal only means that the container has not started yet."""
    said = error.message
    return getattr(error, "status", 0) == HTTPStatus.BAD_REQUEST and (
        "waiting to start" in said or "not assigned" in said or "does not have a host assigned" in said
    )
