"""For whom the others wait, as torchrun jobs on two H200 hung; what py-spy and NCCL RAS then said is in the tests."""

from __future__ import annotations

import pytest

from console.models.hang import HangReport, Traced
from console.models.ras import RasRank, RasReport
from console.models.stack import Frame
from console.models.whereabouts import NOWHERE, Doing, Whereabouts

ITEM = Whereabouts(Doing.COMPUTE, "train_step", Frame("train_step", "stuck.py", 34))
"""`return loss.item()`, which waits for the GPU: py-spy calls the thread active."""
BACKWARD = Whereabouts(Doing.COMPUTE, "backward", Frame("_engine_run_backward", "torch/autograd/graph.py", 869))
DATA = Whereabouts(Doing.DATA, "data loader", Frame("train_step", "stuck.py", 30))
SLEEP = Whereabouts(Doing.WAIT, "<module>", Frame("<module>", "stuck.py", 38))
BUSY = Whereabouts(Doing.COMPUTE, "<module>", Frame("<module>", "stuck.py", 40))
RECV = Whereabouts(Doing.COLLECTIVE, "irecv", Frame("irecv", "torch/distributed/distributed_c10d.py", 2600))
BARRIER = Whereabouts(Doing.COLLECTIVE, "barrier", Frame("barrier", "torch/distributed/distributed_c10d.py", 4900))
CHECKPOINT = Whereabouts(Doing.CHECKPOINT, "a checkpoint", Frame("save_checkpoint", "stuck.py", 28))


def said(*places: Whereabouts, behind: tuple[int, ...] = (), state: str = "S", pid: int | None = 5) -> HangReport:
    """A report of one rank at each of these places; state and process are of those without a stack."""
    processes = tuple(
        Traced(at, at, f"pod-{at}", f"node-{at}", pid if where is NOWHERE else 5, state=state, where=where)
        for at, where in enumerate(places)
    )
    ras = RasReport("2.28.9", odd=tuple(RasRank(rank, 10, "AllReduce") for rank in behind), most=12)
    return HangReport("hung", (), processes, ras if behind else RasReport())


@pytest.mark.parametrize("behind", [(), (1,)])
@pytest.mark.parametrize("where", [DATA, SLEEP])
def test_a_rank_that_waits_for_something_of_its_own(where: Whereabouts, behind: tuple[int, ...]) -> None:
    report = said(ITEM, where, behind=behind)
    assert [group.ranks for group in report.suspects] == [(1,)]
    assert report.verdict[0].endswith("while 1 other is in train_step.")


def test_nccl_names_whom_stacks_do_not() -> None:
    for other in (BUSY, RECV):
        assert [group.ranks for group in said(ITEM, other, behind=(1,)).suspects] == [(1,)]
    assert not said(ITEM, BUSY).suspects
    assert [group.ranks for group in said(CHECKPOINT, BARRIER, behind=(0,)).suspects] == [(0,)]


def test_nccl_does_not_acquit_who_is_in_a_data_loader() -> None:
    assert [group.ranks for group in said(DATA, RECV, behind=(1,)).suspects] == [(0,)]


def test_gloo_waits_in_backward() -> None:
    report = said(BACKWARD, BACKWARD, DATA, BACKWARD)
    assert report.short == "Rank 2 is in the data loader while 3 others are in backward."


def test_one_of_many_that_computes_elsewhere_stands_out() -> None:
    assert [group.ranks for group in said(*[ITEM] * 7, BUSY).suspects] == [(7,)]


def test_many_at_different_lines_do_not_wait() -> None:
    lines = [Whereabouts(Doing.COMPUTE, "train_step", Frame("train_step", "stuck.py", at)) for at in range(7)]
    assert not said(*lines, DATA, behind=(7,)).suspects


def test_a_rank_that_is_stopped_or_gone() -> None:
    assert said(ITEM, NOWHERE, state="T").short == "Rank 1 is stopped while 1 other is in train_step."
    assert said(ITEM, NOWHERE, pid=None).short == "Rank 1 has no process any more while 1 other is in train_step."
    assert not said(ITEM, NOWHERE).suspects, "py-spy may have failed on one that works"
