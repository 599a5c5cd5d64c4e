"""The results in a log as JSON, yielded in pieces."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from math import isfinite
from typing import Any

import msgspec
from msgspec.structs import asdict

from trainlog.failure_kinds import LogFailure
from trainlog.log_results import LogResults
from trainlog.nccl.test_results import NcclTest
from trainlog.training.steps import Step

_ITEMS_AT_ONCE = 2000  # steps or rows that are made into text at once
_encode, _encode_lines = msgspec.json.encode, msgspec.json.Encoder().encode_lines


def json_number(value: float | None) -> float | str | None:
    """The number as a JSON value: null if unknown; nan and inf as strings."""
    if value is None or math.isfinite(value):
        return value
    return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"


def nccl_test_json(test: NcclTest) -> dict[str, Any]:
    made: dict[str, Any] = msgspec.to_builtins(test)
    return made


def step_json(step: Step) -> dict[str, Any]:
    *numbers, nan, warm_up, others = step
    extra = {name: json_number(value) for name, value in others.items()} | ({"warm_up": True} if warm_up else {})
    members: dict[str, Any] = dict(zip(step._fields, map(json_number, numbers), strict=False))
    return members | {"nan": nan, "extra": extra}


def iter_json(results: LogResults) -> Iterator[bytes]:
    """Everything in a log as JSON, in pieces. What is unknown is null, nan and inf are strings."""
    sections: dict[str, Iterable[bytes]] = {
        "nccl": _encode_array(_iter_tests(results)),
        "training": _encode_array(_iter_runs(results)),
        "failures": _array_of(map(_failure_json, results.failures)),
        "restarts": _array_of(
            {"run": at, "last": back.last, "first": back.first}
            for at, run in enumerate(results.training)
            for back in run.rewinds
        ),
        "ended": [_encode(results.ended or None)],
        "scores": _array_of(results.scores),
        "stacks": _array_of(results.stacks),
    }
    if results.unreadable:  # there is a key more only where something could not be read
        sections["unreadable"] = [_encode({what: asdict(each) for what, each in results.unreadable.items()})]
    for at, (name, parts) in enumerate(sections.items()):
        yield (b",\n  " if at else b"{\n  ") + _encode(name) + b": "
        yield from parts
    yield b"\n}"


def _iter_tests(results: LogResults) -> Iterator[Iterable[bytes]]:
    whole = [(results.from_json, results.from_json.rows)] if results.from_json else []
    grown = ((each.to_test(with_rows=False), each.rows) for each in results.growing_tests)
    for test, rows in chain(whole, grown):
        members = nccl_test_json(test)
        before = {key: members[key] for key in ("program", "version", "ranks")}
        after = {key: value for key, value in members.items() if key not in before and key != "rows"}
        rows_json = _array_of(rows, indent="      ")
        yield chain(
            [b"{" + _encode_members(before) + b', "rows": '], rows_json, [b", " + _encode_members(after) + b"}"]
        )


def _iter_runs(results: LogResults) -> Iterator[Iterable[bytes]]:
    for run in results.training:
        steps = _array_of(run.steps, _json_steps, indent="      ")
        yield chain([b"{" + _encode_members({"format": run.format}) + b', "steps": '], steps, [b"}"])


def _failure_json(failure: LogFailure) -> dict[str, Any]:
    return {
        "kind": failure.kind,
        "rank": failure.rank,
        "host": failure.host or None,
        "line": failure.line,
        "text": failure.text,
        "hint": failure.hint or None,
        "times": failure.times,
    }


class _FiniteStep(msgspec.Struct):
    """A step as it is written to JSON, for steps whose numbers are all finite."""

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
    """The steps as JSON values; faster than `step_json` for many steps."""
    columns = list(zip(*steps, strict=True))
    every = sum(sum(filter(None, column)) for column in columns[2:8]) + sum(sum(each.values()) for each in columns[11])
    if not isfinite(every) or any(columns[10]):
        return list(map(step_json, steps))
    return list(map(_FiniteStep, *columns[:10], columns[11]))


def _encode_members(members: dict[str, Any]) -> bytes:
    """The members of a JSON object, without braces."""
    return b", ".join(_encode(key) + b": " + _encode(value) for key, value in members.items())


def _encode_array(items: Iterable[Iterable[bytes]], indent: str = "    ") -> Iterator[bytes]:
    """A JSON array, each item of which begins a line."""
    line, some = f"\n{indent}".encode(), False
    yield b"["
    for item in items:
        yield b"," + line if some else line
        yield from item
        some = True
    yield line[:-2] + b"]" if some else b"]"


def _array_of(
    values: Iterable[Any], encodable: Callable[[list[Any]], list[Any]] = list, *, indent: str = "    "
) -> Iterator[bytes]:
    """The values as a JSON array, one per line; `encodable` converts some of them at once for the encoder."""
    rest, between = iter(values), f",\n{indent}".encode()
    pieces = iter(lambda: list(islice(rest, _ITEMS_AT_ONCE)), [])
    # A line end within a text is written as two letters.
    return _encode_array(([_encode_lines(encodable(piece))[:-1].replace(b"\n", between)] for piece in pieces), indent)
