"""Logs of jobs and containers, each followed once for all its readers and stored on disk; and why a job failed."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from console.errors import ConsoleError, NotAllowed, NotFound, NotLoggedIn, Unreachable
from console.kube.find_job import other_namespaces_hint, require_listed
from console.kube.objects.jobset import JobSet
from console.kube.objects.pod import Pod
from console.kube.snapshot import Fleet
from console.logs.job_log import Gap, JobLog, LogCoverage
from console.logs.log_folder import JobLogStore, delete_old_logs, find_stored_job, logs_folder
from console.logs.log_line import LogLine, PodLine, decode_line, sort_key
from console.logs.log_segment import LogSegment
from console.scheduling.pod_failure import FailureCard, PodFailure, deduplicate, first_of_latest_attempt, rank_failures
from console.scheduling.pod_slots import pod_slots
from trainlog import Redactor

if TYPE_CHECKING:
    from console.kube.watched_cluster import WatchedCluster
    from console.logs.container_log import LogRequest, LogStream, ResumeCursor, TimedLine
    from console.logs.job_log import OpenStream


MAX_CONCURRENT_LOGS = 16  # logs that are read at the same time


class PreviousLog(Struct, frozen=True):
    """The lines of a rank's container before one of its restarts."""

    rank: int
    attempt: int
    pod: str
    container: str
    iter_lines: Callable[[], Iterable[TimedLine]]
    first: float  # moment of the first of these lines
    is_cut: bool  # whether older ones were left out

    def __iter__(self) -> Iterator[PodLine]:
        for moment, raw in self.iter_lines():
            text = decode_line(raw).decode("utf-8", "replace")
            yield PodLine(self.rank, moment, text, self.attempt, self.pod, self.container)


class _NoPreviousLog(Struct, frozen=True):
    """The reason why the log before a restart cannot be shown for a rank."""

    why: str
    error: ConsoleError | None = None  # what kept it from being read, where there may be one


class PreviousLogs(Struct, frozen=True):
    ranks: int  # how many the job has
    logs: tuple[PreviousLog, ...]  # of each rank of which there is something
    missing: tuple[tuple[int, str], ...]  # ranks of which there is nothing, and why
    requested_ranks: int
    gone: bool = False  # whether the job is not in the cluster, so that all there is is what was kept

    @property
    def lines(self) -> Iterator[PodLine]:
        return heapq.merge(*self.logs, key=sort_key)

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """The ranks without an earlier run, and the truncated parts of the others."""
        return (
            *(Gap(number, 0.0, float("inf"), why) for number, why in self.missing),
            *(Gap(each.rank, 0.0, each.first, "older lines were left out") for each in self.logs if each.is_cut),
        )

    @property
    def coverage(self) -> LogCoverage:
        """The number of ranks with a previous container."""
        return LogCoverage(self.ranks, ended=self.requested_ranks - len(self.missing), once=True)


class _RankPods(Struct, frozen=True):
    number: int
    pod: Pod | None
    earlier: Pod | None  # the newest of its pods that was replaced and is in the cluster still
    segments: Sequence[LogSegment]
    again: bool = False  # whether the JobSet, or it alone, was started again


def _ranks_in_cluster(jobset: JobSet, fleet: Fleet, segments: Sequence[LogSegment]) -> list[_RankPods]:
    found = list[_RankPods]()
    pods = sorted(fleet.pods_by_jobset.get(jobset.uid, ()), key=lambda each: (each.attempt, each.created))
    for rank, place in zip(pod_slots(jobset, fleet), jobset.places, strict=True):
        uid = rank.pod.uid if rank.pod else ""
        earlier = [pod for pod in pods if pod.place == place and pod.uid != uid]
        mine = [part for part in segments if part.rank == rank.number and part.uid != uid]
        if rank.pod is None and jobset.finished:
            mine = [part for part in mine if part.attempt < jobset.restarts] or _segments_of_earlier_pods(mine)
        again = jobset.restarts > 0 or (rank.pod is not None and rank.pod.attempt > 0)
        found.append(_RankPods(rank.number, rank.pod, earlier[-1] if earlier else None, mine, again))
    return found


def _stored_ranks(rank_count: int, segments: Sequence[LogSegment]) -> list[_RankPods]:
    """The ranks of a job that is no longer in the cluster, with the stored segments before their last pod."""
    return [
        _RankPods(rank, None, None, _segments_of_earlier_pods([part for part in segments if part.rank == rank]))
        for rank in range(max([rank_count, *(part.rank + 1 for part in segments)]))
    ]


def _segments_of_earlier_pods(segments: Sequence[LogSegment]) -> list[LogSegment]:
    last = max((part for part in segments if len(part)), key=_segment_order, default=None)
    return [part for part in segments if last is not None and part.uid != last.uid]


def _segment_order(segment: LogSegment) -> tuple[int, float]:
    return segment.attempt, segment.times[-1]


FAILURE_CARD_LINES = 12  # last lines on the card
PREVIOUS_LOG_TIMEOUT = 4.0  # seconds that reading them may take
FAILURE_TAIL_LINES = 400  # last lines that are looked through for failures that they name


