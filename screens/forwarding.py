"""Opening a tunnel to a rank or a pod, from wherever one is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from console.models.tunnel import Address
from screens.modals.ask_ports import AskPorts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from console.models.pod import Pod
    from console.models.ranks import Rank
    from screens.base import LiveScreen
    from screens.widgets.job_line import JobLine

OFFERED = "8888"


async def forward_rank(screen: LiveScreen, line: JobLine, rank: Rank) -> None:
    """Ask for ports and open them to a rank of a job."""
    await ask_and_open(screen, Address(line.jobset.namespace, line.jobset.name, rank.number))


async def forward_pod(screen: LiveScreen, pod: Pod) -> None:
    """The same to a pod: to the rank it fills, if it is of a job, for that lasts longer than the pod."""
    await ask_and_open(screen, place_of(screen, pod))


def place_of(screen: LiveScreen, pod: Pod) -> Address:
    """Where a tunnel to that pod should lead."""
    from console.models.ranks import ranks

    fleet = screen.app.fleet
    jobset = fleet.jobsets.get((pod.namespace, pod.jobset)) if pod.jobset else None
    here = next((rank for rank in ranks(jobset, fleet) if rank.name == pod.name), None) if jobset else None
    if jobset and here:
        return Address(pod.namespace, jobset.name, here.number)
    return Address(pod.namespace, "", pod=pod.name)


async def ask_and_open(screen: LiveScreen, address: Address) -> None:
    """Ask for ports, open them and say which; to be run in a worker."""
    answer = await screen.app.push_screen_wait(AskPorts(f"Which ports of {address}?", OFFERED))
    if answer is not None:
        await open_ports(screen, address, *answer)


async def open_ports(screen: LiveScreen, address: Address, ports: Sequence[str], keep: bool) -> None:
    """Open a tunnel and say where its ports are."""
    with screen.report_errors(f"No tunnel to {address}"):
        tunnel, notes = await screen.session.tunnels.open(address, ports, keep=keep)
        lines = [f"{each}." for each in tunnel.listeners] + list(notes)
        if tunnel.state != "ready" and tunnel.words:
            lines.append(tunnel.words)
        screen.notify("\n".join(lines), title=f"Tunnel to {address}", timeout=6, markup=False)
