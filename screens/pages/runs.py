"""The page of past runs: outcome, and launching one again."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import ClassVar

from textual import events, getters, on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from console.kube.snapshot import Fleet
from console.launch.run_record import RunRecord, differences, last_success
from screens import wording
from screens.alarm_notices import with_jobs
from screens.columns.runs import RUNS, run_facts, run_sentence
from screens.dialogs.launch import AGAIN, launch_like, open_job
from screens.dialogs.question import Confirm
from screens.paned import PanedScreen
from screens.widgets.pane import Lines, fact_lines
from screens.widgets.sentence_line import SentenceLine, folded_runs
from screens.widgets.table.listing import RowKey
from screens.widgets.table.row_painter import Notice
from screens.widgets.table.table import ResourceTable
from screens.wording import Span

ON_RUNS = frozenset({"again", "difference", "job", "forget"})  # actions that need a run


class RunTable(ResourceTable["RunRecord"]):
    LIST = "runs"
    NOUN = "run"
    EMPTY = Notice("No runs in the history.", "Jobs launched from the form or with a4 launch appear here.")
    COLUMNS: ClassVar = RUNS

    def row_text(self, row: RunRecord) -> str:
        typed = " ".join(f"{each.path}={each.after}" for each in differences(replace(row, values={}), row))
        return f"{row.number} {row.recipe} {row.name} {row.state} {row.queue} {row.context} {row.namespace} {typed}"


class RunsScreen(PanedScreen):
    """All recorded runs, with the selected one's outcome below."""

    DEFAULT_CSS = """
    RunsScreen #told { dock: bottom; margin-bottom: 1; }
    """
    KINDS = ("jobsets", "pods")
    OPENS = "run"
    CHANGES_CLUSTER = frozenset({"again"})
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n", "again", "Launch again", id="runs.again", tooltip="Open the launch form with these values"),
        Binding("d", "difference", "Compare", id="runs.difference",
                tooltip="Two marked runs, or this one with the last that succeeded"),
        Binding("J", "job", "Job", key_display="J", id="runs.job", tooltip="The job itself, while it is there"),
        Binding("x", "forget", "Forget", id="runs.forget",
                tooltip="Remove this run, or all marked ones, from the history; asks first"),
        Binding("L", "leftovers", "Orphaned resources", show=False, key_display="L", id="runs.leftovers",
                tooltip="What deleted releases left in the cluster"),
    ]  # fmt: skip

    table = getters.query_one(RunTable)
    told = getters.query_one("#told", SentenceLine)

    def body(self) -> ComposeResult:
        yield from self.beside_pane(RunTable())
        yield SentenceLine(id="told")

    def on_mount(self) -> None:
        """Read at intervals, since other consoles write the history too."""
        self.set_interval(AGAIN, self.read)

    def show_fleet(self, fleet: Fleet) -> None:
        """Read the records again, since an observed end is recorded shortly after."""
        self.read()

    @work(group="memory", exclusive=True)
    async def read(self) -> None:
        if not self.is_current or not self.app.connected:
            return
        with self.report_errors("The runs could not be read"):
            runs = with_jobs(self.app, await self.session.launch.runs.all())
            rows: dict[RowKey, RunRecord] = {(str(run.number),): run for run in runs}
            self.table.show_trouble(RunTable.EMPTY)
            self.table.show_rows(rows)
            self._tell()

    def pane_lines(self, width: int, height: int, now: float) -> Lines:
        """The run's outcome and its changed values."""
        run = self.table.row
        if run is None:
            return []
        found = [*folded_runs(run_sentence(run), width), [], *fact_lines(run_facts(run, now), width)]
        changed = differences(replace(run, values={}), run)
        if changed:
            found += [[], [Span("values that were changed", "head")]]
            found += [[Span(f"{each.path} = ", "dim"), Span(wording.one_line(str(each.after)))] for each in changed]
        return found

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Keys for a run need a run."""
        if action in ON_RUNS and self.table.row is None:
            return False
        return super().check_action(action, parameters)

    @on(ResourceTable.Highlighted)
    def _tell(self) -> None:
        self.refresh_bindings()
        note = self.session.launch.runs.note if self.app.connected else ""
        warning = (Span(f"⚠ {wording.sentence(note)} ", "waits"),) if note else ()
        row = self.table.row
        self.pane.renew()
        self.told.runs = (*warning, *(run_sentence(row) if row is not None else ()))

    def action_again(self) -> None:
        """Open the launch form with the values of the selected run."""
        run = self.table.row
        if run is not None:
            launch_like(self, run, last_success(self.table.listing.rows.values(), run))

    def action_difference(self) -> None:
        """Compare two marked runs, or one with the last successful one before it."""
        chosen = sorted((int(key[0]) for key in self.table.chosen), reverse=True)
        if len(chosen) > 2:
            self.notify("Mark two runs to compare them.", severity="warning", timeout=4)
        elif chosen:
            self.app.open_page("run", *map(str, chosen))

    def action_job(self) -> None:
        run = self.table.row
        if run is not None:
            open_job(self, run)

    def action_forget(self) -> None:
        """Delete the marked runs, or the selected one, from the history."""
        chosen = self.table.chosen_rows
        if chosen:
            self._forget(chosen)

    @work(group="actions")
    async def _forget(self, runs: list[RunRecord]) -> None:
        lines = [f"{run.name}, {run.recipe}, {wording.moment(run.launched, time.time())}" for run in runs[:8]]
        lines += [f"and {len(runs) - 8} more"] if len(runs) > 8 else []
        lines.append("Their values and figures are deleted from the history. The jobs and their output stay.")
        question = f"Forget {wording.count(len(runs), 'run')}?"
        if not await self.app.push_screen_wait(Confirm(question, lines, verb="Forget")):
            return
        with self.report_errors("The runs could not be forgotten"):
            gone = await self.session.launch.runs.forget([run.number for run in runs])
            if not gone:
                self.notify(
                    self.session.launch.runs.note or "They were already deleted.", severity="warning", markup=False
                )
            self.table.clear_marks()
            self.read()

    def action_leftovers(self) -> None:
        self.app.open_page("leftovers")

    def on_resize(self, event: events.Resize) -> None:
        """Shorten the sentence to one line on low screens."""
        self.set_class(event.size.height < 30, "-low")
