"""What pods print: tables as recorded or as published, cut to what was asked for, and lines in the real formats."""

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest

from console.metrics.nccl_history import mean_speedup
from practice.programs import shell_commands
from practice.programs.choose_program import RECIPES
from practice.programs.fault_settings import fault_at
from practice.programs.recordings import all_reduce_rows
from practice.programs.steps import ExitStep, PauseStep, PrintLine, Program, ProgramContext, SharedFacts, WaitForFact
from trainlog import A4_ALL_REDUCE, NcclResult, NcclTest, RowRating, judge_row, judge_test, parse_nccl


def place(rank: int = 0, nodes: int = 1, notes: Any = None, **env: Any) -> ProgramContext:
    basic = {"JOB_COMPLETION_INDEX": str(rank), "NNODES": str(nodes), "GPUS_PER_NODE": "8", "HOSTNAME": "pod"}
    moments = iter(range(10**9))
    return ProgramContext(
        [], basic | env, {}, SharedFacts(), random.Random(1), lambda: float(next(moments)), notes=notes or {}
    )


def printed(program: Program, where: ProgramContext) -> tuple[list[str], int]:
    """All lines and the exit code, as if every wait were over at once."""
    lines: list[str] = []
    for step in program(where):
        if isinstance(step, PrintLine):
            lines.append(step.text)
        elif isinstance(step, ExitStep):
            return lines, step.code
        elif isinstance(step, WaitForFact):
            assert step.fact in where.room.facts, step.fact
    return lines, 0


ALL_REDUCE = RECIPES["nccl-all-reduce"]


def table(lines: list[str]) -> list[str]:
    return [line for line in lines if re.match(r" *\d+ +\d+ +float ", line)]


def test_the_table_of_four_gpus_is_the_recording() -> None:
    lines, code = printed(ALL_REDUCE, place(GPUS_PER_NODE="4"))
    rows = table(lines)
    assert code == 0
    assert [int(row.split()[0]) for row in rows] == [2 * 2**20 * 2**power for power in range(14)]
    assert set(rows) <= set(all_reduce_rows().values())
    assert "# Avg bus bandwidth    : 275.232 " in lines


def test_it_says_that_it_is_a_recording() -> None:
    lines, _ = printed(ALL_REDUCE, place(GPUS_PER_NODE="4"))
    before = lines[: lines.index(table(lines)[0])]
    assert any("recording on 4 x NVIDIA H200" in line for line in before)


def test_eight_gpus_never_print_the_recording_of_four() -> None:
    lines, code = printed(ALL_REDUCE, place())
    assert code == 0
    assert (
        "# practice cluster: figures worked out from the published ones of 16 GPUs of A4, nothing was measured" in lines
    )
    assert sum(line.startswith("#  Rank") for line in lines) == 8
    assert not set(table(lines)) & set(all_reduce_rows().values())
    (test,) = parse_nccl("\n".join(lines).encode())
    assert test.ranks == 8


def test_the_asked_sizes_are_shown() -> None:
    lines, _ = printed(ALL_REDUCE, place(A4_NCCL_BEGIN="1M", A4_NCCL_END="4M", A4_NCCL_WARMUP="3", A4_NCCL_ITERS="7"))
    assert [row.split()[0] for row in table(lines)] == ["1048576", "2097152", "4194304"]
    (settings,) = [line for line in lines if line.startswith("# nThread")]
    assert "minBytes 1048576 maxBytes 4194304 step: 2(factor) warmup iters: 3 iters: 7" in settings
    values = [float(row.split()[column]) for row in table(lines) for column in (7, 11)]
    assert f"# Avg bus bandwidth    : {sum(values) / 6:g} " in lines


def two_pods(**env: Any) -> NcclTest:
    """The test that 16 GPUs print, from its whole log."""
    where = place(nodes=2, HOSTNAME_PREFIX="test-workload-", DOMAIN_NAME="test.default.svc", **env)
    where.room.post("sshd 1")
    lines, code = printed(ALL_REDUCE, where)
    assert code == 0
    before = lines[: lines.index(table(lines)[0])]
    assert "# practice cluster: figures worked out from the published ones of A4, nothing was measured" in before
    devices = [line.split(" on ")[1] for line in before if line.startswith("#  Rank")]
    assert len(devices) == 16
    assert devices[15].split()[0] == "test-workload-0-1"
    assert {device.rpartition("] ")[2] for device in devices} == {"NVIDIA B200"}
    (test,) = parse_nccl("\n".join(lines).encode())
    values = [half.busbw for row in test.rows for half in (row.out_of_place, row.in_place) if half and half.busbw]
    assert test.avg_busbw == pytest.approx(sum(values) / len(values), abs=0.01)
    return test


