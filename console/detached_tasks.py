"""Starts tasks and callbacks that outlive the page that starts them, without keeping that page in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any, TypeVar

T = TypeVar("T")


def start_task(coroutine: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
    """Start a task in an empty context, so that it keeps no reference to its starter.

    A task and its subtasks hold the context variables of the starter, and those of a page hold the whole page, 2 MiB,
    for as long as the log of its job is read.
    """
    return asyncio.create_task(coroutine, name=name, context=Context())


def call_apart(function: Callable[..., T], *arguments: object) -> T:
    """Call a function in an empty context; a callback made in it keeps nothing of the caller alive."""
    return Context().run(function, *arguments)
