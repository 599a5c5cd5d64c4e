"""The jobs page: state, progress and health of all jobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from textual import getters, on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from console.kube.objects.jobset import JobState
from console.kube.snapshot import Fleet
from console.kube.stream_completeness import SERVER_CLOCK
from console.scheduling.pod_slots import PodSlot
from screens import wording
from screens.alarm_toasts import has_changed, live_job_line
from screens.columns.column import RowKey
from screens.columns.jobs import JOBS, JobLine, place_words, progress_cell, reason_and_message, state_cell
from screens.dialogs.alarm_actions import ACT, act_on_trouble, trouble_of
from screens.dialogs.editor_and_tunnel import open_editor_in_rank
from screens.dialogs.launch import launch_like_job
from screens.dialogs.pod_actions import AFTER_THE_END_BY_KEY, open_shell
from screens.dialogs.stop import stop_jobs
from screens.dialogs.why import MANY_LINES, WHY, show_why
from screens.list_and_pane import ReasonScreen
from screens.live_screen import ONLY_MINE, READ_CHECKPOINTS, WHAT_IF
from screens.widgets.job_pane import job_lines, reason_lines, tail_lines
from screens.widgets.side_pane import Lines
from screens.widgets.table.row_painter import EmptyNotice
from screens.widgets.table.table import ResourceTable
from screens.wording import MINE_MARK, Span, spans_of

STILL_SECONDS = 3.0  # seconds after the last key in which no row moves, whatever becomes of its job
TABS_BY_KEY = (
    ("b", "nccl", "NCCL"),
    ("t", "training", "Training"),
    ("h", "gpus", "GPUs"),
    ("H", "hang", "Hang"),
    ("e", "events", "Events"),
)
"""(key, tab, title) of the tabs of a job's page that open from the list of jobs by their own key."""


class JobTable(ResourceTable[JobLine]):
    LIST = "jobs"
    NOUN = "job"
    EMPTY = EmptyNotice("No jobs.", "n launches one.")
    COLUMNS = JOBS.columns
    GROUPS = ((2, "NEEDS YOU"), (4, "RUNNING"), (5, "WAITING"), (6, "ENDED"))  # by the places of their rows

    def row_text(self, row: JobLine) -> str:
        jobset = row.jobset
        whose = wording.owner_words(row.owner, jobset.owner)
        state = "".join(run.text for run in spans_of(state_cell(row)))
        return f"{jobset.namespace} {jobset.name} {whose} {jobset.recipe} {state} {jobset.queue}"


