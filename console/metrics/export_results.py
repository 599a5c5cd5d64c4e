"""Exports NCCL tests and training runs as JSON, CSV and SVG line charts."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from typing import TYPE_CHECKING, Any

from console.metrics.gpu_metrics import mfu
from trainlog import STEP_METRICS, json_number, nccl_test_json, reference_curve, step_json

if TYPE_CHECKING:
    from console.metrics.training_run import TrainingRun
    from trainlog import NcclTest


def csv_number(value: float | None) -> float | None:
    """A number for a cell of a CSV file; None, an empty cell, if it is unknown or NaN."""
    return None if value is None or math.isnan(value) else value


# NCCL

TABLE_HALVES = ("out_of_place", "in_place")
_ROW_FIELDS = ("time_us", "algbw", "busbw", "wrong")
REFERENCE_BAND = (0.9, 1.1)  # what counts as reaching the reference, as a share of it


def format_rows_csv(tests: Sequence[NcclTest]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(
        ["test", "program", "ranks", "size", "count", "type", "redop", "root"]
        + [f"{half}_{field}" for half in TABLE_HALVES for field in _ROW_FIELDS]
    )
    for at, test in enumerate(tests, start=1):
        for row in test.rows:
            writer.writerow(
                [at, test.program, test.ranks, row.size, row.count, row.type, row.redop, row.root]
                + [csv_number(getattr(getattr(row, half), name, None)) for half in TABLE_HALVES for name in _ROW_FIELDS]
            )
    return out.getvalue()


def draw_curve_svg(
    title: str, test: NcclTest, other_tests: Sequence[tuple[str, NcclTest]] = (), *, is_compared: bool = True
) -> str:
    """The curve of a test and of others for comparison; with the A4 reference where it applies."""
    lines = []
    for name, each in (("", test), *other_tests):
        for half in TABLE_HALVES:
            values = [(float(row.size), getattr(getattr(row, half), "busbw", None)) for row in each.rows if row.size]
            points = [(size, value) for size, value in values if value is not None]
            if points:
                lines.append(
                    ChartLine(f"{name} {half.replace('_', '-')}".strip(), points, faint=bool(name), dots=not name)
                )
    known = reference_curve(max((row.size for row in test.rows), default=0)) if is_compared else ()
    band = [(float(size), REFERENCE_BAND[0] * value, REFERENCE_BAND[1] * value) for size, value in known]
    words = format_message_size
    return draw_line_chart(
        title, lines, x="message size", y="busbw GB/s", log_x=True, from_zero=True, band=band, x_words=words
    )


def export_tests(
    kind: str,
    title: str,
    tests: Sequence[NcclTest],
    shown_test: NcclTest,
    other_tests: Sequence[tuple[str, NcclTest]] = (),
    *,
    is_compared: bool = True,
) -> str:
    """The file content for a format: "csv" and "json" of all tests, "svg" of the shown one."""
    if kind == "svg":
        return draw_curve_svg(title, shown_test, other_tests, is_compared=is_compared)
    if kind == "json":
        return json.dumps({"nccl": [nccl_test_json(test) for test in tests]}, indent=2) + "\n"
    return format_rows_csv(tests)


def format_message_size(amount: float) -> str:
    """A message size on an axis: "512", "64K", "2M"."""
    for factor, unit in ((1 << 40, "T"), (1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")):
        if amount >= factor:
            return f"{amount / factor:.3g}{unit}"
    return f"{amount:.0f}"


# training

MAX_CURVE_POINTS = 1500  # places of an exported curve; each shows its lowest and highest value


def training_json(run: TrainingRun, gpu: str = "", *, now: float = 0.0) -> dict[str, Any]:
    """A run as JSON; `eta_s` is null if stalled at `now`, and `mfu` without the peak of `gpu` (its label)."""
    with run.lock:
        steps = list(run.steps)
    last = steps[-1] if steps else None
    return {
        "format": run.format,
        "steps": [step_json(step) for step in steps],
        "finished": run.finished,
        "step": last.step if last else None,
        "total": run.total,
        "eta_s": json_number(run.eta(now)),
        "mfu": json_number(mfu(run.recent_mean("tflops_per_gpu"), gpu)),
        "marks": [
            {"kind": mark.kind, "step": mark.step, "time": mark.time or None, "words": mark.words}
            for mark in run.list_events()
        ],
    }


def format_training_csv(runs: Sequence[TrainingRun]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(
        ["run", "time", "step", "total", *(metric.name for metric in STEP_METRICS), "skipped", "nan", "warm_up"]
    )
    for at, track in enumerate(runs, start=1):
        with track.lock:
            rows = list(zip(track.steps, track.times, strict=True))
        for step, time in rows:
            moment = datetime.fromtimestamp(time, UTC).isoformat(timespec="milliseconds") if time else ""
            values = [csv_number(getattr(step, metric.name)) for metric in STEP_METRICS]
            writer.writerow([at, moment, step.step, step.total, *values, step.skipped, step.nan, step.warm_up])
    return out.getvalue()


def draw_training_svg(
    title: str, run: TrainingRun, earlier_runs: Sequence[tuple[str, TrainingRun]] = (), metric: str = "loss"
) -> str:
    """The curve of one metric, raw and smoothed, with earlier runs and events."""
    shown = next((each for each in STEP_METRICS if each.name == metric), STEP_METRICS[0])
    lines = [
        *_metric_lines("", run, metric),
        *(line for name, each in earlier_runs for line in _metric_lines(name, each, metric)[-1:]),
    ]
    pins = [(mark.step, f"{mark.kind}: {mark.words}") for mark in run.list_events() if mark.step is not None]
    unit = f"{shown.title} {shown.unit}".strip()
    return draw_line_chart(title, lines, x="step", y=unit, pins=pins)


def export_tracks(
    kind: str,
    title: str,
    runs: Sequence[TrainingRun],
    shown_run: TrainingRun,
    earlier_runs: Sequence[tuple[str, TrainingRun]] = (),
    *,
    metric: str = "loss",
    gpu: str = "",
) -> str:
    """The file's content: "csv", "json" of all runs, "svg" of one metric of the shown one; `gpu`: for MFU in JSON."""
    if kind == "svg":
        return draw_training_svg(title, shown_run, earlier_runs, metric)
    if kind == "json":
        return json.dumps({"training": [training_json(track, gpu) for track in runs]}) + "\n"
    return format_training_csv(runs)


