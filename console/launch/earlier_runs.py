"""Statistics of earlier runs on one cluster: their speeds, start phases and durations."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from itertools import islice
from math import inf

from console.kube.objects.jobset import JobSet
from console.kube.objects.meta import short_name
from console.launch.run_database import RunHistory
from console.launch.run_record import Outcome
from console.metrics.start_phase import longest_phases
from console.metrics.time_spans import decode_recorded_spans
from console.scheduling.run_times import PastRun

SPEED_CACHE_SECONDS = 60.0  # seconds for which it is believed how fast earlier runs were
MAX_STARTS_COMPARED = 50  # latest runs by which it is known how long a start takes


class EarlierRuns:
    def __init__(self, history: RunHistory, server: str) -> None:
        self._history, self._server = history, server
        self._speeds: dict[tuple[str, int, str], list[float]] = {}  # of runs that have ended: recipe, GPUs, metric
        self._speeds_at = -inf
        self._phases: dict[str, tuple[float, Mapping[str, float]]] = {}  # by uid of a job: when it was read, and that

    async def list_past_runs(self) -> list[PastRun]:
        """Runs that ended by themselves, from which the duration of other runs is estimated."""
        return [
            PastRun(each.recipe, short_name(each.who), each.gpus, *each.run_seconds)
            for each in await self._history.list_runs()
            if each.server == self._server and each.outcome is Outcome.SUCCEEDED and each.started and each.ended
        ]

    async def speeds(self, recipe: str, gpus: int, metric: str) -> Sequence[float]:
        """The metric's value in each ended run of the recipe with that number of GPUs on this cluster."""
        if time.monotonic() > self._speeds_at + SPEED_CACHE_SECONDS:
            self._speeds_at, self._speeds = time.monotonic(), {}
            for run in await self._history.list_runs():
                if run.is_open or run.server != self._server:
                    continue
                for name, speed in (("tflops_per_gpu", run.tflops), ("tokens_per_s", run.tokens_per_s)):
                    if speed is not None:
                        self._speeds.setdefault((run.recipe, run.gpus, name), []).append(speed)
        return self._speeds.get((recipe, gpus, metric), ())

    async def phases(self, job: JobSet) -> Mapping[str, float]:
        """The longest duration (seconds) of each start phase in other runs of the job's recipe on as many GPUs."""
        read_at, known = self._phases.get(job.uid, (-inf, {}))
        if time.monotonic() > read_at + SPEED_CACHE_SECONDS:
            runs = await self._history.list_runs(job.recipe) if job.recipe else ()
            alike = self._server, job.gpus
            others = (run for run in runs if (run.server, run.gpus) == alike and run.uid != job.uid)
            some = [run.seen for run in islice(others, MAX_STARTS_COMPARED)]
            known = await asyncio.to_thread(lambda: longest_phases(decode_recorded_spans(each).phases for each in some))
            now = time.monotonic()
            fresh = {uid: each for uid, each in self._phases.items() if now <= each[0] + SPEED_CACHE_SECONDS}
            self._phases = {**fresh, job.uid: (now, known)}
        return known
