"""The plain commands by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from screens.cli.clusters import clusters, nodepools, operations, report, resize
from screens.cli.command_line import LISTS
from screens.cli.exec import execute, facts, shell
from screens.cli.files import copy, delete
from screens.cli.gpus import gpus
from screens.cli.hang import hang
from screens.cli.history import history
from screens.cli.images import build, build_cancel, build_log, builds, images
from screens.cli.launch import launch, recipes, values
from screens.cli.lists import show_list
from screens.cli.logs import logs
from screens.cli.measures import nccl, nccl_quick, training
from screens.cli.preflight import preflight
from screens.cli.profiles import profiles
from screens.cli.releases import releases, rollback, upgrade
from screens.cli.ssh import code, doctor, ssh
from screens.cli.stop import stop
from screens.cli.storage import buckets, filestore, get, list_place, lustre, store_logs
from screens.cli.tunnels import forward, tunnels
from screens.cli.wait import alarms, wait
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
    "nccl": nccl,
    "nccl-quick": nccl_quick,
    "training": training,
    "hang": hang,
    "gpus": gpus,
    "wait": wait,
    "alarms": alarms,
    "exec": execute,
    "shell": shell,
    "cp": copy,
    "facts": facts,
    "rm": delete,
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
    "images": images,
    "build": build,
    "builds": builds,
    "build-log": build_log,
    "build-cancel": build_cancel,
    "buckets": buckets,
    "ls": list_place,
    "get": get,
    "store-logs": store_logs,
    "lustre": lustre,
    "filestore": filestore,
    **dict.fromkeys(LISTS, show_list),
}


async def perform(options: Options) -> int:
    """Do what was asked for; gives the exit code."""
    return await COMMANDS[options.command](options)