class JobsScreen(ReasonScreen):
    """The Jobs page: all JobSets, and below them why the selected one is in its state."""

    CSS_PATH = "jobs.tcss"
    KINDS = ("jobsets", "pods", "workloads")
    ROW_PAGE = "job"
    CHANGES_CLUSTER = frozenset({"stop", "shell", "launch", "act", "editor"})
    SUBJECT = ReasonScreen.SUBJECT | {"job"}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("l", "log", "Log", id="jobs.log", tooltip="Its log, live: the pod of its alarm or of its iterations"),
        Binding("s", "shell", "Shell", id="jobs.shell", tooltip="A shell in its first pod that runs"),
        Binding("x", "stop", "Stop", id="jobs.stop", tooltip="Stop this job, or all marked ones; asks first"),
        ACT,
        Binding("n", "launch", "Launch", id="jobs.launch",
                tooltip="Start another job, from the values of the one under the cursor"),
        ONLY_MINE,
        WHY,
        WHAT_IF,
        Binding("v", "editor", "VS Code", show=False, id="jobs.editor",
                tooltip="ssh to its first pod that runs; asks before it sets anything up"),
        Binding("y", "manifest", "YAML", id="jobs.manifest", tooltip="The JobSet as YAML"),
        *(Binding(key, f"tab('{tab}')", title, show=False, key_display=key, id=f"jobs.{tab}",
                  tooltip=f"The job's page at {title}") for key, tab, title in TABS_BY_KEY),
        Binding("c", "checkpoints", "Checkpoints", show=False, id="jobs.checkpoints", tooltip=READ_CHECKPOINTS),
    ]  # fmt: skip

    table = getters.query_one(JobTable)
    _sort_keys: Mapping[RowKey, tuple[int, float, tuple[str, str]]] = {}  # by which its rows are sorted

    def body(self) -> ComposeResult:
        table = JobTable()
        table.place_of = lambda key: self._sort_keys[key][0]
        yield from self.with_reason(table)

    def subject(self) -> dict[str, str]:
        row = self.table.row
        namespace = {"namespace": row.jobset.namespace} if row is not None else {}
        return {**super().subject(), **namespace, "job": row.jobset.name if row is not None else ""}

    def show_fleet(self, fleet: Fleet) -> None:
        self._show_jobs(fleet)
        self.redraw_pane()

    def _show_jobs(self, fleet: Fleet) -> None:
        jobsets = self.in_chosen_namespace(fleet.jobsets).values() if self.app.connected else ()
        lines = [live_job_line(self.app, jobset, fleet) for jobset in jobsets]
        stays = self._sort_keys if self.app.seconds_since_key < STILL_SECONDS else {}
        self._sort_keys = {line.jobset.key: stays.get(line.jobset.key) or line.sort_key for line in lines}
        lines.sort(key=lambda line: self._sort_keys[line.jobset.key])
        rows: dict[RowKey, JobLine] = {line.jobset.key: line for line in lines}
        self.table.show_rows(rows, fleet.links.get("jobsets"))
        if self.app.launched in rows:
            self.table.move_to(self.app.launched)
            self.app.launched = None
        self._show_row_reason()

    def on_mount(self) -> None:
        self.follow_jobs(lambda: [(key[0], key[1]) for table in self.query(JobTable) for key in table.shown_keys])

    def tick(self) -> None:
        if any(has_changed(self.app, line) for line in self.table.listing.rows.values()):
            self._show_jobs(self.app.fleet)
        super().tick()

    def pane_lines(self, width: int, height: int, now: float) -> Lines:
        line = self.table.row
        if line is None:
            return []
        measures = self.session.measures.find_followed(line.jobset.key) if self.app.connected else None
        return job_lines(line, measures, width, height, now, self.app.format_owner, shows_tail=not self.shows_under)

    def under_lines(self, width: int, height: int, now: float) -> Lines:
        line = self.table.row
        measures = self.session.measures.find_followed(line.jobset.key) if line and self.app.connected else None
        return tail_lines(line, measures, width, height, now) if line is not None else []

    @on(ResourceTable.Highlighted)
    def _show_row_reason(self) -> None:
        line = self.table.row
        self.update_keys(line is not None and line.may_act)
        if line is None:
            self.show_reason()
            return
        glyph, state = spans_of(state_cell(line))
        sentence, own = reason_and_message(line)
        # the bar says nothing that the share beside it does not say
        progress = [Span("  "), *(run for run in spans_of(progress_cell(line)) if run.text.strip("█░"))]
        cause = (
            f"{wording.short_nodes(wording.sentence(line.health.verdict))}; " if line.health.verdict else ""
        )  # before how long it has been quiet
        span = Span(f"  {cause}{sentence or place_words(line)}")
        waits = line.jobset.state is JobState.PENDING  # its start is what one looks for, so no sentence pushes it out
        self.show_reason(
            glyph,
            Span(f" {line.jobset.name}", "strong"),
            state,
            *((*progress, span) if waits else (span, *progress)),
            Span(f"  {own}" if own else "", "dim"),
        )

    def action_why(self) -> None:
        if (line := self.table.row) is not None:
            show_why(self, line.jobset.name, reason_lines(line, MANY_LINES, SERVER_CLOCK.now(), self.app.format_owner))

    def show_mine(self) -> None:
        self.set_focus(self.table)
        if self.table.filter_text != MINE_MARK:
            self.action_mine()

    def action_log(self) -> None:
        self.action_tab("log")

    def action_tab(self, tab: str) -> None:
        if self.table.cursor:
            self.app.open_page("job", *self.table.cursor, tab)

    @work(group="actions")
    async def action_shell(self) -> None:
        for line, rank in self._first_running():
            await open_shell(self, line.jobset.namespace, rank.name)

    @work(group="actions")
    async def action_editor(self) -> None:
        for line, rank in self._first_running():
            with self.report_errors(f"No editor in {rank.name}"):
                await open_editor_in_rank(self, line, rank)

    def _first_running(self) -> list[tuple[JobLine, PodSlot]]:
        """The job under the cursor and its first pod that runs; empty, with a notification, if none does."""
        line = self.table.row
        running = [rank for rank in line.pod_slots if rank.pod and rank.phase == "Running"] if line is not None else []
        if line is not None and not running:
            left = f" {AFTER_THE_END_BY_KEY}" if line.jobset.finished else ""
            self.notify(f"{line.jobset.name} has no running pod.{left}", severity="warning", timeout=8)
        return [(line, rank) for rank in running[:1] if line is not None]

    @work(group="actions")
    async def action_stop(self) -> None:
        chosen = [(key[0], key[1]) for key in self.table.chosen_keys]
        if chosen and await stop_jobs(self, chosen):
            self.table.clear_marks()

    def offers(self) -> dict[str, object]:
        row = self.table.row
        return super().offers() | {"act": row and row.may_act}

    @work(group="actions")
    async def action_act(self) -> None:
        await act_on_trouble(self, trouble_of(self, self.table.row))

    @work(group="actions")
    async def action_launch(self) -> None:
        if self.table.row is None:
            await self.app.action_switch_mode("launch")
        else:
            await launch_like_job(self, self.table.row.jobset)

    @work(group="checkpoints", exclusive=True)
    async def action_checkpoints(self) -> None:
        if self.table.row is not None:
            self.notify("Reading the checkpoints…", title=self.table.row.jobset.name, timeout=3, markup=False)
            await self.session.checkpoints.read_job(*self.table.row.jobset.key)

    def action_what_if(self) -> None:
        row = self.table.row
        typed = f"stop {row.jobset.name}" if row is not None and not row.jobset.finished else ""
        self.app.open_page("what_if", self.subject()["namespace"], typed)

    def action_manifest(self) -> None:
        if self.table.cursor:
            self.app.open_page("object_yaml", "JobSet", *self.table.cursor)