def _read_stored_tail(failure: PodFailure, segments: Sequence[LogSegment]) -> list[str]:
    for part in reversed(segments):
        # Of the pod that ended, not of one in its place; unknown of what older versions kept.
        its = part.pod == failure.pod if part.pod and failure.pod else not part.uid or failure.uid in {"", part.uid}
        if (part.rank, part.attempt) == (failure.rank, failure.attempt) and len(part) and its:
            return [
                text.decode("utf-8", "replace") for text in part.read_texts(len(part) - FAILURE_TAIL_LINES, len(part))
            ]
    return []


class LogService:
    def __init__(self, cluster: WatchedCluster, streams: OpenStream | None = None, folder: Path | None = None) -> None:
        """`streams`: opens a container's log, by default the cluster's; `folder`: where logs are stored."""
        self._cluster = cluster
        self._streams = streams or self._open_stream
        self._folder = folder
        self._open_logs: dict[tuple[str, str], JobLog] = {}
        self._has_deleted_old = False
        self._closing: list[asyncio.Task[None]] = []

    @property
    def folder(self) -> Path:
        """The folder of stored logs; a practice cluster has its own, since the next one reuses the same uids."""
        if self._folder is not None:
            return self._folder
        practice = self._cluster.current_connection.target.cluster.practice_folder
        return practice / "logs" if practice else logs_folder()

    def _open_stream(
        self, request: LogRequest, memory: ResumeCursor, clean: Callable[[list[bytes]], list[bytes]], restarts: int
    ) -> LogStream:
        from console.logs.container_log import LogStream

        return LogStream(
            self._cluster.current_connection.client, request, cursor=memory, clean_lines=clean, restarts=restarts
        )

    def follow_pod(self, wanted: LogRequest, cursor: ResumeCursor | None = None) -> AsyncGenerator[list[LogLine], None]:
        """Yield all lines of a pod once, over broken connections; `cursor`: the lines delivered before."""
        from console.logs.container_log import follow_log

        return follow_log(self._cluster.current_connection.client, wanted, cursor=cursor)

    @asynccontextmanager
    async def open_job_log(
        self,
        namespace: str,
        name: str,
        *,
        tail: int | None = None,
        once: bool = False,
        chosen: Callable[[int], Collection[int] | None] = lambda _: None,
    ) -> AsyncIterator[JobLog]:
        """The log of a job, with one connection per container shared by all readers; the last reader closes them.

        Lines stored on disk come first. A job that is missing in the cluster has only those, and raises no NotFound,
        since it may still come. `tail`: last lines of each container fetched at first (None: all); `once`: present
        lines, without following; `chosen`: maps the number of ranks to those that are read (None: all).
        """
        key = namespace, name
        log = self._open_logs.get(key)
        if log is None:
            log = JobLog(self._cluster, key, self._streams, self.folder, tail=tail, once=once, choose_ranks=chosen)
            self._open_logs[key] = log
            log.start()
        log.readers += 1
        try:
            if not self._has_deleted_old:
                self._has_deleted_old = True
                await asyncio.to_thread(delete_old_logs, self.folder)
            yield log
        finally:
            log.readers -= 1
            if not log.readers and self._open_logs.get(key) is log:
                del self._open_logs[key]
                await log.close()

    async def read_previous(
        self, namespace: str, name: str, ranks: Collection[int] | None = None, *, tail: int | None = None
    ) -> PreviousLogs:
        """The last `tail` lines (None: all) of previous containers. Raises NotFound, or the error of all reads."""
        fleet, key = self._cluster.fleet, (namespace, name)
        jobset, log = fleet.jobsets.get(key), self._open_logs.get(key)
        stored = await self._find_stored(key)
        if jobset is None and stored is None:
            require_listed(fleet, "jobsets", f"Whether there is a job {name} in namespace {namespace}")
            hint = other_namespaces_hint(fleet, namespace, name) or "a4 jobs -A lists all there are."
            raise NotFound(f"There is no job {name} in namespace {namespace}, and nothing of one was kept.", hint)
        kept = list(log.parts) if log else []
        if not kept and stored:
            kept = await asyncio.to_thread(stored.load_segments)
        every = (
            _ranks_in_cluster(jobset, fleet, kept)
            if jobset
            else _stored_ranks(stored.metadata.ranks if stored else 0, kept)
        )
        asked = [each for each in every if ranks is None or each.number in ranks]
        room = asyncio.Semaphore(MAX_CONCURRENT_LOGS)
        found = await asyncio.gather(*(self._read_previous_of(each, tail, room) for each in asked))
        runs = tuple(each for each in found if isinstance(each, PreviousLog))
        without = [
            (rank.number, each) for rank, each in zip(asked, found, strict=True) if isinstance(each, _NoPreviousLog)
        ]
        for _, each in without if not runs else ():
            if isinstance(each.error, NotAllowed | NotLoggedIn | Unreachable):  # nobody can know
                raise each.error
        reasons = tuple((number, each.why) for number, each in without)
        return PreviousLogs(len(every), runs, reasons, len(asked), jobset is None)

    async def _read_previous_of(
        self, rank: _RankPods, tail: int | None, semaphore: asyncio.Semaphore
    ) -> PreviousLog | _NoPreviousLog:
        main = rank.pod.main if rank.pod else None
        known = "not started again" if rank.pod is not None else "it has no pod"
        nothing = _NoPreviousLog(
            f"{'its earlier pod is gone' if rank.again else known}, and no log of an earlier run was kept"
        )
        if rank.pod is not None and main is not None and main.restarts:
            try:
                async with semaphore:
                    return await self._read_pod_log(rank.number, rank.pod, tail, is_previous=True)
            except ConsoleError as error:
                nothing = _NoPreviousLog(f"started again, but its log of before cannot be read: {error.message}", error)
        if rank.earlier is not None:
            try:
                async with semaphore:
                    return await self._read_pod_log(rank.number, rank.earlier, tail, is_previous=False)
            except ConsoleError as error:
                nothing = _NoPreviousLog(f"had another pod, whose log cannot be read: {error.message}", error)
        # The newest of what was kept: of a pod its last container, which is the one that does the work.
        part = max((part for part in rank.segments if len(part)), key=_segment_order, default=None)
        if part is None:
            return nothing
        start = 0 if tail is None else max(0, len(part) - tail)
        first, lines = next(iter(part.times[start:]), 0.0), partial(part.iter_timed_lines, start)
        return PreviousLog(
            part.rank, part.attempt, part.pod, part.container, lines, first, 0 < (tail or 0) <= len(part)
        )

    async def _read_pod_log(self, rank: int, pod: Pod, tail: int | None, *, is_previous: bool) -> PreviousLog:
        container = pod.main.name if pod.main else ""
        found = await self._read_once(pod.namespace, pod.name, container, tail, is_previous=is_previous)
        first = found[0][0] if found else 0.0
        return PreviousLog(rank, pod.attempt, pod.name, container, lambda: found, first, 0 < (tail or 0) <= len(found))

    async def _read_once(
        self, namespace: str, pod: str, container: str, tail: int | None, *, is_previous: bool = False
    ) -> list[TimedLine]:
        from console.logs.container_log import LogRequest, ResumeCursor

        found: list[TimedLine] = []
        wanted = LogRequest(namespace, pod, container, tail, previous=is_previous, follow=False)
        await self._streams(wanted, ResumeCursor(), Redactor().redact_lines, -1).run(found.extend)
        return found

    async def first_failure(self, namespace: str, name: str) -> FailureCard | None:
        """The first failure, eviction or preemption of a job's latest attempt that had one; None if none had."""
        key = namespace, name
        jobset, stored = self._cluster.fleet.jobsets.get(key), await self._find_stored(key)
        found = rank_failures(jobset, self._cluster.fleet) if jobset else []
        found += await asyncio.to_thread(stored.read_failures) if stored else ()
        first = first_of_latest_attempt(deduplicate(found))
        if first is None:
            return None
        from trainlog import find_failed_stage, parse_failures

        texts, unread = await self._last_lines(key, first[0], stored)
        named = parse_failures("\n".join(texts).encode())
        step = find_failed_stage(texts, named)
        return FailureCard(*first, tuple(texts[-FAILURE_CARD_LINES:]), (step, *named) if step else named, unread)

    async def _last_lines(
        self, key: tuple[str, str], failure: PodFailure, log_store: JobLogStore | None
    ) -> tuple[list[str], str]:
        """(last lines of the rank in the failed attempt, the reason if they could not be read, else "")."""
        log = self._open_logs.get(key)
        found, unread = _read_stored_tail(failure, log.parts if log else ()), ""
        if not found and failure.pod:
            try:
                async with asyncio.timeout(PREVIOUS_LOG_TIMEOUT):
                    lines = await self._read_once(key[0], failure.pod, "", FAILURE_TAIL_LINES)
                found = [decode_line(raw).decode("utf-8", "replace") for _, raw in lines]
            except TimeoutError:
                unread = f"The end of the log of pod {failure.rank} did not come within {PREVIOUS_LOG_TIMEOUT:g} s"
            except NotFound:
                pass  # the pod is gone, and the card says the rest
            except ConsoleError as error:
                unread = error.message.rstrip(".")
        if not found and log_store is not None:
            found = _read_stored_tail(failure, await asyncio.to_thread(log_store.load_segments))
        return found, "" if found else unread

    async def _find_stored(self, key: tuple[str, str]) -> JobLogStore | None:
        jobset, cluster = self._cluster.fleet.jobsets.get(key), self._cluster
        uid = jobset.uid if jobset else ""
        return await asyncio.to_thread(find_stored_job, self.folder, cluster.context, *key, uid, server=cluster.server)

    def on_context_changed(self) -> None:
        """Stop following the jobs of the previous cluster."""
        shared, self._open_logs = list(self._open_logs.values()), {}
        self._closing += [asyncio.create_task(each.close()) for each in shared]

    async def close(self) -> None:
        """Stop following all logs, and write pending lines to disk."""
        self.on_context_changed()
        await asyncio.gather(*self._closing)
