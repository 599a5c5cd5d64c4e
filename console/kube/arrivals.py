"""Up to when all has come that a log or a watch was to bring: a quiet connection says nothing of a job."""

from __future__ import annotations

import time
from collections.abc import Sequence

from console.kube.snapshot import WatchState, WatchStatus

QUIET = 12.0  # seconds without a byte of the server after which what came before may not be all that there was


class Arrivals:
    """When the server last sent anything at all, by the monotonic clock, and its latest pause."""

    def __init__(self) -> None:
        self.last, self.quiet = time.monotonic(), QUIET
        self.pause = 0.0, 0.0  # the last byte before it and the first after it

    def note(self) -> None:
        now = time.monotonic()
        if now > self.last + self.quiet:
            self.pause = self.last, now
        self.last = now

    def complete_until(self, received: float) -> float:
        """Up to when a stream whose last byte was `received` then is known to have brought all that there was."""
        return self.last if received >= self.pause[1] else self.pause[0]


def complete_until(links: Sequence[WatchStatus], arrivals: Arrivals) -> float:
    """Up to when all changes that these watches are to bring have come; now, where they could all the time."""
    now, shift = time.time(), time.time() - time.monotonic()
    known = [link for link in links if link.state in {WatchState.LIVE, WatchState.STALE}]
    complete = [arrivals.complete_until(link.last_seen - shift) + shift for link in known]
    return min([now, *complete, *(link.since for link in known if link.state is WatchState.STALE)])
