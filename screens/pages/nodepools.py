"""Node pools as Google has them: also those without a machine now, and everything under way in the cluster."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, ClassVar

from textual import getters, on, work
from textual.binding import Binding, BindingType

from console.errors import ConsoleError
from console.google.node_pools import PoolStatus, kind_words, operation_sentence
from screens.columns.google import NODE_POOLS
from screens.dialogs.pool_actions import PoolSizes
from screens.google_base import ASKING
from screens.widgets.sentence_line import SentenceLine
from screens.widgets.table.progress_rows import ProgressRows, operation_row, request_row
from screens.widgets.table.row_painter import Notice
from screens.widgets.table.table import ResourceTable
from screens.wording import Span, sentence

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from console.google.node_pools import PoolsSnapshot
    from console.kube.snapshot import Fleet
    from console.session import Session

LATELY = 86400.0  # seconds for which an operation that failed is told of here


class FactsTable(ResourceTable[PoolStatus]):
    """Pools as Google has them."""

    NOUN = "pool"
    EMPTY = Notice("No node pools.")
    COLUMNS: ClassVar = NODE_POOLS


class NodepoolsScreen(PoolSizes):
    """Pools above, what is under way below; Enter opens a pool, R and L change the one under the cursor."""

    KINDS = ("nodes",)
    OF_CLUSTER = True
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r", "read", "Read again", id="nodepools.read", tooltip="Ask Google again"),
    ]
    DEFAULT_CSS = "NodepoolsScreen ProgressRows { margin-top: 1; } NodepoolsScreen SentenceLine { padding: 0 2; }"
    table = getters.query_one(FactsTable)
    about = getters.query_one(SentenceLine)
    progress = getters.query_one(ProgressRows)

    _picture: PoolsSnapshot | None = None

    @property
    def crumb(self) -> str:
        return "node pools"

    def body(self) -> ComposeResult:
        """The cluster in a sentence, its pools, what is under way."""
        yield SentenceLine()
        yield FactsTable()
        yield ProgressRows()

    def on_mount(self) -> None:
        self.table.focus()
        self.about.runs = ASKING

    def on_screen_suspend(self) -> None:
        self.workers.cancel_group(self, "google")

    def on_screen_resume(self) -> None:
        super().on_screen_resume()
        if self.is_mounted:
            self.action_read()

    @property
    def facts(self) -> PoolStatus | None:
        return self.table.row if self.is_mounted else None

    def look_again(self) -> None:
        self.action_read()

    @on(ResourceTable.Highlighted)
    @on(ResourceTable.Changed)
    def _other_keys(self) -> None:
        self.refresh_bindings()

    def action_read(self) -> None:
        if self.app.connected:
            self._follow(self.session)

    @work(group="google", exclusive=True)
    async def _follow(self, session: Session) -> None:
        async for told in session.google.node_pools.follow():
            if isinstance(told, ConsoleError):
                self.table.show_trouble(Notice(told.message, told.hint, "✗", "bad"))
                self.about.runs = (Span("✗ ", "bad"), Span(sentence(told.message), "bad"))
                continue
            self.table.show_trouble(None)
            self._picture = told
            self.show_fleet(self.app.fleet)

    def show_fleet(self, fleet: Fleet) -> None:
        if self._picture is None or not self.app.connected:
            return
        picture = self._picture = self.session.google.node_pools.again(self._picture)
        cluster, now = picture.cluster, time.time()
        self.table.show_rows({(each.pool.name,): each for each in picture.pools})
        runs = [Span(f"{cluster.path}  ", "strong"), Span(f"{cluster.status.lower()} · {cluster.version}", "text")]
        runs.append(Span(f" · maintenance {cluster.maintenance or 'at any time'}", "dim"))
        runs += [Span(f"   {name} not known: {sentence(why)}", "waits") for name, why in picture.unread]
        self.about.runs = tuple(runs)
        rows = [
            operation_row(each, operation_sentence(each, each.pool or cluster.name), now)
            for each in picture.operations
            if not each.over
        ]
        rows += [request_row(each, now) for each in picture.requests]
        rows += [
            operation_row(each, f"{each.pool or cluster.name}: {kind_words(each.kind).lower()} failed:", now)
            for each in picture.operations
            if each.over and each.error and now - each.started < LATELY
        ]
        self.progress.show(rows)

    @on(ResourceTable.Opened)
    def _open(self, event: ResourceTable.Opened) -> None:
        event.stop()
        self.app.open_page("pool", *event.key)
