"""Explains why a workload waits although quota is there: no topology domain has room for its pods together."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from console.kube.objects.meta import GPU
from console.kube.objects.workload import PodSet, Workload
from console.kube.snapshot import Fleet
from console.scheduling.free_slots import eligible_nodes, format_slots, jobs_blocking_placement
from console.scheduling.topology import level_name
from console.scheduling.why import Category, Why

if TYPE_CHECKING:
    from console.scheduling.kueue_messages import KueueMessage


class TopologyDemand(Struct, frozen=True):
    """The topology request of the largest pod set."""

    pods: int
    gpus: int  # GPUs per pod
    label: str  # of the level that its pods must share; empty if they need not be together


def topology_demand_of(workload: Workload) -> TopologyDemand | None:
    """The topology request of a workload's largest pod set with GPUs; None without GPUs."""
    groups: list[PodSet] = [group for group in workload.pod_sets if group.total(GPU)]
    if not groups:
        return None
    group = max(groups, key=lambda each: each.total(GPU))
    return TopologyDemand(group.count, dict(group.requests)[GPU], group.required_topology)


def explain_topology(demand: TopologyDemand, fleet: Fleet, message: KueueMessage, draft: Why) -> Why:
    """The reason why a workload waits if no topology domain has room; `draft` has its flavor and account."""
    found = eligible_nodes(fleet, demand.gpus, draft.flavor)
    rooms = found.slots(demand.label)
    best = next(iter(rooms), "")
    room = f"room for only {message.fits} of its {demand.pods} pods" if message.fits > 0 else "no room for its pods"
    if not rooms:
        words = f"but the topology has {room}{f' in one {level_name(demand.label)}' if demand.label else ''}"
    elif missing := found.shortage(demand.pods, demand.label):
        never = found.why_never_fits(demand.pods, demand.label)
        words = f"but {missing}{f'; it never fits: it {never}' if never else ''}"
    elif message.excluded:  # GPUs alone are counted here
        reasons = ", ".join(f"{count} for {why}" for why, count in message.excluded)
        free = f"{best} has {format_slots(rooms[best], demand.gpus)}" if demand.label else "hosts enough are free"
        words = f"but Kueue finds {room}: of {message.nodes} nodes it excludes {reasons}; by GPUs alone {free}"
        best = ""
    else:
        where = f"{best} has" if demand.label else "there are"
        words = f"and {where} {format_slots(rooms[best], demand.gpus)} now, but Kueue has not assigned them yet"
    quota = f" (flavor {draft.flavor}: {draft.account.sum_text})" if draft.account else ""
    return replace(
        draft,
        category=Category.TOPOLOGY,
        sentence=f"quota is there{quota} {words}",
        room=rooms.get(best, -1),
        # Those in front would take the place first.
        unblocks=() if draft.ahead else jobs_blocking_placement(fleet, found, demand.pods, demand.label, len(rooms)),
    )


def refused_flavor(demand: TopologyDemand, flavors: Iterable[str], message: KueueMessage, fleet: Fleet) -> str:
    """The flavor with too small a topology, which Kueue's message does not name; empty if all have room."""
    room = {
        each: max(eligible_nodes(fleet, demand.gpus, each).slots(demand.label).values(), default=demand.pods)
        for each in flavors
    }
    short = [each for each in room if room[each] < demand.pods]
    return next((each for each in short if room[each] == message.fits), short[0] if short else "")