def test_two_pods_reach_what_is_published_of_a4() -> None:
    test = two_pods()
    assert (test.ranks, test.ok, test.finished) == (16, True, True)
    assert [row.size for row in test.rows] == [2 * 2**20 * 2**power for power in range(14)]
    known = {row.size: row for row in test.rows}
    for size, busbw in A4_ALL_REDUCE:
        for half in (known[size].out_of_place, known[size].in_place):
            assert half is not None
            assert half.time_us is not None
            assert half.busbw == pytest.approx(busbw, rel=0.05)
            assert half.algbw == pytest.approx(size / half.time_us / 1000, abs=0.01)
    assert [judge_row(row).word for row in test.rows] == [RowRating.NONE] * 2 + [RowRating.GOOD] * 12
    assert judge_test(test, accelerator="nvidia-b200").passing is NcclResult.PASSED


def test_rows_of_two_pods_are_those_asked_for() -> None:
    test = two_pods(A4_NCCL_BEGIN="1K", A4_NCCL_END="3G", A4_NCCL_FACTOR="10")
    assert [row.size for row in test.rows] == [1024 * 10**power for power in range(7)]
    best = [row.best_busbw or 0 for row in test.rows]
    assert best == sorted(best)


def test_a_slow_network_keeps_two_pods_below_the_line() -> None:
    test = two_pods(PRACTICE_FAULT="slow:3")
    assert [judge_row(row).word for row in test.rows] == [RowRating.NONE] * 2 + [RowRating.GOOD] + [
        RowRating.BELOW
    ] * 11
    assert judge_test(test, accelerator="nvidia-b200").passing is NcclResult.FAILED


def test_tests_differ_a_little_from_run_to_run() -> None:
    where = place(nodes=2, notes={"a4-practice/tests": "2"})
    where.room.post("sshd 1")
    first, second = parse_nccl("\n".join(printed(ALL_REDUCE, where)[0]).encode())
    assert first.rows != second.rows
    assert mean_speedup(first, second) == pytest.approx(0, abs=0.05)


def test_sizes_without_a_recording_are_left_out_and_counted() -> None:
    lines, _ = printed(ALL_REDUCE, place(GPUS_PER_NODE="4", A4_NCCL_BEGIN="3M", A4_NCCL_END="12M"))
    assert table(lines) == []
    assert any("3 of 3 sizes are left out" in line for line in lines)


@pytest.mark.parametrize("bad", [{"A4_NCCL_BEGIN": "lots"}, {"A4_NCCL_FACTOR": "1"}, {"A4_NCCL_END": "1"}])
def test_wrong_sizes_fail_the_job(bad: dict[str, Any]) -> None:
    lines, code = printed(ALL_REDUCE, place(**bad))
    assert code == 1
    assert "all-reduce: failed with exit code 1" in lines[-2]
    assert lines[-1] == "nccl-all-reduce ended with exit code 1"


def test_steps_are_numbered_as_by_the_launchers() -> None:
    lines, _ = printed(ALL_REDUCE, place())
    steps = [line for line in lines if line.startswith("step ") and line.endswith(": run")]
    names = ["libraries", "gpus", "ssh", "discovery", "order", "hostfile", "connectivity", "all-reduce"]
    assert steps == [f"step {number} {name}: run" for number, name in enumerate(names, 1)]


def test_another_rank_ends_with_the_code_of_the_first() -> None:
    where = place(rank=1, nodes=2)
    where.room.post("found 1")
    where.room.post("exit code", 5)
    lines, code = printed(ALL_REDUCE, where)
    assert code == 5
    assert "step 5 order: skip: index 0 does this" in lines
    assert "waiting for index 0 to end" in lines


def test_a_kept_pod_does_not_end() -> None:
    last = ""
    for step in ALL_REDUCE(place(SLEEP_INFINITY="true")):
        if isinstance(step, PauseStep) and step.seconds > 10**6:
            break
        last = step.text if isinstance(step, PrintLine) else last
    assert last == "nccl-all-reduce ended with exit code 0; the pod is kept until the job is stopped"


def test_the_smoke_test_names_every_rank() -> None:
    where = place(rank=0, nodes=2)
    where.room.post("sshd 1")
    where.room.post("ready 1")
    lines, _ = printed(RECIPES["ddp-smoke"], where)
    assert sum(line.startswith("[rank ") for line in lines) == 8
    assert "expected sum 120.0, actual sum 120.0: PASSED on 16 GPUs" in lines


def schema_recipes() -> list[str]:
    schema = json.loads(Path("chart/values.schema.json").read_text(encoding="utf-8"))
    names: list[str] = schema["properties"]["recipe"]["properties"]["id"]["enum"]
    return names


