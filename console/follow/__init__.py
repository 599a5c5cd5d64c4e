"""Follow what all ranks of a job print at once, once for everybody who reads it, and keep it on this machine's disk."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from console.follow.joblog import JobLog
from console.follow.previous import Previous
from console.follow.why import card
from console.spool.shelf import logs_folder, sweep

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection
    from pathlib import Path

    from console.cluster.given import Memory
    from console.cluster.logs import LogStream, Wanted
    from console.follow.previous import PreviousRuns
    from console.follow.stream import OpenStream
    from console.models.failure import FailureCard
    from console.watched import WatchedCluster

    Key = tuple[str, str]


@dataclass(slots=True)
class _Shared:
    log: JobLog
    readers: int = 0


class Follow:
    """The logs of the jobs of one cluster."""

    def __init__(self, cluster: WatchedCluster, streams: OpenStream | None = None, folder: Path | None = None) -> None:
        """`streams` opens the log of a container, the cluster's own unless given; `folder` is where logs are kept."""
        self._cluster = cluster
        self._streams = streams or self._open_stream
        self._folder = folder
        self._shared: dict[Key, _Shared] = {}
        self._swept = False
        self._closing: list[asyncio.Task[None]] = []

    @property
    def folder(self) -> Path:
        """Where logs are kept; a practice cluster's go with it, for the next one gives its jobs the same uids."""
        if self._folder is not None:
            return self._folder
        practice = self._cluster.connected.target.cluster.practice_folder
        return practice / "logs" if practice else logs_folder()

    def _open_stream(
        self, wanted: Wanted, memory: Memory, clean: Callable[[list[bytes]], list[bytes]], restarts: int
    ) -> LogStream:
        from console.cluster.logs import LogStream

        return LogStream(self._cluster.connected.client, wanted, memory=memory, clean=clean, restarts=restarts)

    @asynccontextmanager
    async def job(
        self, namespace: str, name: str, *, tail: int | None = None, once: bool = False
    ) -> AsyncIterator[JobLog]:
        """The log of a job: one connection for each container, however many read; the last one to leave ends them.

        What is kept on the disk comes first. A job that is not there (any more) has only that; NotFound is raised by
        nobody, as it may still come. `tail`: lines of each container that are fetched at first, all of them unless
        given; `once`: what there is now, not followed.
        """
        key = namespace, name
        shared = self._shared.get(key)
        if shared is None:
            log = JobLog(self._cluster, key, self._streams, self.folder, tail=tail, once=once)
            shared = self._shared[key] = _Shared(log)
            log.start()
        shared.readers += 1
        await self._sweep()
        try:
            yield shared.log
        finally:
            shared.readers -= 1
            if not shared.readers and self._shared.get(key) is shared:
                del self._shared[key]
                await shared.log.close()

    async def previous(
        self, namespace: str, name: str, wanted: Collection[int] | None = None, *, tail: int | None = None
    ) -> PreviousRuns:
        """What ranks (all unless given) printed in the run before their last one, at most `tail` lines of each.

        NotFound if there is no such job, nor anything kept of one.
        """
        shared = self._shared.get((namespace, name))
        finder = Previous(self._cluster, self._streams, self.folder, (namespace, name))
        return await finder.read(wanted, tail, shared.log.parts if shared else ())

    async def why(self, namespace: str, name: str) -> FailureCard | None:
        """The first failure, eviction or preemption of a job's latest attempt that had one; None if none had."""
        shared = self._shared.get((namespace, name))
        return await card(
            self._cluster, self._streams, self.folder, (namespace, name), shared.log.parts if shared else ()
        )

    def left(self) -> None:
        """The cluster is another one from here on: its jobs are not those that were followed."""
        shared, self._shared = list(self._shared.values()), {}
        self._closing += [asyncio.create_task(each.log.close()) for each in shared]

    async def close(self) -> None:
        """End everything, and write what is not written."""
        self.left()
        await asyncio.gather(*self._closing)

    async def _sweep(self) -> None:
        if not self._swept:
            self._swept = True
            await asyncio.to_thread(sweep, self.folder)
