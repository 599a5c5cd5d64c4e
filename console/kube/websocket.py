"""A WebSocket client (RFC 6455) on an upgraded connection: frames with few copies, flow control, pings, close codes."""

from __future__ import annotations

import asyncio
import os
import struct
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Protocol, cast

CONTINUED, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
_FINAL_FRAME_BIT, _MASK_BIT = 0x80, 0x80
_LENGTH_IN_2_BYTES, _LENGTH_IN_8_BYTES = 126, 127
_MAX_CONTROL_BYTES = 125
_LONG_PAYLOAD = 4096
"""Bytes from which the compiled masking function is worth its import; a shell's first key is shorter."""


class FrameSink(Protocol):
    def begin(self) -> None: ...

    def feed(self, data: memoryview) -> None:
        """Accept a part of the current message; the view is only valid during the call."""

    def control(self, kind: int, data: bytes) -> None:
        """Accept a complete control frame: CLOSE, PING or PONG."""


class FrameReader:
    """Splits received bytes into WebSocket frames; parts of a data frame are passed on before it is complete."""

    def __init__(self, sink: FrameSink) -> None:
        self._sink = sink
        self._header = bytearray()  # the beginning of a frame's header, or of a control frame
        self._bytes_left = 0  # bytes of the data frame under way that are still to come

    def feed(self, data: memoryview) -> None:
        """Decode received bytes; ValueError if they are not frames of a server."""
        at, size = 0, len(data)
        while at < size:
            if self._bytes_left:
                part = data[at : at + self._bytes_left]
                at += len(part)
                self._bytes_left -= len(part)
                self._sink.feed(part)
            elif self._header:
                at = self._collect_split_header(data, at)
            else:
                at = self._read_header(data, at)

    def _read_header(self, data: memoryview, offset: int) -> int:
        """Read a frame header, which mostly arrives whole, else store its beginning; returns the next offset."""
        skipped, length = _parse_header(data, offset)
        if skipped and data[offset] & 0x0F < CLOSE:
            self._start_frame(data[offset], length)
            return offset + skipped
        self._header.append(data[offset])
        return offset + 1

    def _collect_split_header(self, data: memoryview, offset: int) -> int:
        """Add a byte to a header that arrives in pieces, or bytes to a control frame; returns the next offset."""
        self._header.append(data[offset])
        skipped, length = _parse_header(self._header, 0)
        first, body = self._header[0], bytes(self._header[skipped:])
        if skipped and first & 0x0F < CLOSE:
            self._header.clear()
            self._start_frame(first, length)
        elif skipped and len(body) == length:
            self._header.clear()
            self._sink.control(first & 0x0F, body)
        return offset + 1

    def _start_frame(self, first: int, length: int) -> None:
        if first & 0x0F != CONTINUED:
            self._sink.begin()
        self._bytes_left = length


def _parse_header(data: memoryview | bytearray, offset: int) -> tuple[int, int]:
    """(size of the frame header in bytes, 0 if incomplete; length of the payload). ValueError for a masked frame."""
    if len(data) - offset < 2:
        return 0, 0
    length = data[offset + 1]
    if length & _MASK_BIT:
        raise ValueError("a server does not mask")
    if length < _LENGTH_IN_2_BYTES:
        return 2, length
    size = 2 if length == _LENGTH_IN_2_BYTES else 8
    if len(data) - offset < 2 + size:
        return 0, 0
    return 2 + size, int.from_bytes(data[offset + 2 : offset + 2 + size], "big")


def frame_header(kind: int, *payload_parts: bytes) -> bytes:
    data = b"".join(payload_parts)
    size = len(data)
    if size < _LENGTH_IN_2_BYTES:
        head = struct.pack(">BB", _FINAL_FRAME_BIT | kind, _MASK_BIT | size)
    elif size <= 0xFFFF:
        head = struct.pack(">BBH", _FINAL_FRAME_BIT | kind, _MASK_BIT | _LENGTH_IN_2_BYTES, size)
    else:
        head = struct.pack(">BBQ", _FINAL_FRAME_BIT | kind, _MASK_BIT | _LENGTH_IN_8_BYTES, size)
    mask = os.urandom(4)
    return b"".join((head, mask, apply_mask(data, mask)))


