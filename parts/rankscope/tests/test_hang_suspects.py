"""For whom the others wait, as torchrun jobs on two H200 hung; what py-spy and NCCL RAS then said is in the tests."""

from dataclasses import replace

import pytest

from rankscope.hang_report import BEHIND_ADVICE, FAILED_ADVICE, GONE_ADVICE, HangReport, PodTrace, TracedProcess
from rankscope.nccl_ras import RasGroup, RasRank, RasReport
from rankscope.stack_location import ACTIVITY_ADVICE, NO_STACK, Activity, StackLocation, locate_compiled
from trainlog import Frame

ITEM = StackLocation(Activity.COMPUTE, "train_step", Frame("train_step", "stuck.py", 34))
"""`return loss.item()`, which waits for the GPU: py-spy calls the thread active."""
BACKWARD = StackLocation(Activity.COMPUTE, "backward", Frame("_engine_run_backward", "torch/autograd/graph.py", 869))
DATA = StackLocation(Activity.DATA, "data loader", Frame("train_step", "stuck.py", 30))
SLEEP = StackLocation(Activity.WAIT, "<module>", Frame("<module>", "stuck.py", 38))
BUSY = StackLocation(Activity.COMPUTE, "<module>", Frame("<module>", "stuck.py", 40))
RECV = StackLocation(Activity.COLLECTIVE, "irecv", Frame("irecv", "torch/distributed/distributed_c10d.py", 2600))
BARRIER = StackLocation(Activity.COLLECTIVE, "barrier", Frame("barrier", "torch/distributed/distributed_c10d.py", 4900))
CHECKPOINT = StackLocation(Activity.CHECKPOINT, "a checkpoint", Frame("save_checkpoint", "stuck.py", 28))


def hung(*places: StackLocation, behind: tuple[int, ...] = (), state: str = "S", pid: int | None = 5) -> HangReport:
    """A report of one rank at each of these places; state and process are of those without a stack."""
    processes = tuple(
        TracedProcess(at, at, f"pod-{at}", f"node-{at}", pid if where is NO_STACK else 5, state=state, where=where)
        for at, where in enumerate(places)
    )
    ras = RasReport("2.28.9", odd=tuple(RasRank(rank, 10, "AllReduce") for rank in behind), most=12)
    return HangReport("hung", (), processes, ras if behind else RasReport())


@pytest.mark.parametrize("behind", [(), (1,)])
@pytest.mark.parametrize("where", [DATA, SLEEP])
def test_a_rank_that_waits_for_something_of_its_own(where: StackLocation, behind: tuple[int, ...]) -> None:
    report = hung(ITEM, where, behind=behind)
    assert [group.ranks for group in report.suspects] == [(1,)]
    assert report.verdict[0].endswith("while 1 other is in train_step.")


def test_nccl_names_whom_stacks_do_not() -> None:
    for other in (BUSY, RECV):
        assert [group.ranks for group in hung(ITEM, other, behind=(1,)).suspects] == [(1,)]
    assert not hung(ITEM, BUSY).suspects
    assert [group.ranks for group in hung(CHECKPOINT, BARRIER, behind=(0,)).suspects] == [(0,)]


def test_nccl_does_not_acquit_who_is_in_a_data_loader() -> None:
    assert [group.ranks for group in hung(DATA, RECV, behind=(1,)).suspects] == [(0,)]


def test_gloo_waits_in_backward() -> None:
    report = hung(BACKWARD, BACKWARD, DATA, BACKWARD)
    assert report.short == "Rank 2 (pod 2, GPU 0) is in the data loader while 3 others are in backward."


def test_one_of_many_that_computes_elsewhere_stands_out() -> None:
    assert [group.ranks for group in hung(*[ITEM] * 7, BUSY).suspects] == [(7,)]


@pytest.mark.parametrize(("error", "program"), [("reported Invalid usage", True), ("has status ASYNC_ERROR", False)])
def test_a_rank_of_which_nccl_reports_an_error(error: str, program: bool) -> None:
    ras = RasReport("2.28.9", odd=tuple(RasRank(rank, 10, "AllReduce", error=error) for rank in (1, 2)), most=12)
    report = replace(hung(*[ITEM] * 7), ras=ras)
    several = error.replace("has ", "have ")
    assert report.short == f"Ranks 1-2 (pods 1-2) {several} in NCCL while 5 others are in train_step."
    assert report.advice == (FAILED_ADVICE,)
    assert report.blames_program == program


def test_many_at_different_lines_do_not_wait() -> None:
    lines = [StackLocation(Activity.COMPUTE, "train_step", Frame("train_step", "stuck.py", at)) for at in range(7)]
    assert not hung(*lines, DATA, behind=(7,)).suspects


def test_a_rank_that_is_stopped_or_gone() -> None:
    assert hung(ITEM, NO_STACK, state="T").short == "Rank 1 (pod 1, GPU 0) is stopped while 1 other is in train_step."
    assert (
        hung(ITEM, NO_STACK, pid=None).short
        == "Rank 1 (pod 1, GPU 0) has no process any more while 1 other is in train_step."
    )
    assert not hung(ITEM, NO_STACK).suspects, "py-spy may have failed on one that works"


