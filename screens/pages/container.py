"""Pages on the inside of a container: facts read there (GPUs, disks, mounts, NCCL, libc), and one folder."""

from __future__ import annotations

import posixpath
from typing import ClassVar

from textual import getters, on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from console.attach.exec_many import ContainerFact, FactState, unanswered_facts
from console.attach.files.copies import ContainerCopies, EntryKind, FileEntry
from console.errors import ConsoleError
from console.kube.snapshot import Fleet
from console.scheduling.ranks import Rank
from screens import wording
from screens.base import LiveScreen, error_notice, error_runs
from screens.columns.column import Column, since
from screens.columns.jobs import JobLine
from screens.dialogs.question import Confirm, Prompt
from screens.sanitize import one_line
from screens.widgets.sentence_line import SentenceLine, SummaryLine
from screens.widgets.table.row_painter import Notice
from screens.widgets.table.table import ResourceTable
from screens.widgets.yaml import RULE, OutputText
from screens.wording import Cell, Span, bar, sentence

GLYPHS = {FactState.ASKED: "◐", FactState.KNOWN: "●", FactState.ABSENT: "○", FactState.FAILED: "✗"}


async def facts_of_rank(screen: LiveScreen, line: JobLine, rank: Rank) -> None:
    screen.app.open_page("container_facts", line.jobset.namespace, rank.name, "", str(rank.number))


class ContainerFactsScreen(LiveScreen):
    """The facts about one container; each appears as it is read."""

    KINDS = ("pods",)
    OF_CLUSTER = True
    CSS = "ContainerFactsScreen #who { padding: 0 1; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("i", "ask", "Ask again", id="facts.ask", tooltip="Ask everything again"),
        Binding("b", "browse", "Browse files", id="facts.browse", tooltip="A folder of the container, and its disk"),
    ]
    who = getters.query_one("#who", SentenceLine)
    text = getters.query_one(OutputText)

    def __init__(self, namespace: str, pod: str, container: str = "", rank: str = "") -> None:
        super().__init__()
        self.key = namespace, pod
        self.crumb = f"pod {rank} facts" if rank else f"{pod} facts"
        self._container = container
        self._facts: dict[str, ContainerFact] = {}

    def body(self) -> ComposeResult:
        yield SentenceLine(id="who")
        yield OutputText()

    def on_mount(self) -> None:
        self.action_ask()

    def show_fleet(self, fleet: Fleet) -> None:
        pod, gpus = fleet.pods.get(self.key), self._facts.get("gpus")
        if pod is None:
            about = Span("  was deleted: these are its last answers", "waits")
        else:
            about = Span(f"  container {self._of_container()} on {pod.node}", "dim")
        self.who.runs = (Span(self.key[1], "strong"), about, Span(f"  {gpus.words if gpus else ''}"))

    def _of_container(self) -> str:
        pod = self.app.fleet.pods.get(self.key)
        return self._container or (pod.main.name if pod and pod.main else "")

    def action_ask(self) -> None:
        self._facts.clear()
        self._draw()
        self._ask()

    @work(group="browse", exclusive=True)
    async def action_browse(self) -> None:
        path = await self.app.push_screen_wait(Prompt("Which folder of the container?", "/"))
        if path:
            self.app.open_page("folder", *self.key, self._of_container(), path)

    @work(group="facts", exclusive=True)
    async def _ask(self) -> None:
        pod = self.app.fleet.pods.get(self.key)
        if pod is None:
            self.text.show(f"{RULE}✗ The pod was deleted: nothing can be read from it.")
            return
        with self.report_errors(f"Could not ask {pod.name}"):
            await self.session.container_exec.read_facts(pod, container=self._container, answered=self._add_fact)

    def _add_fact(self, fact: ContainerFact) -> None:
        self._facts[fact.name] = fact
        self._draw()

    def _draw(self) -> None:
        lines: list[str] = []
        self.show_fleet(self.app.fleet)
        for asked in unanswered_facts():
            fact = self._facts.get(asked.name, asked)
            words = fact.words or ("asked" if fact.state is FactState.ASKED else f"{fact.seconds:.1f} s")
            lines += [f"{RULE}{GLYPHS[fact.state]} {fact.title}: {words}", *fact.text.splitlines(), ""]
        self.text.show("\n".join(lines))


FULL = 0.9  # share of a disk from which it is told as nearly full

LOST = (
    "Everything in it is deleted too. This cannot be undone.",
    "On a shared file system it is deleted for every pod.",
)


def name_cell(entry: FileEntry) -> Cell:
    name = one_line(entry.path)
    if entry.kind is EntryKind.FOLDER:
        return Span(f"{name}/", "accent")
    if entry.kind is EntryKind.LINK:
        return [Span(name), Span(f" → {one_line(entry.target)}", "dim")]
    return Span(name)


