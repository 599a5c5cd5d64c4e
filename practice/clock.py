"""The time of the practice cluster: the wall clock, preceded by a past that can be replayed."""

from __future__ import annotations

import asyncio
import heapq
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(order=True, slots=True)
class Timer:
    """A scheduled call; ``cancel`` prevents it."""

    due: float  # epoch seconds of practice time
    sequence: int
    call: Callable[[], object] = field(compare=False)
    handle: asyncio.Handle | None = field(default=None, compare=False)
    cancelled: bool = field(default=False, compare=False)

    def cancel(self) -> None:
        """Prevent the call."""
        self.cancelled = True
        if self.handle is not None:
            self.handle.cancel()


class Clock:
    """The clock of practice time. Once live, it equals wall time, and ``speed`` only shortens waits.

    Before ``start_real_time`` its time is ``start``, in the past, and moves only by ``simulate_until``, timer by timer.
    """

    def __init__(self, speed: float = 1.0, *, start: float | None = None) -> None:
        self.speed = speed
        self._past = start
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timers: list[Timer] = []
        self._sequence = 0
        self.live_from = time.time()
        """Epoch seconds at which the replayed past ends: events that expire before it need not be recorded."""

    def now(self) -> float:
        return time.time() if self._past is None else self._past

    @property
    def live(self) -> bool:
        """Whether practice time runs by itself."""
        return self._past is None

    def call_later(self, seconds: float, function: Callable[[], object]) -> Timer:
        """Call ``function`` once, ``seconds`` of practice time from now."""
        self._sequence += 1
        timer = Timer(self.now() + max(seconds, 0.0), self._sequence, function)
        if self._past is None and self._loop is not None:
            self._set_alarm(timer, seconds)
        else:
            heapq.heappush(self._timers, timer)
        return timer

    def call_at(self, moment: float, function: Callable[[], object]) -> Timer:
        """Call ``function`` once at ``moment`` (epoch seconds), or at once when that has passed."""
        return self.call_later(moment - self.now(), function)

    def call_soon(self, function: Callable[[], object]) -> None:
        """Call ``function`` after the current event."""
        if self._past is None and self._loop is not None:
            self._loop.call_soon(function)
        else:
            self.call_later(0, function)

    def simulate_until(self, moment: float) -> None:
        """Run every timer due before ``moment``, each at its own time, and stand at ``moment``."""
        while self._timers and self._timers[0].due <= moment:
            timer = heapq.heappop(self._timers)
            if not timer.cancelled:
                self._past = max(timer.due, self.now())
                timer.call()
        self._past = moment

    def start_real_time(self) -> None:
        """Let time run by itself from now on; pending timers move to the running event loop."""
        self._loop = asyncio.get_running_loop()
        self._past = None
        self.live_from = now = time.time()
        waiting, self._timers = self._timers, []
        for timer in sorted(waiting):
            if not timer.cancelled:
                self._set_alarm(timer, timer.due - now)

    def _set_alarm(self, timer: Timer, seconds: float) -> None:
        if self._loop is not None:
            timer.handle = self._loop.call_later(max(seconds, 0.0) / self.speed, timer.call)


def format_timestamp(seconds: float) -> str:
    """Return epoch seconds as the API writes a time: ``2026-11-21T06:33:39Z``."""
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def format_micro_timestamp(seconds: float) -> str:
    """Return epoch seconds as the API writes an eventTime: ``2026-11-21T06:33:39.123456Z``."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_timestamp(text: str) -> float:
    """Return the epoch seconds of an API time, with or without a fraction."""
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
