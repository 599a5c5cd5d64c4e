"""Alarms of jobs: each job that is watched is followed until it ends, and whoever asks hears what is wrong with it.

How much is enough the person says, see `console.thresholds`.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextlib import aclosing, asynccontextmanager, suppress
from typing import TYPE_CHECKING

from console.errors import ConsoleError
from console.models.alarm_watch import AlarmWatch, Look
from console.models.ranks import first_failure, ranks
from console.models.reference import Passing, judge
from console.models.training_marks import MarkKind
from console.thresholds import read_thresholds

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from console.follow import Follow
    from console.follow.joblog import JobLog
    from console.follow.pulse import Pulse
    from console.gpus import Gpus
    from console.measures import Measures
    from console.measures.job import JobMeasures
    from console.models.alarm import Alarm, Thresholds
    from console.models.fleet import Fleet
    from console.models.job import JobSet
    from console.watched import WatchedCluster

    Key = tuple[str, str]

LOOK_EVERY = 1.0
"""Seconds between two looks."""
TAIL = 2000
"""Lines of each rank that are read first."""
MOST = 16
"""Jobs that are watched at the same time; the one watched longest makes room."""


class WatchedJob:
    """One job that is watched: its alarms, and what was measured in it. `changes` says when."""

    def __init__(self, key: Key, thresholds: Thresholds) -> None:
        self.key = key
        self.watch = AlarmWatch(key, thresholds, time.time())
        self.measures: JobMeasures | None = None
        self.trouble: ConsoleError | None = None
        """What keeps it from being watched."""
        self.changed = asyncio.Event()
        self.advances: Counter[int] = Counter()
        """How often each rank told of another step."""


class Alarms:
    """The alarms of one session."""

    def __init__(
        self,
        cluster: WatchedCluster,
        follow: Callable[[], Follow],
        measures: Callable[[], Measures],
        gpus: Callable[[], Gpus],
        thresholds: Thresholds | None = None,
    ) -> None:
        """`thresholds`: instead of the person's."""
        self._cluster, self._follow, self._measures, self._gpus = cluster, follow, measures, gpus
        self._thresholds = thresholds
        self._kept: dict[Key, tuple[WatchedJob, asyncio.Task[None]]] = {}
        self._told = 0.0

    @property
    def thresholds(self) -> Thresholds:
        """How much is enough; BadInput if the person's file cannot be used."""
        if self._thresholds is None:
            self._thresholds = read_thresholds()
        return self._thresholds

    # for the whole session

    def keep(self, namespace: str, name: str) -> None:
        """Watch a job until it ends or the session does. Raises BadInput as `thresholds` does."""
        key = namespace, name
        if key in self._kept and not self._kept[key][1].done():
            return
        job = WatchedJob(key, self.thresholds)
        while len(self._kept) >= MOST:
            self._kept.pop(next(iter(self._kept)))[1].cancel()
        self._kept[key] = job, asyncio.create_task(self._watch(job), name=f"alarms:{name}")

    def of(self, namespace: str, name: str) -> tuple[Alarm, ...]:
        """The alarms of a job that is watched, as they are now."""
        kept = self._kept.get((namespace, name))
        return kept[0].watch.now if kept else ()

    @property
    def latest(self) -> list[Alarm]:
        """All alarms of this session, the newest first, those that are over too."""
        every = [alarm for job, _ in self._kept.values() for alarm in job.watch.alarms]
        return sorted(every, key=lambda alarm: -alarm.time)

    def news(self) -> list[Alarm]:
        """Alarms that began since this was last asked."""
        fresh = [alarm for alarm in self.latest if alarm.time > self._told]
        if fresh:
            self._told = fresh[0].time
        return fresh[::-1]

    def left(self) -> None:
        """The cluster is another one from here on."""
        for _, task in self._kept.values():
            task.cancel()
        self._kept.clear()

    async def close(self) -> None:
        """End everything."""
        tasks = [task for _, task in self._kept.values()]
        self._kept.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # one job

    @asynccontextmanager
    async def job(self, namespace: str, name: str, thresholds: Thresholds | None = None) -> AsyncIterator[WatchedJob]:
        """Watch a job for as long as the block runs; other thresholds than the person's may be given."""
        job = WatchedJob((namespace, name), thresholds or self.thresholds)
        task = asyncio.create_task(self._watch(job), name=f"alarms:{name}")
        try:
            yield job
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _watch(self, job: WatchedJob) -> None:
        try:
            async with self._measures().job(*job.key) as measures, self._follow().job(*job.key, tail=TAIL) as log:
                job.measures = measures
                await self._look_for_ever(job, log, measures)
        except ConsoleError as error:
            job.trouble = error
        finally:
            job.changed.set()

    async def _look_for_ever(self, job: WatchedJob, log: JobLog, measures: JobMeasures) -> None:
        from console.follow.pulse import Pulse

        pulse, faults = Pulse(), _Faults()
        tasks = [asyncio.create_task(self._hear(job, log, pulse)), asyncio.create_task(self._ask_gpus(job, faults))]
        try:
            while True:
                fleet = self._cluster.fleet
                jobset = fleet.jobsets.get(job.key)
                behind = {rank: pulse.behind(rank) for rank, told in job.advances.items() if told >= TELLS_STEPS}
                look = seen(jobset, fleet, measures, behind, faults.words, self._pass_line(job))
                job.watch.look(time.time(), look)
                job.changed.set()
                if look.finished and measures.over:
                    return
                for task in tasks:
                    if task.done() and not task.cancelled() and (mistake := task.exception()) is not None:
                        raise mistake
                await asyncio.sleep(LOOK_EVERY)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _pass_line(self, job: WatchedJob) -> float:
        return self.thresholds.busbw or self._measures().pass_line

    async def _hear(self, job: WatchedJob, log: JobLog, pulse: Pulse) -> None:
        """All lines: when they come, and what they tell."""
        from console.parsers.steps import launcher_step

        async with aclosing(log.lines()) as batches:
            async for batch in batches:
                now = time.time()
                for line in batch:
                    job.watch.hear(now, line.text, line.time)
                    if launcher_step(line.text) is not None:
                        continue
                    before = pulse.steps.get(line.rank)
                    pulse.add(line.rank, line.time, line.text.encode())
                    job.advances[line.rank] += pulse.steps.get(line.rank) != before
                await asyncio.sleep(0)

    async def _ask_gpus(self, job: WatchedJob, faults: _Faults) -> None:
        """Look at the GPUs now and then, where that may be done."""
        every = self.thresholds.gpus
        while every:
            with suppress(ConsoleError):  # a job without GPUs, or nobody who may look: there is nothing to tell
                board = await self._gpus().once(*job.key)
                faults.words = tuple(
                    f"rank {rank.rank} GPU {gpu.index}: {', '.join(gpu.faults)}"
                    for rank, gpu in board.every if gpu.faults
                )  # fmt: skip
            await asyncio.sleep(every)


