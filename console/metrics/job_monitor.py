"""Monitors one job: its measurements and its alarms, for the list, its page and commands.

An opened job is read by the logs of all its pods, shared by all readers. Another job is read by the logs of its first
and last pods, then only by the one that has the steps; its lines are not stored on disk, and only some of its steps.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

from msgspec.structs import replace

from console.alarm_thresholds import Thresholds
from console.detached_tasks import start_task
from console.errors import ConsoleError
from console.kube.objects.jobset import JobSet, JobState
from console.kube.objects.pod import Pod
from console.kube.snapshot import Fleet
from console.kube.stream_completeness import SERVER_CLOCK, SERVER_QUIET_SECONDS
from console.logs.log_line import PodLine, decode_line
from console.metrics.alarm import INSPECTED_PREFIX, AlarmKind
from console.metrics.alarm_rules import AlarmWatch, JobSample
from console.metrics.diagnosis import Diagnosis, find_blame
from console.metrics.gpu_metrics import DCGM, GpuBoard
from console.metrics.health import is_kept, job_health
from console.metrics.job_measures import JobMeasures, LogReader
from console.metrics.job_progress import JobProgress, progress_of_measures
from console.metrics.step_cadence import cadence_of_rows
from console.metrics.time_spans import TimeSpan
from console.metrics.training_run import RunEventKind, Slowdown, TrainingRun
from console.scheduling.pod_failure import first_deletion
from console.scheduling.pod_slots import first_failure, pod_slots
from console.work_slices import WorkSlices
from trainlog import NcclResult, Redactor, RunPosition, judge_test

if TYPE_CHECKING:
    from console.kube.watched_cluster import WatchedCluster
    from console.logs.container_log import LogStream
    from console.metrics.gpu_reader import GpuReader
    from console.metrics.measure_service import MeasureService


MIN_STEPS_OF_REPORTER = 10  # steps a rank has told of when it is taken for one that tells of all its steps


def gpu_faults(board: GpuBoard) -> tuple[str, ...]:
    return tuple(
        f"pod {rank.rank} GPU {gpu.index}: {', '.join(gpu.faults)}" for rank, gpu in board.all_gpus if gpu.faults
    )


def sample_job(
    jobset: JobSet | None,
    fleet: Fleet,
    measures: JobMeasures,
    steps_behind: Mapping[int, int],
    gpus: tuple[str, ...],
    pass_line: float,
    diagnosis: Diagnosis | None = None,
) -> JobSample:
    """A job's state for its alarms, ended if `jobset` is None; `diagnosis` names the rank that others wait for."""
    every = pod_slots(jobset, fleet) if jobset else ()
    track = measures.track
    last = track.last if track else None
    all_steps = last is not None and last.has_all_steps
    rhythm = track.cadence() if track and not all_steps else None
    failed = first_failure(jobset, fleet) if jobset else None
    marks = track.list_events() if track else []
    where = track.position() if track else RunPosition()
    # What is saved once the loss is no number is of no use.
    of_use = [mark for mark in track.checkpoints if mark.step is not None] if track else []
    if where.nan:
        of_use = [mark for mark in of_use if mark.step is not None and mark.step < (where.nan_from or 0)]
    tests = [(each, judge_test(each.test, pass_line, each.accelerator)) for each in measures.tests]
    found = JobSample(
        running=bool(every) and all(rank.phase == "Running" for rank in every),
        finished=jobset is None or jobset.finished,
        restarts=(jobset.restarts if jobset else 0) + sum(rank.restarts for rank in every),
        restart_words=f"pod {failed.number} {failed.status}" if failed else "",
        step=last.step if last else None,
        step_at=track.times[-1] if track and len(track) else 0.0,
        steps=len(track) if track else 0,
        start=measures.start,
        pace=rhythm.usual(track.pace()) if track and rhythm else None,
        trained=bool(track and track.finished),
        all_steps=all_steps,
        rhythm=rhythm,
        blamed=f"{INSPECTED_PREFIX}{diagnosis.words}" if diagnosis is not None and diagnosis.words else "",
        blamed_at=diagnosis.at if diagnosis is not None else 0.0,
        nan="" if measures.needs_nan_search else where.nan_words,
        nan_at=where.nan_at,
        failed_at=jobset.finished_at if jobset else 0.0,
        saved_words=f"step {of_use[-1].step:,.0f}" if of_use else "",
        held=jobset.gpus if jobset and not jobset.finished else 0,
        spikes=tuple((mark.step or 0.0, mark.time, mark.words) for mark in marks if mark.kind is RunEventKind.SPIKE),
        failed_tests=tuple(
            (str(each.name), f"busbw: {judged.why}") for each, judged in tests if judged.passing is NcclResult.FAILED
        ),
        behind=tuple((rank, by) for rank, by in steps_behind.items() if by),
        gpu_faults=gpus,
        failure=_failure_text(jobset, fleet) if jobset else "",
        stopped=jobset is None or bool(jobset.deletion_asked_at),
        pod_nodes=tuple(rank.node for rank in every),
        blamed_nodes=find_blame((), diagnosis).nodes,
        faulty_nodes=tuple(
            dict.fromkeys(each.node for each in measures.gpus if each.node and any(gpu.faults for gpu in each.gpus))
        ),
        failed_node=failed.node if failed else "",
    )
    if jobset is not None and (progress := progress_of_measures(measures, fleet.at, pass_line)) is not None:
        found = _with_kept_end(found, jobset, fleet, progress)
    test = measures.tests[-1] if measures.tests and track is None else None
    rows = cadence_of_rows(test.test) if test is not None else None
    if test is None or rows is None:
        return found
    number, size = sum(len(each.test.rows) for each in measures.tests), test.test.rows[-1].size
    return replace(found, step=number, steps=number, step_at=test.at, rhythm=rows, pace=rows.pace, row_bytes=size)