def _metric_lines(name: str, run: TrainingRun, metric: str) -> list[ChartLine]:
    with run.lock:
        column = run.columns.get(metric)
        if column is None or not len(run):
            return []
        edges = run.column_edges(run.numbers[0], run.numbers[-1], min(MAX_CURVE_POINTS, len(run)), by_time=False)
        at = [run.numbers[min(edge, len(run) - 1)] for edge in edges]
        raw = [
            (at[each.at], value)
            for each in column.column_ranges(edges)
            for value in dict.fromkeys((each.low, each.high))
        ]
        smooth = [(at[place], value) for place, value in column.smoothed(edges, max(5, len(run) // 40))]
    return [ChartLine(f"{name} raw".strip(), raw, faint=True), ChartLine(f"{name} smoothed".strip(), smooth)]


# the chart

CHART_WIDTH, CHART_HEIGHT = 960, 480
_LEFT, _RIGHT, _TOP, _BOTTOM = 80, 24, 56, 56
LINE_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8a6d00", "#56b4e9")  # for colour-blind eyes too


@dataclass(frozen=True, slots=True)
class ChartLine:
    """A line of a chart: its name, and its points in order."""

    name: str
    points: Sequence[tuple[float, float]]
    faint: bool = False  # drawn behind the others, thin
    dots: bool = False


@dataclass(frozen=True, slots=True)
class AxisScale:
    """The scale of a chart's axis, which converts values to pixels."""

    low: float
    high: float
    start: float
    end: float
    base: float = 0.0  # of a logarithmic scale, whose ticks are its powers; 0: it is none

    def __call__(self, value: float) -> float:
        low, high, value = (math.log(max(each, 1e-300)) if self.base else each for each in (self.low, self.high, value))
        return self.start + (self.end - self.start) * ((value - low) / ((high - low) or 1.0))

    def ticks(self) -> list[float]:
        """Round values within the axis range, at which it has ticks."""
        if self.base:
            first = math.ceil(math.log(max(self.low, 1e-300), self.base) - 1e-9)
            last = math.floor(math.log(max(self.high, 1e-300), self.base) + 1e-9)
            every = max(1, (last - first) // 10)
            return [self.base**power for power in range(first, last + 1, every)]
        raw = (self.high - self.low) / 6 or 1.0
        scale = 10.0 ** math.floor(math.log10(raw))
        step = next(each * scale for each in (1, 2, 2.5, 5, 10) if each * scale >= raw)
        first = math.ceil(self.low / step - 1e-9)
        return [step * number for number in range(first, math.floor(self.high / step + 1e-9) + 1)]


def draw_line_chart(
    title: str,
    lines: Sequence[ChartLine],
    *,
    x: str,
    y: str,
    log_x: bool = False,
    from_zero: bool = False,
    band: Sequence[tuple[float, float, float]] = (),
    pins: Sequence[tuple[float, str]] = (),
    x_words: Callable[[float], str] = "{:,.6g}".format,
) -> str:
    """A line chart as SVG; `band` has (x, low, high) of the expected range, `pins` (x, words) of events."""
    points = [point for line in lines for point in line.points]
    values = [value for _, value in points] + [value for _, low, high in band for value in (low, high)]
    places = [place for place, _ in points] + [place for place, *_ in band]
    low = 0.0 if from_zero else min(values, default=0.0)
    across = AxisScale(
        min(places, default=0.0), max(places, default=1.0), _LEFT, CHART_WIDTH - _RIGHT, 2.0 if log_x else 0.0
    )
    up = AxisScale(low, max(values, default=1.0), CHART_HEIGHT - _BOTTOM, _TOP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {CHART_WIDTH} {CHART_HEIGHT}" font-family="sans-serif" '
        f'font-size="12" fill="#222"><rect width="{CHART_WIDTH}" height="{CHART_HEIGHT}" fill="#fff"/>',
        f'<text x="{_LEFT}" y="20" font-size="15">{escape(title)}</text>',
        *_draw_axes(across, up, x, y, x_words),
    ]
    if band:
        around = [(place, high) for place, _, high in band] + [(place, low) for place, low, _ in reversed(band)]
        parts.append(f'<polygon points="{_draw_path(around, across, up)}" fill="#999" fill-opacity="0.2"/>')
    parts += [_draw_line(line, number, across, up) for number, line in enumerate(lines)]
    parts += [_draw_marker(across(at), words) for at, words in pins if across.low <= at <= across.high]
    parts += _draw_legend(lines)
    return "\n".join([*parts, "</svg>\n"])


def _draw_axes(x_scale: AxisScale, y_scale: AxisScale, x: str, y: str, x_words: Callable[[float], str]) -> list[str]:
    base = CHART_HEIGHT - _BOTTOM
    parts = [f'<path d="M{_LEFT} {_TOP}V{base}H{CHART_WIDTH - _RIGHT}" fill="none" stroke="#888"/>']
    for tick in y_scale.ticks():
        at = y_scale(tick)
        parts.append(f'<path d="M{_LEFT} {at:.1f}H{CHART_WIDTH - _RIGHT}" stroke="#ddd"/>')
        parts.append(f'<text x="{_LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{tick:,.4g}</text>')
    for tick in x_scale.ticks():
        parts.append(
            f'<text x="{x_scale(tick):.1f}" y="{base + 18}" text-anchor="middle">{escape(x_words(tick))}</text>'
        )
    parts.append(f'<text x="{CHART_WIDTH - _RIGHT}" y="{CHART_HEIGHT - 10}" text-anchor="end">{escape(x)}</text>')
    parts.append(f'<text x="8" y="{_TOP - 10}">{escape(y)}</text>')
    return parts


def _draw_path(points: Sequence[tuple[float, float]], x_scale: AxisScale, y_scale: AxisScale) -> str:
    return " ".join(f"{x_scale(place):.1f},{y_scale(value):.1f}" for place, value in points)


def _draw_line(line: ChartLine, number: int, across: AxisScale, up: AxisScale) -> str:
    points = [point for point in line.points if math.isfinite(point[1])]
    colour = LINE_COLOURS[number % len(LINE_COLOURS)]
    style = 'stroke-opacity="0.35" stroke-width="1"' if line.faint else 'stroke-width="2"'
    dash = ' stroke-dasharray="6 3"' if number % 2 and not line.faint else ""
    drawn = f'<polyline points="{_draw_path(points, across, up)}" fill="none" stroke="{colour}" {style}{dash}/>'
    if line.dots:
        drawn += "".join(
            f'<circle cx="{across(place):.1f}" cy="{up(value):.1f}" r="3" fill="{colour}"/>' for place, value in points
        )
    return drawn


def _draw_marker(x: float, sentence: str) -> str:
    return (
        f'<g><title>{escape(sentence)}</title><path d="M{x:.1f} {_TOP}V{CHART_HEIGHT - _BOTTOM}" stroke="#d55e00" '
        f'stroke-dasharray="2 3"/><text x="{x + 3:.1f}" y="{_TOP + 10}" font-size="10" fill="#a33">'
        f"{escape(sentence.partition(':')[0])}</text></g>"
    )


def _draw_legend(lines: Sequence[ChartLine]) -> list[str]:
    parts, at = [], _LEFT
    for number, line in enumerate(lines):
        colour = LINE_COLOURS[number % len(LINE_COLOURS)]
        parts.append(f'<path d="M{at} 36h18" stroke="{colour}" stroke-width="{1 if line.faint else 2}"/>')
        parts.append(f'<text x="{at + 24}" y="40">{escape(line.name)}</text>')
        at += 40 + 7 * len(line.name)
    return parts
