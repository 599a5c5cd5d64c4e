"""Faults a pod is told to have, for the opening scene: ``a4-practice/fault: "nan:118"`` and the like."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from console.practice.programs.script import Place

FAULT = "a4-practice/fault"
PACE = "a4-practice/pace"
"""Seconds per step instead of the program's own."""
_TESTS = "a4-practice/tests"
"""How often a test is run, one after the other, for one that outlasts a first look."""


def fault_at(place: Place, kind: str) -> int | None:
    """Return the step at which a fault of a kind happens to this pod: ``kind:step``, ``kind:step:rank``.

    ``@n`` behind it means the n-th attempt of the job only (0 is the first).
    """
    attempt = place.notes.get("jobset.sigs.k8s.io/restart-attempt", "0")
    for text in place.notes.get(FAULT, "").split(","):
        what, _, when = text.strip().partition("@")
        name, _, rest = what.partition(":")
        step, _, rank = rest.partition(":")
        if name == kind and (not rank or int(rank) == place.rank) and when in ("", attempt):
            return int(step)
    return None


def pace(place: Place, usual: float) -> float:
    """Return the seconds one step takes."""
    return float(place.notes.get(PACE, usual))


def tests(place: Place) -> int:
    """Return how many tests one program runs."""
    return int(place.notes.get(_TESTS, "1"))
