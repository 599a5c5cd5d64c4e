"""One training run while its log is parsed: each step once, although several reporters may print it.

A step is printed again by several ranks, by two libraries at once, in full and rounded, and in progress bars; and it is
repeated after a restart from a checkpoint. A step counts as repeated if its own reporter goes back to it; any other
report of it is the same step.
"""

from __future__ import annotations

import math
from array import array
from dataclasses import dataclass, field
from itertools import compress, count, pairwise
from operator import eq, ge, ne
from typing import Any

from trainlog.lines import split_label
from trainlog.regex import lazy_pattern
from trainlog.training.steps import PackedSteps, ProgressBar, RunSteps, Step, StepRollback
from trainlog.training.values import StepReport

WARM_UP_STEPS = 5  # steps after a start whose speed says nothing
_MAX_STEPS_APART = 2  # steps that several reporters without labels may be apart
_DRAWN_STEP_SECONDS = 0.5  # seconds a step from which every step has its bar, with a good margin
SECOND_FORMATS = frozenset({"deepspeed", "key-value"})  # printed beside another program's reports of the same steps
_STEP_FIGURES = Step._fields.index("nan") + 1  # the first fields of a step: what its report says
_NUMBER_FIELDS = ("loss", "grad_norm", "lr", "step_time_s", "tflops_per_gpu", "tokens_per_s")


