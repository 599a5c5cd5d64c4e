"""The page of orphaned resources: what deleted releases left behind."""

from __future__ import annotations

from typing import ClassVar

from textual import getters, on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from console.errors import ConsoleError
from console.launch.stop import OrphanedResource
from screens import wording
from screens.base import LiveScreen
from screens.columns.runs import ORPHANED
from screens.dialogs.question import Confirm
from screens.widgets.sentence_line import SentenceLine
from screens.widgets.table.listing import RowKey
from screens.widgets.table.row_painter import Notice
from screens.widgets.table.table import ResourceTable
from screens.wording import Span


class OrphanedTable(ResourceTable["OrphanedResource"]):
    NOUN = "orphaned resource"
    EMPTY = Notice("No orphaned resources.", "Every object of the chart belongs to a release.", "✓", "ok")
    COLUMNS: ClassVar = ORPHANED


class OrphanedScreen(LiveScreen):
    """Orphaned resources, read on opening and after each removal."""

    crumb = "orphaned resources"
    OF_CLUSTER = True
    CHANGES_CLUSTER = frozenset({"remove"})
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("x", "remove", "Remove", id="orphaned.remove", tooltip="Remove this one, or all marked; asks first"),
        Binding("r,u", "read", "Read again", id="orphaned.read"),
    ]
    table = getters.query_one(OrphanedTable)
    told = getters.query_one(SentenceLine)

    def body(self) -> ComposeResult:
        yield SentenceLine()
        yield OrphanedTable()

    def on_mount(self) -> None:
        self.action_read()

    @work(group="read", exclusive=True)
    async def action_read(self) -> None:
        self.told.runs = (Span("◐ ", "waits"), Span("Reading the releases and the objects with their labels …"))
        try:
            found, hidden = await self.session.launch.job_stopper.list_orphaned(self.app.only_namespace)
        except ConsoleError as error:
            self.told.runs = (Span("✗ ", "bad"), Span(str(error)))
            return
        rows: dict[RowKey, OrphanedResource] = {(each.kind, each.namespace, each.name): each for each in found}
        self.table.show_trouble(None if rows else OrphanedTable.EMPTY)
        self.table.show_rows(rows)
        unseen = f" No permission to list: {', '.join(hidden)}." if hidden else ""
        self.told.runs = (Span(wording.count(len(found), "orphaned resource")), Span(f".{unseen}", "dim"))

    @on(ResourceTable.Opened)
    def open_object(self, event: ResourceTable.Opened) -> None:
        """Open the object as YAML; for a release, say which command lists it."""
        event.stop()
        kind, namespace, name = event.key
        if kind == "Release":
            self.notify(f"a4 releases --namespace {namespace} lists {name}.")
        else:
            self.app.open_page("object_yaml", kind, namespace, name)

    @work(group="actions")
    async def action_remove(self) -> None:
        chosen = self.table.chosen_rows
        if not chosen:
            return
        lines = [
            f"{each.kind} {each.name}{each.namespace and ' in '}{each.namespace}"
            + (f", with {', '.join(each.goes)}" if each.goes else "")
            for each in chosen
        ]
        if any(each.runs for each in chosen):
            lines.append("⚠ Some of them still run: their work is lost.")
        if any(each.holds_data for each in chosen):
            lines.append("⚠ Volumes and claims are among them: their data may be deleted too.")
        question = f"Remove {wording.count(len(chosen), 'orphaned resource')}?"
        if not await self.app.push_screen_wait(Confirm(question, lines, verb="Remove")):
            return
        for each in chosen:
            with self.report_errors(f"Could not remove {each.kind} {each.name}"):
                await self.session.launch.job_stopper.remove_orphaned(each)
        self.table.clear_marks()
        self.action_read()
