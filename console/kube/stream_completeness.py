"""The time up to which a log or a watch is complete; a silent connection proves nothing about a job."""

from __future__ import annotations

import time
from contextlib import suppress
from datetime import UTC, datetime

SERVER_QUIET_SECONDS = 12.0  # without a byte of the server, after which what came before may not be all that there was


_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MONOTONIC_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # goes on while the machine sleeps
MAX_CLOCK_SKEW = 5.0  # seconds that this machine's clock may differ from the server's


class ServerClock:
    """The time of the API servers by their Date headers; this machine's clock may be wrong."""

    def __init__(self) -> None:
        self._boot_time: float | None = None  # by the server's time, when the steady clock was 0; None: not known

    def set_from_header(self, date: str) -> None:
        """Set the time by the Date header of a response."""
        with suppress(ValueError):
            _, day, month, year, clock, _ = date.split()
            hour, minute, second = map(int, clock.split(":"))
            at = datetime(int(year), _MONTHS.index(month) + 1, int(day), hour, minute, second, tzinfo=UTC)
            self._boot_time = at.timestamp() - time.clock_gettime(_MONOTONIC_CLOCK)

    def now(self) -> float:
        wall = time.time()
        server = wall if self._boot_time is None else self._boot_time + time.clock_gettime(_MONOTONIC_CLOCK)
        return server if abs(server - wall) > MAX_CLOCK_SKEW else wall


SERVER_CLOCK = ServerClock()


class ReceiveTimes:
    """The time of the server's last byte (monotonic clock), and its last long pause."""

    def __init__(self) -> None:
        self.last_at, self.quiet_seconds = time.monotonic(), SERVER_QUIET_SECONDS
        self.pause = 0.0, 0.0  # the last byte before it and the first after it

    def record_arrival(self) -> None:
        now = time.monotonic()
        if now > self.last_at + self.quiet_seconds:
            self.pause = self.last_at, now
        self.last_at = now

    def complete_until(self, received_at: float) -> float:
        """The time up to which a stream is complete if its last byte came at `received_at` (both monotonic)."""
        return self.last_at if received_at >= self.pause[1] else self.pause[0]