@dataclass(slots=True)
class RunReader:
    """The steps of one training run, added line by line from a log that may still grow."""

    format: str  # which program's lines these are: "megatron", "hf", "torchtitan", "key-value", ...
    steps: RunSteps = field(default_factory=RunSteps)  # in their order, each once; of steps done again the later value
    rewinds: list[StepRollback] = field(default_factory=list)
    finished: bool = False  # the program said that training is over
    _latest: dict[str, int] = field(default_factory=dict, compare=False)  # last step of each reporter
    _warm_from: int | None = field(default=None, compare=False)
    several: bool = field(default=False, compare=False)  # several reporters that no label tells apart
    _guessed: ProgressBar | None = field(default=None, compare=False)  # until the next bar tells better
    guessing: bool = field(default=False, compare=False)  # whether the next bar may correct the last number
    _number_before: int | None = field(default=None, compare=False)  # the one known before the guess
    number: int | None = field(default=None, compare=False)  # the last one known of a step
    _an_epoch: tuple[float, float] = field(default=(0.0, math.inf), compare=False)  # steps in one, by the bars so far
    _in_phase: bool = field(default=True, compare=False)  # whether bars tell which step a report is of

    @property
    def is_number_uncertain(self) -> bool:
        """Whether the last step's number is a guess that the next progress bar may correct."""
        bar = self._guessed if self.guessing else None
        return bar is not None and (bar.step <= WARM_UP_STEPS or _may_skip_steps(bar))

    @property
    def is_known_format(self) -> bool:
        """Whether the lines are in a known format, not in one learned from key-value pairs."""
        return self.format != "key-value" and bool(self.steps)

    @property
    def total(self) -> int | None:
        """Steps of the whole run, as last reported; None if not reported."""
        return (last.total or None) if (last := self.steps.last) is not None else None

    def may_contain_step(self, number: int) -> bool:
        """Whether a report of that step may belong to this run: it exists already or would be the next."""
        if self._index_of_step(number) is not None:
            return True
        last = self.number
        before = self.steps[-2].step if len(self.steps) > 1 else None
        interval = last - before if last is not None and before is not None else 1
        return last is not None and 0 < number - last <= max(interval, 1)

    def begins_new_run(self, number: int, label: str) -> bool:
        """Whether that step can only be the first of another run."""
        latest = self._latest.get(label)
        if latest is None or number >= latest:
            return False
        first = self.steps[0].step
        return first is not None and number <= first

    def add_step(self, step: Step, label: str) -> None:
        if self.guessing:
            self.confirm_number()
        number = step.step
        if number is None:
            self._append_step(step)
            return
        latest = self._latest.get(label)
        known = self.several and latest is not None and latest - number <= _MAX_STEPS_APART
        if latest is not None and number < latest and not (known and self._index_of_step(number) is not None):
            self._roll_back(number)
            latest = None
        place = self._index_of_step(number)
        self._latest[label] = number
        if place is not None:
            self.several = self.several or latest == number
            self.steps[place] = merge_reports(
                self.steps[place], step, is_later=latest == number and self.format != "each-rank"
            )
        elif self.number is None or number > self.number:
            self._append_step(step)
        else:
            # Insert a late report of an earlier step at its place
            at = len(self.steps)
            while at and (before := self.steps[at - 1].step) is not None and before > number:
                at -= 1
            warm = self._warm_from is not None and number - self._warm_from < WARM_UP_STEPS
            self.steps.insert_step(at, step._replace(warm_up=warm))

    def _index_of_step(self, number: int) -> int | None:
        return self.steps.index_of(number) if self.number is not None and number <= self.number else None

    def count_following(self, more: PackedSteps, at: int, stop: int, label: str, bar: ProgressBar | None) -> int:
        """The number of next reports that can be added unchecked: their numbers rise and are past the warm-up.

        Reports without numbers count if no progress bar could number them and none repeats the one before.
        """
        if (numbers := more.columns.get("step")) is not None:
            if self.number is None or self._warm_from is None:
                return 0
            latest = max(self.number, self._latest.get(label, 0), self._warm_from + WARM_UP_STEPS - 1)
            breaks = compress(count(1), map(ge, numbers[at:stop], numbers[at + 1 : stop]))
            return next(breaks, stop - at) if numbers[at] > latest else 0
        if not self.steps or (bar is not None and bar is not self._guessed and bar.step > max(0, self.number or 0)):
            return 0
        last, losses = self.steps[-1], more.columns["loss"]
        epochs = [last.extra.get("epoch"), *more.extra.get("epoch", ())[at:stop]]
        for place in compress(range(at, stop), map(eq, epochs, epochs[1:])):
            if _is_same_loss(losses[place - 1] if place > at else last.loss, losses[place]):
                return place - at
        return stop - at

    def add_following(self, added_steps: PackedSteps, label: str, bar: ProgressBar | None) -> None:
        self.confirm_number()
        if (numbers := added_steps.columns.get("step")) is not None:
            self._latest[label] = self.number = numbers[-1]
        else:
            self._guessed, self.guessing = bar, True
        self.steps.extend(added_steps)

    def add_unnumbered(self, step: Step, bar: ProgressBar | None) -> None:
        """Add a report without a step number; a bar before it may give one, a bar after it gives the exact one."""
        last = self.steps.last
        if last is not None and _is_same_step(last, step):
            self.steps[-1] = merge_reports(last, step)
            return
        if self.guessing:
            self.confirm_number()
        self._number_before = self.number
        fresh = bar is not None and bar is not self._guessed and bar.step > max(0, self.number or 0)
        if bar is not None and fresh and self._in_phase:
            self.add_step(step.with_number(bar.step, bar.total), "")
        else:
            self._append_step(step)
        self._guessed, self.guessing = bar, True

    def renumber_by_bar(self, bar: ProgressBar) -> bool:
        """Number the last report by a bar that follows it; returns whether that changed it."""
        if not self.guessing:
            return False
        before = self._guessed
        late = before is not None and (
            before.total != bar.total
            or before.elapsed_s is None
            or bar.elapsed_s is None
            or not 0 <= bar.elapsed_s - before.elapsed_s <= 1
        )
        if late or not self._in_phase:
            return self.confirm_number()
        self.guessing = False
        if bar.step > (self.number or 0):
            self._renumber_last(bar.step, bar.total)
        self._compare_with_bar()
        return True

    def confirm_number(self) -> bool:
        """Accept the last report's number, unknown for fast steps, as no bar corrected it; whether it was a guess."""
        bar = self._guessed if self.guessing else None
        self.guessing = False
        if bar is None or self.steps[-1].step is None:
            return False
        if _may_skip_steps(bar):
            self._renumber_last(None, None)
        else:
            self._compare_with_bar()
        return True

    def _renumber_last(self, number: int | None, total: int | None) -> None:
        last = self.steps[-1]
        if number is not None:
            self._latest[""] = self.number = number
        elif last.step is not None:
            self.number = self._number_before
            self._latest.clear()
        self.steps[-1] = last.with_number(number, total)

    def _compare_with_bar(self) -> None:
        """Stop numbering steps by bars if steps and epochs do not grow in proportion."""
        last = self.steps[-1]
        epoch = last.extra.get("epoch")
        if not epoch or last.step is None or epoch < 0:
            return
        rounding = 0.5 * 10.0 ** -max(1, len(repr(epoch).partition(".")[2]))
        fewest, most = self._an_epoch
        self._an_epoch = (
            max(fewest, 0.95 * (last.step - 1) / (epoch + rounding)),
            min(most, 1.05 * (last.step + 1) / max(epoch - rounding, 1e-9)),
        )
        if self._an_epoch[0] > self._an_epoch[1]:
            self._in_phase = False
            self.steps = RunSteps(step.with_number(None, None) for step in self.steps)
            self._latest.clear()
            self.number = None

    def _roll_back(self, number: int) -> None:
        last, keep = self.number, len(self.steps)
        while keep and ((before := self.steps[keep - 1].step) is None or before >= number):
            keep -= 1
        self.steps.truncate(keep)
        self._latest.clear()
        self._warm_from, self.number = number, None
        self.rewinds.append(StepRollback(number if last is None else last, number))

    def _append_step(self, step: Step) -> None:
        if step.step is None:
            self.steps.append(step if self.steps else step._replace(warm_up=True))
            return
        if self._warm_from is None:
            self._warm_from = step.step
        self.number = step.step
        self.steps.append(step._replace(warm_up=True) if step.step - self._warm_from < WARM_UP_STEPS else step)


