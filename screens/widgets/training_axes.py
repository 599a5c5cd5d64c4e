"""What stands on the axes of a chart: round values, steps and times in few letters (pure)."""

from __future__ import annotations

from datetime import datetime
from math import ceil, floor

from screens.widgets.plot import round_step


def round_values(low: float, high: float, parts: int) -> list[float]:
    """Round values between both ends, at most so many steps and one more."""
    step = round_step(high - low, parts + 1)
    return [step * number for number in range(ceil(low / step - 1e-9), floor(high / step + 1e-9) + 1)]


def tick_words(value: float) -> str:
    """A value of an axis in few letters: "2.5", "12,000", "3e-05"."""
    if value == 0:
        return "0"
    if abs(value) >= 100_000 or abs(value) < 0.001:
        return f"{value:.3g}".replace("e+0", "e").replace("e-0", "e-")
    return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"


def span_words(seconds: float) -> str:
    """Seconds since the start as an axis says it: "40s", "12m", "3h20"."""
    whole = round(seconds)
    if whole < 120:
        return f"{whole}s"
    if whole < 7200:
        return f"{whole // 60}m"
    return (
        f"{whole // 3600}h{whole % 3600 // 60:02d}" if whole < 172_800 else f"{whole // 86400}d{whole % 86400 // 3600}h"
    )


def time_step(span: float) -> float:
    """Seconds between two ticks of an axis that is so long."""
    return next(
        (each for each in (1, 5, 10, 30, 60, 300, 600, 1800, 3600, 7200, 14400, 43200) if span / each <= 8), 86400.0
    )


def clock_words(moment: float) -> str:
    """A moment on the wall clock."""
    return f"{datetime.fromtimestamp(moment).astimezone():%H:%M:%S}" if moment else ""
