"""The page of one release: revisions, preview of a rollback, changing values; and the page of orphaned resources."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual import getters, on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static, TextArea

from console.errors import ConsoleError
from console.kube.snapshot import Fleet
from console.launch.recipes import LaunchPlan, Release, Remark
from console.launch.releases import ObjectFate, ReleaseChange
from console.launch.stop import OrphanedResource
from screens import wording
from screens.base import LiveScreen
from screens.columns.column import RowKey
from screens.columns.runs import ORPHANED, REVISIONS
from screens.dialogs.question import Confirm, Question
from screens.widgets.sentence_line import SentenceLine
from screens.widgets.table.row_painter import Notice
from screens.widgets.table.table import ResourceTable
from screens.widgets.yaml import YamlEditor, YamlText, yaml_runs
from screens.wording import Span, sentence


class ChangeLook(Question[bool]):
    """Shows a change of a release; y or ctrl+s applies it if the cluster allows it, Esc cancels."""

    DEFAULT_CSS: ClassVar[str] = """
    ChangeLook > Vertical { height: 90%; }
    ChangeLook SentenceLine { max-height: 4; padding: 0; }
    ChangeLook ChangeText { background: $background; margin: 1 0 0 0; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y,ctrl+s", "dismiss(True)", "Do it", id="change.do", priority=True),
        Binding("escape,n", "dismiss(False)", "Back", id="change.back"),
    ]

    def __init__(self, title: str, change: ReleaseChange, verb: str) -> None:
        super().__init__()
        self._question, self._change, self._verb = title, change, verb

    @property
    def can_be(self) -> bool:
        """Whether the change does something and the cluster allows it."""
        return not (self._change.refused or self._change.is_empty)

    def compose(self) -> ComposeResult:
        yes = f"y or ctrl+s: {self._verb}   " if self.can_be else ""
        with Vertical() as box:
            box.border_title = Content(self._question)
            yield SentenceLine()
            yield ChangeText()
            yield Static(f"{yes}esc cancels   ↑↓ read", classes="keys", markup=False)

    def on_mount(self) -> None:
        self.query_one(SentenceLine).runs = tuple(change_words(self._change))
        text = self.query_one(ChangeText)
        text.show_change(self._change)
        text.focus()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """A change that the cluster refuses cannot be confirmed."""
        if action == "dismiss" and parameters == (True,):
            return self.can_be
        return super().check_action(action, parameters)


class EditValues(Question[str | None]):
    """Asks for edited values; returns the text once it is valid, None if cancelled."""

    DEFAULT_CSS: ClassVar[str] = """
    EditValues > Vertical { max-width: 110; height: 90%; }
    EditValues SentenceLine { max-height: 3; padding: 0; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "take", "Compare", id="values.take", priority=True),
        Binding("escape", "dismiss(None)", "Back", id="values.back", priority=True),
    ]

    def __init__(self, title: str, text: str, judge: Callable[[str], Sequence[Remark]]) -> None:
        super().__init__()
        self._question, self._text, self._judge = title, text, judge

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = Content(self._question)
            yield YamlEditor()
            yield SentenceLine()
            yield Static("ctrl+s shows what would change   esc cancels", classes="keys", markup=False)

    def on_mount(self) -> None:
        editor = self.query_one(YamlEditor)
        editor.load_text(self._text)
        editor.focus()
        self.judge()

    @on(TextArea.Changed)
    def judge(self) -> bool:
        """Show the problems of the text at their lines; returns whether there are none."""
        editor = self.query_one(YamlEditor)
        remarks = self._judge(editor.text)
        editor.mark({each.line for each in remarks})
        said = "What differs from the recipe's defaults; a deleted line returns to its default."
        line = self.query_one(SentenceLine)
        line.runs = (Span(said, "dim"),)
        if remarks:
            where = f"line {remarks[0].line}: " if remarks[0].line else ""
            line.runs = (Span("✗ ", "bad"), Span(f"{where}{sentence(remarks[0].message)}", "bad"))
        return not remarks

    def action_take(self) -> None:
        if self.judge():
            self.dismiss(self.query_one(YamlEditor).text)


async def change_values(screen: LiveScreen, namespace: str, name: str) -> bool:
    """Edit a release's values as YAML, confirm the change, and apply it; returns whether it was applied."""
    session = screen.session
    plan = await session.launch.releases.plan_of_release(namespace, name)
    drafting = session.launch.plan_texts

    def judge(text: str) -> Sequence[Remark]:
        return drafting.read_yaml(plan.recipe, text, kept=plan.values).problems

    text: str | None = drafting.write_yaml(plan)
    while True:
        text = await screen.app.push_screen_wait(EditValues(f"Values of {name}", text or "", judge))
        if text is None:
            return False
        values = drafting.read_yaml(plan.recipe, text, kept=plan.values).values
        wanted = LaunchPlan(plan.recipe, name, namespace, values)
        with screen.report_errors(f"{name} was not changed"):
            change = await session.launch.releases.dry_run_upgrade(wanted)
            if await screen.app.push_screen_wait(ChangeLook(f"Change {name}?", change, "change it")):
                await session.launch.releases.upgrade(wanted)
                await session.launch.runs.record_upgrade(plan, wanted)
                screen.notify(f"{name} is changed.", markup=False)
                return True


