"""The interface between API server and kubelets: logs, exec, and streams to ports."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


class ContainerLog(Protocol):
    """The log of a container: lines with print times (epoch seconds).

    ``parts`` are the indexes of lines that the next line continues.
    """

    lines: list[tuple[float, bytes]]
    parts: set[int]
    ended: bool

    async def wait(self, seen_version: int) -> None:
        """Return once there are more than ``seen_version`` lines, or the log has ended."""


@dataclass(frozen=True, slots=True)
class Stdio:
    """The input and output streams of a command in a pod."""

    write: Callable[[int, bytes], Awaitable[None]]  # takes what it prints: to channel 1, errors to channel 2
    stdin: asyncio.StreamReader | None = None
    tty: bool = False  # whether it runs on a terminal: then there is one channel, and it is typed to
    sizes: asyncio.Queue[tuple[int, int]] = field(default_factory=asyncio.Queue)
    """(columns, rows) of the terminal, put at each change."""


class Runtime(Protocol):
    """The services of kubelets for the API server: logs, commands and connections of pods."""

    def log(self, namespace: str, pod: str, container: str, previous: bool) -> ContainerLog:
        """Return the output of a container, or of its previous run. Raises ApiError if there is none."""

    async def exec(self, namespace: str, pod: str, container: str, argv: list[str], stdio: Stdio) -> int:
        """Run a command and return its exit code."""

    async def dial(self, namespace: str, pod: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """(reader, writer) of a byte stream to a port of a pod. Raises ApiError if nothing listens there."""
