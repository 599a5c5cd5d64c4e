"""The last figures that the logs of a job hold: its bandwidth, or its loss and step."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from console.errors import ConsoleError
from console.models.ranks import ranks

if TYPE_CHECKING:
    from console.models.fleet import Fleet
    from console.models.job import JobSet
    from console.models.nccl import NcclTest
    from console.models.pod import Pod
    from console.models.training import TrainingRun
    from console.watched import WatchedCluster

TAIL = 20_000
"""Lines at the end of a log in which its last figures stand."""
READING = 10.0
"""Seconds that reading such a log may take."""


async def last(cluster: WatchedCluster, jobset: JobSet, fleet: Fleet) -> dict[str, Any]:
    """What the log of the first rank, else of the last, says in the end; most programs print on one of the two.

    By the names of the fields of RunRecord.
    """
    pods = [rank.pod for rank in ranks(jobset, fleet) if rank.pod]
    for pod in dict.fromkeys((*pods[:1], *pods[-1:])):
        try:
            async with asyncio.timeout(READING):
                found = await _read(cluster, pod)
        except (ConsoleError, TimeoutError):
            continue  # a log that is gone or slow: the run is complete without
        if found:
            return found
    return {}


async def _read(cluster: WatchedCluster, pod: Pod) -> dict[str, Any]:
    from console.cluster import logs
    from console.log_results import LogReading

    wanted = logs.Wanted(pod.namespace, pod.name, pod.main.name if pod.main else "", TAIL, follow=False)
    lines: list[str] = []
    async with aclosing(logs.follow_log(cluster.connected.client, wanted)) as printed:
        async for line in printed:
            lines.append(line.text)
    reading = LogReading()
    await asyncio.to_thread(reading.feed, "\n".join([*lines, ""]).encode())
    reading.close()
    return busbw(reading.nccl) or _progress(reading.training)


def busbw(tests: tuple[NcclTest, ...]) -> dict[str, Any]:
    """The best bus bandwidth of some tests, and the last average."""
    peaks = [test.peak_busbw for test in tests if test.peak_busbw is not None]
    means = [test.avg_busbw for test in tests if test.avg_busbw is not None]
    found = {"peak_busbw": max(peaks, default=None), "average_busbw": means[-1] if means else None}
    return {figure: value for figure, value in found.items() if value is not None}


def _progress(training: tuple[TrainingRun, ...]) -> dict[str, Any]:
    steps = [step for run in training for step in run.steps]
    losses = [step.loss for step in steps if step.loss is not None]
    counted = [step.step for step in steps if step.step is not None]
    found = {"loss": losses[-1] if losses else None, "step": counted[-1] if counted else None}
    return {figure: value for figure, value in found.items() if value is not None}
