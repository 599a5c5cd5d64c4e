"""The last figures that the logs of a job hold: its bandwidth, or its loss and step."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from console.errors import ConsoleError
from console.models.ranks import ranks
from console.models.training import standing

if TYPE_CHECKING:
    from console.models.fleet import Fleet
    from console.models.job import JobSet
    from console.models.log import LogLine
    from console.models.nccl import NcclTest
    from console.models.pod import Pod
    from console.models.training import Standing, TrainingRun
    from console.watched import WatchedCluster

TAIL = 20_000
"""Lines at the end of a log in which its last figures stand."""
LATE_TAIL = 200
"""Lines by which it is judged whether the next step is late."""
READING = 10.0
"""Seconds that reading such a log may take."""


async def last(cluster: WatchedCluster, jobset: JobSet, fleet: Fleet) -> tuple[dict[str, Any], str]:
    """What the log of the first pod, else of the last, says in the end; most programs print on one of the two.

    By the names of the fields of RunRecord; and that the next step is late, in words, by the times in that log.
    """
    pods = [rank.pod for rank in ranks(jobset, fleet) if rank.pod]
    for pod in dict.fromkeys((*pods[:1], *pods[-1:])):
        try:
            async with asyncio.timeout(READING):
                found, late = await _read(cluster, pod)
        except (ConsoleError, TimeoutError):
            continue  # a log that is gone or slow: the run is complete without
        if found:
            return found, late
    return {}, ""


async def _read(cluster: WatchedCluster, pod: Pod) -> tuple[dict[str, Any], str]:
    from console.cluster import logs
    from console.log_results import LogReading, read_lines

    wanted = logs.Wanted(pod.namespace, pod.name, pod.main.name if pod.main else "", TAIL, follow=False)
    lines: list[LogLine] = []
    async with aclosing(logs.follow_log(cluster.connected.client, wanted)) as printed:
        async for line in printed:
            lines.append(line)
    reading = LogReading()
    await asyncio.to_thread(reading.feed, "\n".join([*(line.text for line in lines), ""]).encode())
    reading.close()
    tests = busbw(reading.nccl)
    if tests or not reading.training:
        return tests, ""
    _, tracks, _ = await asyncio.to_thread(read_lines, lines[-LATE_TAIL:])
    return _progress(reading.training), tracks[-1].late(time.time()) if tracks else ""


def busbw(tests: tuple[NcclTest, ...]) -> dict[str, Any]:
    """The best bus bandwidth of some tests, and the last average."""
    peaks = [test.peak_busbw for test in tests if test.peak_busbw is not None]
    means = [test.avg_busbw for test in tests if test.avg_busbw is not None]
    found = {"peak_busbw": max(peaks, default=None), "average_busbw": means[-1] if means else None}
    return {figure: value for figure, value in found.items() if value is not None}


def _progress(training: tuple[TrainingRun, ...]) -> dict[str, Any]:
    steps = [step for run in training for step in run.steps]
    return progress(standing(steps)) if steps else {}


def progress(where: Standing) -> dict[str, Any]:
    """Where a training is: its last step, the last loss with its own step, and since when it is no number."""
    return {
        "step": where.step, "loss": where.loss, "loss_step": where.loss_step, "nan": where.nan,
        "nan_from": where.nan_from,
    }  # fmt: skip
