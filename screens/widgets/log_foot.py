"""The line below a log while it tells an alarm: what the log does stays in front of it (pure)."""

from __future__ import annotations

from dataclasses import dataclass

from rich.cells import cell_len

GAP = "  "


@dataclass(frozen=True, slots=True)
class Told:
    """What the line tells for a few seconds: in full, and so short that it fits beside anything."""

    full: str
    short: str


def beside(state: str, count: str, found: str, hits: str, told: Told, room: int) -> list[str]:
    """The parts of the line that fit into `room` cells: the alarm in full, else shorter, else at the cost of the rest.

    `found` and `hits` are what a search found, with and without what was searched for; empty: there is none.
    """
    ways = (
        (state, count, found, told.full),
        (state, count, found, told.short),
        (state, found, told.short),
        (state, hits, told.short),
    )
    kept = [[each for each in way if each] for way in ways]
    return next((each for each in kept if cell_len(GAP.join(each)) <= room), kept[-1])