async def roll_back(screen: LiveScreen, namespace: str, name: str, revision: int) -> bool:
    """Confirm and apply a rollback; returns whether it was applied."""
    with screen.report_errors(f"{name} was not rolled back"):
        releases = screen.session.launch.releases
        change = await releases.dry_run_rollback(namespace, name, revision)
        title = f"Roll {name} back to revision {revision}?"
        if await screen.app.push_screen_wait(ChangeLook(title, change, "roll back")):
            await releases.rollback(namespace, name, revision)
            screen.notify(f"{name} is back at revision {revision}.", markup=False)
            return True
    return False


TALLEST = 12  # lines of the table of revisions, its titles too
_INKS = {"+": "ok", "-": "bad", "@": "faint", "=": "head"}


def change_words(change: ReleaseChange) -> list[Span]:
    if change.is_empty:
        return [Span("Nothing would change.", "dim")]
    if change.refused:
        why = " ".join(f"{each.kind} {each.name}: {wording.sentence(each.refused)}" for each in change.refused)
        again = "Launching it again (n on the job) takes any values."
        return [Span("✗ ", "bad"), Span(f"The cluster does not let it happen. {why} {again}", "bad")]
    told = {fate: [each for each in change.objects if each.fate is fate] for fate in ObjectFate}
    counts = [wording.count(len(told[fate]), "object") + f" {words}" for fate, words in
              ((ObjectFate.CHANGED, "changed"), (ObjectFate.ADDED, "new"),
               (ObjectFate.REMOVED, "gone")) if told[fate]]  # fmt: skip
    return [Span("✓ ", "ok"), Span(f"The API server accepts it: {', '.join(counts)}.")]


class ChangeText(YamlText):
    """A diff; added and removed lines have a mark and a colour."""

    def paint(self, text: str, whole: str) -> list[Span]:
        """Style a line: added, removed or heading by its mark, others as YAML."""
        ink = _INKS.get(whole[:1], "")
        return [Span(text, ink)] if ink else yaml_runs(text)

    def show_change(self, change: ReleaseChange) -> None:
        # The changed objects as diff lines, each with a heading.
        lines: list[str] = []
        for each in change.objects:
            if each.fate in {ObjectFate.SAME, ObjectFate.KEPT}:
                continue
            lines.append(f"== {each.kind} {each.name} {each.fate}{', but must not' if each.refused else ''}")
            lines += [line if line[:1] in "+-@" else f" {line[1:]}" for line in each.lines]
        self.show("\n".join(lines))