def _with_kept_end(sample: JobSample, jobset: JobSet, fleet: Fleet, progress: JobProgress) -> JobSample:
    """The sample, marked as ended if the program has ended although the pods are kept."""
    if not is_kept(jobset, progress) or progress.end is None:
        return sample
    health = job_health(jobset, fleet, job_progress=progress)
    failed = progress.reason if progress.end.code else ""
    kept = "" if progress.in_use or not jobset.gpus else f"{health.state}: {health.words}"
    return replace(
        sample,
        trained=True,
        ended_at=progress.end.time,
        kept=kept,
        failure=failed,
        failed_at=progress.end.time if failed else 0.0,
    )


def _failure_text(jobset: JobSet, fleet: Fleet) -> str:
    if jobset.state is not JobState.FAILED:
        return ""
    deleted, first = first_deletion(jobset, fleet), first_failure(jobset, fleet)
    if deleted is not None and first is None:
        return f"pod {deleted.rank} was deleted"
    return f"pod {first.number} {first.status}" if first else jobset.failure.rstrip(".") or "see a4 why"


FIRST_TAIL_LINES = 400  # lines at the end of a log that are read first
POLL_SECONDS = 1.0  # seconds between two looks at a job all of whose log is read
LOG_RETRY_SECONDS = 15.0  # seconds until a log that ended or was refused is asked for again
REPORTER_QUIET_SECONDS = 120.0  # after which the other rank is heard again: another program of the job may print there
INSPECTION_PAUSE = 60.0  # seconds after which a job that still hangs is inspected a third time, then twice as many
BATCH_LINES = 16  # lines that are read before others get their turn


def _open_log(cluster: WatchedCluster, pod: Pod) -> LogStream:
    """The log of the pod's main container, with secrets redacted."""
    from console.logs.container_log import LogRequest, LogStream

    wanted = LogRequest(pod.namespace, pod.name, pod.main.name if pod.main else "", FIRST_TAIL_LINES)
    return LogStream(cluster.current_connection.client, wanted, clean_lines=Redactor().redact_lines)


