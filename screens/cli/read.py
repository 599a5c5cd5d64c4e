"""`a4 read`: parses a log from a file or pipe; needs no cluster.

What stands in a log as JSON, written while it is made: a log may hold millions of steps.

The bytes of a log from wherever it comes: a file, a pipe, a terminal.
"""

from __future__ import annotations

import gc
import os
import select
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from math import isfinite
from operator import itemgetter
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import asdict

from console.errors import BadInput
from console.logs.failure_kinds import LogFailure, group_sentences
from console.logs.pyspy import ProcessStacks
from console.metrics.export import nccl_test_json, step_json
from console.metrics.log_results import EvalScore, LogResults
from console.metrics.nccl.results import NcclTest, PackedRows, Row
from console.metrics.own_formats import load_own_formats
from console.metrics.training.reader import RunReader
from console.metrics.training.steps import PackedSteps, Step
from screens.cli.arguments import STEP_KEYS, TEST_KEYS, Command, Commands, Options, flag, json_flag, word
from screens.cli.output import print_error, print_line, warn
from screens.wording import count

_AT_ONCE = 2000
"""Steps or rows that are made into text at once."""
_encode, _encode_lines = msgspec.json.encode, msgspec.json.Encoder().encode_lines


def say_reading(reading: LogResults) -> None:
    """Print everything parsed as JSON; unknown is null, nan and inf are strings."""
    sys.stdout.flush()
    for part in _parts(reading):
        sys.stdout.write(part.decode())
    sys.stdout.write("\n")


def _parts(reading: LogResults) -> Iterator[bytes]:
    sections: dict[str, Iterable[bytes]] = {
        "nccl": _array(_tests(reading)),
        "training": _array(_runs(reading)),
        "failures": _array_of(map(_failure, reading.failures)),
        "restarts": _array_of(
            {"run": at, "last": back.last, "first": back.first}
            for at, run in enumerate(reading.training)
            for back in run.rewinds
        ),
        "ended": [_encode(reading.ended or None)],
        "scores": _array_of(reading.scores),
        "stacks": _array_of(reading.stacks),
    }
    if reading.unreadable:  # there is a key more only where something could not be read
        sections["unreadable"] = [_encode({what: asdict(each) for what, each in reading.unreadable.items()})]
    for at, (name, parts) in enumerate(sections.items()):
        yield (b",\n  " if at else b"{\n  ") + _encode(name) + b": "
        yield from parts
    yield b"\n}"


def _tests(reading: LogResults) -> Iterator[Iterable[bytes]]:
    whole = [(reading.from_json, reading.from_json.rows)] if reading.from_json else []
    grown = ((each.to_test(with_rows=False), each.rows) for each in reading.growing_tests)
    for test, rows in chain(whole, grown):
        said = nccl_test_json(test)
        before = {key: said[key] for key in ("program", "version", "ranks")}
        after = {key: value for key, value in said.items() if key not in before and key != "rows"}
        rows_json = _array_of(rows, indent="      ")
        yield chain([b"{" + _members(before) + b', "rows": '], rows_json, [b", " + _members(after) + b"}"])


def _runs(reading: LogResults) -> Iterator[Iterable[bytes]]:
    for run in reading.training:
        steps = _array_of(run.steps, _json_steps, indent="      ")
        yield chain([b"{" + _members({"format": run.format}) + b', "steps": '], steps, [b"}"])


def _failure(failure: LogFailure) -> dict[str, Any]:
    return {
        "kind": failure.kind, "rank": failure.rank, "host": failure.host or None, "line": failure.line,
        "text": failure.text, "hint": failure.hint or None, "times": failure.times,
    }  # fmt: skip


class _Step(msgspec.Struct):
    """A step as JSON whose numbers are all finite."""

    step: int | None
    total: int | None
    loss: float | None
    grad_norm: float | None
    lr: float | None
    step_time_s: float | None
    tflops_per_gpu: float | None
    tokens_per_s: float | None
    skipped: int | None
    nan: bool
    extra: dict[str, float]


def _json_steps(steps: list[Step]) -> list[Any]:
    """Like `step_json`, but fast for many steps."""
    columns = list(zip(*steps, strict=True))
    every = sum(sum(filter(None, column)) for column in columns[2:8]) + sum(sum(each.values()) for each in columns[11])
    if not isfinite(every) or any(columns[10]):
        return list(map(step_json, steps))
    return list(map(_Step, *columns[:10], columns[11]))


def _members(said: dict[str, Any]) -> bytes:
    """The members of a JSON object, without braces."""
    return b", ".join(_encode(key) + b": " + _encode(value) for key, value in said.items())


