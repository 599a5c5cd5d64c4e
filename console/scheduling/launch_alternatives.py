"""Changes of a launch's values that would let it start now instead of waiting: the cheapest single ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from msgspec import Struct

from console.kube.snapshot import Fleet
from console.scheduling.launch_forecast import (
    LaunchDemand,
    LaunchVerdict,
    closed_queue_forecast,
    forecast,
    free_quota_gpus,
    rank_queues,
)
from console.scheduling.topology import MACHINE_GPUS

_FITTING_VERDICTS = {LaunchVerdict.NOW, LaunchVerdict.SPLIT}
_IMPROVABLE_VERDICTS = {LaunchVerdict.WAITS, LaunchVerdict.NEVER, LaunchVerdict.STOPPED}
MAX_ALTERNATIVES = 3


class LaunchAlternative(Struct, frozen=True):
    """A launch value that could be changed, with the change in words."""

    path: str  # of the chart's value
    value: int | str
    words: str


def launch_alternatives(fleet: Fleet, demand: LaunchDemand) -> tuple[LaunchAlternative, ...]:
    """Up to three changes that let a launch start now, cheapest first; empty if it fits or that is unknown."""
    if not demand.queue or demand.gpus <= 0 or forecast(fleet, demand).verdict not in _IMPROVABLE_VERDICTS:
        return ()
    return tuple(each for each, _ in zip(_iter_alternatives(fleet, demand), range(MAX_ALTERNATIVES), strict=False))


def _iter_alternatives(fleet: Fleet, demand: LaunchDemand) -> Iterator[LaunchAlternative]:
    if demand.topology == "required" and _would_start(fleet, replace(demand, topology="preferred")):
        yield LaunchAlternative("topology.request", "preferred", "with topology preferred")
    queue = next((each for each in rank_queues(fleet, demand) if each != demand.queue), "")
    if queue and _would_start(fleet, replace(demand, queue=queue)):
        yield LaunchAlternative("queue", queue, f"in queue {queue}")
    if demand.gpus <= MACHINE_GPUS or closed_queue_forecast(fleet, demand):
        return
    # Machines: a job of fewer fits wherever one of more does, and none fits of more than the quota that is free.
    fewer, too_many = 0, min(demand.pods, free_quota_gpus(fleet, demand) // MACHINE_GPUS + 1)
    while too_many - fewer > 1:
        middle = (fewer + too_many) // 2
        if _would_start(fleet, replace(demand, gpus=middle * MACHINE_GPUS)):
            fewer = middle
        else:
            too_many = middle
    if fewer:
        yield LaunchAlternative("gpus", fewer * MACHINE_GPUS, f"with {fewer * MACHINE_GPUS} GPUs")


def _would_start(fleet: Fleet, demand: LaunchDemand) -> bool:
    return forecast(fleet, demand).verdict in _FITTING_VERDICTS
