"""An answer that goes on for as long as a container prints, read with as little work for each piece as there can be.

`client` reads everything else over aiohttp. A job's log is a hundred connections of fifty small pieces a second each,
and asyncio's TLS with aiohttp's parser above it costs about a tenth of a millisecond a piece; a socket that is read
where the loop says that it can be costs a third of that. This speaks just the HTTP/1.1 that an API server
answers a GET with; what stands behind a proxy, or has to be asked for again, is left to `client`.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from console.cluster.wire import proxy_for

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Sequence

    from console.cluster.login import Login

CONNECT = 10.0
"""Seconds until a connection has to stand."""
PIECE = 1 << 16
RECORDS = 32
"""Records of TLS that are taken at once, beside the first: then others get their turn."""
HELD = 1 << 20
"""Bytes that are held unread; more of them stay with the server."""
LONGEST_HEAD = 1 << 16
_PORTS = {"http": 80, "https": 443}
_WANT = (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


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
    """A connection whose answer is a stream; made by `tapped`."""

    def __init__(self, connection: socket.socket, silence: float) -> None:
        """`silence`: seconds without a byte after which it is given up."""
        self.status = 0
        self._loop = asyncio.get_running_loop()
        self._socket = connection
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

    # before the answer goes on

    async def handshake(self) -> None:
        """TLS, where there is any; raises ssl.SSLError and OSError."""
        connection = self._socket
        while isinstance(connection, ssl.SSLSocket):
            try:
                connection.do_handshake()
            except _WANT as want:
                await self._ready(write=isinstance(want, ssl.SSLWantWriteError))
            else:
                return

    async def ask(self, request: bytes) -> bool:
        """Whether the answer can be read here, whatever its status."""
        left = memoryview(request)
        while left:
            try:
                left = left[self._socket.send(left) :]
            except _WANT as want:
                await self._ready(write=not isinstance(want, ssl.SSLWantReadError))
        data = b""
        while (end := data.find(b"\r\n\r\n")) < 0:
            try:
                more = self._socket.recv(PIECE)
            except _WANT as want:
                await self._ready(write=isinstance(want, ssl.SSLWantWriteError))
                continue
            if not more or len(data) > LONGEST_HEAD:
                raise ConnectionError("the connection broke off")
            data += more
        return self._begin(data[:end].decode("latin-1").split("\r\n"), data[end + 4 :])

    async def _ready(self, *, write: bool) -> None:
        """Wait until the socket can be read, or written to."""
        self._waiting = self._loop.create_future()
        fd = self._socket.fileno()
        add, remove = (
            (self._loop.add_writer, self._loop.remove_writer)
            if write
            else (self._loop.add_reader, self._loop.remove_reader)
        )
        add(fd, self._wake)
        try:
            await self._waiting
        finally:
            remove(fd)

    def _begin(self, head: Sequence[str], data: bytes) -> bool:
        words = [*head[0].split(" "), ""]
        pairs = (line.partition(":") for line in head[1:])
        headers = {name.strip().lower(): value.strip().lower() for name, _, value in pairs}
        if (
            words[0] != "HTTP/1.1"
            or not words[1].isdecimal()
            or headers.get("content-encoding", "identity") != "identity"
        ):
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
        return True

    # while it goes on

    def _go_on(self) -> None:
        if not self._reading and not self._over and self._error is None and self._held < HELD:
            self._reading = True
            self._loop.add_reader(self._socket.fileno(), self._read)

    def _stop(self) -> None:
        if self._reading:
            self._reading = False
            self._loop.remove_reader(self._socket.fileno())

    def _read(self) -> None:
        """There are bytes, or the end."""
        data = b""
        try:
            data = self._socket.recv(PIECE)
            ended = not data
            if isinstance(self._socket, ssl.SSLSocket):  # one record at a time: those that wait are taken together
                for _ in range(RECORDS):
                    data += self._socket.recv(PIECE)
        except _WANT:
            ended = False
        except OSError as error:
            self._error = error
            ended = False
        if data:
            self._last = self._loop.time()
            self._take(data)
        if ended:
            self._end()
        if self._held >= HELD or self._over or self._error is not None:
            self._stop()
        self._wake()

    def _end(self) -> None:
        if self._chunks is None and self._body < 0:
            self._over = True
        elif not self._over:
            self._error = ConnectionResetError("the connection broke off")

    def _take(self, data: bytes) -> None:
        if self._chunks is not None:
            try:
                pieces = self._chunks.feed(data)
            except ConnectionError as error:
                self._error = error
                return
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
        self._socket.close()


@asynccontextmanager
async def tapped(login: Login, target: str, silence: float) -> AsyncIterator[Tap | None]:
    """The answer to a GET of a path with its query; None if it has to be asked for in another way.

    Raises BadKubeconfig, NotLoggedIn, and OSError and its kin.
    """
    base = urlsplit(login.server)
    if base.scheme not in _PORTS or not base.hostname or proxy_for(login, base) is not None:
        yield None
        return
    headers = await login.headers()  # a plug-in may bring the certificate that TLS needs
    context = await login.tls()
    tap: Tap | None = None
    try:
        async with asyncio.timeout(CONNECT):
            connection = await _connected(base.hostname, base.port or _PORTS[base.scheme])
            if context is not None:
                connection = context.wrap_socket(
                    connection, server_hostname=login.server_name or base.hostname, do_handshake_on_connect=False
                )
            tap = Tap(connection, silence)
            try:
                await tap.handshake()
            except ssl.SSLError:
                streams = False  # `client` says why
            else:
                streams = True
        async with asyncio.timeout(silence):
            streams = streams and await tap.ask(_request(base.netloc.rpartition("@")[2], target, headers))
        yield tap if streams else None
    finally:
        if tap is not None:
            tap.close()


def _request(host: str, target: str, headers: dict[str, str]) -> bytes:
    lines = [f"GET {target} HTTP/1.1", f"Host: {host}", "User-Agent: a4", "Accept: */*", "Accept-Encoding: identity"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


async def _connected(host: str, port: int) -> socket.socket:
    """A connection to the first of the host's addresses that takes one; OSError of the last if none does."""
    loop = asyncio.get_running_loop()
    last: OSError = OSError(f"{host} has no address")
    for family, kind, protocol, _, address in await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        connection = socket.socket(family, kind, protocol)
        connection.setblocking(False)
        try:
            await loop.sock_connect(connection, address)
        except OSError as error:
            connection.close()
            last = error
        except BaseException:
            connection.close()
            raise
        else:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            return connection
    raise last
