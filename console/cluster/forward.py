"""Byte pipes to ports of pods, and a local port that leads into one.

Over the WebSocket form of port-forward (v4): one pipe per connection, which is faster than kubectl's shared one and
cannot wedge another. The protocol cannot close one direction only.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import aiohttp

from console.cluster.actions import pod_path
from console.errors import BadInput, ConsoleError, Unreachable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from console.cluster.client import Client

PROTOCOLS = ("v4.channel.k8s.io",)
DATA, ERROR = 0, 1
_PORT = 2
"""Bytes with which each channel begins: the port number, for a request may ask for several."""
LINGER = 5.0
"""Seconds for which a pipe is still read after the local side has said all it had."""


class Pipe:
    """A connection to one port of a pod."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse, what: str) -> None:
        self._socket = socket
        self._what = what
        self._begun: set[int] = set()

    async def send(self, data: bytes) -> None:
        """Send bytes; Unreachable if the pipe is broken."""
        try:
            await self._socket.send_bytes(bytes([DATA]) + data)
        except (ConnectionError, aiohttp.ClientError) as error:
            raise Unreachable(f"The connection to {self._what} broke off.") from error

    async def receive(self) -> bytes:
        """Bytes as they come; empty at the end. Unreachable with the kubelet's words if the port cannot be reached."""
        while True:
            message = await self._socket.receive()
            if message.type is not aiohttp.WSMsgType.BINARY:
                return b""
            channel, data = message.data[0], message.data[1:]
            if channel not in self._begun:
                self._begun.add(channel)
                data = data[_PORT:]
            if channel == ERROR and data:
                raise Unreachable(f"Could not reach {self._what}: {data.decode(errors='replace').strip()}.")
            if channel == DATA and data:
                return bytes(data)


@asynccontextmanager
async def dial(client: Client, namespace: str, pod: str, port: int) -> AsyncIterator[Pipe]:
    """A pipe to that port; raises Refused and its kin, Unreachable."""
    what = f"port {port} of pod {pod}"
    async with client.websocket(
        pod_path(namespace, pod, "portforward"),
        doing=f"reach {what}",
        params={"ports": str(port)},
        protocols=PROTOCOLS,
    ) as socket:
        yield Pipe(socket, what)


@asynccontextmanager
async def forward(
    client: Client, namespace: str, pod: str, remote_port: int, local_port: int = 0
) -> AsyncIterator[int]:
    """A port of this machine (any free one, or `local_port`) that leads to the pod's; yields its number.

    Raises BadInput if the local port is taken. A connection that cannot be carried on is closed; the port stays.
    """
    open_now: set[asyncio.Task[None]] = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(carry(reader, writer))
        open_now.add(task)
        task.add_done_callback(open_now.discard)

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with dial(client, namespace, pod, remote_port) as pipe:
                await _carry(pipe, reader, writer)
        except ConsoleError:
            # Whoever connected sees the connection closed, as with a port that nobody serves.
            writer.transport.abort()
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    try:
        server = await asyncio.start_server(accept, "127.0.0.1", local_port, limit=1 << 18)
    except OSError as error:
        raise BadInput(f"The local port {local_port} cannot be used: {error.strerror}.", "Choose another.") from error
    try:
        yield int(server.sockets[0].getsockname()[1])
    finally:
        server.close()
        for task in tuple(open_now):
            task.cancel()
        await asyncio.gather(*open_now, return_exceptions=True)


async def _carry(pipe: Pipe, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Both directions, until the pod's side ends, or a while after the local side has."""

    async def out() -> None:
        while data := await reader.read(1 << 17):
            await pipe.send(data)
        await asyncio.sleep(LINGER)

    async def back() -> None:
        with suppress(ConnectionError):
            while data := await pipe.receive():
                writer.write(data)
                await writer.drain()

    ways = [asyncio.create_task(out()), asyncio.create_task(back())]
    try:
        done, _ = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for way in done:
            way.result()
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
