"""From a rank to a connection: find the live pod, wait while it is being replaced, dial.

Imports no more than that needs: `a4 proxy` has 150 ms in all.
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypeVar

from console.cluster.carry import Conversation, Local, Splice
from console.cluster.forward import NotSpoken, dial, other_protocol
from console.cluster.locate import Ended, Outdated, Waiting, locate
from console.cluster.wire import connected
from console.errors import NotFound, NotLoggedIn, Unreachable
from console.models.address import LivePod

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from console.cluster.forward import Pipe
    from console.cluster.login import Login
    from console.cluster.wire import Wire
    from console.models.address import Address

LIMIT = 60.0
"""Seconds a connection waits for the pod that replaces another."""
LOOK_AGAIN = (0.25, 2.0)
"""Seconds between two looks at a pod that is not there yet: at first, and at most."""

T = TypeVar("T")


def _quiet(words: str) -> None:
    """Words nobody wants."""


class Reach:
    """Ports of ranks, over one log-in. Every connection looks anew for the pod that fills the rank then."""

    def __init__(self, login: Login, *, limit: float = LIMIT) -> None:
        self.login = login
        self._limit = limit

    async def resolve(
        self, address: Address, *, limit: float | None = None, say: Callable[[str], None] = _quiet
    ) -> LivePod:
        """The live pod of a rank, waiting up to `limit` seconds while there is none; `say` hears why, once each.

        Raises BadInput (no such rank), Ended (over, or gone), Unreachable (the time is up, no API server), Refused.
        """
        doing = f"look for {address}"
        deadline, pause, said = self._deadline(limit), LOOK_AGAIN[0], ""
        while True:
            found = await self._once(lambda wire: locate(wire, self.login, address), doing)
            if isinstance(found, LivePod):
                return found
            said = self._wait(address, found, said, deadline, say)
            await asyncio.sleep(pause)
            pause = min(LOOK_AGAIN[1], pause * 1.5)

    async def look(self, address: Address) -> LivePod | Waiting:
        """The live pod, or why there is none now; raises as `resolve` does."""
        return await self._once(lambda wire: locate(wire, self.login, address), f"look for {address}")

    async def open(
        self, address: Address | LivePod, port: int, *, limit: float | None = None, say: Callable[[str], None] = _quiet
    ) -> tuple[Pipe, LivePod]:
        """A pipe to a port of the live pod, and which pod that is; raises as `resolve` does."""
        deadline, pause, said = self._deadline(limit), LOOK_AGAIN[0], ""
        gone = 0
        while True:
            try:
                made = await self._once(lambda wire: self._dial(wire, address, port), f"reach port {port} of {address}")
            except Ended:
                raise
            except NotFound:
                # It went between the look and the call.
                gone += 1
                if isinstance(address, LivePod) or gone > 20:
                    raise
                made = Waiting("its pod has just gone")
            if not isinstance(made, Waiting):
                return made
            said = self._wait(address, made, said, deadline, say)
            await asyncio.sleep(pause)
            pause = min(LOOK_AGAIN[1], pause * 1.5)

    @asynccontextmanager
    async def dial(
        self, address: Address | LivePod, port: int, *, limit: float | None = None, say: Callable[[str], None] = _quiet
    ) -> AsyncIterator[Conversation]:
        """The same for code that awaits: `send`, `receive`, `finish`."""
        pipe, _ = await self.open(address, port, limit=limit, say=say)
        try:
            yield Conversation(pipe)
        finally:
            pipe.close()

    @asynccontextmanager
    async def socket(
        self, address: Address | LivePod, port: int, *, limit: float | None = None, say: Callable[[str], None] = _quiet
    ) -> AsyncIterator[socket.socket]:
        """A blocking socket that leads there, for a library that wants one and runs in a thread."""
        pipe, _ = await self.open(address, port, limit=limit, say=say)
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        splice = Splice()
        await asyncio.get_running_loop().create_connection(lambda: Local(splice), sock=ours)
        splice.attach(pipe)
        try:
            yield theirs
        finally:
            theirs.close()
            splice.close()

    def _deadline(self, limit: float | None) -> float:
        return asyncio.get_running_loop().time() + (self._limit if limit is None else limit)

    @staticmethod
    def _wait(
        address: Address | LivePod, found: Waiting, said: str, deadline: float, say: Callable[[str], None]
    ) -> str:
        """Say why it waits, unless that was said; Unreachable when the time is up."""
        if asyncio.get_running_loop().time() >= deadline:
            raise Unreachable(f"{address} cannot be reached: {found.words}.", "Why: a4 jobs --json")
        if found.words != said:
            say(f"{address} is waited for: {found.words}.")
        return found.words

    async def _dial(self, wire: Wire, address: Address | LivePod, port: int) -> tuple[Pipe, LivePod] | Waiting:
        found = address if isinstance(address, LivePod) else await locate(wire, self.login, address)
        if isinstance(found, Waiting):
            return found
        return await dial(wire, self.login, found.namespace, found.pod, port), found

    async def _once(self, work: Callable[[Wire], Awaitable[T]], doing: str) -> T:
        """Do it over a connection of its own; again after a log-in was renewed, or in the server's other protocol."""
        renewed = False
        while True:
            try:
                async with connected(self.login, doing) as wire:
                    return await work(wire)
            except Outdated as error:
                if renewed or not await self.login.renew(wire.refused):
                    raise await self._not_logged_in(error) from error
                renewed = True
            except NotSpoken:
                if not other_protocol(self.login):
                    raise

    async def _not_logged_in(self, error: Outdated) -> NotLoggedIn:
        from console.parsers.status import refusal

        expired = await self.login.expired()
        if expired:
            return expired
        worded = refusal(401, b"", doing="")
        return NotLoggedIn(error.message, worded.hint, status=401)
