"""The run before the last of each rank: of a container that was started again, of an earlier pod, or as it was kept."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from console.errors import ConsoleError, NotFound
from console.models.log import Coverage, RankLine
from console.models.ranks import places, ranks
from console.parsers.secrets import Blotter
from console.parsers.stamps import text_of
from console.spool.shelf import kept_job

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

    from console.cluster.given import Stamped
    from console.follow.stream import OpenStream
    from console.models.fleet import Fleet
    from console.models.job import JobSet
    from console.models.pod import Pod
    from console.spool.part import Part
    from console.watched import WatchedCluster

AT_ONCE = 16
"""Logs that are read at the same time."""


@dataclass(frozen=True)
class PreviousRuns:
    """What they printed."""

    ranks: int
    """How many the job has."""
    lines: tuple[RankLine, ...]
    """In the order of time."""
    without: tuple[tuple[int, str], ...]
    """Ranks of which there is nothing, and why."""
    asked: int
    gone: bool = False
    """Whether the job is not in the cluster, so that all there is is what was kept."""

    @property
    def coverage(self) -> Coverage:
        """Of how many ranks there is something."""
        return Coverage(self.ranks, ended=self.asked - len(self.without), once=True)


@dataclass(frozen=True)
class _Rank:
    """Where the earlier runs of one rank may be."""

    number: int
    pod: Pod | None
    earlier: Pod | None
    """The newest of its pods that was replaced and is in the cluster still."""
    kept: Sequence[Part]


class Previous:
    """Finds them, of one job."""

    def __init__(self, cluster: WatchedCluster, streams: OpenStream, folder: Path, key: tuple[str, str]) -> None:
        self._cluster = cluster
        self._streams = streams
        self._folder = folder
        self._key = key
        self._room = asyncio.Semaphore(AT_ONCE)

    async def read(self, wanted: Collection[int] | None, tail: int | None, followed: Sequence[Part]) -> PreviousRuns:
        """Of those ranks (all unless given), the last `tail` lines each; NotFound if nothing is known of such a job.

        `followed`: its lines, if it is followed; they may not be on the disk yet.
        """
        fleet, (namespace, name) = self._cluster.fleet, self._key
        jobset = fleet.jobsets.get(self._key)
        shelf = await asyncio.to_thread(kept_job, self._folder, namespace, name, jobset.uid if jobset else "")
        if jobset is None and shelf is None:
            raise NotFound(f"There is no job {name} in namespace {namespace}, and nothing of one was kept.",
                           "a4 jobs -A lists all there are.")  # fmt: skip
        kept = list(followed) or (await asyncio.to_thread(lambda: list(shelf.parts())) if shelf else [])
        every = _of_fleet(jobset, fleet, kept) if jobset else _of_disk(shelf.note.ranks if shelf else 0, kept)
        asked = [each for each in every if wanted is None or each.number in wanted]
        found = await asyncio.gather(*(self._one(each, tail) for each in asked))
        lines = sorted((line for each in found if not isinstance(each, str) for line in each), key=_moment_and_rank)
        without = [(rank.number, each) for rank, each in zip(asked, found, strict=True) if isinstance(each, str)]
        return PreviousRuns(len(every), tuple(lines), tuple(without), len(asked), jobset is None)

    async def _one(self, rank: _Rank, tail: int | None) -> list[RankLine] | str:
        """The lines of a rank, or why there are none."""
        main = rank.pod.main if rank.pod else None
        again = rank.pod is not None and rank.pod.attempt > 0
        why = f"{'its earlier pod is gone' if again else 'not started again'}, and of no earlier run a log was kept"
        if rank.pod is not None and main is not None and main.restarts:
            try:
                return await self._of_pod(rank.number, rank.pod, tail, previous=True)
            except ConsoleError as error:
                why = f"started again, but its log of before cannot be read: {error.message}"
        if rank.earlier is not None:
            try:
                return await self._of_pod(rank.number, rank.earlier, tail, previous=False)
            except ConsoleError as error:
                why = f"had another pod, whose log cannot be read: {error.message}"
        part = _last_of(rank)
        if part is None:
            return why.rstrip(".")
        return await asyncio.to_thread(lambda: _of_part(part, len(part) if tail is None else tail))

    async def _of_pod(self, rank: int, pod: Pod, tail: int | None, *, previous: bool) -> list[RankLine]:
        from console.cluster.given import Memory
        from console.cluster.logs import Wanted

        container = pod.main.name if pod.main else ""
        wanted = Wanted(pod.namespace, pod.name, container, tail, previous=previous, follow=False)
        found = list[RankLine]()
        async with self._room, aclosing(self._streams(wanted, Memory(), Blotter().lines, -1).batches()) as batches:
            async for batch in batches:
                found += _lines(rank, pod.attempt, pod.name, container, batch)
        return found


def _of_fleet(jobset: JobSet, fleet: Fleet, kept: Sequence[Part]) -> list[_Rank]:
    numbers, found = places(jobset), list[_Rank]()
    pods = sorted(fleet.pods_by_jobset.get(jobset.uid, ()), key=lambda each: (each.attempt, each.created))
    for rank in ranks(jobset, fleet):
        earlier = [
            pod for pod in pods
            if numbers.get((pod.replicated_job, pod.job_index, max(0, pod.completion_index))) == rank.number
            and (rank.pod is None or pod.uid != rank.pod.uid)
        ]  # fmt: skip
        uid = rank.pod.uid if rank.pod else ""
        mine = [part for part in kept if part.rank == rank.number and part.uid != uid]
        found.append(_Rank(rank.number, rank.pod, earlier[-1] if earlier else None, mine))
    return found


def _of_disk(number: int, kept: Sequence[Part]) -> list[_Rank]:
    """Of a job that is gone: the last pod of each rank is the last run."""
    found = []
    for rank in range(max([number, *(part.rank + 1 for part in kept)])):
        mine = [part for part in kept if part.rank == rank and len(part)]
        last = max(mine, key=_age, default=None)
        found.append(_Rank(rank, None, None, [part for part in mine if last and part.uid != last.uid]))
    return found


def _last_of(rank: _Rank) -> Part | None:
    """The newest of what was kept: of a pod its last container, which is the one that does the work."""
    return max((part for part in rank.kept if len(part)), key=_age, default=None)


def _age(part: Part) -> tuple[int, float]:
    return part.attempt, part.times[-1]


def _of_part(part: Part, number: int) -> list[RankLine]:
    return _lines(part.rank, part.attempt, part.pod, part.container, part.tail(number))


def _lines(rank: int, attempt: int, pod: str, container: str, stamped: Sequence[Stamped]) -> list[RankLine]:
    return [
        RankLine(rank, moment, text_of(raw).decode("utf-8", "replace"), attempt, pod, container)
        for moment, raw in stamped
    ]


def _moment_and_rank(line: RankLine) -> tuple[float, int]:
    return line.time, line.rank
