"""Logs of jobs and containers, each followed once for all its readers and stored on disk; and why a job failed."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from console.errors import ConsoleError, NotFound
from console.logs.failures import failed_step, parse_failures
from console.logs.job_log import JobLog
from console.logs.line_splitter import text_of
from console.logs.previous import PreviousLogReader
from console.logs.redact import Redactor
from console.logs.store import delete_old_logs, find_stored_job, logs_folder
from console.scheduling.failure import FailureCard, deduplicate, first_of_latest_attempt, rank_failures

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Sequence
    from pathlib import Path

    from console.kube.watched_cluster import WatchedCluster
    from console.logs.container_log import LogRequest, LogStream, ResumeCursor, Stamped
    from console.logs.line import LogLine
    from console.logs.previous import PreviousLogs
    from console.logs.segment import LogSegment
    from console.logs.store import JobLogStore
    from console.logs.stream import OpenStream
    from console.scheduling.failure import RankFailure


LINES = 12  # last lines on the card
READS = 4.0  # seconds that reading them may take
LOOKED = 400  # last lines that are looked through for failures that they name


async def failure_summary(
    cluster: WatchedCluster, streams: OpenStream, folder: Path, key: tuple[str, str], parts: Sequence[LogSegment]
) -> FailureCard | None:
    """The first failure of a job; None if nothing failed. `parts`: its log segments, if it is being followed."""
    jobset = cluster.fleet.jobsets.get(key)
    shelf = await asyncio.to_thread(
        find_stored_job, folder, cluster.context, *key, jobset.uid if jobset else "", server=cluster.server
    )
    found = rank_failures(jobset, cluster.fleet) if jobset else []
    found += await asyncio.to_thread(shelf.failures) if shelf else ()
    first = first_of_latest_attempt(deduplicate(found))
    if first is None:
        return None
    texts, unread = await _last_lines(streams, key[0], first[0], parts, shelf)
    named = parse_failures("\n".join(texts).encode())
    step = failed_step(texts, named)
    return FailureCard(*first, tuple(texts[-LINES:]), (step, *named) if step else named, unread)


async def _last_lines(
    streams: OpenStream, namespace: str, ending: RankFailure, parts: Sequence[LogSegment], shelf: JobLogStore | None
) -> tuple[list[str], str]:
    """The rank's last lines in that attempt: from the followed log, from its pod, or from disk.

    The second says why it is not there though its pod may have it.
    """
    found, unread = _tail(ending, parts), ""
    if not found and ending.pod:
        try:
            async with asyncio.timeout(READS):
                found = await _of_pod(streams, namespace, ending.pod)
        except TimeoutError:
            unread = f"The end of the log of pod {ending.rank} did not come within {READS:g} s"
        except NotFound:
            pass  # the pod is gone, and the card says the rest
        except ConsoleError as error:
            unread = error.message.rstrip(".")
    if not found and shelf is not None:
        found = _tail(ending, await asyncio.to_thread(lambda: list(shelf.segments())))
    return found, "" if found else unread


def _tail(ending: RankFailure, parts: Sequence[LogSegment]) -> list[str]:
    for part in reversed(parts):
        # Of the pod that ended, not of one in its place; unknown of what older versions kept.
        its = part.pod == ending.pod if part.pod and ending.pod else not part.uid or ending.uid in {"", part.uid}
        if (part.rank, part.attempt) == (ending.rank, ending.attempt) and len(part) and its:
            return [text.decode("utf-8", "replace") for text in part.texts(len(part) - LOOKED, len(part))]
    return []


async def _of_pod(streams: OpenStream, namespace: str, pod: str) -> list[str]:
    from console.logs.container_log import LogRequest, ResumeCursor

    found: list[Stamped] = []
    wanted = LogRequest(namespace, pod, tail=LOOKED, follow=False)
    await streams(wanted, ResumeCursor(), Redactor().lines, -1).run(found.extend)
    return [text_of(raw).decode("utf-8", "replace") for _, raw in found]


class Logs:
    def __init__(self, cluster: WatchedCluster, streams: OpenStream | None = None, folder: Path | None = None) -> None:
        """`streams` opens the log of a container, the cluster's own unless given; `folder` is where logs are kept."""
        self._cluster = cluster
        self._streams = streams or self._open_stream
        self._folder = folder
        self._shared: dict[tuple[str, str], JobLog] = {}
        self._swept = False
        self._closing: list[asyncio.Task[None]] = []

    @property
    def folder(self) -> Path:
        """Where logs are stored; a practice cluster has its own folder, since the next one reuses the same uids."""
        if self._folder is not None:
            return self._folder
        practice = self._cluster.current_connection.target.cluster.practice_folder
        return practice / "logs" if practice else logs_folder()

    def _open_stream(
        self, wanted: LogRequest, memory: ResumeCursor, clean: Callable[[list[bytes]], list[bytes]], restarts: int
    ) -> LogStream:
        from console.logs.container_log import LogStream

        return LogStream(self._cluster.current_connection.client, wanted, memory=memory, clean=clean, restarts=restarts)

    def follow(
        self,
        namespace: str,
        pod: str,
        *,
        container: str = "",
        tail: int | None = None,
        since: float = 0.0,
        previous: bool = False,
        follow: bool = True,
        drawn: bool = False,
        memory: ResumeCursor | None = None,
    ) -> AsyncGenerator[LogLine, None]:
        """Yield the lines of a container until it has ended, over dropped connections, none lost or repeated.

        `drawn`: also what is seen of a progress bar, each time it changes. `memory`: what was given before, in this
        session or another, is not given again.
        """
        from console.logs import container_log

        wanted = container_log.LogRequest(namespace, pod, container, tail, since, previous, follow)
        return container_log.follow_log(self._cluster.current_connection.client, wanted, drawn=drawn, memory=memory)

    @asynccontextmanager
    async def job(
        self,
        namespace: str,
        name: str,
        *,
        tail: int | None = None,
        once: bool = False,
        chosen: Callable[[int], Collection[int] | None] = lambda _: None,
    ) -> AsyncIterator[JobLog]:
        """The log of a job, with one connection per container shared by all readers; the last reader closes them.

        What is kept on the disk comes first. A job that is not there (any more) has only that; NotFound is raised by
        nobody, as it may still come. `tail`: lines of each container that are fetched at first, all of them unless
        given; `once`: what there is now, not followed; `chosen`: of so many ranks those that are read.
        """
        key = namespace, name
        log = self._shared.get(key)
        if log is None:
            log = JobLog(self._cluster, key, self._streams, self.folder, tail=tail, once=once, chosen=chosen)
            self._shared[key] = log
            log.start()
        log.readers += 1
        if not self._swept:
            self._swept = True
            await asyncio.to_thread(delete_old_logs, self.folder)
        try:
            yield log
        finally:
            log.readers -= 1
            if not log.readers and self._shared.get(key) is log:
                del self._shared[key]
                await log.close()

    async def previous(
        self, namespace: str, name: str, wanted: Collection[int] | None = None, *, tail: int | None = None
    ) -> PreviousLogs:
        """What ranks (all unless given) printed in the previous run of their containers, at most `tail` lines of each.

        NotFound if there is no such job, nor anything kept of one.
        """
        log = self._shared.get((namespace, name))
        finder = PreviousLogReader(self._cluster, self._streams, self.folder, (namespace, name))
        return await finder.read(wanted, tail, log.parts if log else ())

    async def first_failure(self, namespace: str, name: str) -> FailureCard | None:
        """The first failure, eviction or preemption of a job's latest attempt that had one; None if none had."""
        log = self._shared.get((namespace, name))
        return await failure_summary(
            self._cluster, self._streams, self.folder, (namespace, name), log.parts if log else ()
        )

    def on_context_changed(self) -> None:
        """Stop following the jobs of the previous cluster."""
        shared, self._shared = list(self._shared.values()), {}
        self._closing += [asyncio.create_task(each.close()) for each in shared]

    async def close(self) -> None:
        """Stop following all logs, and write pending lines to disk."""
        self.on_context_changed()
        await asyncio.gather(*self._closing)