def _array(items: Iterable[Iterable[bytes]], indent: str = "    ") -> Iterator[bytes]:
    """A JSON array, each item of which begins a line."""
    line, some = f"\n{indent}".encode(), False
    yield b"["
    for item in items:
        yield b"," + line if some else line
        yield from item
        some = True
    yield line[:-2] + b"]" if some else b"]"


def _array_of(
    values: Iterable[Any], said: Callable[[list[Any]], list[Any]] = list, *, indent: str = "    "
) -> Iterator[bytes]:
    """The values as a JSON array, one per line; `said` makes some of them at once into what is encoded."""
    rest, between = iter(values), f",\n{indent}".encode()
    pieces = iter(lambda: list(islice(rest, _AT_ONCE)), [])
    # A line end within a text is written as two letters.
    return _array(([_encode_lines(said(piece))[:-1].replace(b"\n", between)] for piece in pieces), indent)


_PIECE = 1 << 20
ENDLESS = 64 << 20
"""Bytes without a line end after which it is said that this is no log."""
PATIENCE = 10.0
"""Seconds after which it is said that nothing comes."""


class NoLog(BadInput):
    """The input is not a log: it has no line ends, or never begins."""


def pieces(name: str) -> Iterator[bytes]:
    """Yield the bytes of a file or of standard input; BadInput if it cannot be read, NoLog if it is no log."""
    if name == "-" and not sys.stdin:  # none: it was closed before the program began
        raise BadInput("Standard input is closed.", "Name a file, or send the log through a pipe: … | a4 read -")
    try:
        descriptor = sys.stdin.fileno() if name == "-" else os.open(name, os.O_RDONLY | os.O_NONBLOCK)
    except OSError as error:
        raise BadInput(f"Could not open {name}: {error.strerror}.", "Name a file, or - for standard input.") from error
    try:
        yield from _lined(_read(descriptor, name), name)
    except IsADirectoryError as error:
        raise BadInput(f"{Path(name)} is a folder.", "Name a file in it.") from error
    finally:
        if name != "-":
            os.close(descriptor)


def _read(descriptor: int, name: str) -> Iterator[bytes]:
    if name != "-":
        if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
            yield _first(descriptor, name)
        os.set_blocking(descriptor, True)
    while data := os.read(descriptor, _PIECE):
        yield data


def _first(descriptor: int, name: str) -> bytes:
    """The first bytes from a named pipe; an error if nobody writes to it in time."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    if not poll.poll(PATIENCE * 1000):
        try:
            data = os.read(descriptor, _PIECE)
        except BlockingIOError:
            warn(f"No data from {name} yet; Ctrl-C stops waiting.")
            poll.poll()
            return os.read(descriptor, _PIECE)
        if not data:
            raise NoLog(
                f"No data was written to {name} for {PATIENCE:g} s.", "Start the program that writes the log first."
            )
        return data
    return os.read(descriptor, _PIECE)


def _lined(data: Iterator[bytes], name: str) -> Iterator[bytes]:
    """Yield the pieces of `data`; raises NoLog after more than ENDLESS bytes without a line end."""
    without = 0
    for piece in data:
        yield piece
        without = (
            len(piece) - end if (end := max(piece.rfind(b"\n"), piece.rfind(b"\r"))) >= 0 else without + len(piece)
        )
        if without > ENDLESS:
            what = "Standard input" if name == "-" else name
            raise NoLog(
                f"{what} is not a log: {ENDLESS >> 20} MiB without a line break.", "What was read before that is shown."
            )


INTERRUPTED = 130
SAID = 20
"""Failures that are told as text."""
_ROW_TITLES = f"{'bytes':>14} {'out of place':>13} {'in place':>9} GB/s  wrong"
_ROW = "%14d %13.2f %9.2f       %s"
_FORMS = ("loss %.6g", "grad norm %.4g", "lr %.3g", "%.4g s", "%.1f TFLOP/s", "%.0f tokens/s")
_FIRST, _LAST = Step._fields.index("loss"), Step._fields.index("tokens_per_s") + 1
"""Figures of a step, which are printed one after another: a log may hold millions."""


def read(options: ReadOptions) -> int:
    """Print the parsed log: as JSON at its end, else line by line."""
    reading, told = LogResults(load_own_formats()), ReadingPrinter()
    code = 0
    with _without_collector():
        try:
            for data in pieces(options.file):
                if reading.feed(data) and not options.json:
                    told.more(reading)
        except KeyboardInterrupt:  # of a log that never ends this is the end
            code = INTERRUPTED
        except NoLog as error:
            code = print_error(error)
        reading.close()
        if options.json:
            say_reading(reading)
        elif reading.has_results or not code:
            told.more(reading, ended=True)
            told.end(reading)
    return code or int(options.check and not is_well(reading))


@contextmanager
def _without_collector() -> Iterator[None]:
    """Disable cyclic garbage collection, which is slow for a million steps and not needed by parsers."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def is_well(reading: LogResults) -> bool:
    return not reading.failures and all(test.ok is not False for test in reading.nccl)


