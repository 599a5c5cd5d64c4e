"""Answers that go on, such as logs: as many as there are ranks at once, over a few HTTP/2 connections.

By libcurl, because aiohttp knows HTTP/1.1 only. There each log has a TLS connection of its own, and a line that all of
128 ranks print is 128 records to be decrypted in 128 turns of the loop; here they come in a few of each. A server
without HTTP/2, such as the practice cluster, is asked over HTTP/1.1.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

import pycurl

from console.cluster.multiplex.answer import Answer
from console.cluster.multiplex.failures import explained, told

if TYPE_CHECKING:
    from collections.abc import Mapping

    from console.cluster.login import Login

__all__ = ["Answer", "Multiplex", "told"]

TURN = 0.01
"""Seconds for which bytes are passed on before others get their turn."""
STREAMS = 16
"""Answers over one connection. For whatever comes on a connection libcurl looks at all of its answers, so a hundred (as
many as API servers allow) cost a third more processor time where each has something at another moment.
"""
DEAD = 30
"""Seconds after which a connection whose other end confirms nothing is taken for cut."""
_SUPPRESS_CONNECT_HEADERS = 265
"""CURLOPT_SUPPRESS_CONNECT_HEADERS, to which pycurl gives no name."""


def _connections() -> pycurl.AsyncCurlMulti:
    made = pycurl.AsyncCurlMulti()
    made.setopt(pycurl.M_PIPELINING, pycurl.PIPE_MULTIPLEX)
    made.setopt(pycurl.M_MAX_CONCURRENT_STREAMS, STREAMS)
    return made


def _gives_up(fd: int, purpose: int) -> int:
    """Let the system, where it can (Linux), give a dead connection up sooner than after a quarter of an hour."""
    option = getattr(socket, "TCP_USER_TIMEOUT", None)
    if option is not None:
        with socket.socket(fileno=os.dup(fd)) as same:
            same.setsockopt(socket.IPPROTO_TCP, option, 1000 * DEAD)
    return 0


class Multiplex:
    """Connections to one API server, each shared by many answers."""

    def __init__(self, login: Login) -> None:
        self._login = login
        self._connections = _connections()
        self._retired: list[pycurl.AsyncCurlMulti] = []
        """Connections that answer nothing any more, with what still waits on them."""
        self._shares: bool | None = None
        """Whether the server has HTTP/2; None: that is to be asked (again)."""
        self._probe: asyncio.Task[bool] | None = None
        """Asks that."""
        self._reached = asyncio.Event()
        """Whether the server answered when it was asked last."""
        self._reached.set()
        self._full: dict[Answer, None] = {}
        """Answers that hold bytes to be passed on."""
        self._rests_until = 0.0

    async def close(self) -> None:
        """Close all connections; whoever still reads is told that they broke off."""
        if self._probe is not None:
            self._probe.cancel()
        for each in (*self._retired, self._connections):
            await each.aclose()

    async def get(self, url: str, headers: Mapping[str, str], *, connect: float, silence: float) -> Answer:
        """Ask, and wait for status and headers. `connect` and `silence` are how long (s) it may take, and say nothing.

        Raises pycurl.error and OSError, which `told` puts into words, and BadKubeconfig.
        """
        try:
            answer = await self._get(url, headers, connect, silence)
        except (pycurl.error, OSError):
            self.doubt()
            self._reached.clear()
            raise
        self._reached.set()
        return answer

    def doubt(self) -> None:
        """An answer broke off, or fell silent: what is asked next finds out whether the server still answers."""
        self._shares = None

    async def _get(self, url: str, headers: Mapping[str, str], connect: float, silence: float) -> Answer:
        shares = await self._learned(headers, connect)
        curl = await self._prepare(url, headers, connect)
        # Those that come together wait for one connection. Without HTTP/2 some would do so for ever.
        curl.setopt(pycurl.PIPEWAIT, int(shares))
        answer = Answer(curl, silence, self._holds)
        try:
            answer.follow(self._connections.add_handle(curl))
            await answer.begun()
        except BaseException:
            answer.close()
            raise
        return answer

    async def rest(self, seconds: float) -> None:
        """Wait so long, but where the server cannot be reached no longer than until it has answered anybody."""
        if self._reached.is_set():
            await asyncio.sleep(seconds)
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._reached.wait()

    def _holds(self, answer: Answer) -> None:
        """Bytes have come; libcurl is left before they are passed on, as it reads on while there are more."""
        if not self._full:
            asyncio.get_running_loop().call_soon(self._pass_on)
        self._full[answer] = None

    def rest_until(self, moment: float) -> None:
        """Pass nothing on until then, by the loop's clock: servers are kept waiting meanwhile."""
        self._rests_until = moment

    def _pass_on(self) -> None:
        loop = asyncio.get_running_loop()
        if self._rests_until > loop.time():
            loop.call_at(self._rests_until, self._pass_on)
            return
        until = loop.time() + TURN
        while self._full:
            answer = next(iter(self._full))
            del self._full[answer]
            answer.pass_on()
            if self._full and loop.time() > until:
                loop.call_soon(self._pass_on)
                return

    async def _learned(self, headers: Mapping[str, str], connect: float) -> bool:
        """Whether the server has HTTP/2: asked once for all who want to know."""
        if self._shares is None:
            if self._probe is None:
                self._probe = asyncio.create_task(self._learn(headers, connect), name="multiplex:probe")
                self._probe.add_done_callback(self._probed)
            self._shares = await asyncio.shield(self._probe)
        return self._shares

    def _probed(self, probe: asyncio.Task[bool]) -> None:
        self._probe = None
        if not probe.cancelled():
            probe.exception()  # whoever waits raises it; there may be nobody any more

    async def _learn(self, headers: Mapping[str, str], connect: float) -> bool:
        """Asked by something that every server answers at once, as a log may not."""
        if not self._login.server.startswith("https:"):
            return False
        curl = await self._prepare(f"{self._login.server}/version", headers, connect)
        curl.setopt(pycurl.TIMEOUT_MS, int(1000 * connect))
        curl.setopt(pycurl.WRITEFUNCTION, len)
        try:
            await self._connections.perform(curl)
            return bool(curl.getinfo(pycurl.INFO_HTTP_VERSION) >= pycurl.CURL_HTTP_VERSION_2)
        except pycurl.error as error:
            if error.args[0] == pycurl.E_OPERATION_TIMEDOUT:
                await self._retire()
            raise explained(error, curl) or error from error
        finally:
            curl.close()

    async def _retire(self) -> None:
        """Ask nothing over these connections any more: they may be cut where nobody tells, and libcurl would go on."""
        self._retired.append(self._connections)
        self._connections = _connections()
        for each in [each for each in self._retired if not each.futures()]:
            self._retired.remove(each)
            await each.aclose()

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
        curl.setopt(pycurl.CONNECTTIMEOUT_MS, int(1000 * connect))
        curl.setopt(pycurl.TCP_KEEPALIVE, 1)
        curl.setopt(pycurl.TCP_KEEPIDLE, DEAD)
        curl.setopt(pycurl.TCP_KEEPINTVL, DEAD // 3)
        curl.setopt(pycurl.SOCKOPTFUNCTION, _gives_up)
        curl.setopt(pycurl.NOSIGNAL, 1)
        curl.setopt(_SUPPRESS_CONNECT_HEADERS, 1)
        curl.setopt(pycurl.PROXY, login.proxy)  # an empty one too: unless both are set, libcurl asks the environment
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


def _host(netloc: str) -> str:
    """Host of an address without its port; an IPv6 one in its brackets."""
    host = netloc.rpartition("@")[2]
    return host if host.endswith("]") else host.rpartition(":")[0] or host
