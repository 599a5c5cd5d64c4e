"""Trainings that go wrong on purpose: what each pod prints, how it ends, and what is seen inside it."""

import math
import re
import subprocess
from itertools import islice
from pathlib import Path

import pytest

from practice.node.fake_binaries import faulty_gpu, write_activity, write_fake_binaries
from practice.programs import fault_settings as faults_module
from practice.programs.choose_program import RECIPES, choose_program
from practice.programs.fault_settings import KINDS, TEST, TRAINING, impossible_faults, parse_faults, step_seconds
from practice.programs.hangs import HOW, HUNG_FACT
from practice.programs.launcher_stages import SCRIPT, TRAINS
from practice.programs.steps import ExitStep, PauseStep, PrintLine, ProgramContext, SharedFacts, WaitForFact
from tests.practice.test_programs import place, printed
from trainlog import RunReader, TrainingParser, find_run_position, parse_lm_eval, parse_nccl, parse_pyspy

FOREVER = 10**7
"""Seconds: nothing else waits that long."""
MEGATRON, SWIFT, DDP = (RECIPES[name] for name in ("qwen3-30b-pretrain", "swift-dpo", "own-script"))


def member(rank: int, room: SharedFacts | None = None, nodes: int = 2, **env: str) -> ProgramContext:
    """A pod of a job whose other pods are all as far as they can be."""
    made = place(rank=rank, nodes=nodes, A4_TRAIN_ITERATIONS="20", **env)
    made.notes[SCRIPT] = TRAINS
    made.room = room or SharedFacts()
    made.room.post("sync over")
    made.room.post("exit code", 0)
    for other in range(nodes):
        for fact in ("sshd", "found", "train started", "ready"):
            made.room.post(f"{fact} {other}")
    return made


def waits_for_ever(step: PauseStep | WaitForFact, where: ProgramContext) -> bool:
    return step.seconds > FOREVER if isinstance(step, PauseStep) else step.fact not in where.room.facts


def until_stuck(recipe: str, where: ProgramContext) -> tuple[list[str], ExitStep | PauseStep | WaitForFact | None]:
    """Lines until the pod ends, or waits for what never comes."""
    lines: list[str] = []
    for step in RECIPES[recipe](where):
        if isinstance(step, PrintLine):
            lines.append(step.text)
        elif isinstance(step, ExitStep) or waits_for_ever(step, where):
            return lines, step
    return lines, None


def trained(lines: list[str]) -> RunReader:
    parser = TrainingParser()
    parser.feed("".join(f"{line}\n" for line in lines).encode())
    parser.close()
    (run,) = parser.runs
    return run


def test_the_person_says_what_goes_wrong_by_variables() -> None:
    where = place(PRACTICE_FAULT="nan:3,oom:7:1,hang:2@1,spike:x,slow:4:one", PRACTICE_PACE="0.5")
    assert [(fault.kind, fault.step, fault.rank) for fault in parse_faults(where)] == [("nan", 3, None), ("oom", 7, 1)]
    assert step_seconds(where, 2.8) == 0.5
    assert step_seconds(place(PRACTICE_PACE="fast"), 2.8) == 2.8


@pytest.mark.parametrize("recipe", ["qwen3-30b-pretrain", "swift-dpo", "swift-sft"])
@pytest.mark.parametrize("version", ["3.10.3", "4.1.0"])
def test_what_is_printed_is_read_as_a_training(recipe: str, version: str) -> None:
    lines, code = printed(RECIPES[recipe], place(A4_TRAIN_ITERATIONS="20", A4_SWIFT_VERSION=version))
    assert code == 0
    run = trained(lines)
    last = run.steps[-1]
    assert (last.step, last.total) == ((20, 20) if recipe.startswith("qwen") else (100, 100))
    for step in run.steps:
        assert None not in (step.loss, step.lr, step.grad_norm)
    average_only = version.startswith("4") and recipe.startswith("swift")  # an average since the start is no step's
    assert (last.step_time_s is None) == average_only
    assert not find_run_position(run.steps).nan