@dataclass(frozen=True)
class MonitorSources:
    """The services that job monitors read from: cluster, logs, GPUs, inspections of processes."""

    cluster: WatchedCluster
    measures: Callable[[], MeasureService]
    gpus: Callable[[], GpuReader]
    diagnosis: Callable[[str], Diagnosis | None] = lambda _: None  # by uid, the rank that the others wait for
    inspect: Callable[[tuple[str, str]], Awaitable[None]] | None = None  # inspects a stalled job; None: never
    find_late_rank: Callable[[tuple[str, str], float | None], Awaitable[None]] | None = None
    """Asks NCCL of a job (given the seconds of a step) which rank launches later than the others; None: never."""
    store_slowdown: Callable[[str, Slowdown | None], Coroutine[None, None, None]] | None = None
    """Stores, by JobSet uid, that a job's steps became slower, or (None) normal again; None: never."""
    find_own_job: Callable[[tuple[str, str]], Awaitable[object]] | None = None
    """Raises NotAllowed if a job may not be inspected automatically; None: a person requested the readings."""
    open_log: Callable[[WatchedCluster, Pod], LogStream] = _open_log


class _BackgroundWork:
    """Tasks that a monitor starts beside reading logs, at most one of each kind at a time."""

    def __init__(self, job: str) -> None:
        self._job, self.tasks = job, dict[str, asyncio.Task[None]]()

    def is_free(self, task_name: str) -> bool:
        return task_name not in self.tasks or self.tasks[task_name].done()

    def begin(self, task_name: str, coroutine: Coroutine[None, None, None]) -> None:
        self.tasks[task_name] = asyncio.create_task(coroutine, name=f"{task_name}:{self._job}")