class EntryTable(ResourceTable[FileEntry]):
    NOUN = "entry"
    EMPTY = Notice("Nothing is here.")
    COLUMNS: ClassVar = (
        Column("NAME", name_cell, least=20, most=120, sort=lambda entry: entry.path),
        Column("SIZE", lambda entry: wording.size(entry.size) if entry.kind is EntryKind.FILE else "", width=10,
               right=True, sort=lambda entry: entry.size, down=True),
        since("CHANGED", lambda entry: float(entry.modified)),
        Column("MODE", lambda entry: Span(f"{entry.mode:04o}", "dim"), width=5, drop=5),
    )  # fmt: skip

    def row_text(self, row: FileEntry) -> str:
        return row.path


class FolderScreen(LiveScreen):
    """The contents of a pod's folder; Enter opens a folder, Backspace goes up."""

    KINDS = ("pods",)
    OF_CLUSTER = True
    CHANGES_CLUSTER = frozenset({"delete"})
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("backspace", "up", "Up", id="folder.up", key_display="⌫", tooltip="The folder that this one is in"),
        Binding("x", "delete", "Delete", id="folder.delete", tooltip="What is under the cursor, or marked; asks first"),
        Binding("c", "copy", "Copy path", show=False, id="folder.copy", tooltip="To the clipboard"),
        Binding("r", "read", "Read again", id="folder.read", tooltip="List the folder again"),
    ]
    table = getters.query_one(EntryTable)
    summary = getters.query_one(SummaryLine)

    def __init__(self, namespace: str, pod: str, container: str, path: str) -> None:
        super().__init__()
        self._pod, self._container = (namespace, pod), container
        self.path = path
        self.crumb = f"{pod} files"

    def body(self) -> ComposeResult:
        yield SummaryLine()
        yield EntryTable()

    def on_mount(self) -> None:
        self.read()

    def _files(self) -> ContainerCopies:
        return self.session.copies.for_container(*self._pod, container=self._container)

    def action_read(self) -> None:
        self.read()

    @work(group="folder", exclusive=True)
    async def read(self, back_to: str = "") -> None:
        """Read the folder; puts the cursor on `back_to`."""
        self.summary.runs = (Span(self.path, "strong"), Span("   looking …", "dim"))
        try:
            found = await self._files().list_folder(self.path)
        except ConsoleError as error:
            self.table.show_rows({})
            self.table.show_trouble(error_notice(error))
            self.summary.runs = (Span(f"{self.path}   ", "strong"), *error_runs(error.message))
            return
        self.path = found.path
        self.table.show_trouble(EntryTable.EMPTY)
        self.table.show_rows({(each.path,): each for each in found.entries})
        runs = [Span(f"{one_line(found.path)}  ", "strong")]
        if found.total and found.used is not None and found.free is not None:
            held = found.used + found.free  # not all of a disk is anybody's: some is kept back
            full = found.used >= FULL * held
            words = f" {wording.size(found.free)} free of {wording.size(found.total)}"
            runs += [*bar(found.used, held, 12), Span(f"{' ⚠' if full else ''}{words}", "waits" if full else "")]
        runs += [Span(f"   ✗ {sentence(each)}", "bad") for each in found.complaints[:1]]
        self.summary.runs = tuple(runs)
        if back_to:
            self.table.move_to((back_to,))

    @on(ResourceTable.Opened)
    def _open(self, event: ResourceTable.Opened) -> None:
        event.stop()
        entry = self.table.row
        if entry is not None and entry.kind in {EntryKind.FOLDER, EntryKind.LINK}:
            self.path = posixpath.join(self.path, entry.path)
            self.read()

    def action_up(self) -> None:
        above, name = posixpath.split(self.path)
        if name:
            self.path = above
            self.read(name)

    def _chosen_paths(self) -> list[str]:
        return [posixpath.join(self.path, each.path) for each in self.table.chosen_rows]

    def action_copy(self) -> None:
        if found := self._chosen_paths():
            self.copy(found, "paths")

    @work(group="actions")
    async def action_delete(self) -> None:
        chosen = self._chosen_paths()
        if not chosen:
            return
        what = chosen[0] if len(chosen) == 1 else f"{len(chosen)} files in {self.path}"
        lines = [*(chosen if len(chosen) > 1 else ()), *LOST]
        if not await self.app.push_screen_wait(Confirm(f"Delete {what}?", lines, verb="Delete", keep="Keep")):
            return
        files = self._files()
        for path in chosen:
            with self.report_errors(f"{path} was not deleted"):
                await files.delete(path)
        self.table.clear_marks()
        self.read()
