"""A training run in words (pure)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from console.models.training_marks import MarkKind
from console.models.training_track import peak_of
from screens import wording
from screens.widgets.training_axes import tick_words
from screens.widgets.training_plot import LETTERS, SIGNS
from screens.wording import Run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from console.models.training_marks import Mark
    from console.models.training_series import Metric
    from console.models.training_track import Track

BAR = 14
TOLD = 4
"""Kinds of marks that are told of."""


def summary(track: Track, gpu: str = "", *, now: float = 0.0, late: str = "", short: bool = False) -> list[Run]:
    """How far it is, how well it learns, how fast it is, when it ends; `short` for narrow terminals.

    `late`: that its next step is late, in words; then nobody knows when it ends.
    """
    last = track.last
    if last is None:
        return [Run("◐ ", "waits"), Run("Training has begun; its first step is on the way.")]
    glyph = wording.BAD if track.nan else wording.DONE if track.finished else wording.WAITS if late else wording.OK
    runs = [glyph, Run(" ")]
    total = track.total
    if total and last.step is not None:
        runs += [*wording.bar(last.step, total, BAR), Run(f" {wording.percent(last.step, total)} ", "strong")]
        runs.append(Run(f"step {last.step:,} of {total:,}"))
    elif last.step is not None:
        runs.append(Run(f"step {last.step:,}"))
    loss = track.latest("loss")
    if track.nan:
        runs.append(Run(f"; {track.standing().nan_words}", "bad"))
    elif loss is not None:
        runs.append(Run(f"; loss {loss:.4g}"))
    for words in (_speed(track, gpu, short=short), "" if late else _end(track, now, short=short)):
        if words:
            runs.append(Run(f"; {words}"))
    return [*runs, Run(f"; {late}", "waits")] if late else runs


def _speed(track: Track, gpu: str, *, short: bool) -> str:
    said = []
    reached, pace = track.recent("tflops_per_gpu"), track.pace()
    if reached is not None:
        share = track.mfu(gpu)
        peak = peak_of(gpu)
        mfu = f" ({100 * share:.0f} % MFU of {peak:,.0f})" if share is not None and peak else ""
        if short and share is not None:
            said.append(f"{100 * share:.0f} % MFU")
        else:
            said.append(f"{reached:,.0f} TFLOP/s per GPU{mfu}")
    if pace is not None:
        said.append(f"{pace:.3g} s a step" if pace < 100 else f"{wording.duration(pace)} a step")
    tokens = track.recent("tokens_per_s")
    if tokens is not None and not short:
        said.append(f"{tokens:,.0f} tokens/s")
    return ", ".join(said)


def _end(track: Track, now: float, *, short: bool) -> str:
    left = track.eta(now)
    if track.finished:
        return "finished"
    if left is None:
        return ""
    at = f", at {wording.clock(now + left)[11:16]}" if now and not short and left < wording.DAY else ""
    return f"{wording.duration(left)} left{at}" if left >= 1 else "at its end"


def marks_words(marks: Sequence[Mark]) -> list[Run]:
    """What happened, the weightiest kinds first, the last of each kind in words."""
    runs: list[Run] = []
    kinds = [kind for kind in SIGNS if any(mark.kind is kind for mark in marks)]
    for kind in kinds[:TOLD]:
        every = [mark for mark in marks if mark.kind is kind]
        letter, ink = SIGNS[kind]
        number = f"{len(every)} " if len(every) > 1 else ""
        words = f" {number}{_plural(kind, len(every))}{', the last' if len(every) > 1 else ''}: {every[-1].words}  "
        runs += [Run(letter, ink), Run(words, "" if kind is not MarkKind.CHECKPOINT else "dim")]
    return runs


def _plural(kind: MarkKind, number: int) -> str:
    return str(kind) if number == 1 or kind is MarkKind.NAN else f"{kind}s"


def earlier_words(names: Sequence[str]) -> list[Run]:
    """Which letter stands for which earlier run."""
    return [Run(f"{LETTERS[at % len(LETTERS)]} {name}  ", f"job-{1 + 2 * at}") for at, name in enumerate(names)]


def value_words(value: float | None) -> str:
    """A value in a title."""
    if value is None or not math.isfinite(value):
        return "─"
    return f"{value:,.4g}" if 0.001 <= abs(value) < 10_000 else tick_words(value)


def chart_title(metric: Metric, value: float | None, extra: str = "") -> str:
    """The first line of a chart: its metric, the value, what is special."""
    unit = f" {metric.unit}" if metric.unit and value is not None else ""
    return f"{metric.title} {value_words(value)}{unit}{f'  {extra}' if extra else ''}"