@pytest.mark.parametrize("recipe", ["qwen3-30b-pretrain", "swift-dpo"])
@pytest.mark.parametrize("version", ["3.10.3", "4.1.0"])
def test_a_nan_is_an_alarm_in_every_format(recipe: str, version: str) -> None:
    where = place(A4_TRAIN_ITERATIONS="20", A4_SWIFT_VERSION=version, PRACTICE_FAULT="nan:12")
    run = trained(printed(RECIPES[recipe], where)[0])
    assert find_run_position(run.steps).nan_from == run.steps[11].step
    assert run.steps[11].grad_norm is not None
    assert math.isnan(run.steps[11].grad_norm)


def test_every_pod_of_a_ddp_training_prints_under_its_label() -> None:
    for rank, label in ((0, "[rank0]: "), (1, "[rank8]: ")):
        lines, code = printed(DDP, member(rank))
        assert code == 0
        steps = [line for line in lines if "step_time" in line]
        assert len(steps) == 20
        assert all(line.startswith(label) for line in steps)
        run = trained(lines)
        assert [step.step for step in run.steps] == list(range(1, 21))


def test_a_pod_that_fails_says_why_and_the_others_wait_for_it() -> None:
    lines, end = until_stuck("qwen3-30b-pretrain", member(0, PRACTICE_FAULT="fail:5:0"))
    assert end == ExitStep(1)
    assert "[rank0]: Traceback (most recent call last):" in lines
    assert lines[-2].endswith("train: failed with exit code 1")
    lines, end = until_stuck("qwen3-30b-pretrain", member(1, PRACTICE_FAULT="fail:5:0"))
    assert isinstance(end, PauseStep)
    assert trained(lines).steps[-1].step == 4


def test_a_hang_stops_every_pod_and_never_ends() -> None:
    for rank in (0, 1):
        lines, end = until_stuck("own-script", member(rank, PRACTICE_FAULT="hang:7:0"))
        assert isinstance(end, PauseStep)
        assert trained(lines).steps[-1].step == 6


def test_the_watchdog_ends_the_pods_that_wait() -> None:
    lines, end = until_stuck("qwen3-30b-pretrain", member(1, PRACTICE_FAULT="timeout:7:0"))
    assert end == ExitStep(1)
    assert any("[Rank 8] Watchdog caught collective operation timeout" in line for line in lines)
    assert isinstance(until_stuck("qwen3-30b-pretrain", member(0, PRACTICE_FAULT="timeout:7:0"))[1], PauseStep)


def test_out_of_memory_hits_the_pod_that_is_meant() -> None:
    assert until_stuck("own-script", member(1, PRACTICE_FAULT="oom:7:1"))[1] == ExitStep(137, "OOMKilled")
    assert isinstance(until_stuck("own-script", member(0, PRACTICE_FAULT="oom:7:1"))[1], PauseStep)


