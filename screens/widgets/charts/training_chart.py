"""Draws one metric of a training run: raw and smoothed values, earlier runs, events, axes (pure).

Raw values are sparse dots, the smoothed ones a solid line, earlier runs dotted lines with a letter at their end: all of
it is distinct without colour. Each column of dots shows the lowest and the highest of its steps, so no spike is
lost, however many steps there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from math import ceil, floor, inf
from typing import NamedTuple

from console.metrics.training_run import RunEvent, RunEventKind, TrainingRun
from screens.widgets.charts.braille import DOTS_HIGH, DOTS_WIDE, Canvas, PlotBox, PlotFrame, round_step, tick_words
from trainlog import MetricColumn, StepMetric


def span_words(seconds: float) -> str:
    """Seconds since the start as an axis label: "40s", "12m", "3h20"."""
    whole = round(seconds)
    if whole < 120:
        return f"{whole}s"
    if whole < 7200:
        return f"{whole // 60}m"
    return (
        f"{whole // 3600}h{whole % 3600 // 60:02d}" if whole < 172_800 else f"{whole // 86400}d{whole % 86400 // 3600}h"
    )


def time_step(span: float) -> float:
    """The seconds between two ticks of a time axis of `span` seconds."""
    return next(
        (each for each in (1, 5, 10, 30, 60, 300, 600, 1800, 3600, 7200, 14400, 43200) if span / each <= 8), 86400.0
    )


def clock_words(moment: float) -> str:
    return f"{datetime.fromtimestamp(moment).astimezone():%H:%M:%S}" if moment else ""


EVENT_MARKS = {
    RunEventKind.NAN: ("✗", "bad"),
    RunEventKind.FAILURE: ("!", "bad"),
    RunEventKind.EVICTION: ("⇤", "bad"),
    RunEventKind.PREEMPTION: ("⇤", "bad"),
    RunEventKind.RESTART: ("↻", "accent"),
    RunEventKind.SPIKE: ("▲", "waits"),
    RunEventKind.SLOWER: ("◂", "waits"),
    RunEventKind.PLATEAU: ("═", "dim"),
    RunEventKind.CHECKPOINT: ("◆", "dim"),
}
"""(sign, style) of each kind of event, most important first: only that one is drawn where several coincide."""
_EVENT_WEIGHT = {kind: at for at, kind in enumerate(EVENT_MARKS)}
_EVENTS_WITH_LINE = frozenset(
    {RunEventKind.NAN, RunEventKind.RESTART, RunEventKind.EVICTION, RunEventKind.PREEMPTION, RunEventKind.FAILURE}
)
"""The kinds of events that are marked by a vertical line through the chart."""
SMOOTHING_FRACTION = 40  # the smoothed value is the mean of this fraction of the steps in sight
EARLIER_LETTERS = "abc"
EARLIER_STYLES = ("job-1", "job-3", "job-5")


@dataclass(frozen=True, slots=True)
class View:
    span: float = 1.0  # share of the whole axis that is in sight
    end: float = 1.0
    """The right end of the visible part, as a share of the whole axis; 1: the latest step, also as new steps come."""
    by_time: bool = False
    log: bool = False
    smooth: bool = True
    pointer_share: float | None = None  # a place that is pointed at, as a share of what is in sight


MIN_SPEED_AXIS_SHARE = 0.2
"""Minimum range of a speed axis, as a share of the value in its middle."""


class AxisRange(NamedTuple):
    """A range of the x axis, in steps or in seconds since the first step."""

    low: float
    high: float


def visible_range(runs: Sequence[TrainingRun], view: View) -> AxisRange:
    """The visible range of the x axis, which covers all of these runs."""
    low, high = inf, -inf
    for track in runs:
        axis = track.x_axis(by_time=view.by_time)
        if len(axis):
            start = axis[0] if view.by_time else 0.0
            low, high = min(low, axis[0] - start), max(high, axis[-1] - start)
    if low > high:
        return AxisRange(0.0, 1.0)
    whole = (high - low) or 1.0
    return AxisRange(low + whole * max(0.0, view.end - view.span), low + whole * view.end)


def x_origin(run: TrainingRun, view: View) -> float:
    axis = run.x_axis(by_time=view.by_time)
    return axis[0] if view.by_time and len(axis) else 0.0


@dataclass(frozen=True, slots=True)
class TrainingChartData:
    track: TrainingRun
    events: Sequence[RunEvent] = ()
    earlier_runs: Sequence[TrainingRun] = ()


def draw_chart(
    canvas: Canvas, box: PlotBox, chart: TrainingChartData, metric: StepMetric, view: View, title: str, *, large: bool
) -> None:
    """Draw the chart of a metric into its box; `title` is its first line."""
    column = chart.track.columns.get(metric.name)
    canvas.text(box.x, box.y, title[: box.width], "text" if large else "dim")
    if column is None or not column.known or box.height < 3 or box.width < 12:
        return
    sight = visible_range([chart.track, *chart.earlier_runs], view)
    every = [
        (chart.track, column),
        *((each, other) for each in chart.earlier_runs if (other := each.columns.get(metric.name))),
    ]
    low, high = _value_range(every, sight, view)
    if low > high:
        return
    if metric.speed and not view.log:
        low, high = widen_speed_axis(low, high)
    frame = PlotFrame(box, low, high, log=view.log, lines_below=2 if large else 0)
    frame.draw(canvas, _axis_labels(frame, sight, view) if large else None)
    _draw_marks(canvas, frame, chart, sight, view, is_large=large)
    for at, (track, other) in enumerate(every[1:]):
        _draw_earlier(canvas, frame, track, other, sight, view, at)
    edges = _column_edges(chart.track, sight, view, frame.dots())
    _draw_raw(canvas, frame, column, edges, smooth=view.smooth)
    if view.smooth:
        _draw_smooth(canvas, frame, column, edges)
    if view.pointer_share is not None:
        x = frame.left + min(frame.columns - 1, int(view.pointer_share * frame.columns))
        frame.draw_vertical(canvas, x, "text", "│")


def _column_edges(run: TrainingRun, axis_range: AxisRange, view: View, columns: int) -> list[int]:
    start = x_origin(run, view)
    return run.column_edges(axis_range.low + start, axis_range.high + start, columns, by_time=view.by_time)


def _value_range(
    all_columns: Sequence[tuple[TrainingRun, MetricColumn]], axis_range: AxisRange, view: View
) -> tuple[float, float]:
    """Lowest and highest visible value of all these runs; only positive values on a log scale."""
    low, high = inf, -inf
    for track, column in all_columns:
        first, *_, last = _column_edges(track, axis_range, view, 2)
        if last > first:
            least, most = column.extremes_of(first, last)
            if view.log and least <= 0 < most:
                positive = [each for each in column.values[first:last] if each > 0]
                least = min(positive, default=most)
            low, high = min(low, least), max(high, most)
    return low, high


def widen_speed_axis(lowest: float, highest: float) -> tuple[float, float]:
    """The range widened to at least MIN_SPEED_AXIS_SHARE of its middle, so that noise does not fill the chart."""
    middle = (lowest + highest) / 2
    half = max(highest - lowest, MIN_SPEED_AXIS_SHARE * abs(middle)) / 2
    return middle - half, middle + half


def _draw_raw(canvas: Canvas, frame: PlotFrame, column: MetricColumn, edges: Sequence[int], *, smooth: bool) -> None:
    """Draw a line in each dot column from its lowest to its highest value; sparse if there is a smooth line."""
    style, every, row = ("dim", 2, frame.row) if smooth else ("accent", 1, frame.row)
    left = frame.left * DOTS_WIDE
    before: tuple[int, int, int, int | None] | None = None
    for at, low, high, first, last in column.column_ranges(edges):
        top = row(high)
        bottom = top if low == high else row(low)
        if top is None or bottom is None:
            before = None
            continue
        own_top, own_bottom = top, bottom
        if before is not None and at - before[0] > 1:
            if before[3] is not None and (begin := row(first)) is not None:
                canvas.line((left + before[0], before[3]), (left + at, begin), style, dot_step=every)
        elif before is not None:  # beside each other: as far as they do not overlap, this one reaches up or down to it
            top, bottom = min(top, before[2]), max(bottom, before[1])
        canvas.vertical_line(left + at, top, bottom, style, sparse=smooth)
        before = at, own_top, own_bottom, (own_bottom if low == high else row(last))


def _draw_smooth(canvas: Canvas, frame: PlotFrame, column: MetricColumn, edges: Sequence[int]) -> None:
    width = max(5, (edges[-1] - edges[0]) // SMOOTHING_FRACTION)
    if edges[-1] - edges[0] < 2 * width:
        return
    left = frame.left * DOTS_WIDE
    dots = [(left + at, y) for at, mean in column.smoothed(edges, width) if (y := frame.row(mean)) is not None]
    canvas.path(dots, "accent")


def _draw_earlier(
    canvas: Canvas,
    frame: PlotFrame,
    run: TrainingRun,
    column: MetricColumn,
    axis_range: AxisRange,
    view: View,
    number: int,
) -> None:
    edges = _column_edges(run, axis_range, view, frame.dots())
    width = max(3, (edges[-1] - edges[0]) // SMOOTHING_FRACTION)
    left, style = frame.left * DOTS_WIDE, EARLIER_STYLES[number % len(EARLIER_STYLES)]
    dots = [(left + at, y) for at, mean in column.smoothed(edges, width) if (y := frame.row(mean)) is not None]
    for start, end in pairwise(dots):
        canvas.line(start, end, style, dot_step=3)
    if dots:
        x, y = dots[-1]
        canvas.mark(x // DOTS_WIDE, y // DOTS_HIGH, EARLIER_LETTERS[number % len(EARLIER_LETTERS)], style)


def _axis_labels(frame: PlotFrame, axis_range: AxisRange, view: View) -> Iterator[tuple[int, str]]:
    """Yield (cell, label) for the ticks of the step or time axis."""
    words_of: Callable[[float], str] = span_words if view.by_time else tick_words
    span = axis_range.high - axis_range.low
    step = time_step(span) if view.by_time else ceil(round_step(span, max(2, frame.columns // 14)))  # of whole steps
    for number in range(ceil(axis_range.low / step - 1e-9), floor(axis_range.high / step + 1e-9) + 1):
        place = (number * step - axis_range.low) / (span or 1.0)
        yield frame.left + min(frame.columns - 1, int(place * frame.columns)), words_of(number * step)


def _draw_marks(
    canvas: Canvas, frame: PlotFrame, chart: TrainingChartData, axis_range: AxisRange, view: View, *, is_large: bool
) -> None:
    best: dict[int, RunEvent] = {}
    start, span = x_origin(chart.track, view), (axis_range.high - axis_range.low) or 1.0
    for mark in chart.events:
        place = mark.time - start if view.by_time else mark.step
        if place is None or not axis_range.low <= place <= axis_range.high:
            continue
        x = frame.left + min(frame.columns - 1, int((place - axis_range.low) / span * frame.columns))
        if x not in best or _EVENT_WEIGHT[mark.kind] < _EVENT_WEIGHT[best[x].kind]:
            best[x] = mark
    for x, mark in best.items():
        letter, style = EVENT_MARKS[mark.kind]
        if mark.kind in _EVENTS_WITH_LINE:
            frame.draw_vertical(canvas, x, style, "┊")
        if is_large:
            canvas.mark(x, frame.base, letter, style)
