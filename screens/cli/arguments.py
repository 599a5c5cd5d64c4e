"""Arguments that several commands take."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from console.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path


EXIT_CODES = (
    "exit codes: 0 ok, 1 it failed or is not there, 2 usage, 3 not allowed, 4 cannot reach the cluster; with --json "
    'standard error is JSON too, an object a line: {"error": what failed and why, "hint": what to do next}, {"note": …}'
)
ALL_EXIT_CODES = (
    f"{EXIT_CODES}; of a4 wait, a4 alarms and a4 launch --wait: 5 an alarm, 6 timed out, 7 the job ended without it"
)
TEST_KEYS = (
    "program, version, ranks, rows: size, count, type, redop, root, out_of_place and in_place: time_us, algbw, busbw, "
    "wrong; avg_busbw, out_of_bounds, ok, finished, error"
)
"""JSON keys of an NCCL test."""
STEP_KEYS = "step, total, loss, grad_norm, lr, step_time_s, tflops_per_gpu, tokens_per_s, skipped, nan, extra"
"""JSON keys of a step of training."""


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="as JSON")


def add_pod(parser: argparse.ArgumentParser) -> None:
    """A job and a pod of it."""
    parser.add_argument("job", metavar="JOB", help="or pod/NAME, without an index")
    parser.add_argument(
        "rank_text", metavar="POD", nargs="?", default="", help="index of the pod in the job (0), or REPLICATED/INDEX"
    )


def add_container(parser: argparse.ArgumentParser) -> None:
    """A container of that pod."""
    parser.add_argument("-c", "--container", metavar="C", help="instead of the one that does the work")


def add_queue(parser: argparse.ArgumentParser) -> None:
    """The LocalQueue, for launch and preflight."""
    parser.add_argument(
        "--queue", metavar="NAME|none",
        help="the LocalQueue; none bypasses Kueue (default: the namespace's only one, else one that has room for it)",
    )  # fmt: skip


def speed(text: str) -> float:
    """How much faster than life."""
    number = float(text)
    if not 0 < number <= 1000:
        raise argparse.ArgumentTypeError("a number above 0, at most 1000")
    return number


def count(text: str) -> int:
    """A number of things, or the index of one."""
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError("a whole number, not below 0")
    return number


def above_zero(text: str) -> float:
    """A limit without an upper one."""
    number = float(text)
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError("a number above 0")
    return number


def positive(text: str) -> int:
    """A number of things."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("a number above 0")
    return number


def seconds_of_a_day(text: str) -> float:
    """A time limit."""
    seconds = float(text)
    if not 0 < seconds <= 86400:
        raise argparse.ArgumentTypeError("seconds above 0, at most a day")
    return seconds


def seconds_of_an_hour(text: str) -> float:
    """How long something is looked at."""
    number = float(text)
    if not 0 < number <= 3600:
        raise argparse.ArgumentTypeError("seconds above 0, at most 3600")
    return number


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What was typed after `a4`, as far as every command takes it; what only one takes stands in its module."""

    command: str = ""
    """Empty: the console itself."""
    kubeconfig: Path | None = None
    context: str = ""
    namespace: str = ""
    read_only: bool = False
    demo: bool = False
    demo_speed: float | None = None
    """None: as fast as life, and the tour faster."""
    seed: int = 0
    json: bool = False

    def settings(self, kubeconfig: Path | None = None) -> Settings:
        """How to reach the cluster; `kubeconfig` is the practice cluster's, when there is one."""
        return Settings(
            kubeconfig=kubeconfig or self.kubeconfig,
            context="" if kubeconfig else self.context,
            namespace=self.namespace,
            read_only=self.read_only,
            practice=self.demo,
            speed=self.demo_speed or 1.0 if self.demo else 1.0,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PodOptions(Options):
    """A job and a pod of it, as `add_pod` takes them."""

    job: str
    rank_text: str = ""
    """Index of the pod as it was written: a number, or REPLICATED/INDEX."""


_OptionsT = TypeVar("_OptionsT", bound=Options)


@dataclass(frozen=True, slots=True)
class Command(Generic[_OptionsT]):
    """One word after `a4`."""

    add: Callable[[argparse.ArgumentParser], None]
    """Adds its arguments to its parser."""
    run: Callable[[_OptionsT], int | Coroutine[Any, Any, int]]
    """Does what was asked for; gives the exit code."""
    options: type[_OptionsT]
    """Takes what was typed, by the names that `add` gives; what was not typed is at the default it has here."""


Commands = Mapping[str, Command[Any]]
