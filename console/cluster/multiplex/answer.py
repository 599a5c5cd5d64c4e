"""One answer that goes on: libcurl brings its bytes, and whoever reads takes them or has them poured."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pycurl

from console.cluster.multiplex.failures import explained

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

HELD = 1 << 18
"""Bytes of an answer that are held for who reads it; the server is kept waiting with more."""


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
        self._finished = False
        """Whether it has ended, and `_error` says how. `_over` is done a turn of the loop earlier."""
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

    # what libcurl calls, from where nothing may be started or ended

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

    # its end

    def _ended(self, over: asyncio.Future[pycurl.Curl]) -> None:
        self._timer.cancel()
        self._finished = True
        if self._error is None:
            closed = pycurl.error(pycurl.E_RECV_ERROR, "closed")
            self._error = closed if over.cancelled() else explained(over.exception(), self._curl)
        self._curl.close()
        self.pass_on()
        self._wake()

    def _look(self) -> None:
        """Whether it has said nothing for too long; an answer that is kept waiting cannot."""
        waits = self._silence if self._paused else self._heard + self._silence - self._loop.time()
        if waits > 0:
            self._timer = self._loop.call_later(waits, self._look)
        else:
            self._error = TimeoutError()
            self._end()

    def _end(self) -> None:
        self._timer.cancel()
        if self._over is not None:
            self._over.cancel()

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
        return self._finished and self._error is None

    async def _news(self) -> None:
        """Wait until there is more; raises what it ended with."""
        if self._finished:
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
                piece = self._taken()
                self._go_on()
                yield piece
            elif self._is_over:
                return
            else:
                await self._news()

    def _taken(self) -> bytes:
        pieces, self._pieces, self._held = self._pieces, [], 0
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _go_on(self) -> None:
        """There is room for more."""
        if self._paused and not self._finished:
            self._paused, self._heard = False, self._loop.time()
            try:
                self._curl.pause(pycurl.PAUSE_CONT)
            except pycurl.error as error:
                self._error = error
                self._end()

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
            self._end()
        else:
            self._go_on()

    def close(self) -> None:
        """Ask for no more of it; what is held is given to nobody."""
        self._to = None
        self._end()
