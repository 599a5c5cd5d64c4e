"""`a4 read`: what stands in a log, from a file or while it comes through a pipe; needs no cluster."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from console.errors import BadInput
from console.log_results import LogReading
from console.models.nccl_export import nccl_json
from console.models.training import Step
from console.models.training_export import run_json
from screens.cli.output import say, say_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from console.models.nccl import NcclTest, Row
    from console.models.training import TrainingRun
    from screens.cli.options import Options

_PIECE = 1 << 20
INTERRUPTED = 130
_FORMS = ("loss %.6g", "grad norm %.4g", "lr %.3g", "%.4g s", "%.1f TFLOP/s", "%.0f tokens/s")
_FIRST, _LAST = Step._fields.index("loss"), Step._fields.index("tokens_per_s") + 1
"""Figures of a step, which are printed one after another: a log may hold millions."""


def read(options: Options) -> int:
    """Print what the log holds: as JSON once it has ended, otherwise line by line as it comes."""
    reading, told = LogReading(), Told()
    code = 0
    try:
        for data in _pieces(options.file):
            if reading.feed(data) and not options.json:
                told.more(reading)
    except KeyboardInterrupt:  # of a log that never ends this is the end
        code = INTERRUPTED
    reading.close()
    if options.json:
        say_json(as_json(reading))
        return code
    told.more(reading, ended=True)
    told.end(reading)
    return code


def _pieces(name: str) -> Iterator[bytes]:
    """The bytes of a file, or of standard input as they come."""
    if name == "-" and not sys.stdin:  # none: it was closed before the program began
        raise BadInput("Standard input is closed.", "Name a file, or send the log through a pipe: … | a4 read -")
    try:
        descriptor = sys.stdin.fileno() if name == "-" else os.open(name, os.O_RDONLY)
    except OSError as error:
        raise BadInput(f"Could not open {name}: {error.strerror}.", "Name a file, or - for standard input.") from error
    try:
        while data := os.read(descriptor, _PIECE):
            yield data
    except IsADirectoryError as error:
        raise BadInput(f"{Path(name)} is a folder.", "Name a file in it.") from error
    finally:
        if name != "-":
            os.close(descriptor)


class Told:
    """Tells each row and each step once, when it comes."""

    def __init__(self) -> None:
        self._rows: list[int] = []
        self._steps: list[int] = []
        self._done: set[int] = set()
        self._rewinds: dict[int, int] = {}

    def more(self, reading: LogReading, *, ended: bool = False) -> None:
        """Say what is new; a step whose number will be known better in a moment waits for that, unless it has ended."""
        for at, test in enumerate(reading.nccl):
            if at == len(self._rows):
                self._rows.append(0)
                say(_test_title(test))
            for row in test.rows[self._rows[at] :]:
                say(_row(row))
            self._rows[at] = len(test.rows)
            if (test.finished or test.error) and at not in self._done:
                self._done.add(at)
                say(_test_end(test))
        for at, run in enumerate(reading.training):
            if at == len(self._steps):
                self._steps.append(0)
                say(f"training: {run.format}")
            self._again(at, run)
            told = len(run.steps) - (run.unsettled and not ended)
            if new := run.steps[self._steps[at] : told]:
                say("\n".join(map(_step, new)))
            self._steps[at] = max(self._steps[at], told)  # a step that was told may be open again
        sys.stdout.flush()

    def _again(self, at: int, run: TrainingRun) -> None:
        """Steps that are done again are told again."""
        if len(run.rewinds) == self._rewinds.get(at, 0):
            return
        self._rewinds[at] = len(run.rewinds)
        back = run.rewinds[-1]
        say(f"restarted: step {back.first} after {back.last}")
        kept = sum(step.step is None or step.step < back.first for step in run.steps)
        self._steps[at] = min(self._steps[at], kept)

    def end(self, reading: LogReading) -> None:
        """Say how it ended."""
        for at, test in enumerate(reading.nccl):
            if at not in self._done:
                say(_test_end(test))
        for run in reading.training:
            say(_run_end(run))
        if reading.launcher_end:
            say(reading.launcher_end)
        for what, unread in reading.unreadable.items():
            say(f"{what}: {unread.words}: {unread.text}")
        if not self._rows and not self._steps and not reading.unreadable:
            say("Neither a table of nccl-tests nor steps of a training run were found.")


def as_json(reading: LogReading) -> dict[str, Any]:
    """All of it: what is not known is null; nan and inf are strings."""
    told: dict[str, Any] = {
        "nccl": [nccl_json(test) for test in reading.nccl],
        "training": [run_json(run.format, run.steps) for run in reading.training],
    }
    if reading.unreadable:  # there is a key more only where something could not be read
        told["unreadable"] = {what: asdict(each) for what, each in reading.unreadable.items()}
    return told


def _test_title(test: NcclTest) -> str:
    words = [test.program or "nccl-tests", test.version, f"{test.ranks} ranks" if test.ranks else None]
    return f"{' '.join(word for word in words if word)}\n{'bytes':>14} {'out of place':>13} {'in place':>9} GB/s  wrong"


def _row(row: Row) -> str:
    halves = (row.out_of_place, row.in_place)
    speeds = ["-" if half is None or half.busbw is None else f"{half.busbw:.2f}" for half in halves]
    checked = [half.wrong for half in halves if half and half.wrong is not None]
    return f"{row.size:14} {speeds[0]:>13} {speeds[1]:>9}       {sum(checked) if checked else '-'}"


def _test_end(test: NcclTest) -> str:
    average = "-" if test.avg_busbw is None else f"{test.avg_busbw:g} GB/s"
    verdict = {True: "OK", False: "FAILED", None: "not checked"}[test.ok]
    state = "" if test.finished else ", not finished"
    return f"average bus bandwidth {average}: {verdict}{state}{f' ({test.error})' if test.error else ''}"


def _step(step: Step) -> str:
    at = "-" if step.step is None else str(step.step)
    words = [f"{at}/{step.total}" if step.total else at]
    words += [form % value for form, value in zip(_FORMS, step[_FIRST:_LAST], strict=True) if value is not None]
    if step.skipped or step.nan or step.warm_up:
        words += ["skipped"] * bool(step.skipped) + ["NAN"] * step.nan + ["(warm-up)"] * step.warm_up
    return "  ".join(words)


def _run_end(run: TrainingRun) -> str:
    alarms, last = sum(step.nan for step in run.steps), run.last
    said = f"{run.format}: {len(run.steps)} steps, {len(run.rewinds)} restarts, {alarms} with nan"
    if run.finished or last is None or last.step is None or last.total is None or last.step >= last.total:
        return said
    return f"{said}, ended at step {last.step} of {last.total}"
