"""How a program ended, by the end of its log: of the launchers, and of torchrun alone."""

import pytest

from console.logs.log_end import LogEnd, combine_ends, find_log_end
from console.logs.log_line import LogLine
from tests.fakes import present

KEPT = "; the pod is kept until the job is stopped"
CUDA = "CUDA error: an illegal memory access was encountered"
FAILED = (
    "step 9 train: run", "[rank8]: Traceback (most recent call last):", f"[rank8]: torch.AcceleratorError: {CUDA}",
    "step 9 train: failed with exit code 1",
)  # fmt: skip
REPORT = (
    "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ", "train.py FAILED", "-" * 60,
    "Root Cause (first observed failure):", "[0]:", "  time      : 2026-11-28_12:00:00", "  host      : pod-1",
    "  rank      : 9 (local_rank: 1)", "  exitcode  : 1 (pid: 77)", "  error_file: <N/A>", "=" * 60,
)  # fmt: skip


def lines(*texts: str) -> list[LogLine]:
    return [LogLine(100.0 + at, text) for at, text in enumerate(texts)]


@pytest.mark.parametrize(
    ("texts", "words", "kept"),
    [
        ((*FAILED, f"swift-dpo ended with exit code 1{KEPT}"),
         f"rank 8: AcceleratorError: {CUDA}; pod 1: stage 9 train, exit code 1", True),
        (("step 9 train: done in 3 s", f"swift-dpo ended with exit code 0{KEPT}"), "", True),
        ((f"own-script ended with exit code 3{KEPT}",), "pod 1: exit code 3", True),
        ((*FAILED, "swift-dpo ended with exit code 1"),
         f"rank 8: AcceleratorError: {CUDA}; pod 1: stage 9 train, exit code 1", False),
        # The last line of the output of an NCCL test is no reason.
        (("step 8 all-reduce: run", "  8 2 float sum -1 1.0 2.0 3.0 0", "#",
          "step 8 all-reduce: failed with exit code 1", "nccl-all-reduce ended with exit code 1"),
         "pod 1: stage 8 all-reduce, exit code 1", False),
    ],
)  # fmt: skip
def test_the_last_line_of_a_launcher_tells_how_it_ended(texts: tuple[str, ...], words: str, kept: bool) -> None:
    end = present(find_log_end(lines(*texts), 1))
    assert (end.words, end.kept, end.time) == (words, kept, 99.0 + len(texts))


@pytest.mark.parametrize(
    "texts",
    [
        ("step 9 train: run", "iteration 3"),
        (f"interactive has nothing to run{KEPT}",),
        (f"swift-dpo ended with exit code 1{KEPT}", "pod a-0, index 0 of 1, recipe swift-dpo", "step 1 libraries: run"),
        (f"a worker said: ended with exit code 1{KEPT}, or so",),
    ],
    ids=["goes on", "nothing to run", "begun again", "other words"],
)
def test_what_goes_on_has_no_end(texts: tuple[str, ...]) -> None:
    assert find_log_end(lines(*texts), 0, 1e9) is None


def test_a_report_of_torchrun_is_the_end_once_nothing_follows_it() -> None:
    log = lines("iteration 3", *REPORT)
    assert find_log_end(log, 0, log[-1].time + 10) is None
    end = present(find_log_end(log, 0, log[-1].time + 90))
    assert (end.code, end.kept, end.words) == (
        1,
        True,
        "rank 9 on pod-1: failed first, exit code 1 (torchrun); exit code 1",
    )


def test_a_job_ended_as_the_pod_that_failed_first() -> None:
    ends = [LogEnd(1, 30.0, 0), LogEnd(2, 20.0, 3), LogEnd(0, 10.0, 1)]
    assert combine_ends(ends) == LogEnd(2, 20.0, 3)
    assert combine_ends([]) is None
