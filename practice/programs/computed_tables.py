"""Calculates the table of all_reduce_perf for more GPUs than were recorded, from published figures of A4."""

from __future__ import annotations

from typing import TYPE_CHECKING

from practice.programs.recordings import all_reduce_header
from trainlog import A4_ALL_REDUCE, REFERENCE_RANKS, expected_busbw

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

FROM_RANKS = 5
"""Minimum number of GPUs of a computed table; tables for fewer GPUs were recorded."""
SLOW_NETWORK_FACTOR = 0.33
"""Share of the bandwidth that is left with a slow network, with which two machines stay under their pass line."""
_SCATTER, _MOST = 0.008, 0.02  # usual and largest share by which tests, and rows of a test, differ
_FIRST_PID, _FIRST_BUS = 2100, 4


def table_note(ranks: int) -> str:
    """The source of the figures in an NCCL test table, as a note below it."""
    of = "A4" if ranks >= REFERENCE_RANKS else f"{REFERENCE_RANKS} GPUs of A4"
    return f"figures worked out from the published ones of {of}, nothing was measured"


def table_header(hosts: Sequence[str], gpus: int) -> list[str]:
    """Return the lines before the table: one process per GPU, ranks in the order of the pods."""
    recorded = [line.replace("nGpus 4", "nGpus 1") for line in all_reduce_header(hosts[0])]
    first = next(at for at, line in enumerate(recorded) if line.startswith("#  Rank"))
    after = next(at for at, line in enumerate(recorded[first:], first) if not line.startswith("#  Rank"))
    ranks = [
        f"#  Rank {number:2} Group  0 Pid {_FIRST_PID + number % gpus:6} on {hosts[number // gpus].split('.')[0]:>10}"
        f" device {number % gpus:2} [0000:{_FIRST_BUS + number % gpus:02x}:00] NVIDIA B200"
        for number in range(len(hosts) * gpus)
    ]
    return [*recorded[:first], *ranks, *recorded[after:]]


def table_rows(sizes: Sequence[int], ranks: int, generator: random.Random, slow_from: int | None = None) -> list[str]:
    """Return one row per size; from row number ``slow_from`` on the network is slow."""
    test = _random_factor(generator)
    shares = [
        test * (SLOW_NETWORK_FACTOR if slow_from is not None and at >= slow_from else 1.0) for at in range(len(sizes))
    ]
    return [_table_row(size, ranks, share, generator) for size, share in zip(sizes, shares, strict=True)]


def _table_row(size: int, ranks: int, share: float, generator: random.Random) -> str:
    count = size // 4
    halves = "".join(_half_row(count * 4, ranks, share * _random_factor(generator)) for _ in range(2))
    return f"{count * 4:12}  {count:12}  {'float':>8}  {'sum':>6}  {-1:6}{halves}"


def _half_row(size: int, ranks: int, share: float) -> str:
    factor = 2 * (ranks - 1) / ranks
    microseconds = _estimated_time(size, factor) / share
    algbw = size / microseconds / 1000
    return f"  {_format_time(microseconds)}  {algbw:6.2f}  {algbw * factor:6.2f}  {0:6}"


def _estimated_time(size: int, factor: float) -> float:
    """Return the microseconds at the published bandwidth, extrapolated linearly below the smallest size."""
    busbw = expected_busbw(size)
    if busbw is not None:
        return size * factor / busbw / 1000
    (low, at_low), (high, at_high) = A4_ALL_REDUCE[:2]
    before, after = low * factor / at_low / 1000, high * factor / at_high / 1000
    return before - (after - before) * (low - size) / (high - low)


def _format_time(microseconds: float) -> str:
    """Format a time as nccl-tests does, in seven characters."""
    digits = 2 if microseconds < 10_000 else 1 if microseconds < 100_000 else 0
    return f"{microseconds:7.{digits}f}"


def _random_factor(generator: random.Random) -> float:
    return 1 + max(-_MOST, min(_MOST, generator.gauss(0, _SCATTER)))
