"""What the API server asks of the kubelets: logs, commands in containers, streams to ports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable


class ContainerLog(Protocol):
    """What a container printed: lines that only grow, each with the epoch seconds it was printed at."""

    lines: list[tuple[float, bytes]]
    ended: bool

    async def wait(self, after: int) -> None:
        """Return when there are more than ``after`` lines, or the log has ended."""


class Runtime(Protocol):
    """The kubelets, as the API server reaches them."""

    def log(self, namespace: str, pod: str, container: str, previous: bool) -> ContainerLog:
        """Return what a container printed, or its previous run; ApiError when there is none."""

    async def exec(
        self,
        namespace: str,
        pod: str,
        container: str,
        argv: list[str],
        *,
        tty: bool,
        stdin: asyncio.StreamReader | None,
        write: Callable[[int, bytes], Awaitable[None]],
        resize: asyncio.Queue[tuple[int, int]],
    ) -> int:
        """Run a command and return its exit code; it writes to channel 1 or 2 (errors), resize is (cols, rows)."""

    async def dial(self, namespace: str, pod: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open a byte stream to a port of a pod."""
