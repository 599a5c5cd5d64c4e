"""Which rank the dumps of PyTorch's flight recorder name: groups of 64 and 1,024 ranks, and dumps that are damaged."""

import os
import pickle
import socket
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec import structs

from rankscope import probe
from rankscope.collective_history import Call
from rankscope.flight_recorder import (
    DESYNC_ADVICE,
    Desync,
    Finding,
    GroupRanks,
    Operation,
    RankDump,
    describe_dumps,
    describe_group,
    judge_dumps,
)
from rankscope.hang_report import HangReport, PodTrace, TracedProcess
from rankscope.report_texts import format_report
from rankscope.stack_location import Activity, StackLocation

TP, PP = 4, 4
"""Ranks of a tensor group, and pipeline stages: the ranks of a stage lie together, as Megatron has them."""
Dumps = dict[int, RankDump]


def dumps(world: int = 64) -> Dumps:
    """Of ranks that have ended 200 collectives in each of their groups and wait in none."""
    stage = world // PP
    found = {}
    for rank in range(world):
        first, in_stage = rank - rank % TP, rank - rank % stage
        groups = {
            "0": GroupRanks("default_pg", list(range(world))),
            f"t{first}": GroupRanks("TENSOR_MODEL_PARALLEL_GROUP", list(range(first, first + TP))),
            f"d{in_stage + rank % TP}": GroupRanks(
                "DATA_PARALLEL_GROUP", list(range(in_stage + rank % TP, in_stage + stage, TP))
            ),
            f"p{rank % stage}": GroupRanks("PIPELINE_MODEL_PARALLEL_GROUP", list(range(rank % stage, world, stage))),
        }
        done = [Operation(name, 200, "nccl:all_reduce", "completed") for name in groups]
        found[rank] = RankDump(rank, groups=groups, operations=done)
    return found


def group_of(every: Dumps, rank: int, letter: str) -> str:
    return next(name for name in every[rank].groups if name[0] == letter)


def enters(every: Dumps, ranks: Any, letter: str, op: str = "all_gather", **more: Any) -> None:
    """These ranks wait in operation 201 of that group of theirs."""
    for rank in ranks:
        name = f"nccl:{op}"
        every[rank].operations.append(Operation(group_of(every, rank, letter), 201, name, "started", **more))


def skipped(every: Dumps) -> None:
    """Rank 9 skips an all_gather of its tensor group 8-11; the data groups and all pipeline stages wait behind it."""
    enters(every, (8, 10, 11), "t")
    enters(every, set(every) - {8, 9, 10, 11}, "d", "all_reduce")


def in_another_order(every: Dumps) -> None:
    enters(every, (8, 10, 11), "t", "all_gather", frame="layer.py:10")
    enters(every, (9,), "t", "reduce_scatter", frame="layer.py:12")


def with_another_shape(every: Dumps) -> None:
    enters(every, (8, 10, 11), "t", "all_reduce", sizes="512x4096, BFloat16", frame="layer.py:10")
    enters(every, (9,), "t", "all_reduce", sizes="511x4096, BFloat16", frame="layer.py:10")


def another_loop(every: Dumps) -> None:
    enters(every, set(every) - {9}, "0", "all_reduce", frame="train.py:40")
    enters(every, (9,), "0", "barrier", frame="evaluate.py:7")


def stage_that_never_sends(every: Dumps) -> None:
    """Rank 0 of the first stage computes: 16 waits for it, and 32 and 48 for the stages before them."""
    for rank, before in ((16, 0), (32, 1), (48, 2)):
        enters(every, (rank,), "p", f"recv {before + 1}<-{before}", p2p=True)


def groups_crossed(every: Dumps) -> None:
    """Ranks 8 and 9 are in the group of all, 10 and 11 in the tensor group of all four."""
    enters(every, (8, 9), "0", "all_reduce")
    enters(every, (10, 11), "t")
    for rank in set(every) - {8, 9, 10, 11}:
        enters(every, (rank,), "0", "all_reduce")


def all_there(every: Dumps) -> None:
    enters(every, (8, 9, 10, 11), "t")


