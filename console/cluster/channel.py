"""A connected socket with TLS on it or without, which is read where the event loop says that it can be."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading

from aiohappyeyeballs import start_connection

EYEBALLS = 0.25
"""Seconds after which the next address of a host is tried beside the one before."""
PIECE = 1 << 17
"""Bytes that are taken from a socket at once, always into one place: room anew each time costs more than the rest."""
RECORD = 1 << 14
"""Most bytes that a record of TLS holds."""


class Place(threading.local):
    """Where bytes are put that come; what is done with them is done before the next come in the same thread."""

    def __init__(self) -> None:
        self.view = memoryview(bytearray(PIECE))


PLACE = Place()


class Channel:
    """A connected socket, with TLS or without."""

    def __init__(self, connection: socket.socket, context: ssl.SSLContext | None, name: str | None) -> None:
        self.socket = connection
        self._loop = asyncio.get_running_loop()
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._in, self._out, server_hostname=name) if context else None
        self.ended = False
        """Whether the other side said by TLS that nothing more will come."""

    async def handshake(self) -> None:
        """Raises ssl.SSLError and OSError."""
        while self._tls is not None:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                await self._loop.sock_sendall(self.socket, self._out.read())
                self._in.write(await self._received())
            else:
                await self._loop.sock_sendall(self.socket, self._out.read())
                return

    async def send(self, data: bytes) -> None:
        """Send all of it."""
        if self._tls is not None:
            self._tls.write(data)
            data = self._out.read()
        await self._loop.sock_sendall(self.socket, data)

    async def receive(self) -> bytes:
        """Wait for some bytes; ConnectionError at the end."""
        data = b""
        while not data:  # a record of TLS may not be whole yet, or be its own
            if self.ended:
                raise ConnectionResetError("the connection broke off")
            data = self.opened(await self._received())
        return data

    async def _received(self) -> bytes:
        data = await self._loop.sock_recv(self.socket, PIECE)
        if not data:
            raise ConnectionResetError("the connection broke off")
        return data

    def opened(self, data: bytes | memoryview) -> bytes:
        """What stands in bytes that came; empty if a record is not whole."""
        if self._tls is None:
            return bytes(data)
        self._in.write(data)
        records = []
        try:
            while self._in.pending and not self.ended:
                records.append(self._tls.read(RECORD))
                self.ended = not records[-1]
        except ssl.SSLWantReadError:
            """No whole record is left."""
        if self._out.pending:
            self._answer(self._out.read())
        return records[0] if len(records) == 1 else b"".join(records)

    def _answer(self, data: bytes) -> None:
        """An answer of TLS itself: a few bytes once in a long while, for which there is always room."""
        try:
            sent = self.socket.send(data)
        except BlockingIOError:
            sent = 0
        if sent < len(data):
            raise ConnectionResetError("the connection takes nothing")

    def close(self) -> None:
        """Drop the connection."""
        self.socket.close()


async def opened(host: str, port: int, context: ssl.SSLContext | None, name: str | None) -> Channel:
    """A connection to the first of the host's addresses that takes one; OSError if none does."""
    addresses = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    connection = await start_connection(addresses, happy_eyeballs_delay=EYEBALLS)
    channel = Channel(connection, context, name)
    try:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        await channel.handshake()
    except BaseException:
        channel.close()
        raise
    return channel
