"""Inputs with the structure of real answers, in whose places stand usual and unusual numbers, names and lists.

Random bytes rarely get past the parser; what these tell is judged to the end.
"""

import json
import random
from collections.abc import Callable
from typing import Any

NUMBERS = (0, 1, 2, 7, 8, 63, 64, 501, 1 << 24, 1 << 31, (1 << 53) - 1, 1 << 53, 1 << 63, -1, -(1 << 53))
FLOATS = (0.0, 0.001, 0.5, 1e6, 1e7, 1e12, 1e308, -1.0, 5e-324)
NAMES = ("0", "1", "default_pg", "TENSOR_PARALLEL_GROUP", "", "x" * 2000, "\u202e\x1b[31m", "nccl:send 0->1")
OPS = (
    "nccl:all_reduce",
    "nccl:send 0->1",
    "nccl:recv 1<-0",
    "nccl:send 0->9999999",
    "nccl:_all_gather_base",
    "barrier",
)


class Source(random.Random):
    """Chance for one answer, of which most have usual numbers only, and get past the schema."""

    def __init__(self, source: random.Random) -> None:
        super().__init__(source.getrandbits(64))
        self.odd = source.choice((0.0, 0.0, 0.0, 0.001, 0.03))
        self.groups: dict[str, Any] = {}  # that most ranks agree on


def number(source: Source, usual: int) -> int:
    """Mostly a small one, below `usual`."""
    return source.choice(NUMBERS) if source.random() < source.odd else source.randrange(max(1, usual))


def seconds(source: Source, usual: float) -> float:
    return source.choice(FLOATS) if source.random() < source.odd else usual


def some(source: Source, most: int, make: Callable[[], Any]) -> list[Any]:
    return [make() for _ in range(source.choice((0, 1, 2, most)))]


def members(source: Source) -> list[int]:
    if source.random() < source.odd:
        return some(source, 12, lambda: number(source, 16))
    return source.sample(range(16), source.randrange(1, 16))


def groups(source: Source) -> dict[str, Any]:
    if not source.groups or source.random() < 0.05:
        source.groups = {
            name: {"desc": source.choice(NAMES), "ranks": members(source)} for name in source.sample(NAMES[:4], 3)
        }
    return source.groups


def packed(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def operation(source: Source) -> dict[str, Any]:
    return {
        "group": source.choice(NAMES[:4]), "seq": number(source, 20), "op": source.choice(OPS),
        "state": source.choice(("scheduled", "started", "completed", "odd")), "sizes": "4x4, Float",
        "frame": source.choice(("train.py:7", "other.py:9", "")), "p2p": source.random() < 0.3,
    }  # fmt: skip


def dump(source: Source, rank: int) -> dict[str, Any]:
    """Of a flight recorder, as the probe tells it."""
    if source.random() < 0.1:
        return {"rank": rank, "why": source.choice(NAMES)}
    call = lambda: [source.choice(OPS), "4, Float", "train.py:7", '[[[4]],[[4]],["Float"],["Float"]]']  # noqa: E731
    history = {name: [number(source, 9), *some(source, 40, lambda: number(source, 4))] for name in NAMES[:4]}
    return {
        "rank": rank, "version": "2.10", "groups": groups(source), "kinds": some(source, 4, call), "history": history,
        "operations": some(source, 30, lambda: operation(source)),
    }  # fmt: skip


def process(source: Source, rank: int) -> dict[str, Any]:
    stack = 'Process 7: x\nPython v3.12\n\nThread 7 (active): "MainThread"\n    wait (train.py:3)\n'
    return {
        "pid": number(source, 99), "rank": rank, "local_rank": number(source, 8), "cpu": seconds(source, 99.0),
        "state": source.choice("RSTZ"), "threads": number(source, 99), "dump": source.choice(("", stack)),
        "program": source.choice(("", "", "all_reduce_perf")), "asked": source.random() < 0.9,
    }  # fmt: skip


def hang(chance: random.Random) -> bytes:
    source = Source(chance)
    several = [number(source, 8) for _ in range(8)] if source.random() < 20 * source.odd else range(8)
    return packed({
        "processes": [process(source, rank) for rank in several], "recorder": [dump(source, rank) for rank in several],
        "master": {"address": "10.0.0.1", "port": number(source, 30_000), "ok": False, "why": "no"},
        "launchers": some(source, 3, lambda: {"program": "mpirun", "pid": number(source, 99)}),
    })  # fmt: skip


def polls(chance: random.Random) -> bytes:
    source = Source(chance)
    lines: list[Any] = [{"version": "2.28.9", "form": "json", "ranks": number(source, 64)}]
    known = range(source.randrange(1, 12))
    lines += [
        {"process": [each, "10.0.0.1", number(source, 99), number(source, 8), source.choice((None, number(source, 64))),
                     some(source, 3, lambda: number(source, 3))]}
        for each in known
    ]  # fmt: skip
    count, progress = source.choice((0, 1, 99, 100, 300)), 0
    for at in range(count):
        progress += source.random() < 0.2
        behind = [[number(source, 3), 64, [[source.choice(known), number(source, 9)]]]] if source.random() < 0.2 else []
        lines.append([seconds(source, at / 10), seconds(source, 0.001), progress, behind])
    lines.append({"over": source.choice(NAMES), "active": some(source, 3, lambda: number(source, 3))})
    return b"\n".join(map(packed, lines))


def times(chance: random.Random) -> bytes:
    source = Source(chance)

    def rows() -> list[list[int]]:
        step = source.choice((0, 1, 1000))
        return [[at, step * at, number(source, 500)] for at in range(source.choice((1, 8, 40)))]

    def rank(own: int) -> dict[str, Any]:
        return {
            "rank": own, "groups": groups(source), "times": {name: rows() for name in NAMES[:4]},
            "since": source.choice((None, number(source, 99))),
            "queued": {name: some(source, 9, lambda: number(source, 99)) for name in NAMES[:4]},
        }  # fmt: skip

    return packed({
        "ranks": [rank(own) for own in range(source.randrange(8), 9)], "clock": source.choice(NAMES),
        "links": some(source, 5, lambda: [f"10.0.0.{number(source, 4)}", number(source, 999), number(source, 99)]),
        "rdma": some(source, 2, lambda: {"name": "mlx5_0", "state": "ACTIVE", "rate": source.choice(NAMES)}),
    })  # fmt: skip


def samples(chance: random.Random) -> bytes:
    source = Source(chance)
    calls = ("main (train.py:1);fetch (torch/utils/data/dataloader.py:700)", "main (train.py:1)", ";;", "x (" * 300)
    return packed({
        "ranks": [{"rank": rank, "stacks": some(source, 5, lambda: [number(source, 60), source.choice(calls)])}
                  for rank in (0, number(source, 3))],
    })  # fmt: skip