def busy_gpu(every: Dumps) -> None:
    """Rank 9 has launched the all_gather, and its GPU has not come to it; it waits nowhere else."""
    enters(every, (8, 10, 11), "t")
    every[9].operations.append(Operation(group_of(every, 9, "t"), 201, "nccl:all_gather", "scheduled"))
    for rank in (8, 9, 10, 11):  # what their hosts have launched beyond
        every[rank].operations.append(Operation("0", 201, "nccl:all_reduce", "scheduled"))


def skipped_and_launched_ahead(every: Dumps) -> None:
    """As `skipped`, by NCCL, whose hosts go on launching; rank 9 waits in the next group for them."""
    enters(every, (8, 10, 11), "t")
    for rank in (8, 10, 11):
        every[rank].operations.append(Operation("0", 201, "nccl:all_reduce", "scheduled"))
    enters(every, set(every) - {8, 10, 11}, "0", "all_reduce")


def another_shape_long_before(every: Dumps) -> None:
    """Of a group in which nobody waits any more, and whose operations of then are told as history only."""
    for rank in (8, 9, 10, 11):
        name = group_of(every, rank, "t")
        every[rank].kinds = [Call("nccl:all_reduce", "16, Float"), Call("nccl:all_reduce", "24, Float")]
        every[rank].history[name] = [101, *([0] * 100)]
    every[9].history[group_of(every, 9, "t")][1 + 120 - 101] = 1
    enters(every, set(every), "0", "all_reduce")


def another_shape_of_two(every: Dumps) -> None:
    """Two of the four know what they called; of those the one is odd that never calls it so elsewhere."""
    another_shape_long_before(every)
    every[8].history = every[10].history = {}


def two_loops(every: Dumps) -> None:
    """As many ranks are in one loop as in the other."""
    enters(every, (8, 9), "t", "all_gather")
    enters(every, (10, 11), "t", "reduce_scatter")


def another_shape_before(every: Dumps) -> None:
    """The shapes differed in a collective that NCCL nevertheless ended."""
    for rank in (8, 9, 10, 11):
        size = "24, Float" if rank == 9 else "16, Float"
        every[rank].operations.append(Operation(group_of(every, rank, "t"), 199, "nccl:all_reduce", "completed", size))
    enters(every, (8, 9, 10, 11), "t")


def without_a_dump_in_time(every: Dumps) -> None:
    """Rank 10 lives and waits as well, but its dump took too long."""
    skipped(every)
    every[10] = RankDump(10, "its recorder wrote no dump")


def dead(every: Dumps) -> None:
    skipped(every)
    every[9] = RankDump(9, "its recorder does not listen (No such device or address)")


def tell_history(every: Dumps) -> Dumps:
    """What the script in the pod tells of the same operations beside them."""
    for told in every.values():
        kinds = {tuple(kind): at for at, kind in enumerate(told.kinds)}
        for name in told.groups.keys() - told.history.keys():
            known = [structs.asdict(each) | {"tensors": ""} for each in told.operations if each.group == name]
            told.history[name] = probe.list_history(known, cast("Any", kinds))
        told.kinds = [Call(*kind) for kind in kinds]
    return every


CASES = [
    (skipped, Desync.MISSED, (9,), "never entered all_gather #201 of the tensor group"),
    (in_another_order, Desync.ORDER, (9,), "is at reduce_scatter #201 of the tensor group, where 3 others are at "
     "all_gather: the order differs (called in layer.py:12, not layer.py:10)"),
    (with_another_shape, Desync.SHAPE, (9,), "is at all_reduce #201 of the tensor group with 511x4096, BFloat16, "
     "where 3 others are at it with 512x4096, BFloat16"),
    (another_loop, Desync.EPOCH, (9,), "is at barrier #201 of the group of all ranks, where 63 others are at "
     "all_reduce: not in the same loop (called in evaluate.py:7, not train.py:40)"),
    (stage_that_never_sends, Desync.STAGE, (0,), "never sent to rank 16 (recv #201 of the pipeline group)"),
    (groups_crossed, Desync.CYCLE, (8, 10), "wait for each other: rank 8 in all_reduce #201 of the group of all ranks, "
     "rank 10 in all_gather #201 of the tensor group"),
    (all_there, Desync.NETWORK, (8, 9, 10, 11), "have all entered all_gather #201 of the tensor group, and it does not "
     "end"),
    (busy_gpu, Desync.GPU, (9,), "launched all_gather #201 of the tensor group, but its GPU has not come to it"),
    (skipped_and_launched_ahead, Desync.MISSED, (9,), "never entered all_gather #201 of the tensor group and waits in "
     "all_reduce #201 of the group of all ranks"),
    (another_shape_before, Desync.SHAPE, (9,), "is at all_reduce #199 of the tensor group with 24, Float, where 3 "
     "others are at it with 16, Float"),
    (another_shape_long_before, Desync.SHAPE, (9,), "is at all_reduce #120 of the tensor group with 24, Float, where 3 "
     "others are at it with 16, Float"),
    (another_shape_of_two, Desync.SHAPE, (9,), "is at all_reduce #120 of the tensor group with 24, Float, where the "
     "other is at it with 16, Float"),
    (two_loops, Desync.ORDER, (8, 9, 10, 11), "are at reduce_scatter and at all_gather, #201 of the tensor group"),
    (without_a_dump_in_time, Desync.MISSED, (9,), "never entered all_gather #201 of the tensor group"),
    (dead, Desync.NO_DUMP, (9,), "gave no dump and never entered all_gather #201 of the tensor group"),
]  # fmt: skip