class ReadingPrinter:
    """Prints each test row and each step once."""

    def __init__(self) -> None:
        self._rows: dict[int, int] = {}
        """Test -> rows that were told."""
        self._steps: list[int] = []
        self._done: set[int] = set()
        self._rewinds: dict[int, int] = {}
        self._first = 0
        """Tests before it are over and told."""

    def more(self, reading: LogResults, *, ended: bool = False) -> None:
        """Print what is new; a step whose number may still be corrected waits, unless `ended`."""
        tests = reading.growing_tests
        for at in range(self._first, len(tests)):
            test = tests[at]
            told = self._rows.get(at, 0)
            over = (test.finished or test.error) and at not in self._done
            begins = at not in self._rows and (test.rows or over)
            known = test.to_test(with_rows=False) if begins or over else NcclTest()
            if begins:
                print_line(_test_title(known))
            if len(test.rows) > told:
                if not told:
                    print_line(_ROW_TITLES)
                for piece in test.rows.chunks(told):
                    print_line("\n".join(_rows(piece)))
            if test.rows or over:
                self._rows[at] = len(test.rows)
            if over:
                self._done.add(at)
                print_line(_test_end(known, len(test.rows)))
        while self._first < len(tests) - _MIXED and self._first in self._done:
            self._first += 1
        for at, run in enumerate(reading.training):
            self._run(at, run, ended=ended)
        sys.stdout.flush()

    def _run(self, at: int, run: RunReader, *, ended: bool) -> None:
        if at == len(self._steps):
            self._steps.append(0)
            print_line(f"training: {run.format}")
        self._print_repeated_steps(at, run)
        told = len(run.steps) - (run.is_number_uncertain and not ended)
        if self._steps[at] < told:
            for piece in run.steps.chunks(self._steps[at], told):
                print_line("\n".join(_steps(piece)))
        self._steps[at] = max(self._steps[at], told)  # a step that was told may be open again

    def _print_repeated_steps(self, at: int, run: RunReader) -> None:
        """Print steps again that were repeated after a rollback."""
        if len(run.rewinds) == self._rewinds.get(at, 0):
            return
        news, self._rewinds[at] = run.rewinds[self._rewinds.get(at, 0) :], len(run.rewinds)
        print_line(f"restarted: step {news[-1].first} after {news[-1].last}")
        places = (run.steps.index_of(back.first) for back in news)
        self._steps[at] = min(self._steps[at], *(place for place in places if place is not None), len(run.steps))

    def end(self, reading: LogResults) -> None:
        if reading.from_json:
            self._whole(reading.from_json)
        for at, test in enumerate(reading.growing_tests):
            if at not in self._done:
                if at not in self._rows:
                    print_line(_test_title(test.to_test(with_rows=False)))
                print_line(_test_end(test.to_test(with_rows=False), len(test.rows)))
        said = [*map(_run_end, reading.training), *map(_score, reading.scores), *map(_stacks, reading.stacks)]
        said += [*_failures(reading), *([reading.ended] if reading.ended else ())]
        said += [f"{what}: {unread.summary}: {unread.text}" for what, unread in reading.unreadable.items()]
        for each in said:
            print_line(each)
        if not reading.has_results:
            print_line(
                "Nothing was found: no table of nccl-tests, no steps of training, no scores, stacks or failures."
            )

    def _whole(self, test: NcclTest) -> None:
        print_line(_test_title(test))
        print_line(
            "\n".join([*([_ROW_TITLES] if test.rows else ()), *_rows(test.rows), _test_end(test, len(test.rows))])
        )


def _failures(reading: LogResults) -> list[str]:
    said = [f"failure: {each}" for each in group_sentences(reading.failures)]
    rest = max(0, len(said) - SAID) + reading.more_failures
    more = f"failure: {rest:,} more; --json has {'the first of them' if reading.more_failures else 'all'}"
    return [*said[:SAID], *([more] if rest else ())]


_MIXED = 16
"""Tests that may print into each other."""


def _score(score: EvalScore) -> str:
    value = "not known" if score.value is None else f"{score.value:g}"
    error = "" if score.error is None else f" ± {score.error:g}"
    more = ", ".join(each for each in (f"{score.shots} shots" if score.shots is not None else "", score.filter) if each)
    return f"{'  ' * score.depth}{score.task}  {score.metric} {value}{error}{f'  ({more})' if more else ''}"


