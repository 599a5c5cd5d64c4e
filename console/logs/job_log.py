"""The log of one job: the lines of all its ranks, over attempts, new pods and restarts, both live and stored.

Each log connection appends to a `LogSegment`, which holds the newest lines in memory and writes all of them to disk.
Each reader has a position in each segment and is woken when a segment grows, so a slow reader does not delay the
others and no reader loses a line. The segments bound the memory.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Iterator
from contextlib import aclosing, contextmanager
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from console.errors import ConsoleError, Unreadable
from console.kube.objects.jobset import JobSet
from console.kube.objects.pod import Container, Pod
from console.kube.snapshot import Fleet, WatchState
from console.logs.line import Coverage, Gap, PodLine, StreamState, sort_key
from console.logs.segment import LogSegment
from console.logs.store import JobFolder, JobMetadata, find_stored_job
from console.logs.stream import (
    FollowedContainer,
    count_coverage,
    fetch_older_lines,
    find_gaps,
    loggable_containers,
)
from console.scheduling.failure import rank_failures
from console.scheduling.pod_slots import PodSlot, pod_slots
from console.tasks import start_task
from console.yielding import WorkSlices
from trainlog import Redactor

if TYPE_CHECKING:
    from console.kube.watched_cluster import WatchedCluster
    from console.logs.container_log import LogStream, TimedLine
    from console.logs.stream import OpenStream


class ChangeSubscription:
    """Tracks which segments of a log have grown since the subscriber last read them."""

    def __init__(self, parts: Iterable[LogSegment]) -> None:
        self._parts = dict.fromkeys(parts)
        self._come = asyncio.Event()
        self._come.set()
        self._timer: asyncio.TimerHandle | None = None
        self._notify_all_later()

    def notify(self, *parts: LogSegment) -> None:
        """Mark these segments as grown; with none, another change is announced."""
        for part in parts:
            self._parts[part] = None
        self._come.set()

    def take_changed(self) -> list[LogSegment]:
        parts, self._parts = list(self._parts), {}
        return parts

    async def wait(self) -> None:
        """Wait until something may have changed, or a short time at most."""
        await self._come.wait()
        self._come.clear()

    def _notify_all_later(self) -> None:
        # One timer for all that is waited for: a timeout for each line costs more than the rest of the waiting.
        self._timer = asyncio.get_running_loop().call_later(REFUSED_RETRY_SECONDS, self._notify_all_later)
        self._come.set()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


PAGE_LINES, MIN_PAGE_LINES_PER_SEGMENT = 4000, 50  # lines that one reading takes at most, and of one part at least


class LogCursor:
    """A reader's position in the logs of some ranks (all, if none is given)."""

    def __init__(self, news: ChangeSubscription, wanted: Collection[int] | None = None) -> None:
        self._news = news
        self._wanted = wanted
        self._at: dict[LogSegment, int] = {}  # lines of each part that have been read

    def next_page(self) -> list[PodLine]:
        """The next page of lines in order of time; lines that an unread one may precede are left for later."""
        pages: list[tuple[LogSegment, int, int]] = []
        upto = float("inf")
        changed = self._news.take_changed()
        most = max(MIN_PAGE_LINES_PER_SEGMENT, PAGE_LINES // max(1, len(changed)))
        for part in changed:
            start, length = self._at.get(part, 0), len(part)
            if start < length and (self._wanted is None or part.rank in self._wanted):
                stop = min(length, start + most)
                pages.append((part, start, stop))
                if stop < length:
                    upto = min(upto, part.times[stop - 1])
        found: list[PodLine] = []
        for part, start, stop in pages:
            end = stop if upto == float("inf") else bisect_right(part.times, upto, start, stop)
            self._at[part] = end
            found += [
                PodLine(part.rank, moment, text.decode("utf-8", "replace"), part.attempt, part.pod, part.container)
                for moment, text in zip(part.times[start:end], part.read_texts(start, end), strict=True)
            ]
            if end < len(part):
                self._news.notify(part)
        found.sort(key=sort_key)
        return found


def _last_lines(part: LogSegment) -> list[TimedLine]:
    return list(part.iter_timed_lines(len(part) - MAX_COMPARED_LINES))


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
        chosen: Callable[[int], Collection[int] | None] = lambda _: None,
    ) -> None:
        """`chosen`: of so many ranks those that are read, None for all."""
        self.key = key
        self._chosen = chosen
        self.kept = JobFolder()
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
        self._reads = 0  # how many ranks are read
        self._followed: dict[tuple[int, int, str, str], FollowedContainer] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._listeners: list[ChangeSubscription] = []
        self._keeping = asyncio.Lock()
        self.closed = False
        self.readers = 0  # how many share it

    def start(self) -> None:
        self._tasks = [
            start_task(each, f"log:{self.key[1]}")
            for each in (self._follow_snapshots(), self._retry_refused(), self._write_periodically())
        ]

    async def close(self) -> None:
        """End all connections, and write pending lines to disk."""
        self.closed = True
        self._notify_listeners()
        tasks = [*self._tasks, *(each.task for each in self._followed.values() if each.task)]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._write_pending()
        for each in self._followed.values():
            if self.once and each.fresh and isinstance(each.error, Unreadable):
                with self.kept.translate_write_errors():  # one without an end would be read anew each time
                    await asyncio.to_thread(each.part.delete_file)
        await self.kept.close()

    async def _follow_snapshots(self) -> None:
        async with aclosing(self._cluster.snapshots()) as pictures:
            async for fleet in pictures:
                async with self._keeping:
                    await self._follow_snapshot(fleet)

    async def _retry_refused(self) -> None:
        """Retry refused logs at intervals, even if nothing changes in the cluster."""
        while True:
            await asyncio.sleep(REFUSED_RETRY_SECONDS)
            if any(each.is_retry_due for each in self._followed.values()):
                async with self._keeping:
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
            await self.kept.record_failure(ending)
        chosen = self._chosen(len(every))
        read = [rank for rank in every if chosen is None or rank.number in chosen]
        self._reads = len(read)
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
                self.ranks = stored.note.ranks  # not its uid: one of the same name may still come
                self.parts = await self.kept.load_segments(stored)
                self._notify_listeners(*self.parts)
            self.ready.set()

    async def _open_folder(self, jobset: JobSet, number: int) -> None:
        """Open the folder of a job in the cluster, and load the stored logs."""
        self.uid = jobset.uid
        note = JobMetadata(
            jobset.uid, *self.key, self._cluster.context, number, jobset.created, jobset.recipe, self._cluster.server
        )
        self.parts = await self.kept.open_folder(self._folder, note)
        self._notify_listeners(*self.parts)

    async def _follow_container(self, slot: PodSlot, pod: Pod, container: Container) -> None:
        name = pod.attempt, slot.number, container.name, pod.uid
        followed = self._followed.get(name)
        if followed is None:
            kept = next((each for each in self.parts if each.name == name), None)
            part = await self.kept.open_segment(kept, slot.number, pod, container.name)
            if part is not kept:
                self.parts.append(part)
            elif self._tail is None and not self.ready.is_set():
                with self.kept.translate_write_errors():
                    await fetch_older_lines(part, self._streams, pod, container.name)
            given = _last_lines(kept or part)
            stream = self._open_stream(given, pod, container, Redactor())
            followed = self._followed[name] = FollowedContainer(
                part, stream, not container.init, tail=0 if given else self._tail or 0, fresh=not given
            )
        elif followed.task is not None and followed.task.done() and self._still_follows(followed, container):
            given = _last_lines(followed.part)
            followed.stream = self._open_stream(given, pod, container, followed.redactor)
        else:
            return
        followed.error = None
        followed.task = asyncio.create_task(self._read_container(followed), name=f"log:{pod.name}/{container.name}")

    def _still_follows(self, followed: FollowedContainer, container: Container) -> bool:
        if self.once:
            return False
        if followed.error is not None:
            return followed.is_retry_due
        return container.restarts > max(0, followed.stream.restarts) and container.state == "running"

    def _open_stream(self, given: list[TimedLine], pod: Pod, container: Container, redactor: Redactor) -> LogStream:
        from console.logs.container_log import LogRequest, ResumeCursor

        memory = ResumeCursor(given, whole=self._tail is None and len(given) < MAX_COMPARED_LINES)
        tail = None if given else self._tail
        most = max(MIN_ONCE_BYTES_PER_LOG, MAX_ONCE_BYTES // max(1, self._reads))
        wanted = LogRequest(pod.namespace, pod.name, container.name, tail, follow=not self.once, most=most)
        return self._streams(wanted, memory, redactor.redact_lines, container.restarts)

    async def _read_container(self, followed: FollowedContainer) -> None:
        def append_batch(batch: list[TimedLine]) -> None:
            followed.append_batch(batch)
            self._notify_listeners(followed.part)

        try:
            await followed.stream.run(append_batch)
        except ConsoleError as error:
            followed.on_refused(error)
        followed.part.open = b""
        self._notify_listeners(followed.part)

    async def _write_periodically(self) -> None:
        while True:
            await asyncio.sleep(WRITE_SECONDS)
            if not await self._write_pending():
                await asyncio.sleep(DISK_RETRY_SECONDS)

    async def _write_pending(self) -> bool:
        for followed in [each for each in self._followed.values() if each.may_lack_older_lines()]:
            with self.kept.translate_write_errors():
                await followed.mark_truncated()
        return await self.kept.write_segments(self.parts)

    def _notify_listeners(self, *parts: LogSegment) -> None:
        for news in self._listeners:
            news.notify(*parts)

    async def iter_lines(self, wanted: Collection[int] | None = None) -> AsyncGenerator[list[PodLine], None]:
        """Yield these ranks' lines in batches by time, stored ones first, until the log or job ends."""
        with self.subscribe() as news:
            reader = LogCursor(news, wanted)
            await self.ready.wait()
            while self.once and not self.finished and not self.closed:
                await news.wait()  # what is not followed is sorted as a whole
            slices = WorkSlices()
            while True:
                over = self.closed or self.finished
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

    def progress_bars(self, wanted: Collection[int] | None = None) -> dict[int, str]:
        """Progress bars that these ranks (all unless given) are drawing: rank -> the unfinished line."""
        return {
            part.rank: part.open.decode("utf-8", "replace")
            for part in self.parts
            if part.open and (wanted is None or part.rank in wanted)
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
    def finished(self) -> bool:
        """Whether no more lines will come: the job has ended or is gone, and all its containers have been read."""
        if not self.ready.is_set() or any(each.task and not each.task.done() for each in self._followed.values()):
            return False
        jobset = self._cluster.fleet.jobsets.get(self.key)
        return self.once or (self.gone if jobset is None else jobset.finished)

    @property
    def connecting(self) -> bool:
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
        every = {each.part.rank: each.stream.complete_until for each in self._followed.values() if each.main}
        return max((until for rank, until in every.items() if not ranks or rank in ranks), default=inf)

    @property
    def coverage(self) -> Coverage:
        found = count_coverage(self._followed.values(), self.ranks, self.parts, self.kept.trouble, gone=self.gone)
        return replace(found, once=self.once)