@pytest.mark.parametrize(("happens", "kind", "ranks", "what"), CASES)
def test_each_case_of_a_hang_has_its_sentence(happens: Any, kind: Desync, ranks: tuple[int, ...], what: str) -> None:
    every = dumps()
    happens(every)
    found = judge_dumps(tell_history(every).values())
    assert found is not None
    assert (found.kind, found.ranks, found.what) == (kind, ranks, what)
    assert DESYNC_ADVICE[kind]


def test_of_ranks_that_gave_no_dump_those_that_wait_are_not_at_fault() -> None:
    every = dumps()
    skipped(every)
    every |= {rank: RankDump(rank, "its recorder wrote no dump") for rank in (8, 9, 10, 11)}
    gathered = tell_history(every).values()
    found = judge_dumps(gathered)
    assert found is not None
    assert (found.ranks, found.what.partition(" all_reduce")[0]) == (
        (8, 9, 10, 11), "gave no dump, and one or more did not enter",
    )  # fmt: skip
    narrow = judge_dumps(gathered, waiting_ranks={8, 10, 11}, working={9})
    assert narrow is not None
    assert (narrow.kind, narrow.ranks) == (Desync.NO_DUMP, (9,))


def test_every_kind_is_among_the_cases_and_a_job_that_goes_on_is_none() -> None:
    assert {kind for _, kind, _, _ in CASES} == set(Desync) == set(DESYNC_ADVICE)
    assert judge_dumps([]) is None
    assert judge_dumps(tell_history(dumps()).values()) is None


def test_1024_ranks_are_judged_in_less_than_two_seconds_of_a_processor() -> None:
    every = dumps(1024)
    enters(every, (8, 10, 11), "t")
    enters(every, set(every) - {8, 9, 10, 11}, "d", "all_reduce")
    for told in every.values():
        told.kinds = [Call("nccl:all_reduce", "16, Float"), Call("nccl:all_gather", "16, Float")]
        told.history = {name: [1, *([0, 1] * 100)] for name in told.groups}
    began = time.process_time()
    found = judge_dumps(every.values())
    assert time.process_time() - began < 2
    assert found is not None
    assert (found.ranks, found.waiting) == ((9,), 1023)


def hung(found: Finding | None, where: StackLocation, *, pid: int | None = 1202, state: str = "S") -> HangReport:
    stuck = TracedProcess(9, 1, "p1", "node-b", pid, 1, where=where, state=state)
    others = [TracedProcess(each, each // 8, f"p{each // 8}", "n", each, each % 8,
                            where=StackLocation(Activity.COLLECTIVE, "all_reduce"))
              for each in range(16) if each != 9]  # fmt: skip
    return HangReport("job", (PodTrace(0, "p0", "n"), PodTrace(1, "p1", "node-b")), (stuck, *others), recorded=found)


MISSED = Finding(Desync.MISSED, (9,), "never entered all_gather #201 of the tensor group", 15)
STUCK = "Rank 9 (pod 1, GPU 1) never entered all_gather #201 of the tensor group; "


