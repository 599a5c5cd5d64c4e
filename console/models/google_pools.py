"""The pools of the nodes and those of Google as one list: pools without a machine now are pools too."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from console.models.node import Provisioning
from console.models.pools import Pool

if TYPE_CHECKING:
    from collections.abc import Iterable

    from console.models.gke import GkePool
    from console.models.node_pools import PoolsPicture


def with_google(found: Iterable[Pool], picture: PoolsPicture | None) -> tuple[Pool, ...]:
    """Pools of the nodes with what Google says of them, and behind them Google's pools that have no node."""
    pools = tuple(found)
    if picture is None:
        return pools
    facts = {each.pool.name: each for each in picture.pools}
    here = {pool.name for pool in pools if pool.labelled}
    asked = sum(each.state in {"pending", "accepted"} for each in picture.requests)
    more = [
        Pool(
            name=name,
            machine_types=(each.pool.machine_type,),
            zones=each.pool.zones,
            provisioning=provisioning(each.pool),
            reservation=each.pool.reservation,
            accelerator=each.pool.accelerator,
            facts=each,
            requests=asked if each.pool.queued or each.pool.flex_start else 0,
        )
        for name, each in facts.items()
        if name not in here
    ]
    more.sort(key=lambda pool: (not pool.accelerator, pool.name))
    known = [replace(pool, facts=facts[pool.name]) if pool.labelled and pool.name in facts else pool for pool in pools]
    return (*known, *more)


def provisioning(pool: GkePool) -> Provisioning:
    """How its machines are had."""
    if pool.queued:
        return Provisioning.QUEUED
    if pool.flex_start:
        return Provisioning.FLEX_START
    if pool.spot:
        return Provisioning.SPOT
    return Provisioning.RESERVATION if pool.reservation not in {"", "any"} else Provisioning.ON_DEMAND
