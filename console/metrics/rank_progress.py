"""Signs of life of every rank: when it printed last, and which step it is at."""

from __future__ import annotations

from collections import Counter

from console.metrics.training.formats.programs import parse_step


class RankProgress:
    """Of each rank the moment of its last line, and the step it last told of."""

    def __init__(self) -> None:
        self.heard: dict[int, float] = {}
        self.steps: dict[int, int] = {}
        self.advances: Counter[int] = Counter()  # how often each rank told of another step
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
        self.advances[rank] += self.steps.get(rank) != step
        self.steps[rank] = step

    def behind(self, rank: int) -> int:
        """By how many steps a rank is behind the foremost; 0 if it tells of no steps, or is no more than one behind."""
        step = self.steps.get(rank)
        lag = max(self.steps.values()) - step if step is not None else 0
        return lag if lag > 1 else 0