def launcher_steps(recipe: str) -> list[str]:
    """The steps that are left without switches, in the order in which the shell script has them."""
    text = Path(f"launchers/{recipe}.sh").read_text(encoding="utf-8")
    text = text.replace("begin_training", "step train")
    found = re.findall(r"^ {0,4}(?:step_([a-z_]+)|step ([a-z-]+)|convert_weights)", text, re.MULTILINE)
    names = [called.replace("_", "-") or named or "convert" for called, named in found]
    unasked = {"train-json", "done", "end"} | ({"config", "before"} if recipe == "own-script" else set())
    asked = [name for name in names if name not in unasked]
    return ["megatron", "sync", *asked[1:]] if "megatron" in asked else asked  # its function waits for index 0


MEGATRON = RECIPES["qwen3-30b-pretrain"]


def iterations(lines: list[str]) -> list[str]:
    return [line for line in lines if "] iteration " in line]


def test_iterations_are_megatrons() -> None:
    lines, code = printed(MEGATRON, place(A4_TRAIN_ITERATIONS="30"))
    assert code == 0
    first = iterations(lines)[0]
    assert len(iterations(lines)) == 30
    for field in ("consumed samples:", "elapsed time per iteration (ms):", "throughput per GPU (TFLOP/s/GPU):",
                  "learning rate:", "global batch size:", "lm loss:", "loss scale: 1.0", "grad norm:"):  # fmt: skip
        assert field in first
    assert any("made up; nothing is trained" in line for line in lines)


def test_only_the_last_rank_prints_iterations() -> None:
    where = place(rank=0, nodes=2)
    for fact in ("sshd 1", "train started 1"):
        where.room.post(fact)
    where.room.post("train ended", 0)
    lines, _ = printed(MEGATRON, where)
    assert iterations(lines) == []


@pytest.mark.parametrize("recipe", schema_recipes())
def test_every_recipe_of_the_chart_prints_the_steps_of_its_launcher(recipe: str) -> None:
    lines, code = printed(RECIPES[recipe], place(A4_RECIPE=recipe, A4_TRAIN_ITERATIONS="3"))
    assert code == 0
    steps = re.findall(r"^step \d+ (\S+): (?:run|skip)", "\n".join(lines), re.MULTILINE)
    assert steps[6:] == launcher_steps(recipe)  # the first six prepare the pod


@pytest.mark.parametrize("recipe", ["qwen3-sft", "qwen3-next-pretrain"])
def test_pods_with_nothing_to_do_are_kept(recipe: str) -> None:
    names = ("ENV_SETUP", "DATA_BUILD", "CLONE_REPO", "DOWNLOAD_DATA", "CHECKPOINT_CONVERSION", "TRAINING")
    switches: dict[str, Any] = {f"SKIP_{name}": "true" for name in names}
    lines, _ = printed(RECIPES[recipe], place(A4_RECIPE=recipe, **switches))
    assert "SKIP_TRAINING=true" in " ".join(lines)
    assert f"{recipe} has nothing to run; the pod is kept until the job is stopped" in lines


@pytest.mark.parametrize("version", ["3.10.3", "4.1.0"])
def test_swift_prints_as_its_version_does(version: str) -> None:
    lines, _ = printed(RECIPES["swift-dpo"], place(A4_SWIFT_VERSION=version, A4_SWIFT_BETA="0.1"))
    shown = [line for line in lines if "rewards/margins" in line]
    assert len(shown) == 100
    assert ("'iteration': '100/100'" in shown[-1]) == (version == "4.1.0")


def test_a_nan_takes_the_loss_out_of_the_line() -> None:
    lines, _ = printed(MEGATRON, place(A4_TRAIN_ITERATIONS="5", notes={"a4-practice/fault": "nan:3"}))
    assert ["lm loss" in line for line in iterations(lines)] == [True, True, False, False, False]
    assert "grad norm: nan" in iterations(lines)[-1]


@pytest.mark.parametrize(
    ("text", "rank", "attempt", "step"),
    [
        ("nan:3", 0, "0", 3),
        ("oom:7:1", 0, "0", None),
        ("oom:7:1", 1, "0", 7),
        ("oom:7@1", 0, "0", None),
        ("oom:7@1", 0, "1", 7),
    ],
)
def test_faults_hit_who_they_are_meant_for(text: str, rank: int, attempt: str, step: int | None) -> None:
    notes = {"a4-practice/fault": text, "jobset.sigs.k8s.io/restart-attempt": attempt}
    assert fault_at(place(rank=rank, notes=notes), text.partition(":")[0]) == step


def test_simple_commands_are_done() -> None:
    where = place()
    where.argv = ["sh", "-c", "echo hello $HOSTNAME && false"]
    assert printed(shell_commands.run_command, where) == (["hello pod"], 1)


def test_other_commands_are_only_named() -> None:
    where = place()
    where.argv = ["python", "train.py"]
    lines, _ = printed(shell_commands.run_command, where)
    assert lines == ["practice cluster: this command is not run here, the container only waits: python train.py"]
