"""Recordings with bytes changed, pieces lost and pieces of others between: read the same however they arrive."""

import time
from functools import partial
from pathlib import Path
from timeit import timeit

import pytest
from hypothesis import given, settings, strategies as st

from trainlog import parse_nccl, parse_training
from trainlog.nccl.parser import NcclParser
from trainlog.training.parser import TrainingParser
from trainlog.training.run_reader import RunReader
from trainlog.training.steps import Step

FIXTURES = Path(__file__).parent / "data"
DATA = Path(__file__).parents[3] / "practice" / "data"
RECORDINGS = [
    path.read_bytes()
    for path in sorted([*FIXTURES.glob("nccl_*.txt"), *DATA.glob("nccl_*.txt"), DATA / "train_ddp.txt"])
]
WORDS = [b"\n", b"\r", b" ", b"1e999", b"nan", b"9" * 400, b"\x1b[", b"\xff", b"|", b"'loss': ", b"#", b"float ", b":"]


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    pieces = []
    for _ in range(draw(st.integers(1, 4))):
        whole = draw(st.sampled_from(RECORDINGS))
        start = draw(st.integers(0, len(whole) - 1))
        piece = whole[start : start + draw(st.integers(1, 2000))]
        for _ in range(draw(st.integers(0, 5))):
            at = draw(st.integers(0, len(piece)))
            piece = piece[:at] + draw(st.sampled_from(WORDS)) + piece[at + draw(st.integers(0, 12)) :]
        pieces.append(piece)
    return b"".join(pieces)


@pytest.mark.slow(reason="many random examples")
@settings(deadline=None, max_examples=300)
@given(damaged(), st.lists(st.integers(0, 8000), max_size=20))
def test_damage_is_no_error_and_pieces_do_not_matter(data: bytes, cuts: list[int]) -> None:
    nccl, training, at = NcclParser(), TrainingParser(), 0
    for cut in [*sorted(cuts), len(data)]:
        nccl.feed(data[at:cut])
        training.feed(data[at:cut])
        at = cut
    nccl.close()
    training.close()
    assert nccl.tests == parse_nccl(data)
    assert repr(training.runs) == repr(parse_training(data))


def test_heads_of_tests_without_a_table_are_read_in_the_time_of_their_bytes() -> None:
    head = b"# nccl-tests version 2.19.6\n# Collective test starting: all_reduce_perf\n# nThread 1 nGpus 1 minBytes 8\n"
    took = [timeit(partial(NcclParser().feed, head * n), timer=time.process_time, number=1) for n in (2000, 8000)]
    assert took[1] < 8 * took[0]


def test_restarts_without_end_are_read_in_the_time_of_their_bytes() -> None:
    run, took, done = RunReader("nanogpt"), [], 0
    run.add_step(Step(step=0), "")
    for restarts in (10_000, 30_000):
        begun = time.process_time()
        for _ in range(restarts):
            run.add_step(Step(step=70), "")
            run.add_step(Step(step=80), "")
        took.append(time.process_time() - begun)
        done += restarts
    assert len(run.rewinds) == done - 1
    assert took[1] < 6 * took[0]
