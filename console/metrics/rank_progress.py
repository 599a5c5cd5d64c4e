"""Signs of life of every rank: when it printed last, and which step it is at."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from console.metrics.training.formats.programs import parse_step

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from console.logs.job_log import ChangeSubscription, JobLog
    from console.logs.segment import Part

BEFORE = 200  # last lines of each container that are looked at first
PAGE = 5000  # lines of a container that are looked at before the others get their turn


class RankProgress:
    """Of each rank the moment of its last line, and the step it last told of."""

    def __init__(self) -> None:
        self.heard: dict[int, float] = {}
        self.steps: dict[int, int] = {}
        self._totals: dict[int, int] = {}
        """Of each rank the steps of its longest bar: that of training, not of an evaluation in between."""

    def add(self, rank: int, moment: float, text: str) -> None:
        """A line, or the picture of a bar that is drawn."""
        self.heard[rank] = max(moment, self.heard.get(rank, 0.0))
        found = parse_step(text)
        if found is None:
            return
        step, total = found
        if total and total < self._totals.get(rank, 0):
            return
        self._totals[rank] = max(total, self._totals.get(rank, 0))
        self.steps[rank] = step

    def behind(self, rank: int) -> int:
        """By how many steps a rank is behind the foremost; 0 if it tells of no steps, or is no more than one behind."""
        step = self.steps.get(rank)
        lag = max(self.steps.values()) - step if step is not None else 0
        return lag if lag > 1 else 0


class _Listening:
    """A place in each part of a log."""

    def __init__(self, news: ChangeSubscription) -> None:
        self._news = news
        self._at: dict[Part, int] = {}
        self._drawn: dict[Part, bytes] = {}
        self.pulse = RankProgress()

    def listen(self) -> bool:
        """Take what is new; whether there was anything."""
        heard = [self._take(part) for part in self._news.take()]
        return any(heard)

    def _take(self, part: Part) -> bool:
        start = self._at.get(part, max(0, len(part) - BEFORE))
        stop = min(len(part), start + PAGE)
        self._at[part] = stop
        if stop < len(part):
            self._news.tell(part)
        if start < stop:
            for moment, text in zip(part.times[start:stop], part.texts(start, stop), strict=False):
                self.pulse.add(part.rank, moment, text.decode("utf-8", "replace"))
        drawn, self._drawn[part] = self._drawn.get(part, b""), part.open
        if part.open and part.open != drawn:
            self.pulse.add(part.rank, time.time(), part.open.decode("utf-8", "replace"))
            return True
        return start < stop


async def pulses(log: JobLog) -> AsyncGenerator[RankProgress, None]:
    """The pulse of a job as it beats: at once, then whenever there was a line, or a bar was drawn on."""
    with log.listening() as news:
        listening = _Listening(news)
        await log.ready.wait()
        listening.listen()
        yield listening.pulse
        while True:
            over = log.closed or log.finished
            if listening.listen():
                yield listening.pulse
            elif over:
                return
            else:
                await news.come()
