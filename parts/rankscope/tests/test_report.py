"""Where stacks are, which ranks the others wait for, and what is said of it; recordings of a hang on four H200."""

from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from rankscope.hang_report import HangReport, MpiLauncher, PodTrace, TracedProcess, group_processes
from rankscope.nccl_ras import parse_ras
from rankscope.stack_location import Activity, StackLocation, locate_compiled, locate_process
from trainlog import Frame, ProcessStacks, ThreadStack, parse_pyspy

H200 = Path(__file__).parents[3] / "tests" / "fixtures" / "h200"


def recorded() -> tuple[TracedProcess, ...]:
    """The processes of the torchrun that hung on four H200."""
    found = []
    for number in range(4):
        (stacks,) = parse_pyspy((H200 / f"hang_rank{number}.txt").read_bytes())
        found.append(
            TracedProcess(number, 0, "pod", "node", stacks.pid, number, stacks=stacks, where=locate_process(stacks))
        )
    return tuple(found)


@pytest.mark.parametrize("number", range(4))
def test_py_spy_says_the_same_as_text_and_as_json(number: int) -> None:
    (text,) = parse_pyspy((H200 / f"hang_rank{number}.txt").read_bytes())
    (json,) = parse_pyspy((H200 / f"hang_rank{number}.json").read_bytes())
    assert json.threads == text.threads


def test_the_recording_of_a_hang_on_h200_names_rank_2() -> None:
    ras = parse_ras((H200 / "hang_ras_verbose.txt").read_text())
    report = HangReport("hung", (PodTrace(0, "pod", "node", py_spy="py-spy"),), recorded(), ras)
    assert report.suspects[0].ranks == (2,)
    assert report.summary == "3 in cuda synchronize, 1 in data loader (rank 2, pod 0, GPU 2, node)"
    assert report.verdict == (
        "Rank 2 (pod 0, GPU 2) on node is in the data loader (read_shard, hang.py:2) while 3 others wait in "
        "cuda synchronize.",
        "NCCL says MISMATCH: rank 2 on 127.0.0.1 has launched 3 AllReduce, the others 4.",
    )
    assert (ras.odd[0].rank, ras.odd[0].pid, ras.odd[0].gpu) == (2, 5961, 2)
    assert (ras.version, ras.processes, ras.groups[0].ranks, ras.groups[0].status) == ("2.28.9", 4, 4, "RUNNING")


def test_nccl_alone_names_the_rank_that_launched_less() -> None:
    same = tuple(
        replace(each, where=locate_process(cast("ProcessStacks", recorded()[0].stacks))) for each in recorded()
    )
    assert not HangReport("hung", (), same).suspects
    assert "All 4 ranks are in cuda synchronize" in HangReport("hung", (), same).verdict[0]
    ras = parse_ras((H200 / "hang_ras_verbose.txt").read_text())
    assert "rank 2 on 127.0.0.1 has launched 3" in HangReport("hung", (), same, ras).verdict[1]


def test_dead_processes_of_nccl() -> None:
    ras = parse_ras(
        "NCCL version 2.28.9 compiled with CUDA 13.0\n"
        "    0         1         2         8        16        15   RUNNING  INCOMPLETE\n"
        "INCOMPLETE\n  Missing communicator data from 1 job process\n"
        "  Process 3487984 on node 172.16.64.213 managing GPU 5\n"
    )
    assert not ras.is_healthy
    assert ras.words == "NCCL says INCOMPLETE: process 3487984 on 172.16.64.213 does not answer."
    assert parse_ras("").words == ""
    healthy = parse_ras("NCCL version 2.28.9 compiled\n 0 1 2 8 16 16 RUNNING OK\n")
    assert healthy.is_healthy


def stack(*calls: tuple[str, str], state: str = "idle", name: str = "MainThread") -> ProcessStacks:
    frames = tuple(Frame(function, file, 1) for function, file in calls)
    return ProcessStacks(1, threads=(ThreadStack("1", name, (state,), frames),))


@pytest.mark.parametrize(
    ("calls", "doing", "label"),
    [
        ([("all_gather_into_tensor", "torch/distributed/distributed_c10d.py")], Activity.COLLECTIVE,
         "all_gather_into_tensor"),
        ([("synchronize", "torch/cuda/__init__.py"), ("all_reduce", "torch/distributed/distributed_c10d.py")],
         Activity.COLLECTIVE, "all_reduce"),
        ([("broadcast", "torch/distributed/distributed_c10d.py"), ("get_batch_on_this_tp_rank", "training/utils.py")],
         Activity.COLLECTIVE, "broadcast"),
        ([("select", "selectors.py"), ("_next_data", "torch/utils/data/dataloader.py")], Activity.DATA, "data loader"),
        ([("read", "megatron/core/datasets/indexed_dataset.py")], Activity.DATA, "data loader"),
        ([("init_process_group", "torch/distributed/distributed_c10d.py")], Activity.MEETING, "the rendezvous"),
        ([("Condition.wait", "threading.py"), ("Event.wait", "threading.py")], Activity.WAIT, "wait"),
        ([("Lock.acquire", "my/locks.py")], Activity.LOCK, "a lock"),
        ([("Loader.next_batch", "my/input.py")], Activity.DATA, "data loader"),
        ([("write", "torch/serialization.py"), ("save_checkpoint", "megatron/training/checkpointing.py")],
         Activity.CHECKPOINT, "a checkpoint"),
        ([("acquire", "threading.py"), ("put", "mine.py")], Activity.LOCK, "a lock"),
        ([("wait", "subprocess.py"), ("build", "mine.py")], Activity.WAIT, "wait"),
        ([("synchronize", "torch/cuda/__init__.py"), ("step", "mine.py")], Activity.GPU, "cuda synchronize"),
    ],
)  # fmt: skip
def test_where_a_stack_is(calls: list[tuple[str, str]], doing: Activity, label: str) -> None:
    found = locate_process(stack(*calls))
    assert (found.doing, found.label) == (doing, label)


