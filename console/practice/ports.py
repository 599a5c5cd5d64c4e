"""Ports of pods: 2222 is an SSH server, everything else is closed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from console.practice.refusal import ApiError

if TYPE_CHECKING:
    import asyncio
    from pathlib import Path

    from console.practice.controllers.kubelet import Kubelets
    from console.practice.shell import Shells

SSH_PORT = 2222


class Ports:
    """Answers for the ports of all pods."""

    def __init__(self, kubelets: Kubelets, shells: Shells, folder: Path) -> None:
        self._kubelets = kubelets
        self._shells = shells
        self._folder = folder

    async def dial(self, namespace: str, pod: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open a stream; ApiError when nothing listens there."""
        self._shells.place(namespace, pod, "")
        text = f"failed to connect to localhost:{port} inside namespace, IPv4: dial tcp4 127.0.0.1:{port}: "
        raise ApiError(500, "InternalError", text + "connect: connection refused")

    async def close(self) -> None:
        """Close all streams."""
