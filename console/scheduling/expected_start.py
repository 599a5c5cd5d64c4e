"""The expected start of a workload."""

from __future__ import annotations

from msgspec import Struct


class ExpectedStart(Struct, frozen=True):
    """The expected start time of a workload, or the reason why it is unknown."""

    at: float = 0.0  # seconds since the epoch; 0.0: not known
    after_job: str = ""  # the job whose end it waits for
    latest: bool = False  # whether it may start sooner, as it is not known how long some jobs still run
    unknown: str = ""  # why it is not known, a sentence without its end
    earliest: float = 0.0  # not before that, as what is known to run on says; 0.0: it may start at any time
    earliest_after: str = ""  # the job whose end that is; empty: none
    sooner: tuple[str, ...] = ()  # jobs of no known end: with the end of any of these it would start at once
    checks: tuple[str, ...] = ()  # admission checks of its queue, on which machines wait: then all this is of its quota
    window: tuple[float, float] | None = None  # in which it starts in 80 % of the rollouts; None: not known
