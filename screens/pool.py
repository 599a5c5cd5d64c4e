"""The nodes of one pool."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from textual import getters, on

from console.models.places import Host, PipState, host
from console.models.pools import pools
from screens.node_actions import NodeActions
from screens.widgets.column import Column, since
from screens.widgets.node_words import node_state
from screens.widgets.notice import Notice
from screens.widgets.summary_line import SummaryLine
from screens.widgets.table import ResourceTable
from screens.wording import Cell, Run, count, number

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.app import ComposeResult

    from console.models.fleet import Fleet
    from console.models.node import Node
    from console.models.pools import Pool


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A node with what is on it."""

    node: Node
    pips: tuple[Run, ...]
    free: int
    jobs: str
    pods: int


def node_row(each: Host, fleet: Fleet, ink_of: Callable[[str], str]) -> NodeRow:
    """The row of one machine."""
    holders = dict.fromkeys(pip.holder for pip in each.pips if pip.holder)
    pips = tuple(
        Run("■", ink_of(pip.holder.uid)) if pip.holder
        else Run("·", "text") if pip.state is PipState.FREE
        else Run("✗", "bad") if each.node.faults
        else Run("‖", "dim")
        for pip in each.pips
    )  # fmt: skip
    live = sum(not pod.finished for pod in fleet.pods_by_node.get(each.node.name, ()))
    return NodeRow(each.node, pips, each.free, ", ".join(holder.name for holder in holders), live)


def pips_cell(row: NodeRow) -> Cell:
    """A pip per GPU."""
    return list(row.pips)


class NodeTable(ResourceTable[NodeRow]):
    """Nodes of one pool."""

    NOUN = "node"
    EMPTY = Notice("This pool has no nodes now.")
    SORTED_BY = "NODE"
    COLUMNS: ClassVar = (
        Column("NODE", lambda row: Run(row.node.name, "strong"), least=12, most=60, sort=lambda row: row.node.name),
        Column("BLOCK", lambda row: row.node.block, most=12, drop=5,
               sort=lambda row: (row.node.block, row.node.subblock)),
        Column("SUBBLOCK", lambda row: row.node.subblock, most=12, drop=6,
               sort=lambda row: (row.node.block, row.node.subblock)),
        Column("GPUS", pips_cell, least=8, most=16, sort=lambda row: len(row.pips)),
        Column("FREE", lambda row: str(row.free) if row.pips else "", width=5, right=True,
               sort=lambda row: row.free, down=True),
        Column("JOBS", lambda row: row.jobs, least=6, most=40, drop=3, sort=lambda row: row.jobs),
        Column("PODS", lambda row: str(row.pods), width=5, right=True, drop=4, sort=lambda row: row.pods, down=True),
        Column("SCAN", lambda row: number(row.node.last_busbw) if row.node.last_busbw is not None else "", width=5,
               right=True, drop=7, ink="dim", sort=lambda row: row.node.last_busbw or 0.0, down=True),
        Column("STATE", lambda row: node_state(row.node, time.time()), fill=True, least=10, ages=True,
               sort=lambda row: (not row.node.faults, not row.node.maintenance_at, not row.node.cordoned)),
        since("AGE", lambda row: row.node.created, drop=2),
    )  # fmt: skip

    def row_text(self, row: NodeRow) -> str:
        """Names, place, jobs, faults."""
        node = row.node
        return f"{node.name} {node.block} {node.subblock} {node.host} {row.jobs} {' '.join(node.faults)} {node.zone}"


class PoolScreen(NodeActions):
    """A pool's page."""

    KINDS = ("nodes", "pods")
    table = getters.query_one(NodeTable)
    summary = getters.query_one(SummaryLine)

    def __init__(self, name: str) -> None:
        super().__init__()
        self._pool = name
        self._cordoned: bool | None = None

    @property
    def crumb(self) -> str:
        """The pool's name."""
        return self._pool

    def body(self) -> ComposeResult:
        """A line about the pool, its nodes."""
        yield SummaryLine()
        yield NodeTable()

    def show_fleet(self, fleet: Fleet) -> None:
        """Its nodes in that picture."""
        pool = next((each for each in pools(fleet) if each.name == self._pool), None)
        rows = [node_row(host(node, fleet), fleet, self.app.job_ink) for node in pool.nodes] if pool else []
        self.table.show_rows({(row.node.name,): row for row in rows}, fleet.links.get("nodes"))
        self.summary.runs = self._about(pool) if pool else ()

    def _about(self, pool: Pool) -> tuple[Run, ...]:
        parts = (
            f"{pool.gpus_used} of {pool.gpus_total} GPUs in use, {pool.gpus_free} free" if pool.gpus_total else "",
            pool.machine_type, " ".join(part for part in (str(pool.provisioning), pool.reservation) if part),
            ", ".join(pool.zones),
        )  # fmt: skip
        return (
            Run(f"{pool.nodes_ready} of {count(pool.nodes_total, 'node')} ready   ", "strong"),
            Run("   ".join(part for part in parts if part), "dim"),
        )

    @property
    def node_names(self) -> list[str]:
        """The marked nodes, else the one under the cursor."""
        return [key[0] for key in self.table.chosen]

    @on(ResourceTable.Highlighted)
    @on(ResourceTable.Changed)
    def _other_keys(self) -> None:
        row = self.table.row
        closed = row.node.cordoned if row else None
        if closed is not self._cordoned or self.table.marks:
            self._cordoned = closed
            self.refresh_bindings()

    @on(ResourceTable.Opened)
    def _open_node(self, event: ResourceTable.Opened) -> None:
        self.app.open_page("node", *event.key)
