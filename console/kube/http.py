"""HTTP requests and responses through libcurl, for hundreds of concurrent watches and logs.

They share a few HTTP/2 connections, so a line that 128 ranks print arrives in a few TLS records, not in 128 of them in
128 turns of the event loop. A server without HTTP/2, such as the practice cluster, is requested over HTTP/1.1.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

import pycurl
from msgspec import Struct

from console.detached_tasks import call_apart, start_task
from console.errors import Unreachable
from console.kube.api_errors import NotConnected, ProxyRefused, bad_address_error, connection_error, translate_errors
from console.kube.stream_completeness import SERVER_CLOCK, ReceiveTimes
from console.work_slices import SLICE_SECONDS, rest_seconds

if TYPE_CHECKING:
    from console.kube.login import Login


_HTTP2_STREAM, _PROXY_HANDSHAKE = 92, 97  # CURLE_HTTP2_STREAM and CURLE_PROXY, to which pycurl gives no names
_CONNECTION_BROKEN_CODES = frozenset(
    {
        pycurl.E_PARTIAL_FILE,
        pycurl.E_GOT_NOTHING,
        pycurl.E_SEND_ERROR,
        pycurl.E_RECV_ERROR,
        pycurl.E_HTTP2,
        _HTTP2_STREAM,
    }
)
_NAME_NOT_RESOLVED_CODES = frozenset({pycurl.E_COULDNT_RESOLVE_HOST, pycurl.E_COULDNT_RESOLVE_PROXY})
_BAD_URL_CODES = frozenset({pycurl.E_URL_MALFORMAT, pycurl.E_UNSUPPORTED_PROTOCOL})


def _as_raised_by_sockets(error: pycurl.error, curl: pycurl.Curl) -> Exception:
    """The exception that Python's own sockets raise for the failure in a libcurl error."""
    code, message = error.args[0], str(error.args[-1])
    if (status := int(curl.getinfo(pycurl.HTTP_CONNECTCODE))) >= HTTPStatus.MULTIPLE_CHOICES:
        return ProxyRefused(status)
    if code in _CONNECTION_BROKEN_CODES:
        return EOFError(message)
    if code in _NAME_NOT_RESOLVED_CODES:
        return NotConnected(socket.gaierror(message))
    if code == pycurl.E_OPERATION_TIMEDOUT:
        return NotConnected(TimeoutError(message))
    if code == _PROXY_HANDSHAKE:
        return ProxyRefused("SOCKS")
    if code == pycurl.E_COULDNT_CONNECT:
        number = int(curl.getinfo(pycurl.OS_ERRNO))
        return NotConnected(OSError(number, os.strerror(number)) if number else OSError(message))
    if code == pycurl.E_PEER_FAILED_VERIFICATION:
        return ssl.SSLCertVerificationError(message)
    if code == pycurl.E_SSL_CONNECT_ERROR:
        failed = ssl.SSLError(message)
        failed.reason = message.rpartition(":")[2]
        return failed
    return OSError(message)


MAX_BUFFERED_BYTES = 1 << 18  # bytes of an answer that are held for who reads it; the server is kept waiting with more


class HttpRequest(Struct, frozen=True):
    """A request without credentials: URL, method, body and limits."""

    url: str
    silence_seconds: float  # seconds for which the answer may say nothing
    method: str = "GET"
    body: bytes | None = None
    content: str = ""
    accept: str = "application/json"
    is_followed: bool = False  # whether the answer is one that goes on, and may begin late
    at_once: bool = False  # whether the answer is there as a whole, and given up where it only drips
    lasts: bool = True  # whether the answer may keep its connection for itself; else it soon ends

    __repr__ = object.__repr__  # its body may hold a secret


