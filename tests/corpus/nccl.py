"""Tables of nccl-tests as other people posted them: `nccl/` and `more/n*`."""

from pathlib import Path
from typing import NamedTuple

from tests.corpus.verdict import Case, judge
from trainlog import parse_nccl


class Log(NamedTuple):
    """What stands in one log: an entry for each test, and the last row's GB/s out of place and in place."""

    rows: list[int]
    last: tuple[float, float] | None
    averages: list[float | None]
    failed_checks: list[int | None]
    passed: list[bool | None]


# beginning of the file's name: what it holds
LOGS = {
    "19": Log([8], (9.27, 9.24), [None], [None], [None]),
    "20": Log([8], (0.01, 0.01), [None], [None], [None]),
    "21": Log([8], (0.05, 0.05), [None], [None], [None]),
    "22": Log([8], (0.57, 0.55), [None], [None], [None]),
    "23": Log([3, 0], (192.43, 192.18), [179.465, None], [0, None], [True, None]),
    "24": Log([8], (22.87, 22.80), [4.79995], [4], [False]),
    "25": Log([7, 1], (0.0, 0.0), [3.02663, None], [108, None], [False, None]),
    "26": Log([12, 12], (362.29, 361.76), [255.909, 255.731], [0, 0], [True, True]),
    "27": Log([0], None, [None], [None], [False]),
    "28": Log([0, 1], (0.0, 0.0), [9.09703, 0.0], [0, 0], [None, True]),
    "29": Log([9, 0], (73.75, 112.34), [30.2993, None], [4, None], [False, None]),
    "30": Log([2, 0], (406.76, 406.73), [273.886, None], [0, None], [True, None]),
    "31": Log([5], (20.84, 24.21), [19.3738], [0], [True]),
    "32": Log([3], (22.14, 22.46), [21.4033], [0], [True]),
    "33": Log([7], (40.47, 41.61), [20.9533], [0], [True]),
    "34": Log([31], (3.11, 3.12), [1.15327], [0], [True]),
    "35": Log([1], (468.60, 468.62), [114.556], [None], [None]),
    "36": Log([4], (28.51, 28.56), [10.4127], [0], [True]),
    "37": Log([0], None, [None], [None], [False]),
    "38": Log([7], (16.28, 16.28), [None], [None], [None]),
    "39": Log([11], (316.55, 315.84), [102.138], [0], [True]),
    "40": Log([1], (403.50, 403.77), [403.638], [0], [True]),
    "41": Log([0, 0], None, [None, None], [0, 0], [None, None]),
    "42": Log([3], (188.50, 187.63), [185.594], [0], [True]),
    "n01": Log([5, 0], (834.57, 846.82), [745.53, None], [0, None], [True, None]),
    "n03": Log([3], (0.0, 0.0), [0.0], [0], [True]),
    "n05": Log([8], (0.02, 0.02), [None], [None], [None]),
    "n07": Log([0], None, [None], [None], [None]),
    "n09": Log([1, 1], (5.82, 5.81), [None, None], [None, None], [None, None]),
    "n11": Log([0, 3], (0.0, 0.0), [92.3405, None], [0, None], [None, None]),
    "n13": Log([0], None, [None], [None], [False]),
    "n15": Log([], None, [], [], []),
    "n17": Log([0], None, [None], [None], [None]),
}
HEADS = {
    "n01": [(72, None), (144, None)],
    "n03": [(1, None)],
    "n07": [(9, "all_reduce_perf")],
    "n17": [(8, "all_reduce_perf")],
}
"""Ranks and program of each test, of logs in which something is wrong with their heads."""
NO_COUNTS = frozenset({"19", "20", "21", "22", "29", "31", "38"})
"""Logs whose column beside the bandwidths is a relative error or a difference and no number of wrong values."""
FIRST_TIME_US = {"19": 1628.0}
"""NCCL 1.x printed milliseconds."""


def cases(folder: Path) -> list[Case]:
    """A case for each log of the table above, or that is there without being in it."""
    every = [*sorted((folder / "nccl").glob("*.txt")), *sorted((folder / "more").glob("n*.txt"))]
    paths = {path.name.partition("-")[0]: path for path in every}
    return [_case(number, paths.get(number), LOGS.get(number)) for number in sorted({*paths, *LOGS})]


def _case(number: str, path: Path | None, log: Log | None) -> Case:
    if path is None or log is None:
        return judge(number, {"file": "there, and in the table of this module"}, {}, understood=False)
    tests = parse_nccl(path.read_bytes())
    rows = [row for test in tests for row in test.rows]
    halves = [half for row in rows for half in (row.out_of_place, row.in_place) if half is not None]
    read: dict[str, object] = {
        "rows": [len(test.rows) for test in tests],
        "last": tuple(half.busbw for half in halves[-2:]),
        "averages": [test.avg_busbw for test in tests],
        "failed_checks": [test.out_of_bounds for test in tests],
        "passed": [test.ok for test in tests],
        "counts": sum(half.wrong is not None for half in halves),
        "first time": halves[0].time_us if halves else None,
    }
    wanted: dict[str, object] = dict(log._asdict()) | {"last": log.last or ()}
    if number in NO_COUNTS:
        wanted["counts"] = 0
    if number in FIRST_TIME_US:
        wanted["first time"] = FIRST_TIME_US[number]
    if number in HEADS:
        wanted["heads"], read["heads"] = HEADS[number], [(test.ranks, test.program) for test in tests]
    return judge(path.name, wanted, read, understood=bool(tests))
