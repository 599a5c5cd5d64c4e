"""WebSockets into a pod: a command with its channels, and a port."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import aiohttp

from tests.contract.cluster import CORE
from tests.contract.space import Space

Stream = tuple[Callable[[bytes], Awaitable[None]], Callable[[], Awaitable[bytes]]]


LIMIT = 60
"""Seconds for an answer."""
STDIN, STDOUT, STDERR, OUTCOME = 0, 1, 2, 3
CLOSE = 255
"""Of version 5: this byte and a channel's number close that channel."""


@dataclass(frozen=True, slots=True)
class Run:
    """What a command printed, and its exit code."""

    out: str
    err: str
    code: int


async def run(
    space: Space,
    pod: str,
    *argv: str,
    stdin: bytes | None = None,
    protocol: str = "v5.channel.k8s.io",
) -> Run:
    asked = [("command", each) for each in argv] + [("stdout", "true"), ("stderr", "true")]
    asked += [("stdin", "true")] if stdin is not None else []
    channels = {STDOUT: b"", STDERR: b"", OUTCOME: b""}
    path = space.path(CORE, f"pods/{pod}/exec")
    async with asyncio.timeout(LIMIT), space.api.socket(path, protocol, asked) as socket:
        assert socket.protocol == protocol
        if stdin is not None:
            await socket.send_bytes(bytes([STDIN]) + stdin)
            await socket.send_bytes(bytes([CLOSE, STDIN]))
        async for message in socket:
            assert message.type is aiohttp.WSMsgType.BINARY, message
            if message.data[0] in channels:
                channels[message.data[0]] += message.data[1:]
    return Run(channels[STDOUT].decode(), channels[STDERR].decode(), exit_code(channels[OUTCOME]))


@asynccontextmanager
async def conversation(space: Space, pod: str, *argv: str, tty: bool = False) -> AsyncIterator[Stream]:
    """A command that goes on: say something to it, hear what it prints."""
    asked = [("command", each) for each in argv] + [("stdin", "true"), ("stdout", "true")]
    asked += [("tty", "true")] if tty else []
    path = space.path(CORE, f"pods/{pod}/exec")
    async with space.api.socket(path, "v5.channel.k8s.io", asked) as socket:

        async def say(data: bytes) -> None:
            await socket.send_bytes(bytes([STDIN]) + data)

        async def hear() -> bytes:
            while True:
                message = await socket.receive_bytes(timeout=LIMIT)
                if message[0] == STDOUT and len(message) > 1:
                    return message[1:]

        yield say, hear


def exit_code(outcome: bytes) -> int:
    """Of the Status object that ends a command; -1 when it names none."""
    status = json.loads(outcome)
    if status["status"] == "Success":
        return 0
    causes = status.get("details", {}).get("causes", [])
    found = [cause["message"] for cause in causes if cause.get("reason") == "ExitCode"]
    return int(found[0]) if found else -1


@asynccontextmanager
async def forward(space: Space, pod: str, port: int) -> AsyncIterator[Stream]:
    """A byte stream to a port: send and receive. The first message of each channel repeats the port."""
    path = space.path(CORE, f"pods/{pod}/portforward")
    async with space.api.socket(path, "v4.channel.k8s.io", [("ports", str(port))]) as socket:
        for channel in (0, 1):
            first = await socket.receive_bytes(timeout=LIMIT)
            assert first == bytes([channel]) + port.to_bytes(2, "little")

        async def send(data: bytes) -> None:
            await socket.send_bytes(b"\0" + data)

        async def receive() -> bytes:
            message = await socket.receive_bytes(timeout=LIMIT)
            assert message[0] == 0, message
            return message[1:]

        yield send, receive