class HttpResponse:
    """One response: its status and headers, and its body as it arrives."""

    def __init__(self, connections: HttpConnections, curl: pycurl.Curl, action: str, silence_seconds: float) -> None:
        """`silence_seconds`: seconds without data after which the response fails."""
        self.status = 0
        self.shares_connection = False  # whether other answers may come over the same connection: HTTP/2
        self.headers: dict[str, str] = {}  # by name, as HTTP/2 spells them: in lower case
        self._connections = connections
        self._curl = curl
        self._action = action
        self._loop = asyncio.get_running_loop()
        self._silence_seconds = silence_seconds
        self._received_at = self._loop.time()
        self._timer = self._loop.call_at(self._received_at + silence_seconds, self._check_silence)
        self._has_begun = False
        self._transfer_end: asyncio.Future[pycurl.Curl] | None = None
        self._finished = False  # whether it has ended; `_error` says how, and `_over` is done a turn earlier
        self._error: BaseException | None = None
        self._receive: Callable[[bytes], None] | None = None
        self._failed = False  # whether whom the bytes are poured into has failed
        self._pieces: list[bytes] = []
        self._held_bytes = 0
        self._paused = False
        self._data_future: asyncio.Future[None] | None = None
        curl.setopt(pycurl.HEADERFUNCTION, self._on_header)
        curl.setopt(pycurl.WRITEFUNCTION, self._on_data)

    def follow(self, transfer_end: asyncio.Future[pycurl.Curl]) -> None:
        """Note that the request is under way; `transfer_end` is done when the response has ended."""
        self._transfer_end = transfer_end
        transfer_end.add_done_callback(self._on_transfer_ended)

    # what libcurl calls, from where nothing may be started or ended

    def _on_header(self, line: bytes) -> None:
        name, colon, value = line.decode("latin-1").partition(":")
        if not colon and name.startswith("HTTP/"):
            self.status, self.headers, self.shares_connection = int(name.split()[1]), {}, name.startswith("HTTP/2")
        elif colon:
            self.headers[name.strip().lower()] = value.strip()
        elif self.status >= 200:  # below, another head follows
            self._connections.arrivals.record_arrival()
            SERVER_CLOCK.set_from_header(self.headers.get("date", ""))
            self._has_begun = True
            self._wake_waiter()

    def _on_data(self, chunk: bytes) -> int | None:
        self._connections.arrivals.record_arrival()
        if self._held_bytes > MAX_BUFFERED_BYTES:
            self._paused = True
            return pycurl.WRITEFUNC_PAUSE
        self._received_at = self._loop.time()
        self._held_bytes += len(chunk)
        self._pieces.append(chunk)
        if self._receive is not None:
            self._connections.buffer_until_idle(self)
        elif self._data_future is not None:
            self._wake_waiter()
        return None

    def _on_transfer_ended(self, transfer_end: asyncio.Future[pycurl.Curl]) -> None:
        self._timer.cancel()
        self._finished = True
        if self._error is None:
            self._error = EOFError("closed") if transfer_end.cancelled() else transfer_end.exception()
            if isinstance(self._error, pycurl.error):
                self._error = _as_raised_by_sockets(self._error, self._curl)
        self._curl.close()
        self.deliver_held()
        self._wake_waiter()

    def _check_silence(self) -> None:
        """End the response if no data came for too long; paused reading does not count as silence."""
        waits = self._silence_seconds if self._paused else self._received_at + self._silence_seconds - self._loop.time()
        if waits > 0:
            self._timer = self._loop.call_later(waits, self._check_silence)
        else:
            self._error = TimeoutError()
            self._connections.mark_suspect()
            self._cancel_transfer()

    def _cancel_transfer(self) -> None:
        self._timer.cancel()
        if self._transfer_end is not None:
            self._transfer_end.cancel()

    def _wake_waiter(self) -> None:
        if self._data_future is not None and not self._data_future.done():
            self._data_future.set_result(None)

    async def wait_for_headers(self) -> None:
        while not self._has_begun:
            await self._wait_for_data()

    @property
    def _is_over(self) -> bool:
        return self._finished and self._error is None

    async def _wait_for_data(self) -> None:
        """Wait for more data; raises the error that ended the response or that the callback raised."""
        if self._finished:
            error = self._error or EOFError("no answer")
            raise error if self._failed else connection_error(self._connections.login, self._action, error) from error
        self._data_future = self._loop.create_future()
        try:
            await self._data_future
        finally:
            self._data_future = None

    async def iter_chunks(self) -> AsyncGenerator[bytes, None]:
        while True:
            if self._pieces:
                piece = self._take_buffered()
                self._resume_transfer()
                yield piece
            elif self._is_over:
                return
            else:
                await self._wait_for_data()

    async def wait_for_keypress_pause(self) -> None:
        if (until := self._connections.rests_until) > self._loop.time():
            await asyncio.sleep(until - self._loop.time())

    def _take_buffered(self) -> bytes:
        pieces, self._pieces, self._held_bytes = self._pieces, [], 0
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _resume_transfer(self) -> None:
        if self._paused and not self._finished:
            self._paused, self._received_at = False, self._loop.time()
            try:
                call_apart(self._curl.pause, pycurl.PAUSE_CONT)
            except pycurl.error as error:
                self._error = EOFError(str(error))
                self._cancel_transfer()

    async def stream_to(self, receive: Callable[[bytes], None]) -> None:
        """Pass the body to the callback `receive` until it ends, chunk by chunk as it comes, with no task switch."""
        self._receive = receive
        self.deliver_held()
        while not self._is_over:
            await self._wait_for_data()

    def deliver_held(self) -> None:
        """Pass the buffered bytes to the callback given to `stream_to`."""
        if self._receive is None or not self._pieces or self._failed:
            return
        try:
            self._receive(self._take_buffered())
        except Exception as error:  # noqa: BLE001  # raised by `stream_to`, which waits for the end
            self._failed, self._error = True, error
            self._cancel_transfer()
        else:
            self._resume_transfer()

    def close(self) -> None:
        """Stop the transfer and drop the buffered bytes."""
        self._receive = None
        self._cancel_transfer()


