"""One training run while its log is read: each step once, whoever reports it and however often.

Steps are told again by several ranks, by two libraries at once, in full and rounded; and they are done again after a
restart from a checkpoint. A step that its own reporter goes back to is done again; any other repetition is the same.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from operator import lt
from typing import TYPE_CHECKING, Any

from console.models.training import Bar, Rewind, Step, TrainingRun

if TYPE_CHECKING:
    from console.parsers.training_values import Found

WARM_UP = 5
"""Steps after a start whose speed says nothing."""
_JITTER = 2
"""Steps that several reporters without labels may be apart."""
_DRAWN = 0.5
"""Seconds a step from which every step has its bar, with a good margin."""
BESIDE = frozenset({"deepspeed", "key-value"})
"""Formats whose lines stand beside those of another program that reports the same steps."""
_NUMBERS = ("loss", "grad_norm", "lr", "step_time_s", "tflops_per_gpu", "tokens_per_s")


@dataclass(eq=False, slots=True)
class Growing:
    """A run of which more may come."""

    format: str
    steps: list[Step] = field(default_factory=list)
    rewinds: list[Rewind] = field(default_factory=list)
    finished: bool = False
    _places: dict[int, int] = field(default_factory=dict)
    """Where a step stands in `steps`."""
    _latest: dict[str, int] = field(default_factory=dict)
    """Last step of each reporter."""
    _warm_from: int | None = None
    _several: bool = False
    """Several reporters that no label tells apart."""
    _guessed: Bar | None = None
    """The bar before the last step, while the next bar may still say better which step it was."""
    _guessing: bool = False
    number: int | None = None
    """The last one known of a step."""

    def run(self) -> TrainingRun:
        """What is known of it now."""
        return TrainingRun(self.format, tuple(self.steps), tuple(self.rewinds), self.finished, self._unsettled)

    @property
    def _unsettled(self) -> bool:
        """Bars are drawn ten times a second at most: of fast steps the one before a report is of an earlier one."""
        bar = self._guessed if self._guessing else None
        return bar is not None and (bar.step <= WARM_UP or bar.step_time_s is None or bar.step_time_s < _DRAWN)

    @property
    def known(self) -> bool:
        """Whether these are lines of a program that is known, and not pairs of words and numbers that were learned."""
        return self.format != "key-value" and bool(self.steps)

    @property
    def total(self) -> int | None:
        """Steps of the whole run, as last said."""
        return next((step.total for step in self.steps[-1:] if step.total), None)

    def near(self, number: int) -> bool:
        """Whether a report of that step can be meant for this run: it has it, or would have it next."""
        if number in self._places:
            return True
        last = self.number
        before = next((step.step for step in self.steps[-2:-1] if step.step is not None), None)
        interval = last - before if last is not None and before is not None else 1
        return last is not None and 0 < number - last <= max(interval, 1)

    def begins_again(self, number: int | None, label: str) -> bool:
        """Whether that step can only be the first of another run."""
        latest = self._latest.get(label)
        if number is None or latest is None or number >= latest:
            return False
        first = self.steps[0].step
        return first is not None and number <= first

    def add(self, step: Step, label: str) -> None:
        """A report of a step."""
        self._guessing = False
        number = step.step
        if number is None:
            self._append(step)
            return
        latest = self._latest.get(label)
        if latest is not None and number < latest and not self._repeated(number, latest):
            self._rewind(number)
            latest = None
        place = self._places.get(number)
        self._latest[label] = number
        if place is not None:
            self._several = self._several or latest == number
            self.steps[place] = merged(self.steps[place], step)
        elif self.number is None or number > self.number:
            self._append(step)
        else:
            self._insert(step, number)

    def follow(self, steps: list[Step], label: str) -> bool:
        """Many reports, if it is certain that each is of a step after all before it, and none is of a warm-up."""
        numbers = [step.step for step in steps]
        rising = [number for number in numbers if number is not None]
        latest = max(self.number or 0, self._latest.get(label, 0))
        if self.number is None or self._warm_from is None or len(rising) < len(steps):
            return False
        if rising[0] <= latest or rising[0] - self._warm_from < WARM_UP or not all(map(lt, rising, rising[1:])):
            return False
        self._guessing = False
        self._places.update(zip(rising, range(len(self.steps), len(self.steps) + len(rising)), strict=True))
        self._latest[label] = self.number = rising[-1]
        self.steps += steps
        return True

    def add_unnumbered(self, step: Step, bar: Bar | None) -> None:
        """A report that does not say which step it is of: the bar before it may, and the bar after it even better."""
        last = self.steps[-1] if self.steps else None
        if last is not None and _same(last, step):
            self.steps[-1] = merged(last, step)
            return
        known = bar is not None and (self.number is None or bar.step > self.number) and bar.step > 0
        self.add(step._replace(step=bar.step, total=bar.total) if bar and known else step, "")
        self._guessed, self._guessing = bar, True

    def drawn(self, bar: Bar) -> bool:
        """A bar after an unnumbered report: drawn again at once, it shows the step of that report."""
        if not self._guessing:
            return False
        self._guessing = False
        before, last = self._guessed, self.steps[-1]
        late = before is not None and (
            before.total != bar.total
            or before.elapsed_s is None
            or bar.elapsed_s is None
            or not 0 <= bar.elapsed_s - before.elapsed_s <= 1
        )
        if late or bar.step <= (self.number or 0):
            return False
        if last.step is not None:
            del self._places[last.step]
        self._places[bar.step] = len(self.steps) - 1
        self._latest[""] = self.number = bar.step
        self.steps[-1] = last._replace(step=bar.step, total=bar.total)
        return True

    def _repeated(self, number: int, latest: int) -> bool:
        return self._several and latest - number <= _JITTER and number in self._places

    def _rewind(self, number: int) -> None:
        last, keep = self.number, len(self.steps)
        while keep and ((before := self.steps[keep - 1].step) is None or before >= number):
            keep -= 1
        for step in self.steps[keep:]:
            if step.step is not None:
                del self._places[step.step]
        del self.steps[keep:]
        self._latest.clear()
        self._warm_from, self.number = number, None
        self.rewinds.append(Rewind(number if last is None else last, number))

    def _append(self, step: Step) -> None:
        if step.step is None:
            self.steps.append(step._replace(warm_up=not self.steps))
            return
        if self._warm_from is None:
            self._warm_from = step.step
        self._places[step.step], self.number = len(self.steps), step.step
        self.steps.append(step._replace(warm_up=True) if step.step - self._warm_from < WARM_UP else step)

    def _insert(self, step: Step, number: int) -> None:
        """A late report of a step that another reporter has passed; it keeps its place in the order."""
        at = len(self.steps)
        while at and (before := self.steps[at - 1].step) is not None and before > number:
            at -= 1
        warm = self._warm_from is not None and number - self._warm_from < WARM_UP
        self.steps.insert(at, step._replace(warm_up=warm))
        for place in range(at, len(self.steps)):
            if (moved := self.steps[place].step) is not None:
                self._places[moved] = place


def beside(open_runs: dict[str, Growing], found: Found, number: int | None) -> Growing | None:
    """A run that so far only the library beside it has told of."""
    if number is None or found.format in BESIDE:
        return None
    for name in BESIDE:
        run = open_runs.get(name)
        if run and run.format in BESIDE and run.near(number):
            run.format = found.format
            return run
    return None


def merged(old: Step, new: Step) -> Step:
    """Two reports of one step: what one of them lacks, and of two figures the one with more digits."""
    changed: dict[str, Any] = {}
    for name in _NUMBERS:
        mine, other = getattr(old, name), getattr(new, name)
        if other is not None and (mine is None or _rounded_from(mine, other)):
            changed[name] = other
    for name in ("step", "total", "skipped"):
        if getattr(old, name) is None:
            changed[name] = getattr(new, name)
    missing = old.nan and old.loss is None and new.loss is not None
    nan = new.nan if missing else old.nan or new.nan
    return old._replace(**changed, nan=nan, extra=new.extra | old.extra)


def _rounded_from(short: float, full: float) -> bool:
    return len(repr(full)) > len(repr(short)) and math.isclose(short, full, rel_tol=5e-3)


def _same(old: Step, new: Step) -> bool:
    """Whether both are the same unnumbered step, printed twice."""
    epoch = old.extra.get("epoch")
    if epoch is None or new.extra.get("epoch") != epoch or old.loss is None or new.loss is None:
        return False
    return math.isclose(old.loss, new.loss, rel_tol=5e-3) or (math.isnan(old.loss) and math.isnan(new.loss))
