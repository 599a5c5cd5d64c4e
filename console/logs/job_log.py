"""The log of one job: the lines of all its ranks, over attempts, new pods and restarts, both live and stored.

Each log connection appends to a `LogSegment`, which holds the newest lines in memory and writes all of them to disk.
Each reader has a position in each segment and is woken when a segment grows, so a slow reader does not delay the
others and no reader loses a line. The segments bound the memory.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Iterator
from contextlib import aclosing, contextmanager, suppress
from datetime import datetime
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from console.detached_tasks import start_task
from console.errors import ConsoleError, NotAllowed, Unreadable
from console.kube.backoff import DEFAULT_BACKOFF
from console.kube.objects.jobset import JobSet
from console.kube.objects.pod import Container, Pod
from console.kube.snapshot import Fleet, WatchState
from console.kube.stream_completeness import SERVER_CLOCK
from console.logs.container_log import LogRequest, ResumeCursor, StreamState
from console.logs.log_cursor import ChangeSubscription, LogCursor
from console.logs.log_folder import JobFolder, JobMetadata, find_stored_job
from console.logs.log_line import PodLine
from console.logs.log_segment import LogSegment
from console.scheduling.pod_failure import rank_failures
from console.scheduling.pod_slots import PodSlot, pod_slots
from console.work_slices import WorkSlices
from trainlog import Redactor

if TYPE_CHECKING:
    from console.kube.watched_cluster import WatchedCluster
    from console.logs.container_log import LogStream, TimedLine

    OpenStream = Callable[[LogRequest, ResumeCursor, Callable[[list[bytes]], list[bytes]], int], LogStream]
    """Opens a container's log: request, cursor after the delivered lines, redaction of lines, restarts."""


class Gap(Struct, frozen=True):
    """A period in which an unknown number of a rank's lines are missing."""

    rank: int
    since: float
    until: float
    why: str = "the log was rotated while it could not be read"

    @property
    def sentence(self) -> str:
        since, until = _format_clock(self.since), _format_clock(self.until)
        return f"pod {self.rank}: lines between {since} and {until} may be lost ({self.why})"


def _format_clock(moment: float) -> str:
    return f"{datetime.fromtimestamp(moment).astimezone():%H:%M:%S}"


class LogCoverage(Struct, frozen=True):
    """Number of a job's ranks by state of their log, and the lines that are missing."""

    total: int = 0
    live: int = 0
    reconnecting: int = 0
    waiting: int = 0
    ended: int = 0
    cut: int = 0
    refused: int = 0
    gaps: tuple[Gap, ...] = ()
    opened: int = 0  # ranks whose older lines were left out, because only the last ones were asked for
    opened_with: int = 0  # how many last lines that were
    lost: int = 0  # lines known to be lost: those that could be held neither on disk nor in memory
    why: str = ""  # the first refusal
    disk: str = ""  # why lines are not kept on disk; empty: they are
    once: bool = False  # whether only what there was had to be read: then the end of a log says nothing of its rank

    @property
    def sentence(self) -> str:
        """The coverage in words: "126 of 128 live, 2 reconnecting, 0 lines lost"."""
        done = "read" if self.once else "ended"
        parts = [
            f"{self.ended} of {self.total} {done}"
            if self.ended and not self.live
            else f"{self.live} of {self.total} live"
        ]
        if self.live and self.ended:
            parts.append(f"{self.ended} {done}")
        for number, word in (
            (self.reconnecting, "reconnecting"),
            (self.waiting, "waiting"),
            (self.cut, "deleted before the end of the log was read"),
            (self.refused, "refused"),
        ):
            if number:
                parts.append(f"{number} {word}")
        parts.append(f"{self.lost:,} lines lost")
        if self.opened:
            pods = f"{self.opened} pod{'s' if self.opened > 1 else ''}"
            parts.append(f"of {pods} only the last {self.opened_with:,} lines were read")
        if self.gaps:
            parts.append(f"{len(self.gaps)} gap{'s' if len(self.gaps) > 1 else ''} with lines that may be lost")
        return ", ".join(parts) + (f". {self.disk}" if self.disk else "")


MAX_REFUSED_RETRY_SECONDS = 30.0  # seconds until a refused log is asked for again, at most
_BROKEN_STATES = (StreamState.RECONNECTING, StreamState.CUT, StreamState.REFUSED)
CLOCK_SKEW_SECONDS = 600.0  # seconds by which the clocks of machines may differ