def test_who_waits_elsewhere_because_a_rank_is_gone_is_not_named_beside_it() -> None:
    """NCCL raised an error on rank 2 too, whose handler waits; recorded on an H200."""
    assert (
        hung(ITEM, NO_STACK, SLEEP, ITEM, ITEM, ITEM, pid=None).short
        == "Rank 1 (pod 1, GPU 0) has no process any more while 4 others are in train_step."
    )


TEST = locate_compiled("all_reduce_perf", "R")


def looked_twice(report: HangReport, *before: int, operations: int = 10) -> HangReport:
    """That report as a second look found it, after one at which those ranks were behind at that operation."""
    first = RasReport(odd=tuple(RasRank(rank, operations, "AllReduce") for rank in before))
    return replace(report, ras=report.ras.compare_with(first))


@pytest.mark.parametrize("where", [TEST, RECV, ITEM])
def test_a_rank_that_stays_behind_is_split_off_those_that_seem_to_do_the_same(where: StackLocation) -> None:
    report = looked_twice(hung(*[where] * 16, behind=(9,)), 9)
    assert [(group.ranks, len(group.members)) for group in report.suspects] == [((9,), 1)]
    assert [len(group.members) for group in report.groups] == [1, 15]
    assert len({(group.doing, group.label) for group in report.groups}) == 2
    assert report.short.startswith("Rank 9 (pod 9, GPU 0) stays behind in NCCL while 15 others ")
    assert report.verdict[0].startswith("Rank 9 (pod 9, GPU 0) on node-9 stays behind in NCCL while 15 others ")
    assert report.advice[0] == BEHIND_ADVICE


@pytest.mark.parametrize("where", [TEST, RECV, ITEM])
def test_ranks_that_differ_for_a_moment_are_not_blamed(where: StackLocation) -> None:
    moving = hung(*[where] * 16, behind=(9,))
    for report in (moving, looked_twice(moving, 3), looked_twice(moving, 9, operations=9), looked_twice(moving)):
        assert report.suspects == ()
    assert looked_twice(moving, 3).ras.words.endswith(", but they move on.")
    assert not looked_twice(hung(ITEM, BUSY, behind=(1,)), 1, operations=9).suspects


def test_who_stays_behind_among_many_that_merely_work_is_not_blamed() -> None:
    lines = [StackLocation(Activity.COMPUTE, "train_step", Frame("train_step", "stuck.py", at)) for at in range(8)]
    assert not looked_twice(hung(*lines, behind=(7,)), 7).suspects


def test_more_than_half_of_the_ranks_are_not_behind_the_others() -> None:
    assert not looked_twice(hung(*[TEST] * 4, behind=(0, 1, 2)), 0, 1, 2).suspects
    assert [group.ranks for group in looked_twice(hung(TEST, TEST, behind=(1,)), 1).suspects] == [(1,)]


def test_ranks_of_a_smaller_communicator_and_other_processes_are_not_those_of_the_job() -> None:
    report = looked_twice(hung(*[RECV] * 8, behind=(1,)), 1)
    assert report.suspects
    smaller = replace(report.ras, groups=(RasGroup(0, 2, 2, 4, "RUNNING", "MISMATCH"),))
    assert not replace(report, ras=smaller).suspects
    (odd,) = report.ras.odd
    assert not replace(report, ras=replace(report.ras, odd=(replace(odd, pid=77),))).suspects


def test_who_is_elsewhere_is_blamed_before_who_stays_behind() -> None:
    report = looked_twice(hung(*[ITEM] * 6, DATA, ITEM, behind=(7,)), 7)
    assert [group.ranks for group in report.suspects] == [(6,)]


def test_advice_is_by_the_group_and_a_test_beside_a_training_does_not_replace_it() -> None:
    places = [RECV] * 14 + [DATA, TEST]
    found = hung(*places)
    processes = (*found.processes[:15], replace(found.processes[15], program="all_reduce_perf"))
    report = replace(found, processes=processes, pods=(PodTrace(15, "pod-15", "node-15", gdb="/usr/bin/gdb"),))
    assert [group.ranks for group in report.suspects] == [(14,)]
    assert report.advice == (ACTIVITY_ADVICE[Activity.DATA],)
    assert not report.only_compiled_programs
    nobody = replace(report, processes=(replace(processes[0], where=TEST, program="all_reduce_perf"), processes[1]))
    assert nobody.advice[:2] == (ACTIVITY_ADVICE[Activity.COMPILED], ACTIVITY_ADVICE[Activity.COLLECTIVE])
    assert nobody.advice[2].startswith("C stacks: its image has no gdb")
    assert "no training" not in nobody.short


@pytest.mark.parametrize(
    ("pid", "state", "is_told"), [(None, "", "has no process any more"), (5, "Z", "is dead"), (5, "X", "is dead")]
)
def test_a_dead_rank_is_named_where_no_stack_could_be_read_of_the_others(
    pid: int | None, state: str, is_told: str
) -> None:
    lives = hung(*[NO_STACK] * 4).processes
    report = HangReport("hung", (), (*lives[:2], replace(lives[2], pid=pid, state=state), lives[3]))
    assert [group.ranks for group in report.suspects] == [(2,)]
    assert report.short == f"Rank 2 (pod 2, GPU 0) {is_told} while of the 3 others no stack could be read."
    assert report.advice == (GONE_ADVICE,)
    assert not HangReport("hung", (), lives).suspects
