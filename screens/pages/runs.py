"""The page of past runs, and the page of one: its outcome, values, and differences from another run."""

from __future__ import annotations

from typing import ClassVar

from msgspec.structs import replace
from textual import events, getters, on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from console.connection_settings import OWN_NAME
from console.kube.objects.meta import short_name
from console.kube.snapshot import Fleet
from console.kube.stream_completeness import SERVER_CLOCK
from console.launch.run_record import RunRecord, ValueDifference, compare_values, find_run, last_success, running_runs
from screens import wording
from screens.alarm_toasts import with_jobs
from screens.columns.column import Column, RowKey
from screens.columns.runs import RUNS, cost_lines, cost_words, outcome_cell, run_facts, run_reference, run_sentence
from screens.dialogs.launch import launch_like, open_job
from screens.dialogs.question import Confirm, Pick, PickEntry
from screens.dialogs.save_and_copy import save_log
from screens.list_and_pane import PanedScreen
from screens.live_screen import LiveScreen
from screens.sanitize import one_line
from screens.widgets.charts.nccl_panel import NcclPanel
from screens.widgets.charts.training_panel import TrainingPanel
from screens.widgets.log.log_view import LogView
from screens.widgets.side_pane import FactsWidget, Lines, fact_lines
from screens.widgets.table.row_painter import EmptyNotice
from screens.widgets.table.table import ResourceTable
from screens.widgets.wrapped_sentence import SentenceLine, fold_spans
from screens.widgets.yaml import YamlText
from screens.wording import Span

POLL_SECONDS = 2.0  # seconds between two looks into the memory while it is shown: other consoles write it too
GIVEN_VALUES_NOTE = "values it was launched with, beside the recipe's defaults"
ACTIONS_ON_RUNS = frozenset({"again", "difference", "job", "forget"})  # actions that need a run


class RunTable(ResourceTable["RunRecord"]):
    LIST = "runs"
    NOUN = "run"
    EMPTY = EmptyNotice("No runs in the history.", "Jobs launched from the form or with a4 launch appear here.")
    COLUMNS: ClassVar = RUNS

    def row_text(self, row: RunRecord) -> str:
        typed = " ".join(f"{each.path}={each.after}" for each in compare_values(replace(row, values={}), row))
        return f"{row.number} {row.recipe} {row.name} {row.state} {row.queue} {row.context} {row.namespace} {typed}"


class RunRecordsScreen(LiveScreen):
    """A page about recorded runs, some of which other consoles may record meanwhile."""

    def on_mount(self) -> None:
        self.set_interval(POLL_SECONDS, self.read)

    def show_fleet(self, fleet: Fleet) -> None:
        """Read the records again, since an observed end is recorded shortly after."""
        self.read()

    @work(group="memory", exclusive=True)
    async def read(self) -> None:
        if not self.is_current or not self.app.connected:
            return
        with self.report_errors("The runs could not be read"):
            self.show_runs(with_jobs(self.app, await self.session.launch.runs.list_runs()))

    def show_runs(self, records: tuple[RunRecord, ...]) -> None:
        """Show these records, the latest that are known."""


def _owner_name(screen: RunRecordsScreen, run: RunRecord) -> str:
    return OWN_NAME if screen.app.format_owner(short_name(run.who)) == OWN_NAME else ""


