"""Copies between this machine and containers of pods, by SFTP or by commands that run there."""

from __future__ import annotations

import asyncio
import functools
import importlib
import os
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from console.attach.files.copy_progress import CopyMeter, CopyMethod, CopyProgress, CopyReport, Listener
from console.attach.files.pod_files import PodFiles, PodFolder, SftpFiles
from console.attach.files.single_copy import FetchCopy, SendCopy
from console.errors import BadInput

if TYPE_CHECKING:
    from console.attach.ssh.client import SftpConnection
    from console.kube.watched_cluster import WatchedCluster


def _ignore_progress(_: CopyProgress) -> None: ...


class FileCopies:
    def __init__(self, cluster: WatchedCluster) -> None:
        self._cluster = cluster

    def for_container(
        self, namespace: str, pod: str, *, container: str = "", label: str = "", method: CopyMethod | None = None
    ) -> ContainerCopies:
        """A copier for one container (default: the first), `label` in errors; `method` None: the best for each size."""
        return ContainerCopies(self._cluster, namespace, pod, container, label or f"pod {pod}", method)


class ContainerCopies:
    """Copies to and from one container. Raises CopyFailed, NotFound, NotAllowed, Unreachable or BadInput."""

    def __init__(
        self, cluster: WatchedCluster, namespace: str, pod: str, container: str, label: str, method: CopyMethod | None
    ) -> None:
        self._cluster = cluster
        self._namespace, self._pod, self._container = namespace, pod, container
        self._label = label
        self._method = method

    async def fetch(self, source: str, target: str, *, progress: Listener = _ignore_progress) -> CopyReport:
        """Copy a file or folder of the container to this machine; into `target` if that is a folder."""
        async with self._open_files() as files:
            return await FetchCopy(files, CopyMeter(progress)).run(source, target)

    async def send(self, source: str, target: str, *, progress: Listener = _ignore_progress) -> CopyReport:
        cluster = self._cluster.connection_for_change(f"copy {source} to {self._label}").target.cluster
        if (practice := cluster.practice_folder) and target.startswith("/"):
            places = practice, Path(tempfile.gettempdir())
            await _refuse_outside(Path(target), places, f"Nothing is copied to {target}")
        async with self._open_files() as files:
            return await SendCopy(files, CopyMeter(progress)).run(source, target)

    async def list_folder(self, path: str) -> PodFolder:
        return await self.command_files().list_folder(path)

    async def delete(self, path: str) -> None:
        cluster = self._cluster.connection_for_change(f"delete {path} in {self._label}").target.cluster
        if practice := cluster.practice_folder:
            await _refuse_outside(Path(path), (practice,), f"{path} is not deleted")
        await self.command_files().delete_path(path)

    def command_files(self) -> PodFiles:
        """Access to the container's files by commands that run in it, without SFTP."""
        from console.kube.exec import start_process

        client = self._cluster.current_connection.client
        start = functools.partial(start_process, client, self._namespace, self._pod, container=self._container)
        return PodFiles(start, self._label)

    @asynccontextmanager
    async def _open_files(self) -> AsyncIterator[PodFiles]:
        files = self.command_files()
        async with AsyncExitStack() as stack:
            if self._method is CopyMethod.EXEC:
                yield files
            else:
                yield SftpFiles(files.start, self._label, self._open_sftp, stack, only=self._method is CopyMethod.SFTP)

    @asynccontextmanager
    async def _open_sftp(self) -> AsyncIterator[SftpConnection]:
        """An SFTP connection; paramiko is imported here, in a thread, since half of all copies do not need it."""
        await asyncio.to_thread(importlib.import_module, "console.attach.ssh.client")
        from console.attach.ssh import client as ssh

        async with ssh.open_sftp(self._cluster, self._namespace, self._pod) as sftp:
            yield sftp


async def _refuse_outside(path: Path, folders: tuple[Path, ...], refused: str) -> None:
    """Raise BadInput, begun with `refused`, for a path outside `folders`: practice pods are folders of this machine."""

    def is_outside() -> bool:
        whole = Path(os.path.normpath(path)).parent.resolve() / path.name
        return not path.is_absolute() or not any(whole.is_relative_to(folder.resolve()) for folder in folders)

    if await asyncio.to_thread(is_outside):
        allowed = " and ".join(map(str, folders))
        hint = f"Only files in {allowed} can be changed."
        raise BadInput(f"{refused}: pods of the practice cluster run on your own machine.", hint)
