"""The SSH server behind port 2222 of a pod: the pod's keys log in, and get the same shell as exec gives."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import TYPE_CHECKING

import paramiko
from paramiko.common import (
    AUTH_FAILED,
    AUTH_SUCCESSFUL,
    OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED,
    OPEN_SUCCEEDED,
)

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from console.practice.node.shell import ShellPlace, Shells

_BUFFER = 32768


class SshServer(paramiko.ServerInterface):
    """One connection. Paramiko calls it from a thread of its own; the shells run on the event loop."""

    def __init__(self, shells: Shells, place: ShellPlace, keys: list[str], loop: asyncio.AbstractEventLoop) -> None:
        self._shells = shells
        self._place = place
        self._keys = {key.split()[1] for key in keys if len(key.split()) > 1}
        self._loop = loop
        self._size = (80, 24)
        self._sizes: dict[int, asyncio.Queue[tuple[int, int]]] = {}
        self._terminals: set[int] = set()

    def get_allowed_auths(self, username: str) -> str:
        """Keys only."""
        return "publickey"

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        """Let in whoever has one of the pod's keys."""
        known = key.get_base64() in self._keys
        return AUTH_SUCCESSFUL if known else AUTH_FAILED

    def check_channel_request(self, kind: str, chanid: int) -> int:
        """Sessions only."""
        return OPEN_SUCCEEDED if kind == "session" else OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED

    def check_channel_env_request(self, channel: paramiko.Channel, name: bytes, value: bytes) -> bool:
        """Take no variables, like an sshd that was not told to."""
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
        """Give a terminal."""
        self._terminals.add(channel.get_id())
        self._size = (width, height)
        return True

    def check_channel_window_change_request(
        self, channel: paramiko.Channel, width: int, height: int, pixelwidth: int, pixelheight: int
    ) -> bool:
        """Give the terminal another size."""
        sizes = self._sizes.get(channel.get_id())
        if sizes is not None:
            self._loop.call_soon_threadsafe(sizes.put_nowait, (width, height))
        return True

    def check_channel_shell_request(self, channel: paramiko.Channel) -> bool:
        """Start a login shell."""
        self._begin(channel, ["bash"])
        return True

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        """Start one command."""
        self._begin(channel, ["sh", "-c", command.decode(errors="replace")])
        return True

    def _begin(self, channel: paramiko.Channel, argv: list[str]) -> None:
        asyncio.run_coroutine_threadsafe(self._session(channel, argv), self._loop)

    async def _session(self, channel: paramiko.Channel, argv: list[str]) -> None:
        stdin = asyncio.StreamReader()
        sizes: asyncio.Queue[tuple[int, int]] = asyncio.Queue()
        tty = channel.get_id() in self._terminals
        self._sizes[channel.get_id()] = sizes
        if tty:
            sizes.put_nowait(self._size)
        threading.Thread(target=_receive, args=(channel, stdin, self._loop), daemon=True).start()

        async def write(stream: int, data: bytes) -> None:
            send = channel.sendall if stream == 1 else channel.sendall_stderr
            with contextlib.suppress(OSError):  # the client has gone
                await asyncio.to_thread(send, data)

        code = await self._shells.run(self._place, argv, tty=tty, stdin=stdin, write=write, resize=sizes)
        with contextlib.suppress(OSError, EOFError):
            channel.send_exit_status(code)
        channel.close()


def _receive(channel: paramiko.Channel, stdin: asyncio.StreamReader, loop: asyncio.AbstractEventLoop) -> None:
    """Bring what the client types to the event loop."""
    with contextlib.suppress(OSError, RuntimeError):
        while data := channel.recv(_BUFFER):
            loop.call_soon_threadsafe(stdin.feed_data, data)
        loop.call_soon_threadsafe(stdin.feed_eof)


def serve_ssh(
    connection: socket.socket, host_key: paramiko.PKey, make_server: Callable[[], SshServer]
) -> paramiko.Transport:
    """Speak SSH on a connected socket; return the transport, which lives until one side ends it."""
    transport = paramiko.Transport(connection)
    transport.local_version = "SSH-2.0-a4_practice"
    transport.add_server_key(host_key)
    transport.start_server(event=threading.Event(), server=make_server())
    return transport
