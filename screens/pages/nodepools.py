"""The page of node pools as Google reports them, with running operations, and the page of one node pool."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import getters, on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from console.errors import ConsoleError, NotFound
from console.google.clusters import GkeOperation
from console.google.node_pools import (
    PoolsSnapshot,
    PoolStatus,
    ProvisioningRequest,
    format_operation,
    format_operation_kind,
    format_operation_of,
)
from console.kube.objects.node import Node
from console.kube.snapshot import Fleet
from console.kube.stream_completeness import SERVER_CLOCK
from console.scheduling.topology import Pool, build_pools, format_gpu_sum, host
from screens.columns.google import NODE_POOLS, POOL_GLYPHS
from screens.columns.nodes import NODES, NodeRow, node_row
from screens.columns.pods import status_cell
from screens.dialogs.pool_actions import NodeActions, PoolSizes, report_host
from screens.google_pages import ASKING_GOOGLE
from screens.list_and_pane import PanedScreen
from screens.live_screen import error_notice, error_spans
from screens.pages.node import events_of_node, node_facts
from screens.widgets.side_pane import Lines, event_lines, fact_lines, whole_lines
from screens.widgets.styled_text import CutLines
from screens.widgets.table.row_painter import EmptyNotice
from screens.widgets.table.table import ResourceTable
from screens.widgets.wrapped_sentence import SentenceLine, SummaryLine, fold_spans
from screens.wording import BAD, DONE, OK, UNDER_WAY, Span, age, count, sentence, short_node, spans_of

BAR_COLUMNS = 16  # columns of a bar
MOST = 6  # rows that are shown
_REQUEST_MARKS = {"provisioned": DONE, "failed": BAD, "revoked": BAD, "expired": BAD}


def operation_row(operation: GkeOperation, words: str, now: float) -> tuple[Span, ...]:
    began = Span(f"  began {age(now - operation.started)} ago" if operation.started else "", "dim")
    if operation.error:
        return (BAD, Span(f" {words} {sentence(operation.error)}", "bad"), began)
    return (DONE if operation.over else UNDER_WAY, Span(f" {words}  ", "text"), *progress_bar(operation), began)


def progress_bar(operation: GkeOperation) -> list[Span]:
    done, total = operation.done or 0, operation.total or 0
    if not total:
        return []
    full = BAR_COLUMNS * done // total
    return [Span("█" * full, "accent"), Span("░" * (BAR_COLUMNS - full), "faint"), Span(f" {done}/{total}", "text")]


def request_row(request: ProvisioningRequest, now: float) -> tuple[Span, ...]:
    glyph = _REQUEST_MARKS.get(request.state, UNDER_WAY)
    pods = f"{request.pods} pod" if request.pods == 1 else f"{request.pods} pods"
    why = f"  {sentence(request.why)}" if request.why else ""
    since = f"  asked {age(now - request.created)} ago" if request.created else ""
    return (
        glyph,
        Span(f" DWS: {request.namespace}/{request.name} for {pods}: ", "text"),
        Span(request.state, "strong"),
        Span(why, "dim"),
        Span(since, "dim"),
    )


class ProgressRows(CutLines):
    """The pool operations under way, one wrapped row each, and a line that counts those without room."""

    DEFAULT_CSS = "ProgressRows { height: auto; max-height: 9; padding: 0 0; }"
    _rows: Sequence[tuple[Span, ...]] = ()

    def show(self, rows: Sequence[tuple[Span, ...]]) -> None:
        self._rows = [*rows[:MOST], (Span(f"and {len(rows) - MOST} more", "dim"),)] if len(rows) > MOST else rows
        self.on_resize()

    def on_resize(self) -> None:
        self.lines = tuple(tuple(each) for row in self._rows for each in fold_spans(row, max(20, self.size.width - 3)))
        self.styles.height = len(self.lines)


RECENT_FAILURE_SECONDS = 86400.0  # seconds for which an operation that failed is shown here


class FactsTable(ResourceTable[PoolStatus]):
    NOUN = "pool"
    EMPTY = EmptyNotice("No node pools.")
    COLUMNS: ClassVar = NODE_POOLS


class NodepoolsScreen(PoolSizes):
    """The Node pools page: pools, and operations below; Enter opens a pool, R and L change the selected one."""

    trail_name = "node pools"
    KINDS = ("nodes",)
    ROW_PAGE = "pool"
    OF_CLUSTER = True
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r", "read", "Read again", id="nodepools.read", tooltip="Ask Google again")
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
        self.about.runs = ASKING_GOOGLE

    @property
    def pool_status(self) -> PoolStatus | None:
        return self.table.row if self.is_mounted else None

    @on(ResourceTable.Highlighted)
    @on(ResourceTable.Changed)
    def _update_key_line(self) -> None:
        self.refresh_bindings()

    def action_read(self) -> None:
        self.poll_again()

    def pools_answered(self) -> None:
        self.table.show_trouble(None)
        self.show_fleet(self.app.fleet)

    def pools_refused(self, error: ConsoleError) -> None:
        self.table.show_trouble(error_notice(error))
        self.about.runs = error_spans(error.message)

    def show_fleet(self, fleet: Fleet) -> None:
        if self.pools is None or not self.app.connected:
            return
        found = self.pools = self.session.google.node_pools.with_current_nodes(self.pools)
        cluster, now = found.cluster, SERVER_CLOCK.now()
        self.table.show_rows({(each.pool.name,): each for each in found.pools})
        runs = [Span(f"{cluster.path}  ", "strong"), Span(f"{cluster.status.lower()} · {cluster.version}", "text")]
        runs.append(Span(f" · maintenance {cluster.maintenance or 'at any time'}", "dim"))
        runs += [Span(f"   {name} not known: {sentence(why)}", "waits") for name, why in found.unread]
        self.about.runs = tuple(runs)
        nodes = {each.pool.name: each.nodes for each in found.pools}
        rows = [
            operation_row(each, format_operation_of(each, each.pool or cluster.name, nodes.get(each.pool, 0)), now)
            for each in found.operations
            if not each.over
        ]
        rows += [request_row(each, now) for each in found.requests]
        rows += [
            operation_row(each, f"{each.pool or cluster.name}: {format_operation_kind(each.kind).lower()} failed:", now)
            for each in found.operations
            if each.over and each.error and now - each.started < RECENT_FAILURE_SECONDS
        ]
        self.progress.show(rows)


class NodeTable(ResourceTable[NodeRow]):
    LIST = "nodes"
    NOUN = "node"
    EMPTY = EmptyNotice("This pool has no nodes now.")
    SORTED_BY = "NODE"
    COLUMNS: ClassVar = NODES.columns

    def row_text(self, row: NodeRow) -> str:
        node = row.node
        return f"{node.name} {node.block} {node.subblock} {node.host} {row.jobs} {' '.join(row.faults)} {node.zone}"


class PoolScreen(PanedScreen, PoolSizes, NodeActions):
    """Google's state of a node pool, its operations, and its nodes."""

    DEFAULT_CSS = "PoolScreen #of-google { padding: 0 2; }"
    KINDS = ("nodes", "pods")
    ROW_PAGE = "node"
    OF_CLUSTER = True
    CHANGES_CLUSTER = PoolSizes.CHANGES_CLUSTER | NodeActions.CHANGES_CLUSTER | {"report"}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "F",
            "report",
            "Report faulty",
            key_display="F",
            id="pool.report",
            tooltip="Report the host of this node as faulty, so that Google replaces it. Asks for its name",
        )
    ]

    table = getters.query_one(NodeTable)
    summary = getters.query_one("#of-nodes", SummaryLine)
    google = getters.query_one("#of-google", SentenceLine)
    progress = getters.query_one(ProgressRows)

    def __init__(self, name: str) -> None:
        super().__init__()
        self._pool = name
        self.trail_name = name
        self._cordon_state: tuple[bool, str] | None = None

    def body(self) -> ComposeResult:
        yield SummaryLine(id="of-nodes", classes="of-snapshot")
        yield SentenceLine(id="of-google")
        yield ProgressRows()
        yield from self.beside_pane(NodeTable())

    @property
    def pool_status(self) -> PoolStatus | None:
        return self.pools.find_pool(self._pool) if self.pools else None

    def pools_answered(self) -> None:
        self._show_google()
        self.refresh_bindings()

    def pools_refused(self, error: ConsoleError) -> None:
        if not isinstance(error, NotFound):  # a cluster that is none of GKE's has no such side
            self.google.runs = (Span("Google: ", "dim"), Span(f"{error.message} ", "waits"), Span(error.hint, "dim"))

    def _show_google(self) -> None:
        """Show Google's data on the pool, merged with the current nodes."""
        if self.pools is None:
            return
        self.pools = self.session.google.node_pools.with_current_nodes(self.pools)
        facts = self.pools.find_pool(self._pool)
        now = SERVER_CLOCK.now()
        if facts is None:
            self.google.runs = (Span("Google has no pool of this name in the cluster.", "dim"),)
            self.progress.show([])
            return
        self.google.runs = pool_fact_spans(facts, self.pools)
        reports = [failed_row(node) for node in self.app.fleet.nodes.values() if node.pool == self._pool and node.fault]
        # Rows for operations on this pool, then on the whole cluster, then the last failures.
        picture = self.pools
        name = facts.pool.name
        rows = [
            operation_row(each, format_operation_of(each, name, facts.nodes).removeprefix(f"{name}: "), now)
            for each in facts.operations
        ]
        rows += [
            operation_row(each, sentence(format_operation(each)), now)
            for each in picture.operations
            if not each.over and not each.pool
        ]
        if facts.failed is not None:
            rows.append(operation_row(facts.failed, f"{format_operation_kind(facts.failed.kind)} failed:", now))
        if facts.pool.queued or facts.pool.flex_start:
            rows += [request_row(each, now) for each in picture.requests]
        self.progress.show([*rows, *reports])

    def tick(self) -> None:
        super().tick()
        if self.is_current and self.app.connected:
            self._show_google()

    def show_fleet(self, fleet: Fleet) -> None:
        pool = next((each for each in build_pools(fleet) if each.name == self._pool), None)
        measured, nodes = self.bandwidth_of_nodes(), pool.nodes if pool else ()
        rows = [node_row(host(node, fleet), fleet, self.app.job_style, measured.get(node.name)) for node in nodes]
        self.table.show_rows({(row.node.name,): row for row in rows}, fleet.links.get("nodes"))
        self.summary.runs = self._pool_details(pool) if pool else ()
        self.redraw_pane()

    def pane_lines(self, width: int, height: int, now: float) -> Lines:
        row, fleet = self.table.row, self.app.fleet
        if row is None:
            return []
        node = row.node
        found = [*whole_lines([Span(node.name, "strong")], width), []]
        found += fact_lines(node_facts(node, fleet, now, self.bandwidth_of_nodes().get(node.name)), width)
        pods = sorted(fleet.pods_by_node.get(node.name, ()), key=lambda pod: (pod.finished, -pod.gpus, pod.key))
        found += [[], [Span("pods", "head")]] if pods else []
        for pod in pods[:8]:
            gpus = f"{pod.gpus} GPUs  " if pod.gpus else ""
            found.append([*spans_of(status_cell(pod)), Span(f"  {gpus}", "dim"), Span(pod.name)])
        found += [[Span(f"and {len(pods) - 8} more", "dim")]] if len(pods) > 8 else []
        return [*found, *event_lines(events_of_node(node, fleet), now, width, height - len(found))]

    def _pool_details(self, pool: Pool) -> tuple[Span, ...]:
        parts = (
            format_gpu_sum(pool.floor),
            pool.machine_type,
            ", ".join(pool.zones),
            " ".join(part for part in (str(pool.provisioning), pool.reservation) if part),
        )
        return (
            Span(f"{pool.nodes_ready} of {count(pool.nodes_total, 'node')} ready   ", "strong"),
            Span("   ".join(part for part in parts if part), "dim"),
        )

    @property
    def node_names(self) -> list[str]:
        return [key[0] for key in self.table.chosen_keys]

    @on(ResourceTable.Highlighted)
    @on(ResourceTable.Changed)
    def _update_key_line(self) -> None:
        row = self.table.row
        closed = (row.node.cordoned, row.node.fault) if row else None
        if closed is not self._cordon_state or self.table.marks:
            self._cordon_state = closed
            self.refresh_bindings()

    # the report of a faulty host

    def offers(self) -> dict[str, object]:
        return super().offers() | {"report": self.pool_status and self._nodes_to_report()}

    def _nodes_to_report(self) -> list[Node]:
        if not self.app.connected:
            return []
        pools = self.session.google.node_pools
        return [node for node in self.nodes()[:1] if not pools.why_not_reportable(node)]

    @work(group="actions")
    async def action_report(self) -> None:
        node = next(iter(self._nodes_to_report()), None)
        if node is None:
            return
        with self.report_errors(f"Could not report {node.name}"):
            if await report_host(self, node):
                self.poll_again()


