"""Copies between this machine and the pods of a watched cluster."""

from __future__ import annotations

import asyncio
import functools
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from console.errors import BadInput
from console.files.meter import Listener, Meter

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from types import ModuleType

    from console.files.folders import PodFolders
    from console.files.pod_files import PodFiles
    from console.models.copying import CopyProgress, CopyReport, Way
    from console.models.folder import PodFolder
    from console.ssh.sftp import Sftp
    from console.watched import WatchedCluster


def _ignore(_: CopyProgress) -> None:
    """Nobody listens."""


class Copies:
    """What a session can copy."""

    def __init__(self, watched: WatchedCluster) -> None:
        self._watched = watched

    def of(
        self, namespace: str, pod: str, *, container: str = "", where: str = "", way: Way | None = None
    ) -> ContainerCopies:
        """Copies from and to a container; empty: the pod's first.

        `where` is how errors call it. `way` None: SFTP where it works, else commands.
        """
        return ContainerCopies(self._watched, namespace, pod, container, where or f"pod {pod}", way)


class ContainerCopies:
    """Copies between this machine and one container.

    Both ways raise CopyFailed, NotFound, NotAllowed, Unreachable, BadInput.
    """

    def __init__(
        self, watched: WatchedCluster, namespace: str, pod: str, container: str, where: str, way: Way | None
    ) -> None:
        self._watched = watched
        self._namespace, self._pod, self._container = namespace, pod, container
        self._where = where
        self._way = way

    async def fetch(self, source: str, target: str, *, progress: Listener = _ignore) -> CopyReport:
        """Copy a file or folder of the container to this machine; into `target` if that is a folder."""
        from console.files.fetch import Fetch

        async with self._opened() as files:
            return await Fetch(files, Meter(progress)).run(source, target)

    async def send(self, source: str, target: str, *, progress: Listener = _ignore) -> CopyReport:
        """Copy a file or folder of this machine to the container."""
        from console.files.send import Send

        self._watched.changing(f"copy {source} to {self._where}")
        async with self._opened() as files:
            return await Send(files, Meter(progress)).run(source, target)

    async def listed(self, path: str) -> PodFolder:
        """What is in a folder of the container, and how full its disk is."""
        return await self._folders().listed(path)

    async def delete(self, path: str) -> None:
        """Delete a file, or a folder with all that is in it; as PodFolders has it."""
        practice = self._watched.changing(f"delete {path} in {self._where}").target.cluster.practice_folder
        if practice and not await asyncio.to_thread(_lies_in, Path(path), practice):
            raise BadInput(
                f"{path} is not deleted: pods of the practice cluster run on your own machine.",
                f"What lies in {practice} may go.",
            )
        await self._folders().delete(path)

    def _folders(self) -> PodFolders:
        from console.cluster.exec import started
        from console.files.folders import PodFolders

        client = self._watched.connected.client
        start = functools.partial(started, client, self._namespace, self._pod, container=self._container)
        return PodFolders(start, self._where)

    @asynccontextmanager
    async def _opened(self) -> AsyncIterator[PodFiles]:
        """The container's files."""
        from console.cluster.exec import started
        from console.files.pod_files import PodFiles
        from console.files.sftp_files import SftpFiles
        from console.models.copying import Way

        client = self._watched.connected.client
        start = functools.partial(started, client, self._namespace, self._pod, container=self._container)
        async with AsyncExitStack() as stack:
            if self._way is Way.EXEC:
                yield PodFiles(start, self._where)
            else:
                yield SftpFiles(start, self._where, self._sftp, stack, only=self._way is Way.SFTP)

    @asynccontextmanager
    async def _sftp(self) -> AsyncIterator[Sftp]:
        """Imported only when it is used: half of all copies are small."""
        ssh = await asyncio.to_thread(_import_sftp)
        async with ssh.open_sftp(self._watched, self._namespace, self._pod) as sftp:
            yield sftp


def _lies_in(path: Path, folder: Path) -> bool:
    return path.is_absolute() and (path.parent.resolve() / path.name).is_relative_to(folder.resolve())


def _import_sftp() -> ModuleType:
    from console.ssh import sftp

    return sftp
