"""Every recipe runs on the practice cluster as a person would run it: launched, watched, its logs read, stopped."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

import pytest

from practice.child import PracticeProcess
from tests.chart.plans import CATALOGUE
from tests.chart.typed import Typist
from tests.parsing import LauncherStep, StepState, parse_launcher_step
from tests.practice.test_programs import launcher_steps
from trainlog import NcclResult, RunReader, TrainingParser, judge_test, parse_lm_eval, parse_nccl

pytestmark = pytest.mark.slow(reason="runs a recipe on a practice cluster")

LIMIT = 60.0
"""Seconds within which all recipes have ended; they take five."""
SPEED = 1000.0
PREPARED = ["libraries", "gpus", "ssh", "discovery", "order", "hostfile"]
ENDLESS = {"interactive"}
"""Recipes whose pods stay until they are stopped."""
THREE, FOUR = ("--set", "recipe.train.amount=24576"), ("--set", "recipe.train.amount=4")
SHORTER = {
    # Days of training come to their end in a few iterations.
    "qwen3-next-pretrain": THREE, "qwen3-next-lustre": THREE, "qwen3-next-sft": FOUR, "qwen3-next-sft-json": FOUR,
    "qwen3-sft": FOUR, "qwen3-sft-json": FOUR,
}  # fmt: skip
PODS = {recipe.id: max(1, int(str(CATALOGUE.defaults(recipe.id)["gpus"])) // 8) for recipe in CATALOGUE.recipes()}
SWITCHES = ("clone", "download", "conversion", "training")
"""Of W06."""


@dataclass
class Played:
    """One job as it ended."""

    state: str = ""
    pods: list[dict[str, Any]] = field(default_factory=list)
    logs: list[list[str]] = field(default_factory=list)
    """Lines of each pod, by its number."""

    def steps(self, pod: int) -> list[LauncherStep]:
        return [step for step in map(parse_launcher_step, self.logs[pod]) if step is not None]

    def text(self, pod: int = -1) -> str:
        return "".join(f"{line}\n" for line in self.logs[pod])


@pytest.fixture(scope="module")
def typist(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Typist]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        practice = PracticeProcess.start(speed=SPEED, scene="empty")
        try:
            yield Typist(practice.kubeconfig())
        finally:
            practice.stop()


@pytest.fixture(scope="module")
def played(typist: Typist) -> dict[str, Played]:
    """Every recipe, at the same time, and one more that has nothing to do."""
    known = [recipe["id"] for recipe in typist.worked("recipes", "--json").data]
    typist.worked("preflight", "--fix", "P21", "--yes")  # without Lustre's legacy port no recipe that mounts it begins
    for recipe in known:
        typist.worked("launch", recipe, "--name", recipe, "--set", "queue=a4", *SHORTER.get(recipe, ()))
    skips = [word for name in SWITCHES for word in ("--set", f"recipe.skip.{name}=true")]
    typist.worked("launch", "W06", "--name", "for-shells", "--set", "queue=a4", "--set", "env.MINE=one two", *skips)
    jobs = {name: Played() for name in [*known, "for-shells"]}
    deadline = monotonic() + LIMIT
    while not all_ended(typist, jobs):
        assert monotonic() < deadline, {name: job.state for name, job in jobs.items()}
    pods = typist.worked("pods", "--json").data["items"]
    for name, job in jobs.items():
        job.pods = [pod for pod in pods if pod["name"].startswith(f"{name}-workload-")]
        job.logs = [typist.worked("logs", name, str(at)).out.splitlines() for at in range(len(job.pods))]
    return jobs


def all_ended(typist: Typist, jobs: dict[str, Played]) -> bool:
    """Whether each job has succeeded, or its pods have said that they are ready to stay."""
    for row in typist.worked("jobs", "--json").data["items"]:
        jobs[row["name"]].state = row["state"]
    for name, job in jobs.items():
        stays = name in ENDLESS or name == "for-shells"
        is_kept = stays and job.state == "running" and "the pod is kept" in typist.worked("logs", name).out
        if job.state != "succeeded" and not is_kept:
            return False
    return True


@pytest.mark.parametrize("recipe", [recipe.id for recipe in CATALOGUE.recipes()])
def test_it_reaches_its_end_with_its_step_lines(played: dict[str, Played], recipe: str) -> None:
    job = played[recipe]
    assert job.state == ("running" if recipe in ENDLESS else "succeeded")
    assert len(job.pods) == PODS[recipe]
    for at in range(len(job.pods)):
        steps = job.steps(at)
        begun = [step for step in steps if step.state in (StepState.RUNNING, StepState.SKIPPED)]
        assert [step.name for step in begun] == PREPARED + own_steps(recipe, at)
        assert [step.number for step in begun] == list(range(1, len(begun) + 1))
        ended = [step.number for step in steps if step.state is StepState.DONE]
        assert ended == [step.number for step in begun if step.state is StepState.RUNNING]
        assert not [step for step in steps if step.state is StepState.FAILED]
        end = "the pod is kept until the job is stopped" if recipe in ENDLESS else "ended with exit code 0"
        assert job.logs[at][-1].endswith(end)


def own_steps(recipe: str, pod: int) -> list[str]:
    names = [name for name in launcher_steps(recipe) if name != "train-json"]
    # Index 0 alone runs mpirun; the other pods serve it.
    return [] if pod and recipe in ("nccl-all-reduce", "connectivity") else names


TRAININGS = {
    "qwen3-30b-pretrain-pai": 9, "qwen3-30b-pretrain": 9, "qwen3-next-pretrain": 3, "qwen3-next-sft": 4,
    "qwen3-next-sft-json": 4, "qwen3-next-lustre": 3, "qwen3-sft": 4, "qwen3-sft-json": 4,
    "swift-dpo": 100, "swift-dpo-multinode": 100, "swift-sft": 100,
}  # fmt: skip
"""Recipe -> iterations; for pretraining tokens / global batch / sequence length."""


def training(lines: str) -> RunReader:
    parser = TrainingParser()
    parser.feed(lines.encode())
    parser.close()
    (run,) = parser.runs
    return run


@pytest.mark.parametrize("recipe", TRAININGS)
def test_a_training_prints_every_iteration_in_its_last_pod(played: dict[str, Played], recipe: str) -> None:
    job = played[recipe]
    run = training(job.text())
    assert run.format == ("ms-swift" if recipe.startswith("swift") else "megatron")
    assert [step.step for step in run.steps] == list(range(1, TRAININGS[recipe] + 1))
    for step in run.steps:
        assert None not in (step.loss, step.lr, step.grad_norm, step.step_time_s)
    assert "successfully saved checkpoint" in job.text()
    if "dpo" in recipe:
        assert {f"rewards/{key}" for key in ("chosen", "rejected", "accuracies", "margins")} <= set(run.steps[0].extra)
    for other in job.logs[:-1]:
        assert not [line for line in other if "] iteration " in line]


def test_nccl_gives_fourteen_rows_without_a_wrong_value(played: dict[str, Played]) -> None:
    (table,) = parse_nccl(played["nccl-all-reduce"].text(0).encode())
    assert [row.size for row in table.rows] == [2 * 2**20 * 2**power for power in range(14)]
    assert {half.wrong for row in table.rows for half in (row.out_of_place, row.in_place) if half} == {0}
    values = [half.busbw for row in table.rows for half in (row.out_of_place, row.in_place) if half and half.busbw]
    assert table.avg_busbw == pytest.approx(sum(values) / 28, abs=0.01)
    assert table.ranks == 16
    assert judge_test(table).passing is NcclResult.PASSED
    (quick,) = parse_nccl(played["nccl-one-pod"].text().encode())
    assert [row.size for row in quick.rows] == [2**20]


def test_every_gpu_names_its_node(played: dict[str, Played]) -> None:
    lines = played["connectivity"].logs[0]
    for at in (0, 1):
        assert lines.count(f"connectivity-workload-0-{at}") == 8


def test_the_sum_of_the_smoke_test_is_the_expected_one(played: dict[str, Played]) -> None:
    job = played["ddp-smoke"]
    assert "expected sum 120.0, actual sum 120.0: PASSED on 16 GPUs" in job.logs[0]
    for at in (0, 1):
        assert [line.split("]")[0] for line in job.logs[at] if " local rank " in line and "/16]" in line] == [
            f"[rank {rank}/16" for rank in range(8 * at, 8 * at + 8)
        ]


def test_interactive_pods_wait_for_shells(typist: Typist, played: dict[str, Played]) -> None:
    assert "ready: open a shell in this pod" in played["interactive"].text()
    shown = typist.worked("exec", "interactive", "0", "--", "nvidia-smi", "--query-gpu=index,name", "--format=csv")
    assert len([line for line in shown.out.splitlines() if "NVIDIA" in line]) == 8


def test_a_persons_variables_are_in_the_pod(typist: Typist, played: dict[str, Played]) -> None:
    assert played["for-shells"].state == "running"
    shown = typist.worked("exec", "for-shells", "1", "--", "env").out.splitlines()
    assert {"MINE=one two", "NNODES=2", "SLEEP_INFINITY=false", "NCCL_DEBUG=WARN"} <= set(shown)


def test_jobs_went_through_their_queue(typist: Typist, played: dict[str, Played]) -> None:
    queues = {row["name"]: row["queue"] for row in typist.worked("jobs", "--json").data["items"]}
    assert {name for name in played if queues.get(name, "a4") != "a4"} == {"qwen3-download"}, "which asks for no GPU"
    admitted = {row["job"]: row for row in typist.worked("workloads", "--json").data["items"]}["interactive"]
    assert (admitted["queue"], admitted["state"]) == ("a4", "admitted")


def test_with_every_switch_on_pods_are_interactive(played: dict[str, Played]) -> None:
    job = played["for-shells"]
    assert job.state == "running"
    assert [pod["phase"] for pod in job.pods] == ["Running"] * 2
    for at in range(2):
        own = [step for step in job.steps(at) if step.name not in PREPARED and step.name != "sync"]
        assert [(step.name, step.state) for step in own] == [
            (name, StepState.SKIPPED) for name in ("clone", "download", "convert", "train")
        ]


@pytest.mark.parametrize("gpus", ["12", "9", "20", "-8"])
def test_other_numbers_are_refused_with_a_sentence(typist: Typist, gpus: str) -> None:
    said = typist.a4("launch", "W03", "--name", "twelve", "--set", f"gpus={gpus}", "--dry-run")
    assert said.code == 2
    assert f"GPUs must be 1 to 8, or a multiple of 8, because a node has 8 GPUs; {gpus} was given." in said.err
    assert said.out == ""


def test_downloads_name_their_files_and_take_no_gpu(played: dict[str, Played]) -> None:
    job = played["qwen3-download"]
    assert [pod["gpus"] for pod in job.pods] == [0]
    sized = [line for line in job.logs[0] if re.search(r" \d{6,} .*/mnt/qwen-datasets/", line)]
    assert len(sized) == 4


def test_an_evaluation_has_one_row_for_each_task(played: dict[str, Played]) -> None:
    scores = parse_lm_eval(played["qwen3-eval"].text().encode())
    assert [score.task for score in scores] == ["cmmlu", "ceval-valid"]


def test_an_export_tells_how_precise_it_is(played: dict[str, Played]) -> None:
    assert "mean_diff" in played["swift-export"].text()


def test_what_stays_goes_when_it_is_stopped(typist: Typist, played: dict[str, Played]) -> None:
    assert played["for-shells"].state == "running"
    said = typist.worked("stop", "for-shells", "--json").data
    assert "JobSet for-shells" in said["deleted"]
    assert "for-shells" not in [row["name"] for row in typist.worked("jobs", "--json").data["items"]]
