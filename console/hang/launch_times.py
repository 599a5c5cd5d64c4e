"""Whether its host makes a rank late: by when each rank launched the collectives that the others waited in (pure).

A host makes its rank late if it launched as much later than the others as these waited (on two H200 that told 92 to
100 % of the waiting; where the GPU was slow, 4 to 65 %), and if the GPU had nothing else to do. A host that runs ahead
of its GPU has launched long before, whenever one looks.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

EXPLAINED = 0.75
"""Of the waiting, by launches that are late by as much, where the host makes a rank late."""
RUNS_AHEAD, MIN_LOOKS = 0.7, 8
"""A tenth of the looks find a queue that is shorter than that part of the median one, unless the host runs ahead."""
CLOCKS_DIFFER = 5000
"""Microseconds that the others wait for a rank, so that clocks of several machines, up to 1 ms apart, can tell why."""
MOST_OTHERS = 64
"""Ranks that a late one is compared with."""


@dataclass(frozen=True, slots=True)
class Launches:
    """Of a rank in one group, by the number of the collective, and in microseconds."""

    at: Mapping[int, int]  # by the clock of its machine
    took: Mapping[int, int]  # on the GPU
    clock: str  # of what machine it is; empty: not told
    queued: Sequence[int]  # for how long the oldest one that was not over had been launched, at several moments

    @property
    def runs_ahead(self) -> bool:
        """Whether the host launches long before the GPU comes to it, so that a late launch delays nothing."""
        if len(self.queued) < MIN_LOOKS:
            return False
        return statistics.quantiles(self.queued, n=10)[0] > RUNS_AHEAD * statistics.median(self.queued)


def is_late_by_host(rank: int, several: Mapping[int, Launches], late: frozenset[int]) -> bool | None:
    """Whether the launches of a rank are as late as the others wait for it; `late`: it, and who else is.

    None if that is not known: its clock is of no machine that the others are on, and they wait for too short a time.
    """
    own = several[rank]
    if not own.clock:
        return None
    if own.runs_ahead:
        return False
    others = [each for number, each in several.items() if number not in late and each.clock]
    others.sort(key=lambda each: each.clock != own.clock)
    others = others[:MOST_OTHERS]
    known = [number for number in own.at if all(number in each.at for each in others)]
    if not known or not others:
        return None
    waits = {
        number: max(0.0, statistics.median(each.took[number] for each in others) - own.took[number]) for number in known
    }
    total = sum(waits.values())
    beside = [each for each in others if each.clock == own.clock]
    if not total or not (beside or sum(each * each for each in waits.values()) / total >= CLOCKS_DIFFER):
        return None
    by_launch = 0.0
    for number, wait in waits.items():
        later = own.at[number] - statistics.median(each.at[number] for each in beside or others)
        by_launch += min(max(0.0, later), wait)
    return by_launch >= EXPLAINED * total
