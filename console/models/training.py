"""Progress of a training run: one entry for each step that a log reports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


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
    steps: tuple[Step, ...] = ()
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
