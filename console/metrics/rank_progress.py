"""Signs of life of every rank: when it printed last, which step it is at, and which step of its launcher."""

from __future__ import annotations

import re
from collections import Counter
from enum import Enum

from msgspec import Struct

from console.metrics.training.formats.own import own_formats
from console.metrics.training.formats.programs import parse_step


class StepState(Enum):
    """What a launcher says of a step."""

    RUNNING = "running"
    DONE = "done"
    SKIPPED = "skipped"
    FAILED = "failed"


class LauncherStep(Struct, frozen=True):
    """One step of a launcher, as it last reported it."""

    number: int
    name: str
    state: StepState
    seconds: int | None = None  # how long it took, once it is done
    why: str = ""  # why it was skipped
    exit_code: int | None = None  # of a step that failed


_STEP = re.compile(
    r"(?:^|[\]>\sZ])step (\d{1,6}) ([^:]{1,200}): "
    r"(?:(run)|done in (\d{1,9}) s|skip: (.{0,1000})|failed with exit code (\d{1,3}))\s*$"
)


def launcher_step(line: str) -> LauncherStep | None:
    """What a launcher says in that line; None if it says nothing."""
    found = _STEP.search(line) if "step " in line else None
    if found is None:
        return None
    number, name, running, seconds, why, code = found.groups()
    if running:
        return LauncherStep(int(number), name, StepState.RUNNING)
    if seconds is not None:
        return LauncherStep(int(number), name, StepState.DONE, seconds=int(seconds))
    if why is not None:
        return LauncherStep(int(number), name, StepState.SKIPPED, why=why.strip())
    return LauncherStep(int(number), name, StepState.FAILED, exit_code=int(code))


class RankProgress:
    """Of each rank the moment of its last line, and the step it last told of."""

    def __init__(self) -> None:
        self._own = own_formats()
        self.heard: dict[int, float] = {}
        self.steps: dict[int, int] = {}
        self.advances: Counter[int] = Counter()  # how often each rank told of another step
        self._totals: dict[int, int] = {}
        """Of each rank the steps of its longest bar: that of training, not of an evaluation in between."""

    def add(self, rank: int, moment: float, text: str) -> None:
        """A line, or the picture of a bar that is drawn."""
        self.heard[rank] = max(moment, self.heard.get(rank, 0.0))
        found = parse_step(text, self._own) if launcher_step(text) is None else None
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
