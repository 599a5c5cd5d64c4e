"""Ports of pods: 2222 is an SSH server, and what a pod's annotations name leads to a port of this machine.

`a4-lab/port-8888: "39999"` stands for a program in the pod that listens on 8888; everything else is closed.
"""

from __future__ import annotations

import asyncio
import io
import socket
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from console.practice.objects.refusal import ApiError
from console.practice.objects.resources import PODS

if TYPE_CHECKING:
    import paramiko

    from console.practice.node.shell import ShellPlace, Shells
    from console.practice.objects.storage import Storage

SSH_PORT = 2222
DRIVE = "a4-lab/"


class Ports:
    """Answers for the ports of all pods."""

    def __init__(self, shells: Shells, storage: Storage) -> None:
        self._shells = shells
        self._storage = storage
        self._host_keys = shells.host_keys
        self._transports: list[paramiko.Transport] = []

    async def dial(self, namespace: str, pod: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open a stream; ApiError when nothing listens there."""
        place = self._shells.place(namespace, pod, "")
        if stand_in := self._stand_in(namespace, pod, port):
            return await asyncio.open_connection("127.0.0.1", stand_in)
        if port != SSH_PORT:
            text = f"failed to connect to localhost:{port} inside namespace, IPv4: dial tcp4 127.0.0.1:{port}: "
            raise ApiError(500, "InternalError", text + "connect: connection refused")
        from console.practice.node.sshd import SshServer, serve_ssh  # paramiko costs 0.1 s, and most never dial

        loop = asyncio.get_running_loop()
        keys = partial(self._keys_let_in, namespace, pod, place)
        ours, theirs = socket.socketpair()
        host_key = await asyncio.to_thread(self._key_of_host, namespace, pod)
        transport = serve_ssh(theirs, host_key, lambda: SshServer(self._shells, place, keys, loop))
        self._transports = [item for item in self._transports if item.is_active()] + [transport]
        return await asyncio.open_connection(sock=ours)

    def _stand_in(self, namespace: str, pod: str, port: int) -> int:
        """Port of this machine that stands for the pod's; 0 if none does."""
        notes = self._storage.get(PODS, namespace, pod)["metadata"].get("annotations") or {}
        text = notes.get(f"{DRIVE}port-{port}", "")
        return int(text) if text.isdecimal() else 0

    async def close(self) -> None:
        """Close all connections."""
        for transport in self._transports:
            transport.close()
        self._transports.clear()

    def _key_of_host(self, namespace: str, pod: str) -> paramiko.PKey:
        import paramiko

        return paramiko.ECDSAKey.from_private_key(io.StringIO(self._host_keys.private(namespace, pod)))

    def _keys_let_in(self, namespace: str, pod: str, place: ShellPlace) -> list[str]:
        """Public keys: given at launch, the one by which pods of a release reach each other, and those put there."""
        import paramiko

        keys = [place.env.get("SSH_PUBLIC_KEY", "")]
        if text := self._host_keys.mounted(namespace, pod).get("id_pods"):
            key = paramiko.ECDSAKey.from_private_key(io.StringIO(text))
            keys.append(f"{key.get_name()} {key.get_base64()}")
        with suppress(FileNotFoundError):
            keys += (place.folder / ".ssh" / "authorized_keys").read_text().splitlines()
        return keys
