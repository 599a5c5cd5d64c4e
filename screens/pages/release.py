"""One release: its revisions, what going back to one would change, other values for it."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, ClassVar

from textual import getters, on, work
from textual.binding import Binding, BindingType

from console.errors import ConsoleError
from screens import wording
from screens.base import LiveScreen
from screens.dialogs.release import change_values, roll_back
from screens.widgets.change_text import ChangeText, change_words
from screens.widgets.sentence_line import SentenceLine
from screens.widgets.table.column import Column, since
from screens.widgets.table.empty_state import Notice
from screens.widgets.table.table import ResourceTable
from screens.wording import Run

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from console.kube.snapshot import Fleet
    from console.launch.recipes import Release
    from screens.widgets.table.table import RowKey

TALLEST = 12  # lines of the table of revisions, its titles too
_GLYPHS = {"deployed": Run("● ", "ok"), "failed": Run("✗ ", "bad"), "superseded": Run("○ ", "dim")}


def status_cell(release: Release) -> list[Run]:
    glyph = _GLYPHS.get(release.status, Run("◐ ", "waits"))
    return [glyph, Run(release.status, glyph.ink)]


def updated(release: Release) -> float:
    """When Helm wrote the revision; 0.0 if it does not say."""
    try:
        return datetime.fromisoformat(release.updated).timestamp()
    except ValueError:
        return 0.0


class RevisionTable(ResourceTable["Release"]):
    """Revisions, newest first."""

    NOUN = "revision"
    EMPTY = Notice("No revisions.", "This job was not launched as a release of the chart.")
    COLUMNS: ClassVar = (
        Column("REVISION", lambda each: Run(f"{each.revision}", "strong"), right=True, sort=lambda each: each.revision,
               down=True),
        Column("STATUS", status_cell, least=12, most=20),
        since("AGE", updated),
        Column("RECIPE", lambda each: each.recipe, least=8, most=30),
        Column("CHART", lambda each: Run(each.chart, "dim"), least=6, fill=True),
    )  # fmt: skip

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """There is nothing to go into."""
        return False if action == "open" else super().check_action(action, parameters)


class ReleaseScreen(LiveScreen):
    """Revisions above; below, what going back to the one under the cursor would change."""

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
        self._latest = 0

    @property
    def crumb(self) -> str:
        return f"release {self.key[1]}"

    def body(self) -> ComposeResult:
        yield SentenceLine(id="head")
        yield RevisionTable()
        yield SentenceLine(id="said")
        yield ChangeText()

    def show_fleet(self, fleet: Fleet) -> None:
        """Does not follow the picture: revisions change by what is done here, and by `u`."""
        if self.app.connected and not self.table.listing.rows:
            self.action_read()

    def on_mount(self) -> None:
        self.table.focus()
        self.action_read()

    @work(group="release", exclusive=True)
    async def action_read(self) -> None:
        """Read the revisions (again)."""
        if not self.app.connected:
            return
        namespace, name = self.key
        try:
            found = await self.session.releases.history(namespace, name)
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
        self._look()

    def _tell_head(self, found: tuple[Release, ...]) -> None:
        namespace, name = self.key
        if not found:
            self.head.runs = (Run(f"{name} in {namespace} is not a release of the chart.", "waits"),)
            return
        last = found[-1]
        self.head.runs = (
            Run(name, "strong"), Run(f" in {namespace}  "), Run(last.recipe or "not launched from a recipe", "accent"),
            Run(f"  {wording.count(len(found), 'revision')}, the latest is {last.revision}, {last.status}", "dim"),
        )  # fmt: skip

    @on(ResourceTable.Highlighted)
    def _move(self, event: ResourceTable.Highlighted) -> None:
        event.stop()
        self.refresh_bindings()
        self._look()

    @property
    def older(self) -> int:
        """The revision under the cursor, if it is not the latest; else 0."""
        row = self.table.row
        return row.revision if row is not None and row.revision != self._latest else 0

    @work(group="look", exclusive=True)
    async def _look(self) -> None:
        revision = self.older
        if not revision:
            words = "This is what the cluster has. e changes its values; ↓ shows what an older one would change."
            self.said.runs = (Run(words if self._latest else "", "dim"),)
            self.text.show("")
            return
        self.said.runs = (Run("◐ ", "waits"), Run(f"The API server compares revision {revision} …", "dim"))
        try:
            change = await self.session.releases.try_rollback(*self.key, revision)
        except ConsoleError as error:
            self.said.runs = (Run("✗ ", "bad"), Run(f"{error.message} {error.hint}".strip(), "bad"))
            self.text.show("")
            return
        self.said.runs = (Run(f"Back to revision {revision}: ", "strong"), *change_words(change))
        self.text.show_change(change)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """There has to be something to change, and something older to go back to."""
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
