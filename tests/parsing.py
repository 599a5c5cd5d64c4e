"""A whole log read at once, and the steps of launchers in it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from console.metrics.start_phase import LAUNCHER_STAGE
from console.metrics.training_run import TrainingRun
from trainlog import RunSteps, Step


class StepState(Enum):
    RUNNING = "running"
    DONE = "done"
    SKIPPED = "skipped"
    FAILED = "failed"


@dataclass(frozen=True)
class LauncherStep:
    number: int
    name: str
    state: StepState
    seconds: int | None = None
    """How long it took, once it is done."""
    why: str = ""
    """Why it was skipped."""
    exit_code: int | None = None
    """Of a step that failed."""


def parse_launcher_step(line: str) -> LauncherStep | None:
    """Parse a launcher's progress line; None if it is none."""
    found = LAUNCHER_STAGE.search(line)
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


def run_of(steps: Iterable[Step], read_at: float = 0.0, printed: Sequence[float] = ()) -> TrainingRun:
    """A run whose log is read at once."""
    made = TrainingRun("megatron")
    made.steps = RunSteps(steps)
    made.sync(read_at, printed)
    return made
