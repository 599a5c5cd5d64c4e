"""One connection to the API server that is ready in milliseconds: a few plain requests, then a WebSocket.

`client` does everything else, over aiohttp, whose import alone takes longer than a whole `ssh` through a tunnel may.
This speaks just the HTTP/1.1 that an API server answers a GET with, on the same connection that becomes the tunnel.
"""

from __future__ import annotations

import asyncio
import base64
import os
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, unquote, urlsplit

from console.errors import BadKubeconfig, ConsoleError, NotLoggedIn, Unreachable
from console.kube.failures import late, no_address, proxy_away, proxy_refuses, unreachable, why
from console.kube.websocket import WebSocket

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

    from console.kube.login import Login

CONNECT = 10.0  # seconds until a connection has to stand
ANSWER = 20.0  # seconds until requests have to be answered whole
_ROOM = 1 << 16
_MOST = 16 << 20  # bytes of an answer: a pod, or the pods of one job
_PORTS = {"http": 80, "https": 443}
_OK, _UNAUTHORIZED, _SWITCHING = 200, 401, 101


@dataclass(frozen=True, slots=True)
class Answer:
    """What a request got."""

    status: int
    headers: dict[str, str]
    body: bytes = b""


class Wire:
    """A connection that stands; made by `connected`."""

    def __init__(self, login: Login, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._login = login
        self._base = urlsplit(login.server)
        self._reader, self._writer = reader, writer
        self._taken = False
        self.refused: dict[str, str] = {}
        """The credentials of the last request, by which `login.renew` knows what is out of date."""

    async def get(self, path: str, *more: str) -> list[Answer]:
        """Answers to requests that are sent at once and answered in order; raises OSError and its kin."""
        async with asyncio.timeout(ANSWER):
            for each in (path, *more):
                await self._ask(each, ("Accept: application/json",))
            return [await self._answer() for _ in (path, *more)]

    async def upgrade(self, path: str, *protocols: str) -> WebSocket | Answer:
        """The WebSocket that this connection becomes, if the server takes one of the protocols; else its answer."""
        key = base64.b64encode(os.urandom(16)).decode()
        asked = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13",
                 f"Sec-WebSocket-Key: {key}", f"Sec-WebSocket-Protocol: {', '.join(protocols)}")  # fmt: skip
        async with asyncio.timeout(ANSWER):
            await self._ask(path, asked)
            answer = await self._answer()
        protocol = answer.headers.get("sec-websocket-protocol", "")
        if answer.status != _SWITCHING or protocol not in protocols:
            return answer
        self._taken = True
        return WebSocket(self._writer, self._reader, protocol)

    async def _ask(self, path: str, headers: Sequence[str]) -> None:
        self.refused = await self._login.headers()
        who = [f"{name}: {value}" for name, value in self.refused.items()]
        lines = (
            f"GET {self._base.path}{path} HTTP/1.1",
            f"Host: {self._base.netloc}",
            "User-Agent: a4",
            *who,
            *headers,
        )
        self._writer.write("\r\n".join((*lines, "", "")).encode("latin-1"))

    async def _answer(self) -> Answer:
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        status = _status(head[0])
        pairs = (line.partition(":") for line in head[1:] if line)
        headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        if status == _SWITCHING:
            return Answer(status, headers)
        return Answer(status, headers, await self._body(headers))

    async def _body(self, headers: dict[str, str]) -> bytes:
        if headers.get("transfer-encoding", "").lower() != "chunked":
            size = headers.get("content-length")
            if size is not None:
                return await self._reader.readexactly(_length(size, 10))
            body = await self._reader.read(_MOST + 1)
            while (piece := await self._reader.read(_ROOM)) and len(body) <= _MOST:
                body += piece
            _length(str(len(body)), 10)
            return body
        parts = bytearray()
        while length := _length((await self._reader.readuntil(b"\r\n")).split(b";")[0].strip().decode("latin-1"), 16):
            parts += await self._reader.readexactly(length)
            _length(str(len(parts)), 10)
            await self._reader.readexactly(2)
        while (await self._reader.readuntil(b"\r\n")) != b"\r\n":
            """A trailer, which says nothing here."""
        return bytes(parts)

    def close(self) -> None:
        """Drop the connection, unless it has become a WebSocket, which closes itself."""
        if not self._taken:
            self._writer.transport.abort()


