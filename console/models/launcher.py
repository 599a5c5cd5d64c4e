"""How far a launcher has come: its numbered steps."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class StepState(Enum):
    """What a launcher says of a step."""

    RUNNING = "running"
    DONE = "done"
    SKIPPED = "skipped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class LauncherStep:
    """One step of a launcher, as it last reported it."""

    number: int
    name: str
    state: StepState
    seconds: int | None = None
    """How long it took, once it is done."""
    why: str = ""
    """Why it was skipped."""
    exit_code: int | None = None
    """Of a step that failed."""
