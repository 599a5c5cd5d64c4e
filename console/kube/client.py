"""Requests to the API server: bytes out, bytes in, and failures as errors of ours.

A refused token is renewed once; 429 with a Retry-After is waited for, a few times and not for long.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode, urlsplit

from console.errors import TRY_AGAIN, ConsoleError, NotLoggedIn, Refused, Unreadable
from console.kube.failures import (
    CHECK,
    NO_NAME,
    certificate,
    late,
    no_address,
    proxy_away,
    proxy_refuses,
    refusal,
    refused,
    system,
    unreachable,
)
from console.pace import key_pressed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

    import aiohttp
    import yarl

    from console.kube.http2 import Answer, Http2Client
    from console.kube.login import Login


def cause(error: BaseException, *, proxied: bool) -> tuple[str, str]:
    """Why there is no answer, and what to do about it."""
    import aiohttp

    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return certificate(error.certificate_error)
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return proxy_refuses(str(error.status))
    if isinstance(error, aiohttp.ClientConnectorDNSError):  # with a proxy, no other name is asked for
        return proxy_away(NO_NAME) if proxied else (NO_NAME, CHECK)
    if isinstance(error, aiohttp.ClientProxyConnectionError):
        return proxy_away(system(error.os_error))
    if isinstance(error, TimeoutError):
        return late(proxied=proxied and isinstance(error, aiohttp.ConnectionTimeoutError))
    if isinstance(error, aiohttp.ClientConnectorError):
        return system(error.os_error), CHECK
    if isinstance(error, aiohttp.ServerDisconnectedError | aiohttp.ClientPayloadError):
        return "the connection was lost", TRY_AGAIN
    if isinstance(error, OSError):
        return system(error), TRY_AGAIN
    return str(error).strip() or type(error).__name__, TRY_AGAIN


@contextmanager
def told(login: Login, doing: str) -> Iterator[None]:
    """Turn what the transport raises into Unreachable (or BadKubeconfig for an address that is none)."""
    import aiohttp

    try:
        yield
    except aiohttp.InvalidURL as error:
        raise no_address(login.server) from error
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise unreachable(login.server, doing, *cause(error, proxied=bool(login.proxy))) from error


Params = Mapping[str, str] | Sequence[tuple[str, str]]

CONNECT = 10.0  # seconds until a connection has to stand
ANSWER = 60.0  # seconds of silence after which a plain request is given up
PATIENCE = 8.0
"""Longest Retry-After, in seconds, that a request waits for by itself; beyond that the caller hears of it."""
TRIES = 4
MOST = 32 << 20  # bytes of one answer that are read: a page of 500 objects of 64 KiB each
DRIP, DRIPS_FOR = 1 << 10, 5.0  # bytes that are too few in so many seconds once an answer has begun
LARGE = 1 << 20
"""Bytes of an answer beyond which it is read alone: a server may answer every list at once without an end."""
MAX_OF_MESSAGE = 4 << 20  # bytes of one message of a WebSocket; API servers send 32 KiB at a time
REST, BETWEEN_RESTS = 0.15, 0.05
"""Seconds for which streams wait for a key to be answered, and at least go on between two such rests."""
AGENT = "a4"
KEEP_ALIVE = 30.0  # seconds between pings on a WebSocket, so that no proxy on the way takes it for idle
_TOO_MANY = HTTPStatus.TOO_MANY_REQUESTS
_JSON = "application/json"
_HANDSHAKE = 0.1  # seconds a cut-off TLS handshake is given to end when everything is closed


def _import_multiplex() -> ModuleType:
    from console.kube import http2  # 30 ms, which is libcurl: for whoever follows a log

    return http2


async def _read_on(pieces: AsyncIterator[bytes], found: bytearray, most: int) -> None:
    """Add pieces until there are no more, or `found` is longer than `most`; TimeoutError where they only drip."""
    loop = asyncio.get_running_loop()
    since, before = loop.time(), len(found)
    async for piece in pieces:
        found += piece
        if (now := loop.time()) > since + DRIPS_FOR:
            if len(found) < before + DRIP:
                raise TimeoutError
            since, before = now, len(found)
        if len(found) > most:
            break


class Client:
    """One API server, with one account."""

    def __init__(self, login: Login) -> None:
        self.login = login
        self._session: aiohttp.ClientSession | None = None
        self._multiplex: Http2Client | None = None
        self._closed = False
        self._reads_large = asyncio.Lock()
        self._rests_until = 0.0
        self._opening = 0  # connections whose TLS handshake was begun and, as far as is known, not ended

    async def close(self) -> None:
        self._closed = True
        if self._multiplex:
            await self._multiplex.close()
        if self._session:
            await self._session.close()
            # Aborted transports let go of their sockets in the loop's next turn; one whose handshake was cut short
            # does so only when the handshake is over.
            await asyncio.sleep(_HANDSHAKE if self._opening else 0)
            await asyncio.sleep(0)

    def yield_to_key(self) -> None:
        """Somebody has pressed a key: what logs and watches bring waits a moment, so that it is answered first.

        It waits a part of the time only, however many keys come.
        """
        key_pressed()
        now = asyncio.get_running_loop().time()
        if now > self._rests_until + BETWEEN_RESTS:
            self._rests_until = now + REST
            if self._multiplex:
                self._multiplex.rest_until(self._rests_until)

    async def rest_for_key(self) -> None:
        """Wait as long as a key that was pressed is answered first."""
        loop = asyncio.get_running_loop()
        if self._rests_until > loop.time():
            await asyncio.sleep(self._rests_until - loop.time())

    def _check_open(self) -> None:
        if self._closed:
            raise ConsoleError(
                "The connection to this cluster was closed.", "Open the page, or run the command, again."
            )

    def _opened(self) -> aiohttp.ClientSession:
        """The session, which obeys no environment; answers are compressed where they come from elsewhere."""
        self._check_open()
        if self._session is None:
            import aiohttp  # a fifth of a second, which plain lists do not spend

            here = self.login.loopback
            self._session = aiohttp.ClientSession(
                headers={"Accept-Encoding": "identity" if here else "gzip", "User-Agent": AGENT},
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT, sock_read=ANSWER),
                connector=aiohttp.TCPConnector(limit=0),
                trace_configs=[self._trace()],
            )
        return self._session

    def _trace(self) -> aiohttp.TraceConfig:
        """Counts connections that are being opened; refuses redirects, which opening a WebSocket would follow."""

        async def redirected(_: object, __: object, seen: aiohttp.TraceRequestRedirectParams) -> None:
            status = seen.response.status
            raise Refused(f"The API server answers {status}, a redirect to another address.", status=status)

        async def begun(*_: object) -> None:
            self._opening += 1

        async def ended(*_: object) -> None:
            self._opening -= 1

        import aiohttp

        trace = aiohttp.TraceConfig()
        trace.on_request_redirect.append(redirected)
        trace.on_connection_create_start.append(begun)
        trace.on_connection_create_end.append(ended)
        return trace

    def url(self, path: str, params: Params | None = None) -> str:
        """Full address of a path that is already percent-encoded where it needs to be; BadKubeconfig if it is none."""
        address = self.login.server + path
        try:
            parts = urlsplit(address)
            usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
        except ValueError as error:
            raise no_address(self.login.server) from error
        if not usable:
            raise no_address(self.login.server)
        if not params:
            return address
        pairs = params.items() if isinstance(params, Mapping) else params
        return f"{address}{'&' if parts.query else '?'}{urlencode(list(pairs), quote_via=quote)}"

    def _yarl(self, path: str, params: Params | None) -> yarl.URL:
        import yarl

        try:
            return yarl.URL(self.url(path, params), encoded=True)
        except ValueError as error:
            raise no_address(self.login.server) from error

    async def _options(self) -> dict[str, Any]:
        """What every connection needs: who asks, TLS, proxy."""
        options: dict[str, Any] = {"headers": await self.login.headers(), "ssl": await self.login.tls() or True}
        if self.login.server_name:
            options["server_hostname"] = self.login.server_name
        if self.login.proxy:
            options["proxy"] = self.login.proxy
        return options

    @asynccontextmanager
    async def stream(
        self,
        path: str,
        *,
        doing: str,
        params: Params | None = None,
        method: str = "GET",
        body: bytes | None = None,
        content: str = _JSON,
        silence: float = ANSWER,
        accept: str = _JSON,
    ) -> AsyncIterator[Answer]:
        """An answer of status 200 to 299, to be read; `silence` is how long (s) it may say nothing.

        Raises Refused and its kin, Unreachable, NotLoggedIn.
        """
        async with self._by_libcurl(method, path, doing, params, body, content, silence, accept) as answer:
            yield answer

    @asynccontextmanager
    async def follow(
        self, path: str, *, doing: str, params: Params, silence: float, at_once: bool = False
    ) -> AsyncIterator[Answer]:
        """An answer that goes on, beside many others; raises as `stream` does.

        `at_once`: one that is there as a whole, and is given up where it only drips.
        """
        asked = self._by_libcurl("GET", path, doing, params, None, "", silence, _JSON, goes_on=True, at_once=at_once)
        async with asked as answer:
            yield answer

    @asynccontextmanager
    async def _by_libcurl(
        self,
        method: str,
        path: str,
        doing: str,
        params: Params | None,
        body: bytes | None,
        content: str,
        silence: float,
        accept: str,
        *,
        goes_on: bool = False,
        at_once: bool = False,
    ) -> AsyncIterator[Answer]:
        library = await asyncio.to_thread(_import_multiplex)
        self._check_open()
        self._multiplex = multiplex = self._multiplex or library.Http2Client(self.login)
        url = self.url(path, params)

        async def ask() -> tuple[Answer, dict[str, str]]:
            who = await self.login.headers()
            headers = {**who, "Accept": accept, "User-Agent": AGENT}
            if body is not None:
                headers["Content-Type"] = content
            compressed = not (goes_on or self.login.loopback)
            asked = library.Asked(url, headers, method, body, compressed, goes_on, at_once)
            return await multiplex.get(asked, connect=CONNECT, silence=silence), who

        with library.told(self.login, doing):
            answer = await self._accepted(ask, doing)
            try:
                yield answer
            except TimeoutError:
                multiplex.doubt()
                raise
            finally:
                answer.close()

    async def rest(self, seconds: float) -> None:
        """Wait before `follow` is tried again; where the server cannot be reached, until it has answered anybody."""
        await (self._multiplex.rest(seconds) if self._multiplex else asyncio.sleep(seconds))

    async def _accepted(self, ask: Callable[[], Awaitable[tuple[Answer, dict[str, str]]]], doing: str) -> Answer:
        """The first answer that is no refusal, after at most one renewal and a few short waits.

        `ask` gives an answer, and as whom it asked.
        """
        renewed = False
        for attempt in range(1, TRIES + 1):
            answer, who = await ask()
            if HTTPStatus.OK <= answer.status < HTTPStatus.MULTIPLE_CHOICES:
                return answer
            error = await refused(answer, answer.pieces(), doing)
            if isinstance(error, NotLoggedIn) and not renewed and await self.login.renew(who):
                renewed = True
                continue
            wait = error.retry_after if isinstance(error, Refused) and error.status == _TOO_MANY else 0.0
            if attempt == TRIES or not 0 < wait <= PATIENCE:
                raise await self._worded(error)
            await asyncio.sleep(wait)
        raise AssertionError("the last attempt returns or raises")

    async def _worded(self, error: ConsoleError) -> ConsoleError:
        """The server says "Unauthorized" of an expired certificate; we can say more."""
        return (await self.login.expired() or error) if isinstance(error, NotLoggedIn) else error

    async def request(
        self,
        method: str,
        path: str,
        *,
        doing: str,
        params: Params | None = None,
        body: bytes | None = None,
        content: str = _JSON,
        silence: float = ANSWER,
        accept: str = _JSON,
    ) -> bytes:
        """The body of the answer; raises as `stream` does."""
        async with self.stream(
            path, doing=doing, params=params, method=method, body=body, content=content, silence=silence, accept=accept
        ) as answer:
            pieces, found = answer.pieces(), bytearray()
            await _read_on(pieces, found, LARGE)
            if len(found) > LARGE:
                async with self._reads_large:
                    await _read_on(pieces, found, MOST)
            if len(found) > MOST:
                raise Unreadable(f"Could not {doing}: the API server answers with more than {MOST >> 20} MiB.")
            return bytes(found)

    @asynccontextmanager
    async def websocket(
        self, path: str, *, doing: str, params: Params, protocols: Sequence[str]
    ) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        """A WebSocket that speaks the first of `protocols` the server knows; raises as `stream` does."""
        with told(self.login, doing):
            socket = await self._upgraded(path, doing, params, protocols)
            try:
                yield socket
            finally:
                await socket.close()

    async def _upgraded(
        self, path: str, doing: str, params: Params, protocols: Sequence[str]
    ) -> aiohttp.ClientWebSocketResponse:
        import aiohttp

        for last in (False, True):
            options = await self._options()
            try:
                socket: aiohttp.ClientWebSocketResponse = await self._opened().ws_connect(
                    self._yarl(path, params),
                    protocols=protocols,
                    heartbeat=KEEP_ALIVE,
                    max_msg_size=MAX_OF_MESSAGE,
                    autoclose=True,
                    timeout=aiohttp.ClientWSTimeout(ws_close=1.0),
                    **options,
                )
                return socket
            except aiohttp.WSServerHandshakeError as error:
                if error.status == HTTPStatus.UNAUTHORIZED and not last and await self.login.renew(options["headers"]):
                    continue
                raise await self._worded(await self._why(path, doing, params, error)) from error
        raise AssertionError("the second attempt returns or raises")

    async def _why(self, path: str, doing: str, params: Params, error: aiohttp.WSServerHandshakeError) -> ConsoleError:
        """A refused upgrade comes without its body; the same request without the upgrade brings the Status."""
        try:
            async with self.stream(path, doing=doing, params=params, silence=CONNECT):
                return refusal(error.status, error.message.encode(), doing=doing)
        except Refused as told:
            return told if told.status == error.status else refusal(error.status, error.message.encode(), doing=doing)
