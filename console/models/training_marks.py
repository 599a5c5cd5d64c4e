"""What happened on the way of a training run: spikes, NaN, plateaus, restarts, checkpoints, evictions."""

from __future__ import annotations

import math
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from console.models.training import what_is_nan

if TYPE_CHECKING:
    from console.models.training import Step
    from console.models.training_series import Column, Series

SETTLED = 10
"""Finite losses after which a spike can be told from the beginning."""
SPIKE_SPREADS, SPIKE_SHARE = 6.0, 0.15
"""A spike is so many times the usual spread, and such a share of the loss, above what came before."""
NEW_LEVEL = 60
"""Steps after which a loss that stays up is no spike any more, but where it is now."""
_PACE = 0.1
"""Weight of the newest loss in the running mean."""
PLATEAU_LEAST = 200
"""Steps that a plateau has at least, twice over."""
PLATEAU_SHARE = 0.002
"""The loss falls by less than this share from one half of a plateau to the other."""
PLATEAU_EVERY = 25


class MarkKind(StrEnum):
    """What happened."""

    SPIKE = "spike"
    NAN = "nan"
    PLATEAU = "plateau"
    RESTART = "restart"
    CHECKPOINT = "checkpoint"
    EVICTION = "eviction"
    PREEMPTION = "preemption"
    FAILURE = "failure"


class Mark(NamedTuple):
    """One event on the axis of a run."""

    kind: MarkKind
    step: float | None
    """Where on the axis of steps; None: only its time is known."""
    time: float
    """Seconds since the epoch."""
    words: str


class MarkFinder:
    """Finds in the losses of a run what should be looked at, a step at a time."""

    def __init__(self) -> None:
        self.marks: list[Mark] = []
        self._mean = self._spread = 0.0
        self._seen = 0
        self._up = 0
        """Steps for which the loss has been up."""
        self._peak = 0.0
        self._bad = False
        self._flat_since = 0
        """Place at which the last plateau began; 0: the loss is falling."""

    def add(self, step: Step, number: float, time: float) -> None:
        """A step that is new."""
        if step.nan:
            if not self._bad:
                self._tell(MarkKind.NAN, number, time, f"{what_is_nan(step)} at {number:,.0f}")
            self._bad = True
            return
        self._bad = False
        loss = step.loss
        if loss is not None and math.isfinite(loss):
            self._loss(loss, number, time)

    def _loss(self, loss: float, number: float, time: float) -> None:
        above = loss - self._mean
        if self._seen >= SETTLED and above > max(SPIKE_SPREADS * self._spread, SPIKE_SHARE * abs(self._mean)):
            self._spike(loss, number, time)
            if self._up < NEW_LEVEL:
                return
            self._seen, above = 0, 0.0
        self._up = 0
        if self._seen == 0:
            self._mean, self._spread = loss, 0.0
        else:
            self._mean += _PACE * above
            self._spread += _PACE * (abs(above) - self._spread)
        self._seen += 1

    def _spike(self, loss: float, number: float, time: float) -> None:
        self._up += 1
        if self._up == 1:
            self._peak = loss
            self._tell(MarkKind.SPIKE, number, time, self._spike_words(number))
        elif loss > self._peak:
            self._peak = loss
            last = self.marks[-1] if self.marks else None
            if last is not None and last.kind is MarkKind.SPIKE and last.step is not None:
                self.marks[-1] = last._replace(words=self._spike_words(last.step))

    def _spike_words(self, number: float) -> str:
        return f"loss up from {self._mean:.4g} to {self._peak:.4g} at {number:,.0f}"

    def flat(self, series: Series, column: Column) -> None:
        """Look whether the loss has stopped falling; to be asked now and then."""
        length = len(column)
        half = max(PLATEAU_LEAST, length // 8)
        if length < 2 * half + PLATEAU_LEAST:
            return
        before, after = column.mean(length - 2 * half, length - half), column.mean(length - half, length)
        fall = (before - after) / abs(before) if before else 0.0
        if not self._flat_since and abs(fall) < PLATEAU_SHARE:
            self._flat_since = length - 2 * half
            number = series.numbers[self._flat_since]
            words = f"loss flat at {after:.4g} since {number:,.0f}"
            self._tell(MarkKind.PLATEAU, number, series.times[self._flat_since], words)
        elif self._flat_since and fall > 3 * PLATEAU_SHARE:
            self._flat_since = 0

    def _tell(self, kind: MarkKind, number: float, time: float, words: str) -> None:
        if not any(mark.kind is kind and mark.step == number for mark in self.marks[-_LATELY:]):
            self.marks.append(Mark(kind, number, time, words))


_LATELY = 20
