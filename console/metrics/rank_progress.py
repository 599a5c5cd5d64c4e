"""Progress of every rank: its last line, its training step, and its launcher's step."""

from __future__ import annotations

import re
from collections import Counter
from enum import Enum

from msgspec import Struct

from console.metrics.training.formats.programs import parse_step


class StepState(Enum):
    """The state of a launcher step."""

    RUNNING = "running"
    DONE = "done"
    SKIPPED = "skipped"
    FAILED = "failed"


class LauncherStep(Struct, frozen=True):
    """One step of a launcher, as last reported."""

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
    """Parse a launcher's progress line; None if it is none."""
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
    """For each rank the time of its last line, and its last step."""

    def __init__(self) -> None:
        self.heard: dict[int, float] = {}
        self.steps: dict[int, int] = {}
        self.advances: Counter[int] = Counter()  # how often each rank told of another step
        self._totals: dict[int, int] = {}
        """Of each rank the steps of its longest bar: that of training, not of an evaluation in between."""

    def add(self, rank: int, moment: float, text: str) -> None:
        """Take a line, or a frame of a progress bar."""
        self.heard[rank] = max(moment, self.heard.get(rank, 0.0))
        found = parse_step(text) if launcher_step(text) is None else None
        if found is None:
            return
        step, total = found
        if total and total < self._totals.get(rank, 0):
            return
        self._totals[rank] = max(total, self._totals.get(rank, 0))
        self.advances[rank] += self.steps.get(rank) != step
        self.steps[rank] = step

    def behind(self, rank: int) -> int:
        """How many steps a rank is behind the foremost; 0 if unknown or at most one."""
        step = self.steps.get(rank)
        lag = max(self.steps.values()) - step if step is not None else 0
        return lag if lag > 1 else 0
