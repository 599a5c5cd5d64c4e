"""Filestore and Lustre instances that a launch could mount: whether one is there, works, and is near (P19, P22)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from console.errors import ApiDisabled
from console.preflight.check import Verdict, enable, fail, lacking, ok
from console.preflight.context import filestore_instances, lustre_instances

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from console.preflight.check import Need
    from console.preflight.context import Looking


class _Server(NamedTuple):
    """An instance of a file system of Google's."""

    name: str
    address: str
    words: str
    state: str
    ready: bool
    why: str
    network: str
    share: str = ""


async def _filestores(look: Looking, project: str) -> list[_Server]:
    return [
        _Server(each.name, each.address, f"{each.name}: {each.address}:/{each.share}", each.state,
                each.state == "READY", each.why, each.network, each.share)
        for each in await filestore_instances(look, project)
    ]  # fmt: skip


async def _lustres(look: Looking, project: str) -> list[_Server]:
    return [
        _Server(each.name, each.server, f"{each.name} in {each.location}: {each.mount_point}", each.state,
                each.state == "ACTIVE", each.why, each.network)
        for each in await lustre_instances(look, project)
    ]  # fmt: skip


async def filestore(look: Looking, address: str, share: str, need: Need) -> Verdict:
    """An instance of Filestore: the one at that address, with that share; empty: any."""
    return await _serving(look, "Filestore", _filestores, address, need, share)


async def lustre(look: Looking, address: str, need: Need, project: str = "") -> Verdict:
    """An instance of Managed Lustre: the one at that address; empty: any. In the cluster's project if none is named."""
    return await _serving(look, "Lustre", _lustres, address, need, project=project)


async def _serving(
    look: Looking,
    kind: str,
    listing: Callable[[Looking, str], Awaitable[list[_Server]]],
    address: str,
    need: Need,
    share: str = "",
    project: str = "",
) -> Verdict:
    cluster = await look.gke()
    project = project or cluster.project
    try:
        found = await listing(look, project)
    except ApiDisabled as error:
        return lacking(need, error.message, "No instance can be there.", "Enable the service, then make one.",
                       repair=enable(project, error.service))  # fmt: skip
    listed = "; ".join(f"{each.words} {each.state}" for each in found) or "none"
    told = f"{kind} instances of {project}: {listed}."
    mine = [each for each in found if not address or each.address == address]
    if not mine:
        return lacking(need, told, f"None has the address {address}." if address else "There is no instance.")
    best = next((each for each in mine if each.ready), mine[0])
    if not best.ready:
        return lacking(need, told, f"{best.name} is {best.state}. {best.why}".strip())
    if share and all(each.share != share for each in mine):
        return fail(told, f"{best.name} has no share {share}.", f"Choose {', '.join(each.share for each in mine)}.")
    return _same_network(told, best.network, cluster.network, need)


def _same_network(told: str, theirs: str, ours: str, need: Need) -> Verdict:
    last = theirs.rpartition("/")[2]
    if last == ours.rpartition("/")[2]:
        return ok(f"{told} Same network as the cluster: {last}.")
    return lacking(need, told, f"It lies in network {last}, the cluster in {ours.rpartition('/')[2]}.")
