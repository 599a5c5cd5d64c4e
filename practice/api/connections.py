"""Tracks the server's accepted sockets, so that none is open after it has stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

_LIMIT = 2.0  # seconds that closing may take; a TLS farewell to a client of this machine takes milliseconds


class OpenConnections:
    """The open connections of the server."""

    def __init__(self) -> None:
        self._connections: dict[Any, asyncio.BaseTransport] = {}

    def add(self, transport: asyncio.BaseTransport | None) -> None:
        socket = transport.get_extra_info("socket") if transport is not None else None
        if socket is None or socket in self._connections or transport is None:
            return
        self._connections = {known: old for known, old in self._connections.items() if known.fileno() != -1}
        self._connections[socket] = transport

    async def close(self) -> None:
        """Abort open connections and wait until their sockets are closed, up to a limit."""
        for transport in self._still_open():
            if isinstance(transport, asyncio.WriteTransport):
                transport.abort()
        with suppress(TimeoutError):
            async with asyncio.timeout(_LIMIT):
                await self._wait_until_closed()

    async def _wait_until_closed(self) -> None:
        while list(self._still_open()):  # noqa: ASYNC110 - a socket that closes tells nobody
            await asyncio.sleep(0.005)

    def _still_open(self) -> Iterator[asyncio.BaseTransport]:
        return (transport for socket, transport in self._connections.items() if socket.fileno() != -1)
