"""The launchers as they ran on real GPUs, recorded (tests/fixtures/h200/README.md says how)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from screens.__main__ import main
from tests.parsing import StepState, parse_launcher_step
from trainlog import NcclParser, NcclTest

RECORDINGS = Path(__file__).parents[1] / "fixtures" / "h200"
PREPARED = ["libraries", "gpus", "ssh", "discovery", "order", "hostfile"]


def states(recording: str) -> list[tuple[str, StepState]]:
    """How each step of a recording ended."""
    told = (parse_launcher_step(line) for line in (RECORDINGS / recording).read_text().splitlines())
    return [(step.name, step.state) for step in told if step is not None and step.state is not StepState.RUNNING]


def table(recording: str) -> NcclTest:
    parser = NcclParser()
    parser.feed((RECORDINGS / recording).read_bytes())
    parser.close()
    (test,) = parser.tests
    return test


@pytest.mark.parametrize(
    ("recording", "recipe"),
    [
        ("nccl-all-reduce_2pods_0.txt", ["connectivity", "all-reduce"]),
        ("nccl-all-reduce_1pod.txt", ["connectivity", "all-reduce"]),
        ("ddp-smoke_2pods_0.txt", ["ddp"]),
        ("connectivity_2pods_0.txt", ["connectivity"]),
        ("nccl-one-pod.txt", ["all-reduce"]),
    ],
)
def test_every_step_of_index_0_is_done_on_real_gpus(recording: str, recipe: list[str]) -> None:
    assert states(recording) == [(name, StepState.DONE) for name in [*PREPARED, *recipe]]
    assert (RECORDINGS / recording).read_text().rstrip().endswith("ended with exit code 0")


def test_index_1_serves_the_test_and_ends_as_it_did() -> None:
    text = (RECORDINGS / "nccl-all-reduce_2pods_1.txt").read_text()
    assert states("nccl-all-reduce_2pods_1.txt")[3:] == [(name, StepState.SKIPPED) for name in PREPARED[3:]]
    assert text.endswith("waiting for index 0\nnccl-all-reduce ended with exit code 0\n")


def test_mpirun_reaches_every_gpu_of_both_pods() -> None:
    names = (RECORDINGS / "connectivity_2pods_0.txt").read_text().splitlines()
    assert sorted(name for name in names if name in {"anna-test-workload-0-0", "anna-test-workload-0-1"}) == [
        "anna-test-workload-0-0", "anna-test-workload-0-0", "anna-test-workload-0-1", "anna-test-workload-0-1",
    ]  # fmt: skip


def test_the_tables_are_those_of_the_recipe() -> None:
    two, one = table("nccl-all-reduce_2pods_0.txt"), table("nccl-all-reduce_1pod.txt")
    assert (two.ranks, two.avg_busbw, [row.size for row in two.rows]) == (4, 3.96326, [2**n for n in range(21, 31)])
    assert (one.ranks, one.avg_busbw, [row.size for row in one.rows]) == (4, 285.919, [2**n for n in range(21, 35)])
    assert two.out_of_bounds == one.out_of_bounds == 0


def test_ddp_sums_over_the_gpus_of_both_pods() -> None:
    assert "expected sum 6.0, actual sum 6.0: PASSED on 4 GPUs" in (RECORDINGS / "ddp-smoke_2pods_0.txt").read_text()
    assert "[rank 3/4] local rank 1 device cuda:1 NVIDIA H200" in (RECORDINGS / "ddp-smoke_2pods_1.txt").read_text()


@pytest.mark.parametrize("recording", ["all_gather_piped", "train_ddp_piped"])
def test_a_file_reads_as_the_living_pipe_did(recording: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["read", "--json", str(RECORDINGS / f"{recording}.txt")]) == 0
    recorded = json.loads((RECORDINGS / f"{recording}.json").read_text())
    found = json.loads(capsys.readouterr().out)
    assert {name: found[name] for name in recorded} == recorded
