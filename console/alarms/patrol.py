"""All running jobs of the chosen namespaces are watched by a bounded number of logs; it says what is not heard."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from console.alarms.listening import Listening
from console.models.alarm import Coverage
from console.models.job import JobState

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from console.alarms.listening import Open
    from console.gpus import Gpus
    from console.models.alarm import Alarm, Thresholds
    from console.models.alarm_watch import AlarmWatch
    from console.models.hang import HangReport
    from console.models.job import JobSet
    from console.watched import WatchedCluster

    Key = tuple[str, str]

EVERY = 2.0
"""Seconds between two rounds."""
AT_ONCE = 100
"""Jobs that are taken on in one round."""
PAST = 200
"""Alarms of jobs that are over which are kept."""
_RUNS = (JobState.STARTING, JobState.RUNNING, JobState.RESTARTING)


class Patrol:
    """Goes round."""

    def __init__(
        self,
        cluster: WatchedCluster,
        gpus: Callable[[], Gpus],
        thresholds: Thresholds,
        pass_line: Callable[[], float],
        open_log: Open,
        xray: Callable[[Key], HangReport | None] = lambda _: None,
    ) -> None:
        self._cluster, self._gpus, self._thresholds = cluster, gpus, thresholds
        self._pass_line, self._open, self._xray = pass_line, open_log, xray
        self.namespace = ""
        """The only one whose jobs are watched; empty: those of all."""
        self.jobs: dict[Key, Listening] = {}
        self.past: list[Alarm] = []
        self.coverage = Coverage()
        self._ending: set[asyncio.Task[None]] = set()

    def alarms(self) -> list[Alarm]:
        """All of them, those of jobs that are over too."""
        return [*self.past, *(alarm for job in self.jobs.values() for alarm in job.watch.alarms)]

    def give(self, key: Key) -> AlarmWatch | None:
        """Somebody watches that job better from here on: what is known of it."""
        job = self.jobs.pop(key, None)
        if job is None:
            return None
        self._end(job)
        job.watch.hand_over(time.time())
        return job.watch

    def round(self, kept: Collection[Key]) -> None:
        """Look at every running job but those, which are watched already."""
        running = self._running()
        new = [each for each in _by_weight(running) if each.key not in kept and each.key not in self.jobs]
        for jobset in new[:AT_ONCE]:
            if jobset.key not in self.jobs:
                self.jobs[jobset.key] = Listening(self._cluster, jobset.key, self._thresholds, self._gpus, self._open)
        shares = self._shares(running)
        for key, job in list(self.jobs.items()):
            line = self._thresholds.busbw or self._pass_line()
            if not job.look(shares.get(key, 0), line, self._xray(key)) or not self._chosen(key):
                self._end(self.jobs.pop(key))
                self.past = [*self.past, *job.watch.alarms][-PAST:]
        keys = {jobset.key for jobset in running}
        own = [job for key, job in self.jobs.items() if key in keys]
        self.coverage = Coverage(
            len(running),
            sum(key in kept for key in keys) + sum(job.heard for job in own),
            sum(job.streams for job in self.jobs.values()),
            self._thresholds.streams,
            tuple(dict.fromkeys(job.refused for job in own if job.refused)),
        )

    def _chosen(self, key: Key) -> bool:
        return self.namespace in ("", key[0])

    def _running(self) -> list[JobSet]:
        every = self._cluster.fleet.jobsets.values()
        return [each for each in every if each.state in _RUNS and self._chosen(each.key)]

    def _shares(self, running: list[JobSet]) -> dict[Key, int]:
        """How many logs each job may follow."""
        left, shares = self._thresholds.streams, {}
        for jobset in _by_weight(running):
            job = self.jobs.get(jobset.key)
            if not left:
                break
            if job is not None:
                shares[jobset.key] = share = min(left, job.wants(jobset.ranks))
                left -= share
        return shares

    def _end(self, job: Listening) -> None:
        task = asyncio.create_task(job.close())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def close(self) -> None:
        """End everything."""
        for job in self.jobs.values():
            self._end(job)
        self.jobs = {}
        await asyncio.gather(*self._ending, return_exceptions=True)


def _by_weight(jobsets: list[JobSet]) -> list[JobSet]:
    """The largest jobs first, the newest of equals."""
    return sorted(jobsets, key=lambda each: (-each.gpus, -each.created))
