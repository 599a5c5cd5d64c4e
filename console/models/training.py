"""Progress of a training run: one entry for each step that a log reports."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence


class Step(NamedTuple):
    """What a log says of one step; None where it says nothing. A tuple, because a log may hold a million of them."""

    step: int | None = None
    """As the program counts, from 0 or from 1; None where the log gives no number."""
    total: int | None = None
    """Steps of the whole run."""
    loss: float | None = None
    """Training loss, averaged over the interval between two lines; may be nan or inf."""
    grad_norm: float | None = None
    lr: float | None = None
    step_time_s: float | None = None
    """Seconds for one step."""
    tflops_per_gpu: float | None = None
    """TFLOP/s of one GPU, as the program computes it."""
    tokens_per_s: float | None = None
    """Tokens a second as printed: of one GPU in torchtitan, MaxText and verl, of all elsewhere."""
    skipped: int | None = None
    """Steps since the last line whose update was left out (overflow)."""
    nan: bool = False
    """Loss or gradients are not numbers, or the loss is missing where it has to be."""
    warm_up: bool = False
    """One of the first steps after a start: compilation, caches; its speed says nothing."""
    extra: dict[str, float] = {}  # noqa: RUF012  # a default of a tuple's field; nobody writes to it
    """Whatever else is printed as a number, under its own name and in its own unit."""


class Standing(NamedTuple):
    """Where a run is: its last step, and the last loss that is a number with the step that it is of."""

    step: int | None = None
    loss: float | None = None
    loss_step: int | None = None
    nan: bool = False
    """Whether the last step is an alarm."""
    nan_from: int | None = None
    """The first step of the unbroken row of alarms at the end; None too where it began before what was read."""
    what: str = ""
    """What is no number, if the last step is an alarm."""

    @property
    def nan_words(self) -> str:
        """Such as "loss is NaN since step 20 (10.58 at 19)"; empty if all is a number."""
        if not self.nan:
            return ""
        at = f" at step {self.step:,}" if self.step is not None else ""
        since = f" since step {self.nan_from:,}" if self.nan_from is not None else at
        good = (
            f" ({self.loss:.4g} at {self.loss_step:,})" if self.loss is not None and self.loss_step is not None else ""
        )
        return f"{self.what}{since}{good}"


def standing(steps: Sequence[Step]) -> Standing:
    """Where a run with these steps is."""
    at = len(steps)
    while at and steps[at - 1].nan:
        at -= 1
    first_bad = steps[at] if at < len(steps) else None
    while at and not _has_loss(steps[at - 1]):
        at -= 1
    good = steps[at - 1] if at else None
    return Standing(
        step=steps[-1].step if steps else None,
        loss=good.loss if good else None,
        loss_step=good.step if good else None,
        nan=first_bad is not None,
        nan_from=first_bad.step if first_bad is not None and first_bad is not steps[0] else None,
        what=what_is_nan(first_bad) if first_bad is not None else "",
    )


def what_is_nan(step: Step) -> str:
    """What of that step is no number."""
    if step.loss is None or math.isnan(step.loss):  # Megatron leaves out a loss that is no number
        return "loss is NaN"
    return f"loss is {step.loss}" if math.isinf(step.loss) else "gradients are NaN"


def _has_loss(step: Step) -> bool:
    return step.loss is not None and math.isfinite(step.loss) and not step.nan


@dataclass(frozen=True, slots=True)
class Rewind:
    """The run went back to an earlier checkpoint: what came after it is done again."""

    last: int
    """Last step before."""
    first: int
    """First step after."""


@dataclass(frozen=True, slots=True)
class Bar:
    """A progress bar, as last drawn."""

    step: int
    total: int
    elapsed_s: int | None = None
    step_time_s: float | None = None


@dataclass(frozen=True, slots=True)
class TrainingRun:
    """One training run, as far as its log has been read."""

    format: str
    """Which program's lines these are: "megatron", "hf", "torchtitan", "key-value", ..."""
    steps: Sequence[Step] = ()
    """In their order, each once; of steps done again the later value."""
    rewinds: tuple[Rewind, ...] = ()
    finished: bool = False
    """The program said that training is over."""
    unsettled: bool = False
    """The progress bar that comes next, in a moment, may still say better which step the last one was."""

    @property
    def last(self) -> Step | None:
        """The latest step."""
        return self.steps[-1] if self.steps else None

    @property
    def nan_since(self) -> int | None:
        """Place in `steps` of the first alarm of the last unbroken row of alarms; None if the last step is fine."""
        at = len(self.steps)
        while at and self.steps[at - 1].nan:
            at -= 1
        return at if at < len(self.steps) else None
