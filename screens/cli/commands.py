"""The plain commands by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from screens.cli.jobs import execute, launch, logs, recipes, stop
from screens.cli.listing import show_list
from screens.cli.options import LISTS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from screens.cli.options import Options

COMMANDS: dict[str, Callable[[Options], Awaitable[int]]] = {
    "recipes": recipes,
    "launch": launch,
    "stop": stop,
    "logs": logs,
    "exec": execute,
    **dict.fromkeys(LISTS, show_list),
}


async def perform(options: Options) -> int:
    """Do what was asked for; gives the exit code."""
    return await COMMANDS[options.command](options)