class FollowedContainer(Struct):
    """A container whose log is followed, with its connection and its segment."""

    segment: LogSegment
    stream: LogStream
    is_main: bool
    task: asyncio.Task[None] | None = None
    error: ConsoleError | None = None
    redactor: Redactor = field(default_factory=Redactor)
    refusals: int = 0  # in a row, each soon after the one before
    retry_at: float = 0.0  # when a refused log may be asked for again, by the loop's clock
    tail: int = 0  # how many last lines it is opened with, until it is known whether there were more; 0: with all
    is_fresh: bool = False  # whether nothing of it was kept before
    opened_at: float = field(default_factory=SERVER_CLOCK.now)

    def append_batch(self, batch: list[TimedLine]) -> None:
        self.segment.append_lines(batch)
        self.segment.open_line = self.stream.open_line

    def may_lack_older_lines(self) -> bool:
        """Whether the first request returned as many lines as requested, so that the log may have older ones."""
        if not self.tail or not len(self.segment):
            return False
        if self.segment.times[-1] > self.opened_at + CLOCK_SKEW_SECONDS and len(self.segment) < self.tail:
            self.tail = 0  # these are new, and all that were there have come
        return 0 < self.tail <= len(self.segment)

    def on_refused(self, error: ConsoleError) -> None:
        """Record that the log is refused, or that the server has not answered for minutes."""
        self.error, self.stream.state = error, StreamState.REFUSED
        now, most = asyncio.get_running_loop().time(), MAX_REFUSED_RETRY_SECONDS
        self.refusals = self.refusals + 1 if now < self.retry_at + most else 1
        self.retry_at = now + (most if isinstance(error, NotAllowed) else DEFAULT_BACKOFF.pause(self.refusals, most))

    @property
    def is_retry_due(self) -> bool:
        """Whether the log was refused and it is time to request it again."""
        ended = self.task is None or self.task.done()
        return self.error is not None and ended and asyncio.get_running_loop().time() > self.retry_at

    @property
    def gaps(self) -> list[Gap]:
        found = [Gap(self.segment.rank, since, until) for since, until in self.stream.gaps]
        if found and self.stream.state is StreamState.CUT:
            found[-1] = replace(found[-1], why="its pod was deleted before the end of its log was read")
        return found

    async def mark_truncated(self) -> None:
        """Record on disk that older lines may be missing. Raises OSError."""
        last, self.tail = self.tail, 0
        await asyncio.to_thread(self.segment.mark_truncated, last)


async def fetch_older_lines(segment: LogSegment, streams: OpenStream, pod: Pod, container: str) -> None:
    """Fetch the older lines that were skipped at first, if the container still has them. OSError if a write fails."""
    if not segment.opened_with or not segment.times:
        return
    first = segment.times[0]
    wanted = LogRequest(pod.namespace, pod.name, container, follow=False)
    from tempfile import TemporaryFile  # 2 ms, for which nobody waits whose log is not followed

    # With an error coverage goes on saying that they are missing.
    with suppress(ConsoleError), TemporaryFile(dir=segment.file.parent if segment.file else None) as before:
        async with aclosing(streams(wanted, ResumeCursor(), Redactor().redact_lines, -1).batches()) as batches:
            async for batch in batches:
                before.writelines(raw + b"\n" for moment, raw in batch if moment < first)
                if batch[-1][0] >= first:
                    break
        await asyncio.to_thread(segment.backfill, before)


def count_coverage(
    containers: Iterable[FollowedContainer], ranks: int, segments: Iterable[LogSegment], disk: str, *, is_gone: bool
) -> LogCoverage:
    """The coverage of all ranks, judged by the newest main container of each."""
    states: dict[int, StreamState] = {}
    gaps: list[Gap] = []
    errors: list[str] = []
    for each in containers:
        if each.is_main:
            states[each.segment.rank] = each.stream.state
        gaps += each.gaps
        errors += [str(each.error)] if each.error else []
    number = Counter(states.values())
    segments = list(segments)
    opened = [part for part in segments if part.opened_with]
    if is_gone and not states:
        number[StreamState.ENDED] = ranks
    return LogCoverage(
        ranks,
        number[StreamState.LIVE],
        number[StreamState.RECONNECTING],
        max(0, ranks - sum(number.values())) + number[StreamState.WAITING],
        number[StreamState.ENDED],
        number[StreamState.CUT],
        number[StreamState.REFUSED],
        tuple(gaps),
        len({part.rank for part in opened}),
        max((part.opened_with for part in opened), default=0),
        sum(part.lost_lines for part in segments),
        errors[0] if errors else "",
        disk,
    )


