"""Spare connections, opened before a local client asks for one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, Protocol, TypeVar

T = TypeVar("T")


class Closable(Protocol):
    @property
    def is_usable(self) -> bool:
        """Whether it is open, as far as is known."""

    def close(self) -> None: ...


class SpareConnections(Generic[T]):
    """A pool of spare connections, each closed if unused for some seconds."""

    def __init__(
        self, make: Callable[[], Coroutine[Any, Any, T]], seconds: float, part: Callable[[T], Closable]
    ) -> None:
        """`part`: returns the closable connection in the result of `make`."""
        self._make, self._seconds, self._part = make, seconds, part
        self._made: dict[asyncio.Future[T], asyncio.TimerHandle] = {}

    def keep(self, number: int) -> None:
        """Begin to make as many as are missing; one that cannot be made is left out."""
        while len(self._made) < number:
            made = asyncio.ensure_future(self._make())
            self._made[made] = made.get_loop().call_later(self._seconds, self._drop, made)

    def take(self) -> T | None:
        """A spare connection that is still open; None without one: the caller opens one and sees the error."""
        for made in [each for each in self._made if each.done()]:
            self._made.pop(made).cancel()
            if made.exception() is None and self._part(made.result()).is_usable:
                return made.result()
            self._close(made)
        return None

    def close(self) -> None:
        """Close all."""
        for made in tuple(self._made):
            self._drop(made)

    def _drop(self, made: asyncio.Future[T]) -> None:
        self._made.pop(made).cancel()
        made.cancel()
        made.add_done_callback(self._close)

    def _close(self, made: asyncio.Future[T]) -> None:
        if not made.cancelled() and made.exception() is None:
            self._part(made.result()).close()
