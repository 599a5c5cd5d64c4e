"""Copies between this machine and pods of the cluster, with progress and retries."""

from __future__ import annotations

import asyncio
import functools
import importlib
import os
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from console.attach.files.entries import CopyMethod, CopyProgress, CopyReport
from console.attach.files.local import format_size
from console.errors import BadInput, CopyFailed, NotAllowed, NotLoggedIn, Refused, Unreachable

if TYPE_CHECKING:
    from console.attach.files.pod_files import PodFiles, PodFolder
    from console.attach.ssh.client import Sftp
    from console.kube.watched_cluster import WatchedCluster


Listener = Callable[[CopyProgress], None]
MAX_TRIES = 5  # attempts without a byte of progress after which a copy gives up
_PAUSE = 0.5  # seconds before the second attempt; doubled each time
RETRY_SECONDS = "Run the same command again: it continues where this one stopped."


class CopyMeter:
    def __init__(self, listener: Listener, *, pause: float = _PAUSE) -> None:
        self._listener = listener
        self._pause = pause
        self.done = 0
        self.landed = 0  # the same, as far as it is known to have arrived
        self.total = 0
        self.files = 0
        self.all_files = 0
        self.resumed = 0
        self.now = ""

    def report(self, now: str | None = None) -> None:
        self.now = self.now if now is None else now
        self._listener(CopyProgress(self.done, self.total, self.files, self.all_files, self.now, self.resumed))

    def add_bytes(self, size: int) -> None:
        self.landed += size
        self.add_file(size)

    def add_file(self, size: int) -> None:
        self.done += size
        self.report()

    def add_existing(self, size: int, *, whole: bool) -> None:
        """Count bytes that existed before this copy began."""
        self.done += size
        self.resumed += size
        self.files += whole
        self.report()

    def finish_file(self) -> None:
        self.files += 1
        self.report()

    async def retry_while_progressing(self, what: str, attempt: Callable[[], Awaitable[bool]]) -> None:
        """Call `attempt` until True, again after connection errors while bytes arrive; else CopyFailed."""
        fruitless = 0
        while True:
            before = self.landed
            try:
                if await attempt():
                    return
                error: Unreachable | None = None
            except Unreachable as broken:
                error = broken
            except Refused as gone:
                if not gone.status or isinstance(gone, NotAllowed | NotLoggedIn):
                    raise  # said of one file, or of the account
                raise CopyFailed(f"{what}: {self._progress_text()} {gone.message}", RETRY_SECONDS) from gone
            fruitless = 0 if self.landed > before else fruitless + 1
            if fruitless >= MAX_TRIES:
                why = error.message if error else "The other side stopped sending."
                raise CopyFailed(f"{what} was interrupted: {self._progress_text()} {why}", RETRY_SECONDS) from error
            await asyncio.sleep(self._pause * 2**fruitless if fruitless else 0)

    def _progress_text(self) -> str:
        return f"{format_size(self.done)} of {format_size(self.total)} are there."


def _ignore_progress(_: CopyProgress) -> None: ...


class FileCopies:
    def __init__(self, watched: WatchedCluster) -> None:
        self._watched = watched

    def for_container(
        self, namespace: str, pod: str, *, container: str = "", where: str = "", way: CopyMethod | None = None
    ) -> ContainerCopies:
        """Copies from and to a container (the first unless named), called `where` in errors, by SFTP or commands."""
        return ContainerCopies(self._watched, namespace, pod, container, where or f"pod {pod}", way)


class ContainerCopies:
    """Copies to and from one container. CopyFailed, NotFound, NotAllowed, Unreachable, BadInput."""

    def __init__(
        self, watched: WatchedCluster, namespace: str, pod: str, container: str, where: str, way: CopyMethod | None
    ) -> None:
        self._watched = watched
        self._namespace, self._pod, self._container = namespace, pod, container
        self._where = where
        self._way = way

    async def fetch(self, source: str, target: str, *, progress: Listener = _ignore_progress) -> CopyReport:
        """Copy a file or folder of the container to this machine; into `target` if that is a folder."""
        from console.attach.files.transfer import FetchCopy

        async with self._open_files() as files:
            return await FetchCopy(files, CopyMeter(progress)).run(source, target)

    async def send(self, source: str, target: str, *, progress: Listener = _ignore_progress) -> CopyReport:
        from console.attach.files.transfer import SendCopy

        cluster = self._watched.connection_for_change(f"copy {source} to {self._where}").target.cluster
        if (practice := cluster.practice_folder) and target.startswith("/"):
            places = practice, Path(tempfile.gettempdir())
            await _refuse_outside(Path(target), places, f"Nothing is copied to {target}")
        async with self._open_files() as files:
            return await SendCopy(files, CopyMeter(progress)).run(source, target)

    async def list_folder(self, path: str) -> PodFolder:
        return await self.command_files().list_folder(path)

    async def delete(self, path: str) -> None:
        cluster = self._watched.connection_for_change(f"delete {path} in {self._where}").target.cluster
        if practice := cluster.practice_folder:
            await _refuse_outside(Path(path), (practice,), f"{path} is not deleted")
        await self.command_files().delete_path(path)

    def command_files(self) -> PodFiles:
        """Access to the container's files by commands that run in it, without SFTP."""
        from console.attach.files.pod_files import PodFiles
        from console.kube.exec import start_process

        client = self._watched.current_connection.client
        start = functools.partial(start_process, client, self._namespace, self._pod, container=self._container)
        return PodFiles(start, self._where)

    @asynccontextmanager
    async def _open_files(self) -> AsyncIterator[PodFiles]:
        from console.attach.files.pod_files import SftpFiles

        files = self.command_files()
        async with AsyncExitStack() as stack:
            if self._way is CopyMethod.EXEC:
                yield files
            else:
                yield SftpFiles(files.start, self._where, self._open_sftp, stack, only=self._way is CopyMethod.SFTP)

    @asynccontextmanager
    async def _open_sftp(self) -> AsyncIterator[Sftp]:
        """An SFTP connection; paramiko is imported here, in a thread, since half of all copies do not need it."""
        await asyncio.to_thread(importlib.import_module, "console.attach.ssh.client")
        from console.attach.ssh import client as ssh

        async with ssh.open_sftp(self._watched, self._namespace, self._pod) as sftp:
            yield sftp


async def _refuse_outside(path: Path, folders: tuple[Path, ...], refused: str) -> None:
    """Raise BadInput for a path of this machine, on which pods of the practice cluster run, outside these folders."""

    def is_outside() -> bool:
        whole = Path(os.path.normpath(path)).parent.resolve() / path.name
        return not path.is_absolute() or not any(whole.is_relative_to(folder.resolve()) for folder in folders)

    if await asyncio.to_thread(is_outside):
        allowed = " and ".join(map(str, folders))
        hint = f"Only files in {allowed} can be changed."
        raise BadInput(f"{refused}: pods of the practice cluster run on your own machine.", hint)
