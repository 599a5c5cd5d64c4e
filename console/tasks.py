"""Work that goes on when the page that began it is closed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any, TypeVar

T = TypeVar("T")


def start_task(work: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
    """A task that keeps nothing alive of who starts it.

    A task, and what it sets going, holds the context variables of its starter, and those of a page hold the page with
    all that is drawn on it: 2 MiB for as long as the log of its job is read.
    """
    return asyncio.create_task(work, name=name, context=Context())


def call_apart(function: Callable[..., T], *arguments: object) -> T:
    """Call what registers with the event loop for longer than its caller lives, as a connection that others use too."""
    return Context().run(function, *arguments)