@pytest.mark.parametrize(
    ("where", "process", "said", "advised"),
    [
        (StackLocation(Activity.DATA, "data loader"), {}, "it is in the data loader", "Data loader"),
        (StackLocation(Activity.CHECKPOINT, "a checkpoint"), {}, "it is in a checkpoint", "Checkpoint"),
        (StackLocation(Activity.TEARDOWN, "teardown"), {}, "it is in teardown", "Teardown"),
        (StackLocation(Activity.UNKNOWN, "no stack"), {"state": "T"}, "it is stopped", "Process"),
        (StackLocation(Activity.UNKNOWN, "no stack"), {"pid": None}, "it has no process any more", "Process"),
    ],
)
def test_who_it_is_and_where_it_is_are_one_sentence(
    where: StackLocation, process: dict[str, Any], said: str, advised: str
) -> None:
    report = hung(MISSED, where, **process)
    assert report.short == f"{STUCK}{said}; 15 wait."
    assert report.verdict[0] == f"{STUCK}{said} on node-b; 15 wait."
    assert [group.ranks for group in report.suspects] == [(9,)]
    # Who is kept from coming has skipped nothing: what keeps it is told alone.
    assert [each.partition(":")[0] for each in report.advice] == [advised]
    assert report.blames_program == (advised != "Process")


def test_who_skipped_a_collective_and_goes_on_computing_is_reported_so_first() -> None:
    report = hung(MISSED, StackLocation(Activity.COMPUTE, "forward"))
    assert report.advice[0] == DESYNC_ADVICE[Desync.MISSED]
    assert not report.blames_program


def test_the_verdict_is_the_first_line_and_the_groups_follow_it() -> None:
    report = hung(MISSED, StackLocation(Activity.DATA, "data loader"))
    lines = format_report(report)
    assert lines[: len(report.verdict)] == list(report.verdict)
    assert lines[0].startswith(STUCK)
    assert report.summary not in lines


def test_who_waits_in_a_collective_by_its_stack_is_named_by_its_dump() -> None:
    report = hung(MISSED, StackLocation(Activity.COLLECTIVE, "all_reduce"))
    assert report.short == f"{STUCK}15 wait."
    assert [group.ranks for group in report.suspects] == [(9,)]
    assert report.advice == (DESYNC_ADVICE[Desync.MISSED],)
    network = replace(MISSED, kind=Desync.NETWORK, ranks=(8, 9), what="have all entered it", waiting=16)
    report = hung(network, StackLocation(Activity.COLLECTIVE, "all_reduce"))
    assert report.alarming
    assert not report.suspects
    assert report.short == "Ranks 8-9 (pod 1) have all entered it; 16 wait."


# the script in the pod


def dump(*entries: dict[str, Any]) -> dict[str, Any]:
    config = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}}
    return {"version": "2.10", "pg_config": config, "pg_status": {}, "entries": list(entries)}


def entry(seq: int, state: str = "completed", **more: Any) -> dict[str, Any]:
    """As torch 2.11 writes one."""
    frames = [{"name": "all_reduce", "filename": "/x/torch/distributed/distributed_c10d.py", "line": 2696},
              {"name": "step", "filename": "/app/train.py", "line": 40}]  # fmt: skip
    return {
        "record_id": seq, "pg_id": 0, "process_group": ("0", "default_pg"), "collective_seq_id": seq, "p2p_seq_id": 0,
        "op_id": seq, "profiling_name": "nccl:all_reduce", "time_created_ns": 1, "input_sizes": [[512, 4096]],
        "input_dtypes": ["BFloat16"], "output_sizes": [[512, 4096]], "output_dtypes": ["BFloat16"], "state": state,
        "time_discovered_started_ns": None, "retired": False, "timeout_ms": 600000, "is_p2p": False, "frames": frames,
    } | more  # fmt: skip


def test_a_dump_is_reported_in_short(tmp_path: Path) -> None:
    path = tmp_path / "trace_0"
    path.write_bytes(pickle.dumps(dump(entry(1, "scheduled"), *map(entry, range(2, 30)), entry(30, "started")), 2))
    told = probe.read_dump(str(path))
    assert [each["seq"] for each in told["operations"]] == [1, *range(23, 31)], "the last, and what has not ended"
    assert told["groups"] == {"0": {"desc": "default_pg", "ranks": [0, 1]}}
    assert told["operations"][-1] == {
        "group": "0", "seq": 30, "op": "nccl:all_reduce", "state": "started", "sizes": "512x4096, BFloat16",
        "frame": "train.py:40", "p2p": False,
    }  # fmt: skip
    tensors = '[[[512,4096]],[[512,4096]],["BFloat16"],["BFloat16"]]'
    assert told["kinds"] == [("nccl:all_reduce", "512x4096, BFloat16", "train.py:40", tensors)]
    assert told["history"] == {"0": [1, *([0] * 30)]}


