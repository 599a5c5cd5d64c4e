"""What a rank's container says of itself: GPUs, disks, mounts, environment, InfiniBand, C library, Python."""

from __future__ import annotations

from typing import TYPE_CHECKING

from console.models.facts import FactState
from screens.cli.connect import connected
from screens.cli.output import say, say_json
from screens.cli.ranks import KINDS, container_of, rank_named, running_pod

if TYPE_CHECKING:
    from screens.cli.options import Options


async def facts(options: Options) -> int:
    """Print them; 1 if one of them could not be had (what is simply not there is no failure)."""
    async with connected(options, KINDS) as session:
        fleet = await session.listed(*KINDS)
        rank = rank_named(fleet, session.namespace, options.job, options.rank_text)
        pod = running_pod(rank, options.job, "it cannot be asked")
        found = await session.inside.facts(pod, rank=rank.number, container=container_of(pod, options.container))
    if options.json:
        say_json(found)
    else:
        for fact in found.facts:
            say(f"── {fact.title}" + (f": {fact.words}" if fact.words else ""))
            if fact.text:
                say(fact.text)
    return int(any(fact.state is FactState.FAILED for fact in found.facts))
