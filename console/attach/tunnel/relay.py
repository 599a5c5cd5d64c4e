"""Copies bytes between a pod's port and a local socket, stdin and stdout, or stream; each side slows the other down."""

from __future__ import annotations

import asyncio
import os
import stat
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from console.errors import Unreachable
from console.kube.kubeconfig import load
from console.kube.login import Login

if TYPE_CHECKING:
    from console.kube.port_forward import Pipe


LINGER_SECONDS = 10.0  # seconds of silence until a pipe is closed whose local side has ended; v4 cannot tell
MAX_BUFFERED = 1 << 18  # bytes kept for a reader that awaits them, and for a local connection that is slow


def _ignore_bytes(sent_bytes: int, received_bytes: int) -> None: ...


class Relay(asyncio.Protocol):
    """Copies bytes between a pod's port and a local connection (or two one-way ones) until either ends."""

    def __init__(self, count: Callable[[int, int], None] = _ignore_bytes) -> None:
        self._count = count
        self._pipe: Pipe | None = None
        self._source: asyncio.ReadTransport | None = None
        self._sink: asyncio.WriteTransport | None = None
        self._close_timer: asyncio.TimerHandle | None = None
        self.end_reason = ""  # why the pod's side ended, in words; empty when it just closed the connection
        self.ended_by_pod = False  # whether it was the pod's side that ended
        self.ended = asyncio.get_running_loop().create_future()  # done when all is over

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        pipe = transport.get_extra_info("pipe")  # standard input or output; None: a socket, which is both
        if isinstance(transport, asyncio.ReadTransport) and (pipe is None or pipe.readable()):
            self.set_source(transport)
        if isinstance(transport, asyncio.WriteTransport) and (pipe is None or pipe.writable()):
            self.set_sink(transport)

    def set_source(self, transport: asyncio.ReadTransport) -> None:
        """Begin to read from the local side and to send to the pod; reading pauses until the pod's side is open."""
        self._source = transport
        # One turn later: until Python 3.11.4 a socket that is paused while its connection is made is read nevertheless.
        asyncio.get_running_loop().call_soon(self._pause_until_attached)

    def _pause_until_attached(self) -> None:
        if self._source and not self._pipe and not self._source.is_closing():
            self._source.pause_reading()

    def set_sink(self, transport: asyncio.WriteTransport) -> None:
        self._sink = transport
        transport.set_write_buffer_limits(high=MAX_BUFFERED)

    def attach(self, pipe: Pipe) -> None:
        self._pipe = pipe
        pipe.attach(self)
        if self._source and not pipe.closed:
            self._source.resume_reading()

    def ping(self) -> None:
        """Check whether the pod's side is still connected."""
        if self._pipe and not self._pipe.closed:
            self._pipe.ping()

    def close(self) -> None:
        for transport in (self._source, self._sink):
            if isinstance(transport, asyncio.WriteTransport):
                transport.abort()
            elif transport:
                transport.close()
        self._close_both_sides()

    def data_received(self, data: bytes) -> None:
        if self._pipe and not self._pipe.closed:
            self._pipe.write(data)
            self._count(len(data), 0)

    def eof_received(self) -> bool:
        """Called when the local side has closed its sending direction; it may still receive."""
        if self._pipe and not self._close_timer:
            self._close_later()
        return True

    def pause_writing(self) -> None:
        if self._pipe and not self._pipe.closed:
            self._pipe.pause()

    def resume_writing(self) -> None:
        if self._pipe and not self._pipe.closed:
            self._pipe.resume()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._sink is None or self._sink.is_closing():  # the end of the standard input is not that of the relay
            self._close_both_sides()

    def data(self, data: bytes) -> None:
        if self._sink and not self._sink.is_closing():
            self._sink.write(data)
            self._count(0, len(data))
        if self._close_timer:
            self._close_later()

    def on_buffer_full(self, is_paused: bool) -> None:
        if self._source and not self._source.is_closing():
            (self._source.pause_reading if is_paused else self._source.resume_reading)()

    def end(self, why: str) -> None:
        """Called when the pod's side has ended; data already received is still delivered."""
        self.end_reason, self.ended_by_pod = why, True
        for transport in (self._sink, self._source):
            if transport:
                transport.close()

    def _close_later(self) -> None:
        if self._close_timer:
            self._close_timer.cancel()
        self._close_timer = asyncio.get_running_loop().call_later(LINGER_SECONDS, self.close)

    def _close_both_sides(self) -> None:
        if self._close_timer:
            self._close_timer.cancel()
        if self._pipe and not self._pipe.closed:
            self._pipe.close()
        if not self.ended.done():
            self.ended.set_result(None)


class AsyncStream:
    """The local end of a relay for asyncio code, which calls `send`, `receive` and `finish`."""

    def __init__(self, relay: Relay, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._relay, self._reader, self._writer = relay, reader, writer

    async def send(self, data: bytes) -> None:
        """Send bytes, waiting for room. Raises Unreachable if the connection is broken."""
        try:
            self._writer.write(data)
            await self._writer.drain()
        except ConnectionError as error:
            raise Unreachable(self._relay.end_reason or "The connection was closed by the pod.") from error

    async def receive(self) -> bytes:
        """The next bytes; empty at the end. Raises Unreachable, with the reason, after an abnormal end."""
        data = await self._reader.read(MAX_BUFFERED)
        if not data and self._relay.end_reason:
            raise Unreachable(self._relay.end_reason)
        return data

    def finish(self) -> None:
        """Tell the pod's side that no more is sent, if the protocol can."""
        self._writer.write_eof()


_CHUNK_SIZE = 1 << 16


def load_login(kubeconfig: Path | None, context: str) -> Login:
    return Login(load(kubeconfig).target(context))


async def relay_stdio(pipe: Pipe) -> None:
    """Relay stdin and stdout to a pod's port. Raises Unreachable if the connection breaks."""
    splice = Relay()
    loop = asyncio.get_running_loop()
    output, source, copying = os.dup(1), os.dup(0), None
    if not _can_be_watched(output):
        ours, theirs = os.pipe()
        output, copying = theirs, _copy_in_thread(ours, output)
    if not _can_be_watched(source):
        ours, theirs = os.pipe()
        _copy_in_thread(source, theirs)
        source = ours
    await loop.connect_write_pipe(lambda: splice, os.fdopen(output, "wb", 0))
    await loop.connect_read_pipe(lambda: splice, os.fdopen(source, "rb", 0))
    splice.attach(pipe)
    await splice.ended
    if copying is not None:
        await asyncio.to_thread(copying.join)
    if splice.end_reason:
        raise Unreachable(splice.end_reason)


def _can_be_watched(descriptor: int) -> bool:
    """Whether the event loop can wait for a descriptor: a pipe or socket, no file and no shared terminal."""
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _copy_in_thread(source: int, target: int) -> threading.Thread:
    """A thread that copies from one descriptor to another, and closes both when one ends."""

    def copy() -> None:
        with suppress(BrokenPipeError), os.fdopen(source, "rb", 0) as reading, os.fdopen(target, "wb", 0) as writing:
            while data := reading.read(_CHUNK_SIZE):
                left = memoryview(data)
                while left:
                    left = left[writing.write(left) :]

    thread = threading.Thread(target=copy, name="standard input and output", daemon=True)
    thread.start()
    return thread
