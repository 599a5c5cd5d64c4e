"""An answer that goes on for as long as a container prints, read with as little work for each piece as there can be.

`client` reads everything else over aiohttp. The log of a job is a hundred connections of fifty small pieces a second
each: with asyncio's TLS and aiohttp's parser above it, to follow 128 of them takes a quarter more of a core and 33 MiB
more memory. This speaks just the HTTP/1.1 that an API server answers a GET with: what stands behind a proxy, or is
answered in any other way, is left to `client`.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from console.cluster.channel import PLACE, Channel, opened
from console.cluster.wire import proxy_for
from console.errors import BadKubeconfig

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from console.cluster.login import Login

CONNECT = 10.0
"""Seconds until a connection has to stand."""
HELD = 1 << 20
"""Bytes that are held unread; more of them stay with the server."""
LONGEST_HEAD = 1 << 16
_DEFAULT_PORTS = {"http": 80, "https": 443}
_OURS = frozenset({HTTPStatus.OK, HTTPStatus.BAD_REQUEST, HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND})
"""Answers that are final; others may be better when they are asked for with other credentials, later or elsewhere."""


class Dechunker:
    """What is in a body of chunks, out of bytes in any pieces; raises ConnectionError where it is no such body."""

    def __init__(self) -> None:
        self.over = False
        """Whether the last chunk has come."""
        self._rest = b""
        self._left = 0
        """Bytes of the chunk that are still to come."""

    def feed(self, data: bytes) -> list[bytes]:
        """The pieces in these bytes."""
        data = self._rest + data if self._rest else data
        self._rest, at, pieces = b"", 0, []
        while at < len(data) and not self.over:
            if self._left:
                piece = data[at : at + self._left]
                pieces.append(piece)
                at += len(piece)
                self._left -= len(piece)
                continue
            end = data.find(b"\n", at)
            if end < 0:
                self._rest = data[at:]
                break
            at = self._length(data[at:end].rstrip(b"\r"), end + 1)
        if len(self._rest) > LONGEST_HEAD:
            raise ConnectionError("the length of a chunk has no end")
        return pieces

    def _length(self, line: bytes, following: int) -> int:
        """Take the line before a chunk, or the empty one after it; where the next byte is."""
        if line:
            try:
                self._left = int(line.partition(b";")[0], 16)
            except ValueError:
                raise ConnectionError("the length of a chunk is no number") from None
            self.over = not self._left
        return following


class Tap:
    """A connection whose answer is a stream; made by `tapped`. Close it."""

    def __init__(self, channel: Channel, silence: float) -> None:
        """`silence`: seconds without a byte after which it is given up."""
        self.status = 0
        self._loop = asyncio.get_running_loop()
        self._channel = channel
        self._silence = silence
        self._waiting: asyncio.Future[None] | None = None
        self._pieces: list[bytes] = []
        self._held = 0
        self._chunks: Dechunker | None = None
        self._body = -1
        """Bytes of the body to come; -1: until the connection ends."""
        self._over = False
        self._error: OSError | None = None
        self._reading = False
        self._timer: asyncio.TimerHandle | None = None
        self._last = 0.0

    async def ask(self, request: bytes) -> bool:
        """Whether the answer can be read here."""
        await self._channel.send(request)
        data = b""
        while (end := data.find(b"\r\n\r\n")) < 0:
            if len(data) > LONGEST_HEAD:
                return False
            data += await self._channel.receive()
        return self._begin(data[:end].decode("latin-1"), data[end + 4 :])

    def _begin(self, head: str, data: bytes) -> bool:
        first, *lines = head.split("\r\n")
        words = [*first.split(" "), ""]
        pairs = (line.partition(":") for line in lines)
        headers = {name.strip().lower(): value.strip().lower() for name, _, value in pairs}
        if words[0] != "HTTP/1.1" or not words[1].isdecimal() or "content-encoding" in headers:
            return False
        self.status = int(words[1])
        if headers.get("transfer-encoding", "") == "chunked":
            self._chunks = Dechunker()
        elif headers.get("content-length", "").isdecimal():
            self._body = int(headers["content-length"])
        self._last = self._loop.time()
        self._timer = self._loop.call_later(self._silence, self._look)
        self._take(data)
        self._go_on()
        return self.status in _OURS

    # while it goes on

    def _go_on(self) -> None:
        if not self._reading and not self._over and self._error is None and self._held < HELD:
            self._reading = True
            self._loop.add_reader(self._channel.socket.fileno(), self._read)

    def _stop(self) -> None:
        if self._reading:
            self._reading = False
            self._loop.remove_reader(self._channel.socket.fileno())

    def _read(self) -> None:
        """There are bytes, or the end."""
        try:
            size = self._channel.socket.recv_into(PLACE.view)
            if size:
                self._last = self._loop.time()
                self._take(self._channel.opened(PLACE.view[:size]))
            if (not size or self._channel.ended) and not self._over:
                self._end()
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._error = error
        if self._held >= HELD or self._over or self._error is not None:
            self._stop()
        if self._pieces or self._over or self._error is not None:
            self._wake()

    def _end(self) -> None:
        if self._chunks is None and self._body < 0:
            self._over = True
        else:
            raise ConnectionResetError("the connection broke off")

    def _take(self, data: bytes) -> None:
        if self._chunks is not None:
            pieces = self._chunks.feed(data)
            self._over = self._chunks.over
        else:
            pieces = [data] if data else []
            if self._body >= 0:
                self._body -= len(data)
                self._over = self._body <= 0
        self._pieces += pieces
        self._held += sum(map(len, pieces))

    def _look(self) -> None:
        """Whether it has been silent for too long."""
        rest = self._last + self._silence - self._loop.time()
        if rest <= 0 and self._reading:
            self._error = TimeoutError("it did not answer in time")
            self._stop()
            self._wake()
        else:
            self._timer = self._loop.call_later(max(rest, 1.0), self._look)

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        """Bytes as they come, until the answer is over; raises OSError and its kin where it breaks off."""
        while True:
            if self._pieces:
                data = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
                self._pieces, self._held = [], 0
                self._go_on()
                yield data
            elif self._error is not None:
                raise self._error
            elif self._over:
                return
            else:
                self._waiting = self._loop.create_future()
                await self._waiting

    def close(self) -> None:
        """Drop the connection."""
        if self._timer is not None:
            self._timer.cancel()
        self._stop()
        self._channel.close()


async def tapped(login: Login, target: str, silence: float) -> Tap | None:
    """The answer to a GET of a path with its query; None if it has to be asked for in another way.

    Raises BadKubeconfig, NotLoggedIn, and OSError and its kin where an answer that began broke off.
    """
    place = _direct(login)
    if place is None:
        return None
    host, port = place
    headers = await login.headers()  # a plug-in may bring the certificate that TLS needs
    context = await login.tls()
    name = (login.server_name or host) if context else None
    try:
        async with asyncio.timeout(CONNECT):
            channel = await opened(host, port, context, name)
    except OSError:
        return None  # `client` meets the same, and says why
    tap, ours = Tap(channel, silence), False
    try:
        async with asyncio.timeout(silence):
            ours = await tap.ask(_request(urlsplit(login.server).netloc.rpartition("@")[2], target, headers))
    finally:
        if not ours:
            tap.close()
    return tap if ours else None


def _direct(login: Login) -> tuple[str, int] | None:
    """Host and port of the server, if nothing stands before it."""
    base = urlsplit(login.server)
    try:
        if base.scheme in _DEFAULT_PORTS and base.hostname and proxy_for(login, base) is None:
            return base.hostname, base.port or _DEFAULT_PORTS[base.scheme]
    except (ValueError, BadKubeconfig):
        """An address that is none, or a proxy of a kind that only `client` may know."""
    return None


def _request(host: str, target: str, headers: dict[str, str]) -> bytes:
    lines = [f"GET {target} HTTP/1.1", f"Host: {host}", "User-Agent: a4", "Accept: */*", "Accept-Encoding: identity"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")
