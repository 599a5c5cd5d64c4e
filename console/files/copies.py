"""Copies between this machine and the pods of a watched cluster."""

from __future__ import annotations

import asyncio
import functools
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from console.files.meter import Listener, Meter

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from types import ModuleType

    from console.files.pod_files import PodFiles
    from console.models.copying import CopyProgress, CopyReport, Way
    from console.ssh.sftp import Sftp
    from console.watched import WatchedCluster


def _ignore(_: CopyProgress) -> None:
    """Nobody listens."""


class Copies:
    """What a session can copy."""

    def __init__(self, watched: WatchedCluster) -> None:
        self._watched = watched

    async def fetch(
        self,
        namespace: str,
        pod: str,
        source: str,
        target: str,
        *,
        container: str = "",
        where: str = "",
        way: Way | None = None,
        progress: Listener = _ignore,
    ) -> CopyReport:
        """Copy a file or folder of a container to this machine; into `target` if that is a folder.

        `where` is how errors call the container. `way` None: SFTP where it works, else commands. Raises CopyFailed,
        NotFound, NotAllowed, Unreachable, BadInput.
        """
        from console.files.fetch import Fetch

        async with self._opened(namespace, pod, container, where, way) as files:
            return await Fetch(files, Meter(progress)).run(source, target)

    async def send(
        self,
        namespace: str,
        pod: str,
        source: str,
        target: str,
        *,
        container: str = "",
        where: str = "",
        way: Way | None = None,
        progress: Listener = _ignore,
    ) -> CopyReport:
        """Copy a file or folder of this machine to a container; raises as `fetch` does."""
        from console.files.send import Send

        self._watched.changing(f"copy {source} to {where or pod}")
        async with self._opened(namespace, pod, container, where, way) as files:
            return await Send(files, Meter(progress)).run(source, target)

    @asynccontextmanager
    async def _opened(
        self, namespace: str, pod: str, container: str, where: str, way: Way | None
    ) -> AsyncIterator[PodFiles]:
        """The container's files."""
        from console.cluster.exec import started
        from console.files.pod_files import PodFiles
        from console.files.sftp_files import SftpFiles
        from console.models.copying import Way

        start = functools.partial(started, self._watched.connected.client, namespace, pod, container=container)
        name = where or f"pod {pod}"
        async with AsyncExitStack() as stack:
            if way is Way.EXEC:
                yield PodFiles(start, name)
            else:
                connect = functools.partial(self._sftp, namespace, pod)
                yield SftpFiles(start, name, connect, stack, only=way is Way.SFTP)

    @asynccontextmanager
    async def _sftp(self, namespace: str, pod: str) -> AsyncIterator[Sftp]:
        """Imported only when it is used: half of all copies are small."""
        ssh = await asyncio.to_thread(_import_sftp)
        async with ssh.open_sftp(self._watched, namespace, pod) as sftp:
            yield sftp


def _import_sftp() -> ModuleType:
    from console.ssh import sftp

    return sftp
