"""The median; to import the module of statistics for it takes 2 ms, which each command would wait for."""

from __future__ import annotations

from collections.abc import Iterable


def median(values: Iterable[float]) -> float:
    """The middle one of these values, or the mean of the two in the middle; IndexError if there is none."""
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2