def test_a_lock_is_waited_for_by_the_program_and_not_by_its_library() -> None:
    calls = ("acquire", "logging/__init__.py"), ("info", "logging/__init__.py"), ("log_step", "train.py")
    where = locate_process(stack(*calls))
    assert where.frame is not None
    assert (where.doing, where.frame.function) == (Activity.LOCK, "log_step")
    waits, others = TracedProcess(9, 1, "p", "n", 9, 1, where=where), many(Activity.COLLECTIVE, "all_reduce", *range(8))
    report = HangReport("hung", (), (waits, *others))
    assert report.short == "Rank 9 (pod 1, GPU 1) is waiting for a lock while 8 others wait in all_reduce."
    assert report.summary == "8 in all_reduce, 1 waiting for a lock (rank 9, pod 1, GPU 1, n)"


def test_gradients_are_reduced_by_another_thread() -> None:
    main = stack(("_engine_run_backward", "torch/autograd/graph.py"), state="active").threads
    hook = stack(("all_reduce", "torch/distributed/distributed_c10d.py"), name="Dummy-1").threads
    assert locate_process(ProcessStacks(1, threads=(*main, *hook))).doing is Activity.COLLECTIVE
    assert locate_process(ProcessStacks(1, threads=main)).label == "backward"
    assert locate_process(ProcessStacks(1)).doing is Activity.UNKNOWN


def many(doing: Activity, label: str, *ranks: int, node: str = "") -> list[TracedProcess]:
    return [
        TracedProcess(each, each // 8, "pod", node or f"n{each // 8}", each, where=StackLocation(doing, label))
        for each in ranks
    ]


def test_a_hundred_and_twenty_eight_ranks_in_words() -> None:
    stuck = many(Activity.DATA, "data loader", 41, 97, node="gke-7")
    others = many(Activity.COLLECTIVE, "all_reduce", *(each for each in range(128) if each not in (41, 97)))
    report = HangReport("llama", (), (*others, *stuck))
    assert report.summary == "126 in all_reduce, 2 in data loader (ranks 41, 97, pods 5, 12, gke-7)"
    assert [group.suspect for group in report.groups] == [True, False]
    assert report.verdict[0].startswith(
        "Ranks 41, 97 (pods 5, 12) on gke-7 are in the data loader while 126 others wait in all_red"
    )


def test_another_collective_than_the_others_stands_out() -> None:
    groups = group_processes(
        [*many(Activity.COLLECTIVE, "all_reduce", *range(7)), *many(Activity.COLLECTIVE, "all_gather", 7)]
    )
    assert [(group.label, group.suspect) for group in groups] == [("all_gather", True), ("all_reduce", False)]


def test_what_the_kernel_says_of_a_test_sets_a_rank_apart() -> None:
    def run(rank: int, state: str) -> TracedProcess:
        place = locate_compiled("all_gather_perf", state)
        return TracedProcess(
            rank, rank // 8, f"p{rank // 8}", "n", 7, state=state, where=place, program="all_gather_perf"
        )

    report = HangReport("test", (PodTrace(0, "p0", "n", gdb="/usr/bin/gdb"),), tuple(run(at, "RS"[at % 2]) for at in
                                                                                     range(16)))  # fmt: skip
    assert (report.summary, report.alarming, report.without_py_spy) == ("16 all_gather_perf", False, ())
    assert "gdb -p PID" in report.advice[1]
    stopped = replace(report, processes=(*report.processes[:15], run(15, "T")))
    assert stopped.short == "Rank 15 (pod 1, GPU 0) is stopped while 15 others run all_gather_perf."
    assert stopped.alarming


def test_that_nothing_runs_is_no_alarm_and_that_nothing_can_be_asked_is_one() -> None:
    idle = HangReport("test", (PodTrace(0, "p0", "n"),), ())
    assert not idle.alarming
    assert "No process of a training or an NCCL test" in idle.verdict[0]
    begins = HangReport("test", (PodTrace(0, "p0", "n", launchers=(MpiLauncher("mpirun", 7),)),), ())
    assert begins.short.startswith("mpirun runs, but it has no child processes")
    deaf = PodTrace(0, "p0", "n", failure="It is gone.")
    unknown, half = HangReport("test", (deaf,), ()), HangReport("test", (deaf, PodTrace(1, "p1", "n")), ())
    assert unknown.alarming
    assert (unknown.verdict, unknown.summary) == (("Pod 0 could not be asked: It is gone.",), "no pod answered")
    assert half.short == "No process of a training or an NCCL test was found in the pods that answered."


def test_work_is_no_hang() -> None:
    report = HangReport("busy", (), tuple(many(Activity.COMPUTE, "backward", *range(4))))
    assert not report.suspects
    assert "this is not a hang" in report.verdict[0]
