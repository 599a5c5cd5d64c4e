"""Copies between this machine and the pods of a watched cluster."""

from __future__ import annotations

import functools
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from console.files.meter import Listener, Meter

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from console.files.pod_files import PodFiles
    from console.models.copying import CopyProgress, CopyReport, Way
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

        async with self._opened(namespace, pod, container, where, way) as (files, note):
            return replace(await Fetch(files, Meter(progress)).run(source, target), note=note)

    async def send(
        self,
        namespace: str,
        pod: str,
        source: Path,
        target: str,
        *,
        container: str = "",
        where: str = "",
        way: Way | None = None,
        progress: Listener = _ignore,
    ) -> CopyReport:
        """Copy a file or folder of this machine to a container; raises as `fetch` does."""
        from console.files.send import Send

        self._watched.changing(f"copy {source.name} to {where or pod}")
        async with self._opened(namespace, pod, container, where, way) as (files, note):
            return replace(await Send(files, Meter(progress)).run(source, target), note=note)

    @asynccontextmanager
    async def _opened(
        self, namespace: str, pod: str, container: str, where: str, way: Way | None
    ) -> AsyncIterator[tuple[PodFiles, str]]:
        """The container's files, and why they are not reached the better way."""
        from console.cluster.exec import started
        from console.files.pod_files import PodFiles

        client = self._watched.connected.client
        start = functools.partial(started, client, namespace, pod, container=container)
        yield PodFiles(start, where or f"pod {pod}"), ""