class RevisionTable(ResourceTable["Release"]):
    NOUN = "revision"
    EMPTY = Notice("No revisions.", "This job was not launched as a release of the chart.")
    COLUMNS: ClassVar = REVISIONS

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Rows cannot be opened."""
        return False if action == "open" else super().check_action(action, parameters)


class ReleaseScreen(LiveScreen):
    """Revisions above; below, what a rollback to the selected one would change."""

    DEFAULT_CSS = """
    ReleaseScreen RevisionTable { height: 3; }
    ReleaseScreen #said { margin: 1 0 0 0; }
    ReleaseScreen ChangeText { height: 2fr; min-height: 3; }
    """
    KINDS = ("jobsets",)
    OF_CLUSTER = True
    CHANGES_CLUSTER = frozenset({"change", "back_to"})
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("e", "change", "Change values", id="release.change",
                tooltip="Other values, as YAML: what they change is shown, then asked"),
        Binding("r", "back_to", "Roll back to it", id="release.back",
                tooltip="The revision under the cursor again: what that changes is shown, then asked"),
        Binding("u", "read", "Read again", show=False, id="release.read"),
    ]  # fmt: skip

    head = getters.query_one("#head", SentenceLine)
    said = getters.query_one("#said", SentenceLine)
    table = getters.query_one(RevisionTable)
    text = getters.query_one(ChangeText)

    def __init__(self, namespace: str, name: str) -> None:
        super().__init__()
        self.key = namespace, name
        self.crumb = f"release {name}"
        self._latest = 0

    def body(self) -> ComposeResult:
        yield SentenceLine(id="head")
        yield RevisionTable()
        yield SentenceLine(id="said")
        yield ChangeText()

    def show_fleet(self, fleet: Fleet) -> None:
        """Read the revisions once: they change only by actions here, or by `u`."""
        if self.app.connected and not self.table.listing.rows:
            self.action_read()

    def on_mount(self) -> None:
        self.table.focus()
        self.action_read()

    @work(group="release", exclusive=True)
    async def action_read(self) -> None:
        if not self.app.connected:
            return
        namespace, name = self.key
        try:
            found = await self.session.launch.releases.read_history(namespace, name)
        except ConsoleError as error:
            self.table.show_trouble(Notice(error.message, error.hint, "✗", "bad"))
            return
        rows: dict[RowKey, Release] = {(str(each.revision),): each for each in reversed(found)}
        on_latest = not self.older
        self._latest = found[-1].revision if found else 0
        self.table.styles.height = max(3, min(TALLEST, len(found) + 1))
        self.table.show_rows(rows)
        if on_latest:
            self.table.move_to((str(self._latest),))
        self._tell_head(found)
        self.refresh_bindings()
        self._preview_rollback()

    def _tell_head(self, found: tuple[Release, ...]) -> None:
        namespace, name = self.key
        if not found:
            self.head.runs = (Span(f"{name} in {namespace} is not a release of the chart.", "waits"),)
            return
        last = found[-1]
        self.head.runs = (
            Span(name, "strong"), Span(f" in {namespace}  "),
            Span(last.recipe or "not launched from a recipe", "accent"),
            Span(f"  {wording.count(len(found), 'revision')}, the latest is {last.revision}, {last.status}", "dim"),
        )  # fmt: skip

    @on(ResourceTable.Highlighted)
    def _move(self, event: ResourceTable.Highlighted) -> None:
        event.stop()
        self.refresh_bindings()
        self._preview_rollback()

    @property
    def older(self) -> int:
        """The selected revision if it is not the latest, else 0."""
        row = self.table.row
        return row.revision if row is not None and row.revision != self._latest else 0

    @work(group="look", exclusive=True)
    async def _preview_rollback(self) -> None:
        revision = self.older
        if not revision:
            words = "This is what the cluster has. e changes its values"
            words += "; ↓ shows what an older one would change." if len(self.table.shown) > 1 else "."
            self.said.runs = (Span(words if self._latest else "", "dim"),)
            self.text.show("")
            return
        self.said.runs = (Span("◐ ", "waits"), Span(f"The API server compares revision {revision} …", "dim"))
        try:
            change = await self.session.launch.releases.dry_run_rollback(*self.key, revision)
        except ConsoleError as error:
            self.said.runs = (Span("✗ ", "bad"), Span(f"{error.message} {error.hint}".strip(), "bad"))
            self.text.show("")
            return
        self.said.runs = (Span(f"Back to revision {revision}: ", "strong"), *change_words(change))
        self.text.show_change(change)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Changing needs a revision; rolling back needs an older one."""
        if (action == "change" and not self._latest) or (action == "back_to" and not self.older):
            return False
        return super().check_action(action, parameters)

    @work(group="actions")
    async def action_change(self) -> None:
        with self.report_errors(f"The values of {self.key[1]} cannot be changed"):
            if await change_values(self, *self.key):
                self.action_read()

    @work(group="actions")
    async def action_back_to(self) -> None:
        if await roll_back(self, *self.key, self.older):
            self.action_read()


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
        """Open the object as YAML; for a release, say which command shows its revisions."""
        event.stop()
        kind, namespace, name = event.key
        if kind == "Release":
            self.notify(f"a4 releases {name} --namespace {namespace} shows its revisions.")
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