async def _cancel_tasks(tasks: Collection[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class JobMonitor:
    """Monitors one job; measurements are in `measures`, alarms in `watch`.

    After `start_following` it reads the logs of all pods. Without it, `update_streams(n)` every second or two follows
    at most n logs (0: only the snapshot), and returns whether the job still runs. `close` ends it.
    """

    def __init__(
        self, key: tuple[str, str], thresholds: Thresholds, sources: MonitorSources, watch: AlarmWatch | None = None
    ) -> None:
        """`watch`: an earlier monitor's AlarmWatch of this job, to continue its alarms."""
        self.key = key
        self.watch = watch or AlarmWatch(key, thresholds, SERVER_CLOCK.now())
        self.measures = JobMeasures(key)
        self.measures.complete_until = lambda _: min(
            (each.complete_until for each in self._streams.values()), default=inf
        )
        self.faults: tuple[str, ...] = ()  # what was last found wrong with its GPUs
        self.refused = ""  # why its log cannot be followed
        self.error: ConsoleError | None = None  # what keeps it from being watched
        self.is_complete = False  # whether the job has ended, all its log was read, and the alarms are final
        self._sources, self._cluster, self._thresholds = sources, sources.cluster, thresholds
        self._rank_count = 0
        self._reader = LogReader(self.measures, 0)
        self._reporting_rank: int | None = None  # the rank that tells of steps or tests
        self._following: asyncio.Task[None] | None = None  # reads the logs of all pods
        self._tasks: dict[tuple[str, int, int], asyncio.Task[None]] = {}  # by pod uid, rank, restarts
        self._streams: dict[int, LogStream] = {}  # of each rank the log that is read
        self._last_printed_at: dict[int, float] = {}  # when each rank printed its last line, by the clock of its node
        self._retry_at: dict[tuple[str, int, int], float] = {}
        self._seen: JobSet | None = None
        self.is_at_rest = False  # whether it was looked at, and no log is followed: a change of its JobSet tells more
        self._works = _BackgroundWork(key[1])
        self._asked = 0.0  # when its GPUs were read, or an exporter to read them from was looked for
        self._inspected_at, self._look_again = 0.0, 0.0  # when it was inspected, and when another inspection is due
        self._slowdown: Slowdown | None = None  # what was stored
        self._reported_slowdown = ""  # the words of the change to slower steps for which NCCL was asked
        self._uninspected = ("", 0.0)  # why the last inspection that was not asked for told nothing, and when

    def start_following(self) -> None:
        """Start a task that reads the logs of all the job's pods until the job has ended; returns at once."""
        self._following = start_task(self._follow_all(), f"alarms:{self.key[1]}")

    @property
    def has_started(self) -> bool:
        return self._following is not None

    @property
    def has_ended(self) -> bool:
        """Whether the monitor once read the logs of all pods, and has stopped doing so."""
        return self._following is not None and self._following.done()

    @property
    def is_followed(self) -> bool:
        """Whether the job's log is being followed, or has ended by itself."""
        return bool(self._tasks) and not self.refused

    @property
    def is_lagging(self) -> bool:
        """Whether later steps may be unread: a log arrives faster than it is read, or old lines are still read."""
        old = self.watch.is_reading_old_lines(SERVER_CLOCK.now()) or self.measures.is_reading_old_lines
        return old or any(stream.is_lagging for stream in self._streams.values())

    def list_spans(self, now: float) -> list[TimeSpan]:
        """The job's time as spans by its log, up to now or its last line; [] while lines are still unread."""
        if self.is_lagging:
            return []
        is_read = self.error is None if self.has_started else self.is_followed
        return self.measures.list_spans(now - self.measures.missing_seconds if is_read else 0.0, self._thresholds)

    @property
    def progress(self) -> JobProgress | None:
        """The progress according to the log; None if the log does not show any."""
        return progress_of_measures(self.measures, SERVER_CLOCK.now() - self.measures.missing_seconds, self._pass_line)

    def needed_log_count(self, rank_count: int) -> int:
        """The number of logs that the monitor has to follow of a job with `rank_count` ranks."""
        return 1 if self._reporting_rank is not None or rank_count < 2 else 2

    @property
    def _pass_line(self) -> float:
        return self._thresholds.busbw or self._sources.measures().pass_line

    async def load_earlier_phases(self) -> None:
        """Read the durations of start phases in earlier runs, unless the job has made a step."""
        jobset = self._cluster.fleet.jobsets.get(self.key)
        if jobset is not None and not jobset.finished and self.measures.start is not None:
            with suppress(ConsoleError):  # then it is not known, and nothing is late by it
                self.measures.earlier_phases = await self._sources.measures().earlier_phases(jobset)

    def _sample_job(self, steps_behind: Mapping[int, int]) -> JobSample:
        fleet = self._cluster.fleet
        jobset = fleet.jobsets.get(self.key)
        diagnosis = self._sources.diagnosis(jobset.uid) if jobset is not None else None
        pass_line = self._pass_line if self.measures.tests else 0.0  # GB/s; the settings are looked at for it
        found = sample_job(jobset, fleet, self.measures, steps_behind, self.faults, pass_line, diagnosis)
        missing = max(self.measures.missing_seconds, self._cluster.missing_seconds("jobsets", "pods"))
        found = replace(found, missing_seconds=missing)
        known = self._sources.measures().progress_reader.progress_of(jobset.uid) if jobset is not None else None
        if jobset is not None and known is not None and not found.ended_at:  # told by a pod whose log is not followed
            found = _with_kept_end(found, jobset, fleet, known)
        why, at = self._uninspected
        return replace(found, blamed=f"not inspected: {why}", blamed_at=at) if at > found.blamed_at else found

    def _evaluate_alarms(self, now: float, sample: JobSample) -> None:
        """Evaluate the alarms, and start the inspections that they call for.

        A late job is inspected at once, when its lateness becomes an alarm, and then after `INSPECTION_PAUSE`, each
        time twice as late, until a rank is named: a busy pod may answer too late. After each slowdown NCCL is asked
        once which rank is late.
        """
        self.watch.evaluate(now, sample)
        self._store_slowdown(self.measures.track)
        stall = next((each for each in self.watch.active if each.kind is AlarmKind.STALL), None)
        since = stall.time if stall is not None else self.watch.step_at if self.watch.late_text else 0.0
        if not self._thresholds.inspect:
            return
        inspect, find = self._sources.inspect, self._sources.find_late_rank
        first = self._inspected_at < since
        due = first or (since and now >= self._look_again)
        if inspect is not None and self._works.is_free("inspect") and due and not self.watch.verdict:
            self._look_again = now + (INSPECTION_PAUSE if first else 2 * (now - self._inspected_at))
            self._inspected_at = now
            self._works.begin("inspect", self._inspect_stalled(inspect))
        track = self.measures.track
        slowdown = track.finder.slowdown if track is not None and sample.running and not since else None
        slower = slowdown.words if slowdown is not None else ""
        new = slower not in {"", self._reported_slowdown} and self._works.is_free("late rank")
        if find is not None and track is not None and new:
            self._reported_slowdown = slower
            self._works.begin("late rank", self._find_late_rank(find, track.pace()))

    def _store_slowdown(self, run: TrainingRun | None) -> None:
        """Store that steps became slower, or normal again, for consoles that read only log ends."""
        slowdown = run.finder.slowdown if run is not None else None
        if self._sources.store_slowdown is None or slowdown == self._slowdown or self.is_lagging:
            return
        jobset = self._cluster.fleet.jobsets.get(self.key)
        if jobset is not None and self._works.is_free("slower"):
            self._slowdown = slowdown
            self._works.begin("slower", self._sources.store_slowdown(jobset.uid, slowdown))

    async def _find_late_rank(
        self, find: Callable[[tuple[str, str], float | None], Awaitable[None]], pace: float | None
    ) -> None:
        with suppress(ConsoleError):  # unasked: the slowdown is shown without it, and M shows why it fails
            await find(self.key, pace)

    async def _inspect_stalled(self, inspect: Callable[[tuple[str, str]], Awaitable[None]]) -> None:
        try:
            await inspect(self.key)
        except ConsoleError as error:
            self._uninspected = error.message.rstrip("."), SERVER_CLOCK.now()

    async def _follow_all(self) -> None:
        try:
            async with self._sources.measures().open_job(*self.key) as self.measures:
                with self.measures.subscribe_lines(self.watch.feed_line):
                    await self._evaluate_periodically()
        except ConsoleError as error:
            self.error = error
        finally:
            await _cancel_tasks(self._works.tasks.values())

    async def _evaluate_periodically(self) -> None:
        self._works.begin("gpus", self._read_gpus_periodically())
        while True:
            ranks = self.measures.ranks
            await self.load_earlier_phases()
            look = self._sample_job(
                {
                    rank: ranks.steps_behind(rank)
                    for rank, advances in ranks.advances.items()
                    if advances >= MIN_STEPS_OF_REPORTER
                    and self.measures.complete_until((rank,)) > time.monotonic() - SERVER_QUIET_SECONDS
                }
            )
            self._evaluate_alarms(SERVER_CLOCK.now(), replace(look, behind_log=self.is_lagging))
            if self.measures.error is not None:
                raise self.measures.error
            if look.finished and self.measures.is_over:
                self.is_complete = True
                return
            if (asking := self._works.tasks["gpus"]).done() and (mistake := asking.exception()) is not None:
                raise mistake
            await asyncio.sleep(POLL_SECONDS)

    async def _read_gpus_periodically(self) -> None:
        """Read the GPUs at intervals where allowed, preferably from exporters, which run nothing in pods."""
        every = self._thresholds.gpus
        while every:
            with suppress(ConsoleError):  # a job without GPUs, or no permission
                gpus = self._sources.gpus()
                board = await gpus.read_once(*self.key, source=DCGM) if gpus.exporter_of(*self.key) else None
                if board is None or not board.all_gpus:
                    if self._sources.find_own_job is not None:
                        await self._sources.find_own_job(self.key)
                    board = await gpus.read_once(*self.key)
                self.faults, self.measures.gpus = gpu_faults(board), board.ranks
            await asyncio.sleep(every)

    def update_streams(self, streams: int) -> bool:
        """Evaluate the alarms, following at most `streams` logs; returns whether the job still runs."""
        fleet, now = self._cluster.fleet, SERVER_CLOCK.now()
        jobset = fleet.jobsets.get(self.key)
        if jobset is not None and jobset is self._seen and not (streams or self._tasks):
            return True  # of a job that is not heard only the snapshot tells
        self._seen = jobset
        if jobset is not None:
            if streams or self._tasks:
                self.measures.set_job_facts(jobset, fleet)
                self._follow_logs(streams)
            self.is_at_rest = not self._tasks
            due = self._thresholds.gpus and self._works.is_free("gpus") and now > self._asked + self._thresholds.gpus
            if due:
                self._asked = now
                if self._sources.gpus().exporter_of(*self.key):
                    self._works.begin("gpus", self._read_gpus())
        elif self._cluster.fleet.links["jobsets"].state.value != "live":
            return True  # nobody knows
        found = replace(self._sample_job({}), behind_log=self.is_lagging)
        if not self.is_followed:
            found = replace(found, step=None, step_at=0.0)  # of a log that is not followed no step is awaited
        self._evaluate_alarms(now, found)
        return not found.finished

    def _follow_logs(self, streams: int) -> None:
        """Follow at most `streams` logs of running pods, and close the others."""
        every = pod_slots(self._cluster.fleet.jobsets[self.key], self._cluster.fleet)
        if self._reporting_rank is not None and SERVER_CLOCK.now() - self.watch.line_at > REPORTER_QUIET_SECONDS:
            self._reporting_rank = None
        if len(every) != self._rank_count:
            self._rank_count, self._reader = len(every), LogReader(self.measures, len(every))
        chosen = [0, len(every) - 1] if self._reporting_rank is None else [self._reporting_rank]
        wanted: dict[tuple[str, int, int], Pod] = {}
        for number in dict.fromkeys(chosen[:streams]):
            pod = every[number].pod if number < len(every) else None
            if pod is not None and pod.main is not None and pod.main.state == "running":
                wanted[(pod.uid, number, pod.main.restarts)] = pod
        named = " nor ".join(f"pod {number}" for number in sorted({number for _, number, _ in wanted}))
        alone = f"{named} has not" if named else "no pod has"
        self.watch.silence_subject = f"neither {named} has" if " nor " in named else alone
        for name in set(self._tasks) - set(wanted):
            self._tasks.pop(name).cancel()
        for name, pod in wanted.items():
            task = self._tasks.get(name)
            if task is None or (task.done() and time.monotonic() > self._retry_at.get(name, 0.0)):
                self._tasks[name] = asyncio.create_task(self._open_stream(name, pod), name=f"listening:{pod.name}")

    async def _open_stream(self, name: tuple[str, int, int], pod: Pod) -> None:
        _, rank, _ = name
        since = self._last_printed_at.get(rank, 0.0)
        container = pod.main.name if pod.main else ""
        try:
            stream = self._streams[rank] = self._sources.open_log(self._cluster, pod)
            async with aclosing(stream.batches()) as batches:
                async for batch in batches:
                    self.refused = ""
                    if not batch:  # a progress bar was drawn on
                        self.watch.feed_line(SERVER_CLOCK.now(), stream.open_line.decode(errors="replace"))
                        continue
                    lines = [
                        PodLine(
                            rank, moment, decode_line(raw).decode(errors="replace"), pod.attempt, pod.name, container
                        )
                        for moment, raw in batch
                        if not since or moment > since
                    ]
                    await self._feed_lines(rank, lines)
                    if self._seen is not None and rank == self._reporting_rank:
                        onset = self._sources.measures().progress_reader.nan_finder
                        await onset.add_onset(self.measures, self._seen.uid, [pod])
        except ConsoleError as error:
            self.refused = error.message
        finally:
            self._streams.pop(rank, None)
            self._retry_at[name] = time.monotonic() + LOG_RETRY_SECONDS

    async def _feed_lines(self, rank: int, lines: list[PodLine]) -> None:
        slices = WorkSlices()
        if lines:
            self.measures.catch_up.begin_batch(lines)
        for start in range(0, len(lines), BATCH_LINES):
            some, now = lines[start : start + BATCH_LINES], SERVER_CLOCK.now()
            for line in some:
                self.watch.feed_line(now, line.text, line.time)
                self.measures.store_line(now, line.time, line.text, rank)
            if self._reader.feed_lines(some) and self._reporting_rank is None:
                self._reporting_rank = rank
            # Only now: a task cancelled in a pause opens the log again after the last line that was fed.
            self._last_printed_at[rank] = max([self._last_printed_at.get(rank, 0.0), *(line.time for line in some)])
            await slices.pause()
        self.measures.catch_up.end_batch()
        await asyncio.sleep(0)

    async def _read_gpus(self) -> None:
        """Read the GPUs from DCGM exporters only, so that no program is run in the pods."""
        try:
            board = await self._sources.gpus().read_once(*self.key, source=DCGM)
        except ConsoleError:
            board = GpuBoard()  # no permission
        self.faults, self.measures.gpus = gpu_faults(board), board.ranks

    async def close(self) -> None:
        reading, self._tasks = [*self._tasks.values(), *filter(None, [self._following])], {}
        await _cancel_tasks(reading)
        await _cancel_tasks(self._works.tasks.values())
