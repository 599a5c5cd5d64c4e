"""What alarms are judged by: the snapshot, the job's measurements, and a log or two of jobs nobody opened.

Of such a job the first and last ranks are followed, then only the one that tells of steps. Nothing of it goes to the
disk, and only so many steps are kept.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING

from console.errors import ConsoleError
from console.kube.objects.jobset import JobState
from console.logs.line import RankLine
from console.logs.line_splitter import text_of
from console.metrics.alarm_watch import AlarmWatch, Look
from console.metrics.gpu import DCGM
from console.metrics.job_progress import JobMeasures
from console.metrics.log_reader import LogReader
from console.metrics.nccl.reference import Passing, judge
from console.metrics.training.run import MarkKind
from console.metrics.training.steps import Standing
from console.pace import Slices
from console.scheduling.failure import first_deletion
from console.scheduling.ranks import first_failure, ranks

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from console.hang.report import HangReport
    from console.kube.objects.jobset import JobSet
    from console.kube.objects.pod import Pod
    from console.kube.snapshot import Fleet
    from console.kube.watched_cluster import WatchedCluster
    from console.logs.container_log import LogStream
    from console.metrics.alarm_rules import Thresholds
    from console.metrics.gpu import GpuBoard
    from console.metrics.gpus import Gpus
    from console.metrics.job_progress import Beginnings


TELLS_STEPS = 10  # steps a rank has told of when it is taken for one that tells of all its steps


def faults(board: GpuBoard) -> tuple[str, ...]:
    return tuple(f"pod {rank.rank} GPU {gpu.index}: {', '.join(gpu.faults)}" for rank, gpu in board.every if gpu.faults)


def seen(
    jobset: JobSet | None,
    fleet: Fleet,
    measures: JobMeasures,
    behind: Mapping[int, int],
    gpus: tuple[str, ...],
    pass_line: float,
    report: HangReport | None = None,
) -> Look:
    """How a job is in that picture, by what was measured in it; `report`: the last X-ray of it."""
    every = ranks(jobset, fleet) if jobset else ()
    track = measures.track
    last = track.last if track else None
    failed = first_failure(jobset, fleet) if jobset else None
    marks = track.marks() if track else []
    where = track.standing() if track else Standing()
    # What is saved once the loss is no number is of no use.
    of_use = [mark for mark in track.checkpoints if mark.step is not None] if track else []
    if where.nan_from is not None:
        of_use = [mark for mark in of_use if mark.step is not None and mark.step < where.nan_from]
    tests = [(each, judge(each.test, pass_line, each.accelerator)) for each in measures.tests]
    return Look(
        running=bool(every) and all(rank.phase == "Running" for rank in every),
        finished=jobset is None or jobset.finished,
        restarts=(jobset.restarts if jobset else 0) + sum(rank.restarts for rank in every),
        restart_words=f"pod {failed.number} {failed.status}" if failed else "",
        step=last.step if last else None,
        step_time=track.times[-1] if track and len(track) else 0.0,
        steps=len(track) if track else 0,
        pace=track.pace() if track else None,
        trained=bool(track and track.finished),
        rhythm=track.rhythm() if track else None,
        blamed=f"X-ray: {report.short.rstrip('.')}" if report is not None and report.alarming else "",
        blamed_at=report.at if report is not None else 0.0,
        nan="" if measures.seeking else where.nan_words,
        nan_at=max((mark.time for mark in marks if mark.kind is MarkKind.NAN), default=0.0) if where.nan else 0.0,
        failed_at=jobset.finished_at if jobset else 0.0,
        saved=f"step {of_use[-1].step:,.0f}" if of_use else "",
        held=jobset.gpus if jobset and not jobset.finished else 0,
        spikes=tuple((mark.step or 0.0, mark.time, mark.words) for mark in marks if mark.kind is MarkKind.SPIKE),
        failed_tests=tuple(
            (str(each.name), f"busbw: {told.why}") for each, told in tests if told.passing is Passing.FAILED
        ),
        behind=tuple((rank, by) for rank, by in behind.items() if by),
        gpus=gpus,
        failed=_failure(jobset, fleet) if jobset else "",
        stopped=jobset is None or bool(jobset.deleting_since),
    )


def _failure(jobset: JobSet, fleet: Fleet) -> str:
    if jobset.state is not JobState.FAILED:
        return ""
    deleted, first = first_deletion(jobset, fleet), first_failure(jobset, fleet)
    if deleted is not None and first is None:
        return f"pod {deleted.rank} was deleted"
    return f"pod {first.number} {first.status}" if first else jobset.failure.rstrip(".") or "see a4 why"


if TYPE_CHECKING:
    Open = Callable[[Pod], LogStream]

TAIL = 400  # lines at the end of a log that are read first
AGAIN = 15.0  # seconds until a log that ended or was refused is asked for again
QUIET = 120.0  # seconds after which the other rank is heard again: another program of the job may print there
AT_A_TIME = 16  # lines that are read before others get their turn
MAX_STEPS = 20_000


class JobWatcher:
    """Its alarms are in `watch`; `look` is to be called every second or two, `close` at the end."""

    def __init__(
        self,
        cluster: WatchedCluster,
        key: tuple[str, str],
        thresholds: Thresholds,
        gpus: Callable[[], Gpus],
        open_log: Open,
        beginnings: Callable[[], Beginnings],
        watch: AlarmWatch | None = None,
    ) -> None:
        self.watch = watch or AlarmWatch(key, thresholds, time.time())
        self.refused = ""  # why its log cannot be followed
        self._cluster, self._key, self._thresholds = cluster, key, thresholds
        self._gpus, self._open, self._beginnings = gpus, open_log, beginnings
        self.measures = JobMeasures(key)
        self._number = 0
        self._reader = LogReader(self.measures, 0)
        self._teller: int | None = None  # the rank that tells of steps or tests
        self._tasks: dict[tuple[str, int, int], asyncio.Task[None]] = {}
        """By the uid of the pod, its rank, and how often its container was restarted."""
        self._heard: dict[int, float] = {}  # when each rank printed its last line, by the clock of its node
        self._again: dict[tuple[str, int, int], float] = {}
        self._seen: JobSet | None = None
        self._faults: tuple[str, ...] = ()
        self._asking: asyncio.Task[None] | None = None
        self._asked = 0.0

    @property
    def seeking(self) -> bool:
        """Whether it is being looked for since when its loss is no number: a moment, and then it is an alarm."""
        return self.measures.seeking

    @property
    def streams(self) -> int:
        return sum(not task.done() for task in self._tasks.values())

    @property
    def heard(self) -> bool:
        """Whether its log is followed, or ended by itself."""
        return bool(self._tasks) and not self.refused

    @property
    def late_by_log(self) -> str:
        """That its next step is late by the times in its log, in words; empty: it is not, or that cannot be said."""
        track = self.measures.track
        return track.late(time.time(), self._thresholds) if track is not None and self.heard else ""

    def wants(self, number: int) -> int:
        """How many logs it would like to follow, of a job of so many ranks."""
        return 1 if self._teller is not None or number < 2 else 2

    def look(self, streams: int, pass_line: float, report: HangReport | None = None) -> bool:
        """How the job is now, with so many of its logs; whether it goes on."""
        fleet, now = self._cluster.fleet, time.time()
        jobset = fleet.jobsets.get(self._key)
        if jobset is not None and jobset is self._seen and not (streams or self._tasks):
            return True  # of a job that is not heard only the picture tells
        self._seen = jobset
        if jobset is not None:
            self.measures.place(jobset, fleet, "")
            self._follow(streams)
            self._ask_gpus(now)
        elif self._cluster.fleet.links["jobsets"].state.value != "live":
            return True  # nobody knows
        found = seen(jobset, fleet, self.measures, {}, self._faults, pass_line, report)
        if not self.heard:
            found = replace(found, step=None, step_time=0.0)  # of a log that is not followed no step is awaited
        self.watch.look(now, found)
        return not found.finished

    def _follow(self, streams: int) -> None:
        """Follow so many logs of what runs, and end the others."""
        every = ranks(self._cluster.fleet.jobsets[self._key], self._cluster.fleet)
        if self._teller is not None and time.time() - self.watch.line_at > QUIET:
            self._teller = None
        if len(every) != self._number:
            self._number, self._reader = len(every), LogReader(self.measures, len(every))
        chosen = [0, len(every) - 1] if self._teller is None else [self._teller]
        wanted: dict[tuple[str, int, int], Pod] = {}
        for number in dict.fromkeys(chosen[:streams]):
            pod = every[number].pod if number < len(every) else None
            if pod is not None and pod.main is not None and pod.main.state == "running":
                wanted[(pod.uid, number, pod.main.restarts)] = pod
        named = " nor ".join(f"pod {number}" for number in sorted({number for _, number, _ in wanted}))
        alone = f"{named} has not" if named else "no pod has"
        self.watch.quiet = f"neither {named} has" if " nor " in named else alone
        for name in set(self._tasks) - set(wanted):
            self._tasks.pop(name).cancel()
        for name, pod in wanted.items():
            task = self._tasks.get(name)
            if task is None or (task.done() and time.monotonic() > self._again.get(name, 0.0)):
                self._tasks[name] = asyncio.create_task(self._hear(name, pod), name=f"listening:{pod.name}")

    async def _hear(self, name: tuple[str, int, int], pod: Pod) -> None:
        _, rank, _ = name
        since = self._heard.get(rank, 0.0)
        container = pod.main.name if pod.main else ""
        try:
            stream = self._open(pod)
            async with aclosing(stream.batches()) as batches:
                async for batch in batches:
                    self.refused = ""
                    if not batch:  # a progress bar was drawn on
                        self.watch.hear(time.time(), stream.open.decode(errors="replace"))
                        continue
                    lines = [
                        RankLine(rank, moment, text_of(raw).decode(errors="replace"), pod.attempt, pod.name, container)
                        for moment, raw in batch
                        if not since or moment > since
                    ]
                    self._heard[rank] = max([self._heard.get(rank, 0.0), *(line.time for line in lines)])
                    await self._take(rank, lines)
                    if self._seen is not None and rank == self._teller:
                        await self.measures.find_beginning(self._beginnings(), self._seen.uid, [pod])
        except ConsoleError as error:
            self.refused = error.message
        finally:
            self._again[name] = time.monotonic() + AGAIN

    async def _take(self, rank: int, lines: list[RankLine]) -> None:
        now = time.time()
        slices = Slices()
        for start in range(0, len(lines), AT_A_TIME):
            some = lines[start : start + AT_A_TIME]
            for line in some:
                self.watch.hear(now, line.text, line.time)
            if self._reader.take(some) and self._teller is None:
                self._teller = rank
            await slices.pause()
        track = self.measures.track
        if track is not None and len(track) > MAX_STEPS:
            self.measures.forget()
            self._reader = LogReader(self.measures, self._number)
        await asyncio.sleep(0)

    def _ask_gpus(self, now: float) -> None:
        """Look at the DCGM exporters now and then: in pods that nobody looks at no program is run."""
        every = self._thresholds.gpus
        idle = self._asking is None or self._asking.done()
        if every and idle and now > self._asked + every and self._gpus().exporter_of(*self._key):
            self._asked = now
            self._asking = asyncio.create_task(self._read_gpus(), name=f"gpus:{self._key[1]}")

    async def _read_gpus(self) -> None:
        try:
            self._faults = faults(await self._gpus().once(*self._key, source=DCGM))
        except ConsoleError:
            self._faults = ()  # nobody who may look: there is nothing to tell

    async def close(self) -> None:
        tasks = [*self._tasks.values(), *([self._asking] if self._asking else [])]
        self._tasks = {}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
