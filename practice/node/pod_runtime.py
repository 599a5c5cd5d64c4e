"""Runs pods for the API server: their logs, exec in folders of their own, and ports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from practice.node.ports import PodPorts
from practice.node.shell import PodShells

if TYPE_CHECKING:
    import asyncio
    from pathlib import Path

    from practice.controllers.kubelet import Kubelets
    from practice.node.container_logs import PodLog
    from practice.runtime import Stdio


class PodRuntime:
    """Serves the logs, commands and port connections of pods that the API server asks for."""

    def __init__(self, kubelets: Kubelets, folder: Path) -> None:
        self._kubelets = kubelets
        self._shells = PodShells(kubelets, folder)
        self._ports = PodPorts(self._shells, kubelets.storage)

    def log(self, namespace: str, pod: str, container: str, previous: bool) -> PodLog:
        """Return the output of a container, or of its previous run. Raises ApiError if there is none."""
        return self._kubelets.find_log(namespace, pod, container, previous)

    async def exec(self, namespace: str, pod: str, container: str, argv: list[str], stdio: Stdio) -> int:
        """Run a command on this machine, in the pod's own folder, and return its exit code."""
        place = self._shells.open_place(namespace, pod, container)
        return await self._shells.run(place, argv, stdio)

    async def dial(self, namespace: str, pod: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """(reader, writer) of a byte stream to a port of a pod. Raises ApiError if nothing listens there."""
        return await self._ports.dial(namespace, pod, port)

    async def close(self) -> None:
        await self._ports.close()
        await self._shells.close()
