"""A job that prints numbered lines, and a count of what the console makes of them."""

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

from console.logs.job_log import JobLog
from console.metrics.job_measures import JobMeasures
from console.metrics.training_run import RunEvent
from console.session import Session
from tests.contract import cluster
from tests.contract.client import Object
from tests.contract.cluster import CORE, JOBSETS, eventually
from tests.contract.space import Space, container, jobset, rank

LIMIT = 90
"""Seconds for anything that 48 pods do together on a busy machine."""
EACH = 5
"""Lines of each rank a round."""
soon = partial(cluster.soon, limit=LIMIT)
_LINE = re.compile(r"(\w+) attempt (\d+) rank (\d+) line (\d+)")


@dataclass
class Job:
    """Every rank prints numbered lines; one of them prints what is measured as well."""

    space: Space
    name: str
    ranks: int
    gpus: int
    """Of each rank."""
    teller: int
    """The rank that prints what is measured."""
    tells: Iterator[str]
    printed: Counter[str] = field(default_factory=Counter)
    pods: list[Object] = field(default_factory=list)
    _number: int = 0

    async def submit(self) -> None:
        body = jobset(self.name, "team", self.ranks, topology="", restarts=3)  # a subblock has 4 machines only
        spec = body["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
        spec["containers"] = [container("main", self.gpus)]
        answer = await self.space.api.create(self.space.path(JOBSETS, "jobsets"), body)
        assert answer.status == 201, answer.body

    async def runs(self) -> None:
        """Wait until every rank runs, on pods that are not those of before."""
        old = {pod["metadata"]["uid"] for pod in self.pods}
        phases: Counter[str] = Counter()

        async def probe() -> list[Object]:
            selector = f"jobset.sigs.k8s.io/jobset-name={self.name}"
            found = await self.space.items(CORE, "pods", labelSelector=selector)
            fresh = [pod for pod in found if pod["metadata"]["uid"] not in old]
            phases.clear()
            phases.update(pod["status"].get("phase", "") for pod in fresh)
            return sorted(fresh, key=rank) if phases["Running"] == len(found) == self.ranks else []

        try:
            self.pods = await eventually(probe, f"{self.ranks} ranks of {self.name} run", limit=LIMIT)
        except AssertionError as error:
            raise AssertionError(f"{error}: {dict(phases)}") from None

    async def kill(self, number: int) -> None:
        """End the pod of a rank, as the loss of its machine would: the whole job begins anew."""
        name = self.pods[number]["metadata"]["name"]
        answer = await self.space.api.send("DELETE", self.space.path(CORE, "pods", name))
        assert answer.status == 200, answer.body

    async def print(self, measured: int = 1) -> None:
        """Every rank prints its next lines, all of them at once; the one that tells prints so many measurements."""
        numbers = range(self._number, self._number + EACH)
        self._number += EACH
        told = [line for _, text in zip(range(measured), self.tells, strict=False) for line in text.splitlines()]
        await asyncio.gather(
            *(self._print(pod, numbers, told if rank(pod) == self.teller else []) for pod in self.pods)
        )

    async def _print(self, pod: Object, numbers: range, told: list[str]) -> None:
        attempt = pod["metadata"]["labels"]["jobset.sigs.k8s.io/restart-attempt"]
        lines = [f"{self.name} attempt {attempt} rank {rank(pod)} line {number}" for number in numbers]
        self.printed.update(lines)
        space = self.space
        await space.cluster.append_log(space.api, space.name, pod["metadata"]["name"], "main", [*told, *lines])


@dataclass
class Watched:
    """What the console made of a job."""

    job: Job
    log: JobLog
    measures: JobMeasures
    seen: Counter[str] = field(default_factory=Counter)

    async def count(self) -> None:
        async with aclosing(self.log.iter_lines()) as batches:
            async for batch in batches:
                for line in batch:
                    if found := _LINE.fullmatch(line.text):
                        assert (found[1], int(found[2]), int(found[3])) == (self.job.name, line.attempt, line.rank)
                        self.seen[line.text] += 1

    async def has_all(self) -> None:
        """Every line that was printed has been read, each once."""

        async def all_there() -> bool:
            assert self.seen <= self.job.printed, (self.seen - self.job.printed).most_common(3)
            return self.seen == self.job.printed

        try:
            await eventually(all_there, "every line is there", limit=LIMIT)
        except AssertionError as error:
            missing = sorted((self.job.printed - self.seen).elements())
            raise AssertionError(f"{error}: {len(missing)} missing, {missing[:3]}; {self.log.coverage}") from None

    @property
    def steps(self) -> list[int | None]:
        return [step.step for track in self.measures.tracks for step in track.steps]

    def marks(self) -> list[RunEvent]:
        return [mark for track in self.measures.tracks for mark in track.list_events()]


def numbered(texts: Iterable[str]) -> Counter[str]:
    """Those of the lines that a job numbered."""
    return Counter(text for text in texts if _LINE.fullmatch(text))


@asynccontextmanager
async def watched(session: Session, job: Job) -> AsyncIterator[Watched]:
    """Its lines are counted and its measurements read for as long as the block runs."""
    key = job.space.name, job.name
    async with session.logs.open_job_log(*key) as log, session.measures.open_job(*key) as measures:
        made = Watched(job, log, measures)
        counting = asyncio.create_task(made.count())
        try:
            yield made
        finally:
            counting.cancel()
            (ended,) = await asyncio.gather(counting, return_exceptions=True)
            if isinstance(ended, Exception):
                raise ended
