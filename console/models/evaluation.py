"""Results of an evaluation of a model: one score for each task and metric."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Score:
    """One row of a result table of lm-eval."""

    task: str
    """Subtasks keep the name alone; how deep they stand is `depth`."""
    metric: str
    value: float | None
    """None where it could not be computed."""
    error: float | None = None
    """Standard error."""
    shots: int | None = None
    """Examples shown before each question."""
    filter: str = ""
    version: str = ""
    depth: int = 0
    """Levels below its group."""
    group: bool = False
    """A row of the table that sums up groups."""
    better: str = ""
    """ "higher" or "lower", where the table says it."""