TELLS_STEPS = 10
"""Steps a rank has told of when it is taken for one that tells of all its steps."""


class _Faults:
    """What was last found wrong with GPUs."""

    words: tuple[str, ...] = ()


def seen(
    jobset: JobSet | None,
    fleet: Fleet,
    measures: JobMeasures,
    behind: Mapping[int, int],
    gpus: tuple[str, ...],
    pass_line: float,
) -> Look:
    """How a job is in that picture, by what was measured in it."""
    every = ranks(jobset, fleet) if jobset else ()
    track = measures.track
    last = track.last if track else None
    failed = first_failure(jobset, fleet) if jobset else None
    marks = track.marks() if track else []
    nan = ""
    if track and track.nan:
        nan = next((mark.words for mark in reversed(marks) if mark.kind is MarkKind.NAN), "a loss is no number")
    tests = [(each, judge(each.test, pass_line, each.accelerator)) for each in measures.tests]
    return Look(
        running=bool(every) and all(rank.phase == "Running" for rank in every),
        finished=jobset is None or jobset.finished,
        restarts=(jobset.restarts if jobset else 0) + sum(rank.restarts for rank in every),
        restart_words=f"rank {failed.number} {failed.status}" if failed else "",
        step=last.step if last else None,
        step_time=track.series.times[-1] if track and len(track.series) else 0.0,
        steps=len(track.series) if track else 0,
        pace=track.pace() if track else None,
        trained=bool(track and track.finished),
        nan=nan,
        spikes=tuple((mark.step or 0.0, mark.time, mark.words) for mark in marks if mark.kind is MarkKind.SPIKE),
        failed_tests=tuple(
            (str(each.name), f"busbw: {told.why}") for each, told in tests if told.passing is Passing.FAILED
        ),
        behind=tuple((rank, by) for rank, by in behind.items() if by),
        gpus=gpus,
    )