class RunsScreen(PanedScreen, RunRecordsScreen):
    """The Runs page: all recorded runs, and the outcome of the selected one below."""

    DEFAULT_CSS = """
    RunsScreen.-right #explanation, RunsScreen.-below #explanation { display: none; }
    RunsScreen.-noted #explanation { display: block; }
    """
    KINDS = ("jobsets", "pods")
    ROW_PAGE = "run"
    CHANGES_CLUSTER = frozenset({"again", "again(True)"})
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n", "again", "Launch again", id="runs.again", tooltip="Open the launch form with these values"),
        Binding("ctrl+s", "again(True)", "Same again", id="runs.same", tooltip="Review a launch with these values"),
        Binding(
            "d", "difference", "Compare", id="runs.difference", tooltip="With another marked run, or the last good"
        ),
        Binding("J", "job", "Job", key_display="J", id="runs.job", tooltip="The job itself, while it is there"),
        Binding("x", "forget", "Forget", id="runs.forget", tooltip="Remove this run or all marked ones; asks first"),
    ]

    table = getters.query_one(RunTable)
    explanation = getters.query_one("#explanation", SentenceLine)

    def body(self) -> ComposeResult:
        yield from self.beside_pane(RunTable())
        yield SentenceLine(id="explanation")

    def show_runs(self, records: tuple[RunRecord, ...]) -> None:
        rows: dict[RowKey, RunRecord] = {(str(run.number),): run for run in records}
        self.table.show_trouble(RunTable.EMPTY)
        self.table.show_rows(rows)
        self._show_details()

    def pane_lines(self, width: int, height: int, now: float) -> Lines:
        run = self.table.row
        if run is None:
            return []
        found = [
            *fold_spans(run_sentence(run), width),
            [],
            *fact_lines(run_facts(run, now, owner_text=_owner_name(self, run)), width),
        ]
        cost = run.ledger(now)
        if cost.allocated:
            found += [[], [Span("what its GPU-time went into", "head")], *([Span(each)] for each in cost_lines(cost))]
        given = [each for each in compare_values(replace(run, values={}), run) if each.path != "queue"]
        if given:  # besides the queue, which the form fills in
            found += [[], [Span(GIVEN_VALUES_NOTE, "head")]]
            found += [[Span(f"{each.path} = ", "dim"), Span(one_line(str(each.after)))] for each in given]
        return found

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ACTIONS_ON_RUNS and self.table.row is None:
            return False
        return super().check_action(action, parameters)

    @on(ResourceTable.Highlighted)
    def _show_details(self) -> None:
        self.refresh_bindings()
        note = self.session.launch.runs.note if self.app.connected else ""
        warning = (Span(f"⚠ {wording.sentence(note)} ", "waits"),) if note else ()
        row = self.table.row
        self.redraw_pane()
        self.set_class(bool(note), "-noted")
        self.explanation.runs = (*warning, *(run_sentence(row) if row is not None else ()))

    def action_again(self, at_once: bool = False) -> None:
        run = self.table.row
        if run is not None:
            launch_like(self, run, last_success(self.table.listing.rows.values(), run), at_once=at_once)

    def action_difference(self) -> None:
        """Compare two marked runs, or one with the last successful one before it."""
        chosen = sorted((int(key[0]) for key in self.table.chosen_keys), reverse=True)
        if len(chosen) > 2:
            self.notify("Mark two runs to compare them.", severity="warning", timeout=4)
        elif chosen:
            self.app.open_page("run", *map(str, chosen))

    def action_job(self) -> None:
        run = self.table.row
        if run is not None:
            open_job(self, run)

    def action_forget(self) -> None:
        chosen = self.table.chosen_rows
        if chosen:
            self._delete_runs(chosen)

    @work(group="actions")
    async def _delete_runs(self, records: list[RunRecord]) -> None:
        going = running_runs(records, self.app.fleet.jobsets, self.session.watch.server)
        if going:
            names = ", ".join(run.name for run in going[:4]) + (" …" if len(going) > 4 else "")
            words = f"Its record is written until it ends: stop it first (J, then x). Nothing is forgotten of {names}."
            self.notify(words, title="Its job still runs", severity="warning", markup=False)
        records = [run for run in records if run not in going]
        if not records:
            return
        lines = [f"{run.name}, {run.recipe}, {wording.moment(run.launched, SERVER_CLOCK.now())}" for run in records[:8]]
        lines += [f"and {len(records) - 8} more"] if len(records) > 8 else []
        lines.append("Their values and figures are deleted from the history. The jobs and their output stay.")
        question = f"Forget {wording.count(len(records), 'run')}?"
        if not await self.app.push_screen_wait(Confirm(question, lines, verb="Forget")):
            return
        with self.report_errors("The runs could not be forgotten"):
            gone = await self.session.launch.runs.delete_runs([run.number for run in records])
            if not gone:
                self.notify(
                    self.session.launch.runs.note or "They were already deleted.", severity="warning", markup=False
                )
            self.table.clear_marks()
            self.read()

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(event.size.height < 30, "-low")


def value_span(text: str | None) -> Span:
    """A value as a span; None is shown as the default."""
    return Span("default", "dim") if text is None else Span(one_line(text))


class DifferenceTable(ResourceTable["ValueDifference"]):
    """The values that differ between two runs."""

    NOUN = "value"
    EMPTY = EmptyNotice("The same values.")

    def name_runs(self, old_run: RunRecord, new_run: RunRecord) -> None:
        """Set the two runs' names as column titles."""
        self.set_columns(
            (
                Column("VALUE", lambda each: Span(each.path, "strong"), least=12, most=50, sort=lambda each: each.path),
                Column(f"RUN {old_run.number}", lambda each: value_span(each.before), least=8, most=60),
                Column(f"RUN {new_run.number}", lambda each: value_span(each.after), least=8, fill=True),
            )
        )


