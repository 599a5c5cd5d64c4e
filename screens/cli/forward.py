"""`a4 forward`: ports of this machine that lead to a rank, in this terminal or in the background."""

from __future__ import annotations

import asyncio
import signal
from dataclasses import replace
from typing import TYPE_CHECKING

from console.errors import BadInput
from screens.cli.connect import practice_cluster
from screens.cli.output import say, say_json, warn

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from console.models.tunnel import Tunnel
    from console.tunnel.running import Order
    from screens.cli.options import Options


async def forward(options: Options) -> int:
    """Open the ports, and keep them open until Ctrl-C or the end of the job; in the background, return at once."""
    if options.demo and options.background:
        raise BadInput("The practice cluster ends with this command, so no tunnel to it can be kept.")
    with practice_cluster(options) as practice:
        kubeconfig = await asyncio.to_thread(practice.kubeconfig) if practice else options.kubeconfig
        order = await _order(options, kubeconfig)
        if options.background:
            return await _detach(order, as_json=options.json)
        return await _stay(order, kubeconfig, as_json=options.json)


async def _order(options: Options, kubeconfig: Path | None) -> Order:
    """What the words or the profile ask for; saved under a name if that was asked for."""
    from console.models.tunnel import Address, Ports, Profile
    from console.tunnel import memory
    from console.tunnel.pipe import login
    from console.tunnel.running import Order

    if options.profile:
        if options.words:
            raise BadInput("Name a profile, or a job and ports, not both.")
        saved = await asyncio.to_thread(memory.profile, options.profile)
        options = replace(options, context=options.context or saved.context,
                          namespace=options.namespace or saved.namespace)  # fmt: skip
        words: tuple[str, ...] = tuple(filter(None, (saved.job, saved.rank, *saved.ports)))
    else:
        words = options.words
    job, rank, ports = split(words)
    context = "" if options.demo else options.context
    target = (await asyncio.to_thread(login, kubeconfig, context)).target
    address = Address.of(options.namespace or target.namespace, job, rank)
    remote = [Ports.of(each).remote for each in ports]
    twice = next((each for each in remote if remote.count(each) > 1), None)
    if twice is not None:
        raise BadInput(f"Port {twice} of the pod is named twice.", "One local port serves any number of programs.")
    if options.save:
        made = Profile(options.save, address.namespace, job, rank, ports, target.context)
        await asyncio.to_thread(memory.save_profile, made)
    place = str(await asyncio.to_thread(kubeconfig.absolute)) if kubeconfig else ""
    return Order(address.namespace, job, rank, ports, target.context, place)


def split(words: tuple[str, ...]) -> tuple[str, str, tuple[str, ...]]:
    """Job, rank and ports; a pod by name has no rank."""
    used = 1 if words and words[0].startswith("pod/") else 2
    if len(words) <= used:
        raise BadInput("Name a job, a pod and one or more ports.", "Such as: a4 forward train-1 0 8888 6006")
    return words[0], words[1] if used == 2 else "", words[used:]


async def _detach(order: Order, *, as_json: bool) -> int:
    from console.tunnel.running import detach

    tunnel, notes = await detach(order)
    for note in notes:
        warn(note)
    if as_json:
        say_json(tunnel)
    else:
        _say_open(tunnel)
        say(f"It goes on in the background: a4 tunnels lists it, a4 tunnels stop {tunnel.name} ends it.")
    return 0


def _say_open(tunnel: Tunnel) -> None:
    for each in tunnel.listeners:
        say(f"{each} of {tunnel.address}" + (f" (pod {tunnel.pod})." if tunnel.pod else "."))


async def _stay(order: Order, kubeconfig: Path | None, *, as_json: bool) -> int:
    from console.tunnel.pipe import login
    from console.tunnel.running import start

    running = await start(await asyncio.to_thread(login, kubeconfig, order.context), order, kept=False)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, running.stop)
    try:
        for note in running.forwarding.notes:
            warn(note)
        if as_json:
            say_json(running.tunnel)
        else:
            _say_open(running.tunnel)
        if running.tunnel.words:
            warn(running.tunnel.words)
        running.forwarding.tell = _teller(running.tunnel)
        await running.over()
    finally:
        await running.close()
    return 0


def _teller(first: Tunnel) -> Callable[[Tunnel], None]:
    """Says what changes: a connection that broke, a pod that went, the one that came."""
    before = first

    def tell(tunnel: Tunnel) -> None:
        nonlocal before
        if tunnel.last_end_at != before.last_end_at:
            warn(tunnel.last_end)
        if tunnel.words and tunnel.words != before.words:
            warn(tunnel.words)
        if tunnel.state == "ready" and (before.state != "ready" or tunnel.pod != before.pod):
            warn(f"{tunnel.address} is pod {tunnel.pod}.")
        before = tunnel

    return tell