def inside(where: ProgramContext, folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """A command in the pod, with the stand-ins first in its path."""
    if not folder.exists():
        folder.mkdir()
        write_fake_binaries(folder, where)
    write_activity(folder, where)
    path = f"{folder / '.bin'}:/usr/bin:/bin"
    return subprocess.run(command, env={"PATH": path}, cwd=folder, capture_output=True, text=True, check=False)


def deepest(where: ProgramContext, folder: Path, pid: int) -> str:
    done = inside(where, folder, "sh", "-c", f"py-spy dump --pid {pid}")
    (process,) = parse_pyspy(done.stdout.encode())
    assert process.pid == pid
    return " ".join(frame.function for frame in process.threads[0].frames)


def test_the_stacks_of_a_hang_differ_where_it_hangs(tmp_path: Path) -> None:
    room = SharedFacts()
    name = "qwen3-30b-pretrain"
    pods = [member(rank, room, PRACTICE_FAULT="hang:7:1", A4_RECIPE=name) for rank in (0, 1)]
    running = [RECIPES[name](pod) for pod in pods]
    assert inside(pods[0], tmp_path / "0", "sh", "-c", "py-spy dump --pid 1201").returncode == 1, "it is not training"
    for program in running:
        for step in program:
            if isinstance(step, PauseStep) and step.seconds > FOREVER:
                break
    processes = inside(pods[1], tmp_path / "1", "sh", "-c", "pgrep -f 'python.*-u pretrain'").stdout.split()
    assert processes == [str(pid) for pid in range(1201, 1209)]
    found = {(rank, pid): deepest(pods[rank], tmp_path / str(rank), pid) for rank in (0, 1) for pid in (1201, 1202)}
    assert "_next_data" in found.pop((1, 1202))
    assert all("all_reduce" in stack for stack in found.values())
    assert inside(pods[1], tmp_path / "1", "sh", "-c", "py-spy record -o p.svg --pid 1202 && cat p.svg").stdout


@pytest.mark.parametrize(
    ("recipe", "env", "command", "outermost"),
    [
        (
            "qwen3-30b-pretrain",
            {"A4_TP": "2", "A4_PP": "4"},
            "pretrain_qwen.py --tensor-model-parallel-size 2",
            "pretrain_qwen.py",
        ),
        ("swift-sft", {"A4_SWIFT_TP": "8"}, "swift/cli/_megatron/sft.py", "swift/cli/_megatron/sft.py"),
        ("swift-dpo", {"A4_SWIFT_TP": "8"}, "swift/cli/_megatron/rlhf.py", "swift/cli/_megatron/rlhf.py"),
        ("own-script", {}, "train.py", "train.py"),
    ],
)
def test_stacks_are_those_of_the_program_that_trains(
    tmp_path: Path, recipe: str, env: dict[str, str], command: str, outermost: str
) -> None:
    where = member(0, SharedFacts(), nodes=1, PRACTICE_FAULT="hang:7", A4_RECIPE=recipe, **env)
    until_stuck(recipe, where)
    dump = inside(where, tmp_path / "0", "sh", "-c", "py-spy dump --pid 1201").stdout
    (process,) = parse_pyspy(dump.encode())
    assert command in process.command
    assert process.threads[0].frames[-1].file == outermost
    assert ("pretrain_qwen" in dump) == recipe.startswith("qwen3")
    assert command in inside(where, tmp_path / "0", "sh", "-c", "ps aux").stdout


@pytest.mark.parametrize(
    ("gpus", "tensor", "pipeline", "data"), [("2", "4", "2", 1), ("8", "2", "1", 8), ("8", "4", "2", 2)]
)
def test_the_parallel_sizes_are_those_of_the_job(gpus: str, tensor: str, pipeline: str, data: int) -> None:
    where = member(0, GPUS_PER_NODE=gpus, A4_TP=tensor, A4_PP=pipeline)
    sizes = next(line for line in until_stuck("qwen3-30b-pretrain", where)[0] if line.startswith("using world size"))
    assert f"data-parallel size: {data}," in sizes
    assert f"tensor-model-parallel size: {tensor}, pipeline-model-parallel size: {pipeline}" in sizes


def test_a_recorded_table_names_the_host_it_stands_for() -> None:
    lines, _ = printed(RECIPES["nccl-all-reduce"], member(0, nodes=1, GPUS_PER_NODE="4", HOSTNAME_PREFIX="job-w-"))
    ranks = [line for line in lines if line.startswith("#  Rank")]
    assert ranks
    assert all(" on  job-w-0-0 device" in line for line in ranks)


def test_an_evaluation_ends_with_its_table() -> None:
    lines, code = printed(RECIPES["qwen3-eval"], place(A4_EVAL_TASKS="cmmlu,ceval-valid"))
    assert code == 0
    assert [score.task for score in parse_lm_eval("".join(f"{line}\n" for line in lines).encode())] == [
        "cmmlu",
        "ceval-valid",
    ]


def test_a_test_of_nccl_with_wrong_values_fails() -> None:
    lines, code = printed(RECIPES["nccl-all-reduce"], member(0, nodes=1, PRACTICE_FAULT="wrong:3"))
    (test,) = parse_nccl("\n".join(lines).encode())
    wrong = [
        (row.out_of_place.wrong or 0, row.in_place.wrong or 0) for row in test.rows if row.out_of_place and row.in_place
    ]
    assert (code, test.out_of_bounds, test.ok) == (1, 12, False)
    assert wrong[3] == (12, 0)
    assert sum(map(sum, wrong)) == 12


@pytest.mark.parametrize(("fault", "pod"), [("hang:3", 1), ("hang:3:0", 0), ("hang:3:1", 1)])
def test_a_test_hangs_in_its_row_whichever_pod_is_at_fault(fault: str, pod: int) -> None:
    where = member(0, PRACTICE_FAULT=fault)
    lines, end = until_stuck("nccl-all-reduce", where)
    assert isinstance(end, PauseStep)
    assert waits_for_ever(end, where)
    assert sum(bool(re.match(r" +\d+ +\d+ +float", line)) for line in lines) == 3
    assert where.room.facts[HUNG_FACT] == pod


def test_a_gpu_with_a_fault_is_known_to_its_pod_only() -> None:
    room = SharedFacts()
    well, sick = (member(rank, room, PRACTICE_FAULT="xid:2") for rank in range(2))
    for where in (well, sick):
        trained(until_stuck("own-script", where)[0])
    assert (faulty_gpu(well), faulty_gpu(sick)) == (None, 3)


@pytest.mark.parametrize(
    ("text", "work", "told"),
    [
        ("nan:9,hang:3:1,slow:2@1", TRAINING, ""),
        ("wrong:3,hang:2", TEST, ""),
        ("nan:20", TRAINING, "PRACTICE_FAULT: nan:20 never happens: the training has 9 iterations."),
        ("hang:3:2", TRAINING, "PRACTICE_FAULT: hang:3:2 never happens: the job has 2 pods, counted from 0."),
        ("slowrank:9:7%,slowrank:1:3%@1", TRAINING, ""),
        ("slowrank:9:7%:network", TRAINING, ""),
        (
            "slowrank:9:7",
            TRAINING,
            'PRACTICE_FAULT: "slowrank:9:7" is no slowrank:RANK:PERCENT%, such as slowrank:9:7% or slowrank:9:7%:data.',
        ),
        (
            "slowrank:16:7%",
            TRAINING,
            "PRACTICE_FAULT: slowrank:16:7% never happens: the job has 16 ranks at most, counted from 0.",
        ),
        ("slowrank:9:7%", TEST, "PRACTICE_FAULT: slowrank:9:7% never happens: slowrank is a fault of a training."),
        ("nan", TRAINING, 'PRACTICE_FAULT: "nan" is no KIND:STEP or KIND:STEP:POD, such as nan:20 or hang:20:1.'),
        (
            "nan:3:x",
            TRAINING,
            'PRACTICE_FAULT: "nan:3:x" is no KIND:STEP or KIND:STEP:POD, such as nan:20 or hang:20:1.',
        ),
        ("hang:3:1:skip,hang:3:epoch@1,hang:3:data", TRAINING, ""),
        (
            "hang:3:1:stage",
            TRAINING,
            "PRACTICE_FAULT: hang:3:1:stage never happens: it takes two pipeline stages, and the training has one.",
        ),
        (
            "hang:3:nap",
            TRAINING,
            f"PRACTICE_FAULT: hang:3:nap never happens: no rank hangs by nap; there are {', '.join(HOW)}.",
        ),
        ("hang:3:skip", TEST, "PRACTICE_FAULT: hang:3:skip never happens: a test hangs in one way only."),
        ("boom:3", TRAINING, f"PRACTICE_FAULT: there is no fault boom; there are {', '.join(KINDS)}."),
        ("nan:3", TEST, "PRACTICE_FAULT: nan:3 never happens: nan is a fault of a training."),
        ("slow:3", "", "PRACTICE_FAULT: slow:3 never happens: slow is a fault of a training or an NCCL test."),
    ],
)
def test_a_fault_that_never_happens_is_reported(text: str, work: str, told: str) -> None:
    steps = 9 if work == TRAINING else None
    assert impossible_faults(text, work, steps=steps, pods=2, sizes=(16, 4, 1, 1)) == ([told] if told else [])


@pytest.mark.parametrize("how", ["skip", "order", "shape", "epoch", "gpu"])
def test_what_takes_replicas_never_happens_where_there_is_one(how: str) -> None:
    fault = f"hang:7:0:{how}"
    assert impossible_faults(fault, TRAINING, steps=9, pods=1, sizes=(8, 4, 2, 1)) == [
        f"PRACTICE_FAULT: {fault} never happens: it takes two data-parallel replicas, and the training has one."
    ]
    assert impossible_faults(fault, TRAINING, steps=9, pods=1) == [], "the sizes are not known"
    where = member(0, nodes=1, PRACTICE_FAULT=fault, A4_RECIPE="qwen3-30b-pretrain", A4_TP="4", A4_PP="2")
    assert parse_faults(where) == ()


def test_how_a_rank_hangs_is_reported_with_its_pod_and_without() -> None:
    where = member(0, PRACTICE_FAULT="hang:7:1:dead,hang:8:lock,hang:9,hang:9:skip@1,nan:3:dead")
    assert [(each.step, each.rank, each.how) for each in parse_faults(where)] == [
        (7, 1, "dead"), (8, None, "lock"), (9, None, ""),
    ]  # fmt: skip


def test_a_fault_behind_the_last_iteration_keeps_no_pod_waiting() -> None:
    where = member(0, PRACTICE_FAULT="hang:21:1")
    where.room.post("train ended", 0)
    assert until_stuck("qwen3-30b-pretrain", where)[1] == ExitStep(0)


def test_the_log_begins_with_the_faults_that_never_happen() -> None:
    program = choose_program(["bash", "/a4/launchers/run.sh"], {"A4_RECIPE": "qwen3-30b-pretrain"}, is_init=False)
    where = member(0, PRACTICE_FAULT="nan:40,spike:3")
    first, *others = islice(program(where), 9)
    assert first == PrintLine("practice cluster: PRACTICE_FAULT: nan:40 never happens: the training has 20 iterations.")
    assert not any(isinstance(step, PrintLine) and "PRACTICE_FAULT" in step.text for step in others)


@pytest.mark.parametrize(
    ("recipe", "fault", "why"),
    [
        ("swift-sft", "nan:5000", "the training has 200 iterations."),
        ("qwen3-30b-pretrain", "nan:5000", "the training has 20 iterations."),
        ("nccl-all-reduce", "hang:14", "the test has 14 rows, counted from 0."),
    ],
)
def test_a_fault_after_the_end_is_reported_every_kind_of_program(recipe: str, fault: str, why: str) -> None:
    program = choose_program(["bash", "/a4/launchers/run.sh"], {"A4_RECIPE": recipe}, is_init=False)
    where = member(0, PRACTICE_FAULT=fault, A4_SWIFT_EPOCHS="2")
    where.notes.clear()
    assert next(iter(program(where))) == PrintLine(f"practice cluster: PRACTICE_FAULT: {fault} never happens: {why}")


def test_every_kind_of_fault_is_one_that_something_does() -> None:
    """Each is asked for by its name in one of the programs."""
    texts = "".join(path.read_text() for path in Path(faults_module.__file__).parent.glob("*.py"))
    assert [kind for kind in KINDS if texts.count(f'"{kind}"') < 2] == []
