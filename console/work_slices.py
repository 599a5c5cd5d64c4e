"""Splits endless work into slices with pauses, so that keys are answered at once.

A pod or a server may send faster than anything can be read; during pauses the sender has to wait. Until the first key
is pressed, as in a plain command, there are no pauses, except in work that seems endless.
"""

from __future__ import annotations

import asyncio
import math
import sys
import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

SLICE_SECONDS = 0.005
"""Seconds of work before other tasks get their turn."""
KEY_RECENT_SECONDS = 3.0
"""Seconds after a key in which another one is likely."""
REST_PER_WORK, REST_PER_WORK_NEAR_KEYS = 1.0, 3.0
"""Seconds of pause per second of work; and while another key is likely."""
KEY_BURST_END_SECONDS = 1.0
"""Seconds without a used-up slice after which a burst of work has ended."""
MAX_REST_SECONDS = 0.25
"""Seconds of the longest pause."""
SWITCH_SECONDS = 0.0005
"""Python's thread switch interval in seconds: answering a key takes many switches."""

_last_key_press = -math.inf
_next_turn_at = 0.0
_NEVER_SET = threading.Event()


def note_key_press() -> None:
    global _last_key_press
    if _last_key_press == -math.inf:
        sys.setswitchinterval(SWITCH_SECONDS)
    _last_key_press = time.monotonic()


def key_expected() -> bool:
    """Whether a key was pressed so recently that another is likely."""
    return time.monotonic() < _last_key_press + KEY_RECENT_SECONDS


def rest_seconds(worked_seconds: float, factor: float = 1.0, *, keys_likely: bool = False) -> float:
    """The seconds to pause after `worked_seconds`, times `factor`; `keys_likely`: as if a key were expected."""
    if _last_key_press == -math.inf and not keys_likely:
        return 0.0
    share = REST_PER_WORK_NEAR_KEYS if keys_likely or key_expected() else REST_PER_WORK
    return min(MAX_REST_SECONDS, factor * share * worked_seconds)


def _seconds_until_turn(worked_seconds: float, times: float = 1.0, *, keys_likely: bool = False) -> float:
    """The seconds until this task may continue, so that all tasks together pause as long as one would."""
    global _next_turn_at
    rest, now = rest_seconds(worked_seconds, times, keys_likely=keys_likely), time.monotonic()
    if not rest:
        return 0.0
    _next_turn_at = max(_next_turn_at, now) + rest
    return _next_turn_at - now


async def rest_after_slice() -> None:
    await asyncio.sleep(_seconds_until_turn(SLICE_SECONDS))


class WorkSlices:
    """Splits the work of one task or thread into slices, with pauses in which keys are handled."""

    def __init__(self, pause_factor: float = 1.0, burst_seconds: float = math.inf) -> None:
        """`pause_factor` multiplies the pauses; after `burst_seconds` of work they are as long as if keys came."""
        self._pause_factor, self._burst = pause_factor, burst_seconds
        self._began_at = self._slice_ended_at = time.monotonic()
        self._spent = 0.0

    def begin(self) -> None:
        self._began_at = time.monotonic()

    async def pause(self) -> bool:
        """Pause if the slice is used up; returns whether it was."""
        now = time.monotonic()
        if (worked := now - self._began_at) <= SLICE_SECONDS:
            return False
        self._spent = worked + (self._spent if now < self._slice_ended_at + KEY_BURST_END_SECONDS else 0.0)
        await asyncio.sleep(_seconds_until_turn(worked, self._pause_factor, keys_likely=self._spent > self._burst))
        self._began_at = self._slice_ended_at = time.monotonic()
        return True

    def pause_thread(self) -> None:
        if (worked := time.monotonic() - self._began_at) > SLICE_SECONDS:
            if rest := rest_seconds(worked, self._pause_factor):
                _NEVER_SET.wait(rest)
            self._began_at = time.monotonic()


_unfinished_count = 0
_all_finished = threading.Condition()


def run_to_end(function: Callable[[], T]) -> T:
    """The result of a function that finishes even while the program exits, since half of it would do damage."""
    global _unfinished_count
    with _all_finished:
        _unfinished_count += 1
    try:
        return function()
    finally:
        with _all_finished:
            _unfinished_count -= 1
            _all_finished.notify_all()


def wait_until_finished() -> None:
    with _all_finished:
        _all_finished.wait_for(lambda: not _unfinished_count)
