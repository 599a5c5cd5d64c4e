"""Whether a job that is not yet submitted would find room: a look at quota and hosts as they are now, not a promise."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from console.models.placement import flavor_nodes
from console.models.places import MACHINE_GPUS, floor
from console.models.queue import GPU
from console.models.quota import Account, account

if TYPE_CHECKING:
    from console.models.fleet import Fleet


class Fits(StrEnum):
    """What would happen to it."""

    NOW = "fits now"
    SPREAD = "fits spread over blocks"
    NO_HOSTS = "waits for hosts"
    """Quota is free, and too few machines are."""
    NO_QUOTA = "waits for quota"
    NEVER = "never"
    """Asks for more than the queue can ever have in one flavor."""


@dataclass(frozen=True, slots=True)
class Room:
    """Room for one job in one flavor of a ClusterQueue; amounts are GPUs."""

    fits: Fits
    flavor: str = ""
    account: Account = field(default_factory=Account)
    place: str = ""
    """Smallest place that holds all its pods: "subblock" or "block"; "" where none does, or the nodes are unknown."""
    hosts: int = 0
    """Pods of its size that the flavor's machines could take now."""


_BEST_FIRST = tuple(Fits)


def room(fleet: Fleet, cluster_queue: str, gpus: int) -> Room:
    """The best room for that many GPUs (pods of 8, or one smaller pod) over the queue's flavors, in their order."""
    queue = fleet.cluster_queues.get(("", cluster_queue))
    flavors = dict.fromkeys(quota.flavor for quota in queue.quotas if quota.resource == GPU) if queue else {}
    found = [_in_flavor(fleet, cluster_queue, flavor, gpus) for flavor in flavors]
    return min(found, key=lambda each: _BEST_FIRST.index(each.fits), default=Room(Fits.NEVER))


def _in_flavor(fleet: Fleet, cluster_queue: str, flavor: str, gpus: int) -> Room:
    have = account(fleet, cluster_queue, flavor)
    if gpus > have.total:
        return Room(Fits.NEVER, flavor, have)
    if gpus > have.free:
        return Room(Fits.NO_QUOTA, flavor, have)
    if not fleet.nodes:  # not yet listed, or not allowed: quota is all that is known
        return Room(Fits.NOW, flavor, have)
    size = min(gpus, MACHINE_GPUS)
    fit = floor(flavor_nodes(flavor, fleet), fleet).fit(gpus // size, size)
    if not fit.anywhere:
        return Room(Fits.NO_HOSTS, flavor, have, hosts=fit.slots)
    place = "subblock" if fit.in_subblock else "block" if fit.in_block else ""
    return Room(Fits.NOW if place else Fits.SPREAD, flavor, have, place, fit.slots)
