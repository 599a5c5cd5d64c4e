import pytest
from hypothesis import given, strategies as st

from trainlog.nccl.bandwidth_verdicts import (
    A4_ALL_REDUCE,
    PASS_LINE,
    RowRating,
    expected_busbw,
    health_scan_average,
    judge_row,
)
from trainlog.nccl.test_results import NcclHalf, NcclRow, NcclTest

MIB, GIB = 2**20, 2**30


def row(size: int, out: float | None, within: float | None = None, wrong: int | None = 0) -> NcclRow:
    return NcclRow(
        size, size // 4, "float", "sum", -1, NcclHalf(1.0, out, out, wrong), NcclHalf(1.0, within, within, wrong)
    )


@pytest.mark.parametrize(("size", "value"), A4_ALL_REDUCE)
def test_known_points_are_met(size: int, value: float) -> None:
    assert expected_busbw(size) == pytest.approx(value)


def test_between_points_the_curve_is_straight_over_the_logarithm() -> None:
    assert expected_busbw(128 * MIB) == pytest.approx((341 + 535) / 2)
    assert expected_busbw(16 * MIB) == pytest.approx(100 + 241 / 3)


def test_outside_the_curve() -> None:
    assert expected_busbw(4 * MIB) is None
    assert expected_busbw(16 * GIB) == 683.5


@given(st.integers(8 * MIB, 64 * GIB), st.integers(0, GIB))
def test_the_curve_never_falls(size: int, more: int) -> None:
    low, high = expected_busbw(size), expected_busbw(size + more)
    assert low is not None
    assert high is not None
    assert low <= high + 1e-9


@pytest.mark.parametrize(
    ("judged", "word"),
    [
        (row(512 * MIB, 594.0, 590.0), RowRating.GOOD),
        (row(512 * MIB, 100.0, 540.0), RowRating.GOOD),  # the better half is judged
        (row(512 * MIB, 450.0, 440.0), RowRating.FAIR),
        (row(512 * MIB, 250.0, None), RowRating.BELOW),
        (row(512 * MIB, None, None), RowRating.NONE),
        (row(512 * MIB, 600.0, 600.0, wrong=3), RowRating.WRONG),  # however fast
        (row(1024, 0.1, wrong=3), RowRating.WRONG),
        (row(512 * MIB, 600.0, 600.0, wrong=None), RowRating.GOOD),  # what is unchecked is not wrong
        (row(1024, 0.1), RowRating.NONE),
    ],
)
def test_a_row_is_judged(judged: NcclRow, word: RowRating) -> None:
    assert judge_row(judged).word is word


def test_the_scan_averages_large_sizes_only() -> None:
    test = NcclTest(
        rows=(row(GIB, 1.0, 1.0), row(2 * GIB, 240.0, 260.0), row(8 * GIB, 300.0, None), row(16 * GIB, 9.0, 9.0))
    )
    assert health_scan_average(test) == pytest.approx((240 + 260 + 300) / 3)
    assert health_scan_average(NcclTest(rows=(row(GIB, 1.0),))) is None
    assert PASS_LINE == 250.0