def test_the_history_of_collectives_is_reported_as_far_as_it_is_known(tmp_path: Path) -> None:
    """A number that is missing, sends between two ranks, and more kinds and collectives than are told."""
    path = tmp_path / "trace_0"
    ends = entry(903, input_sizes=[[7]])
    path.write_bytes(pickle.dumps(dump(*map(entry, range(1, 901)), entry(1, is_p2p=True), ends), 2))
    told = probe.read_dump(str(path))
    assert told["history"] == {"0": [404, *([0] * 497), -1, -1, 1]}
    assert told["kinds"][1][:3] == ("nccl:all_reduce", "7, BFloat16", "train.py:40")
    path.write_bytes(pickle.dumps(dump(*(entry(at, input_sizes=[[at]]) for at in range(1, 201))), 2))
    told = probe.read_dump(str(path))
    assert len(told["kinds"]) == probe.MAX_KINDS
    path.write_bytes(pickle.dumps(dump(entry(1, is_p2p=True, p2p_seq_id=4)), 2))
    assert probe.read_dump(str(path))["history"] == {"0": []}


def test_sends_and_receives_of_a_batch_end_with_it(tmp_path: Path) -> None:
    """Of those PyTorch never says that they have ended: Megatron's stages seemed to wait in their first one."""
    path = tmp_path / "trace_0"

    def batch(seq: int, state: str) -> list[dict[str, Any]]:
        sends, receives = (
            entry(0, "scheduled", is_p2p=True, p2p_seq_id=seq, profiling_name=name, time_created_ns=9)
            for name in ("nccl:send 0->1", "nccl:recv 0<-1")
        )
        return [sends, receives, entry(0, state, profiling_name="nccl:coalesced", time_created_ns=9)]

    every = [*batch(1, "completed"), entry(1, "completed"), *batch(2, "started")]
    path.write_bytes(pickle.dumps(dump(*every), 2))
    read = probe.read_dump(str(path))
    states = {(each["op"], each["seq"]): each["state"] for each in read["operations"]}
    assert states == {
        ("nccl:send 0->1", 1): "completed", ("nccl:recv 0<-1", 1): "completed", ("nccl:all_reduce", 1): "completed",
        ("nccl:send 0->1", 2): "started", ("nccl:recv 0<-1", 2): "started",
    }  # fmt: skip
    assert read["history"] == {"0": [1, 0]}
    assert probe.read_times(str(path), 1.0)["sends"] == ["0"]


SITE, CALLS = "/usr/lib/python3.12/site-packages/", "torch/nn/modules/module.py _call_impl"
TENSOR = "megatron/core/tensor_parallel/mappings.py _reduce < torch/autograd/function.py apply"


@pytest.mark.parametrize(
    ("calls", "overlap"),
    [
        pytest.param("", True, id="the buckets of DDP, which have no calls of Python"),
        pytest.param("train.py step < train.py main", False, id="the program's own"),
        pytest.param(f"{TENSOR} < {CALLS} < megatron/core/distributed/ddp.py forward", False, id="Megatron: forward"),
        pytest.param("megatron/core/tensor_parallel/layers.py backward < torch/autograd/function.py apply", False,
                     id="Megatron: backward"),
        pytest.param("megatron/core/distributed/param_and_grad_buffer.py start_grad_sync", True, id="Megatron: DDP"),
        pytest.param(f"torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py unshard < {CALLS}", True, id="FSDP2"),
        pytest.param("torch/autograd/graph.py _engine_run_backward < train.py step", True, id="DDP on CPUs"),
    ],
)  # fmt: skip
def test_the_calls_to_a_collective_tell_whether_the_computation_waits_for_it(calls: str, overlap: bool) -> None:
    frames = [{"filename": SITE + file, "name": name, "line": 1}
              for file, _, name in (each.partition(" ") for each in calls.split(" < ") if each)]  # fmt: skip
    assert probe.overlaps_computation(frames) is overlap


