"""Answers that go on, such as logs: as many as there are ranks at once, over a few HTTP/2 connections.

By libcurl, because aiohttp knows HTTP/1.1 only. There each log has a TLS connection of its own, and a line that all of
128 ranks print is 128 records to be decrypted in 128 turns of the loop; here they come in a few of each. A server
without HTTP/2, such as the practice cluster, is asked over HTTP/1.1.
"""

from __future__ import annotations

import asyncio
import ssl
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

import pycurl

from console.cluster.causes import CHECK, certificate, system, unreachable
from console.errors import TRY_AGAIN, BadKubeconfig

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterator, Mapping

    from console.cluster.login import Login

TURN = 0.01
"""Seconds for which bytes are passed on before others get their turn."""
STREAMS = 16
"""Answers over one connection. For whatever comes on a connection libcurl looks at all of its answers, so a hundred (as
many as API servers allow) cost a third more processor time where each has something at another moment.
"""
HELD = 1 << 18
"""Bytes of an answer that are held for who reads it; the server is kept waiting with more."""
_HTTP2_STREAM = 92
"""CURLE_HTTP2_STREAM and CURLOPT_SUPPRESS_CONNECT_HEADERS, to which pycurl gives no names."""
_SUPPRESS_CONNECT_HEADERS = 265
_BROKE_OFF = frozenset({
    pycurl.E_PARTIAL_FILE, pycurl.E_GOT_NOTHING, pycurl.E_SEND_ERROR, pycurl.E_RECV_ERROR,
    pycurl.E_HTTP2, _HTTP2_STREAM,
})  # fmt: skip
_NO_NAME = frozenset({pycurl.E_COULDNT_RESOLVE_HOST, pycurl.E_COULDNT_RESOLVE_PROXY})
_NO_URL = frozenset({pycurl.E_URL_MALFORMAT, pycurl.E_UNSUPPORTED_PROTOCOL})


