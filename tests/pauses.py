"""Whether the machine stood still while a test ran: virtual machines that CI runs on do, for up to two minutes.

Every clock jumps over such a pause, so that whatever was waited for has not come "in time". A test that failed over a
pause is run once more, which pytest counts as a rerun; a failure without a pause is a failure at once.
"""

from __future__ import annotations

import time
from threading import Event, Thread

BEAT = 0.25
PAUSE = 4.0
"""Seconds without a beat, which no load on a machine explains that runs the tests in their usual time."""


class Heartbeat:
    """A thread that notices when it has not run for a while."""

    def __init__(self) -> None:
        self._test_began = time.monotonic()
        self._resumed = float("-inf")
        self._failed = False

    def start(self) -> None:
        Thread(target=self._beat, name="heartbeat", daemon=True).start()

    def _beat(self) -> None:
        last = time.monotonic()
        while True:
            Event().wait(BEAT)
            now = time.monotonic()
            if now - last > PAUSE:
                self._resumed = now
            last = now

    def test_begins(self) -> None:
        self._test_began, self._failed = time.monotonic(), False

    def test_fails(self) -> None:
        self._failed = True

    def stood_still(self) -> bool:
        """Asked after every test, and waits only after one that failed: the beat after a pause may still be to come."""
        if not self._failed:
            return False
        Event().wait(2 * BEAT)
        return self._resumed > self._test_began
