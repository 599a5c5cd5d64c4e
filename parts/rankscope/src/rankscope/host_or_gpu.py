"""Whether a rank is late because of its host, by when each rank launched the awaited collectives (pure).

A host makes its rank late if it launched later than the others by as much as these waited. A late launch alone does not
prove that: a host that waits for its slow GPU launches late too. The steps in which the host launched in time, as after
the loss was read, decide: if the others wait as long in these, the GPU is slow. (On two H200, with DDP and FSDP2, they
waited 0.7 to 1.0 times as long if the GPU was slow, else 0.2 times at most.)
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

MIN_EXPLAINED = 0.75
"""Minimum share of the others' waiting time that late launches must explain for the host to be the cause."""
IN_TIME_SHARE, MIN_IN_TIME_STEPS_SHARE, AS_LONG_SHARE = 0.5, 0.05, 0.5
"""A launch is in time if its delay is below the first share of the usual wait; the GPU is slow if the others wait for
the third share of it in at least the second share of steps launched in time."""
MIN_STEPS_IN_TIME = 8
STEADY_QUEUE_SHARE, MIN_SAMPLES = 0.7, 8
"""A host runs ahead of its GPU if the age of its oldest open collective hardly changes: the tenth percentile of at
least MIN_SAMPLES is above this share of the median. A host that waits for its GPU in each step begins at zero."""
MIN_WAIT_ACROSS_CLOCKS = 5000
"""Minimum wait in microseconds at which clocks of different machines, up to 1 ms apart, show who launched late."""
MAX_COMPARED = 64
"""Maximum number of ranks that a late rank is compared with."""
UNHINDERED = 1.6
"""Maximum duration of a step without waiting, as a multiple of the host's shortest steps (their fifth percentile)."""
MIN_PACE_SHARE, MIN_PART_OF_WAIT = 0.05, 1 / 3
"""Minimum time lost by hosts, as shares of a step and of the wait for a late rank; with less, they may just wait."""


@dataclass(frozen=True, slots=True)
class RankLaunches:
    """The collectives of a rank in one group, by their number; all times are in microseconds."""

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
