"""The page of Google's clusters that this login may see, to connect to one."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import ClassVar

from textual import getters, on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from console.errors import ApiDisabled, ConsoleError
from console.google.account import Cloud
from console.google.clusters import Clusters, GkeCluster
from console.google.services import GoogleServices
from console.kube.snapshot import Fleet
from screens.base import error_notice, error_runs
from screens.columns.column import RowKey
from screens.columns.google import CLUSTERS, ClusterRow
from screens.dialogs.question import Prompt
from screens.google_base import AskingScreen, enable_service
from screens.widgets.sentence_line import SentenceLine, SummaryLine
from screens.widgets.table.row_painter import Notice
from screens.widgets.table.table import ResourceTable
from screens.wording import Span, count, sentence


class ClusterTable(ResourceTable[ClusterRow]):
    NOUN = "cluster"
    EMPTY = Notice("No clusters.", "The login sees no project with a cluster.")
    COLUMNS: ClassVar = CLUSTERS

    def row_text(self, row: ClusterRow) -> str:
        place = f"{row.cluster.name} {row.cluster.location} {row.cluster.status}" if row.cluster else ""
        return f"{row.project} {place}"


AGAIN = 60.0  # seconds between two looks while this is shown; each that failed doubles them
LONGEST = 600.0


class ClustersScreen(AskingScreen):
    crumb = "clusters"
    KINDS = ("nodes",)
    CHANGES_CLUSTER = frozenset({"enable"})
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("w", "write", "Write kubeconfig", id="clusters.write",
                tooltip="Put the cluster into a kubeconfig, beside what is there"),
        Binding("E", "enable", "Enable the API", key_display="E", id="clusters.enable",
                tooltip="Enable Google's container service in this project. Asks first"),
        Binding("r", "read", "Read again", id="clusters.read", tooltip="Ask Google again"),
    ]  # fmt: skip
    table = getters.query_one(ClusterTable)
    told = getters.query_one(SentenceLine)

    _alone: GoogleServices | None = None
    _found: Clusters | None = None

    def body(self) -> ComposeResult:
        yield SummaryLine()
        yield ClusterTable()
        yield SentenceLine()

    def show_fleet(self, fleet: Fleet) -> None:
        self._show()

    def _trouble_changed(self) -> None:
        """Only update the title: this page also works without a connected cluster."""
        self._show_title()

    async def cloud(self) -> Cloud:
        if self.app.connected:
            return self.session.google.cloud
        if self._alone is None:
            from console.google.services import GoogleServices

            self._alone = GoogleServices()
        return self._alone.cloud

    async def on_unmount(self) -> None:
        if self._alone is not None:
            await self._alone.close()

    @work(group="clusters", exclusive=True)
    async def read(self) -> None:
        """Read the clusters as they arrive, again at intervals while the page is visible."""
        pause = AGAIN
        while True:
            if self.is_current:
                pause = AGAIN if await self._read_once() else min(LONGEST, pause * 2)
            await asyncio.sleep(pause)

    async def _read_once(self) -> bool:
        try:
            async for picture in (await self.cloud()).follow_clusters():
                if self._found is None or len(picture.clusters) >= len(self._found.clusters):
                    self._found = picture
                    self._show(growing=True)
            self._found = picture
        except ConsoleError as error:
            self.table.show_trouble(error_notice(error))
            self.summary.runs = error_runs(error.message)
            return False
        self.table.show_trouble(None)
        self._show()
        return True

    def _show(self, *, growing: bool = False) -> None:
        found = self._found
        if found is None:
            return
        here = self.app.session.context if self.app.connected else ""
        practice = self.app.settings.practice
        rows: dict[RowKey, ClusterRow] = {}
        for each in found.clusters:
            mine = here == each.context or (practice and here == "practice" and each.name == "practice")
            rows[each.project, each.location, each.name] = ClusterRow(each.project, each, here=mine)
        for project, error in found.unread:
            rows[project, "", ""] = ClusterRow(project, error=error)
        first = not self.table.shown or self.table.cursor == self.table.shown[0]
        self.table.show_rows(dict(sorted(rows.items(), key=lambda pair: not pair[1].here)))
        if first and self.table.shown:  # what comes in front of it is meanwhile where the cursor belongs
            self.table.move_to(self.table.shown[0])
        words = f"{count(len(found.clusters), 'cluster')} in {count(len({k[0] for k in rows}), 'project')}"
        runs = [Span(words, "strong")]
        if found.unread:
            runs.append(Span(f"   {count(len(found.unread), 'project')} not read", "bad"))
        if found.missing_zones:
            runs.append(Span(f"   no answer from {', '.join(found.missing_zones)}: clusters may be missing", "waits"))
        if growing:
            runs.append(Span("   asking on …", "dim"))
        self.summary.runs = tuple(runs)
        self._show_details()

    @on(ResourceTable.Highlighted)
    def _show_details(self) -> None:
        row = self.table.row
        self.told.runs = tuple(self._details_of(row)) if row is not None else ()
        self.refresh_bindings()

    def _details_of(self, row: ClusterRow) -> list[Span]:
        may_enable = not self.session.watch.read_only if self.app.connected else True
        if row.error is not None:
            hint = "E enables it." if may_enable and isinstance(row.error, ApiDisabled) else row.error.hint
            return [Span(f"{row.project}: ", "strong"), Span(row.error.message), Span(f" {hint}", "dim")]
        cluster = row.cluster
        assert cluster is not None
        pools = ", ".join(f"{each.name} ({each.machine_type})" for each in cluster.pools) or "no pools"
        ways = [f"IP {cluster.endpoint}" if cluster.endpoint else "", cluster.dns_endpoint]
        inside = cluster.private and not cluster.dns_endpoint
        return [
            Span(f"{cluster.path}  ", "strong"),
            Span("you are here, Enter shows its node pools  " if row.here else "", "accent"),
            Span(f"{sentence(cluster.message)}  " if cluster.message else "", "bad"),
            Span(pools, "text"),
            Span(f"   {', '.join(filter(None, ways)) or 'no address'}", "dim"),
            Span("   only from inside its network" if inside else "", "waits"),
            Span(f"   maintenance: {cluster.maintenance}" if cluster.maintenance else "", "dim"),
        ]

    def offers(self) -> dict[str, object]:
        row = self.table.row
        return {"enable": row and isinstance(row.error, ApiDisabled), "write": row and row.cluster}

    @on(ResourceTable.Opened)
    def _open(self, event: ResourceTable.Opened) -> None:
        event.stop()
        row = self.table.row
        if row is None or row.cluster is None:
            words = "".join(run.text for run in self._details_of(row)) if row else ""
            self.notify(words, title="Nothing to connect to", severity="warning")
        elif row.here:
            self.app.open_page("nodepools")
        else:
            self.connect(row.cluster)

    @work(group="actions", exclusive=True)
    async def connect(self, cluster: GkeCluster) -> None:
        """Connect to that cluster; on failure the current connection stays."""
        self.notify(f"Connecting to {cluster.path} …", timeout=2)
        with self.report_errors(f"Could not connect to {cluster.name}"):
            cloud = await self.cloud()
            if self.app.connected:
                await cloud.switch_to_cluster(cluster)
            else:
                await cloud.fetch_server_version(cluster)
                self.app.settings = self.app.settings._replace(context=cluster.context)
                await self.app.action_reconnect()
            self.app.only_namespace = ""
            self.app.refresh_bindings()
            self.app.pop_screen()
            await self.app.action_switch_mode("fleet")
            self.app.notify(f"Connected to {cluster.path}; nothing was written.", timeout=4)

    @work(group="actions")
    async def action_write(self) -> None:
        cluster = self.table.row.cluster if self.table.row else None
        if cluster is None:
            return
        cloud = await self.cloud()
        usual = "" if self.app.settings.practice else str(cloud.default_kubeconfig())
        hint = "An entry of that name is replaced; all else stays. No token is written. Esc cancels."
        path = await self.app.push_screen_wait(Prompt(f"Put {cluster.context} into which file?", usual, hint=hint))
        if not path:
            return
        with self.report_errors("Could not write the kubeconfig"):
            file, replaced = await cloud.write_kubeconfig(cluster, Path(path))
            verb = "replaced in" if replaced else "added to"
            self.notify(f"{cluster.context} was {verb} {file}.", timeout=5)

    @work(group="actions")
    async def action_enable(self) -> None:
        row = self.table.row
        if row is None or not isinstance(row.error, ApiDisabled):
            return
        with self.report_errors(f"Could not enable {row.error.service}"):
            if await enable_service(self, await self.cloud(), row.project, row.error.service):
                self.read()
