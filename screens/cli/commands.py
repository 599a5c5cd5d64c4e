"""The plain commands by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from screens.cli.clusters import clusters, nodepools, operations, report, resize
from screens.cli.cp import copy
from screens.cli.exec import execute
from screens.cli.facts import facts
from screens.cli.forward import forward
from screens.cli.gpus import gpus
from screens.cli.hang import hang
from screens.cli.history import history
from screens.cli.launching import launch, recipes, values
from screens.cli.listing import show_list
from screens.cli.logs import logs
from screens.cli.options import LISTS
from screens.cli.preflight import preflight
from screens.cli.profiles import profiles
from screens.cli.releases import releases, rollback, upgrade
from screens.cli.shell import shell
from screens.cli.ssh import code, doctor, ssh
from screens.cli.stop import stop
from screens.cli.tunnels import tunnels
from screens.cli.why import why

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from screens.cli.options import Options

COMMANDS: dict[str, Callable[[Options], Awaitable[int]]] = {
    "recipes": recipes,
    "values": values,
    "launch": launch,
    "history": history,
    "profiles": profiles,
    "releases": releases,
    "upgrade": upgrade,
    "rollback": rollback,
    "stop": stop,
    "logs": logs,
    "why": why,
    "hang": hang,
    "gpus": gpus,
    "exec": execute,
    "shell": shell,
    "cp": copy,
    "facts": facts,
    "ssh": ssh,
    "code": code,
    "doctor": doctor,
    "forward": forward,
    "tunnels": tunnels,
    "preflight": preflight,
    "clusters": clusters,
    "nodepools": nodepools,
    "operations": operations,
    "resize": resize,
    "report": report,
    **dict.fromkeys(LISTS, show_list),
}


async def perform(options: Options) -> int:
    """Do what was asked for; gives the exit code."""
    return await COMMANDS[options.command](options)
