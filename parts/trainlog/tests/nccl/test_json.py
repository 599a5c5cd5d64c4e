"""The file that nccl-tests write with -J."""

import json
from typing import Any

from hypothesis import given, settings, strategies as st

from trainlog.log_results import LogResults
from trainlog.nccl.row_formats import parse_nccl_json
from trainlog.nccl.test_results import NcclHalf, NcclRow


def result(size: int, wrong: float | None = 0.0) -> dict[str, Any]:
    return {
        "size": size, "count": size // 4, "type": "float", "redop": "sum", "root": "    -1",
        "out_of_place": {"time": 34.65, "alg_bw": 30.26, "bus_bw": 52.96, "nwrong": wrong},
        "in_place": {"time": 34.35, "alg_bw": 30.52, "bus_bw": "nan", "nwrong": None},
        "actual_iterations": 20, "experiment_name": "x",
    }  # fmt: skip


WHOLE: dict[str, Any] = {
    "version": 3, "start_time": "2026-03-01 10:00:00", "args": ["./build/all_reduce_perf", "-b", "8"],
    "env": ['RESULTS="results"', "TOKEN=secret"], "nccl_version": 22902,
    "config": {"devices": [{"rank": 0}, {"rank": 1}]}, "results": [result(1024), result(2048)],
    "out_of_bounds": {"count": 0, "okay": "true"}, "average_bus_bandwidth": {"bandwidth": 52.96, "okay": "unchecked"},
    "end_time": "2026-03-01 10:01:00",
}  # fmt: skip
ROW = NcclRow(1024, 256, "float", "sum", -1, NcclHalf(34.65, 30.26, 52.96, 0), NcclHalf(34.35, 30.52, None, None))


def raw(**changes: Any) -> bytes:
    return json.dumps(WHOLE | changes).encode()


def test_a_whole_file() -> None:
    test = parse_nccl_json(raw())
    assert test is not None
    assert (test.program, test.ranks, test.avg_busbw, test.out_of_bounds) == ("all_reduce_perf", 2, 52.96, 0)
    assert (test.ok, test.finished, test.error) == (True, True, None)
    assert [row.size for row in test.rows] == [1024, 2048]
    assert test.rows[0] == ROW
    assert "secret" not in repr(test)


def test_what_a_test_of_two_gpus_in_one_process_wrote() -> None:
    """As nccl-tests 2.19.6 ended it on two H200: an empty error, and one device of each process."""
    alone = {"nthreads": 1, "ngpus": 2, "devices": [{"rank": 0, "group": 0, "pid": 4514, "device": 0}]}
    test = parse_nccl_json(raw(errors=[""], config=alone))
    assert test is not None
    assert (test.ok, test.finished, test.error, test.ranks) == (True, True, None, 2)


def test_failures() -> None:
    for changes in (
        {"out_of_bounds": {"count": 4, "okay": "false"}},
        {"results": [result(1024, 96.0)]},
        {"average_bus_bandwidth": {"bandwidth": 1.0, "okay": "false"}},
        {"errors": ["Test NCCL failure common.cu:392"]},
    ):
        test = parse_nccl_json(raw(**changes))
        assert test is not None
        assert test.ok is False


def test_a_test_that_was_killed() -> None:
    data = raw()
    cut = data.index(b'"out_of_bounds"')
    test = parse_nccl_json(data[: cut - 40])
    assert test is not None
    assert ([row.size for row in test.rows], test.finished, test.ok) == ([1024], False, None)


def test_the_reduction_that_is_absent() -> None:
    test = parse_nccl_json(raw(results=[result(8) | {"out_of_place": None, "redop": "none"}]))
    assert test is not None
    assert (test.rows[0].out_of_place, test.rows[0].redop) == (None, "none")


def test_it_is_found_in_a_file_that_is_read() -> None:
    reading = LogResults()
    data = raw()
    for at in range(0, len(data), 100):
        reading.feed(data[at : at + 100])
    assert reading.close()
    assert [len(test.rows) for test in reading.nccl] == [2]


def test_other_json_is_none() -> None:
    assert parse_nccl_json(b'{"loss": 1.5}\n{"loss": 1.4}\n') is None
    assert parse_nccl_json(b"[]") is None


@settings(deadline=None)
@given(st.integers(0, len(raw())), st.binary(max_size=30))
def test_no_bytes_break_it(cut: int, data: bytes) -> None:
    test = parse_nccl_json(raw()[:cut] + data + raw()[cut:])
    assert test is None or len(test.rows) <= 2
