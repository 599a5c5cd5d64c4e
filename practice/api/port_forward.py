"""Port-forward over a WebSocket: a pair of channels per port."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from aiohttp import WSMsgType

if TYPE_CHECKING:
    from aiohttp import web

FORWARD_PROTOCOLS = ("v4.channel.k8s.io",)

_CHUNK = 32 * 1024
_MAX_BUFFERED = 16  # messages kept for a pod that is slow

Dial = Callable[[int], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]
Send = Callable[[bytes], Awaitable[None]]


class _Pipe:
    """A connection to one port of a pod; ``send`` is called with the pod's bytes, ``fail`` with a connection error."""

    def __init__(self, port: int, dial: Dial, send: Send, fail: Send) -> None:
        self._port, self._dial = port, dial
        self._send, self._fail = send, fail
        self._outgoing: asyncio.Queue[bytes] = asyncio.Queue(_MAX_BUFFERED)
        self._deaf = False

    async def feed(self, data: bytes) -> None:
        """Send bytes to the pod; waits while the pod is slow."""
        if not self._deaf:
            await self._outgoing.put(data)

    async def run(self) -> None:
        """Connect and forward until the pod closes the connection."""
        try:
            reader, writer = await self._dial(self._port)
        except ConnectionError as error:
            await self._fail(str(error).encode())
            return
        writing = asyncio.ensure_future(self._write_to_pod(writer))
        try:
            while data := await reader.read(_CHUNK):
                await self._send(data)
        except OSError as error:
            await self._fail(str(error).encode())
        finally:
            writing.cancel()
            writer.close()  # at once: whoever waits may be cancelled again
            await asyncio.gather(writing, return_exceptions=True)

    async def _write_to_pod(self, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(OSError):
                while True:
                    writer.write(await self._outgoing.get())
                    await writer.drain()
        finally:
            self._deaf = True
            while not self._outgoing.empty():  # whoever waits for room must not wait for ever
                self._outgoing.get_nowait()


class ForwardedPorts:
    """Forwards ports by protocol v4: channel 2n has port n's data, 2n+1 its errors; both begin with the port number."""

    def __init__(self, socket: web.WebSocketResponse, ports: list[int], dial: Dial) -> None:
        self._socket = socket
        self._ports = ports
        self._pipes = [
            _Pipe(port, dial, self._sender(2 * at), self._sender(2 * at + 1)) for at, port in enumerate(ports)
        ]

    def _sender(self, channel: int) -> Send:
        async def send(data: bytes) -> None:
            with suppress(ConnectionResetError):  # the client has gone
                await self._socket.send_bytes(bytes([channel]) + data)

        return send

    async def run(self) -> None:
        """Forward until the client leaves, or the pod has closed all ports; ``dial`` raises ConnectionError."""
        for at, port in enumerate(self._ports):
            for channel in (2 * at, 2 * at + 1):
                await self._sender(channel)(struct.pack("<H", port))
        carrying = asyncio.ensure_future(self._run_pipes())
        listening = asyncio.ensure_future(self._read_messages())
        try:
            await asyncio.wait({carrying, listening}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (carrying, listening):
                task.cancel()
            await asyncio.gather(carrying, listening, return_exceptions=True)

    async def _run_pipes(self) -> None:
        await asyncio.gather(*(pipe.run() for pipe in self._pipes))

    async def _read_messages(self) -> None:
        async for message in self._socket:
            if message.type is not WSMsgType.BINARY or not message.data:
                continue
            at, is_error = divmod(message.data[0], 2)
            if not is_error and at < len(self._pipes) and len(message.data) > 1:
                await self._pipes[at].feed(message.data[1:])
