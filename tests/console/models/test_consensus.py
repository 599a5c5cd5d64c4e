from __future__ import annotations

import pytest

from console.models.consensus import Consensus, normalised
from console.models.levels import level
from console.models.log import RankLine


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
    assert normalised(one) == normalised(other)


def test_steps_and_losses_count() -> None:
    assert normalised("step 7 loss 2.1") != normalised("step 8 loss 2.1")
    assert normalised("hello job-0-1", "job-0-1") == normalised("hello job-0-2", "job-0-2")


def test_equal_lines_are_one_and_who_is_missing_is_named() -> None:
    consensus = Consensus()
    consensus.add(RankLine(rank, 10.0 + rank, f"[rank{rank}] step 1") for rank in range(128) if rank != 41)
    consensus.add([RankLine(3, 200.0, "RuntimeError: broken")])
    first, odd = consensus.lines
    assert first.words(128) == "×127 of 128, not 41"
    assert first.dissents(128)
    assert odd.words(128) == "rank 3"
    consensus.add([RankLine(41, 250.0, "[rank41] step 1")])
    assert first.words(128) == "×128 of 128"
    assert not first.dissents(128)


def test_a_line_that_is_repeated_is_paired_in_turn() -> None:
    consensus = Consensus()
    for moment in range(3):
        consensus.add(RankLine(rank, float(moment), "tick") for rank in range(2))
    assert [line.words(2) for line in consensus.lines] == ["×2 of 2"] * 3


def test_hours_apart_is_not_the_same() -> None:
    consensus = Consensus()
    consensus.add([RankLine(0, 0.0, "started"), RankLine(1, 7200.0, "started")])
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
    assert level(text) == expected
