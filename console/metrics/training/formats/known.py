"""Lines that say all of a step by themselves: whose they are, who printed them, and steps counted through epochs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from console.metrics.training.formats.nemo import nemo
from console.metrics.training.formats.small_programs import small
from console.metrics.training.formats.torchtitan_maxtext_deepspeed_verl import deepspeed, maxtext, titan

if TYPE_CHECKING:
    from collections.abc import Callable

    from console.metrics.training.layout import Layout
    from console.metrics.training.steps import Packed, Step
    from console.metrics.training.values import Found

BY_EPOCH = frozenset({"minibatches", "key-value"})
"""Formats that may count steps from the beginning of each epoch."""
_REPORTER = re.compile(
    r"\[(?:rank|default|Rank )(\d{1,6})\]|^\s{0,8}(\d{1,6}): |\[(\d{1,6},\d{1,6})\]<|\[(pod/[^\]\s]{1,300})\]"
)


def known(text: str) -> Found | None:
    """A line of a program whose lines are known; what is cheap to rule out comes first."""
    if "epoch" in text or "Epoch" in text or "DLLL" in text or "%|" in text:
        found = nemo(text)
        if found:
            return found
    if "completed step" in text:
        return maxtext(text)
    if "step=" in text and (found := deepspeed(text)):
        return found
    if "step:" in text and (found := titan(text)):
        return found
    return small(text)


def reporter(text: str, at: int) -> str:
    """Who printed the line, as far as labels tell."""
    found = reporter_in(text, at)
    return next((each for each in found.groups() if each), "") if found else ""


def reporter_in(text: str, at: int) -> re.Match[str] | None:
    """Where the line says who printed it, in front of what begins at `at`."""
    if text[:3] in {"[20", " [2"} or at == 1 or (at == 0 and text[:1] != "["):
        return None  # a date, or nothing
    return _REPORTER.search(text, 0, at or 300)


class Epochs:
    """Makes one row of steps that are counted anew in each epoch."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[float, int, int]] = {}
        """Of each reporter: epoch, step in it, and steps before it."""

    def all_through(self, columns: dict[str, list[Any]], layout: Layout, follow: Callable[[Packed], bool]) -> bool:
        """Many steps of one reporter; nothing is changed by them if `follow`, which gets them, does not take them."""
        before = self._last.get(layout.label)
        numbers, totals, epochs = columns["step"], columns.get("total"), columns[" epoch"]
        bases = [self._base(epoch, number, layout.label) for epoch, number in zip(epochs, numbers, strict=True)]
        if any(bases):
            if totals is not None or layout.like.total is not None:
                self._restore(layout.label, before)
                return False  # a total may be that of an epoch
            columns = columns | {"step": [number + base for number, base in zip(numbers, bases, strict=True)]}
        taken = follow(layout.packed(columns, len(numbers)))
        if not taken:
            self._restore(layout.label, before)
        return taken

    def _restore(self, reporter: str, before: tuple[float, int, int] | None) -> None:
        self._last.pop(reporter, None)
        if before is not None:
            self._last[reporter] = before

    def through(self, step: Step, reporter: str) -> Step:
        """The step as counted from the first epoch that was seen."""
        epoch, number = step.extra.get("epoch"), step.step
        if epoch is None or number is None:
            return step
        base = self._base(epoch, number, reporter)
        if not base:
            return step
        total = step.total if step.total is not None and step.total >= number + base else None  # else that of an epoch
        return step._replace(step=number + base, total=total)

    def _base(self, epoch: float, number: int, reporter: str) -> int:
        """How many steps were before those of that epoch."""
        before, last, base = self._last.get(reporter, (epoch, 0, 0))
        if epoch > before and number <= last:
            base += last
        base = base if epoch >= before else 0
        self._last[reporter] = epoch, number, base
        return base
