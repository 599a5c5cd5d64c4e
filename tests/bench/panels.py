"""`python -m tests.bench panels`: what it costs to draw a training run of a million steps, and to take its steps in."""

import math
import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from console.metrics.training_run import TrainingRun
from screens.widgets.charts.training_chart import TrainingChartData, View
from screens.widgets.charts.training_panel import draw_charts
from tests.bench.rows import Bound
from trainlog import STEP_METRICS, Step

STEPS = 1_000_000
BOUND = 16.0
"""Milliseconds that one drawing may take: a frame of 60 a second."""
TIMES = 25
SIZES = ((78, 20), (200, 50))
CHUNK = 20_000


def steps(number: int) -> list[Step]:
    """A run with noise, a spike, and NaN at one place."""
    chance = random.Random(1)
    found = []
    for at in range(1, number + 1):
        loss = 2 + 9 * math.exp(-at / (number / 8)) + 0.05 * chance.random() + (4 if at == number // 2 else 0)
        found.append(
            Step(at, number, math.nan if at == number * 3 // 4 else loss, 1 + chance.random(), 3e-4 * (1 - at / number),
                 6.9 + 0.1 * chance.random(), 1180 + chance.random(), 9000.0, nan=at == number * 3 // 4)
        )  # fmt: skip
    return found


def taken(every: Sequence[Step]) -> tuple[TrainingRun, float]:
    """The run as it is followed, and microseconds a step that this took."""
    track = TrainingRun("megatron")
    began = time.process_time()
    for start in range(0, len(every), CHUNK):
        for step in every[start : start + CHUNK]:
            track.steps.append(step)
        track.sync(1.7e9 + start)
    return track, 1e6 * (time.process_time() - began) / len(every)


def main(bound: Bound, say: Callable[[str], None]) -> bool:
    """Measure and print; whether each usual drawing takes less than the bound."""
    every = steps(STEPS)
    track, cost = taken(every)
    say(f"{STEPS:,} steps taken in: {cost:.1f} µs a step; marks: {[mark.words for mark in track.list_events()]}")
    kept = []
    views = {"whole": View(), "by time, log": View(by_time=True, log=True), "64 x zoom": View(span=1 / 64, end=0.6)}
    for width, height in SIZES:
        for name, view in views.items():
            took = []
            for turn in range(TIMES):
                fresh = replace(view, end=view.end - turn * 1e-7)  # nothing of the last drawing helps with this one
                began = time.process_time()
                draw_charts(
                    TrainingChartData(track, track.list_events()), fresh, STEP_METRICS, width, height, is_alone=False
                ).rows()
                took.append(1000 * (time.process_time() - began))
            kept.append(bound(f"charts {width} x {height}, {name} (ms)", statistics.median(took), BOUND))
    return all(kept)
