"""Reads the logs of a job's ranks in one order of time, and waits for what they have grown by."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Collection, Iterable

from console.logs.log_line import PodLine, sort_key
from console.logs.log_segment import LogSegment

NOTIFY_SECONDS = 1.0  # seconds after which a subscriber is woken at the latest
PAGE_LINES, MIN_PAGE_LINES_PER_SEGMENT = 4000, 50  # lines that one reading takes at most, and of one part at least


class ChangeSubscription:
    """Tracks which segments of a log have grown since the subscriber last read them."""

    def __init__(self, segments: Iterable[LogSegment]) -> None:
        self._segments = dict.fromkeys(segments)
        self._change_event = asyncio.Event()
        self._change_event.set()
        self._timer: asyncio.TimerHandle | None = None
        self._notify_all_later()

    def notify(self, *segments: LogSegment) -> None:
        """Mark these segments as grown; none given means another kind of change."""
        for part in segments:
            self._segments[part] = None
        self._change_event.set()

    def take_changed(self) -> list[LogSegment]:
        parts, self._segments = list(self._segments), {}
        return parts

    async def wait(self) -> None:
        """Wait until something may have changed, for a short time at most."""
        await self._change_event.wait()
        self._change_event.clear()

    def _notify_all_later(self) -> None:
        # One timer for all that is waited for: a timeout for each line costs more than the rest of the waiting.
        self._timer = asyncio.get_running_loop().call_later(NOTIFY_SECONDS, self._notify_all_later)
        self._change_event.set()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


class LogCursor:
    """A reader's position in the logs of some ranks (all, if none is given)."""

    def __init__(self, subscription: ChangeSubscription, ranks: Collection[int] | None = None) -> None:
        self._subscription = subscription
        self._ranks = ranks
        self._positions: dict[LogSegment, int] = {}  # lines of each part that have been read

    def next_page(self) -> list[PodLine]:
        """The next lines in order of time; lines that are later than an unread line of another log wait."""
        pages: list[tuple[LogSegment, int, int]] = []
        upto = float("inf")
        changed = self._subscription.take_changed()
        most = max(MIN_PAGE_LINES_PER_SEGMENT, PAGE_LINES // max(1, len(changed)))
        for part in changed:
            start, length = self._positions.get(part, 0), len(part)
            if start < length and (self._ranks is None or part.rank in self._ranks):
                stop = min(length, start + most)
                pages.append((part, start, stop))
                if stop < length:
                    upto = min(upto, part.times[stop - 1])
        found: list[PodLine] = []
        for part, start, stop in pages:
            end = stop if upto == float("inf") else bisect_right(part.times, upto, start, stop)
            self._positions[part] = end
            found += [
                PodLine(part.rank, moment, text.decode("utf-8", "replace"), part.attempt, part.pod, part.container)
                for moment, text in zip(part.times[start:end], part.read_texts(start, end), strict=True)
            ]
            if end < len(part):
                self._subscription.notify(part)
        found.sort(key=sort_key)
        return found