def _may_skip_steps(bar: ProgressBar) -> bool:
    """Whether the bar is drawn so seldom that steps pass between two frames."""
    return bar.step_time_s is None or bar.step_time_s < _DRAWN_STEP_SECONDS


def find_library_run(open_runs: dict[str, RunReader], report: StepReport, number: int | None) -> RunReader | None:
    """The run of this report, known so far only by lines of a library such as DeepSpeed; None if there is none."""
    if number is None or report.format in SECOND_FORMATS:
        return None
    for name in SECOND_FORMATS:
        run = open_runs.get(name)
        if run is not None and run.format in SECOND_FORMATS and run.may_contain_step(number):
            run.format = report.format
            return run
    return None


def merge_reports(old_step: Step, new_step: Step, *, is_later: bool = False) -> Step:
    """One step from two reports of it: missing figures are added, and figures with more digits win.

    `is_later`: one reporter printed both, and the second loss wins: a bar is redrawn with it, or it is the loss of the
    last of several iterations in a step. A loss that is not a number stays.
    """
    if is_later and new_step.loss is not None and old_step.loss is not None and not old_step.nan:
        rounded = _is_rounded_from(old_step.loss, new_step.loss) or _is_rounded_from(new_step.loss, old_step.loss)
        if old_step.loss != new_step.loss and not rounded:
            old_step, new_step = new_step._replace(warm_up=old_step.warm_up), old_step
    if old_step[:_STEP_FIGURES] == new_step[:_STEP_FIGURES] and old_step.extra == new_step.extra:
        return old_step
    changed: dict[str, Any] = {}
    for name in _NUMBER_FIELDS:
        mine, other = getattr(old_step, name), getattr(new_step, name)
        if other is not None and mine != other and (mine is None or _is_rounded_from(mine, other)):
            changed[name] = other
    for name in ("step", "total", "skipped"):
        if getattr(old_step, name) is None:
            changed[name] = getattr(new_step, name)
    missing = old_step.nan and old_step.loss is None and new_step.loss is not None
    nan = new_step.nan if missing else old_step.nan or new_step.nan
    return old_step._replace(**changed, nan=nan, extra=new_step.extra | old_step.extra)


def merge_neighbours(steps: PackedSteps, index: int, stop: int) -> PackedSteps | None:
    """The reports `index` to before `stop` with those of one step merged; None if none are, or if such differ."""
    numbers = steps.columns.get("step")
    if numbers is None:
        return None
    firsts = [index, *compress(range(index + 1, stop), map(ne, numbers[index : stop - 1], numbers[index + 1 : stop]))]
    if len(firsts) == stop - index:
        return None
    columns, extra = (
        {name: array(each.typecode, [each[first] for first in firsts]) for name, each in of.items()}
        for of in (steps.columns, steps.extra)
    )
    for name in columns.keys() & {*_NUMBER_FIELDS}:
        for place, (start, end) in enumerate(pairwise((*firsts, stop))):
            value = steps.columns[name][start]
            for other in steps.columns[name][start + 1 : end]:
                if other != value and _is_rounded_from(value, other):
                    value = other
                elif name == "loss" and other != value and not _is_rounded_from(other, value):
                    return None
            columns[name][place] = value
    return PackedSteps(columns, extra, len(firsts), is_whole_file=steps.whole)


def _is_rounded_from(short: float, full: float) -> bool:
    return len(repr(full)) > len(repr(short)) and math.isclose(short, full, rel_tol=5e-3)


def _is_same_step(old_step: Step, new_step: Step) -> bool:
    """Whether two steps are one unnumbered step printed twice, once perhaps with rounded figures."""
    epoch = old_step.extra.get("epoch")
    if epoch is None or new_step.extra.get("epoch") != epoch or not _is_same_loss(old_step.loss, new_step.loss):
        return False
    figures = ((getattr(old_step, name), getattr(new_step, name)) for name in ("loss", "grad_norm", "lr"))
    return all(
        mine is None
        or other is None
        or (math.isnan(mine) and math.isnan(other))
        or _round_like(mine, other) == other
        or _round_like(other, mine) == mine
        for mine, other in figures
    )


