"""`a4 tunnels`: what is open, whoever opened it; stop it; saved profiles."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from console.errors import BadInput
from screens.cli.output import say, say_json, say_table
from screens.wording import size

if TYPE_CHECKING:
    from console.models.tunnel import Tunnel
    from screens.cli.options import Options


async def tunnels(options: Options) -> int:
    """List, stop, or show and forget profiles."""
    return await {"list": _list, "stop": _stop, "profiles": _profiles, "forget": _forget}[options.action](options)


async def _list(options: Options) -> int:
    from console.tunnel import published

    found = await published.listed()
    if options.json:
        say_json({"kind": "tunnels", "items": found})
    elif not found:
        say("No tunnel is open. Open one: a4 forward JOB POD 8888")
    else:
        rows = [row(each, at) for each in found for at in range(max(1, len(each.listeners)))]
        titles = ("NAME", "STATE", "LEADS TO", "LOCAL", "REMOTE", "OPEN", "ALL", "SENT", "RECEIVED", "POD", "WHY")
        say_table(titles, rows, (False,) * 3 + (True,) * 6 + (False,) * 2)
    return 0


def row(tunnel: Tunnel, at: int) -> tuple[str, ...]:
    """One line for each port; what is of the whole tunnel stands on its first."""
    first = at == 0
    counts = ("",) * 6
    if at < len(tunnel.listeners):
        each = tunnel.listeners[at]
        counts = (str(each.local), str(each.remote), str(each.open), str(each.connections),
                  size(each.sent), size(each.received))  # fmt: skip
    about = (tunnel.name, tunnel.state, f"{tunnel.namespace}: {tunnel.address}") if first else ("",) * 3
    return (*about, *counts, tunnel.pod if first else "", (tunnel.words or tunnel.last_end) if first else "")


async def _stop(options: Options) -> int:
    from console.tunnel import published

    if options.all == bool(options.words):
        raise BadInput("Name the tunnels to stop, or give --all.", "a4 tunnels lists them.")
    names = [each.name for each in await published.listed()] if options.all else list(options.words)
    stopped = [await published.stop(name) for name in names]
    if options.json:
        say_json({"kind": "tunnels", "items": stopped})
        return 0
    for each in stopped:
        ports = ", ".join(str(one) for one in each.listeners)
        say(f"Stopped {each.name}: {ports or 'no port'} of {each.address}.")
    if not stopped:
        say("No tunnel was open.")
    return 0


async def _profiles(options: Options) -> int:
    from console.tunnel import memory

    found = await asyncio.to_thread(memory.profiles)
    if options.json:
        say_json({"kind": "profiles", "items": found})
    elif not found:
        say("No profile is saved. Save one: a4 forward JOB POD 8888 --save NAME")
    else:
        rows = [
            (each.name, each.context, each.namespace, f"{each.job} {each.rank}", " ".join(each.ports)) for each in found
        ]
        say_table(("PROFILE", "CONTEXT", "NAMESPACE", "LEADS TO", "PORTS"), rows, (False,) * 5)
    return 0


async def _forget(options: Options) -> int:
    from console.tunnel import memory

    if not options.words:
        raise BadInput("Name the profile to forget.", "a4 tunnels profiles lists them.")
    for name in options.words:
        await asyncio.to_thread(memory.forget_profile, name)
        if not options.json:
            say(f"Forgot the profile {name}.")
    if options.json:
        say_json({"kind": "profiles", "forgotten": options.words})
    return 0