FEW_CONNECTIONS = 2  # to a server on this machine, which answers in less time than it takes TLS to begin
STREAMS_PER_CONNECTION = 16  # answers over one connection; a hundred cost libcurl a third more processor time
USER_AGENT = "a4"
CONNECT_TIMEOUT = 10.0  # seconds until a connection has to stand
FIRST_ANSWER_WAIT = 1.0  # for which others wait for the answer to the first request before they ask by themselves
MIN_BYTES_PER_SECOND, MIN_SPEED_SECONDS = 100, 6  # fewer bytes, for so many seconds, end an answer that has begun
TCP_USER_TIMEOUT_SECONDS = 30  # seconds after which a connection whose other end confirms nothing is taken for cut
_SUPPRESS_CONNECT_HEADERS = 265  # CURLOPT_SUPPRESS_CONNECT_HEADERS, to which pycurl gives no name


def _make_curl_multi() -> pycurl.AsyncCurlMulti:
    made = pycurl.AsyncCurlMulti()
    made.setopt(pycurl.M_PIPELINING, pycurl.PIPE_MULTIPLEX)
    made.setopt(pycurl.M_MAX_CONCURRENT_STREAMS, STREAMS_PER_CONNECTION)
    return made


def _set_user_timeout(fd: int, purpose: int) -> int:
    """Set TCP_USER_TIMEOUT, if there is such an option: a dead connection would else last a quarter of an hour."""
    option = getattr(socket, "TCP_USER_TIMEOUT", None)
    if option is not None:
        with socket.socket(fileno=os.dup(fd)) as same:
            same.setsockopt(socket.IPPROTO_TCP, option, 1000 * TCP_USER_TIMEOUT_SECONDS)
    return 0