def test_tensors_that_are_too_many_are_not_reported_in_part(tmp_path: Path) -> None:
    path = tmp_path / "trace_0"
    path.write_bytes(pickle.dumps(dump(entry(1, output_sizes=[[4096, 4096]] * 300)), 2))
    assert probe.read_dump(str(path))["kinds"] == [("nccl:all_reduce", "512x4096, BFloat16", "train.py:40", "")]


def test_a_history_that_cannot_be_is_no_mismatch() -> None:
    """As a hostile pod tells it: places that no kind has, and numbers far from those of the others."""
    every = dumps()
    enters(every, set(every), "0", "all_reduce")
    tell_history(every)
    every[9].history["0"] = [10**15, 7, -3, 10**12]
    every[10].kinds = []
    found = judge_dumps(every.values())
    assert found is not None
    assert found.kind is Desync.NETWORK


DAMAGED = (pickle.UnpicklingError, TypeError, EOFError, LookupError, ValueError, OverflowError, MemoryError)


class Runs:
    """A pickle that runs something."""

    def __init__(self, mark: Path) -> None:
        self._mark = mark

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self._mark),)


def nested(depth: int) -> Any:
    found: list[Any] = []
    for _ in range(depth):
        found = [found, found]
    return found


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (lambda folder: pickle.dumps(Runs(folder / "ran")), "it names posix.mkdir, and a dump has no classes"),
        (lambda folder: pickle.dumps(dump(entry(1, input_sizes=nested(60)))), "argument must be a string"),
        (lambda folder: b"\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\x00", ""),  # bytes of which there are 2**56
        (lambda folder: pickle.dumps([1]), "list indices must be integers"),
        (lambda folder: pickle.dumps(dump(entry(1)))[:-20], ""),
        (lambda folder: b"\x1b]0;PWNT\x07" * 9, ""),
    ],
    ids=["runs code", "nested", "gigabytes", "no dump", "cut off", "escape codes"],
)
def test_a_hostile_dump_is_named_and_runs_nothing(tmp_path: Path, made: Any, why: str) -> None:
    path = tmp_path / "trace_0"
    path.write_bytes(made(tmp_path))
    with pytest.raises(DAMAGED, match=why or None):
        probe.read_dump(str(path))
    assert not (tmp_path / "ran").exists()


def test_a_dump_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "trace_0"
    with path.open("wb") as file:
        file.truncate(probe.MAX_DUMP_BYTES + 1)
    with pytest.raises(ValueError, match="more than 64 MiB"):
        probe.read_dump(str(path))


def test_a_recorder_dumps_when_its_pipe_is_written_to(tmp_path: Path) -> None:
    each = {
        "rank": 3,
        "env": {probe.RECORDER_PIPE_VARIABLE: f"{tmp_path}/pipe_", probe.DUMP_FILE_VARIABLES[0]: f"{tmp_path}/trace_"},
    }
    assert probe.recorder(each, probe.read_dump)["why"] == "its recorder does not listen (No such file or directory)"
    (tmp_path / "pipe_3.pipe").write_text("kept")
    assert probe.recorder(each, probe.read_dump)["why"] == "its pipe is no pipe"
    assert (tmp_path / "pipe_3.pipe").read_text() == "kept"
    (tmp_path / "pipe_3.pipe").unlink()
    os.mkfifo(tmp_path / "pipe_3.pipe")
    assert probe.recorder(each, probe.read_dump)["why"].startswith("its recorder does not listen (")
    (tmp_path / "trace_3").write_bytes(b"of an earlier time")
    listens = os.open(tmp_path / "pipe_3.pipe", os.O_RDWR)  # to wait for the first who writes, not to end without one

    def writes() -> None:
        assert os.read(listens, 9) == b"1\n"
        (tmp_path / "trace_3").write_bytes(pickle.dumps(dump(entry(7, "started")), 2))

    torch = threading.Thread(target=writes)
    torch.start()
    told = probe.recorder(each, probe.read_dump)
    torch.join()
    os.close(listens)
    assert (told["rank"], [each["seq"] for each in told["operations"]]) == (3, [7])


