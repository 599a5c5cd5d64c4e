"""Answers that go on, such as logs: as many as there are ranks at once, over a few HTTP/2 connections.

By libcurl, because aiohttp knows HTTP/1.1 only. There each log has a TLS connection of its own, and a line that all of
128 ranks print is 128 records to be decrypted in 128 turns of the loop; here they come in a few of each. A server
without HTTP/2, such as the practice cluster, is asked over HTTP/1.1.
"""

from __future__ import annotations

import asyncio
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
_SUPPRESS_CONNECT_HEADERS = 265
"""CURLOPT_SUPPRESS_CONNECT_HEADERS, to which pycurl gives no name."""


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
        self._reached = asyncio.Event()
        """Whether the server answered when it was asked last."""
        self._reached.set()
        self._full: dict[Answer, None] = {}
        """Answers that hold bytes to be passed on."""

    async def close(self) -> None:
        """Close all connections; whoever still reads is told that they broke off."""
        await self._connections.aclose()

    async def get(self, url: str, headers: Mapping[str, str], *, connect: float, silence: float) -> Answer:
        """Ask, and wait for status and headers. `connect` and `silence` are how long (s) it may take, and say nothing.

        Raises pycurl.error and OSError, which `told` puts into words, and BadKubeconfig.
        """
        try:
            answer = await self._get(url, headers, connect, silence)
        except (pycurl.error, OSError):
            self._shares = None  # it may be another server that answers next
            self._reached.clear()
            raise
        self._reached.set()
        return answer

    async def _get(self, url: str, headers: Mapping[str, str], connect: float, silence: float) -> Answer:
        shares = await self._learn(headers, connect)
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
                try:
                    await self._connections.perform(curl)
                except pycurl.error as error:
                    raise explained(error, curl) or error from error
                self._shares = curl.getinfo(pycurl.INFO_HTTP_VERSION) >= pycurl.CURL_HTTP_VERSION_2
            return self._shares

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


def _host(netloc: str) -> str:
    """Host of an address without its port; an IPv6 one in its brackets."""
    host = netloc.rpartition("@")[2]
    return host if host.endswith("]") else host.rpartition(":")[0] or host