class HttpConnections:
    """Connections to one API server, each shared by many responses."""

    def __init__(self, login: Login) -> None:
        self.login = login
        self.arrivals = ReceiveTimes()
        self._connections = _make_curl_multi()
        self._retired: list[pycurl.AsyncCurlMulti] = []  # dead connections, with what still waits on them
        self._shares = None if login.server.startswith("https:") else False  # whether it has HTTP/2; None: ask (again)
        self._first: asyncio.Future[None] | None = None  # done when the first request has its answer, which shows that
        self._probe: asyncio.Task[bool] | None = None  # asks that
        self._reached = asyncio.Event()  # whether the server answered when it was asked last
        self._reached.set()
        self._buffering: dict[HttpResponse, None] = {}  # answers that hold bytes to be passed on
        self.rests_until = 0.0  # by the event loop's clock, until when no data is delivered; the servers wait meanwhile
        self._delivery_timer: asyncio.TimerHandle | None = None  # when more is passed on, after a rest

    def expect_little(self) -> None:
        """Open few connections until a long response is requested."""
        if self.login.loopback:
            self._connections.setopt(pycurl.M_MAX_HOST_CONNECTIONS, FEW_CONNECTIONS)

    async def close(self) -> None:
        """Close all connections; responses that are still being read fail with a connection error."""
        if self._probe is not None:
            self._probe.cancel()
        for each in (*self._retired, self._connections):
            await each.aclose()

    async def send(self, request: HttpRequest, credentials: Mapping[str, str], *, action: str) -> HttpResponse:
        """Send a request and wait for the response's status and headers. Raises Unreachable and BadKubeconfig."""
        try:
            with translate_errors(self.login, action):
                answer = await self._send_and_wait(request, credentials, action)
        except Unreachable:
            self.mark_suspect()
            self._reached.clear()
            if self.login.server.startswith("https:"):
                await self.login.certificates()  # which says it better where the authority is damaged
            self.login.forget_certificates()
            raise
        self._reached.set()
        return answer

    def mark_suspect(self) -> None:
        """Make the next request first check that the server still answers; called when a response broke off."""
        if self.login.server.startswith("https:"):
            self._shares = None

    async def _send_and_wait(self, request: HttpRequest, credentials: Mapping[str, str], action: str) -> HttpResponse:
        first = self._shares is None and self._first is None and not request.is_followed
        if first:
            self._first = asyncio.get_running_loop().create_future()
        try:
            shares = not first and await self._supports_http2(credentials)
            answer = await self._start_request(request, credentials, action, shares=shares)
            if first:
                self._shares = answer.shares_connection
            return answer
        finally:
            if first and self._first is not None:
                self._first.set_result(None)

    async def _start_request(
        self, request: HttpRequest, credentials: Mapping[str, str], action: str, *, shares: bool
    ) -> HttpResponse:
        headers = {**credentials, "Accept": request.accept}
        if request.body is not None:
            headers |= {"Content-Type": request.content, "Expect": ""}  # libcurl would ask first, and wait a second
        curl = await self._prepare_curl(request.url, headers)
        if request.lasts:
            self._connections.setopt(pycurl.M_MAX_HOST_CONNECTIONS, 0)
        if request.body is not None or request.method != "GET":
            curl.setopt(pycurl.CUSTOMREQUEST, request.method)
        if request.body is not None:
            curl.setopt(pycurl.POSTFIELDS, request.body)
        if not request.is_followed and not self.login.loopback:
            curl.setopt(pycurl.ACCEPT_ENCODING, "gzip")
        # Those that come together wait for one connection. Without HTTP/2 some would do so for ever.
        curl.setopt(pycurl.PIPEWAIT, int(shares))
        if request.at_once:
            curl.setopt(pycurl.LOW_SPEED_LIMIT, MIN_BYTES_PER_SECOND)
            curl.setopt(pycurl.LOW_SPEED_TIME, MIN_SPEED_SECONDS)
        answer = HttpResponse(self, curl, action, request.silence_seconds)
        try:
            answer.follow(call_apart(self._connections.add_handle, curl))
            await answer.wait_for_headers()
        except BaseException:
            answer.close()
            raise
        return answer

    async def wait_before_retry(self, seconds: float) -> None:
        """Wait that many seconds, or until an unreachable server has answered any request."""
        if self._reached.is_set():
            await asyncio.sleep(seconds)
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._reached.wait()

    def buffer_until_idle(self, answer: HttpResponse) -> None:
        """Buffer a response's bytes until libcurl returns to the event loop; libcurl reads on while data arrives."""
        if not self._buffering and self._delivery_timer is None:
            asyncio.get_running_loop().call_soon(self._deliver_held)
        self._buffering[answer] = None

    def _deliver_held(self) -> None:
        self._delivery_timer = None
        loop = asyncio.get_running_loop()
        if self.rests_until > loop.time():
            loop.call_at(self.rests_until, self._deliver_held)
            return
        begun = loop.time()
        while self._buffering:
            answer = next(iter(self._buffering))
            del self._buffering[answer]
            answer.deliver_held()
            worked = loop.time() - begun
            if worked > SLICE_SECONDS:
                self._delivery_timer = loop.call_later(rest_seconds(worked), self._deliver_held)
                return

    async def _supports_http2(self, headers: Mapping[str, str]) -> bool:
        """Whether the server supports HTTP/2; one probe request answers all callers."""
        if self._shares is None and self._first is not None:
            await asyncio.wait((self._first,), timeout=FIRST_ANSWER_WAIT)
        if self._shares is None:
            if self._probe is None:
                self._probe = start_task(self._probe_http2(headers), "multiplex:probe")
                self._probe.add_done_callback(self._on_probe_ended)
            self._shares = await asyncio.shield(self._probe)
        return self._shares

    def _on_probe_ended(self, probe: asyncio.Task[bool]) -> None:
        self._probe = None
        if not probe.cancelled():
            probe.exception()  # its waiters raise it; there may be none any more

    async def _probe_http2(self, headers: Mapping[str, str]) -> bool:
        """Whether a request for /version, answered at once unlike a log, gets HTTP/2. Raises errors of sockets."""
        curl = await self._prepare_curl(f"{self.login.server}/version", headers)
        curl.setopt(pycurl.TIMEOUT_MS, int(1000 * CONNECT_TIMEOUT))
        curl.setopt(pycurl.WRITEFUNCTION, len)
        try:
            await self._connections.perform(curl)
            return bool(curl.getinfo(pycurl.INFO_HTTP_VERSION) >= pycurl.CURL_HTTP_VERSION_2)
        except pycurl.error as error:
            if error.args[0] == pycurl.E_OPERATION_TIMEDOUT:
                # Send no more requests over these connections: they may be dead, and libcurl would reuse them
                self._retired.append(self._connections)
                self._connections = _make_curl_multi()
                for each in [each for each in self._retired if not each.futures()]:
                    self._retired.remove(each)
                    await each.aclose()
            raise _as_raised_by_sockets(error, curl) from error
        finally:
            curl.close()

    async def _prepare_curl(self, url: str, headers: Mapping[str, str]) -> pycurl.Curl:
        curl = pycurl.Curl()
        try:
            self._set_target(curl, url, headers)
            await self._set_certificates(curl)
        except pycurl.error as error:
            raise (
                bad_address_error(self.login.server) if error.args[0] in _BAD_URL_CODES else OSError(str(error))
            ) from error
        return curl

    def _set_target(self, curl: pycurl.Curl, url: str, headers: Mapping[str, str]) -> None:
        login, parts = self.login, urlsplit(url)
        if login.server_name and parts.scheme == "https":
            # libcurl looks in the certificate for the name in the address: it gets that one, and is sent to the other.
            port = parts.port or 443
            curl.setopt(pycurl.CONNECT_TO, [f"{login.server_name}:{port}:{_host_without_port(parts.netloc)}:{port}"])
            headers = {"Host": parts.netloc, **headers}
            url = urlunsplit(parts._replace(netloc=f"{login.server_name}:{port}"))
        curl.setopt(pycurl.URL, url)
        headers = {"User-Agent": USER_AGENT, **headers}
        curl.setopt(pycurl.HTTPHEADER, [f"{name}: {value}".rstrip() for name, value in headers.items()])
        curl.setopt(pycurl.PROTOCOLS, pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS)
        curl.setopt(pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_2TLS)
        curl.setopt(pycurl.CONNECTTIMEOUT_MS, int(1000 * CONNECT_TIMEOUT))
        curl.setopt(pycurl.TCP_KEEPALIVE, 1)
        curl.setopt(pycurl.TCP_KEEPIDLE, TCP_USER_TIMEOUT_SECONDS)
        curl.setopt(pycurl.TCP_KEEPINTVL, TCP_USER_TIMEOUT_SECONDS // 3)
        curl.setopt(pycurl.SOCKOPTFUNCTION, _set_user_timeout)
        curl.setopt(pycurl.BUFFERSIZE, 1 << 17)
        curl.setopt(pycurl.NOSIGNAL, 1)
        curl.setopt(_SUPPRESS_CONNECT_HEADERS, 1)
        curl.setopt(pycurl.PROXY, login.proxy)  # an empty one too: unless both are set, libcurl asks the environment
        curl.setopt(pycurl.NOPROXY, "")
        if login.proxy.startswith("https:"):
            use_system_certificates(curl, pycurl.PROXY_CAINFO, pycurl.PROXY_CAPATH)

    async def _set_certificates(self, curl: pycurl.Curl) -> None:
        if not self.login.server.startswith("https:"):
            return
        given = await self.login.certificates(checked=False)
        if given.authority:
            curl.setopt(pycurl.CAINFO_BLOB, given.authority.encode())
        else:
            use_system_certificates(curl)
        if given.client_pem:
            curl.setopt(pycurl.SSLCERT_BLOB, given.client_pem.encode())
            curl.setopt(pycurl.SSLKEY_BLOB, given.client_pem.encode())
        if given.insecure:
            curl.setopt(pycurl.SSL_VERIFYPEER, 0)
            curl.setopt(pycurl.SSL_VERIFYHOST, 0)


def use_system_certificates(curl: pycurl.Curl, file: int = pycurl.CAINFO, folder: int = pycurl.CAPATH) -> None:
    """Use this machine's certificate authorities as Python does; libcurl's built-in path may differ."""
    usual = ssl.get_default_verify_paths()
    for option, place in ((file, usual.cafile), (folder, usual.capath)):
        if place:
            curl.setopt(option, place)


def _host_without_port(netloc: str) -> str:
    """The host of an address without its port; an IPv6 address keeps its brackets."""
    host = netloc.rpartition("@")[2]
    return host if host.endswith("]") else host.rpartition(":")[0] or host
