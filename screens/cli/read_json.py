"""What stands in a log as JSON, written while it is made: a log may hold millions of steps."""

from __future__ import annotations

import sys
from dataclasses import asdict
from itertools import chain, islice
from math import isfinite
from typing import TYPE_CHECKING, Any

import msgspec

from console.models.nccl_export import nccl_json
from console.models.training_export import step_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from console.log_results import LogReading
    from console.models.log_failure import LogFailure
    from console.models.training import Step

_AT_ONCE = 2000
"""Steps or rows that are made into text at once."""
_encode, _encode_lines = msgspec.json.encode, msgspec.json.Encoder().encode_lines


def say_reading(reading: LogReading) -> None:
    """All of it: what is not known is null; nan and inf are strings."""
    sys.stdout.flush()
    for part in _parts(reading):
        sys.stdout.write(part.decode())
    sys.stdout.write("\n")


def _parts(reading: LogReading) -> Iterator[bytes]:
    yield b'{\n  "nccl": ['
    yield from _objects(_tests(reading))
    yield b'],\n  "training": ['
    yield from _objects(_runs(reading))
    yield b'],\n  "failures": ['
    yield from _lines(map(_failure, reading.failures), list, "    ")
    yield b'],\n  "restarts": ['
    yield from _lines(_restarts(reading), list, "    ")
    yield b'],\n  "ended": ' + _encode(reading.ended or None)
    yield b',\n  "scores": ['
    yield from _lines(reading.scores, list, "    ")
    yield b'],\n  "stacks": ['
    yield from _lines(reading.stacks, list, "    ")
    yield b"]"
    if reading.unreadable:  # there is a key more only where something could not be read
        yield b',\n  "unreadable": ' + _encode({what: asdict(each) for what, each in reading.unreadable.items()})
    yield b"\n}"


def _tests(reading: LogReading) -> Iterator[Iterator[bytes]]:
    whole = (reading.from_json,) if reading.from_json else ()
    for test, rows in chain(
        ((each, each.rows) for each in whole),
        ((each.test(with_rows=False), each.rows) for each in reading.growing_tests),
    ):
        said = nccl_json(test)
        before = {key: said[key] for key in ("program", "version", "ranks")}
        after = {key: value for key, value in said.items() if key not in before and key != "rows"}
        yield chain(
            [b"{" + _members(before) + b', "rows": ['],
            _lines(rows, list, "      "),
            [b"], " + _members(after) + b"}"],
        )


def _runs(reading: LogReading) -> Iterator[Iterator[bytes]]:
    for run in reading.growing_runs:
        yield chain(
            [b"{" + _members({"format": run.format}) + b', "steps": ['], _lines(run.steps, _steps, "      "), [b"]}"]
        )


def _restarts(reading: LogReading) -> Iterator[dict[str, int]]:
    for at, run in enumerate(reading.growing_runs):
        for back in run.rewinds:
            yield {"run": at, "last": back.last, "first": back.first}


def _failure(failure: LogFailure) -> dict[str, Any]:
    return {
        "kind": failure.kind, "rank": failure.rank, "host": failure.host or None, "line": failure.line,
        "text": failure.text, "hint": failure.hint or None, "times": failure.times,
    }  # fmt: skip


class _Step(msgspec.Struct):
    """A step as JSON has it, if each of its numbers is one."""

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


def _steps(steps: list[Step]) -> list[Any]:
    """As `step_json`, which looks at each number by itself."""
    columns = list(zip(*steps, strict=True))
    every = sum(sum(filter(None, column)) for column in columns[2:8]) + sum(sum(each.values()) for each in columns[11])
    if not isfinite(every) or any(columns[10]):
        return list(map(step_json, steps))
    return list(map(_Step, *columns[:10], columns[11]))


def _members(said: dict[str, Any]) -> bytes:
    """The members of an object, without its braces."""
    return b", ".join(_encode(key) + b": " + _encode(value) for key, value in said.items())


def _objects(each: Iterable[Iterator[bytes]]) -> Iterator[bytes]:
    """Objects of an array, each below the one before it."""
    some = False
    for one in each:
        yield b",\n    " if some else b"\n    "
        yield from one
        some = True
    if some:
        yield b"\n  "


def _lines(values: Iterable[Any], said: Callable[[list[Any]], list[Any]], indent: str) -> Iterator[bytes]:
    """Values of an array, a line for each."""
    between = b",\n" + indent.encode()
    rest, some = iter(values), False
    while piece := list(islice(rest, _AT_ONCE)):
        yield between if some else between[1:]
        yield _encode_lines(said(piece))[:-1].replace(
            b"\n", between
        )  # a line end within a text is written as two letters
        some = True
    if some:
        yield between[1:-2]
