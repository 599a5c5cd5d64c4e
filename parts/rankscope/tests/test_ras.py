"""The verbose status of NCCL RAS 2.28.9, as jobs of two H200 printed it while they hung; each rank saw one GPU."""

from pathlib import Path

import pytest

from rankscope.nccl_ras import RasReport, parse_ras

HEAD = "NCCL version 2.28.9 compiled with CUDA 13.0\n"


def reported(errors: str, *lines: str) -> RasReport:
    table = f"    0         1         1         2         2         2   RUNNING  {errors}\n"
    return parse_ras(HEAD + table + "\n".join(lines))


def test_of_two_ranks_the_one_that_launched_less_is_behind() -> None:
    report = reported(
        "MISMATCH",
        "#0-0 (f88fdb8ee61df694) MISMATCH",
        "  Communicator ranks have different AllReduce operation counts",
        "  Rank 0 has launched up to operation 12 -- GPU 0 managed by process 6 on node 127.0.0.1",
        "  Rank 1 has launched up to operation 10 -- GPU 0 (NVML 1) managed by process 5 on node 127.0.0.1",
    )
    assert [(each.rank, each.operations, each.pid, each.gpu) for each in report.odd] == [(1, 10, 5, 0)]
    assert report.words == "NCCL says MISMATCH: rank 1 on 127.0.0.1 has launched 10 AllReduce, the others 12."


def test_several_ranks_at_one_operation_are_behind_and_not_missing() -> None:
    """As in the example of NVIDIA's guide, cut to three of six ranks."""
    report = reported(
        "MISMATCH",
        "#0-0 (27a079b828ff1a75) MISMATCH",
        "  Communicator ranks have different AllReduce operation counts",
        "  26 ranks have launched up to operation 6650",
        "  3 ranks have launched up to operation 6649",
        "  Rank 0 -- GPU 0 managed by process 483072 on node 172.16.64.210",
        "  Rank 2 -- GPU 2 managed by process 483074 on node 172.16.64.210",
        "  Rank 3 -- GPU 3 managed by process 483075 on node 172.16.64.210",
        "#0-1 (d0a6b78a5cf81fe3) INCOMPLETE",
        "  Missing communicator data from 1 rank",
        "  Rank 1 -- GPU 0 (NVML 1) managed by process 5 on node 127.0.0.1",
    )
    assert [(each.rank, each.operations, each.missing) for each in report.odd] == [
        (0, 6649, False), (2, 6649, False), (3, 6649, False), (1, None, True),
    ]  # fmt: skip
    assert (report.most, report.odd[1].pid, report.odd[1].collective) == (6650, 483074, "AllReduce")


def test_who_has_launched_more_than_most_is_not_behind() -> None:
    report = reported(
        "MISMATCH",
        "#0-0 (c454a3c31c8de38c) MISMATCH",
        "  Communicator ranks have different AllReduce operation counts",
        "  15 ranks have launched up to operation 4116",
        "  Rank 9 has launched up to operation 4117 -- GPU 1 managed by process 5 on node 127.0.0.1",
    )
    assert report.odd == ()
    assert report.words == "NCCL says MISMATCH: see its report."


def test_each_communicator_has_its_own_operation_up_to_which_most_have_launched() -> None:
    report = reported(
        "MISMATCH",
        "#0-0 (c454a3c31c8de38c) MISMATCH",
        "  Communicator ranks have different AllReduce operation counts",
        "  15 ranks have launched up to operation 4117",
        "  Rank 9 has launched up to operation 4116 -- GPU 1 managed by process 5 on node 127.0.0.1",
        "#1-5 (5e31a8b2c7f4202e) MISMATCH",
        "  Communicator ranks have different AllReduce operation counts",
        "  Rank 1 has launched up to operation 8234 -- GPU 5 managed by process 9 on node 127.0.0.1",
        "  Rank 0 has launched up to operation 8232 -- GPU 1 managed by process 5 on node 127.0.0.1",
    )
    assert [(each.rank, each.operations, each.others) for each in report.odd] == [(9, 4116, 4117), (0, 8232, 8234)]
    assert report.most == 4117
    assert "rank 9 on 127.0.0.1 has launched 4,116 AllReduce, the others 4,117; rank 0 " in report.words
    assert report.words.endswith("has launched 8,232 AllReduce, the others 8,234.")


def test_a_rank_that_has_launched_nothing_yet_is_behind() -> None:
    report = reported(
        "MISMATCH",
        "  Communicator ranks have different AllReduce operation counts",
        "  7 ranks have launched up to operation 3",
        "  Rank 1 has not launched any operations -- GPU 1 managed by process 5 on node 127.0.0.1",
    )
    assert [(each.rank, each.operations, each.pid) for each in report.odd] == [(1, 0, 5)]


def test_a_process_that_does_not_answer_is_reported_once_by_its_rank() -> None:
    report = reported(
        "INCOMPLETE",
        "INCOMPLETE",
        "  Missing communicator data from 1 job process",
        "  Process 5 on node 127.0.0.1 managing GPU 0 (NVML 1)",
        "#0-0 (d0a6b78a5cf81fe3) INCOMPLETE",
        "  Missing communicator data from 1 rank",
        "  Rank 1 -- GPU 0 (NVML 1) managed by process 5 on node 127.0.0.1",
    )
    assert report.words == "NCCL says INCOMPLETE: rank 1 on 127.0.0.1 does not answer."


def test_a_killed_rank_leaves_two_errors() -> None:
    report = reported(
        "INCOMPLETE,ERROR",
        "  Process 3 on node 127.0.0.1 managing GPU 0 (NVML 1)",
        "  Rank 1 -- GPU 0 (NVML 1) managed by process 3 on node 127.0.0.1",
        "#0-0 (efa8f4d850ff9868) ERROR",
        "  Asynchronous error on 1 rank",
        "  Rank 0 reported Remote process error -- GPU 0 managed by process 3 on node 127.0.0.1",
    )
    assert report.groups[0].errors == "INCOMPLETE,ERROR"
    assert report.words == "NCCL says ERROR and INCOMPLETE: rank 1 on 127.0.0.1 does not answer."


def test_the_example_of_the_readme_runs(capsys: pytest.CaptureFixture[str]) -> None:
    for block in (Path(__file__).parents[1] / "README.md").read_text().split("```python\n")[1:]:
        exec(block.partition("```")[0], {})
    assert (
        capsys.readouterr().out == "NCCL says MISMATCH: rank 1 on 10.0.0.2 has launched 10 AllReduce, the others 12.\n"
    )
