"""Looks now and then at the ends of the logs of running jobs, for lists; how often, how much, how many is bounded."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING

from console.errors import ConsoleError
from console.log_results import read_lines
from console.measures.job import JobMeasures
from console.models.glance import Glance, of_runs, of_tests, with_verdict
from console.models.job import JobState
from console.models.nccl_kept import MeasuredTest
from console.models.ranks import ranks

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from console.kept_tests import KeptTests
    from console.models.job import JobSet
    from console.models.log import LogLine
    from console.models.pod import Pod
    from console.watched import WatchedCluster

    Key = tuple[str, str]

AGAIN = 8.0
"""Seconds after which a running job is looked at again."""
AT_ONCE = 4
"""Logs that are read at once."""
MOST = 32
"""Jobs that are looked at, those on the screen."""
PATIENCE = 6.0
"""Seconds that reading the end of a log may take."""
TAIL, TABLE = 60, 600
"""Lines at the end of a log: enough for a few steps of training, and for the table of a test."""


class Glancing:
    """The last look at each job."""

    def __init__(
        self,
        cluster: WatchedCluster,
        kept: Callable[[], KeptTests],
        pass_line: Callable[[], float],
        read_tail: Callable[[Pod, int], Awaitable[list[LogLine]]] | None = None,
    ) -> None:
        self._cluster, self._kept, self._pass_line = cluster, kept, pass_line
        self._read_tail = read_tail or self._tail
        self.known: dict[str, Glance] = {}
        """By the uid of the JobSet."""
        self._asked: dict[str, float] = {}
        self._printing: dict[str, int] = {}
        """Which rank of a job prints, once it is known."""
        self._over: set[str] = set()

    def forget(self) -> None:
        """The cluster is another one."""
        self.known, self._asked, self._printing, self._over = {}, {}, {}, set()

    def of(self, uid: str) -> Glance | None:
        """What the last look at a job said."""
        return self.known.get(uid)

    async def look(self, keys: Sequence[Key]) -> bool:
        """Look at those of these jobs for which it is time; whether anything is new."""
        now, gate = time.monotonic(), asyncio.Semaphore(AT_ONCE)
        due = [
            jobset for key in keys[:MOST] if (jobset := self._cluster.fleet.jobsets.get(key)) and self._due(jobset, now)
        ]

        async def one(jobset: JobSet) -> bool:
            async with gate:
                return await self._look(jobset)

        return any(await asyncio.gather(*(one(jobset) for jobset in due)))

    def _due(self, jobset: JobSet, now: float) -> bool:
        if jobset.state in {JobState.PENDING, JobState.STOPPING} or jobset.uid in self._over:
            return False
        if now < self._asked.get(jobset.uid, -AGAIN) + AGAIN:
            return False
        self._asked[jobset.uid] = now
        return True

    async def _look(self, jobset: JobSet) -> bool:
        pods = [(rank.number, rank.pod) for rank in ranks(jobset, self._cluster.fleet) if rank.pod]
        known = self._printing.get(jobset.uid)
        likely = [each for each in pods if each[0] == known] or list(dict.fromkeys([*pods[:1], *pods[-1:]]))
        over = jobset.finished
        for number, pod in likely:
            assert pod is not None
            if pod.main is None or pod.main.state == "waiting":
                continue
            try:
                async with asyncio.timeout(PATIENCE):
                    lines = await self._read_tail(pod, TABLE if jobset.recipe.startswith("nccl") else TAIL)
            except (ConsoleError, TimeoutError):
                continue  # the list stays as it was; the job's page says why its log cannot be read
            if await self._read(jobset, number, lines):
                if over:
                    self._over.add(jobset.uid)
                return True
        if over:
            self._over.add(jobset.uid)
        return False

    async def _read(self, jobset: JobSet, rank: int, lines: Sequence[LogLine]) -> bool:
        now = time.time()
        last = lines[-1].time if lines else now
        reading, tracks, printed = read_lines(lines)
        about = JobMeasures(jobset.key)
        about.uid = jobset.uid
        about.tests = tuple(
            MeasuredTest(test, attempt=jobset.restarts, rank=rank, index=at, at=printed.get(at, last))
            for at, test in enumerate(reading.nccl)
        )
        about.place(jobset, self._cluster.fleet, "")
        found = of_tests(reading.nccl, now, self._pass_line(), about.accelerator) or of_runs(
            reading.training, tracks, now
        )
        if found is None or found.empty:
            return False
        self._printing[jobset.uid] = rank
        ended = [each for each in about.tests if each.test.finished and each.test.rows]
        if ended:
            names = {each.name: each for each in self._kept().tests}
            await self._kept().keep(each for each in ended if each.name not in names)
        before = self.known.get(jobset.uid)
        self.known[jobset.uid] = found = with_verdict(before, found)
        return before is None or (replace(before, at=0.0), before.eta) != (replace(found, at=0.0), found.eta)

    async def _tail(self, pod: Pod, lines: int) -> list[LogLine]:
        from console.cluster import logs

        wanted = logs.Wanted(pod.namespace, pod.name, pod.main.name if pod.main else "", lines, follow=False)
        async with aclosing(logs.follow_log(self._cluster.connected.client, wanted)) as printed:
            return [line async for line in printed]
