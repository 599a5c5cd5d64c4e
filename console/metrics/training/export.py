"""A training run as JSON, CSV and SVG."""

from __future__ import annotations

import csv
import io
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from console.metrics.nccl.results import number
from console.metrics.svg_chart import Line, Pin, line_chart
from console.metrics.training.series import METRICS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from console.metrics.training.run import TrainingRun
    from console.metrics.training.steps import Step

POINTS = 1500  # places of an exported curve; each shows its lowest and highest value
_WARM: dict[bool, dict[str, Any]] = {True: {"warm_up": True}, False: {}}


def run_json(name: str, steps: Sequence[Step]) -> dict[str, Any]:
    """Format and steps of a run."""
    return {"format": name, "steps": [step_json(step) for step in steps]}


def step_json(step: Step) -> dict[str, Any]:
    numbers = {
        "loss": step.loss,
        "grad_norm": step.grad_norm,
        "lr": step.lr,
        "step_time_s": step.step_time_s,
        "tflops_per_gpu": step.tflops_per_gpu,
        "tokens_per_s": step.tokens_per_s,
    }
    return {
        "step": step.step,
        "total": step.total,
        **{name: number(value) for name, value in numbers.items()},
        "skipped": step.skipped,
        "nan": step.nan,
        "extra": {name: number(value) for name, value in step.extra.items()} | _WARM[step.warm_up],
    }


def track_json(track: TrainingRun, gpu: str = "", *, now: float = 0.0) -> dict[str, Any]:
    """A run with what follows from it; of one that stands still at `now` it is not known when it will end."""
    with track.lock:
        steps = list(track.steps)
    last = steps[-1] if steps else None
    return run_json(track.format, steps) | {
        "finished": track.finished,
        "step": last.step if last else None,
        "total": track.total,
        "eta_s": number(track.eta(now)),
        "mfu": number(track.mfu(gpu)),
        "marks": [
            {"kind": mark.kind, "step": mark.step, "time": mark.time or None, "words": mark.words}
            for mark in track.marks()
        ],
    }


def track_csv(tracks: Sequence[TrainingRun]) -> str:
    """A line for each step."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["run", "time", "step", "total", *(metric.name for metric in METRICS), "skipped", "nan", "warm_up"])
    for at, track in enumerate(tracks, start=1):
        with track.lock:
            rows = list(zip(track.steps, track.times, strict=True))
        for step, time in rows:
            moment = datetime.fromtimestamp(time, UTC).isoformat(timespec="milliseconds") if time else ""
            values = [getattr(step, metric.name) for metric in METRICS]
            writer.writerow([at, moment, step.step, step.total, *values, step.skipped, step.nan, step.warm_up])
    return out.getvalue()


def track_svg(
    title: str, track: TrainingRun, earlier: Sequence[tuple[str, TrainingRun]] = (), metric: str = "loss"
) -> str:
    """The curve of one metric, raw and smoothed, beside those of earlier runs, with what happened on the way."""
    shown = next((each for each in METRICS if each.name == metric), METRICS[0])
    lines = [*_lines("", track, metric), *(line for name, each in earlier for line in _lines(name, each, metric)[-1:])]
    pins = [Pin(mark.step, f"{mark.kind}: {mark.words}") for mark in track.marks() if mark.step is not None]
    unit = f"{shown.title} {shown.unit}".strip()
    return line_chart(title, lines, x="step", y=unit, pins=pins)


def export_tracks(
    kind: str,
    title: str,
    tracks: Sequence[TrainingRun],
    shown: TrainingRun,
    earlier: Sequence[tuple[str, TrainingRun]] = (),
    *,
    metric: str = "loss",
    gpu: str = "",
) -> str:
    """The text of a file of that kind: "csv" and "json" of all runs, "svg" of one metric of the one that is shown."""
    if kind == "svg":
        return track_svg(title, shown, earlier, metric)
    if kind == "json":
        return json.dumps({"training": [track_json(track, gpu) for track in tracks]}) + "\n"
    return track_csv(tracks)


def _lines(name: str, track: TrainingRun, metric: str) -> list[Line]:
    series = track
    with series.lock:
        column = series.columns.get(metric)
        if column is None or not len(series):
            return []
        low, high = series.numbers[0], series.numbers[-1]
        edges = series.edges(low, high, min(POINTS, len(series)), by_time=False)
        at = [series.numbers[min(edge, len(series) - 1)] for edge in edges]
        raw = [
            (at[each.at], value) for each in column.stretches(edges) for value in dict.fromkeys((each.low, each.high))
        ]
        smooth = [(at[place], value) for place, value in column.smooth(edges, max(5, len(series) // 40))]
    return [Line(f"{name} raw".strip(), raw, faint=True), Line(f"{name} smoothed".strip(), smooth)]