def _length(text: str, base: int) -> int:
    """A number of bytes; ConnectionError for what is none, or is longer than any answer that is asked for here."""
    try:
        size = int(text, base) if text.isalnum() else -1
    except ValueError:
        size = -1
    if not 0 <= size <= _MOST:
        raise ConnectionError(f"what answers there announces {text[:20]!r} bytes")
    return size


def _status(line: str) -> int:
    """Of an answer's first line."""
    words = line.split(" ")
    if len(words) < 2 or not words[0].startswith("HTTP/1.") or not words[1].isdecimal():
        raise ConnectionError("what answers there does not speak HTTP")
    return int(words[1])


@contextmanager
def _told(server: str, doing: str) -> Iterator[None]:
    """Turn what a connection raises into Unreachable, in words."""
    try:
        yield
    except asyncio.IncompleteReadError as error:
        raise Unreachable(f"Could not {doing}: the API server {server} closed the connection.") from error
    except asyncio.LimitOverrunError as error:
        raise Unreachable(f"Could not {doing}: what answers at {server} is not an API server.") from error
    except (OSError, TimeoutError) as error:
        raise unreachable(server, doing, *why(error)) from error


@asynccontextmanager
async def connected(login: Login, doing: str) -> AsyncIterator[Wire]:
    """A connection; Unreachable, BadKubeconfig, NotLoggedIn, all with words that begin with what is being done."""
    with _told(login.server, doing):
        try:
            async with asyncio.timeout(CONNECT):
                wire = await _connect(login, doing)
        except TimeoutError as error:
            raise unreachable(login.server, doing, *late(proxied=bool(login.proxy))) from error
        try:
            yield wire
        finally:
            wire.close()


async def _connect(login: Login, doing: str) -> Wire:
    base = urlsplit(login.server)
    if base.scheme not in _PORTS or not base.hostname:
        raise no_address(login.server)
    port = base.port or _PORTS[base.scheme]
    await login.headers()  # a plug-in may bring the certificate that TLS needs
    context = await login.tls()
    name = (login.server_name or base.hostname) if context else None
    proxy = _proxy(login)
    if proxy is None:
        reader, writer = await asyncio.open_connection(
            base.hostname, port, ssl=context, server_hostname=name, limit=_ROOM
        )
        return Wire(login, reader, writer)
    try:
        reader, writer = await asyncio.open_connection(proxy.hostname, proxy.port or 80, limit=_ROOM)
    except OSError as error:
        raise unreachable(login.server, doing, *proxy_away(why(error)[0])) from error
    try:
        status = await _through(proxy, f"{base.hostname}:{port}", reader, writer)
        if status != _OK:
            raise unreachable(login.server, doing, *proxy_refuses(str(status)))
        if context:
            await writer.start_tls(context, server_hostname=name)
    except BaseException:
        writer.transport.abort()
        raise
    return Wire(login, reader, writer)


def _proxy(login: Login) -> SplitResult | None:
    if not login.proxy:
        return None
    proxy = urlsplit(login.proxy)
    if proxy.scheme != "http":
        raise BadKubeconfig(
            f"The proxy {proxy.scheme}://{proxy.hostname} cannot be used for tunnels.", "Use an http:// one."
        )
    return proxy


async def _through(proxy: SplitResult, place: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> int:
    """Ask the proxy to connect; the status of its answer."""
    lines = [f"CONNECT {place} HTTP/1.1", f"Host: {place}"]
    if proxy.username:
        pair = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}".encode()
        lines.append("Proxy-Authorization: Basic " + base64.b64encode(pair).decode())
    writer.write("\r\n".join((*lines, "", "")).encode("latin-1"))
    answer = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n", 1)[0].decode("latin-1")
    return _status(answer)


async def refusal_of(login: Login, answer: Answer, doing: str) -> ConsoleError:
    from console.kube.failures import refusal  # only what is refused needs it

    error = refusal(answer.status, answer.body, doing=doing)
    return (await login.expired() or error) if isinstance(error, NotLoggedIn) else error


def outdated(answer: Answer) -> bool:
    """Whether other credentials might do."""
    return answer.status == _UNAUTHORIZED