def find_gaps(containers: Iterable[FollowedContainer], segments: Iterable[LogSegment]) -> tuple[Gap, ...]:
    """Periods in which ranks may lack lines: before a log was opened late, and after a connection broke."""
    found: list[Gap] = []
    ends: dict[int, float] = {}
    for part in sorted(segments, key=lambda each: each.times[0] if each.times else float("inf")):
        if part.opened_with:
            until = part.times[0] if part.times else float("inf")
            found.append(Gap(part.rank, ends.get(part.rank, 0.0), until, "older lines were left out"))
        if part.times:
            ends[part.rank] = max(ends.get(part.rank, 0.0), part.times[-1])
    for each in containers:
        found += each.gaps
        if each.is_main and each.stream.state in _BROKEN_STATES:
            found.append(Gap(each.segment.rank, ends.get(each.segment.rank, 0.0), float("inf"), "not read so far"))
    return tuple(found)


def loggable_containers(slot: PodSlot) -> list[Container]:
    """The main and init containers of a rank; a sidecar is left out once the main one has started."""
    if slot.pod is None or slot.pod.main is None:
        return []
    main = slot.pod.main
    started = slot.pod.finished or main.restarts > 0 or main.state != "waiting"
    first = [
        each
        for each in slot.pod.containers
        if each.init and (each.state == "terminated" or (each.state == "running" and not started))
    ]
    return [*first, main] if started else first


def _last_lines(segment: LogSegment) -> list[TimedLine]:
    return list(segment.iter_timed_lines(len(segment) - MAX_COMPARED_LINES))


MAX_ONCE_BYTES, MIN_ONCE_BYTES_PER_LOG = 96 << 20, 12 << 20  # of logs that are read once; kubelets keep 10 MiB a file
WRITE_SECONDS = 0.25  # seconds between two writings to the disk
DISK_RETRY_SECONDS = 5.0  # seconds until a disk that took nothing is tried again
REFUSED_RETRY_SECONDS = 1.0  # seconds between two looks for logs that were refused and are to be asked for again
MAX_COMPARED_LINES = 4000  # kept lines of a container that are compared with what the server sends


