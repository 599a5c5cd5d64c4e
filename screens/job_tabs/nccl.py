"""The NCCL tests of a job: table and curve, with earlier tests."""

from __future__ import annotations

from contextlib import aclosing
from typing import ClassVar

from textual import getters, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from console.errors import ConsoleError
from console.kube.objects.jobset import JobState, RecipeKind, recipe_kind
from console.kube.snapshot import Fleet
from console.metrics.export_results import export_tests
from console.metrics.health import STEPLESS_WORDS
from console.metrics.job_measures import JobMeasures
from screens.columns.job_header import why_no_rank_log, why_no_table
from screens.columns.jobs import JobLine, health_spans
from screens.dialogs.question import Pick, PickEntry
from screens.dialogs.save_and_copy import save_export
from screens.job_tabs.tab import JobTab
from screens.widgets.charts.nccl_panel import NcclPanel, NcclTable
from screens.widgets.job_pane import tail_lines
from screens.widgets.side_pane import WIDE_COLUMNS, Lines
from screens.wording import clock
from trainlog import REFERENCE_RANKS, is_comparable


class NcclTab(JobTab):
    """The tab with NCCL tests, read once rank 0 has started if the job is a test or the tab is visible."""

    NAME = "nccl"
    KEY = "b"
    TITLE = "NCCL"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("a", "against", "Against", id="nccl.against", tooltip="Compare with an earlier test of the same kind"),
        Binding("S", "save", "Save", key_display="S", id="nccl.save", tooltip="As .csv, .json or .svg"),
    ]

    panel = getters.query_one(NcclPanel)
    focus_target = getters.query_one(NcclTable)
    _read_of = ""
    _measures: JobMeasures | None = None

    def compose(self) -> ComposeResult:
        (panel := NcclPanel()).log_tail = self._last_lines
        yield panel

    def _last_lines(self, width: int, height: int, now: float) -> Lines:
        if self.line is None or width < WIDE_COLUMNS:  # rows of tables would be cut
            return []
        measures = self.live.session.measures.find_followed(self.key) if self.live.app.connected else None
        return tail_lines(self.line, measures, width, height, now)

    def resume_after_reconnect(self) -> None:
        self._read_of, self._measures = "", None  # the next snapshot, which comes at once, begins to read again

    def update_note(self, line: JobLine | None, fleet: Fleet) -> None:
        self.panel.waiting_text = why_no_table(line) if line else self.waits_to_appear()
        self.panel.is_comparable = line is None or line.jobset.gpus >= REFERENCE_RANKS
        self.panel.is_over = line is None or line.jobset.finished or line.jobset.state is JobState.STOPPING
        self.panel.late_spans = tuple(health_spans(line.health)) if line and line.health.state in STEPLESS_WORDS else ()
        if line is None:
            if self.is_open and not self._read_of:
                self._read_of = "kept"
                self._follow_measures()
            self._show_reading()
            return
        if not (self.is_open or recipe_kind(line.jobset.recipe) is RecipeKind.NCCL):
            return
        first = line.pod_slots[0].pod if line.pod_slots else None
        started = not why_no_rank_log(0, first) or line.jobset.finished
        if self._read_of != line.jobset.uid and started:
            self._read_of = line.jobset.uid
            self._follow_measures()
        self._show_reading()

    def _show_reading(self) -> None:
        """Show that the log is being read, in place of the claim that it has no table."""
        self.panel.reading = bool(self._read_of) and (self._measures is None or self._measures.is_reading_old_lines)

    def draw(self, line: JobLine | None, fleet: Fleet) -> None:
        self.panel.earlier_pane.renew()

    @work(group="nccl", exclusive=True)
    async def _follow_measures(self) -> None:
        try:
            measures = self.live.session.measures
            self.panel.pass_line = measures.pass_line
            async with measures.open_job(*self.key) as job, aclosing(job.follow_changes()) as changes:
                self._measures = job
                async for now in changes:
                    self._show_reading()
                    panel = self.panel
                    history = self.live.session.measures.test_history
                    panel.nodes, panel.stored_tests = history.nodes, history.tests
                    panel.job_tests = now.tests
                    panel.unreadable = now.unreadable.get("nccl")
                    peak = panel.test.peak_busbw if panel.test else None
                    self.note = f"{peak:,.0f} GB/s" if peak is not None and not now.is_reading_old_lines else ""
                    self.refresh_bindings()
        except ConsoleError as error:
            self._measures = JobMeasures(self.key)  # of which nothing is being read
            self._show_reading()
            self.panel.waiting_text = f"The tables cannot be read: {error}"

    # what can be done with it

    def offers(self) -> dict[str, object]:
        return {"against": self.panel.earlier or self.panel.compared_test, "save": self.panel.shown}

    @work(group="actions")
    async def action_against(self) -> None:
        panel = self.panel
        earlier = {f"{each.job or 'test'} {clock(each.at)}": each for each in panel.earlier}
        choices = [
            PickEntry(name, f"{each.busbw:,.0f} GB/s" if each.busbw else "", each == panel.compared_test)
            for name, each in earlier.items()
        ]
        if panel.compared_test is not None:
            choices.append(PickEntry("nothing", "no comparison"))
        picked = await self.app.push_screen_wait(Pick("Compare with an earlier test of the same kind", choices))
        if picked is not None:
            panel.compared_test = earlier.get(picked)

    @work(group="actions")
    async def action_save(self) -> None:
        panel, shown = self.panel, self.panel.shown
        if shown is None:
            return
        others = [(panel.compared_test.job, panel.compared_test.test)] if panel.compared_test else []
        compared = is_comparable(shown.test, shown.accelerator)

        def text(kind: str) -> str:
            return export_tests(kind, self.key[1], panel.tests, shown.test, others, is_compared=compared)

        await save_export(self.live, f"{self.key[1]}-nccl.csv", text)
