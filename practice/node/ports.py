"""Ports of pods: 2222 is an SSH server, 9400 of a DCGM exporter its metrics.

Any other port leads to the same port of this machine if a program started in the pod listens there, so that two pods
cannot share a port number. `a4-lab/port-8888: "39999"` maps port 8888 to port 39999.
"""

from __future__ import annotations

import asyncio
import io
import socket
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from practice.node import exporter
from practice.objects.api_error import ApiError
from practice.objects.resources import PODS

if TYPE_CHECKING:
    import paramiko

    from practice.node.shell import PodShells, ShellPlace
    from practice.objects.storage import Storage

SSH_PORT = 2222
_LISTENS = "0A"  # the state of a socket in /proc/net
TEST_ANNOTATION_PREFIX = "a4-lab/"


class PodPorts:
    """Opens connections to ports of pods."""

    def __init__(self, shells: PodShells, storage: Storage) -> None:
        self._shells = shells
        self._storage = storage
        self._host_keys = shells.host_keys
        self._transports: list[paramiko.Transport] = []
        self._serving: set[asyncio.Future[None]] = set()

    async def dial(self, namespace: str, pod: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """(reader, writer) of a stream to a port of a pod. Raises ApiError if nothing listens there."""
        place = self._shells.open_place(namespace, pod, "")
        if stand_in := self._replacement_port(namespace, pod, port):
            return await asyncio.open_connection("127.0.0.1", stand_in)
        if port == exporter.PORT and (node := self._exporter_node(namespace, pod)):
            return await self._dial_exporter(node)
        if port != SSH_PORT and await asyncio.to_thread(_is_open, place.folder, port):
            return await asyncio.open_connection("127.0.0.1", port)
        if port != SSH_PORT or not self._shells.has_sshd(namespace, pod):
            text = f"failed to connect to localhost:{port} inside namespace, IPv4: dial tcp4 127.0.0.1:{port}: "
            raise ApiError(500, "InternalError", text + "connect: connection refused")
        from practice.node.sshd import SshServer, serve_ssh  # paramiko costs 0.1 s, and most never dial

        loop = asyncio.get_running_loop()
        keys = partial(self._authorized_keys, namespace, pod, place)
        ours, theirs = socket.socketpair()
        host_key = await asyncio.to_thread(self._host_key, namespace, pod)
        transport = serve_ssh(
            theirs, host_key, lambda: SshServer(self._shells, self._shells.login_place(place), keys, loop)
        )
        self._transports = [item for item in self._transports if item.is_active()] + [transport]
        return await asyncio.open_connection(sock=ours)

    def _exporter_node(self, namespace: str, pod: str) -> str:
        """The node whose GPUs the pod exports; empty if it is no DCGM exporter."""
        spec = self._storage.get(PODS, namespace, pod)["spec"]
        return str(spec["nodeName"]) if exporter.IMAGE in spec["containers"][0].get("image", "") else ""

    async def _dial_exporter(self, node: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """(reader, writer) of one connection to the DCGM exporter of a node."""

        async def page() -> str:
            return await exporter.metrics_page(node, exporter.list_tenants(self._shells.kubelets, node))

        async def serve() -> None:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                reader, writer = await asyncio.open_connection(sock=theirs)
                await exporter.serve_metrics(reader, writer, page)

        ours, theirs = socket.socketpair()
        task = asyncio.ensure_future(serve())
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
        return await asyncio.open_connection(sock=ours)

    def _replacement_port(self, namespace: str, pod: str, port: int) -> int:
        """The local port to which the pod's port is mapped; 0 if there is none."""
        notes = self._storage.get(PODS, namespace, pod)["metadata"].get("annotations") or {}
        text = notes.get(f"{TEST_ANNOTATION_PREFIX}port-{port}", "")
        return int(text) if text.isdecimal() else 0

    async def close(self) -> None:
        for transport in self._transports:
            transport.close()
        self._transports.clear()
        for task in tuple(self._serving):
            task.cancel()

    def _host_key(self, namespace: str, pod: str) -> paramiko.PKey:
        import paramiko

        return paramiko.ECDSAKey.from_private_key(io.StringIO(self._host_keys.private_key(namespace, pod)))

    def _authorized_keys(self, namespace: str, pod: str, place: ShellPlace) -> list[str]:
        """The public keys that the pod's sshd accepts: given at launch, of its release, and installed later."""
        import paramiko

        keys = [place.env.get("SSH_PUBLIC_KEY", "")]
        if text := self._host_keys.secret_files(namespace, pod).get("id_pods"):
            key = paramiko.ECDSAKey.from_private_key(io.StringIO(text))
            keys.append(f"{key.get_name()} {key.get_base64()}")
        with suppress(FileNotFoundError):
            keys += (place.folder / ".ssh" / "authorized_keys").read_text().splitlines()
        return keys


def _is_open(folder: Path, port: int) -> bool:
    """Whether a program started in a pod listens on this machine; known on Linux only. Blocking."""
    sockets = set()
    for table in (Path("/proc/net/tcp"), Path("/proc/net/tcp6")):
        for words in map(str.split, table.read_text().splitlines()[1:] if table.exists() else ()):
            if words[3] == _LISTENS and int(words[1].rpartition(":")[2], 16) == port:
                sockets.add(f"socket:[{words[9]}]")
    own = f"\0A4_PROC={folder / '.proc'}\0".encode()
    for process in Path("/proc").glob("[0-9]*") if sockets else ():
        with suppress(OSError):  # it has ended, or is another account's
            if own in b"\0" + (process / "environ").read_bytes() and any(
                str(each.readlink()) in sockets for each in (process / "fd").iterdir()
            ):
                return True
    return False
