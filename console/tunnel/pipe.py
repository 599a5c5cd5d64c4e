"""Standard input and output as one end of a pipe to a rank's port: what ssh's ProxyCommand wants."""

from __future__ import annotations

import asyncio
import os
import stat
import threading
from typing import TYPE_CHECKING

from console.cluster.carry import Sink, Source, Splice
from console.cluster.kubeconfig import load
from console.cluster.login import Login
from console.errors import Unreachable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from console.models.address import Address, LivePod
    from console.tunnel.reach import Reach

_PIECE = 1 << 16


def login(kubeconfig: Path | None, context: str) -> Login:
    """The log-in of a context; blocking. Raises BadKubeconfig."""
    return Login(load(kubeconfig).target(context))


async def carry(
    reach: Reach,
    address: Address,
    port: int,
    *,
    limit: float,
    say: Callable[[str], None],
    found: Callable[[LivePod], Awaitable[None]] | None = None,
) -> None:
    """Carry bytes until either side ends; raises as `Reach.open`, and Unreachable when the connection breaks.

    `found` hears of the pod before any byte of it is passed on.
    """
    pipe, pod = await reach.open(address, port, limit=limit, say=say)
    if found is not None:
        await found(pod)
    splice = Splice()
    await _write_to(splice, 1)
    await _read_from(splice, 0)
    splice.attach(pipe)
    await splice.ended
    if splice.why:
        raise Unreachable(splice.why)


def _waits(descriptor: int) -> bool:
    """Whether the event loop can wait for it: pipes and sockets, but no file, and no terminal that others use too."""
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


async def _write_to(splice: Splice, descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    if _waits(descriptor):
        await loop.connect_write_pipe(lambda: Sink(splice), os.fdopen(os.dup(descriptor), "wb", 0))
    else:
        splice.sink(_File(descriptor, splice))


async def _read_from(splice: Splice, descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    if _waits(descriptor):
        await loop.connect_read_pipe(lambda: Source(splice), os.fdopen(os.dup(descriptor), "rb", 0))
    else:
        splice.source(_Thread(descriptor, splice))


class _File(asyncio.WriteTransport):
    """A file or terminal, which takes what it is given."""

    def __init__(self, descriptor: int, splice: Splice) -> None:
        super().__init__()
        self._descriptor, self._splice = descriptor, splice
        self._closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Write all of it."""
        left = memoryview(data)
        while left:
            left = left[os.write(self._descriptor, left) :]

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Nothing is kept."""

    def is_closing(self) -> bool:
        """Whether it is over."""
        return self._closed

    def close(self) -> None:
        """The end."""
        if not self._closed:
            self._closed = True
            asyncio.get_running_loop().call_soon(self._splice.lost)

    abort = close


class _Thread(asyncio.ReadTransport):
    """A file or terminal that is read by a thread, which a slow tunnel holds back."""

    def __init__(self, descriptor: int, splice: Splice) -> None:
        super().__init__()
        self._descriptor, self._splice = descriptor, splice
        self._go = threading.Event()
        self._loop = asyncio.get_running_loop()
        self._closed = False
        threading.Thread(target=self._read, name="standard input", daemon=True).start()

    def _read(self) -> None:
        while not self._closed:
            self._go.wait()
            data = os.read(self._descriptor, _PIECE)
            if self._closed or self._loop.is_closed():
                return
            self._loop.call_soon_threadsafe(self._splice.read if data else self._end, data)
            if not data:
                return

    def _end(self, _: bytes) -> None:
        self._splice.finished()

    def pause_reading(self) -> None:
        """Read no more after the piece under way."""
        self._go.clear()

    def resume_reading(self) -> None:
        """Read on."""
        self._go.set()

    def is_closing(self) -> bool:
        """Whether it is over."""
        return self._closed

    def close(self) -> None:
        """The thread ends with the process if it waits for a key."""
        self._closed = True
