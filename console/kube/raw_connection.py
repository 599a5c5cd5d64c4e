"""A direct HTTP/1.1 connection to the API server for tunnels, ready in milliseconds: a few GETs, then a WebSocket.

All other requests go through `http`, by libcurl. A tunnel uses this module, because the requests that find the pod
share their connection with the WebSocket, and libcurl's WebSocket sent an eighth of what it received in the same time.
Only those parts of HTTP/1.1 are supported with which an API server answers a GET.

Helm's library connects through `ApiServerProxy`.
"""

from __future__ import annotations

import asyncio
import base64
import ipaddress
import os
import ssl
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, unquote, urlsplit

from msgspec import Struct

from console.errors import ConsoleError
from console.kube.api_errors import NotConnected, ProxyRefused, bad_address_error, error_from_status, translate_errors
from console.kube.kubeconfig import DEFAULT_PROXY_PORTS
from console.kube.websocket import WebSocket

if TYPE_CHECKING:
    from console.kube.login import Login

CONNECT_TIMEOUT = 10.0  # seconds until a connection has to stand
MAX_IDLE_SECONDS = 60.0  # seconds for which a connection that was made ahead is used; API servers keep them longer
WHOLE_RESPONSE_TIMEOUT = 20.0  # seconds until requests have to be answered whole
_READ_BUFFER_BYTES = 1 << 16
_MAX_RESPONSE_BYTES = 16 << 20  # bytes of an answer: a pod, or the pods of one job
_DEFAULT_PORTS = {"http": 80, "https": 443}
_OK, _SWITCHING = 200, 101
_SOCKS_VERSION, _SOCKS_NO_LOGIN, _SOCKS_PASSWORD_LOGIN = 5, 0, 2  # as RFC 1928 numbers them


class RawResponse(Struct, frozen=True):
    status: int
    headers: dict[str, str]
    body: bytes = b""