def pool_fact_spans(status: PoolStatus, snapshot: PoolsSnapshot) -> tuple[Span, ...]:
    """State, sizes and settings of a pool as spans, the most urgent first."""
    pool = status.pool
    runs = [POOL_GLYPHS[status.state], Span(f" Google: {pool.status.lower().replace('_', ' ')}   ", "strong")]
    if status.target_size is not None:
        runs.append(Span(f"{status.ready} of {count(status.target_size, 'wanted node')} ready   ", "text"))
    rows = {format_operation(each, status.nodes) for each in status.operations}  # they stand below, with their bars
    sentences = [text for text in status.sentences if text not in rows and not status.failed]
    runs += [Span(f"{sentence(text)}   ", "bad" if status.state == "bad" else "waits") for text in sentences]
    parts = [
        f"autoscaling {status.limits}" if pool.autoscaling else "no autoscaling",
        status.provisioning,
        f"{pool.placement.lower()} placement" if pool.placement else "",
        f"upgrades {pool.surge} more, {pool.unavailable} fewer at a time" if pool.auto_upgrade else "no auto-upgrade",
        "auto-repair" if pool.auto_repair else "no auto-repair",
        pool.version,
        f"maintenance {snapshot.cluster.maintenance}" if snapshot.cluster.maintenance else "maintenance at any time",
    ]
    runs.append(Span(" · ".join(part for part in parts if part), "dim"))
    runs += [Span(f"   {name} not known: {sentence(why)}", "waits") for name, why in snapshot.unread]
    return tuple(runs)


REPAIRS = {
    "podsevicted": (UNDER_WAY, "its pods are evicted"),
    "operationrunning": (UNDER_WAY, "the host is being replaced"),
    "operationdone": (OK, "it has been replaced"),
    "error": (BAD, "Google could not replace it"),
}
"""(sign, text) of each step of a node repair, by the value of the node's label."""


def failed_row(node: Node) -> tuple[Span, ...]:
    unknown = (UNDER_WAY, node.repair or "Google has not taken it up yet")
    glyph, words = REPAIRS.get(node.repair.lower(), unknown)
    about = Span(f"reported faulty ({node.fault}): ", "dim")
    return (glyph, Span(f" {short_node(node.name)} ", "text"), about, Span(words, "waits"))
