"""Durations in words: rounded down, as the ages in columns are."""

from __future__ import annotations

MINUTE = 60
HOUR = 60 * MINUTE
DAY = 24 * HOUR


def format_duration(seconds: float) -> str:
    """A duration as text, rounded down: "41 s", "4 min", "3 h 12 min", "4 d 2 h"."""
    whole = max(0, int(seconds))
    if whole < 2 * MINUTE:
        return f"{whole} s"
    if whole < HOUR:
        return f"{whole // MINUTE} min"
    large, small, units = (HOUR, MINUTE, ("h", "min")) if whole < DAY else (DAY, HOUR, ("d", "h"))
    rest = whole % large // small
    return f"{whole // large} {units[0]}" + (f" {rest} {units[1]}" if rest else "")
