"""The panel of a training run: progress, events, and charts over one axis."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.getters import query_one
from textual.reactive import reactive

from console.kube.stream_completeness import SERVER_CLOCK
from console.metrics.gpu_metrics import mfu, peak_tflops
from console.metrics.health import JobHealth
from console.metrics.log_search import SAME_TIME_SECONDS, contains_number
from console.metrics.training_run import RunEvent, RunEventKind, TrainingRun
from screens import wording
from screens.columns.jobs import health_spans
from screens.widgets.charts.braille import READING_LOG, Canvas, MeasuresPanel, PlotBox, PlotWidget, tick_words
from screens.widgets.charts.training_chart import (
    EARLIER_LETTERS,
    EVENT_MARKS,
    TrainingChartData,
    View,
    clock_words,
    draw_chart,
    visible_range,
    x_origin,
)
from screens.widgets.wrapped_sentence import SentenceLine
from screens.wording import Span
from trainlog import STEP_METRICS, StepMetric

BAR_COLUMNS = 14
POD_EVENTS = {RunEventKind.FAILURE, RunEventKind.EVICTION, RunEventKind.PREEMPTION}
MAX_NAMED_MARKS = 4  # kinds of marks that are told of
MIN_MARK_COLUMNS = 12  # letters of a mark's words


def run_summary(
    run: TrainingRun,
    gpu: str = "",
    *,
    left: str = "",
    late_health: JobHealth | None = None,
    over: Span | None = None,
    is_short: bool = False,
) -> list[Span]:
    """Progress, loss, speed, end of a training in a line; `left`: time to the last step, `over`: sign if it is over."""
    last = run.last
    if last is None:
        return [Span("◐ ", "waits"), Span("Training has begun; its first step is on the way.")]
    at_work = health_spans(late_health)[0] if late_health is not None else wording.OK
    glyph = over or (wording.ALARM if run.nan else wording.DONE if run.finished else at_work)
    runs = [glyph, Span(" ")]
    total = run.total
    if total and last.step is not None:
        runs += [*wording.bar(last.step, total, BAR_COLUMNS), Span(f" {wording.percent(last.step, total)} ", "strong")]
        runs.append(Span(f"step {last.step:,} of {total:,}"))
    elif last.step is not None:
        runs.append(Span(f"step {last.step:,}"))
    loss = run.latest_value("loss")
    if run.nan:
        runs.append(Span(f"; {run.position().nan_words}", "bad"))
    elif loss is not None:
        runs.append(Span(f"; loss {loss:.4g}"))
    left = "finished" if run.finished else "" if late_health or over else left.partition(",")[0] if is_short else left
    for words in (_speed_words(run, gpu, is_short=is_short), left):
        if words:
            runs.append(Span(f"; {words}"))
    return [*runs, Span(f"; {late_health.words}", glyph.style)] if late_health else runs


def _speed_words(run: TrainingRun, gpu: str, *, is_short: bool) -> str:
    parts = []
    reached, pace = run.recent_mean("tflops_per_gpu"), run.pace()
    if reached is not None:
        share, peak = mfu(reached, gpu), peak_tflops(gpu)
        of_peak = f" ({100 * share:.0f} % MFU of {peak:,.0f})" if share is not None and peak else ""
        if is_short and share is not None:
            parts.append(f"{100 * share:.0f} % MFU")
        else:
            parts.append(f"{wording.figure(reached)} TFLOP/s per GPU{of_peak}")
    if pace is not None:
        parts.append(f"{pace:.3g} s a step" if pace < 100 else f"{wording.duration(pace)} a step")
    tokens = run.recent_mean("tokens_per_s")
    if tokens is not None and not is_short:
        parts.append(f"{tokens:,.0f} tokens/s")
    return ", ".join(parts)


def marks_words(events: Sequence[RunEvent], began_at: float = 0.0) -> list[Span]:
    """The events of a run as spans, most important kinds first, with the last of each kind in full.

    `began_at`: when the log shows the first step; an event of a pod may be earlier.
    """
    runs: list[Span] = []
    kinds = [kind for kind in EVENT_MARKS if any(mark.kind is kind for mark in events)]
    for kind in kinds[:MAX_NAMED_MARKS]:
        every = [mark for mark in events if mark.kind is kind]
        letter, style = EVENT_MARKS[kind]
        one, several = ("NaN", "NaN") if kind is RunEventKind.NAN else (kind, f"{kind}s")
        what = f"{len(every)} {several}, the last" if len(every) > 1 else one
        last, when = every[-1], ""
        if kind in POD_EVENTS:
            earlier = ", before the first step of this log" if last.time < began_at else ""
            when = f", {wording.clock_time(last.time, SERVER_CLOCK.now())}{earlier}"
        words = f" {what}: {last.words}{when}  "
        runs += [Span(letter, style), Span(words, "" if kind is not RunEventKind.CHECKPOINT else "dim")]
    return runs


def value_words(value: float | None) -> str:
    if value is None or not math.isfinite(value):
        return "─"
    return f"{value:,.4g}" if 0.001 <= abs(value) < 10_000 else tick_words(value)


MIN_VIEW_SHARE = 1 / 4096  # the smallest share of the axis that may fill the chart
_ZOOM_FACTOR = 2.0
_SCROLL_SHARE = 0.25  # share of what is in sight by which it is moved
_SMALL_CHART_LINES, _SMALL_CHART_COLUMNS = 5, 26


def chart_boxes(width: int, height: int, metrics: Sequence[StepMetric], *, is_alone: bool) -> list[PlotBox]:
    """The rectangle of each metric's chart, the large one first; a metric without room has none."""
    others = 0 if is_alone else len(metrics) - 1
    if width >= 110 and height >= 10 and others:
        beside = min(others, max(1, height // _SMALL_CHART_LINES))
        large, high = width * 62 // 100, height // beside
        return [PlotBox(0, 0, large - 2, height)] + [
            PlotBox(large, at * high, width - large, high if at < beside - 1 else height - at * high)
            for at in range(beside)
        ]
    if height >= 14 and others:
        below = min(others, max(1, width // _SMALL_CHART_COLUMNS), 4)
        low = max(5, height // 3)
        wide = width // below
        return [PlotBox(0, 0, width, height - low)] + [
            PlotBox(at * wide, height - low, wide - 1, low) for at in range(below)
        ]
    return [PlotBox(0, 0, width, height)]


def draw_charts(
    data: TrainingChartData, view: View, metrics: Sequence[StepMetric], width: int, height: int, *, is_alone: bool
) -> Canvas:
    """Draw all charts on one canvas; the first metric gets the large chart."""
    canvas = Canvas(width, height)
    with data.track.lock:
        for at, (metric, box) in enumerate(
            zip(metrics, chart_boxes(width, height, metrics, is_alone=is_alone), strict=False)
        ):
            own = view if metric.name == "loss" or at == 0 else replace(view, log=False)
            title = _chart_title(data, metric, own, is_large=at == 0)
            draw_chart(canvas, box, data, metric, own, title, large=at == 0)
    return canvas


def pointed_step(data: TrainingChartData, view: View) -> int | None:
    if view.pointer_share is None:
        return None
    sight = visible_range([data.track, *data.earlier_runs], view)
    where = x_origin(data.track, view) + sight.low + (sight.high - sight.low) * view.pointer_share
    return data.track.index_at(where, by_time=view.by_time)


def _chart_title(data: TrainingChartData, metric: StepMetric, view: View, *, is_large: bool) -> str:
    column = data.track.columns.get(metric.name)
    if column is None:
        return metric.title
    extra = []
    value = column.last_value()
    at = pointed_step(data, view)
    if at is not None:
        value = column.values[at] if column.values[at] == column.values[at] else None
        extra.append(f"at step {data.track.numbers[at]:,.0f}, {clock_words(data.track.times[at])}")
    if is_large:
        extra += ["log"] * view.log
        extra += [f"{1 / view.span:,.3g}× zoom"] * (view.span < 1)
    unit = f" {metric.unit}" if metric.unit and value is not None else ""
    return "  ".join([f"{metric.title} {value_words(value)}{unit}", *extra])


class TrainingCharts(PlotWidget, can_focus=True):
    """A widget with the charts of a training; keys select, zoom, scroll and move the pointer."""

    DEFAULT_CSS: ClassVar[str] = "TrainingCharts { height: 1fr; width: 1fr; padding: 0 1; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "choose(1)", "Next metric", id="training.next", key_display="↓"),
        Binding("up,k", "choose(-1)", "Metric before", show=False, id="training.before", key_display="↑"),
        Binding("plus,equals_sign", "zoom(1)", "Zoom", id="training.in", key_display="+"),
        Binding("minus", "zoom(-1)", "Zoom out", id="training.out", key_display="-"),
        Binding("left", "scroll_by(-1)", "Earlier", show=False, id="training.left", key_display="←"),
        Binding("right", "scroll_by(1)", "Later", show=False, id="training.right", key_display="→"),
        Binding("home", "whole", "Whole run", show=False, id="training.whole", key_display="home"),
        Binding("end,G", "latest", "Latest", show=False, id="training.latest", key_display="end"),
        Binding("comma", "point(-1)", "Point left", show=False, id="training.point-left", key_display=","),
        Binding("full_stop", "point(1)", "Point right", show=False, id="training.point-right", key_display="."),
        Binding("a", "switch('by_time')", "Steps/time", id="training.axis", tooltip="Steps or time on the axis"),
        Binding("g", "switch('log')", "Log", id="training.log", tooltip="Logarithmic or linear"),
        Binding(
            "m", "switch('smooth')", "Smooth", show=False, id="training.smooth", tooltip="Smoothed beside raw, or raw"
        ),
        Binding("z", "toggle('alone')", "Large", show=False, id="training.alone", tooltip="The large chart alone"),
    ]

    data: reactive[TrainingChartData | None] = reactive(None, always_update=True)
    view: reactive[View] = reactive(View())
    large_metric: reactive[str] = reactive("loss")  # name of the metric that is large
    alone: reactive[bool] = reactive(False)

    watch_data = PlotWidget.redraw
    watch_view = PlotWidget.redraw
    watch_large_metric = PlotWidget.redraw
    watch_alone = PlotWidget.redraw

    @property
    def metrics(self) -> list[StepMetric]:
        columns = self.data.track.columns if self.data else {}
        known = [metric for metric in STEP_METRICS if metric.name in columns] or list(STEP_METRICS[:1])
        return sorted(known, key=lambda metric: metric.name != self.large_metric)

    def plot(self, width: int, height: int) -> Canvas:
        if self.data is None or width < 12 or height < 3:
            return Canvas(width, 0)
        return draw_charts(self.data, self.view, self.metrics, width, height, is_alone=self.alone)

    @property
    def pointed(self) -> int | None:
        return pointed_step(self.data, self.view) if self.data is not None else None

    def point_at(self, x: int) -> None:
        """Point at a step; if it is not visible, show the whole run."""
        if self.data is None:
            return
        track, view = self.data.track, self.view
        where = track.x_axis(by_time=view.by_time)[x] - x_origin(track, view)
        sight = visible_range([track, *self.data.earlier_runs], view)
        if not sight.low <= where <= sight.high:
            view = replace(view, span=1.0, end=1.0)
            sight = visible_range([track, *self.data.earlier_runs], view)
        self.view = replace(view, pointer_share=(where - sight.low) / ((sight.high - sight.low) or 1.0))

    # keys

    def action_choose(self, step: int) -> None:
        known = sorted(self.metrics, key=STEP_METRICS.index)
        at = next((at for at, metric in enumerate(known) if metric.name == self.metrics[0].name), 0)
        self.large_metric = known[(at + step) % len(known)].name

    def action_zoom(self, step: int) -> None:
        """Zoom in or out around the pointer, else around the latest steps or the middle."""
        view = self.view
        span = min(1.0, max(MIN_VIEW_SHARE, view.span / _ZOOM_FACTOR if step > 0 else view.span * _ZOOM_FACTOR))
        about = view.end - view.span * (1 - view.pointer_share) if view.pointer_share is not None else None
        if about is not None:
            end = about + span * (1 - (view.pointer_share or 0.0))
        else:
            end = view.end if view.end >= 1 else view.end - (view.span - span) / 2
        self.view = replace(view, span=span, end=min(1.0, max(span, end)))

    def action_scroll_by(self, step: int) -> None:
        view = self.view
        end = view.end + step * _SCROLL_SHARE * view.span
        self.view = replace(view, end=min(1.0, max(view.span, end)))

    def action_whole(self) -> None:
        self.view = replace(self.view, span=1.0, end=1.0, pointer_share=None)

    def action_latest(self) -> None:
        self.view = replace(self.view, end=1.0, pointer_share=None)

    def action_point(self, step: int) -> None:
        old = self.view.pointer_share
        large = chart_boxes(self.size.width, self.size.height, self.metrics, is_alone=self.alone)[0]
        at = (1.0 if step < 0 else 0.0) if old is None else old + step / max(1, large.width - 8)
        self.view = replace(self.view, pointer_share=min(1.0, max(0.0, at)))

    def action_switch(self, name: str) -> None:
        self.view = replace(self.view, **{name: not getattr(self.view, name)})

    def on_click(self, event: events.Click) -> None:
        """Move the pointer to the click, and enlarge a small chart."""
        found = chart_boxes(self.size.width, self.size.height, self.metrics, is_alone=self.alone)
        x, y = event.get_content_offset_capture(self)
        for metric, box in zip(self.metrics, found, strict=False):
            if box.x <= x < box.x + box.width and box.y <= y < box.y + box.height:
                if metric.name != self.metrics[0].name:
                    self.large_metric = metric.name
                else:
                    self.view = replace(self.view, pointer_share=min(1.0, max(0.0, (x - 7) / max(1, box.width - 8))))
                return


class TrainingPanel(MeasuresPanel):
    DEFAULT_CSS: ClassVar[str] = """
    TrainingPanel { layout: vertical; height: 1fr;
        & #far, & #happened { max-height: 2; }
        &.-low #happened { max-height: 1; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("less_than_sign", "turn(-1)", "Run before", key_display="<", id="training.run-before"),
        Binding("greater_than_sign", "turn(1)", "Run after", key_display=">", id="training.run-after"),
    ]

    charts = query_one(TrainingCharts)
    sentence = query_one("#far", SentenceLine)
    events_line = query_one("#happened", SentenceLine)
    waiting_text: reactive[str] = reactive("No training step has been printed in this job.")
    gpu: reactive[str] = reactive("")  # label of the GPUs, for the MFU
    late: reactive[JobHealth | None] = reactive(None)  # of a job that makes no steps
    over: reactive[Span | None] = reactive(None)  # sign of a job that has ended
    time_left: reactive[str] = reactive("")  # the time until its last step
    _width = 0
    known: reactive[str] = reactive("")  # what the page above it tells, which is not told again

    def __init__(self) -> None:
        super().__init__()
        self.tracks: tuple[TrainingRun, ...] = ()
        self.earlier_runs: tuple[tuple[str, TrainingRun], ...] = ()
        """(job name, run) of earlier runs of the same recipe that are drawn in the same charts."""

    def compose(self) -> ComposeResult:
        yield SentenceLine(id="far")
        yield SentenceLine(id="happened")
        yield TrainingCharts()

    @property
    def track(self) -> TrainingRun | None:
        return self.tracks[self.shown_index] if self.tracks else None

    @property
    def number(self) -> int:
        return len(self.tracks)

    def show(self, runs: tuple[TrainingRun, ...]) -> None:
        self.tracks = runs
        self.redraw()

    def point_at(self, time: float, line: str) -> None:
        """Point at the step printed at `time` (seconds since the epoch); of several, at the one that `line` names."""
        begun = [
            at for at, track in enumerate(self.tracks) if len(track) and track.times[0] <= time + SAME_TIME_SECONDS
        ]
        place = begun[-1] if begun else len(self.tracks) - 1
        if place < 0 or not len(self.tracks[place]):
            return
        self.chosen = None if place == len(self.tracks) - 1 else place
        self.redraw()
        track = self.tracks[place]
        first = bisect_left(track.times, time - SAME_TIME_SECONDS)
        same = range(first, bisect_right(track.times, time + SAME_TIME_SECONDS))
        self.charts.point_at(
            next((at for at in same if contains_number(line, track.numbers[at])), min(first, len(track) - 1))
        )

    watch_late = watch_over = watch_time_left = MeasuresPanel.redraw
    watch_known = MeasuresPanel.redraw

    def draw(self) -> None:
        track = self.track
        if track is None:
            self.sentence.runs = self.waiting_spans
            self.events_line.runs = tuple(self.unreadable_spans())
            self.events_line.display = bool(self.events_line.runs)
            self.charts.data = None
            return
        with track.lock:
            marks = track.list_events()
            latest = track is self.tracks[-1]
            late, over = (self.late, self.over) if latest else (None, None if track.finished else wording.IDLE)
            spans = self._read_so_far(track) or run_summary(
                track, self.gpu, left=self.time_left, late_health=late, over=over, is_short=self._width < 100
            )
            self.sentence.runs = (*self.ordinal("run"), *(run for run in spans if self._is_new(run.text.lstrip("; "))))
        letters = [Span(f"{EARLIER_LETTERS[at % len(EARLIER_LETTERS)]} {name}  ", f"job-{1 + 2 * at}")
                   for at, (name, _) in enumerate(self.earlier_runs)]  # fmt: skip
        new, begun = [mark for mark in marks if self._is_new(mark.words)], track.times[0] if len(track) else 0.0
        self.events_line.runs = (*self.unreadable_spans(), *marks_words(new, begun), *letters)
        self.events_line.display = bool(self.events_line.runs)
        self.charts.data = TrainingChartData(track, marks, [each for _, each in self.earlier_runs])

    def _is_new(self, sentence: str) -> bool:
        since = sentence.replace(" NaN at ", " NaN since step ")
        return len(sentence) < MIN_MARK_COLUMNS or not (sentence in self.known or since in self.known)

    def _read_so_far(self, run: TrainingRun) -> list[Span]:
        """A text on the last step read, while old lines are still being read."""
        if not self.reading or run is not self.tracks[-1]:
            return []
        step = run.last.step if run.last is not None else None
        return [*READING_LOG, *([Span(f" Step {step:,} so far.", "dim")] if step is not None else [])]

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(event.size.height < 22, "-low")
        if event.size.width != self._width:
            self._width = event.size.width
            self.redraw()
