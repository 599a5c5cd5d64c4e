"""`a4 forward`: opens local ports that lead to a rank, in the foreground or background.

`a4 tunnels`: what is open, whoever opened it; stop it; saved profiles.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from console.errors import BadInput
from screens.cli.arguments import Command, Commands, Options, flag, json_flag, option, word
from screens.cli.open_session import practice_cluster
from screens.cli.output import print_listing, print_result, warn
from screens.columns.tunnels import PROFILES, TUNNELS

if TYPE_CHECKING:
    from console.attach.tunnel.background import TunnelRequest
    from console.attach.tunnel.tunnel_files import Tunnel


async def run_forward(options: ForwardOptions) -> int:
    """Open the ports until Ctrl-C or the job's end; a background tunnel returns at once (BadInput with --demo)."""
    if options.demo and options.background:
        raise BadInput("The practice cluster ends with this command, so no tunnel to it can be kept.")
    with practice_cluster(options) as practice:
        kubeconfig = await asyncio.to_thread(practice.kubeconfig) if practice else options.kubeconfig
        order = await _make_request(options, kubeconfig)
        if options.background:
            from console.attach.tunnel.background import start_detached_tunnel

            tunnel, notes = await start_detached_tunnel(order)
            for note in notes:
                warn(note)
            ends = f"It runs in the background: a4 tunnels lists it, a4 tunnels stop {tunnel.name} ends it."
            return print_result(options.json, tunnel, *_open_lines(tunnel), ends)
        from console.attach.tunnel.background import start_tunnel
        from console.attach.tunnel.relay import load_login

        running = await start_tunnel(
            await asyncio.to_thread(load_login, kubeconfig, order.context), order, is_background=False
        )
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, running.stop)
        try:
            for note in running.local_forward.notes:
                warn(note)
            print_result(options.json, running.tunnel, *_open_lines(running.tunnel))
            if running.tunnel.words:
                warn(running.tunnel.words)
            running.local_forward.on_change = _change_printer(running.tunnel)
            await running.wait_until_over()
        finally:
            await running.close()
        return 0


async def _make_request(options: ForwardOptions, kubeconfig: Path | None) -> TunnelRequest:
    """The tunnel request for the arguments or profile; saves a profile if requested. Raises BadInput if incomplete."""
    from console.attach.tunnel import tunnel_files
    from console.attach.tunnel.background import TunnelRequest
    from console.attach.tunnel.relay import load_login
    from console.attach.tunnel.tunnel_files import TunnelProfile
    from console.kube.pod_address import PodAddress, PortPair

    if options.profile:
        if options.words:
            raise BadInput("Name a profile, or a job and ports, not both.")
        saved = await asyncio.to_thread(tunnel_files.find_profile, options.profile)
        options = options.replaced(
            context=options.context or saved.context, namespace=options.namespace or saved.namespace
        )
        words: tuple[str, ...] = tuple(filter(None, (saved.job, saved.rank, *saved.ports)))
    else:
        words = options.words
        if words and ":" in words[0] and not words[0].startswith("pod/"):  # JOB:POD, as other commands have it
            words = (*words[0].split(":", 1), *words[1:])
    # Split the arguments into job, rank and ports; pod/NAME has no rank.
    used = 1 if words and words[0].startswith("pod/") else 2
    if len(words) <= used:
        raise BadInput("Name a job, a pod and one or more ports.", "Such as: a4 forward train-1 0 8888 6006")
    job, rank, ports = (words[0], words[1] if used == 2 else "", words[used:])
    context = "" if options.demo else options.context
    target = (await asyncio.to_thread(load_login, kubeconfig, context)).target
    address = PodAddress.parse(options.namespace or target.namespace, job, rank)
    remote = [PortPair.parse(each).remote for each in ports]
    twice = next((each for each in remote if remote.count(each) > 1), None)
    if twice is not None:
        raise BadInput(f"Port {twice} of the pod is named twice.", "One local port serves any number of programs.")
    if options.save:
        made = TunnelProfile(options.save, address.namespace, job, rank, ports, target.context)
        await asyncio.to_thread(tunnel_files.save_profile, made)
    place = str(await asyncio.to_thread(kubeconfig.absolute)) if kubeconfig else ""
    return TunnelRequest(address.namespace, job, rank, ports, target.context, place)


def _open_lines(tunnel: Tunnel) -> list[str]:
    pod = f" (pod {tunnel.pod})" if tunnel.pod else ""
    return [f"{each} of {tunnel.address}{pod}." for each in tunnel.listeners]