class JobLog:
    def __init__(
        self,
        cluster: WatchedCluster,
        key: tuple[str, str],
        streams: OpenStream,
        folder: Path,
        *,
        tail: int | None = None,
        once: bool = False,
        choose_ranks: Callable[[int], Collection[int] | None] = lambda _: None,
    ) -> None:
        """`choose_ranks` maps the number of ranks to those that are read; None means all."""
        self.key = key
        self._choose_ranks = choose_ranks
        self.folder = JobFolder()
        self.parts: list[LogSegment] = []  # lines of each container, those of the disk first
        self.ranks = 0  # how many ranks the job has
        self.uid = ""
        self.gone = False  # whether the job is not in the cluster, so that all there is is what was kept
        self.ready = asyncio.Event()  # set once the job was seen or is gone, and what is kept was read
        self._cluster = cluster
        self._streams = streams
        self._folder = folder
        self._tail = tail
        self.once = once
        self._read_count = 0  # how many ranks are read
        self._followed: dict[tuple[int, int, str, str], FollowedContainer] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._listeners: list[ChangeSubscription] = []
        self._write_lock = asyncio.Lock()
        self.is_closed = False
        self.readers = 0  # how many share it

    def start(self) -> None:
        self._tasks = [
            start_task(each, f"log:{self.key[1]}")
            for each in (self._follow_snapshots(), self._retry_refused(), self._write_periodically())
        ]

    async def close(self) -> None:
        """End all connections, and write pending lines to disk."""
        self.is_closed = True
        self._notify_listeners()
        tasks = [*self._tasks, *(each.task for each in self._followed.values() if each.task)]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._write_pending()
        for each in self._followed.values():
            if self.once and each.is_fresh and isinstance(each.error, Unreadable):
                with self.folder.translate_write_errors():  # one without an end would be read anew each time
                    await asyncio.to_thread(each.segment.delete_file)
        await self.folder.close()

    async def _follow_snapshots(self) -> None:
        async with aclosing(self._cluster.snapshots()) as pictures:
            async for fleet in pictures:
                async with self._write_lock:
                    await self._follow_snapshot(fleet)

    async def _retry_refused(self) -> None:
        """Retry refused logs at intervals, even if nothing changes in the cluster."""
        while True:
            await asyncio.sleep(REFUSED_RETRY_SECONDS)
            if any(each.is_retry_due for each in self._followed.values()):
                async with self._write_lock:
                    await self._follow_snapshot(self._cluster.fleet)

    async def _follow_snapshot(self, fleet: Fleet) -> None:
        """Start to follow every container of that snapshot that has started; never runs twice at the same time."""
        jobset = fleet.jobsets.get(self.key)
        if jobset is None:
            await self._on_job_missing(fleet)
            return
        self.gone = False
        every = pod_slots(jobset, fleet)
        self.ranks = len(every)
        if self.uid != jobset.uid:
            await self._open_folder(jobset, len(every))
        for ending in rank_failures(jobset, fleet):  # they cannot be asked once the pods are gone
            await self.folder.record_failure(ending)
        chosen = self._choose_ranks(len(every))
        read = [rank for rank in every if chosen is None or rank.number in chosen]
        self._read_count = len(read)
        for rank in read:
            for container in loggable_containers(rank):
                assert rank.pod is not None
                await self._follow_container(rank, rank.pod, container)
        self.ready.set()

    async def _on_job_missing(self, fleet: Fleet) -> None:
        self.gone = fleet.links["jobsets"].state is not WatchState.LISTING
        if self.gone and not self.ready.is_set():
            stored = await asyncio.to_thread(
                find_stored_job, self._folder, self._cluster.context, *self.key, server=self._cluster.server
            )
            if stored is not None and not self.uid:
                self.ranks = stored.metadata.ranks  # not its uid: one of the same name may still come
                self.parts = await self.folder.load_segments(stored)
                self._notify_listeners(*self.parts)
            self.ready.set()

    async def _open_folder(self, jobset: JobSet, number: int) -> None:
        """Open the folder of a job in the cluster, and load the stored logs."""
        self.uid = jobset.uid
        note = JobMetadata(
            jobset.uid, *self.key, self._cluster.context, number, jobset.created, jobset.recipe, self._cluster.server
        )
        self.parts = await self.folder.open_folder(self._folder, note)
        self._notify_listeners(*self.parts)

    async def _follow_container(self, slot: PodSlot, pod: Pod, container: Container) -> None:
        name = pod.attempt, slot.number, container.name, pod.uid
        followed = self._followed.get(name)
        if followed is None:
            kept = next((each for each in self.parts if each.name == name), None)
            part = await self.folder.open_segment(kept, slot.number, pod, container.name)
            if part is not kept:
                self.parts.append(part)
            elif self._tail is None and not self.ready.is_set():
                with self.folder.translate_write_errors():
                    await fetch_older_lines(part, self._streams, pod, container.name)
            given = _last_lines(kept or part)
            stream = self._open_stream(given, pod, container, Redactor())
            followed = self._followed[name] = FollowedContainer(
                part, stream, not container.init, tail=0 if given else self._tail or 0, is_fresh=not given
            )
        elif followed.task is not None and followed.task.done() and self._still_follows(followed, container):
            given = _last_lines(followed.segment)
            followed.stream = self._open_stream(given, pod, container, followed.redactor)
        else:
            return
        followed.error = None
        followed.task = asyncio.create_task(self._read_container(followed), name=f"log:{pod.name}/{container.name}")

    def _still_follows(self, followed_container: FollowedContainer, container: Container) -> bool:
        if self.once:
            return False
        if followed_container.error is not None:
            return followed_container.is_retry_due
        return container.restarts > max(0, followed_container.stream.restarts) and container.state == "running"

    def _open_stream(self, received: list[TimedLine], pod: Pod, container: Container, redactor: Redactor) -> LogStream:
        from console.logs.container_log import LogRequest, ResumeCursor

        memory = ResumeCursor(received, is_whole_file=self._tail is None and len(received) < MAX_COMPARED_LINES)
        tail = None if received else self._tail
        most = max(MIN_ONCE_BYTES_PER_LOG, MAX_ONCE_BYTES // max(1, self._read_count))
        wanted = LogRequest(pod.namespace, pod.name, container.name, tail, follow=not self.once, max_bytes=most)
        return self._streams(wanted, memory, redactor.redact_lines, container.restarts)

    async def _read_container(self, followed_container: FollowedContainer) -> None:
        def append_batch(batch: list[TimedLine]) -> None:
            followed_container.append_batch(batch)
            self._notify_listeners(followed_container.segment)

        try:
            await followed_container.stream.run(append_batch)
        except ConsoleError as error:
            followed_container.on_refused(error)
        followed_container.segment.open_line = b""
        self._notify_listeners(followed_container.segment)

    async def _write_periodically(self) -> None:
        while True:
            await asyncio.sleep(WRITE_SECONDS)
            if not await self._write_pending():
                await asyncio.sleep(DISK_RETRY_SECONDS)

    async def _write_pending(self) -> bool:
        for followed in [each for each in self._followed.values() if each.may_lack_older_lines()]:
            with self.folder.translate_write_errors():
                await followed.mark_truncated()
        return await self.folder.write_segments(self.parts)

    def _notify_listeners(self, *segments: LogSegment) -> None:
        for news in self._listeners:
            news.notify(*segments)

    async def iter_lines(self, ranks: Collection[int] | None = None) -> AsyncGenerator[list[PodLine], None]:
        """Yield these ranks' lines in batches by time, stored ones first, until the log or job ends."""
        with self.subscribe() as news:
            reader = LogCursor(news, ranks)
            await self.ready.wait()
            while self.once and not self.is_finished and not self.is_closed:
                await news.wait()  # what is not followed is sorted as a whole
            slices = WorkSlices()
            while True:
                over = self.is_closed or self.is_finished
                batch = reader.next_page()
                if batch:
                    yield batch
                    await slices.pause()
                elif over:
                    return
                else:
                    await news.wait()
                    slices.begin()
                    await asyncio.sleep(0)  # whoever else has lines at this moment adds them first

    def segments_of(self, rank: int) -> list[LogSegment]:
        return [part for part in self.parts if part.rank == rank]

    def progress_bars(self, ranks: Collection[int] | None = None) -> dict[int, str]:
        """The current progress bar (a line without an end yet) by rank, of these ranks or all."""
        return {
            part.rank: part.open_line.decode("utf-8", "replace")
            for part in self.parts
            if part.open_line and (ranks is None or part.rank in ranks)
        }

    @contextmanager
    def subscribe(self) -> Iterator[ChangeSubscription]:
        """Subscribe to the growth of segments; all of them count as grown at first."""
        news = ChangeSubscription(self.parts)
        self._listeners.append(news)
        try:
            yield news
        finally:
            self._listeners.remove(news)
            news.close()

    @property
    def is_finished(self) -> bool:
        """Whether the log is complete: the job has ended or is gone, and all its containers have been read."""
        if not self.ready.is_set() or any(each.task and not each.task.done() for each in self._followed.values()):
            return False
        jobset = self._cluster.fleet.jobsets.get(self.key)
        return self.once or (self.gone if jobset is None else jobset.finished)

    @property
    def is_connecting(self) -> bool:
        """Whether a requested log has not been answered yet."""
        return any(
            each.task is not None and not each.task.done() and each.stream.state is StreamState.WAITING
            for each in self._followed.values()
        )

    @property
    def errors(self) -> list[ConsoleError]:
        """The error of each container whose log cannot be read, or not to its end."""
        return [each.error for each in self._followed.values() if each.error is not None]

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """Periods in which a pod's lines are missing: truncated, lost, delayed or refused."""
        return find_gaps(self._followed.values(), self.parts)

    def complete_until(self, ranks: Collection[int]) -> float:
        """The time (monotonic clock) up to which the logs of these ranks, or of any, are complete."""
        every = {each.segment.rank: each.stream.complete_until for each in self._followed.values() if each.is_main}
        return max((until for rank, until in every.items() if not ranks or rank in ranks), default=inf)

    @property
    def coverage(self) -> LogCoverage:
        found = count_coverage(self._followed.values(), self.ranks, self.parts, self.folder.problem, is_gone=self.gone)
        return replace(found, once=self.once)
