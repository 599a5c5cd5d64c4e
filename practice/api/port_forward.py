"""Port-forward over a WebSocket: a pair of channels per port, or SPDY/3.1 streams inside it."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from aiohttp import WSMsgType

from practice.api import spdy

if TYPE_CHECKING:
    from aiohttp import web

TUNNEL_PROTOCOL = "SPDY/3.1+portforward.k8s.io"
FORWARD_PROTOCOLS = (TUNNEL_PROTOCOL, "v4.channel.k8s.io")

_CHUNK = 32 * 1024
_MAX_BUFFERED = 16  # messages kept for a pod that is slow

Dial = Callable[[int], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]
Send = Callable[[bytes], Awaitable[None]]


async def forward(socket: web.WebSocketResponse, ports: list[int], dial: Dial) -> None:
    """Forward bytes until the client leaves; ``dial`` raises ConnectionError with a message for the client."""
    if socket.ws_protocol == TUNNEL_PROTOCOL:
        await _Tunnel(socket, dial).run()
    else:
        await _Channels(socket, ports, dial).run()


class _Pipe:
    """One connection to a port; ``send`` gets the pod's bytes, ``fail`` the connection error."""

    def __init__(self, port: int, dial: Dial, send: Send, fail: Send) -> None:
        self._port, self._dial = port, dial
        self._send, self._fail = send, fail
        self._outgoing: asyncio.Queue[bytes | None] = asyncio.Queue(_MAX_BUFFERED)
        self._deaf = False

    async def feed(self, data: bytes | None) -> None:
        """Take bytes for the pod, None at the client's end; waits while the pod is slow."""
        if not self._deaf:
            await self._outgoing.put(data)

    async def run(self) -> None:
        """Connect and forward until the pod closes the connection."""
        try:
            reader, writer = await self._dial(self._port)
        except ConnectionError as error:
            await self._fail(str(error).encode())
            return
        writing = asyncio.ensure_future(self._write(writer))
        try:
            while data := await reader.read(_CHUNK):
                await self._send(data)
        except OSError as error:
            await self._fail(str(error).encode())
        finally:
            writing.cancel()
            writer.close()  # at once: whoever waits may be cancelled again
            await asyncio.gather(writing, return_exceptions=True)

    async def _write(self, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(OSError):
                while (data := await self._outgoing.get()) is not None:
                    writer.write(data)
                    await writer.drain()
                if writer.can_write_eof():
                    writer.write_eof()
        finally:
            self._deaf = True
            while not self._outgoing.empty():  # whoever waits for room must not wait for ever
                self._outgoing.get_nowait()


class _Channels:
    """Protocol v4: channel 2n has the data of port n, 2n+1 its errors; both begin with the port number."""

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
        """Forward until the client leaves, or the pod has closed all ports."""
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


class _Tunnel:
    """SPDY/3.1 inside binary messages: the client opens an error and a data stream for every connection."""

    def __init__(self, socket: web.WebSocketResponse, dial: Dial) -> None:
        self._socket = socket
        self._dial = dial
        self._reader, self._writer = spdy.FrameReader(), spdy.FrameWriter()
        self._errors: dict[str, int] = {}
        self._pipes: dict[int, _Pipe] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Forward until the client leaves."""
        try:
            async for message in self._socket:
                if message.type is not WSMsgType.BINARY:
                    continue
                for frame in self._reader.feed(message.data):
                    await self._handle_frame(frame)
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _handle_frame(self, frame: spdy.Frame) -> None:
        if frame.kind == spdy.SYN_STREAM:
            await self._send(self._writer.encode_syn_reply(frame.stream))
            self._open_stream(frame)
        elif frame.kind == spdy.DATA and frame.stream in self._pipes:
            if frame.data:
                await self._pipes[frame.stream].feed(frame.data)
            if frame.is_last:
                await self._pipes[frame.stream].feed(None)
        elif frame.kind == spdy.RST_STREAM and frame.stream in self._pipes:
            await self._pipes[frame.stream].feed(None)
        elif frame.kind == spdy.PING:
            await self._send(self._writer.encode_ping(frame.data))

    def _open_stream(self, frame: spdy.Frame) -> None:
        request = frame.headers.get("requestid", str(frame.stream))
        if frame.headers.get("streamtype") == "error":
            self._errors[request] = frame.stream
            return
        stream, error = frame.stream, self._errors.pop(request, 0)

        async def send(data: bytes) -> None:
            await self._send(self._writer.encode_data(stream, data))

        async def fail(data: bytes) -> None:
            await self._send(self._writer.encode_data(error, data))

        pipe = self._pipes[stream] = _Pipe(int(frame.headers.get("port", "0")), self._dial, send, fail)
        task = asyncio.ensure_future(self._run_pipe(pipe, stream, error))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run_pipe(self, pipe: _Pipe, stream: int, error: int) -> None:
        try:
            await pipe.run()
        finally:
            self._pipes.pop(stream, None)
            for ended in (stream, error):
                await self._send(self._writer.encode_data(ended, b"", last=True))

    async def _send(self, data: bytes) -> None:
        with suppress(ConnectionResetError):  # the client has gone
            await self._socket.send_bytes(data)
