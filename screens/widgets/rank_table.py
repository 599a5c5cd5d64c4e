"""The ranks of a job: pod, node, state, and how each ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from console.models.ranks import Rank
from screens import wording
from screens.widgets.column import Column, since
from screens.widgets.notice import Notice
from screens.widgets.table import ResourceTable
from screens.wording import Run

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from screens.wording import Cell


def rank_glyph(rank: Rank) -> Run:
    """The mark of a rank's state."""
    if rank.pod is None:
        return wording.IDLE
    if rank.failed:
        return wording.BAD
    return wording.pod_glyph(rank.status, ready=rank.ready)


def _status(rank: Rank) -> Cell:
    glyph = rank_glyph(rank)
    word = rank.status if rank.pod else "no pod"
    return [glyph, Run(f" {word}", "bad" if rank.failed else "dim" if rank.pod is None else "")]


def _node(width: int) -> Callable[[Rank], Cell]:
    """The end of a long name tells nodes of a pool apart, its beginning does not."""

    def cell(rank: Rank) -> Cell:
        if not rank.node:
            return Run("─", "faint")
        return rank.node if len(rank.node) <= width else "…" + rank.node[1 - width :]

    return cell


def _ended(rank: Rank) -> Cell:
    if rank.exit_code is None:
        return ""
    return Run(str(rank.exit_code), "bad" if rank.exit_code else "dim")


def rank_columns(width: int) -> Sequence[Column[Rank]]:
    """Columns of the ranks on a line of that width."""
    return (
        Column("POD", lambda rank: str(rank.number), width=4, right=True, sort=lambda rank: rank.number),
        Column("STATUS", _status, width=20, sort=lambda rank: rank.status),
        Column("NAME", lambda rank: rank.name or Run("─", "faint"), least=16, sort=lambda rank: rank.name),
        Column("NODE", _node(max(16, width // 5)), least=8, sort=lambda rank: rank.node),
        Column("GPUS", lambda rank: str(rank.gpus or ""), width=4, right=True, drop=3),
        Column("RESTARTS", lambda rank: Run(str(rank.restarts), "waits" if rank.restarts else "faint"), width=8,
               right=True, drop=2),
        Column("EXIT", _ended, width=4, right=True),
        since("AGE", lambda rank: rank.pod.created if rank.pod else 0.0),
    )  # fmt: skip


class RankTable(ResourceTable[Rank]):
    """All ranks the job asks for; Enter opens a rank's log."""

    NOUN = "pod"
    EMPTY = Notice("This job asks for no pods.")

    def on_resize(self) -> None:
        """Long names of nodes are cut where the line is short."""
        self.set_columns(rank_columns(self.size.width))
        super().on_resize()
