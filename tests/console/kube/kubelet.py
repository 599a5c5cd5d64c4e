"""The WebSocket side of exec and port-forward, as an API server speaks it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import WSMsgType, web

EXEC = "/api/v1/namespaces/default/pods/p/exec"
FORWARD = "/api/v1/namespaces/default/pods/p/portforward"
V5, V4 = "v5.channel.k8s.io", "v4.channel.k8s.io"


def ended(code: int) -> bytes:
    """The Status that ends a command."""
    if not code:
        return b'{"status":"Success"}'
    cause = {"reason": "ExitCode", "message": str(code)}
    failure = {"status": "Failure", "reason": "NonZeroExitCode", "details": {"causes": [cause]}}
    return json.dumps({**failure, "message": f"command terminated with exit code {code}"}).encode()


class Exec:
    """One command; `behave` is called with this once the socket stands."""

    def __init__(self, behave: Callable[[Exec], Awaitable[None]], protocols: tuple[str, ...] = (V5, V4)) -> None:
        self._behave = behave
        self._protocols = protocols
        self.socket = web.WebSocketResponse()
        self.query: list[tuple[str, str]] = []
        self.input = asyncio.Queue[bytes | None]()
        self.sizes: list[dict[str, int]] = []

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        self.query = list(request.query.items())
        self.socket = web.WebSocketResponse(protocols=self._protocols)
        await self.socket.prepare(request)
        reading = asyncio.create_task(self._read())
        await self._behave(self)
        await self.socket.close()
        reading.cancel()
        return self.socket

    async def _read(self) -> None:
        async for message in self.socket:
            if message.type is not WSMsgType.BINARY:
                continue
            channel, data = message.data[0], message.data[1:]
            if channel == 0:
                self.input.put_nowait(data)
            elif channel == 255 and data == b"\x00":
                self.input.put_nowait(None)
            elif channel == 4:
                self.sizes.append(json.loads(data))

    async def all_input(self) -> bytes:
        """Everything until the input is closed."""
        data = b""
        while piece := await self.input.get():
            data += piece
        return data

    async def say(self, channel: int, data: bytes) -> None:
        await self.socket.send_bytes(bytes([channel]) + data)

    def parameter(self, name: str) -> list[str]:
        return [value for key, value in self.query if key == name]


def echo_port(port: int, **answers: Any) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    """A pod whose port gives back what it gets, in capitals; or refuses with `error`."""

    async def serve(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse(protocols=(V4,))
        await socket.prepare(request)
        number = int(request.query["ports"])
        for channel in (0, 1):
            await socket.send_bytes(bytes([channel]) + number.to_bytes(2, "little"))
        if number != port:
            await socket.send_bytes(b"\x01error forwarding port: connection refused")
            await socket.close()
            return socket
        async for message in socket:
            await socket.send_bytes(b"\x00" + message.data[1:].upper())
            if message.data[1:].startswith(b"bye"):
                break
        await socket.close()
        return socket

    return serve
