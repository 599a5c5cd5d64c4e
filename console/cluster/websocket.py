"""A WebSocket on a connection that was upgraded: messages in parts as they come, flow control, pings, why it ended."""

from __future__ import annotations

import asyncio
from typing import Protocol, cast

from console.cluster import frames

KEEP_ALIVE = 20.0
"""Seconds of silence after which the other side is asked whether it is there; proxies on the way cut idle lines."""
PATIENCE = 10.0
"""Seconds it has for the answer."""
FAREWELL = 1.0
"""Seconds the server has to answer a goodbye."""
_ROOM = 1 << 18
WAITING = 1 << 18
"""Bytes not yet sent above which the sender is asked to wait."""


class Listener(Protocol):
    """Who uses the socket."""

    def begin(self) -> None:
        """A message begins."""

    def feed(self, data: memoryview) -> None:
        """A part of it; the view is good during the call only."""

    def flushed(self) -> None:
        """All parts that came together have been fed."""

    def ended(self, why: str) -> None:
        """Nothing will come any more, and nothing can be sent; `why` is empty after a proper goodbye."""

    def full(self, on: bool) -> None:
        """Whether to wait with sending, for what was sent waits to leave."""


class WebSocket(asyncio.BufferedProtocol):
    """The client's side; begins to read when it is given its listener."""

    def __init__(self, writer: asyncio.StreamWriter, before: asyncio.StreamReader) -> None:
        self._writer = writer  # kept, for it would close the connection when it is forgotten
        self._transport = cast("asyncio.Transport", writer.transport)  # asyncio declares only the writing half
        self._before = before
        self._buffer = memoryview(bytearray(_ROOM))
        self._listener: Listener | None = None
        self._reader = frames.Reader(self)
        self._heard = self._loop.time()
        self._asked = 0.0
        """When a ping was sent that is not answered; 0.0 if none is."""
        self._timer: asyncio.TimerHandle | None = None
        self._goodbye: tuple[int, str] | None = None
        self._why = ""
        self._paused = False
        self.closed = False
        self.waiting = False
        """Whether sending should wait."""

    @property
    def _loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    def listen(self, listener: Listener) -> None:
        """Take over the connection, with what has already come of it."""
        self._listener = listener
        self._transport.set_write_buffer_limits(high=WAITING)
        # Reading it would wait when it is empty, and asyncio has no question whether it is.
        held = bytes(self._before._buffer)  # type: ignore[attr-defined]
        over = self._before.at_eof() or self._before.exception() is not None
        self._transport.set_protocol(self)
        self._transport.resume_reading()
        self._timer = self._loop.call_later(KEEP_ALIVE, self._watch)
        if held:
            self._take(memoryview(held))
        if over or self._transport.is_closing():
            self.connection_lost(None)

    # sending

    def send(self, *parts: bytes) -> None:
        """One binary message; nothing after the end."""
        if not self.closed:
            self._transport.write(frames.frame(frames.BINARY, *parts))

    def pause(self) -> None:
        """Have the other side wait: no more than the buffers on the way are read."""
        if not self.closed and not self._paused:
            self._paused = True
            self._transport.pause_reading()

    def resume(self) -> None:
        """Read on."""
        if not self.closed and self._paused:
            self._paused = False
            self._transport.resume_reading()

    def close(self) -> None:
        """Say goodbye once what was sent has left, and drop the connection."""
        if not self.closed:
            self._transport.write(frames.closing())
            self._transport.close()
            self._loop.call_later(FAREWELL, self._drop)
            self._finish("")

    def _drop(self) -> None:
        """A server that does not answer the goodbye is not waited for, once all has been sent."""
        if self._transport.get_write_buffer_size():
            self._loop.call_later(FAREWELL, self._drop)
        else:
            self._transport.abort()

    def abort(self, why: str) -> None:
        """Drop the connection at once."""
        self._transport.abort()
        self._finish(why)

    # the clock

    def ask(self) -> None:
        """Find out whether the other side is still there, such as after the machine slept."""
        if not self.closed and not self._asked:
            self._asked = self._loop.time()
            self._transport.write(frames.frame(frames.PING))
            if self._timer:
                self._timer.cancel()
            self._timer = self._loop.call_later(PATIENCE, self._watch)

    def _watch(self) -> None:
        now = self._loop.time()
        if self._paused:  # an answer cannot be heard now
            self._heard, self._asked = now, 0.0
        if self._asked and now - self._asked >= PATIENCE:
            self.abort("the API server no longer answers on it")
            return
        if not self._asked and now - self._heard >= KEEP_ALIVE:
            self.ask()
            return
        due = self._asked + PATIENCE if self._asked else self._heard + KEEP_ALIVE
        self._timer = self._loop.call_later(max(0.5, due - now), self._watch)

    # what asyncio calls

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next bytes go."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """So many bytes have come."""
        self._take(self._buffer[:nbytes])

    def eof_received(self) -> None:
        """The server sends no more; the transport closes by itself."""

    def connection_lost(self, exc: Exception | None) -> None:
        """The end, expected or not."""
        if self._goodbye is not None:
            code, words = self._goodbye
            # 1000 is a goodbye as it should be, 1005 one without a code.
            self._finish("" if code in {1000, 1005} else words or f"the server closed it with code {code}")
        elif exc is not None:
            from console.cluster.causes import why

            self._finish(why(exc)[0])
        else:
            self._finish("the API server closed the connection")

    def pause_writing(self) -> None:
        """More waits to leave than should."""
        self.waiting = True
        if self._listener and not self.closed:
            self._listener.full(True)

    def resume_writing(self) -> None:
        """Most of it has left."""
        self.waiting = False
        if self._listener and not self.closed:
            self._listener.full(False)

    # what the frames say

    def _take(self, data: memoryview) -> None:
        self._heard, self._asked = self._loop.time(), 0.0
        try:
            self._reader.feed(data)
        except ValueError:
            self.abort("what came over it is no WebSocket")
            return
        if self._listener and not self.closed:
            self._listener.flushed()

    def begin(self) -> None:
        """A message begins."""
        if self._listener and not self.closed:
            self._listener.begin()

    def feed(self, data: memoryview) -> None:
        """A part of a message."""
        if self._listener and not self.closed:
            self._listener.feed(data)

    def control(self, kind: int, data: bytes) -> None:
        """Answer pings, take goodbyes."""
        if kind == frames.PING and not self.closed:
            self._transport.write(frames.frame(frames.PONG, data))
        elif kind == frames.CLOSE and self._goodbye is None:
            self._goodbye = frames.close_reason(data)
            if self._listener and not self.closed:
                self._listener.flushed()
            self._transport.write(frames.frame(frames.CLOSE, data))
            self._transport.close()

    def _finish(self, why: str) -> None:
        if self.closed:
            return
        self.closed = True
        if self._timer:
            self._timer.cancel()
        if self._listener:
            listener, self._listener = self._listener, None
            listener.ended(why)
