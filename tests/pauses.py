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
        self._beat_at = time.monotonic()
        self._resumed = float("-inf")

    def start(self) -> None:
        self._beat_at = time.monotonic()
        Thread(target=self._beat, name="heartbeat", daemon=True).start()

    def _beat(self) -> None:
        while True:
            Event().wait(BEAT)
            now = time.monotonic()
            if now - self._beat_at > PAUSE:
                self._resumed = now
            self._beat_at = now

    def test_begins(self) -> None:
        self._test_began = time.monotonic()

    def stood_still(self) -> bool:
        """Whether it did since the test began. Asked after every test, so this may not wait for the next beat."""
        return self._resumed > self._test_began or time.monotonic() - self._beat_at > PAUSE
