"""Real logs of other people, kept beside the checkout and not in it: what each holds is in its own index."""

from __future__ import annotations

from pathlib import Path

import pytest

from console.parsers.nccl import parse_nccl

CORPUS = Path(__file__).parents[4] / "shared" / "corpus" / "nccl"

# number of the file: rows of each test, last row's out-of-place and in-place GB/s, averages, failed checks, verdicts
EXPECTED: dict[
    str, tuple[list[int], tuple[float, float] | None, list[float | None], list[int | None], list[bool | None]]
] = {
    "19": ([8], (9.27, 9.24), [None], [None], [None]),
    "20": ([8], (0.01, 0.01), [None], [None], [None]),
    "21": ([8], (0.05, 0.05), [None], [None], [None]),
    "22": ([8], (0.57, 0.55), [None], [None], [None]),
    "23": ([3, 0], (192.43, 192.18), [179.465, None], [0, None], [True, None]),
    "24": ([8], (22.87, 22.80), [4.79995], [4], [False]),
    "25": ([7, 1], (0.0, 0.0), [3.02663, None], [108, None], [False, None]),
    "26": ([12, 12], (362.29, 361.76), [255.909, 255.731], [0, 0], [True, True]),
    "27": ([0], None, [None], [None], [False]),
    "28": ([0, 1], (0.0, 0.0), [9.09703, 0.0], [0, 0], [True, True]),
    "29": ([9, 0], (73.75, 112.34), [30.2993, None], [4, None], [False, None]),
    "30": ([2, 0], (406.76, 406.73), [273.886, None], [0, None], [True, None]),
    "31": ([5], (20.84, 24.21), [19.3738], [0], [True]),
    "32": ([3], (22.14, 22.46), [21.4033], [0], [True]),
    "33": ([7], (40.47, 41.61), [20.9533], [0], [True]),
    "34": ([31], (3.11, 3.12), [1.15327], [0], [True]),
    "35": ([1], (468.60, 468.62), [114.556], [None], [None]),
    "36": ([4], (28.51, 28.56), [10.4127], [0], [True]),
    "37": ([0], None, [None], [None], [False]),
    "38": ([7], (16.28, 16.28), [None], [None], [None]),
    "39": ([11], (316.55, 315.84), [102.138], [0], [True]),
    "40": ([1], (403.50, 403.77), [403.638], [0], [True]),
    "41": ([0, 0], None, [None, None], [0, 0], [True, True]),
    "42": ([3], (188.50, 187.63), [185.594], [0], [True]),
}


@pytest.fixture(scope="module")
def corpus() -> dict[str, Path]:
    if not CORPUS.is_dir():
        pytest.skip(
            f"the logs of other people are not beside this checkout ({CORPUS.name} not found in ../shared/corpus)"
        )
    return {path.name[:2]: path for path in CORPUS.glob("*.txt")}


def test_every_log_has_an_expectation(corpus: dict[str, Path]) -> None:
    assert sorted(corpus) == sorted(EXPECTED)


@pytest.mark.parametrize("number", EXPECTED)
def test_what_a_log_holds(number: str, corpus: dict[str, Path]) -> None:
    counts, last, averages, bounds, verdicts = EXPECTED[number]
    tests = parse_nccl(corpus[number].read_bytes())
    rows = [row for test in tests for row in test.rows]
    assert [len(test.rows) for test in tests] == counts
    ends = (rows[-1].out_of_place, rows[-1].in_place) if rows else None
    assert (ends and tuple(half.busbw for half in ends if half)) == last
    assert [test.avg_busbw for test in tests] == averages
    assert [test.out_of_bounds for test in tests] == bounds
    assert [test.ok for test in tests] == verdicts


def test_an_old_error_column_is_no_count(corpus: dict[str, Path]) -> None:
    for number in ("19", "20", "21", "22", "29", "31", "38"):
        rows = [row for test in parse_nccl(corpus[number].read_bytes()) for row in test.rows]
        assert all(half is not None and half.wrong is None for row in rows for half in (row.out_of_place, row.in_place))


def test_milliseconds_become_microseconds(corpus: dict[str, Path]) -> None:
    (test,) = parse_nccl(corpus["19"].read_bytes())
    assert test.rows[0].out_of_place is not None
    assert test.rows[0].out_of_place.time_us == pytest.approx(1628)