class RawConnection:
    """An open HTTP/1.1 connection to the API server, made by `open_connection`."""

    def __init__(self, login: Login, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._login = login
        self._server_url = urlsplit(login.server)
        self._reader, self._writer = reader, writer
        self._is_upgraded = False
        self.refused: dict[str, str] = {}  # credentials of the last request, for `login.renew`

    async def get(self, path: str, *headers: str, accept: str = "application/json") -> list[RawResponse]:
        """Send several GETs at once; returns their responses in order. Raises OSError and its subclasses."""
        async with asyncio.timeout(WHOLE_RESPONSE_TIMEOUT):
            for each in (path, *headers):
                await self._send_request(each, (f"Accept: {accept}",))
            return [await self._read_response() for _ in (path, *headers)]

    async def upgrade(self, path: str, *protocols: str) -> WebSocket | RawResponse:
        """This connection as a WebSocket, or the server's response if it refuses all the protocols."""
        key = base64.b64encode(os.urandom(16)).decode()
        asked = (
            "Connection: Upgrade",
            "Upgrade: websocket",
            "Sec-WebSocket-Version: 13",
            f"Sec-WebSocket-Key: {key}",
            f"Sec-WebSocket-Protocol: {', '.join(protocols)}",
        )
        async with asyncio.timeout(WHOLE_RESPONSE_TIMEOUT):
            await self._send_request(path, asked)
            answer = await self._read_response()
        protocol = answer.headers.get("sec-websocket-protocol", "")
        if answer.status != _SWITCHING or protocol not in protocols:
            return answer
        self._is_upgraded = True
        return WebSocket(self._writer, self._reader, protocol)

    async def _send_request(self, path: str, headers: Sequence[str]) -> None:
        self.refused = await self._login.headers()
        who = [f"{name}: {value}" for name, value in self.refused.items()]
        lines = (
            f"GET {self._server_url.path}{path} HTTP/1.1",
            f"Host: {self._server_url.netloc}",
            "User-Agent: a4",
            *who,
            *headers,
        )
        self._writer.write("\r\n".join((*lines, "", "")).encode("latin-1"))

    async def _read_response(self) -> RawResponse:
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        status = _parse_status(head[0])
        pairs = (line.partition(":") for line in head[1:] if line)
        headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        if status == _SWITCHING:
            return RawResponse(status, headers)
        return RawResponse(status, headers, await self._read_body(headers))

    async def _read_body(self, headers: dict[str, str]) -> bytes:
        if headers.get("transfer-encoding", "").lower() != "chunked":
            size = headers.get("content-length")
            if size is not None:
                return await self._reader.readexactly(_parse_length(size, 10))
            body = await self._reader.read(_MAX_RESPONSE_BYTES + 1)
            while (piece := await self._reader.read(_READ_BUFFER_BYTES)) and len(body) <= _MAX_RESPONSE_BYTES:
                body += piece
            _parse_length(str(len(body)), 10)
            return body
        parts = bytearray()
        while length := _parse_length(
            (await self._reader.readuntil(b"\r\n")).split(b";")[0].strip().decode("latin-1"), 16
        ):
            parts += await self._reader.readexactly(length)
            _parse_length(str(len(parts)), 10)
            await self._reader.readexactly(2)
        while (await self._reader.readuntil(b"\r\n")) != b"\r\n":
            """A trailer, which says nothing here."""
        return bytes(parts)

    @property
    def is_usable(self) -> bool:
        """Whether the connection is still open, as far as is known, so that another request may use it."""
        return not (self._is_upgraded or self._reader.at_eof() or self._writer.transport.is_closing())

    def close(self) -> None:
        if not self._is_upgraded:
            self._writer.transport.abort()


def _parse_length(text: str, base: int) -> int:
    """Parse a number of bytes; ConnectionError if it is no number, or larger than any response expected here."""
    try:
        size = int(text, base) if text.isalnum() else -1
    except ValueError:
        size = -1
    if not 0 <= size <= _MAX_RESPONSE_BYTES:
        raise ConnectionError(f"what answers there announces {text[:20]!r} bytes")
    return size


def _parse_status(line: str) -> int:
    words = line.split(" ")
    if len(words) < 2 or not words[0].startswith("HTTP/1.") or not words[1].isdecimal():
        raise ConnectionError("what answers there does not speak HTTP")
    return int(words[1])


@asynccontextmanager
async def open_connection(login: Login, doing: str, ahead: RawConnection | None = None) -> AsyncIterator[RawConnection]:
    """Connect and log in, or use the open connection `ahead`. Raises Unreachable, BadKubeconfig and NotLoggedIn."""
    with translate_errors(login, doing):
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                connection = ahead or await connect(login)
        except TimeoutError as error:
            raise NotConnected(error) from error
        try:
            yield connection
        finally:
            connection.close()


async def connect(login: Login) -> RawConnection:
    """Connect to the API server with TLS; raises exceptions that `translate_errors` converts."""
    await login.headers()  # a plug-in may bring the certificate that TLS needs
    context = await login.tls()
    reader, writer = await connect_stream(login, context)
    return RawConnection(login, reader, writer)


async def connect_stream(
    login: Login, context: ssl.SSLContext | None = None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A new connection to the API server, by its proxy if any, with TLS if given. OSError, EOFError, NotConnected."""
    base = urlsplit(login.server)
    if base.scheme not in _DEFAULT_PORTS or not base.hostname:
        raise bad_address_error(login.server)
    port = base.port or _DEFAULT_PORTS[base.scheme]
    name = (login.server_name or base.hostname) if context else None
    if not login.proxy:
        return await _open_stream(base.hostname, port, context, name)
    proxy = urlsplit(login.proxy)
    over_tls = ssl.create_default_context() if proxy.scheme == "https" else None
    reader, writer = await _open_stream(
        proxy.hostname or "", proxy.port or DEFAULT_PROXY_PORTS[proxy.scheme], over_tls, None
    )
    try:
        ask = _connect_through_socks if proxy.scheme.startswith("socks") else _connect_through_proxy
        await ask(proxy, base.hostname, port, reader, writer)
        if context:
            await writer.start_tls(context, server_hostname=name)
    except BaseException:
        writer.transport.abort()
        raise
    return reader, writer


async def _open_stream(
    host: str, port: int, context: ssl.SSLContext | None, name: str | None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    try:
        return await asyncio.open_connection(host, port, ssl=context, server_hostname=name, limit=_READ_BUFFER_BYTES)
    except TimeoutError:
        raise
    except OSError as error:
        raise NotConnected(error) from error


async def _connect_through_proxy(
    proxy: SplitResult, host: str, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Ask an HTTP proxy to connect to the host; raises ProxyRefused."""
    place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    lines = [f"CONNECT {place} HTTP/1.1", f"Host: {place}"]
    if proxy.username:
        pair = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}".encode()
        lines.append("Proxy-Authorization: Basic " + base64.b64encode(pair).decode())
    writer.write("\r\n".join((*lines, "", "")).encode("latin-1"))
    answer = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n", 1)[0].decode("latin-1")
    if (status := _parse_status(answer)) != _OK:
        raise ProxyRefused(status)


async def _connect_through_socks(
    proxy: SplitResult, host: str, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Ask a SOCKS 5 proxy (RFC 1928, 1929) to connect to the host, whose name it resolves. Raises ProxyRefused."""
    name, password = unquote(proxy.username or "").encode(), unquote(proxy.password or "").encode()
    methods = [_SOCKS_NO_LOGIN, *([_SOCKS_PASSWORD_LOGIN] if name else [])]
    writer.write(bytes([_SOCKS_VERSION, len(methods), *methods]))
    version, method = await reader.readexactly(2)
    if method == _SOCKS_PASSWORD_LOGIN and name and max(len(name), len(password)) < 256:
        writer.write(bytes([1, len(name)]) + name + bytes([len(password)]) + password)
        method = (await reader.readexactly(2))[1]
    if version != _SOCKS_VERSION or method != _SOCKS_NO_LOGIN:
        raise ProxyRefused("SOCKS")
    try:
        address = ipaddress.ip_address(host)
        place = bytes([1 if address.version == 4 else 4]) + address.packed
    except ValueError:
        named = host.encode("idna")
        place = bytes([3, len(named)]) + named
    writer.write(bytes([_SOCKS_VERSION, 1, 0]) + place + port.to_bytes(2, "big"))
    _, refused, _, kind = await reader.readexactly(4)
    if refused:
        raise ProxyRefused("SOCKS")
    length = {1: 4, 4: 16}.get(kind) or (await reader.readexactly(1))[0]
    await reader.readexactly(length + 2)  # where it connects from


async def error_from_raw_response(login: Login, answer: RawResponse, action: str) -> ConsoleError:
    return await login.explain(error_from_status(answer.status, answer.body, action=action))


_COPY_BYTES = 1 << 16


class ApiServerProxy:
    """A local proxy to one API server, with its own thread and event loop, so that its clients may block.

    Helm's library follows redirects and sends its credentials to whatever host they name; through this proxy it reaches
    the API server only. TLS is end to end: the proxy sees neither credentials nor responses.
    """

    def __init__(self, login: Login) -> None:
        self._login = login
        base = urlsplit(login.server)
        host = base.hostname or ""
        self._server_address = f"[{host}]:{base.port or 443}" if ":" in host else f"{host}:{base.port or 443}"
        self.url = ""
        self.refused_address = ""  # the last other address that was asked for, and refused
        self.failure: Exception | None = None  # why the last connection to the API server was not made

    async def start(self) -> asyncio.Server:
        server = await asyncio.start_server(self._serve_client, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        return server

    async def _serve_client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                asked = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n", 1)[0].decode("latin-1").split(" ")
            if asked[:2] != ["CONNECT", self._server_address]:
                self.refused_address = asked[1] if len(asked) > 1 else "another address"
                writer.write(b"HTTP/1.1 403 Forbidden\r\n\r\n")
                return
            try:
                async with asyncio.timeout(CONNECT_TIMEOUT):
                    there_reader, there_writer = await connect_stream(self._login)
            except (OSError, EOFError, NotConnected, asyncio.LimitOverrunError) as error:
                self.failure = error
                writer.write(b"HTTP/1.1 502 Bad Gateway\r\n\r\n")
                return
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            try:
                await asyncio.gather(_copy_stream(reader, there_writer), _copy_stream(there_reader, writer))
            finally:
                there_writer.transport.abort()
        except (OSError, EOFError, asyncio.LimitOverrunError):
            """Who asked has gone, or speaks no HTTP."""
        except asyncio.CancelledError:
            """The proxy ends; until Python 3.12 a server prints the traceback of a cancelled connection."""
        finally:
            writer.close()


async def _copy_stream(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while piece := await source.read(_COPY_BYTES):
        target.write(piece)
        await target.drain()
    with suppress(OSError):
        target.write_eof()


@contextmanager
def api_server_proxy(login: Login) -> Iterator[ApiServerProxy]:
    """An ApiServerProxy for the length of the block; it also works while the caller's event loop is blocked."""
    proxy, loop = ApiServerProxy(login), asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True, name="api-server-proxy")
    thread.start()
    server = asyncio.run_coroutine_threadsafe(proxy.start(), loop).result()

    async def end() -> None:
        server.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    try:
        yield proxy
    finally:
        asyncio.run_coroutine_threadsafe(end(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