class RunScreen(RunRecordsScreen):
    """A run's facts, values as YAML, and differences from the last successful or a chosen run."""

    DEFAULT_CSS = """
    RunScreen FactsWidget { margin: 1 0 0 0; }
    RunScreen #values-title, RunScreen #against, RunScreen #no-log { margin: 1 0 0 0; }
    RunScreen #no-log { display: none; }
    RunScreen.-unkept #no-log { display: block; }
    RunScreen YamlText { height: auto; max-height: 30%; min-height: 2; }
    RunScreen DifferenceTable { height: auto; max-height: 30%; min-height: 3; }
    RunScreen TrainingPanel, RunScreen NcclPanel { height: 2fr; min-height: 8; margin: 1 0 0 0; display: none; }
    RunScreen LogView { height: 1fr; min-height: 4; margin: 1 0 0 0; display: none; }
    RunScreen.-trained TrainingPanel, RunScreen.-tested NcclPanel, RunScreen.-logged LogView { display: block; }
    RunScreen.-low TrainingPanel, RunScreen.-low NcclPanel { display: none; }
    RunScreen.-log TrainingPanel, RunScreen.-log NcclPanel { display: none; }
    RunScreen.-log DifferenceTable, RunScreen.-log YamlText, RunScreen.-log FactsWidget { display: none; }
    RunScreen.-log #values-title, RunScreen.-log #against { display: none; }
    RunScreen DifferenceTable.-none, RunScreen #against.-none { display: none; }
    """
    KINDS = ("jobsets", "pods")
    CHANGES_CLUSTER = frozenset({"again", "again(True)"})
    SHOWS: ClassVar = {"log": ("-log", "Hide log")}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n", "again", "Launch again", id="run.again", tooltip="Open the launch form with these values"),
        Binding("ctrl+s", "again(True)", "Same again", id="run.same", tooltip="Review a launch with these values"),
        Binding("d", "compare", "Compare with …", id="run.compare", tooltip="Pick the run to compare this one with"),
        Binding("l", "log", "Log", id="run.log", tooltip="All lines that are kept of it, or the whole page again"),
        Binding("J", "job", "Job", key_display="J", id="run.job", tooltip="The job itself, while it is there"),
        Binding("c", "copy", "Copy values", id="run.copy", tooltip="The values as YAML to the clipboard (OSC 52)"),
    ]

    head = getters.query_one("#head", SentenceLine)
    facts = getters.query_one(FactsWidget)
    values = getters.query_one(YamlText)
    log_view = getters.query_one(LogView)
    against = getters.query_one("#against", SentenceLine)
    table = getters.query_one(DifferenceTable)

    def __init__(self, number: str, other: str = "") -> None:
        super().__init__()
        self.trail_name = f"run {number}"
        self._number, self._other_number = int(number), int(other) if other else 0
        self._runs: tuple[RunRecord, ...] = ()
        self._yaml = ""
        self._titled_runs = (0, 0)
        self._log_read_for: tuple[str, str] | None = None
        """(uid of the JobSet, outcome of the run) for which the log was last read; None before that."""

    @property
    def run(self) -> RunRecord | None:
        """This run's record; None before it is read or after it was deleted."""
        return next((run for run in self._runs if run.number == self._number), None)

    @property
    def compared_run(self) -> RunRecord | None:
        """The run to compare with: the chosen one, else the last successful one before it; None without one."""
        if self._other_number:
            return next((run for run in self._runs if run.number == self._other_number), None)
        return last_success(self._runs, self.run) if self.run is not None else None

    def body(self) -> ComposeResult:
        yield SentenceLine(id="head")
        yield FactsWidget()
        yield TrainingPanel()
        yield NcclPanel()
        yield SentenceLine(id="no-log")
        yield LogView()
        yield SentenceLine(id="values-title")
        yield YamlText()
        yield SentenceLine(id="against")
        yield DifferenceTable()

    def on_mount(self) -> None:
        """Focus the differences if there are any."""
        title = (Span("── ", "faint"), Span(GIVEN_VALUES_NOTE, "head"))
        self.query_one("#values-title", SentenceLine).runs = title
        self.values.focus()

    def show_runs(self, records: tuple[RunRecord, ...]) -> None:
        self._runs = records
        self._draw_run()

    def _draw_run(self) -> None:
        run = self.run
        if run is None:
            self.head.runs = (Span(f"Run {self._number} is no longer in the history.", "waits"),)
            return
        self.trail_name = run.name
        self._show_title()
        self.head.runs = tuple(run_sentence(run))
        now = SERVER_CLOCK.now()
        self.facts.facts = (
            *run_facts(run, now, owner_text=_owner_name(self, run)),
            ("GPU-time", cost_words(run.ledger(now))),
        )
        if self._log_read_for != (run.uid, run.outcome):
            self._log_read_for = run.uid, run.outcome
            self._read_log(run)
        self.query_one("#no-log", SentenceLine).runs = tuple(self._without_log(run))
        text = yaml_of(run)
        if text != self._yaml:
            self._yaml = text
            self.values.show(text)
        other = self.compared_run
        for widget in (self.against, self.table):
            widget.set_class(other is None, "-none")
        if other is None:
            return
        how = "compared with" if self._other_number else "compared with the last that succeeded:"
        self.against.runs = (
            Span("── ", "faint"),
            Span(f"{how} ", "head"),
            Span(run_reference(other, SERVER_CLOCK.now()), "head"),
        )
        if self._titled_runs != (other.number, run.number):
            self._titled_runs = other.number, run.number
            self.table.name_runs(other, run)
        rows: dict[RowKey, ValueDifference] = {(each.path,): each for each in compare_values(other, run)}
        self.table.show_rows(rows)

    @work(group="log", exclusive=True)
    async def _read_log(self, run: RunRecord) -> None:
        """Show curve and log from the stored log; without a stored log, say why."""
        with self.report_errors(f"The log of {run.name} could not be read"):
            kept = await self.session.measures.read_stored_log(run.namespace, run.name, run.uid)
            self.set_class(kept is None, "-unkept")
            if kept is None:
                return
            from console.logs.merged_text import MergedText

            trained = kept.measures.track is not None
            if trained:
                panel = self.query_one(TrainingPanel)
                panel.over = outcome_cell(run)[0] if run.ended else None
                panel.show(kept.measures.tracks)
            elif kept.measures.tests:
                tests = self.query_one(NcclPanel)
                tests.pass_line, tests.job_tests = self.session.measures.pass_line, kept.measures.tests
            several = len({part.rank for part in kept.parts}) > 1
            text = MergedText(lambda: kept.parts, lambda part: str(part.rank) if several else "")
            self.log_view.end_reason = "○ kept on this machine"
            self.log_view.lines.show_text(text)
            self.set_class(trained, "-trained")
            self.set_class(bool(kept.measures.tests) and not trained, "-tested")
            self.set_class(bool(text.line_count()), "-logged")
            self.refresh_bindings()

    def _without_log(self, run: RunRecord) -> list[Span]:
        """A text on why there is neither curve nor log, and what to do."""
        jobset = self.app.fleet.jobsets.get(run.key)
        if not run.uid and jobset is None:
            return [Span("No curve and no log: its job was never seen in the cluster.", "dim")]
        why = Span(
            "No curve and no log: its log was never opened on this machine, and only what is opened is kept.", "dim"
        )
        if jobset is not None and jobset.uid == run.uid:
            return [why, Span(" The job is still there: J opens it, t and l there read its log and keep it.")]
        return [
            why,
            Span(
                " The job is gone. Of the next one: open its log while it is there (l on Jobs, or a4 logs),"
                " or set storage.logs at launch, which keeps it beside the job."
            ),
        ]

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(event.size.height < 34, "-low")

    def action_log(self) -> None:
        self.toggle_class("-log")
        self.refresh_bindings()
        self.set_focus(self.log_view.lines if self.has_class("-log") else self.values)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "log":
            return self.is_mounted and self.has_class("-logged")
        return super().check_action(action, parameters)

    @on(LogView.Saved)
    @work(group="actions")
    async def save(self, event: LogView.Saved) -> None:
        await save_log(self, event.text, self.trail_name)

    def action_again(self, at_once: bool = False) -> None:
        if self.run is not None:
            launch_like(self, self.run, self.compared_run, at_once=at_once)

    def action_job(self) -> None:
        if self.run is not None:
            open_job(self, self.run)

    def action_copy(self) -> None:
        self.app.copy_to_clipboard(self._yaml)
        self.notify("Copied.", timeout=2)

    @work(group="actions")
    async def action_compare(self) -> None:
        """Choose the run to compare with; runs of the same recipe come first."""
        run = self.run
        if run is None:
            return
        now = SERVER_CLOCK.now()
        others = [each for each in self._runs if each.number != run.number]
        others.sort(key=lambda each: each.recipe != run.recipe)
        choices = [
            PickEntry(
                str(each.number), f"{each.name}  {each.recipe}  {each.outcome} {wording.moment(each.launched, now)}"
            )
            for each in others
        ]
        picked = await self.app.push_screen_wait(Pick("Compare with which run?", choices))
        found = find_run(others, picked) if picked else None
        if found is not None:
            self._other_number = found.number
            self._draw_run()


def yaml_of(run: RunRecord) -> str:
    """The run's values as YAML; a comment if there are none."""
    import yaml  # only this page needs it

    if not run.values:
        return "# every value at the recipe's default"
    return str(yaml.safe_dump(dict(run.values), sort_keys=False, allow_unicode=True)).strip()