def _stacks(process: ProcessStacks) -> str:
    said = [f"process {'without a number' if process.pid is None else process.pid}: {process.command}".rstrip(" :")]
    said += [f"  could not be read: {process.error}"] if process.error else []
    for thread in process.threads:
        state = f" ({', '.join(thread.state)})" if thread.state else ""
        said.append(f"  {thread.name or thread.id}{state}")
        said += [f"    {each.function} ({each.file}{f':{each.line}' if each.line else ''})" for each in thread.frames]
    return "\n".join(said)


def _test_title(test: NcclTest) -> str:
    words = [test.program or "nccl-tests", test.version, f"{test.ranks} ranks" if test.ranks else None]
    return " ".join(word for word in words if word)


def _rows(rows: PackedRows | Sequence[Row]) -> Iterable[str]:
    return map(_ROW.__mod__, rows.iter_speeds("-")) if isinstance(rows, PackedRows) else map(_row, rows)


def _row(row: Row) -> str:
    halves = (row.out_of_place, row.in_place)
    speeds = ["-" if half is None or half.busbw is None else f"{half.busbw:.2f}" for half in halves]
    checked = [half.wrong for half in halves if half and half.wrong is not None]
    return f"{row.size:14} {speeds[0]:>13} {speeds[1]:>9}       {sum(checked) if checked else '-'}"


def _test_end(test: NcclTest, rows: int) -> str:
    average = "-" if test.avg_busbw is None else f"{test.avg_busbw:g} GB/s"
    measured = f"average bus bandwidth {average}" if rows or test.avg_busbw is not None else "no row was read"
    verdict = {True: ": OK", False: ": FAILED", None: ": not checked" if rows else ""}[test.ok]
    state = "" if test.finished else ", not finished"
    return f"{measured}{verdict}{state}{f' ({test.error})' if test.error else ''}"


_SHAPES: dict[tuple[bool, ...], tuple[str, Callable[[Step], Any]]] = {}


def _steps(steps: PackedSteps | list[Step]) -> Iterable[str]:
    columns = steps.columns if isinstance(steps, PackedSteps) and steps.whole else {}
    said = tuple([name in columns for name in Step._fields[:_LAST]])
    if not any(said) or "nan" in columns or "warm_up" in columns or any(columns.get("skipped", ())):
        return map(_step, steps)
    form, _ = _SHAPES.get(said) or _shape(said)
    figures = [columns[name] for name in Step._fields[:_LAST] if name in columns]
    return map(form.__mod__, zip(*figures, strict=True))


def _step(step: Step) -> str:
    said = tuple([value is not None for value in step[:_LAST]])
    form, values = _SHAPES.get(said) or _shape(said)
    words: str = form % values(step)
    if step[8] or step[9] or step[10]:
        words = "  ".join(
            [words, *["skipped"] * bool(step.skipped), *["NAN"] * step.nan, *["(warm-up)"] * step.warm_up]
        )
    return words


def _shape(said: tuple[bool, ...]) -> tuple[str, Callable[[Step], Any]]:
    """The line format, and the function for its values, of steps with the same known figures."""
    at = ("%s" if said[0] else "-") + ("/%s" if said[1] else "")
    form = "  ".join([at, *(form for form, known in zip(_FORMS, said[_FIRST:], strict=True) if known)])
    places = [place for place, known in enumerate(said) if known]
    _SHAPES[said] = form, itemgetter(*places) if places else lambda _: ()
    return _SHAPES[said]


def _run_end(run: RunReader) -> str:
    last = run.steps[-1] if run.steps else None
    steps, restarts = count(len(run.steps), "step"), count(len(run.rewinds), "restart")
    said = f"{run.format}: {steps}, {restarts}, {run.steps.nans:,} with NaN"
    if run.finished or last is None or last.step is None or last.total is None or last.step >= last.total:
        return said
    return f"{said}, ended at step {last.step:,} of {last.total:,}"


class ReadOptions(Options):
    check: bool = flag("--check", help="exit with 1 if a test failed or a failure is named")
    file: str = word("FILE", help="a log, or - for standard input as it comes")
    json: bool = json_flag("as JSON, once the log has ended")


COMMANDS: Commands = {
    "read": Command(
        read,
        ReadOptions,
        epilog=f"JSON: nccl ({TEST_KEYS}), training (format, steps: {STEP_KEYS}), failures (kind, rank, host, line, "
        "text, hint, times), restarts (run: its place in training, last and first: step before and after), ended (what "
        "torchrun, mpirun or Slurm says at the end), scores (of lm-eval: task, metric, value, error, shots, filter, "
        "version, depth, group, better), stacks (of py-spy: pid, command, python, threads, error), and unreadable "
        "(first, last, lines, text, goes_on) where lines could not be "
        'read. What is not known is null, never 0; numbers that are none are the texts "nan" and "inf". Exit codes: 0 '
        "it was read, 2 it cannot be, 1 with --check if a test failed or a failure is named; see a4 --help.",
    )
}
