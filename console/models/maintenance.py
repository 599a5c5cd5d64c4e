"""Maintenance windows in words (pure)."""

from __future__ import annotations

from datetime import UTC, datetime

_DAYS = {
    "MO": "Mondays", "TU": "Tuesdays", "WE": "Wednesdays", "TH": "Thursdays", "FR": "Fridays", "SA": "Saturdays",
    "SU": "Sundays",
}  # fmt: skip
_PACE = {"DAILY": "daily", "WEEKLY": "weekly", "MONTHLY": "monthly"}


def window_words(recurrence: str, start: float, end: float) -> str:
    """When maintenance may happen: "Saturdays and Sundays, 02:00 to 08:00 UTC"; `recurrence` is an RFC 5545 rule."""
    rule = dict(part.split("=", 1) for part in recurrence.removeprefix("RRULE:").split(";") if "=" in part)
    days = [_DAYS.get(day, day) for day in rule.get("BYDAY", "").split(",") if day]
    named = " and ".join(filter(None, (", ".join(days[:-1]), days[-1]))) if days else ""
    pace = named or _PACE.get(rule.get("FREQ", ""), recurrence)
    known = {"FREQ", "BYDAY", "WKST"}
    rest = f" ({recurrence})" if set(rule) - known else ""
    return f"{pace}, {_hour(start)} to {_hour(end)} UTC{rest}"


def exclusion_words(name: str, start: float, end: float) -> str:
    """When there is none: "none from 26 Nov to 3 Dec (big-run)"."""
    return f"none from {_day(start)} to {_day(end)} ({name})"


def _hour(moment: float) -> str:
    return f"{datetime.fromtimestamp(moment, UTC):%H:%M}"


def _day(moment: float) -> str:
    when = datetime.fromtimestamp(moment, UTC)
    return f"{when.day} {when:%b}"
