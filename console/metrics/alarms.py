"""Monitors all running jobs of the chosen namespaces for alarms; of jobs not opened, a log or two is followed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from console.config import Thresholds, config_in_force
from console.kube.arrivals import CLOCK
from console.kube.objects.jobset import JobSet, JobState
from console.kube.objects.pod import Pod
from console.metrics.alarm import Alarm, AlarmCoverage, AlarmReport
from console.metrics.alarm_rules import AlarmWatch
from console.metrics.job_monitor import TAIL, JobMonitor, MonitorSources
from console.metrics.seen_time import TimeSpan

if TYPE_CHECKING:
    from console.kube.watched_cluster import WatchedCluster
    from console.logs.container_log import LogStream
    from console.metrics.diagnosis import Diagnosis
    from console.metrics.gpu_reader import GpuReader
    from console.metrics.job_measures import JobMeasures
    from console.metrics.measures import MeasureService
    from console.metrics.training_run import Slowdown

    Key = tuple[str, str]

POLL_SECONDS = 2.0  # seconds between two rounds
MAX_STARTS_AT_ONCE = 100  # jobs that are taken on in one round
MAX_PAST_ALARMS = 200  # alarms of jobs that are over which are kept
_RUNS = (JobState.STARTING, JobState.RUNNING, JobState.RESTARTING)


class AlarmMonitor:
    def __init__(self, sources: MonitorSources, thresholds: Thresholds) -> None:
        self._sources, self._cluster, self._thresholds = sources, sources.cluster, thresholds
        self.namespace = ""  # the only one whose jobs are watched; empty: those of all
        self.jobs: dict[Key, JobMonitor] = {}  # of which a log or two are followed
        sources.measures().find_monitored = self._find_measures
        self.past: list[Alarm] = []
        self.coverage = AlarmCoverage()
        self._ending: set[asyncio.Task[None]] = set()

    def _find_measures(self, key: Key) -> JobMeasures | None:
        job = self.jobs.get(key)
        return job.measures if job is not None and job.is_followed else None

    def list_alarms(self) -> list[Alarm]:
        return [*self.past, *(alarm for job in self.jobs.values() for alarm in job.watch.alarms)]

    def hand_over(self, key: Key) -> AlarmWatch | None:
        """Stop monitoring a job that another reader follows from now on, and return its alarms."""
        job = self.jobs.pop(key, None)
        if job is None:
            return None
        self._close_job(job)
        job.watch.on_reader_changed(CLOCK.now())
        return job.watch

    def update_jobs(self, kept: Collection[Key]) -> None:
        """Check every running job except those in `kept`, which are watched by others."""
        running = self._running_jobs()
        new = [each.key for each in running if each.key not in kept and each.key not in self.jobs]
        self.jobs |= {key: JobMonitor(key, self._thresholds, self._sources) for key in new[:MAX_STARTS_AT_ONCE]}
        shares = self._log_shares(running)
        for key, job in list(self.jobs.items()):
            if not job.update_streams(shares.get(key, 0)) or not self._is_watched(key):
                self._close_job(self.jobs.pop(key))
                self.past = [*self.past, *job.watch.alarms][-MAX_PAST_ALARMS:]
        keys = {jobset.key for jobset in running}
        own = [job for key, job in self.jobs.items() if key in keys]
        self.coverage = AlarmCoverage(
            len(running),
            sum(key in kept for key in keys) + sum(job.is_followed for job in own),
            self._thresholds.streams,
            tuple(dict.fromkeys(job.refused for job in own if job.refused)),
            sum(key in kept for key in keys) + sum(job.watch.has_lines for job in own),
        )

    def _is_watched(self, key: Key) -> bool:
        return self.namespace in ("", key[0])

    def _running_jobs(self) -> list[JobSet]:
        """The running jobs, largest first, newest first among equals."""
        every = self._cluster.fleet.jobsets.values()
        running = (each for each in every if each.state in _RUNS and self._is_watched(each.key))
        return sorted(running, key=lambda each: (-each.gpus, -each.created))

    def _log_shares(self, running: list[JobSet]) -> dict[Key, int]:
        """How many logs to follow of each job."""
        left, shares = self._thresholds.streams, {}
        for jobset in running:
            if left and (job := self.jobs.get(jobset.key)) is not None:
                shares[jobset.key] = share = min(left, job.needed_log_count(jobset.ranks))
                left -= share
        return shares

    def _close_job(self, job: JobMonitor) -> None:
        task = asyncio.create_task(job.close())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    def stop(self) -> None:
        for job in self.jobs.values():
            self._close_job(job)
        self.jobs.clear()

    async def close(self) -> None:
        self.stop()
        await asyncio.gather(*self._ending, return_exceptions=True)


DOUBT_SECONDS = 3.0  # seconds more for a job whose last step is long ago, to show that it lives
CHECK_POLL_SECONDS = 0.2  # seconds between two looks at a job that is followed for a moment only
MAX_OPENED_JOBS = 16  # jobs that are watched at the same time; the one watched longest makes room


class AlarmService:
    def __init__(
        self,
        cluster: WatchedCluster,
        measures: Callable[[], MeasureService],
        gpus: Callable[[], GpuReader],
        thresholds: Thresholds | None = None,
        diagnosis: Callable[[Key], Diagnosis | None] = lambda _: None,
        inspect: Callable[[Key], Awaitable[None]] | None = None,
        find_late_rank: Callable[[Key, float | None], Awaitable[None]] | None = None,
        store_slowdown: Callable[[Key, Slowdown | None], Coroutine[None, None, None]] | None = None,
        find_own_job: Callable[[Key], Awaitable[object]] | None = None,
    ) -> None:
        """`thresholds` replace the person's own; `diagnosis` gives the rank that the others of a job wait for.

        `inspect` makes one of a job that has stalled, `find_late_rank` asks NCCL of one whose steps are slower, while
        the session watches it, and `find_own_job` raises NotAllowed where nothing may run in pods unasked.
        """
        self._cluster, self._thresholds = cluster, thresholds
        self._sources = MonitorSources(cluster, measures, gpus, self._open_log, diagnosis)
        self._lasting_sources = replace(
            self._sources,
            inspect=inspect,
            find_late_rank=find_late_rank,
            store_slowdown=store_slowdown,
            find_own_job=find_own_job,
        )
        self._kept: dict[Key, tuple[JobMonitor, asyncio.Task[None]]] = {}
        self._asked: list[AlarmWatch] = []  # of jobs that somebody waited for
        self._past: list[Alarm] = []  # alarms that were there when all ended
        self._notified = 0.0
        self._patrol: AlarmMonitor | None = None
        self._rounds: asyncio.Task[None] | None = None

    @property
    def thresholds(self) -> Thresholds:
        if self._thresholds is None:
            self._thresholds = config_in_force().config.alarms
        return self._thresholds

    def watch_job(self, namespace: str, name: str) -> None:
        key = namespace, name
        if key in self._kept and not self._kept[key][1].done():
            return
        watch = self._patrol.hand_over(key) if self._patrol else None
        job = JobMonitor(key, self.thresholds, self._lasting_sources, watch)
        while len(self._kept) >= MAX_OPENED_JOBS:
            self._kept.pop(next(iter(self._kept)))[1].cancel()
        self._kept[key] = job, asyncio.create_task(job.follow_all(), name=f"alarms:{name}")

    def active_alarms(self, namespace: str, name: str) -> tuple[Alarm, ...]:
        watch = self._find_watch((namespace, name))
        return watch.active if watch else ()

    def late_text(self, namespace: str, name: str) -> str:
        """How late the next step of a watched job is, as text; empty if not late or unknown."""
        watch = self._find_watch((namespace, name))
        return watch.late if watch else ""

    def unknown_text(self, namespace: str, name: str) -> str:
        """Why nobody can say whether the next step of a watched job is late; empty if somebody can."""
        watch = self._find_watch((namespace, name))
        return watch.unknown if watch else ""

    def verdict(self, namespace: str, name: str) -> str:
        """For whom the ranks of a late job wait, in words; empty if not late or not inspected."""
        watch = self._find_watch((namespace, name))
        return watch.verdict if watch else ""

    def follows_steps(self, namespace: str, name: str) -> bool:
        """Whether the job's steps are read live, so that lateness need not be estimated from timestamps."""
        watch = self._find_watch((namespace, name))
        return watch is not None and watch.has_step_cadence

    def history_of(self, namespace: str, name: str, since: float = 0.0) -> tuple[Alarm, ...]:
        """A job's alarms of this session since that time, including those that are over, oldest first."""
        every = [*self._past, *(alarm for watch in self._asked for alarm in watch.alarms), *self._list_alarms()]
        found = {each for each in every if (each.namespace, each.job) == (namespace, name) and each.time >= since}
        return tuple(sorted(found, key=lambda each: each.time))

    def _find_watch(self, key: Key) -> AlarmWatch | None:
        monitor = self._find_monitor(key)
        return monitor.watch if monitor else None

    def _find_monitor(self, key: Key) -> JobMonitor | None:
        if key in self._kept:
            return self._kept[key][0]
        return self._patrol.jobs.get(key) if self._patrol else None

    def list_spans(self, namespace: str, name: str, now: float) -> list[TimeSpan]:
        """The time of a watched job by its log, up to now."""
        monitor = self._find_monitor((namespace, name))
        return monitor.list_spans(now) if monitor is not None else []

    def find_measures(self, namespace: str, name: str) -> JobMeasures | None:
        """The measurements of a watched job; None while its log of before is read."""
        monitor = self._find_monitor((namespace, name))
        return monitor.measures if monitor is not None and not monitor.is_lagging else None

    @property
    def latest_alarms(self) -> list[Alarm]:
        """The alarms of this session in the namespace that is watched, also those that are over, newest first."""
        only = self._patrol.namespace if self._patrol else ""
        return [each for each in self._list_alarms() if only in {"", each.namespace}]

    def _list_alarms(self) -> list[Alarm]:
        every = [alarm for job, _ in self._kept.values() for alarm in job.watch.alarms]
        every += self._patrol.list_alarms() if self._patrol else []
        return sorted(every, key=lambda alarm: -alarm.time)

    def take_new(self) -> list[Alarm]:
        fresh = [alarm for alarm in self.latest_alarms if alarm.time > self._notified]
        self._notified = max([self._notified, *(alarm.time for alarm in fresh)])
        return fresh[::-1]

    def watch_namespace(self, namespace: str = "", *, always: bool = False, inspects: bool = True) -> None:
        """Watch a namespace's running jobs (all if empty), unless only opened ones are wanted and not `always`.

        `inspects`: whether those that have stalled are inspected, as far as the settings say so.
        """
        if not (self.thresholds.running or always):
            return
        if self._patrol is None:
            sources = self._lasting_sources if inspects else self._sources
            self._patrol = AlarmMonitor(sources, self.thresholds)
            self._rounds = asyncio.create_task(self._update_periodically(self._patrol), name="alarms:patrol")
        self._patrol.namespace = namespace
        if self._rounds is not None and self._rounds.done():
            self._rounds.result()

    @property
    def coverage(self) -> AlarmCoverage:
        return self._patrol.coverage if self._patrol else AlarmCoverage()

    async def _update_periodically(self, patrol: AlarmMonitor) -> None:
        while True:
            for job in list(patrol.jobs.values()):
                await job.load_earlier_phases()
            patrol.update_jobs([key for key, (_, task) in self._kept.items() if not task.done()])
            await asyncio.sleep(POLL_SECONDS)

    def _open_log(self, pod: Pod) -> LogStream:
        """Open the log of the pod's main container, with secrets redacted."""
        from console.logs.container_log import LogRequest, LogStream
        from trainlog import Redactor

        wanted = LogRequest(pod.namespace, pod.name, pod.main.name if pod.main else "", TAIL)
        return LogStream(self._cluster.current_connection.client, wanted, clean=Redactor().redact_lines)

    def on_context_changed(self) -> None:
        for _, task in self._kept.values():
            task.cancel()
        self._kept.clear()
        if self._rounds is not None:
            self._rounds.cancel()
        if self._patrol is not None:
            self._patrol.stop()
        self._patrol = self._rounds = None

    async def close(self) -> None:
        """Stop all monitors; the alarms so far stay in the history."""
        self._past = self._list_alarms()
        tasks = [task for _, task in self._kept.values()]
        tasks += [self._rounds] if self._rounds else []
        self._kept.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._patrol is not None:
            await self._patrol.close()

    @asynccontextmanager
    async def open_monitor(
        self, namespace: str, name: str, thresholds: Thresholds | None = None
    ) -> AsyncIterator[JobMonitor]:
        """Watch a job during this block; `thresholds` replace the person's own."""
        job = JobMonitor((namespace, name), thresholds or self.thresholds, self._sources)
        self._asked.append(job.watch)
        task = asyncio.create_task(job.follow_all(), name=f"alarms:{name}")
        try:
            yield job
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def check_job(self, namespace: str, name: str, seconds: float) -> AlarmReport:
        """Check a job by two logs until its first alarm or so many seconds, and DOUBT_SECONDS more in case of doubt."""
        key, until = (namespace, name), time.monotonic() + seconds
        watch = AlarmWatch(key, self.thresholds, CLOCK.now(), settles=seconds)
        monitor = JobMonitor(key, self.thresholds, self._sources, watch)
        try:
            while True:
                await monitor.load_earlier_phases()
                goes_on, lags = monitor.update_streams(2), monitor.is_lagging
                doubt = (watch.unproved and not lags) or monitor.measures.needs_nan_search
                over = time.monotonic() > until + (DOUBT_SECONDS if doubt else 0.0)
                if (watch.active and not lags) or not goes_on or over:
                    return _make_report(monitor, seconds, lags=lags)
                await asyncio.sleep(CHECK_POLL_SECONDS)
        finally:
            await monitor.close()


def _make_report(monitor: JobMonitor, seconds: float, *, lags: bool) -> AlarmReport:
    watch = monitor.watch
    if not monitor.is_followed:
        return AlarmReport(watch.active, refused=monitor.refused)
    if lags:
        return AlarmReport(watch.active, unread="its log comes faster than it is read")
    unread = watch.unknown if watch.has_lines else f"no whole line of its log came in {seconds:g} s"
    doing = start.sentence(CLOCK.now()) if (start := monitor.measures.start) is not None else ""
    return AlarmReport(watch.active, watch.late, "", watch.has_step_cadence, monitor.progress, unread, doing)
