"""The page of node pools as Google reports them, including empty ones, and running operations."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import ClassVar

from textual import getters, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from console.errors import ConsoleError
from console.google.clusters import GkeOperation
from console.google.node_pools import PoolStatus, ProvisioningRequest, kind_words, operation_sentence
from console.kube.snapshot import Fleet
from screens.base import error_notice, error_runs
from screens.columns.google import NODE_POOLS
from screens.dialogs.pool_actions import PoolSizes
from screens.google_base import ASKING
from screens.widgets.line import CutLines
from screens.widgets.sentence_line import SentenceLine
from screens.widgets.table.row_painter import Notice
from screens.widgets.table.table import ResourceTable
from screens.wording import BAD, DONE, WAITS, Span, age, sentence

BAR = 16  # columns of a bar
MOST = 6  # rows that are shown
_REQUEST = {"provisioned": DONE, "failed": BAD, "revoked": BAD, "expired": BAD}


def operation_row(operation: GkeOperation, words: str, now: float) -> tuple[Span, ...]:
    """A row for an operation that is running or has failed."""
    began = Span(f"  began {age(now - operation.started)} ago" if operation.started else "", "dim")
    if operation.error:
        return (BAD, Span(f" {words} {sentence(operation.error)}", "bad"), began)
    return (DONE if operation.over else WAITS, Span(f" {words}  ", "text"), *bar(operation), began)


def bar(operation: GkeOperation) -> list[Span]:
    done, total = operation.done or 0, operation.total or 0
    if not total:
        return []
    full = BAR * done // total
    return [Span("█" * full, "accent"), Span("░" * (BAR - full), "faint"), Span(f" {done}/{total}", "text")]


def request_row(request: ProvisioningRequest, now: float) -> tuple[Span, ...]:
    """A row for a ProvisioningRequest (DWS)."""
    glyph = _REQUEST.get(request.state, WAITS)
    pods = f"{request.pods} pod" if request.pods == 1 else f"{request.pods} pods"
    why = f"  {sentence(request.why)}" if request.why else ""
    since = f"  asked {age(now - request.created)} ago" if request.created else ""
    return (glyph, Span(f" DWS: {request.namespace}/{request.name} for {pods}: ", "text"),
            Span(request.state, "strong"),
            Span(why, "dim"), Span(since, "dim"))  # fmt: skip


class ProgressRows(CutLines):
    """Shows as many rows as fit, and counts the others in the last line."""

    DEFAULT_CSS = "ProgressRows { height: auto; max-height: 7; padding: 0 0; }"

    def show(self, rows: Sequence[tuple[Span, ...]]) -> None:
        shown = tuple(rows[:MOST])
        if len(rows) > MOST:
            shown = (*shown, (Span(f"and {len(rows) - MOST} more", "dim"),))
        moved = len(shown) != len(self.lines)
        self.lines = shown
        if moved:
            self.styles.height = len(shown)


LATELY = 86400.0  # seconds for which an operation that failed is told of here


class FactsTable(ResourceTable[PoolStatus]):
    NOUN = "pool"
    EMPTY = Notice("No node pools.")
    COLUMNS: ClassVar = NODE_POOLS


class NodepoolsScreen(PoolSizes):
    """Pools above, operations below; Enter opens a pool, R and L change the selected one."""

    crumb = "node pools"
    KINDS = ("nodes",)
    OPENS = "pool"
    OF_CLUSTER = True
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r", "read", "Read again", id="nodepools.read", tooltip="Ask Google again"),
    ]
    DEFAULT_CSS = "NodepoolsScreen ProgressRows { margin-top: 1; } NodepoolsScreen SentenceLine { padding: 0 2; }"
    table = getters.query_one(FactsTable)
    about = getters.query_one(SentenceLine)
    progress = getters.query_one(ProgressRows)

    def body(self) -> ComposeResult:
        yield SentenceLine()
        yield FactsTable()
        yield ProgressRows()

    def on_mount(self) -> None:
        self.about.runs = ASKING

    @property
    def facts(self) -> PoolStatus | None:
        return self.table.row if self.is_mounted else None

    @on(ResourceTable.Highlighted)
    @on(ResourceTable.Changed)
    def _other_keys(self) -> None:
        self.refresh_bindings()

    def action_read(self) -> None:
        self.look_again()

    def pools_answered(self) -> None:
        self.table.show_trouble(None)
        self.show_fleet(self.app.fleet)

    def pools_refused(self, error: ConsoleError) -> None:
        self.table.show_trouble(error_notice(error))
        self.about.runs = error_runs(error.message)

    def show_fleet(self, fleet: Fleet) -> None:
        if self.pools is None or not self.app.connected:
            return
        found = self.pools = self.session.google.node_pools.again(self.pools)
        cluster, now = found.cluster, time.time()
        self.table.show_rows({(each.pool.name,): each for each in found.pools})
        runs = [Span(f"{cluster.path}  ", "strong"), Span(f"{cluster.status.lower()} · {cluster.version}", "text")]
        runs.append(Span(f" · maintenance {cluster.maintenance or 'at any time'}", "dim"))
        runs += [Span(f"   {name} not known: {sentence(why)}", "waits") for name, why in found.unread]
        self.about.runs = tuple(runs)
        rows = [
            operation_row(each, operation_sentence(each, each.pool or cluster.name), now)
            for each in found.operations
            if not each.over
        ]
        rows += [request_row(each, now) for each in found.requests]
        rows += [
            operation_row(each, f"{each.pool or cluster.name}: {kind_words(each.kind).lower()} failed:", now)
            for each in found.operations
            if each.over and each.error and now - each.started < LATELY
        ]
        self.progress.show(rows)