class Multiplex:
    """Connections to one API server, each shared by many answers."""

    def __init__(self, login: Login) -> None:
        self._login = login
        self._connections = pycurl.AsyncCurlMulti()
        self._connections.setopt(pycurl.M_PIPELINING, pycurl.PIPE_MULTIPLEX)
        self._connections.setopt(pycurl.M_MAX_CONCURRENT_STREAMS, STREAMS)
        self._learning = asyncio.Lock()
        self._shares: bool | None = None
        """Whether the server has HTTP/2; None: that is to be asked (again)."""
        self._full: dict[Answer, None] = {}
        """Answers that hold bytes to be passed on."""

    async def close(self) -> None:
        """Close all connections; whoever still reads is told that they broke off."""
        await self._connections.aclose()

    async def get(self, url: str, headers: Mapping[str, str], *, connect: float, silence: float) -> Answer:
        """Ask, and wait for status and headers. `connect` and `silence` are how long (s) it may take, and say nothing.

        Raises pycurl.error and TimeoutError, which `told` puts into words, and BadKubeconfig.
        """
        shares = await self._learn(headers, connect)
        curl = await self._prepare(url, headers, connect)
        # Those that come together wait for one connection. Without HTTP/2 some would do so for ever.
        curl.setopt(pycurl.PIPEWAIT, int(shares))
        answer = Answer(curl, silence, self._holds)
        try:
            answer.follow(self._connections.add_handle(curl))
            await answer.begun()
        except BaseException as error:
            answer.close()
            self._forget(error)
            raise
        return answer

    def _holds(self, answer: Answer) -> None:
        """Bytes have come; libcurl is left before they are passed on, as it reads on while there are more."""
        if not self._full:
            asyncio.get_running_loop().call_soon(self._pass_on)
        self._full[answer] = None

    def _pass_on(self) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + TURN
        while self._full:
            answer = next(iter(self._full))
            del self._full[answer]
            answer.pass_on()
            if self._full and loop.time() > until:
                loop.call_soon(self._pass_on)
                return

    async def _learn(self, headers: Mapping[str, str], connect: float) -> bool:
        """Whether the server has HTTP/2: asked by something that every server answers at once, as a log may not."""
        async with self._learning:
            if self._shares is None and not self._login.server.startswith("https:"):
                self._shares = False
            if self._shares is None:
                curl = await self._prepare(f"{self._login.server}/version", headers, connect)
                curl.setopt(pycurl.TIMEOUT, int(connect))
                curl.setopt(pycurl.WRITEFUNCTION, len)
                await self._connections.perform(curl)
                self._shares = curl.getinfo(pycurl.INFO_HTTP_VERSION) >= pycurl.CURL_HTTP_VERSION_2
            return self._shares

    def _forget(self, error: BaseException) -> None:
        """After a failure it may be another server that answers."""
        if isinstance(error, pycurl.error | TimeoutError):
            self._shares = None

    async def _prepare(self, url: str, headers: Mapping[str, str], connect: float) -> pycurl.Curl:
        curl = pycurl.Curl()
        self._reach(curl, url, headers, connect)
        await self._trust(curl)
        return curl

    def _reach(self, curl: pycurl.Curl, url: str, headers: Mapping[str, str], connect: float) -> None:
        """Where to, and by which way."""
        login, parts = self._login, urlsplit(url)
        if login.server_name and parts.scheme == "https":
            # libcurl looks in the certificate for the name in the address: it gets that one, and is sent to the other.
            port = parts.port or 443
            curl.setopt(pycurl.CONNECT_TO, [f"{login.server_name}:{port}:{_host(parts.netloc)}:{port}"])
            headers = {"Host": parts.netloc, **headers}
            url = urlunsplit(parts._replace(netloc=f"{login.server_name}:{port}"))
        curl.setopt(pycurl.URL, url)
        curl.setopt(pycurl.HTTPHEADER, [f"{name}: {value}" for name, value in headers.items()])
        curl.setopt(pycurl.PROTOCOLS, pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS)
        curl.setopt(pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_2TLS)
        curl.setopt(pycurl.CONNECTTIMEOUT, int(connect))
        curl.setopt(pycurl.TCP_KEEPALIVE, 1)
        curl.setopt(pycurl.NOSIGNAL, 1)
        curl.setopt(_SUPPRESS_CONNECT_HEADERS, 1)
        if login.proxy or login.loopback:  # else that of the environment
            curl.setopt(pycurl.PROXY, login.proxy or "")
            curl.setopt(pycurl.NOPROXY, "")

    async def _trust(self, curl: pycurl.Curl) -> None:
        """Whom to trust, and what to show for oneself."""
        if not self._login.server.startswith("https:"):
            return
        given = await self._login.certificates()
        if given.authority:
            curl.setopt(pycurl.CAINFO_BLOB, given.authority.encode())
        else:
            usual = ssl.get_default_verify_paths()
            if usual.cafile:
                curl.setopt(pycurl.CAINFO, usual.cafile)
            if usual.capath:
                curl.setopt(pycurl.CAPATH, usual.capath)
        if given.client:
            curl.setopt(pycurl.SSLCERT_BLOB, given.client.encode())
            curl.setopt(pycurl.SSLKEY_BLOB, given.client.encode())
        if given.insecure:
            curl.setopt(pycurl.SSL_VERIFYPEER, 0)
            curl.setopt(pycurl.SSL_VERIFYHOST, 0)


