"""For whom the others wait, among groups of processes that are at the same place (pure).

Stacks say it where the waiting call is Python's. Two usual ones are not: `loss.item()` waits for the GPU, and backward
of DDP for the other ranks, inside compiled code, so that such a rank seems to compute. That many are at the very same
line gives them away; NCCL RAS, which counts collectives, then knows whom they wait for, else all who are elsewhere.

Where nothing tells processes apart, as with NCCL tests, a rank that RAS finds behind at the same operation twice is the
one: ranks of a job that runs differ for moments only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from console.models.whereabouts import Doing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from console.models.hang import Traced
    from console.models.ras import RasReport

    Place = tuple[Doing, str]
    Groups = Mapping[Place, Sequence[Traced]]

HALTED = frozenset("TtZX")
"""Letters of the kernel for processes that are stopped, traced or dead."""


def suspects(groups: Groups, ras: RasReport) -> set[Place]:
    """The places of those for whom the others wait; empty where nobody stands out."""
    total = sum(map(len, groups.values()))
    rest = {place for place in groups if not place[0].waits_for_ranks}
    waiting = total - sum(len(groups[place]) for place in rest)
    told = _told(groups, ras, total)
    if waiting == total:
        return told | {place for place in groups if _small(groups[place], total)}
    if waiting * 2 < total:
        many = _at_one_line(groups, total)
        beside = {place for place in groups if place != many and _elsewhere(place, groups[place], total)}
        return told - {many} or beside if many else set()
    # Most wait for other ranks: those who do not are the ones they wait for, unless these only seem to compute.
    seeming = all(doing is Doing.COMPUTE for doing, _ in rest)
    return told if told and seeming and not told & rest else rest


def left_behind(groups: Groups, awaited: set[Place], ras: RasReport) -> frozenset[int]:
    """Ranks that seem to wait with the others, but stay behind in NCCL, so that the others wait for them."""
    members = {each.rank: each for several in groups.values() for each in several}
    if not ras.of_all(len(members)):
        return frozenset()
    waiting = all(doing.waits_for_ranks for doing, _ in groups)
    if not waiting and (awaited or _at_one_line(groups, len(members)) is None):
        return frozenset()  # who is elsewhere explains it, or the ranks merely work
    late = {each.rank for each in ras.behind if each.stays and each.rank in members
            and each.pid in (None, members[each.rank].pid)}  # fmt: skip
    if len(late) * 2 > len(members):
        return frozenset()
    return frozenset(rank for rank in late if rank is not None) - {
        each.rank for place in awaited for each in groups[place]
    }


def _told(groups: Groups, ras: RasReport, total: int) -> set[Place]:
    """Groups of ranks of which NCCL says that they have launched less, or do not answer."""
    named = {odd.rank for odd in ras.odd if odd.rank is not None and odd.stays is not False}
    if not 0 < len(named) < total:
        return set()
    return {place for place, members in groups.items() if {each.rank for each in members} <= named}


def _at_one_line(groups: Groups, total: int) -> Place | None:
    """The place of at least half of the ranks, if it is one line of a program that seems to compute."""
    many = max((place for place in groups if place[0] is Doing.COMPUTE), key=lambda at: len(groups[at]), default=None)
    if many is None or len(groups[many]) * 2 < total or len({each.where.frame for each in groups[many]}) > 1:
        return None
    return many


def _elsewhere(place: Place, members: Sequence[Traced], total: int) -> bool:
    """Whether these stand out: they wait for something of their own, are no more, or compute while few others do."""
    if place[0] is Doing.UNKNOWN:
        return all(each.pid is None or each.state in HALTED for each in members)
    return place[0] is not Doing.COMPUTE or _small(members, total)


def _small(members: Sequence[Traced], total: int) -> bool:
    return len(members) * 4 <= total
