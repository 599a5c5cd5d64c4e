"""Whether a rank is late because of its host, by when each rank launched the awaited collectives (pure).

A host makes its rank late if it launched as much later than the others as these waited. That a host launches later need
not be the cause: one that waits for its slow GPU does so too. What tells them apart are the steps in which it launched
in time, as after the loss was read: where the others wait as long in these, its GPU is slow. (On two H200, with DDP and
FSDP2, they waited 0.7 to 1.0 times as long where the GPU was slow, else 0.2 times at most.)
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

MIN_EXPLAINED = 0.75
"""The host is the cause if its late launches explain at least this part of the time that the others waited."""
IN_TIME_SHARE, MIN_IN_TIME_STEPS_SHARE, AS_LONG_SHARE = 0.5, 0.05, 0.5
"""A launch is in time if it is later than those of the others by less than that part of the usual wait; of so many
steps at least, in which the others wait for at least that part of it."""
MIN_STEPS_IN_TIME = 8
STEADY_QUEUE_SHARE, MIN_SAMPLES = 0.7, 8
"""A host runs ahead of its GPU if the age of its oldest open collective hardly changes: the tenth percentile of at
least so many samples is above this part of the median. A host that waits for its GPU in each step begins at zero."""
MIN_WAIT_ACROSS_CLOCKS = 5000
"""Microseconds of waiting from which clocks of different machines, up to 1 ms apart, tell who launched late."""
MAX_COMPARED = 64
"""Ranks that a late one is compared with."""
UNHINDERED = 1.6
"""Times as long as the shortest steps of a host (their fifth percentile) are its steps in which it did not wait."""
MIN_PACE_SHARE, MIN_PART_OF_WAIT = 0.05, 1 / 3
"""Of the time, and of the wait for a late rank: where hosts lose less than that, they may wait in each step."""


@dataclass(frozen=True, slots=True)
class RankLaunches:
    """The collectives of a rank in one group, by number; all times are in microseconds."""

    launched: Mapping[int, int]  # when, by the clock of its machine
    on_gpu: Mapping[int, int]  # for how long it was in it
    clock: str  # the machine whose clock it is; empty: not told
    open_ages: Sequence[int]  # ages of its oldest open collective, at several moments
    cut: bool = False  # these are only its last ones

    @property
    def mean_interval(self) -> float:
        """The mean time from one launch of a collective to the next."""
        if len(self.launched) < 2:
            return 0.0
        first, last = min(self.launched), max(self.launched)
        return (self.launched[last] - self.launched[first]) / (last - first)

    @property
    def runs_ahead(self) -> bool:
        """Whether the host launches so long before the GPU is ready that a late launch delays nothing."""
        if len(self.open_ages) < MIN_SAMPLES:
            return False
        return statistics.quantiles(self.open_ages, n=10)[0] > STEADY_QUEUE_SHARE * statistics.median(self.open_ages)


def share_beyond_hosts(other_launches: Sequence[RankLaunches], size: int) -> float:
    """The share of step time for which GPUs wait, less the time that hosts take to launch collectives."""
    shares = []
    for each in other_launches:
        launched, span = each.launched, each.mean_interval * size
        took = sorted(launched[at + size] - launched[at] for at in launched if at + size in launched)
        unhindered = [one for one in took if one <= UNHINDERED * took[len(took) // 20]]
        shares += [1 - statistics.fmean(unhindered) / span] if unhindered and span > 0 else []
    return statistics.median(shares) if shares else 0.0


def is_late_by_host(
    rank: int, of_rank: Mapping[int, RankLaunches], late: frozenset[int], longest: Sequence[int]
) -> bool | None:
    """Whether a late rank is late because its host launches collectives late; None if unknown."""
    own = of_rank[rank]
    if not own.clock:
        return None
    others = [each for number, each in of_rank.items() if number not in late and each.clock]
    others.sort(key=lambda each: each.clock != own.clock)
    others = others[:MAX_COMPARED]
    known = [number for number in longest if number in own.launched and all(number in each.launched for each in others)]
    if not known or not others:
        return None
    same_clock = [each for each in others if each.clock == own.clock]
    waits = [
        max(0.0, statistics.median(each.on_gpu[number] for each in others) - own.on_gpu[number]) for number in known
    ]
    # Their mean, in which long ones count for more: of many collectives a few may have all the waiting
    total = sum(waits)
    if not total or not (same_clock or sum(each * each for each in waits) / total >= MIN_WAIT_ACROSS_CLOCKS):
        return None
    if own.runs_ahead:
        return False
    later = [
        own.launched[number] - statistics.median(each.launched[number] for each in same_clock or others)
        for number in known
    ]
    usual = total / len(waits)
    in_time = [wait for wait, each in zip(waits, later, strict=True) if each <= IN_TIME_SHARE * usual]
    if len(in_time) >= max(min(MIN_STEPS_IN_TIME, len(waits)), MIN_IN_TIME_STEPS_SHARE * len(waits)) and (
        statistics.fmean(in_time) >= AS_LONG_SHARE * usual
    ):
        return False
    explained = sum(min(max(0.0, each), wait) for wait, each in zip(waits, later, strict=True))
    return True if explained >= MIN_EXPLAINED * total else None