class Answer:
    """One answer: its status and headers, and its bytes as they come."""

    def __init__(self, curl: pycurl.Curl, silence: float, holds: Callable[[Answer], None]) -> None:
        """`silence`: seconds that it may say nothing; `holds` is called when it has bytes to be passed on."""
        self.status = 0
        self.headers: dict[str, str] = {}
        """By name, as HTTP/2 spells them: in lower case."""
        self._curl = curl
        self._loop = asyncio.get_running_loop()
        self._silence = silence
        self._holds = holds
        self._heard = self._loop.time()
        self._timer = self._loop.call_at(self._heard + silence, self._look)
        self._begun = False
        self._over: asyncio.Future[pycurl.Curl] | None = None
        self._error: BaseException | None = None
        self._to: Callable[[bytes], None] | None = None
        self._failed = False
        """Whether whom the bytes are poured into has failed."""
        self._pieces: list[bytes] = []
        self._held = 0
        self._paused = False
        self._waiting: asyncio.Future[None] | None = None
        curl.setopt(pycurl.HEADERFUNCTION, self._header)
        curl.setopt(pycurl.WRITEFUNCTION, self._piece)

    def follow(self, over: asyncio.Future[pycurl.Curl]) -> None:
        """It is on its way; `over` is done when it has ended."""
        self._over = over
        over.add_done_callback(self._ended)

    # what libcurl says; none of it may start or end an answer

    def _header(self, line: bytes) -> None:
        name, colon, value = line.decode("latin-1").partition(":")
        if not colon and name.startswith("HTTP/"):
            self.status, self.headers = int(name.split()[1]), {}
        elif colon:
            self.headers[name.strip().lower()] = value.strip()
        elif self.status >= 200:  # below, another head follows
            self._begun = True
            self._wake()

    def _piece(self, piece: bytes) -> int | None:
        if self._held > HELD:
            self._paused = True
            return pycurl.WRITEFUNC_PAUSE
        self._heard = self._loop.time()
        self._held += len(piece)
        self._pieces.append(piece)
        if self._to is not None:
            self._holds(self)
        elif self._waiting is not None:
            self._wake()
        return None

    def _ended(self, over: asyncio.Future[pycurl.Curl]) -> None:
        self._timer.cancel()
        if self._error is None:
            self._error = pycurl.error(pycurl.E_RECV_ERROR, "closed") if over.cancelled() else over.exception()
        self.pass_on()
        self._wake()

    def _look(self) -> None:
        """Whether it has said nothing for too long; an answer that is kept waiting cannot."""
        waits = self._silence if self._paused else self._heard + self._silence - self._loop.time()
        if waits > 0:
            self._timer = self._loop.call_later(waits, self._look)
        else:
            self._error = TimeoutError()
            self.close()

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    # who reads

    async def begun(self) -> None:
        """Wait for status and headers."""
        while not self._begun:
            await self._news()

    @property
    def _is_over(self) -> bool:
        """Whether it has ended well."""
        return self._over is not None and self._over.done() and self._error is None

    async def _news(self) -> None:
        """Wait until there is more; raises what it ended with."""
        if self._over is not None and self._over.done():
            raise self._error or pycurl.error(pycurl.E_GOT_NOTHING, "no answer")
        self._waiting = self._loop.create_future()
        try:
            await self._waiting
        finally:
            self._waiting = None

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        """Its bytes as they come."""
        while True:
            if self._pieces:
                yield self._taken()
            elif self._is_over:
                return
            else:
                await self._news()

    def _taken(self) -> bytes:
        pieces, self._pieces, self._held = self._pieces, [], 0
        if self._paused:
            self._paused, self._heard = False, self._loop.time()
            self._curl.pause(pycurl.PAUSE_CONT)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    async def pour(self, to: Callable[[bytes], None]) -> None:
        """Its bytes into `to` as they come, until it ends; what `to` raises ends it too.

        A call for each answer, where `pieces` takes a turn of the loop: it is for answers of which many have something
        at the same moment.
        """
        self._to = to
        self.pass_on()
        while not self._is_over:
            await self._news()

    def pass_on(self) -> None:
        """Give away what is held, if somebody wants it poured."""
        if self._to is None or not self._pieces or self._failed:
            return
        try:
            self._to(self._taken())
        except Exception as error:  # noqa: BLE001  # raised by `pour`, which waits for the end
            self._failed, self._error = True, error
            self.close()

    async def read(self) -> bytes:
        """All of it."""
        return b"".join([piece async for piece in self.pieces()])

    def close(self) -> None:
        """Ask for no more of it."""
        self._timer.cancel()
        if self._over is not None:
            self._over.cancel()


def _host(netloc: str) -> str:
    """Host of an address without its port; an IPv6 one in its brackets."""
    host = netloc.rpartition("@")[2]
    return host if host.endswith("]") else host.rpartition(":")[0] or host


def _cause(error: pycurl.error | TimeoutError) -> tuple[str, str]:
    """Why there is no answer, and what to do about it."""
    if isinstance(error, TimeoutError):
        return "it did not answer in time", CHECK
    code, said = error.args[0], str(error.args[-1])
    if code in _BROKE_OFF:
        return "the connection broke off", TRY_AGAIN
    if code in _NO_NAME:
        return "its name cannot be resolved", CHECK
    if code == pycurl.E_OPERATION_TIMEDOUT:
        return "it did not answer in time", CHECK
    if code == pycurl.E_COULDNT_CONNECT:
        return system(ConnectionRefusedError(said)) if "refused" in said else said, CHECK
    if code == pycurl.E_PEER_FAILED_VERIFICATION:
        return certificate(Exception(said))
    return said, TRY_AGAIN


@contextmanager
def told(server: str, doing: str) -> Iterator[None]:
    """Turn what libcurl raises into Unreachable (or BadKubeconfig for an address that is none)."""
    try:
        yield
    except pycurl.error as error:
        if error.args[0] in _NO_URL:
            raise BadKubeconfig(f"The kubeconfig's server address {server} is no URL.", "Correct it.") from error
        raise unreachable(server, doing, *_cause(error)) from error
    except TimeoutError as error:
        raise unreachable(server, doing, *_cause(error)) from error
