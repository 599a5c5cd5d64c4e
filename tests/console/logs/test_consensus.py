import pytest

from console.logs.job_log import Gap
from console.logs.log_line import PodLine
from console.logs.merged_text import CommonLineFinder, normalize_line
from trainlog import detect_level


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("[rank0]: ready on 10.0.0.1:29500", "[rank17]: ready on 10.0.3.4:29500"),
        ("2026-11-21 12:00:01,123 rank 3: step 7", "2026-11-21 12:00:02,999 rank 12: step 7"),
        ("gke-a:12:34 [0] NCCL INFO ok", "gke-b:99:88 [7] NCCL INFO ok"),
        ("pid 12 uses cuda:0 at 0x7fab", "pid 99 uses cuda:5 at 0xdead"),
    ],
)
def test_what_is_a_ranks_own_does_not_count(one: str, other: str) -> None:
    assert normalize_line(one) == normalize_line(other)


def test_steps_and_losses_count() -> None:
    assert normalize_line("step 7 loss 2.1") != normalize_line("step 8 loss 2.1")
    assert normalize_line("hello job-0-1", "job-0-1") == normalize_line("hello job-0-2", "job-0-2")


def test_equal_lines_are_one_and_who_is_missing_is_named() -> None:
    consensus = CommonLineFinder()
    consensus.add(PodLine(rank, 10.0 + rank, f"[rank{rank}] step 1") for rank in range(128) if rank != 41)
    consensus.add([PodLine(3, 200.0, "RuntimeError: broken")])
    first, odd = consensus.lines
    assert first.ranks_text(128) == "127/128 (all but 41)"
    assert first.is_not_from_all(128)
    assert odd.ranks_text(128) == "pod 3"
    consensus.add([PodLine(41, 250.0, "[rank41] step 1")])
    assert first.ranks_text(128) == "128/128"
    assert not first.is_not_from_all(128)


def test_pods_whose_lines_of_that_time_were_not_read_do_not_count() -> None:
    consensus = CommonLineFinder()
    consensus.add(PodLine(rank, 1000.0, "step 1 libraries: run") for rank in range(7))
    consensus.add(PodLine(rank, 5000.0, "iteration 9") for rank in range(8) if rank != 3)
    early, late = consensus.lines
    head = [Gap(7, 0.0, 2000.0)]
    assert (early.ranks_text(8, head), early.is_not_from_all(8, head)) == ("7/7 (7 not read)", False)
    assert (late.ranks_text(8, head), late.is_not_from_all(8, head)) == ("7/8 (all but 3)", True)
    assert late.ranks_text(8, [Gap(3, 4000.0, float("inf"))]) == "7/7 (3 not read)"
    assert early.ranks_text(8, [*head, Gap(0, 0.0, 2000.0)]) == "7/7 (7 not read)", "pod 0 printed it, so it was read"
    consensus.add([PodLine(2, 1000.5, "its own")])
    assert consensus.lines[-1].ranks_text(8, head) == "pod 2 (7 not read)"
    assert consensus.lines[-1].ranks_text(8) == "pod 2"


def test_few_pods_are_named_and_many_are_counted() -> None:
    consensus = CommonLineFinder()
    consensus.add(PodLine(rank, 1.0, "few") for rank in (1, 2, 9))
    consensus.add(PodLine(rank, 1.0, "many") for rank in range(0, 12, 2))
    consensus.add(PodLine(rank, 1.0, "most") for rank in range(2, 16))
    assert [line.ranks_text(16) for line in consensus.lines] == ["pods 1-2, 9", "6/16", "14/16 (all but 0-1)"]


def test_a_line_that_is_repeated_is_paired_in_turn() -> None:
    consensus = CommonLineFinder()
    for moment in range(3):
        consensus.add(PodLine(rank, float(moment), "tick") for rank in range(2))
    assert [line.ranks_text(2) for line in consensus.lines] == ["2/2"] * 3


def test_hours_apart_is_not_the_same() -> None:
    consensus = CommonLineFinder()
    consensus.add([PodLine(0, 0.0, "started"), PodLine(1, 7200.0, "started")])
    assert len(consensus.lines) == 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"RuntimeError: x", "error"), (b"Traceback (most recent call last):", "error"), (b"grad norm: nan |", "error"),
        (b"number of nan iterations:   0 |", "info"), (b"0 errors", "info"), (b"UserWarning: old", "info"),
        (b"warning: old", "warn"), (b"[DEBUG] x", "debug"), (b"NVRM: Xid (PCI:0000:01): 79", "error"), (b"", "info"),
    ],
)  # fmt: skip
def test_levels(text: bytes, expected: str) -> None:
    assert detect_level(text) == expected
