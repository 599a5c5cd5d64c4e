"""Watches jobs for alarms: opened ones by the logs of all their pods, other running jobs by one or two logs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from console.alarm_thresholds import Thresholds
from console.detached_tasks import start_task
from console.kube.objects.jobset import JobSet, JobState
from console.kube.stream_completeness import SERVER_CLOCK
from console.metrics.alarm import Alarm, AlarmCoverage, AlarmReport
from console.metrics.alarm_rules import AlarmWatch
from console.metrics.job_monitor import JobMonitor, MonitorSources
from console.settings_file import current_config
from console.work_slices import WorkSlices

if TYPE_CHECKING:
    from console.metrics.job_measures import JobMeasures

    Key = tuple[str, str]

ALARM_ROUND_SECONDS = 2.0  # seconds between two rounds
MAX_STARTS_AT_ONCE = 100  # jobs that are taken on in one round
MAX_PAST_ALARMS = 200  # alarms of jobs that are over which are kept
DOUBT_SECONDS = 3.0  # seconds more for a job whose last step is long ago, to show that it lives
CHECK_POLL_SECONDS = 0.2  # seconds between two looks at a job that is followed for a moment only
MAX_OPENED_JOBS = 16  # jobs that are watched at the same time; the one watched longest makes room
MAX_OPENED_ENDED_JOBS = 4  # those of them that have ended, whose logs are read again when they are opened again
_RUNNING_STATES = (JobState.STARTING, JobState.RUNNING, JobState.RESTARTING)


class AlarmService:
    """The job monitors of a session, one for each job, and the alarms that they raise."""

    def __init__(self, sources: MonitorSources, thresholds: Thresholds | None = None) -> None:
        """`thresholds` replace the person's own."""
        self._thresholds, self._sources = thresholds, sources
        self._background_sources = self._passive_sources = replace(
            sources, inspect=None, find_late_rank=None, store_slowdown=None, find_own_job=None
        )
        self.jobs: dict[Key, JobMonitor] = {}  # in the order in which they were opened or began to run
        self.namespace = ""  # the only one whose jobs are watched; empty: those of all
        self.coverage = AlarmCoverage()
        self._past_alarms: list[Alarm] = []  # of jobs that are not watched any more
        self._awaited_watches: list[AlarmWatch] = []  # of jobs that somebody waited for
        self._notified_time = 0.0
        self._update_task: asyncio.Task[None] | None = None
        self._last_jobsets: tuple[object, str] = None, ""  # the JobSets and the namespace of the last round
        self._running: list[JobSet] = []
        self._ending: set[asyncio.Task[None]] = set()

    @property
    def thresholds(self) -> Thresholds:
        if self._thresholds is None:
            self._thresholds = current_config().config.alarms
        return self._thresholds

    def find(self, key: Key) -> JobMonitor | None:
        """The monitor of a job that is watched now; None for other jobs."""
        return self.jobs.get(key)

    def find_measures(self, namespace: str, name: str, *, is_followed: bool = False) -> JobMeasures | None:
        """The measurements of a watched job; None while old lines are read. `is_followed`: some logs suffice."""
        job = self.jobs.get((namespace, name))
        is_read = job is not None and (job.is_followed if is_followed else not job.is_lagging)
        return job.measures if job is not None and is_read else None

    def watch_job(self, namespace: str, name: str) -> None:
        """Watch a job by the logs of all its pods, until it has ended."""
        key = namespace, name
        known = self.jobs.get(key)
        if known is not None and known.has_started and not known.has_ended:
            return
        self._begin_job(key, self._sources).start_following()
        opened = [job for job in self.jobs.values() if job.has_started]
        ended = [job for job in opened if job.has_ended]
        if len(opened) > MAX_OPENED_JOBS or len(ended) > MAX_OPENED_ENDED_JOBS:
            self._end_job((ended or opened)[0])

    def watch_namespace(self, namespace: str = "", *, always: bool = False, inspects: bool = True) -> None:
        """Watch running jobs of a namespace (all if empty), as set or `always`; `inspects`: inspect stalled ones."""
        if not (self.thresholds.running or always):
            return
        if self._update_task is None:
            self._background_sources = self._sources if inspects else self._passive_sources
            self._update_task = start_task(self._update_periodically(), "alarms:patrol")
        self.namespace = namespace
        if self._update_task.done():
            self._update_task.result()

    async def _update_periodically(self) -> None:
        while True:
            followed = [each for each in self.jobs.values() if not (each.is_at_rest or each.has_started)]
            for job in [each for each in followed if each.measures.start is not None]:
                await job.load_earlier_phases()
            await self.update_jobs()
            await asyncio.sleep(ALARM_ROUND_SECONDS)

    async def update_jobs(self) -> None:
        """Check every running job that has no open page; jobs without a log only if a JobSet has changed."""
        slices, seen = WorkSlices(), (self._sources.cluster.fleet.jobsets, self.namespace)
        unchanged, self._last_jobsets = seen[0] is self._last_jobsets[0] and seen[1] == self._last_jobsets[1], seen
        self._running = running = self._running if unchanged else self._running_jobs()
        new = [each.key for each in running if (job := self.jobs.get(each.key)) is None or job.has_ended]
        for key in new[:MAX_STARTS_AT_ONCE]:
            if (job := self.jobs.get(key)) is None or job.has_ended:
                self._begin_job(key, self._background_sources)
            await slices.pause()
        shares = self._log_shares(running)
        for key, job in list(self.jobs.items()):
            if (unchanged and job.is_at_rest and key not in shares) or job.has_started or self.jobs.get(key) is not job:
                continue
            if not job.update_streams(shares.get(key, 0)) or not self._is_watched(key):
                self._end_job(job)
            await slices.pause()
        own = [job for each in running if (job := self.jobs.get(each.key)) is not None]
        own = [job for job in own if not job.is_at_rest or job.refused or job.watch.has_lines]
        refused = dict.fromkeys(job.refused for job in own if job.refused)
        followed = sum(job.has_started or job.is_followed for job in own)
        with_lines = sum(job.has_started or job.watch.has_lines for job in own)
        self.coverage = AlarmCoverage(len(running), followed, self.thresholds.streams, tuple(refused), with_lines)

    def _is_watched(self, key: Key) -> bool:
        return self.namespace in ("", key[0])

    def _running_jobs(self) -> list[JobSet]:
        """The running jobs, largest first, newest first among equals."""
        every = self._sources.cluster.fleet.jobsets.values()
        running = (each for each in every if each.state in _RUNNING_STATES and self._is_watched(each.key))
        return sorted(running, key=lambda each: (-each.gpus, -each.created))

    def _log_shares(self, running_jobs: list[JobSet]) -> dict[Key, int]:
        """The number of logs that are followed of each running job."""
        left, shares = self.thresholds.streams, {}
        for jobset in running_jobs:
            if left and (job := self.jobs.get(jobset.key)) is not None and not job.has_started:
                shares[jobset.key] = share = min(left, job.needed_log_count(jobset.ranks))
                left -= share
        return shares

    def _begin_job(self, key: Key, sources: MonitorSources) -> JobMonitor:
        """Start to monitor a job, continuing the alarms of an earlier monitor of it."""
        before, watch = self.jobs.get(key), None
        if before is not None and before.has_ended:
            self._end_job(before)
        elif before is not None:
            self._close_job(before)
            watch = before.watch
            watch.on_reader_changed(SERVER_CLOCK.now())
        self.jobs[key] = job = JobMonitor(key, self.thresholds, sources, watch)
        return job

    def _end_job(self, job: JobMonitor) -> None:
        self._close_job(job)
        self._past_alarms = [*self._past_alarms, *job.watch.alarms][-MAX_PAST_ALARMS:]

    def _close_job(self, job: JobMonitor) -> None:
        del self.jobs[job.key]
        task = asyncio.create_task(job.close())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    @property
    def latest_alarms(self) -> list[Alarm]:
        """This session's alarms in the watched namespace, newest first, including those that are over."""
        return [each for each in self._list_alarms() if self._is_watched((each.namespace, each.job))]

    def _list_alarms(self) -> list[Alarm]:
        raised = (alarms for job in self.jobs.values() if (alarms := job.watch.alarms))
        return sorted(chain(self._past_alarms, *raised), key=lambda alarm: -alarm.time)

    def pop_new_alarms(self) -> list[Alarm]:
        fresh = [alarm for alarm in self.latest_alarms if alarm.time > self._notified_time]
        self._notified_time = max([self._notified_time, *(alarm.time for alarm in fresh)])
        return fresh[::-1]

    def history_of(self, namespace: str, name: str, since: float = 0.0) -> tuple[Alarm, ...]:
        """A job's alarms of this session since that time, including those that are over, oldest first."""
        every = [*(alarm for watch in self._awaited_watches for alarm in watch.alarms), *self._list_alarms()]
        found = {each for each in every if (each.namespace, each.job) == (namespace, name) and each.time >= since}
        return tuple(sorted(found, key=lambda each: each.time))

    def _stop_monitors(self) -> None:
        if self._update_task is not None:
            self._update_task.cancel()
        for job in list(self.jobs.values()):
            self._end_job(job)

    def on_context_changed(self) -> None:
        self._stop_monitors()
        self._past_alarms, self._update_task, self.coverage, self.namespace = [], None, AlarmCoverage(), ""

    async def close(self) -> None:
        """Stop all monitors; the alarms so far stay in the history."""
        self._stop_monitors()
        await asyncio.gather(*self._ending, *filter(None, [self._update_task]), return_exceptions=True)

    @asynccontextmanager
    async def open_monitor(
        self, namespace: str, name: str, thresholds: Thresholds | None = None
    ) -> AsyncIterator[JobMonitor]:
        """Watch a job during this block; `thresholds` replace the person's own."""
        job = JobMonitor((namespace, name), thresholds or self.thresholds, self._passive_sources)
        self._awaited_watches.append(job.watch)
        job.start_following()
        try:
            yield job
        finally:
            await job.close()

    async def check_job(self, namespace: str, name: str, seconds: float) -> AlarmReport:
        """Check a job by two logs until its first alarm, for `seconds`, and DOUBT_SECONDS more while it is unclear."""
        key, until = (namespace, name), time.monotonic() + seconds
        watch = AlarmWatch(key, self.thresholds, SERVER_CLOCK.now(), settles=seconds)
        monitor = JobMonitor(key, self.thresholds, self._passive_sources, watch)
        try:
            while True:
                await monitor.load_earlier_phases()
                goes_on, lags = monitor.update_streams(2), monitor.is_lagging
                doubt = (watch.is_unproved and not lags) or monitor.measures.needs_nan_search
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
        return AlarmReport(watch.active, unread_reason="its log comes faster than it is read")
    unread = watch.why_unknown if watch.has_lines else f"no whole line of its log came in {seconds:g} s"
    doing = start.sentence(SERVER_CLOCK.now()) if (start := monitor.measures.start) is not None else ""
    return AlarmReport(watch.active, watch.late_text, "", watch.has_step_cadence, monitor.progress, unread, doing)
