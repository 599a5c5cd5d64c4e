"""Hangs of PyTorch 2.11's gloo with tensor, data and pipeline groups, recorded from 16 and from 64 processes.

tests/bench/ranks/gather.py recorded what the probe said in each "pod" of eight: real dumps, real stacks of py-spy.
"""

from __future__ import annotations

import tarfile
from pathlib import Path

import msgspec
import pytest

from console.hang.flight_recorder import Desync
from console.hang.stack_location import Activity
from tests.bench.ranks.judge import Gathered, inspect

FOLDER = Path(__file__).parents[2] / "fixtures" / "gloo"
RECORDED_OF_NCCL = FOLDER.parent / "h100" / "hangs.tar.gz"
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


def gathered(hang: str, recorded: Path) -> Gathered:
    with tarfile.open(recorded) as archive:
        member = archive.extractfile(f"{hang}.json")
        assert member is not None
        return msgspec.json.decode(member.read(), type=Gathered)


@pytest.mark.parametrize("ranks", [16, 64])
@pytest.mark.parametrize("hang", KINDS)
async def test_the_ranks_for_which_the_others_wait_are_named(hang: str, ranks: int) -> None:
    recorded = gathered(hang, FOLDER / f"{ranks}-processes.tar.gz")
    report = await inspect(recorded)
    assert tuple(sorted(rank for group in report.suspects for rank in group.ranks)) == recorded.culprits
    assert (report.recorded.kind if report.recorded else None) == KINDS[hang]
    assert WORDS[hang] in report.short
    assert report.advice


NCCL = {
    "checkpoint": "never sent to rank 3 (recv #9 of the pipeline group); it is in a checkpoint",
    "data": "never sent to rank 4 (recv #7 of the pipeline group); it is in the data loader",
    "dead": "has no process any more", "epoch": "all_reduce_barrier #4 of the group of all ranks",
    "gpu": "launched all_reduce #7 of the data group, but its GPU has not come to it",
    "lock": "it is in read_configuration", "order": "stays behind in NCCL",
    "skip": "never entered all_reduce #7 of the data group and waits in all_reduce #4 of the group of all ranks",
    "stage": "it is in compile_kernel", "stop": "it is stopped", "teardown": "is in wait while",
}  # fmt: skip


@pytest.mark.parametrize("hang", NCCL)
async def test_hangs_of_nccl_are_told_by_what_their_hosts_launched_and_their_gpus_began(hang: str) -> None:
    recorded = gathered(hang, RECORDED_OF_NCCL)
    report = await inspect(recorded)
    assert tuple(sorted(rank for group in report.suspects for rank in group.ranks)) == recorded.culprits
    assert NCCL[hang] in report.short


EVERY = [(FOLDER / f"{ranks}-processes.tar.gz", hang) for ranks in (16, 64) for hang in KINDS]
EVERY += [(RECORDED_OF_NCCL, hang) for hang in NCCL]


@pytest.mark.parametrize(("archive", "hang"), EVERY, ids=[f"{place.name[:2]} {hang}" for place, hang in EVERY])
async def test_stacks_of_the_suspects_alone_lead_to_the_same_verdict(archive: Path, hang: str) -> None:
    whole = await inspect(gathered(hang, archive), all_stacks=True)
    report = await inspect(gathered(hang, archive))
    named = {rank for group in report.suspects for rank in group.ranks}
    assert named == {rank for group in whole.suspects for rank in group.ranks}
    assert (report.short, report.recorded) == (whole.short, whole.recorded)
    assert not named & set(report.spared)
    if hang in {"data", "checkpoint", "order", "shape", "lock"} and report.recorded:
        others = {each.rank for each in report.processes if each.pid} - set(report.recorded.ranks)
        assert set(report.spared) == others, "where the recorder names ranks nobody else is halted by py-spy"


@pytest.mark.parametrize("hang", NCCL)
async def test_without_dumps_nccl_and_the_stacks_of_the_suspects_name_whom_all_stacks_name(hang: str) -> None:
    def recorded() -> Gathered:
        found = gathered(hang, RECORDED_OF_NCCL)
        found.answers = [
            msgspec.Raw(msgspec.json.encode({**msgspec.json.decode(each), "recorder": []})) for each in found.answers
        ]
        return found

    whole, report = await inspect(recorded(), all_stacks=True), await inspect(recorded())
    named = {rank for group in report.suspects for rank in group.ranks}
    assert named == {rank for group in whole.suspects for rank in group.ranks}
    assert not named & set(report.spared)


async def test_nccl_numbers_ranks_in_each_communicator_and_the_report_in_the_job() -> None:
    report = await inspect(gathered("order", RECORDED_OF_NCCL))
    assert [(each.rank, each.error) for each in report.ras.odd if each.error] == [(1, "reported Invalid usage")]
    assert "rank 1 on node-1 reported Invalid usage" in report.ras.words
    report = await inspect(gathered("dead", RECORDED_OF_NCCL))
    assert not any("Remote" in each.error for each in report.ras.odd), "they only tell that another one is gone"


@pytest.mark.parametrize("hang", ["data", "checkpoint", "dead", "stop"])
async def test_without_dumps_the_stacks_name_the_same_rank(hang: str) -> None:
    recorded = gathered(hang, FOLDER / "16-processes.tar.gz")
    for at, answer in enumerate(recorded.answers):
        said = msgspec.json.decode(answer)
        recorded.answers[at] = msgspec.Raw(msgspec.json.encode({**said, "recorder": []}))
    report = await inspect(recorded)
    assert report.recorded is None
    named = {rank for group in report.suspects for rank in group.ranks}
    assert recorded.victim in named
    (first,) = [each for each in report.processes if each.rank == recorded.victim]
    assert first.where.doing in {Activity.DATA, Activity.CHECKPOINT, Activity.UNKNOWN}
