"""The training of a job: loss, gradients, speed, events, and earlier runs of the recipe."""

from __future__ import annotations

from contextlib import aclosing
from typing import ClassVar

from textual import getters, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from console.errors import ConsoleError
from console.kube.objects.jobset import JobState
from console.kube.snapshot import Fleet
from console.metrics.export_results import export_tracks
from console.metrics.health import STEPLESS_WORDS
from console.metrics.job_measures import JobMeasures
from screens import wording
from screens.columns.job_header import explanation, why_no_step
from screens.columns.jobs import JobLine, health_spans, time_left_words
from screens.dialogs.save_and_copy import save_export
from screens.job_tabs.tab import JobTab
from screens.widgets.charts.training_panel import TrainingCharts, TrainingPanel

CHART_LINES = 23  # lines of charts, and of what is said of them, from which on others are left


class TrainingTab(JobTab):
    """The tab with the steps of a training, read from its first opening on, visible or not."""

    NAME = "training"
    KEY = "t"
    TITLE = "Training"
    SHOWS = frozenset({"figures", "curves"})
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "p", "earlier", "Earlier runs", id="training.earlier", tooltip="Show or hide earlier runs of the recipe"
        ),
        Binding("S", "save", "Save", key_display="S", id="training.save", tooltip="As .csv, .json or .svg"),
        Binding("enter", "line", "Log line", id="training.line", tooltip="The line of the step that is pointed at"),
    ]

    panel = getters.query_one(TrainingPanel)
    focus_target = getters.query_one(TrainingCharts)
    _was_opened = False
    _measures: JobMeasures | None = None
    _pointed_line: tuple[float, str] | None = None
    """(time, text) of a log line whose step the chart points at once the log has been read up to it; else None."""

    def on_mount(self) -> None:
        self.watch(self.panel.charts, "view", self.refresh_bindings, init=False)

    def compose(self) -> ComposeResult:
        yield TrainingPanel()

    @property
    def fault(self) -> str:
        track = self._measures.track if self._measures and not self._measures.is_reading_old_lines else None
        return track.position().nan_words if track is not None and track.nan else ""

    def activated(self) -> None:
        if not self._was_opened:
            self._was_opened = True
            self._follow_measures()
        super().activated()

    def spare_lines(self, height: int) -> int:
        return 0 if self.panel.charts.alone else height - CHART_LINES

    def resume_after_reconnect(self) -> None:
        if self._was_opened:
            self._follow_measures()

    def opened(self) -> None:
        self._show_measures()

    def update_note(self, line: JobLine | None, fleet: Fleet) -> None:
        health = line.health if line is not None else None
        self.panel.late = health if health is not None and health.state in STEPLESS_WORDS else None
        self._update_summary()
        if self.is_open:
            self.panel.known = "".join(run.text for run in explanation(line, is_gone=False)) if line is not None else ""
            self.panel.time_left = time_left_words(line) if line is not None else ""
            self.panel.over = health_spans(health)[0] if health is not None and (health.over or health.kept) else None
            self.panel.reading = self._has_unread_log
            self.panel.waiting_text = why_no_step(line) if line else self.waits_to_appear()

    @work(group="training", exclusive=True)
    async def _follow_measures(self) -> None:
        try:
            async with self.live.session.measures.open_job(*self.key) as job, aclosing(job.follow_changes()) as changes:
                self._measures = job
                async for _ in changes:
                    self._update_summary()
                    if self.is_open:
                        self._show_measures()
        except ConsoleError as error:
            self.panel.waiting_text = f"The log cannot be read: {error}"

    @property
    def _has_unread_log(self) -> bool:
        """Whether the log has lines up to the present that have not been read."""
        begun = self.line is not None and self.line.jobset.state is not JobState.PENDING
        return begun and (self._measures is None or self._measures.is_reading_old_lines)

    def _update_summary(self) -> None:
        track = self._measures.track if self._measures and not self._measures.is_reading_old_lines else None
        if track is not None and track.last is not None:
            loss = track.latest_value("loss")
            late = wording.plain_text(health_spans(self.panel.late)) if self.panel.late is not None else ""
            done = wording.percent(track.last.step, track.total) if track.last.step and track.total else ""
            known = "  ".join(filter(None, (done, f"loss {loss:.4g}" if loss is not None else "")))
            self.note = f"{wording.ALARM.text} {track.position().what}" if track.nan else late or known

    def _show_measures(self) -> None:
        if self._measures is not None:
            self.panel.reading = self._has_unread_log
            self.panel.gpu = self._measures.accelerator
            self.panel.unreadable = self._measures.unreadable.get("training")
            self.panel.show(self._measures.tracks)
            if self._pointed_line is not None and not self._has_unread_log:
                self.panel.point_at(*self._pointed_line)
                self._pointed_line = None
            self.refresh_bindings()

    # what can be done with it

    def hides(self) -> dict[str, str]:
        return {"earlier": "Hide earlier"} if self.is_mounted and self.panel.earlier_runs else {}

    def offers(self) -> dict[str, object]:
        known = self.panel.track is not None
        return {"earlier": known, "save": known, "line": self.panel.charts.pointed is not None}

    def action_line(self) -> None:
        at, track = self.panel.charts.pointed, self.panel.track
        if at is not None and track is not None:
            self.post_message(self.Chosen(self.rank, "log", line=(track.times[at], f"{track.numbers[at]:.0f}")))

    def show_line(self, time: float, sentence: str) -> None:
        self._pointed_line = time, sentence
        self._show_measures()

    @work(group="earlier", exclusive=True)
    async def action_earlier(self) -> None:
        panel, job = self.panel, self._measures
        if panel.earlier_runs or job is None:
            panel.earlier_runs = ()
        else:
            with self.live.report_errors("Earlier runs cannot be read"):
                panel.earlier_runs = tuple(await self.live.session.measures.read_earlier_runs(job))
            if not panel.earlier_runs:
                self.notify("No earlier run of this recipe has a log that is kept.")
        panel.redraw()
        self.refresh_bindings()

    @work(group="actions")
    async def action_save(self) -> None:
        panel, shown = self.panel, self.panel.track
        if shown is None:
            return
        name, metric = self.key[1], panel.charts.metrics[0].name

        def text(kind: str) -> str:
            return export_tracks(kind, name, panel.tracks, shown, panel.earlier_runs, metric=metric, gpu=panel.gpu)

        await save_export(self.live, f"{name}-training.csv", text)
