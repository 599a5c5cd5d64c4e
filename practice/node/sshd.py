"""The SSH server behind port 2222 of a pod: the pod's keys log in, and get the same shell as exec gives."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import threading
from typing import TYPE_CHECKING

import paramiko
from paramiko.common import (
    AUTH_FAILED,
    AUTH_SUCCESSFUL,
    OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED,
    OPEN_FAILED_CONNECT_FAILED,
    OPEN_SUCCEEDED,
)

from practice.node.sftp import PodFiles, Sftp
from practice.runtime import Stdio

if TYPE_CHECKING:
    from collections.abc import Callable

    from practice.node.shell import PodShells, ShellPlace

_BUFFER = 32768
_LOG = logging.getLogger(__name__)
_LOG.setLevel(logging.CRITICAL)  # whoever only knocks, as a port scan does, is no news
CONNECT = 5.0  # seconds a port of the pod has to answer


class SshServer(paramiko.ServerInterface):
    """The server side of one SSH connection to a pod."""

    def __init__(
        self, shells: PodShells, place: ShellPlace, keys: Callable[[], list[str]], loop: asyncio.AbstractEventLoop
    ) -> None:
        self._shells = shells
        self._place = place
        self._public_keys = keys
        self._loop = loop
        self._size = (80, 24)
        self._sizes: dict[int, asyncio.Queue[tuple[int, int]]] = {}
        self._terminals: set[int] = set()
        self.forwarded: dict[int, socket.socket] = {}
        """Connections to ports of the pod, by id of the channel that will carry them."""
        self.folder = place.folder

    def get_allowed_auths(self, username: str) -> str:
        """Allow public keys only."""
        return "publickey"

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        """Accept the keys that the pod has at this moment."""
        known = {part for each in self._public_keys() for part in each.split()[1:]}
        return AUTH_SUCCESSFUL if key.get_base64() in known else AUTH_FAILED

    def check_channel_request(self, kind: str, chanid: int) -> int:
        """Accept sessions; forwarded ports are handled by the next method."""
        return OPEN_SUCCEEDED if kind == "session" else OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED

    def check_channel_direct_tcpip_request(
        self, chanid: int, origin: tuple[str, int], destination: tuple[str, int]
    ) -> int:
        """Connect to a port, as seen in the pod: on this machine."""
        try:
            self.forwarded[chanid] = socket.create_connection(destination, timeout=CONNECT)
        except OSError:
            return OPEN_FAILED_CONNECT_FAILED
        self.forwarded[chanid].settimeout(None)
        return OPEN_SUCCEEDED

    def check_channel_env_request(self, channel: paramiko.Channel, name: bytes, value: bytes) -> bool:
        """Accept no variables, like an sshd without AcceptEnv."""
        return False

    def check_channel_pty_request(
        self,
        channel: paramiko.Channel,
        term: bytes,
        width: int,
        height: int,
        pixelwidth: int,
        pixelheight: int,
        modes: bytes,
    ) -> bool:
        self._terminals.add(channel.get_id())
        self._size = (width, height)
        return True

    def check_channel_window_change_request(
        self, channel: paramiko.Channel, width: int, height: int, pixelwidth: int, pixelheight: int
    ) -> bool:
        """Resize the terminal."""
        sizes = self._sizes.get(channel.get_id())
        if sizes is not None:
            self._loop.call_soon_threadsafe(sizes.put_nowait, (width, height))
        return True

    def check_channel_shell_request(self, channel: paramiko.Channel) -> bool:
        self._start_session(channel, ["bash"])
        return True

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        self._start_session(channel, ["sh", "-c", command.decode(errors="replace")])
        return True

    def _start_session(self, channel: paramiko.Channel, argv: list[str]) -> None:
        asyncio.run_coroutine_threadsafe(self._run_session(channel, argv), self._loop)

    async def _run_session(self, channel: paramiko.Channel, argv: list[str]) -> None:
        stdin = asyncio.StreamReader()
        sizes: asyncio.Queue[tuple[int, int]] = asyncio.Queue()
        tty = channel.get_id() in self._terminals
        self._sizes[channel.get_id()] = sizes
        if tty:
            sizes.put_nowait(self._size)
        threading.Thread(target=_read_channel, args=(channel, stdin, self._loop), daemon=True).start()

        async def write(stream: int, data: bytes) -> None:
            send = channel.sendall if stream == 1 else channel.sendall_stderr
            with contextlib.suppress(OSError):  # the client has gone
                await asyncio.to_thread(send, data)

        code = await self._shells.run(self._place, argv, Stdio(write, stdin, tty, sizes))
        with contextlib.suppress(OSError, EOFError):  # likewise
            channel.send_exit_status(code)
        channel.close()


def _read_channel(channel: paramiko.Channel, stdin: asyncio.StreamReader, loop: asyncio.AbstractEventLoop) -> None:
    """Pass the client's input to the event loop."""
    with contextlib.suppress(OSError, RuntimeError):  # the client has gone, or the event loop is over
        while data := channel.recv(_BUFFER):
            loop.call_soon_threadsafe(stdin.feed_data, data)
        loop.call_soon_threadsafe(stdin.feed_eof)


def serve_ssh(
    connection: socket.socket, host_key: paramiko.PKey, make_server: Callable[[], SshServer]
) -> paramiko.Transport:
    """Serve SSH on a connected socket; returns the transport, which lives until one side ends it."""
    transport = paramiko.Transport(connection)
    transport.local_version = "SSH-2.0-a4_practice"
    transport.set_log_channel(_LOG.name)
    transport.add_server_key(host_key)
    server = make_server()
    transport.set_subsystem_handler("sftp", Sftp, PodFiles, server.folder)
    transport.start_server(event=threading.Event(), server=server)
    threading.Thread(target=_connect_forwarded, args=(transport, server), daemon=True).start()
    return transport


def _connect_forwarded(transport: paramiko.Transport, server: SshServer) -> None:
    """Connect every forwarded channel with its local connection."""
    while transport.is_active():
        channel = transport.accept(1.0)
        target = server.forwarded.pop(channel.get_id(), None) if channel is not None else None
        if channel is not None and target is not None:
            threading.Thread(target=_copy_to_socket, args=(channel, target), daemon=True).start()
            threading.Thread(target=_copy_to_channel, args=(channel, target), daemon=True).start()
    for left in server.forwarded.values():
        left.close()


def _copy_to_socket(channel: paramiko.Channel, target: socket.socket) -> None:
    with contextlib.suppress(OSError):  # either side has gone
        while data := channel.recv(_BUFFER):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


def _copy_to_channel(channel: paramiko.Channel, target: socket.socket) -> None:
    with contextlib.suppress(OSError), target:  # either side has gone
        while data := target.recv(_BUFFER):
            channel.sendall(data)
        channel.shutdown_write()
    channel.close()
