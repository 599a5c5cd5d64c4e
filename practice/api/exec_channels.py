"""Exec over a WebSocket: channels v4 and v5, ending with the exit code."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec
from aiohttp import WSMsgType

from practice.api.paths_and_versions import parse_flag
from practice.objects.api_error import ApiError, Object
from practice.runtime import Stdio

if TYPE_CHECKING:
    from aiohttp import web

EXEC_PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")

_STDIN, _STDOUT, _STDERR, _STATUS, _RESIZE, _CLOSE = 0, 1, 2, 3, 4, 255

RunCommand = Callable[[Stdio], Awaitable[int]]


class _TerminalSize(msgspec.Struct):
    Width: int = 0
    Height: int = 0


class ExecSession:
    """One exec command: client messages become stdin and terminal sizes, output goes to channels."""

    def __init__(self, socket: web.WebSocketResponse, query: Mapping[str, str]) -> None:
        self.tty = parse_flag(query, "tty")
        self.sizes: asyncio.Queue[tuple[int, int]] = asyncio.Queue()
        self._socket = socket
        self._shown = {_STDOUT: parse_flag(query, "stdout"), _STDERR: parse_flag(query, "stderr") and not self.tty}
        self._stdin = asyncio.StreamReader() if parse_flag(query, "stdin") else None

    async def run(self, command: RunCommand) -> None:
        """Run the command until it ends or the client leaves; then send its status."""
        await self._send_on_channel(_STDOUT if self._shown[_STDOUT] else _STATUS, b"")
        running = asyncio.ensure_future(command(Stdio(self._write_output, self._stdin, self.tty, self.sizes)))
        listening = asyncio.ensure_future(self._read_messages())
        try:
            await asyncio.wait({running, listening}, return_when=asyncio.FIRST_COMPLETED)
            if not running.done() and self._socket.closed:
                return
            with suppress(ConnectionResetError):  # the client has gone
                await self._send_on_channel(_STATUS, msgspec.json.encode(await _wait_for_status(running)))
        finally:
            for task in (running, listening):
                task.cancel()
            await asyncio.gather(running, listening, return_exceptions=True)

    async def _read_messages(self) -> None:
        async for message in self._socket:
            if message.type is not WSMsgType.BINARY or not message.data:
                continue
            channel, data = message.data[0], message.data[1:]
            if channel == _STDIN and self._stdin is not None and data:
                self._stdin.feed_data(data)
            elif channel == _RESIZE:
                self._set_terminal_size(data)
            elif channel == _CLOSE and data[:1] == bytes([_STDIN]):
                self._end_input()
        self._end_input()

    def _end_input(self) -> None:
        if self._stdin is not None and not self._stdin.at_eof():
            self._stdin.feed_eof()

    def _set_terminal_size(self, data: bytes) -> None:
        with suppress(msgspec.DecodeError):  # as the kubelet: what is no size changes nothing
            size = msgspec.json.decode(data, type=_TerminalSize)
            self.sizes.put_nowait((size.Width, size.Height))

    async def _write_output(self, channel: int, data: bytes) -> None:
        if self.tty:
            channel = _STDOUT
        if self._shown.get(channel) and data:
            await self._send_on_channel(channel, data)

    async def _send_on_channel(self, channel: int, data: bytes) -> None:
        await self._socket.send_bytes(bytes([channel]) + data)


async def _wait_for_status(running: asyncio.Future[int]) -> Object:
    """Return the Status from which a client reads the command's exit code."""
    try:
        code = await running
    except ApiError as refusal:
        return refusal.to_status()
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }
