"""Pauses between retries of requests and connections to the API server: one rule for all of them."""

from __future__ import annotations

import asyncio
import random

from msgspec import Struct

from console.errors import ConsoleError, Gone, NotAllowed, NotFound, NotLoggedIn, Refused


class Backoff(Struct, frozen=True):
    first_seconds: float = 0.5
    max_seconds: float = 8.0
    relist_seconds: float = 30.0  # the most after Gone, as a list costs the server more than a watch
    refused_seconds: float = 60.0  # after a refusal that only an administrator can lift
    settled: float = 5.0  # seconds that a connection has to last for failures before it to count no longer

    def wait(self, error: ConsoleError, failure_count: int) -> float:
        """The seconds to wait, with jitter, after this error if it is number `failure_count` in a row."""
        if isinstance(error, NotAllowed | NotFound):
            return self.refused_seconds
        if isinstance(error, Refused) and error.retry_after:
            return error.retry_after * (1 + random.random() / 4)
        if isinstance(error, NotLoggedIn):
            return min(self.refused_seconds, 15.0)
        return self.pause(failure_count, self.relist_seconds if isinstance(error, Gone) else self.max_seconds)

    def pause(self, failure_count: int, max_seconds: float) -> float:
        return float(
            min(max_seconds, self.first_seconds * 2.0 ** min(failure_count - 1, 16)) * (0.5 + random.random() / 2)
        )


class Retries:
    """Counts consecutive failures of a connection; only one that lasted a while resets the count."""

    def __init__(self, backoff: Backoff) -> None:
        self.backoff, self.failures = backoff, 0
        self._connected_at: float | None = None

    def begin(self) -> None:
        self._connected_at = asyncio.get_running_loop().time()

    def has_lasted(self) -> bool:
        """Whether the connection that ends now has lasted, so that failures before it count no longer."""
        began, self._connected_at = self._connected_at, None
        lasted = began is not None and asyncio.get_running_loop().time() - began >= self.backoff.settled
        self.failures = 0 if lasted else self.failures
        return lasted

    def fail(self) -> int:
        self.has_lasted()
        self.failures += 1
        return self.failures


DEFAULT_BACKOFF = Backoff()
