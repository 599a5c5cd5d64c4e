"""When the next step of a run is late, and when that is an alarm: by the run's own past (pure).

A step is not late while the run makes a pause as it has made before, for a checkpoint or an evaluation, nor before the
next line is due in a log that tells of every hundredth step only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from console.models.alarm import Thresholds

ENOUGH = 5
"""Steps after which the pace of a run is known: the first ones compile, and fill caches."""
ONCE = 300.0
"""Seconds of a pause that was made only once which count: a longer one may have been a fault that passed."""
_LATE_LINES, _ALARM_LINES = 2.0, 3.0
"""Times the usual time between two lines that tell of steps."""
_LATE_PAUSES, _ALARM_PAUSES = 1.25, 1.5
"""Times the longest pause."""


@dataclass(frozen=True, slots=True)
class Rhythm:
    """How regularly a run makes steps; seconds."""

    pace: float
    """Of one step."""
    between: float = 0.0
    """Usually from one line that tells of a step to the next."""
    pause: float = 0.0
    """The longest between two such lines, but for the start, restarts, and what happened once (see ONCE)."""

    def late_after(self, limits: Thresholds) -> float:
        """Seconds after the last step from which on the next one is late."""
        return max(limits.late, limits.late_steps * self.pace, _LATE_LINES * self.between, _LATE_PAUSES * self.pause)

    def alarm_after(self, limits: Thresholds) -> float:
        """Seconds after the last step from which on it is an alarm."""
        return max(
            limits.stall, limits.stall_steps * self.pace, _ALARM_LINES * self.between, _ALARM_PAUSES * self.pause
        )


class Pauses:
    """The longest times between two lines with steps, as they are read."""

    def __init__(self) -> None:
        self._first = self._second = 0.0

    def add(self, seconds: float) -> None:
        """One more."""
        if seconds > self._first:
            self._first, self._second = seconds, self._first
        elif seconds > self._second:
            self._second = seconds

    @property
    def longest(self) -> float:
        """The longest; one that was made only once counts as far as ONCE."""
        return max(self._second, min(self._first, ONCE))


def late_words(quiet: float, step: int | None, pace: float | None) -> str:
    """It in words: "no step for 34 s after step 9, usually one takes 2.8 s"."""
    after = f" after step {step:,}" if step is not None else ""
    usual = f", usually one takes {_pace_words(pace)}" if pace else ""
    return f"no step for {time_words(quiet)}{after}{usual}"


def _pace_words(pace: float) -> str:
    return f"{pace:.3g} s" if pace >= 1 else f"{1000 * pace:.3g} ms"


def time_words(seconds: float) -> str:
    """In words that change seldom: whole minutes from the second on."""
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
