"""Compares nccl-tests results with the reference for A4: ratings of rows, verdicts on tests.

The reference is a published curve of all_reduce on 16 GPUs of 2 machines, measured by a third party and guaranteed by
nobody.
"""

from __future__ import annotations

from bisect import bisect_right
from enum import StrEnum
from math import log2

from msgspec import Struct

from trainlog.nccl.test_results import NcclRow, NcclTest

_MIB, _GIB = 2**20, 2**30

A4_ALL_REDUCE = (  # bytes and bus bandwidth in GB/s, out-of-place, smallest first
    (8 * _MIB, 100.0),
    (64 * _MIB, 341.0),
    (256 * _MIB, 535.0),
    (512 * _MIB, 594.0),
    (1 * _GIB, 623.3),
    (2 * _GIB, 659.3),
    (4 * _GIB, 673.8),
    (8 * _GIB, 683.5),
)
REFERENCE_RANKS = 16  # GPUs of that curve, on two machines; within one, NVLink decides
PASS_LINE = 250.0  # GB/s that two machines have to reach on average over 2 to 8 GiB; a line to pass, not what to expect
GOOD, FAIR = 0.9, 0.7  # shares of the reference from which a row is good, or fair


class RowRating(StrEnum):
    """The rating of a row in comparison with the reference curve."""

    GOOD = "good"
    FAIR = "fair"
    BELOW = "below"
    WRONG = "wrong"  # the result was wrong, so its speed does not matter
    NONE = ""  # no reference for this size, or nothing measured


class RowVerdict(Struct, frozen=True):
    word: RowRating
    ratio: float | None = None  # the better half's bandwidth as a share of the reference


def expected_busbw(size: int) -> float | None:
    """The reference bandwidth (GB/s), interpolated over log2(size), flat above 8 GiB; None below 8 MiB."""
    if size < A4_ALL_REDUCE[0][0]:
        return None
    after = bisect_right(A4_ALL_REDUCE, size, key=lambda point: point[0])
    low, below = A4_ALL_REDUCE[after - 1]
    if after == len(A4_ALL_REDUCE):
        return below
    high, above = A4_ALL_REDUCE[after]
    return below + (above - below) * (log2(size) - log2(low)) / (log2(high) - log2(low))


def reference_curve(largest: int = 0) -> tuple[tuple[int, float], ...]:
    """(bytes, GB/s) points of the reference, extended to the largest size of a test."""
    last, value = A4_ALL_REDUCE[-1]
    return A4_ALL_REDUCE if largest <= last else (*A4_ALL_REDUCE, (largest, value))


def judge_row(row: NcclRow) -> RowVerdict:
    """Compare a row of an all-reduce test with the reference."""
    expected, best = expected_busbw(row.size), row.best_busbw
    ratio = best / expected if expected and best is not None else None
    if any(half and half.wrong for half in (row.out_of_place, row.in_place)):
        return RowVerdict(RowRating.WRONG, ratio)
    if ratio is None:
        return RowVerdict(RowRating.NONE)
    return RowVerdict(RowRating.GOOD if ratio >= GOOD else RowRating.FAIR if ratio >= FAIR else RowRating.BELOW, ratio)


def health_scan_average(test: NcclTest) -> float | None:
    """Mean GB/s of all rows from 2 to 8 GiB, to compare with `PASS_LINE`; None without such rows."""
    rows = [row for row in test.rows if 2 * _GIB <= row.size <= 8 * _GIB]
    halves = [half for row in rows for half in (row.out_of_place, row.in_place)]
    values = [half.busbw for half in halves if half and half.busbw is not None]
    return sum(values) / len(values) if values else None


def is_all_reduce(test: NcclTest) -> bool:
    """Whether the test is an all-reduce, the only one that the reference applies to."""
    return (test.program or "all_reduce").startswith("all_reduce")


def is_comparable(test: NcclTest, accelerator: str = "") -> bool:
    """Whether the test is an all-reduce over several machines, on B200 as far as nodes' `accelerator` labels tell."""
    fits = test.ranks is None or test.ranks >= REFERENCE_RANKS
    return is_all_reduce(test) and fits and is_a4(accelerator)


def is_a4(accelerator: str) -> bool:
    """Whether nodes with that accelerator label may be A4 machines; True if it is unknown."""
    return not accelerator or accelerator.startswith("nvidia-b200")


class NcclResult(StrEnum):
    RUNNING = "running"
    PASSED = "passed"
    FAILED = "failed"
    UNJUDGED = "not judged"


class NcclVerdict(Struct, frozen=True):
    passing: NcclResult
    why: str


def describe_wrong_values(test: NcclTest) -> str:
    """The number of wrong values, with their sizes, as text: "12 wrong values at 64 MiB"; empty if none."""
    by_size: dict[int, int] = {}
    for row in test.rows:
        if wrong := sum(half.wrong or 0 for half in (row.out_of_place, row.in_place) if half):
            by_size[row.size] = by_size.get(row.size, 0) + wrong
    if not by_size:
        return ""
    count, sizes = sum(by_size.values()), list(by_size)
    more = f" and {len(sizes) - 1} more size{'s' if len(sizes) > 2 else ''}" if len(sizes) > 1 else ""
    return f"{count:,} wrong value{'s' if count > 1 else ''} at {_format_size(sizes[0])}{more}"


def _format_size(size: int) -> str:
    for bits, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if size >= 1 << bits:
            return f"{size / (1 << bits):.4g} {unit}"
    return f"{size} B"


def judge_test(test: NcclTest, pass_line: float = PASS_LINE, accelerator: str = "") -> NcclVerdict:
    """The verdict on a test: wrong values always fail it; "measured" is all if no reference applies."""
    if wrong := describe_wrong_values(test):
        return NcclVerdict(NcclResult.FAILED, wrong)
    if test.error or test.ok is False:
        return NcclVerdict(NcclResult.FAILED, test.error or "the test itself says FAILED")
    if not test.finished:
        return NcclVerdict(NcclResult.RUNNING, "")
    if not is_all_reduce(test):
        return NcclVerdict(NcclResult.UNJUDGED, "the reference is for all_reduce")
    if not is_a4(accelerator):
        return NcclVerdict(NcclResult.UNJUDGED, f"the reference is for B200, not {accelerator}")
    if not is_comparable(test, accelerator):
        why = f"{test.ranks} ranks, and the reference is for {REFERENCE_RANKS} GPUs of two machines"
        return NcclVerdict(NcclResult.UNJUDGED, why)
    average = health_scan_average(test)
    if average is None:
        return NcclVerdict(NcclResult.UNJUDGED, "the pass line is about 2 to 8 GiB, and no such size was measured")
    sizes = sorted({row.size / _GIB for row in test.rows if 2 * _GIB <= row.size <= 8 * _GIB})
    measured = f"{sizes[0]:g}–{sizes[-1]:g} GiB average" if len(sizes) > 1 else f"{sizes[0]:g} GiB alone"
    words = f"{measured} {average:,.0f} GB/s is {'over' if average >= pass_line else 'under'} the pass line"
    return NcclVerdict(NcclResult.PASSED if average >= pass_line else NcclResult.FAILED, f"{words} of {pass_line:,.0f}")
