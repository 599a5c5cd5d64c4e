"""What is at this end of a pipe: a local connection, a pair of files, or code that awaits.

No bytes are collected: when one side is slow, the other is not read from.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from console.errors import Unreachable

if TYPE_CHECKING:
    from collections.abc import Callable

    from console.cluster.forward import Pipe

LINGER = 10.0
"""Seconds of silence after which a pipe is closed whose local side has said all it had.

Protocol v4 cannot pass that on, and of SPDY's way to say it not every kubelet tells the pod.
"""
HELD = 1 << 18
"""Bytes kept for a reader that awaits them, and for a local connection that is slow."""


def _nothing(sent: int, received: int) -> None:
    """Counts nobody wants."""


class Splice:
    """A pipe and a local connection (or two one-way ones), tied together until either ends."""

    def __init__(self, count: Callable[[int, int], None] = _nothing) -> None:
        self._count = count
        self._pipe: Pipe | None = None
        self._source: asyncio.ReadTransport | None = None
        self._sink: asyncio.WriteTransport | None = None
        self._lingering: asyncio.TimerHandle | None = None
        self._finished = False
        self.why = ""
        """Why the pod's side ended, in words; empty when it just closed the connection."""
        self.by_pod = False
        """Whether it was the pod's side that ended."""
        self.ended = asyncio.get_running_loop().create_future()
        """Done when all is over."""

    def source(self, transport: asyncio.ReadTransport) -> None:
        """What is read here goes to the pod; it waits until there is a pipe."""
        self._source = transport
        transport.pause_reading()

    def sink(self, transport: asyncio.WriteTransport) -> None:
        """What the pod says is written here."""
        self._sink = transport
        transport.set_write_buffer_limits(high=HELD)

    def attach(self, pipe: Pipe) -> None:
        """Begin."""
        self._pipe = pipe
        pipe.attach(self)
        if self._source and not pipe.closed:
            self._source.resume_reading()

    def ask(self) -> None:
        """Find out whether the pod's side still stands."""
        if self._pipe and not self._pipe.closed:
            self._pipe.ask()

    def close(self) -> None:
        """End both sides at once."""
        for transport in (self._source, self._sink):
            if isinstance(transport, asyncio.WriteTransport):
                transport.abort()
            elif transport:
                transport.close()
        self._over()

    # the local side

    def read(self, data: bytes) -> None:
        """Bytes for the pod."""
        if self._pipe and not self._pipe.closed:
            self._pipe.write(data)
            self._count(len(data), 0)

    def finished(self) -> None:
        """The local side will say no more, but may still listen."""
        if self._pipe and not self._finished:
            self._finished = True
            self._pipe.finish()
            self._linger()

    def slow(self, on: bool) -> None:
        """The local side takes no more for now."""
        if self._pipe and not self._pipe.closed:
            (self._pipe.pause if on else self._pipe.resume)()

    def lost(self) -> None:
        """The local side is gone."""
        self._over()

    # the pod's side

    def data(self, data: bytes) -> None:
        """Bytes of the pod."""
        if self._sink and not self._sink.is_closing():
            self._sink.write(data)
            self._count(0, len(data))
        if self._lingering:
            self._linger()

    def full(self, on: bool) -> None:
        """The pod takes no more for now."""
        if self._source and not self._source.is_closing():
            (self._source.pause_reading if on else self._source.resume_reading)()

    def end(self, why: str) -> None:
        """The pod's side has ended: what it said still leaves."""
        self.why, self.by_pod = why, True
        for transport in (self._sink, self._source):
            if transport:
                transport.close()

    def _linger(self) -> None:
        if self._lingering:
            self._lingering.cancel()
        self._lingering = asyncio.get_running_loop().call_later(LINGER, self.close)

    def _over(self) -> None:
        if self._lingering:
            self._lingering.cancel()
        if self._pipe and not self._pipe.closed:
            self._pipe.close()
        if not self.ended.done():
            self.ended.set_result(None)


class Source(asyncio.Protocol):
    """A file that is only read: standard input."""

    def __init__(self, splice: Splice) -> None:
        self._splice = splice

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is open."""
        assert isinstance(transport, asyncio.ReadTransport)
        self._splice.source(transport)

    def data_received(self, data: bytes) -> None:
        """Bytes have come."""
        self._splice.read(data)

    def eof_received(self) -> bool:
        """No more will come; a connection stays open for the answer."""
        self._splice.finished()
        return True


class Sink(asyncio.BaseProtocol):
    """A file that is only written: standard output."""

    def __init__(self, splice: Splice) -> None:
        self._splice = splice

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is open."""
        assert isinstance(transport, asyncio.WriteTransport)
        self._splice.sink(transport)

    def pause_writing(self) -> None:
        """Whoever reads it is slow."""
        self._splice.slow(True)

    def resume_writing(self) -> None:
        """It has caught up."""
        self._splice.slow(False)

    def connection_lost(self, exc: Exception | None) -> None:
        """It is closed."""
        self._splice.lost()


class Local(Source, Sink):
    """A connection that came in."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Both ways."""
        Source.connection_made(self, transport)
        Sink.connection_made(self, transport)


class Conversation:
    """A pipe for code that awaits: send, receive, finish."""

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe
        self._held = bytearray()
        self._news = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._ended = False
        self.why = ""
        pipe.attach(self)

    async def send(self, data: bytes) -> None:
        """Send bytes, once there is room; Unreachable if the pipe is broken."""
        await self._room.wait()
        if self._ended or self._pipe.closed:
            raise Unreachable(self.why or "The connection was closed by the pod.")
        self._pipe.write(data)

    async def receive(self) -> bytes:
        """Bytes as they come; empty at the end. Unreachable with words if that was no proper end."""
        while not self._held and not self._ended:
            self._news.clear()
            await self._news.wait()
        data = bytes(self._held)
        self._held.clear()
        if not data and self.why:
            raise Unreachable(self.why)
        if not self._ended:
            self._pipe.resume()
        return data

    def finish(self) -> None:
        """Say that no more will be sent, if the protocol can."""
        self._pipe.finish()

    def data(self, data: bytes) -> None:
        """Bytes have come."""
        self._held += data
        if len(self._held) >= HELD:
            self._pipe.pause()
        self._news.set()

    def full(self, on: bool) -> None:
        """Whether sending has to wait."""
        (self._room.clear if on else self._room.set)()

    def end(self, why: str) -> None:
        """The pod's side has ended."""
        self._ended, self.why = True, why
        self._room.set()
        self._news.set()