def _change_printer(tunnel: Tunnel) -> Callable[[Tunnel], None]:
    """A function that prints changes of a tunnel: a broken connection, a deleted pod, a new one."""
    before = tunnel

    def print_change(tunnel: Tunnel) -> None:
        nonlocal before
        if tunnel.last_end_at != before.last_end_at:
            warn(tunnel.last_end)
        if tunnel.words and tunnel.words != before.words:
            warn(tunnel.words)
        if tunnel.state == "ready" and (before.state != "ready" or tunnel.pod != before.pod):
            warn(f"{tunnel.address} is pod {tunnel.pod}.")
        before = tunnel

    return print_change


async def run_tunnels(options: TunnelsOptions) -> int:
    from console.attach.tunnel import tunnel_files

    match options.action:
        case "stop":
            return await _stop_tunnels(options)
        case "profiles":
            profiles = await asyncio.to_thread(tunnel_files.read_profiles)
            none = "No profile is saved. Save one: a4 forward JOB POD 8888 --save NAME"
            return print_listing(options.json, {"kind": "profiles", "items": profiles}, PROFILES, profiles, none)
        case "forget":
            return await _forget_profile(options)
    found = await tunnel_files.list_tunnels()
    none = "No tunnel is open. Open one: a4 forward JOB POD 8888"
    return print_listing(options.json, {"kind": "tunnels", "items": found}, TUNNELS, found, none)


async def _stop_tunnels(options: TunnelsOptions) -> int:
    from console.attach.tunnel import tunnel_files

    if options.all == bool(options.words):
        raise BadInput("Name the tunnels to stop, or give --all.", "a4 tunnels lists them.")
    names = [each.name for each in await tunnel_files.list_tunnels()] if options.all else list(options.words)
    stopped = [await tunnel_files.stop_tunnel(name) for name in names]
    lines = [
        f"Stopped {each.name}: {', '.join(map(str, each.listeners)) or 'no port'} of {each.address}."
        for each in stopped
    ]
    return print_result(options.json, {"kind": "tunnels", "items": stopped}, *(lines or ["No tunnel was open."]))


async def _forget_profile(options: TunnelsOptions) -> int:
    from console.attach.tunnel import tunnel_files

    if not options.words:
        raise BadInput("Name the profile to forget.", "a4 tunnels profiles lists them.")
    for name in options.words:
        await asyncio.to_thread(tunnel_files.forget_profile, name)
    lines = (f"Forgot the profile {name}." for name in options.words)
    return print_result(options.json, {"kind": "profiles", "forgotten": options.words}, *lines)


class ForwardOptions(Options):
    words: tuple[str, ...] = word("JOB POD PORT", nargs="*")
    background: bool = flag("--background", help="go on after this command, until the job is over")
    save: str = option("--save", metavar="NAME", help="save it as a profile")
    profile: str = option("--profile", metavar="NAME", help="open what was saved under that name")
    json: bool = json_flag("as JSON, once the ports are open")


class TunnelsOptions(Options):
    action: str = word(choices=("list", "stop", "profiles", "forget"), nargs="?", default="list", help="default: list")
    words: tuple[str, ...] = word("NAME", nargs="*")
    """Names of tunnels or profiles."""
    all: bool = flag("--all", help="with stop: every one")
    json: bool = json_flag()


COMMANDS: Commands = {
    "forward": Command(
        run_forward,
        ForwardOptions,
        usage="a4 forward JOB POD [LOCAL:]REMOTE ... [--background] [--save NAME] [--json] | a4 forward --profile NAME",
        epilog="POD counts over the whole job (3) or in one replicated job (workers/3); pod/NAME without an index is a "
        "pod by its name. Without LOCAL a port gets the number it had last time, else its own, else a free one. The "
        "ports are open on this machine only, and lead to whichever pod fills that place when somebody connects.",
    ),
    "tunnels": Command(
        run_tunnels,
        TunnelsOptions,
        usage="a4 tunnels [--json] | a4 tunnels stop NAME ...|--all | a4 tunnels profiles | a4 tunnels forget NAME",
        epilog="JSON: kind, items with name, namespace, job, rank (index of the pod), context, server, state (ready, "
        "waiting, lost, ended), words (why), pod, listeners (local, remote, open, connections, sent, received), "
        "last_end and last_end_at (of the last connection that broke), reconnections, since, pid, kept (in the "
        "background). Needs no cluster.",
    ),
}
