"""The floor in lines: which hosts stand beside each other, and what each is called (pure)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.cells import cell_len

from screens.wording import Run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from console.models.places import Floor, Host

LABEL = 6
"""Most columns of a host's short name."""
PLACE = 10
"""Most columns of a block's or subblock's name."""


@dataclass(frozen=True, slots=True)
class FloorLine:
    """One line of the map: a pool's heading, or what stands left of the hosts and the hosts."""

    block: str = ""
    subblock: str = ""
    hosts: tuple[Host, ...] = ()
    heading: tuple[Run, ...] = ()


def short_name(name: str) -> str:
    """What tells a node from its neighbours: the last part of its name."""
    return name.rsplit("-", 1)[-1][-LABEL:]


def floor_lines(floor: Floor, per_line: int) -> list[FloorLine]:
    """The floor in lines of at most that many hosts; every subblock starts a line, names stand where they change."""
    lines: list[FloorLine] = []
    for block in floor.blocks:
        name = block.name or "─"
        for subblock in block.subblocks:
            label = subblock.name or "─"
            for start in range(0, len(subblock.hosts), per_line):
                lines.append(FloorLine(name, label, subblock.hosts[start : start + per_line]))
                name = label = ""
    return lines


def widest(names: Sequence[str]) -> int:
    """Columns that the longest of these names of places takes."""
    return min(PLACE, max((cell_len(name) for name in names), default=0) or 1)


def host_mark(host: Host) -> Run:
    """The one thing to know of a host besides its GPUs."""
    node = host.node
    if host.out == host.total:
        return Run(" ")  # its pips say it
    if host.faults and not (node.maintenance_active and len(host.faults) == 1):
        return Run("✗", "bad")
    if node.maintenance_active or node.maintenance_at:
        return Run("⚠", "waits")
    return Run("‖", "waits") if node.cordoned else Run(" ")


def host_caption(host: Host) -> str:
    """What stands under a host where there is room: its job, or why it has none."""
    names = list(dict.fromkeys(pip.holder.name for pip in host.pips if pip.holder))
    if len(names) > 1:
        return f"{len(names)} jobs"
    if names:
        return names[0]
    if host.starting:
        return "starting"
    if host.faults:
        return "faulty"
    return "cordoned" if host.node.cordoned else ""
