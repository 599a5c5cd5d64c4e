"""What NCCL's RAS service says of a running job: its communicators, and who is behind, missing or dead."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class RasGroup:
    """Communicators of one shape."""

    number: int
    communicators: int
    nodes: int
    ranks: int
    """Ranks in each of them."""
    status: str
    """ "RUNNING", "INIT", "FINALIZE", "ABORT", "MIXED", …"""
    errors: str
    """ "OK", "MISMATCH", "INCOMPLETE,ERROR", …"""


@dataclass(frozen=True, slots=True)
class RasRank:
    """A rank that is not where the others are."""

    rank: int | None
    """Its number in the communicator; None: only the process is known."""
    operations: int | None = None
    """Number of the last operation it has launched."""
    collective: str = ""
    pid: int | None = None
    node: str = ""
    gpu: int | None = None
    missing: bool = False
    """It gave no answer, or is dead."""
    stays: bool | None = None
    """Whether it was behind at the same operation a moment before; None: there was one look only, or it is missing."""


@dataclass(frozen=True, slots=True)
class RasReport:
    """The verbose status of a job."""

    version: str = ""
    processes: int | None = None
    groups: tuple[RasGroup, ...] = ()
    odd: tuple[RasRank, ...] = ()
    """Those that are behind first, then the missing."""
    most: int | None = None
    """Operation up to which most ranks have launched."""
    text: str = ""

    @property
    def well(self) -> bool:
        """Whether it finds nothing wrong."""
        return not self.odd and all(group.errors in ("OK", "") for group in self.groups)

    @property
    def behind(self) -> tuple[RasRank, ...]:
        """Ranks that have launched less than the others."""
        return tuple(each for each in self.odd if not each.missing and each.operations is not None)

    def since(self, before: RasReport) -> RasReport:
        """This report, with what of it was so at an earlier look."""
        known = {(each.rank, each.collective, each.operations) for each in before.behind}
        behind = set(self.behind)
        odd = (
            replace(each, stays=(each.rank, each.collective, each.operations) in known) if each in behind else each
            for each in self.odd
        )
        return replace(self, odd=tuple(odd))

    def of_all(self, processes: int) -> bool:
        """Whether its ranks are those of a job of so many processes, not those of a smaller communicator."""
        return all(group.ranks == processes for group in self.groups if group.errors not in ("OK", ""))

    def on(self, nodes: Mapping[tuple[int, int | None], str]) -> RasReport:
        """This report, with the names of nodes by rank and pid where NCCL knows addresses."""
        odd = (
            replace(each, node=nodes.get((each.rank, each.pid), each.node)) if each.rank is not None else each
            for each in self.odd
        )
        return replace(self, odd=tuple(odd))

    @property
    def words(self) -> str:
        """What it says, in a sentence; empty if there is no report."""
        if not self.version and not self.groups:
            return ""
        if self.well:
            number = sum(group.communicators for group in self.groups)
            which = "its communicator" if number == 1 else f"all {number:,} communicators"
            return f"NCCL {self.version}: all ranks of {which} are at the same operation."
        said = [self._of(each) for each in self.odd[:4]]
        if len(self.odd) > 4:
            said.append(f"and {len(self.odd) - 4} more")
        kinds = sorted({kind for group in self.groups for kind in group.errors.split(",") if kind not in ("OK", "")})
        moves = ", but they move on" if self.odd and all(each.stays is False for each in self.odd) else ""
        return f"NCCL says {' and '.join(kinds) or 'trouble'}: {'; '.join(said) or 'see its report'}{moves}."

    def _of(self, odd: RasRank) -> str:
        name = f"rank {odd.rank}" if odd.rank is not None else f"process {odd.pid}"
        where = f" on {odd.node}" if odd.node else ""
        if odd.missing:
            return f"{name}{where} does not answer"
        beside = f", the others {self.most:,}" if self.most is not None else ""
        return f"{name}{where} has launched {odd.operations:,} {odd.collective or 'operations'}{beside}"