def test_the_times_of_the_last_seconds_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "trace_0"
    last = 1_000_000_000_000
    every = [entry(seq, "completed", time_created_ns=last - (9 - seq) * 1_000_000_000, duration_ms=seq / 2)
             for seq in range(1, 10)]  # fmt: skip
    every += [entry(10, "started", time_created_ns=last), entry(11, "completed", is_p2p=True, duration_ms=1.0)]
    path.write_bytes(pickle.dumps(dump(*every), 2))
    told = probe.read_times(str(path), 2.5)
    assert told["times"] == {"0": [[7, 500_000, 3500], [8, 1_500_000, 4000], [9, 2_500_000, 4500]]}
    assert told["since"] == 997_500_000


def test_each_look_of_the_watchdog_tells_how_long_the_oldest_collective_had_been_launched(tmp_path: Path) -> None:
    path, second = tmp_path / "trace_0", 1_000_000_000
    seen = {1: 1000, 2: 1000, 3: 1000, 4: 1100, 5: 1200, 6: None, 7: None}  # in milliseconds
    every = [
        entry(seq, "completed" if at else "started", time_created_ns=second + (seq - 1) * 45_000_000, duration_ms=1.0,
              time_discovered_completed_ns=at and second + at * 1_000_000 - second + seq)
        for seq, at in seen.items()
    ]  # fmt: skip
    path.write_bytes(pickle.dumps(dump(*every), 2))
    # At 1.0 s the fourth had not been launched (1.135 s), at 1.1 s not the fifth, at 1.2 s not the sixth (1.225 s).
    assert probe.read_times(str(path), 2.5)["queued"] == {"0": [0, 0, 0]}
    earlier = [{**each, "time_created_ns": each["time_created_ns"] - 500_000_000} for each in every]
    path.write_bytes(pickle.dumps(dump(*earlier), 2))
    assert probe.read_times(str(path), 2.5)["queued"] == {"0": [365_000, 420_000, 475_000]}


def test_connections_that_carry_much_are_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as door, socket.create_connection(door.getsockname()) as sends:
        takes, _ = door.accept()
        with takes:
            reads = threading.Thread(target=lambda: [takes.recv(1 << 16, socket.MSG_WAITALL) for _ in range(48)])
            reads.start()
            sends.sendall(bytes(3 << 20))
            reads.join()
            assert [peer for peer, trip, least in probe.find_links() if 0 < least <= trip] == ["127.0.0.1"]


def test_of_several_looks_at_a_link_the_best_counts() -> None:
    """A round trip scatters: of four healthy ranks on one machine one had 351 us, the others 82."""
    looks = iter([[["10.0.0.2", 351, 2], ["127.0.0.1", 9, 1]], [["10.0.0.2", 92, 2]], *([["10.0.0.2", 171, 1]],) * 9])
    assert probe.watch_links(lambda: next(looks), pause=0.0) == [["10.0.0.2", 92, 2]]


def test_the_number_of_dumps_is_shown() -> None:
    every = [RankDump(0), RankDump(1, "no pipe"), RankDump(2, "no pipe")]
    assert describe_dumps(every) == "1 of 3 ranks gave a dump (ranks 1-2: no pipe)"
    assert describe_dumps(every[:2]) == "1 of 2 ranks gave a dump (rank 1: no pipe)"


def test_of_two_ranks_that_wait_for_each_other_the_one_whose_operation_is_over_elsewhere_is_named() -> None:
    every = dumps(32)
    enters(every, (13,), "d", "all_reduce")  # of the data group 9, 13
    for rank in every.keys() - {9, 13}:
        name = group_of(every, rank, "d")
        every[rank].operations.append(Operation(name, 201, "nccl:all_reduce", "completed"))
    enters(every, every.keys() - {13}, "0", "all_reduce")
    found = judge_dumps(tell_history(every).values())
    assert found is not None
    assert (found.kind, found.ranks, found.waiting) == (Desync.MISSED, (9,), 31)
    assert found.what == (
        "never entered all_reduce #201 of the data group and waits in all_reduce #201 of the group of all ranks"
    )


def test_the_group_in_which_megatron_reduces_gradients_is_the_data_group() -> None:
    assert describe_group("DATA_PARALLEL_GROUP_WITH_CP", 8) == "the data group"
    assert describe_group("CONTEXT_PARALLEL_GROUP", 8) == "the context group"
