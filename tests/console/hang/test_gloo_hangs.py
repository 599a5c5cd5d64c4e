"""Hangs of PyTorch 2.11's gloo with tensor, data and pipeline groups, recorded from 16 and from 64 processes.

tests/bench/gloo/gather.py recorded what the probe said in each "pod" of eight: real dumps, real stacks of py-spy.
"""

from __future__ import annotations

import tarfile
from pathlib import Path

import msgspec
import pytest

from console.hang.flight_recorder import Desync
from console.hang.stack_location import Activity
from tests.bench.gloo.judge import Gathered, inspect

FOLDER = Path(__file__).parents[2] / "fixtures" / "gloo"
KINDS = {
    "checkpoint": Desync.MISSED, "data": Desync.MISSED, "dead": Desync.NO_DUMP, "epoch": Desync.EPOCH,
    "order": Desync.ORDER, "shape": Desync.SHAPE, "skip": Desync.MISSED, "stop": Desync.NO_DUMP,
    "stage": None,  # gloo records no send and no receive: the stacks tell
}  # fmt: skip
WORDS = {
    "checkpoint": "it is in a checkpoint", "data": "it is in the data loader", "dead": "it has no process any more",
    "epoch": "never entered all_reduce #7 of the data group and wait in barrier #4 of the group of all ranks",
    "order": "is at broadcast #7 of the data group, where", "shape": "with 24, Float, where",
    "skip": "never entered all_reduce #7 of the data group and waits in all_reduce #4 of the group of all ranks",
    "stop": "it is stopped", "stage": "is in compile_kernel while",
}  # fmt: skip


def gathered(ranks: int, hang: str) -> Gathered:
    with tarfile.open(FOLDER / f"{ranks}-processes.tar.gz") as archive:
        member = archive.extractfile(f"{hang}.json")
        assert member is not None
        return msgspec.json.decode(member.read(), type=Gathered)


@pytest.mark.parametrize("ranks", [16, 64])
@pytest.mark.parametrize("hang", KINDS)
async def test_the_ranks_for_which_the_others_wait_are_named(hang: str, ranks: int) -> None:
    recorded = gathered(ranks, hang)
    report = await inspect(recorded)
    assert tuple(sorted(rank for group in report.suspects for rank in group.ranks)) == recorded.culprits
    assert (report.recorded.kind if report.recorded else None) == KINDS[hang]
    assert WORDS[hang] in report.short
    assert report.advice


@pytest.mark.parametrize("hang", ["data", "checkpoint", "dead", "stop"])
async def test_without_dumps_the_stacks_name_the_same_rank(hang: str) -> None:
    recorded = gathered(16, hang)
    for at, answer in enumerate(recorded.answers):
        said = msgspec.json.decode(answer)
        recorded.answers[at] = msgspec.Raw(msgspec.json.encode({**said, "recorder": []}))
    report = await inspect(recorded)
    assert report.recorded is None
    named = {rank for group in report.suspects for rank in group.ranks}
    assert recorded.victim in named
    (first,) = [each for each in report.processes if each.rank == recorded.victim]
    assert first.where.doing in {Activity.DATA, Activity.CHECKPOINT, Activity.UNKNOWN}
