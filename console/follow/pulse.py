"""Signs of life of every rank: when it printed last, and which step it is at."""

from __future__ import annotations

import re
from contextlib import aclosing
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable

    from console.follow.joblog import JobLog

BEFORE = 200
"""Last lines of each container that are looked at first."""
_STEP = re.compile(rb"(?i)\b(?:iter(?:ation)?s?|(?:global_?)?step)[\s:=#\"']{0,8}(\d{1,12})(?![\d.]*\s*(?:ms|s\b))")
_WORDS = (b"iter", b"step", b"Iter", b"Step", b"STEP")


class Pulse:
    """Of each rank the moment of its last line, and the step it last told of."""

    def __init__(self) -> None:
        self.heard: dict[int, float] = {}
        self.steps: dict[int, int] = {}

    def add(self, rank: int, moment: float, text: bytes) -> None:
        """A line."""
        self.heard[rank] = max(moment, self.heard.get(rank, 0.0))
        if any(word in text for word in _WORDS) and (found := _STEP.search(text[:1000])):
            self.steps[rank] = int(found[1])

    def behind(self, rank: int) -> int:
        """By how many steps a rank is behind the foremost; 0 if it tells of no steps, or is no more than one behind."""
        step = self.steps.get(rank)
        lag = max(self.steps.values()) - step if step is not None else 0
        return lag if lag > 1 else 0


async def pulses(log: JobLog) -> AsyncGenerator[Pulse, None]:
    """The pulse of a job as it beats: at once, then with every batch of lines."""
    await log.ready.wait()
    pulse = Pulse()
    for part in log.parts:
        start = max(0, len(part) - BEFORE)
        _take(pulse, part.rank, zip(part.times[start:], part.texts(start, len(part)), strict=False))
    yield pulse
    async with aclosing(log.lines(live=True)) as batches:
        async for batch in batches:
            for line in batch:
                pulse.add(line.rank, line.time, line.text.encode())
            yield pulse


def _take(pulse: Pulse, rank: int, lines: Iterable[tuple[float, bytes]]) -> None:
    for moment, text in lines:
        pulse.add(rank, moment, text)
