"""Hangs of PyTorch 2.11's gloo in 16 and in 64 processes, recorded by tests/bench/ranks/gather.py: dumps and stacks."""

import tarfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import structs

from console.hang import inspector
from rankscope import Activity, Desync, format_report
from tests.bench.ranks.judge import Gathered, inspect


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """What NCCL says the second time is recorded as well."""
    monkeypatch.setattr(inspector, "RAS_PAUSE", 0.0)


FOLDER = Path(__file__).parents[2] / "fixtures" / "gloo"
RECORDED_OF_NCCL = FOLDER.parent / "h100" / "hangs.tar.gz"
RECORDED_OF_TWO_GPUS = FOLDER.parent / "h200" / "hangs.tar.gz"
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


A_POD = 8


def enlarge(recorded: Gathered, times: int) -> Gathered:
    """The same hang in so many times the ranks: more data-parallel replicas, which say what those say that are well."""
    tp, old = recorded.tp, recorded.ranks // recorded.tp // recorded.pp
    new, ill = old * times, recorded.victim // recorded.tp % old

    def place(rank: int, replica: int, replicas: int = new) -> int:
        return rank // (tp * old) * tp * replicas + replica * tp + rank % tp

    def copy_dump(dump: dict[str, Any], rank: int, replica: int) -> dict[str, Any]:
        groups = {}
        for name, group in dump.get("groups", {}).items():
            spans = len({each // tp % old for each in group["ranks"]}) > 1
            ranks = {place(each, at) for each in group["ranks"] for at in (range(new) if spans else (replica,))}
            groups[name] = {**group, "ranks": sorted(ranks)}
        return {**dump, "rank": rank, "groups": groups}

    answers = [msgspec.json.decode(each) for each in recorded.answers]
    said = {each["rank"]: each for answer in answers for each in answer["processes"]}
    told = {each["rank"]: each for answer in answers for each in answer["recorder"]}
    made = [{**answers[0], "processes": [], "recorder": []} for _ in range(recorded.ranks * times // A_POD)]
    for replica in range(new):
        source = replica if replica < old else next(at for at in range(replica % old, replica + old) if at % old != ill)
        for first in range(0, recorded.ranks, tp * old):
            for number in range(tp):
                rank, like = place(first + number, replica), place(first + number, source % old, old)
                pod = made[rank // A_POD]
                pod["processes"] += [{**said[like], "rank": rank, "local_rank": rank % A_POD}] if like in said else []
                pod["recorder"] += [copy_dump(told[like], rank, replica)] if like in told else []
    victim = place(recorded.victim, ill)
    raw = [msgspec.Raw(msgspec.json.encode(each)) for each in made]
    return structs.replace(recorded, ranks=recorded.ranks * times, victim=victim, answers=raw)


@pytest.mark.parametrize(
    ("hang", "ranks"),
    [
        pytest.param("epoch", 1024, marks=pytest.mark.slow(reason="answers of 1,024 ranks")),
        *((hang, 256) for hang in KINDS),
    ],
)
async def test_many_ranks_have_the_verdict_of_64(hang: str, ranks: int) -> None:
    recorded = gathered(hang, FOLDER / "64-processes.tar.gz")
    large = enlarge(recorded, ranks // 64)
    assert len({bytes(each) for each in large.answers}) == ranks // A_POD
    few, many = await inspect(recorded), await inspect(large)
    assert (many.recorded.kind if many.recorded else None) == KINDS[hang]
    assert tuple(sorted(rank for group in many.suspects for rank in group.ranks)) == large.culprits
    assert WORDS[hang] in many.short
    assert many.advice == few.advice
    assert bool(many.spared) == bool(few.spared)


NCCL = {
    "checkpoint": "never sent to rank 3 (recv #9 of the pipeline group); it is in a checkpoint",
    "data": "never sent to rank 4 (recv #7 of the pipeline group); it is in the data loader",
    "dead": "has no process any more", "epoch": "all_reduce_barrier #4 of the group of all ranks",
    "gpu": "launched all_reduce #7 of the data group, but its GPU has not come to it",
    "lock": "it is in read_configuration", "order": "reported Invalid usage in NCCL",
    "shape": "is at all_reduce #7 of the data group with 6291456, Float, where 2 others are at it with 4194304, Float",
    "skip": "never entered all_reduce #7 of the data group and waits in all_reduce #4 of the group of all ranks",
    "stage": "it is in compile_kernel", "stop": "it is stopped", "teardown": "is in wait while",
}  # fmt: skip


@pytest.mark.parametrize("hang", NCCL)
async def test_hangs_of_nccl_are_reported_by_what_their_hosts_launched_and_their_gpus_began(hang: str) -> None:
    recorded = gathered(hang, RECORDED_OF_NCCL)
    report = await inspect(recorded)
    assert tuple(sorted(rank for group in report.suspects for rank in group.ranks)) == recorded.culprits
    assert NCCL[hang] in report.short


@pytest.mark.parametrize("hang", ["skip", "order"])
async def test_of_two_ranks_that_wait_for_each_other_the_odd_one_is_named(hang: str) -> None:
    """Two ranks in all: the host of one has launched what the other is in, and not the other way round."""
    recorded = gathered(hang, RECORDED_OF_TWO_GPUS)
    report = await inspect(recorded)
    assert tuple(sorted(rank for group in report.suspects for rank in group.ranks)) == recorded.culprits == (1,)
    assert NCCL[hang] in report.short


FRAMEWORKS = FOLDER.parent / "h200" / "frameworks_hangs.tar.gz"
WHERE = {
    "forward": "in load_expert", "backward": "in backward", "optimizer": "in offload_states",
    "data": "in the data loader", "checkpoint": "in a checkpoint", "lock": "in read_configuration",
    "dead": "has no process any more", "stop": "is stopped", "init": "",
    "epoch": "",  # that it has left the loop, or where the others wait for it
    "gpu": "but its GPU has not come to it", "teardown": "", "raised": "has status NOCOMM in NCCL",
}  # fmt: skip
UNTOLD = {
    "ddp-early": "3 ranks compute (an import)",  # asked before the others had come to their first collective
    "ddp-teardown": "2 ranks compute (step)",  # two others train on, one has raised an error; NCCL tells it later
}


OF_FRAMEWORKS = [(each, hang) for each in ("ddp", "fsdp", "megatron") for hang in WHERE if hang != "raised"]
OF_FRAMEWORKS += [("ddp", "early"), ("fsdp", "raised")]


@pytest.mark.parametrize(("framework", "hang"), OF_FRAMEWORKS)
async def test_hangs_of_frameworks_are_reported_and_no_innocent_is_named(framework: str, hang: str) -> None:
    recorded = gathered(name := f"{framework}-{hang}", FRAMEWORKS)
    report = await inspect(recorded)
    named = tuple(sorted(rank for group in report.suspects for rank in group.ranks))
    assert named == (recorded.culprits if name not in UNTOLD else ())
    assert "does not end" not in report.short
    if name in UNTOLD:
        assert report.short == f"{UNTOLD[name]}: this is not a hang, unless it stays like this."
    else:
        assert WHERE[hang] in report.short


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
    assert report.ras.words == "NCCL says ERROR and INCOMPLETE: rank 1 on node-1 does not answer."


async def test_the_ranks_of_a_replica_that_left_its_loop_are_at_nccls_barrier() -> None:
    report = await inspect(gathered("epoch", RECORDED_OF_NCCL))
    assert report.recorded is not None
    assert report.recorded.kind is Desync.EPOCH
    assert "where 4 others are at all_reduce: not in the same loop" in report.short
    assert report.advice[0].startswith("End of the epoch: ")
    assert report.ras.words == (
        "NCCL says MISMATCH: ranks 1, 4 on 2 nodes have launched 3 Broadcast, the others 4; "
        "ranks 1, 4 on 2 nodes have launched 3 AllReduce, the others 4."
    )


async def test_the_lines_of_nccl_stand_below_their_communicator() -> None:
    lines = format_report(await inspect(gathered("skip", RECORDED_OF_NCCL)))
    at = lines.index("   #1-0 (d441ab03e0bd1da6), which numbers its 3 ranks from 0:")
    assert lines[at + 1] == "   ✗   2 ranks have launched up to operation 4"
    assert lines[at + 2].startswith("   ✗   Rank 1 has launched up to operation 3 -- GPU 0 ")


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
