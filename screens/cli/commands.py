"""The plain commands by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from screens.cli.cp import copy
from screens.cli.exec import execute
from screens.cli.facts import facts
from screens.cli.jobs import launch, recipes, stop
from screens.cli.listing import show_list
from screens.cli.logs import logs
from screens.cli.options import LISTS
from screens.cli.shell import shell
from screens.cli.ssh import code, doctor, ssh

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from screens.cli.options import Options

COMMANDS: dict[str, Callable[[Options], Awaitable[int]]] = {
    "recipes": recipes,
    "launch": launch,
    "stop": stop,
    "logs": logs,
    "exec": execute,
    "shell": shell,
    "cp": copy,
    "facts": facts,
    "ssh": ssh,
    "code": code,
    "doctor": doctor,
    **dict.fromkeys(LISTS, show_list),
}


async def perform(options: Options) -> int:
    """Do what was asked for; gives the exit code."""
    return await COMMANDS[options.command](options)