def _round_like(figure: float, other: float) -> float:
    """The figure rounded to as many digits as the other has."""
    digits = len(repr(other).partition("e")[0].replace(".", "").lstrip("-0"))
    return float(f"{figure:.{max(digits, 1)}g}")


def _is_same_loss(old_loss: float | None, new_loss: float | None) -> bool:
    """Whether both numbers may be the same loss, one of them rounded; False if one is missing."""
    if old_loss is None or new_loss is None:
        return False
    return math.isclose(old_loss, new_loss, rel_tol=5e-3) or (math.isnan(old_loss) and math.isnan(new_loss))


def close_in_time(step: Step, other_step: Step) -> bool:
    """Whether two reports may be of the same step, judged by their step times."""
    mine, others = step.step_time_s, other_step.step_time_s
    return mine is None or others is None or abs(mine - others) <= 0.02 * mine + 0.006


def count_skipped(step: Step, previous_step_number: float) -> tuple[Step, float]:
    """(the step with the steps skipped since the last line, the total of skipped steps, which DeepSpeed prints)."""
    skipped = step.extra.get("skipped")
    if skipped is None:
        return step, previous_step_number
    since = skipped - previous_step_number
    extra = {name: value for name, value in step.extra.items() if name != "skipped"}
    return step._replace(skipped=int(since if since >= 0 else skipped), extra=extra), skipped


EPOCH_FORMATS = frozenset({"minibatches", "key-value"})  # formats that may count steps from the beginning of each epoch
_REPORTER_LABEL = lazy_pattern(
    r"\[(?:rank|default|Rank )(\d{1,6})\]|^\s{0,8}(\d{1,6}): |\[(\d{1,6},\d{1,6})\]<|\[(pod/[^\]\s]{1,300})\]"
)


def reporter_label(text: str, index: int) -> str:
    """The label of the process in front of offset `index`; empty if there is none."""
    if text[:3] in {"[20", " [2"} or index == 1 or (index == 0 and text[:1] != "["):
        return ""  # a date, or nothing
    found = _REPORTER_LABEL.search(text, 0, index or 300)
    return next((each for each in found.groups() if each), "") if found else ""


_PROCESS_LABEL = lazy_pattern(
    r"\[((?:rank|default)\d{1,6})\]: ?|\(([^()]{1,100} pid=\d{1,10}[^()]{0,60})\) ?|([\w.-]{1,60}\d): "
)


def split_reporter(text: str) -> tuple[str, str]:
    """(labels of the process in front of a line, without times; the line as the process printed it)."""
    label, bare = split_label(text)
    while found := _PROCESS_LABEL.match(bare):
        label, bare = f"{label}{found[1] or found[2] or found[3]}|", bare[found.end() :]
    return label, bare


class EpochNumbering:
    """Numbers the steps of a run continuously if its program counts them from 1 in each epoch."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[float, int, int]] = {}  # of each reporter: epoch, step in it, and steps before it

    def renumber(self, steps: PackedSteps, index: int, stop: int, program: str, reporter: str) -> bool:
        """Renumber some of these steps of one reporter; False, without changes, if each step must be numbered alone."""
        numbers, epochs = steps.columns.get("step"), steps.extra.get("epoch")
        if program not in EPOCH_FORMATS or numbers is None or epochs is None:
            return True
        before = self._last.copy()
        bases = [self._steps_before(epochs[each], numbers[each], reporter) for each in range(index, stop)]
        if any(bases) and "total" in steps.columns:  # a total may be that of an epoch
            self._last = before
            return False
        for each, base in enumerate(bases, index):
            numbers[each] += base
        return True

    def renumber_step(self, step: Step, reporter: str) -> Step:
        epoch, number = step.extra.get("epoch"), step.step
        if epoch is None or number is None:
            return step
        base = self._steps_before(epoch, number, reporter)
        if not base:
            return step
        total = step.total if step.total is not None and step.total >= number + base else None  # else that of an epoch
        return step.with_number(number + base, total)

    def _steps_before(self, epoch: float, number: int, reporter: str) -> int:
        before, last, base = self._last.get(reporter, (epoch, 0, 0))
        if epoch > before and number <= last:
            base += last + (number == 0)  # the first of an epoch is the next step
        base = base if epoch >= before else 0
        self._last[reporter] = epoch, number, base
        return base