def apply_mask(data: bytes, mask: bytes) -> bytes:
    if len(data) >= _LONG_PAYLOAD:
        return _load_compiled_mask()(data, mask)
    key = (mask * (len(data) // 4 + 1))[: len(data)]
    return (int.from_bytes(data, "little") ^ int.from_bytes(key, "little")).to_bytes(len(data), "little")


@cache
def _load_compiled_mask() -> Callable[[bytes, bytes], bytes]:
    try:
        from websockets.speedups import apply_mask as compiled
    except ImportError:  # built without a compiler, where there is no wheel
        from websockets.utils import apply_mask as compiled
    return compiled


def close_reason(body: bytes) -> tuple[int, str]:
    """The code and reason of a close frame; 1005 if it has none."""
    if len(body) < 2:
        return 1005, ""
    return struct.unpack_from(">H", body)[0], body[2:_MAX_CONTROL_BYTES].decode(errors="replace")


PING_AFTER_SECONDS = 20.0  # seconds of silence after which the other side is pinged; proxies cut idle lines
PONG_TIMEOUT = 10.0  # seconds it has for the answer
CLOSE_TIMEOUT = 1.0  # seconds the server has to answer a goodbye
_READ_BUFFER_BYTES = 1 << 18
MAX_UNSENT_BYTES = 1 << 18  # bytes not yet sent above which the sender is asked to wait


class MessageListener(Protocol):
    def begin(self) -> None: ...

    def feed(self, data: memoryview) -> None:
        """Accept a part of a message; the view is only valid during the call."""

    def on_chunk_fed(self) -> None:
        """Called when all parts that arrived together have been fed."""

    def ended(self, why: str) -> None:
        """Called when nothing more can be received or sent; `why` is empty after a proper close."""

    def on_buffer_full(self, is_paused: bool) -> None:
        """Called with True when the send buffer is full and the sender should wait, with False when it may continue."""


class WebSocket(asyncio.BufferedProtocol):
    """The client side of a WebSocket; it starts to read when `listen` gets a listener."""

    def __init__(self, writer: asyncio.StreamWriter, reader: asyncio.StreamReader, protocol: str) -> None:
        self.protocol = protocol  # what both sides speak inside the messages
        self._closed_event = asyncio.Event()  # whether the connection below is closed
        self._writer = writer  # kept, for it would close the connection when it is forgotten
        self._transport = cast("asyncio.Transport", writer.transport)  # asyncio declares only the writing half
        self._earlier_reader = reader
        self._buffer = memoryview(bytearray(_READ_BUFFER_BYTES))
        self._listener: MessageListener | None = None
        self._reader = FrameReader(self)
        self._received_at = self._event_loop.time()
        self._ping_sent_at = 0.0  # when a ping was sent that is not answered; 0.0 if none is
        self._timer: asyncio.TimerHandle | None = None
        self._goodbye: tuple[int, str] | None = None
        self._paused = False
        self.closed = False
        self.is_buffer_full = False  # whether sending should wait

    @property
    def _event_loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    @property
    def is_open(self) -> bool:
        """Whether neither side has closed the WebSocket, as far as is known."""
        over = self._earlier_reader._eof or self._earlier_reader.exception() is not None  # type: ignore[attr-defined]
        return not (self.closed or over or self._transport.is_closing())

    def listen(self, listener: MessageListener) -> None:
        """Take over the connection, including bytes that have already arrived."""
        self._listener = listener
        self._transport.set_write_buffer_limits(high=MAX_UNSENT_BYTES)
        # Reading it would wait when it is empty, and asyncio has no question whether it is.
        held = bytes(self._earlier_reader._buffer)  # type: ignore[attr-defined]
        over = not self.is_open
        self._transport.set_protocol(self)
        self._transport.resume_reading()
        self._timer = self._event_loop.call_later(PING_AFTER_SECONDS, self._check_answers)
        if held:
            self._on_received(memoryview(held))
        if over or self._transport.is_closing():
            self.connection_lost(None)

    def send(self, *payload_parts: bytes) -> None:
        if not self.closed:
            self._transport.write(frame_header(BINARY, *payload_parts))

    def pause(self) -> None:
        if not self.closed and not self._paused:
            self._paused = True
            self._transport.pause_reading()

    def resume(self) -> None:
        if not self.closed and self._paused:
            self._paused = False
            self._transport.resume_reading()

    def close(self) -> None:
        """Send a close frame after the queued data, then drop the connection."""
        if not self.closed:
            self._transport.write(frame_header(CLOSE, struct.pack(">H", 1000)))
            self._transport.close()
            self._event_loop.call_later(CLOSE_TIMEOUT, self._abort_unanswered_close)
            self._finish("")

    async def close_gracefully(self) -> None:
        """Close and wait briefly for the other side's close frame; drop the connection if none comes."""
        self.close()
        if self._goodbye is None and self._timer is not None:  # without a listener there is no one to notify of the end
            with suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_TIMEOUT):
                    await self._closed_event.wait()
        self._abort_transport()

    def _abort_unanswered_close(self) -> None:
        """Abort the connection of a server that does not answer the close frame, once everything has been sent."""
        with suppress(AttributeError):  # as in _abort_transport
            if self._transport.get_write_buffer_size():
                self._event_loop.call_later(CLOSE_TIMEOUT, self._abort_unanswered_close)
                return
        self._abort_transport()

    def abort(self, why: str) -> None:
        self._abort_transport()
        self._finish(why)

    def _abort_transport(self) -> None:
        """Drop the connection; Python 3.11.2's AttributeError for a TLS transport that both sides closed is ignored."""
        with suppress(AttributeError):
            self._transport.abort()

    def ping(self) -> None:
        """Send a ping to check that the other side still answers, for example after the machine slept."""
        if not self.closed and not self._ping_sent_at:
            self._ping_sent_at = self._event_loop.time()
            self._transport.write(frame_header(PING))
            if self._timer:
                self._timer.cancel()
            self._timer = self._event_loop.call_later(PONG_TIMEOUT, self._check_answers)

    def _check_answers(self) -> None:
        now = self._event_loop.time()
        if self._paused:  # no answer can be read now
            self._received_at, self._ping_sent_at = now, 0.0
        if self._ping_sent_at and now - self._ping_sent_at >= PONG_TIMEOUT:
            self.abort("the API server no longer answers on it")
            return
        if not self._ping_sent_at and now - self._received_at >= PING_AFTER_SECONDS:
            self.ping()
            return
        due = self._ping_sent_at + PONG_TIMEOUT if self._ping_sent_at else self._received_at + PING_AFTER_SECONDS
        self._timer = self._event_loop.call_later(max(0.5, due - now), self._check_answers)

    # what asyncio calls

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._on_received(self._buffer[:nbytes])

    def eof_received(self) -> None: ...

    def connection_lost(self, exc: Exception | None) -> None:
        self._closed_event.set()
        if exc is not None:
            from console.kube.api_errors import failure_cause

            self._finish(failure_cause(exc)[0])
        else:
            self._finish("the API server closed the connection")

    def pause_writing(self) -> None:
        self.is_buffer_full = True
        if self._listener and not self.closed:
            self._listener.on_buffer_full(True)

    def resume_writing(self) -> None:
        self.is_buffer_full = False
        if self._listener and not self.closed:
            self._listener.on_buffer_full(False)

    def _on_received(self, data: memoryview) -> None:
        self._received_at, self._ping_sent_at = self._event_loop.time(), 0.0
        try:
            self._reader.feed(data)
        except ValueError:
            self.abort("what came over it is not WebSocket data")
            return
        if self._listener and not self.closed:
            self._listener.on_chunk_fed()

    def begin(self) -> None:
        if self._listener and not self.closed:
            self._listener.begin()

    def feed(self, data: memoryview) -> None:
        if self._listener and not self.closed:
            self._listener.feed(data)

    def control(self, kind: int, data: bytes) -> None:
        if kind == PING and not self.closed:
            self._transport.write(frame_header(PONG, data))
        elif kind == CLOSE and self._goodbye is None:
            self._goodbye = close_reason(data)
            if self._listener and not self.closed:
                self._listener.on_chunk_fed()
            self._transport.write(frame_header(CLOSE, data))
            self._transport.close()
            code, words = self._goodbye  # 1000 is a goodbye as it should be, 1005 one without a code
            self._finish("" if code in {1000, 1005} else words or f"the server closed it with code {code}")

    def _finish(self, why: str) -> None:
        if self.closed:
            return
        self.closed = True
        if self._timer:
            self._timer.cancel()
        if self._listener:
            listener, self._listener = self._listener, None
            listener.ended(why)
