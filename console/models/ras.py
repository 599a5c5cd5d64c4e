"""What NCCL's RAS service says of a running job: its communicators, and who is behind, missing or dead."""

from __future__ import annotations

from dataclasses import dataclass


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
        return f"NCCL says {' and '.join(kinds) or 'trouble'}: {'; '.join(said) or 'see its report'}."

    def _of(self, odd: RasRank) -> str:
        name = f"rank {odd.rank}" if odd.rank is not None else f"process {odd.pid}"
        where = f" on {odd.node}" if odd.node else ""
        if odd.missing:
            return f"{name}{where} does not answer"
        beside = f", the others {self.most:,}" if self.most is not None else ""
        return f"{name}{where} has launched {odd.operations:,} {odd.collective or 'operations'}{beside}"
