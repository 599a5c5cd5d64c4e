"""How often a training should save: whether it would before its end, and what earlier runs of its recipe tell of it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from console.kube.nested_values import get_path
from console.launch.value_checks import iterations
from console.metrics.seen_time import SpanKind, decode_seen_time
from console.metrics.step_cadence import format_duration

if TYPE_CHECKING:
    from console.kube.nested_values import Value
    from console.launch.run_record import RunRecord

COST = 0.02  # share of the time that saving may take
EVERY = "recipe.train.saveInterval"  # of the recipes that say how many iterations they make; SWIFT's counts epochs


@dataclass(frozen=True, slots=True)
class MeasuredSaves:
    """How long a run took to save, and for a step."""

    run: str
    gpus: int
    save: float  # seconds
    step: float  # seconds

    @property
    def interval(self) -> int:
        """Steps from one save to the next by which saving takes no more than COST of the time, a round number."""
        least = math.ceil(self.save * (1 - COST) / COST / self.step)
        unit: int = 10 ** max(0, len(str(least)) - 2) * (5 if least >= 10 else 1)
        return math.ceil(least / unit) * unit


def measure_saves(runs: Iterable[RunRecord]) -> list[MeasuredSaves]:
    """What each run, newest first, tells of its saves; nothing of those that paused for none."""
    found = []
    for run in runs:
        spans = decode_seen_time(run.seen).spans
        steady = [span for span in spans if span.kind is SpanKind.STEPS]
        counted = sum(span.steps for span in steady)
        if not counted:
            continue
        step = sum(span.end - span.start for span in steady) / counted
        saves = [span.end - span.start - span.steps * step for span in spans if span.kind is SpanKind.CHECKPOINT]
        took = median(saves) if saves else 0.0
        if took > 0 and step > 0:
            found.append(MeasuredSaves(run.name, run.gpus, took, step))
    return found


def save_note(values: Mapping[str, Value], measured: Iterable[MeasuredSaves] = ()) -> str:
    """A warning where the first save comes after the last iteration, with an interval that would do; else empty.

    `values` are all of a recipe with the field EVERY.
    """
    every, total, gpus = get_path(values, EVERY), iterations(values), get_path(values, "gpus")
    if not isinstance(every, int) or every <= total:
        return ""
    words = f"Save every {every:,} is more than its {total:,} iterations: nothing is saved before the end."
    like = next((each for each in measured if each.gpus == gpus and each.interval < total), None)
    if like is None:
        return words
    took, pause = format_duration(like.save), format_duration(like.interval * like.step)
    costs = f"every {like.interval:,} ({pause}) it costs {COST * 100:g} % at most"
    return f"{words} A save took {took} in {like.run}: {costs}."
