"""Trainings go on from their newest whole checkpoint."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from tests.launchers.conftest import Launch
from tests.launchers.sandbox import Sandbox

SAVE = "logs/output_mcore_qwen3_pretrain/checkpoint/pretrain-1"
ALL = "weight optimizer rng_state"


def saved(folder: Path, step: int, states: str = ALL, *, named: bool = True) -> None:
    """A checkpoint, as Megatron writes it; without states it is half of one."""
    (folder / f"iter_{step:07d}").mkdir(parents=True)
    if states:
        (folder / f"iter_{step:07d}/.metadata").write_text(states)
    if named:
        (folder / "latest_checkpointed_iteration.txt").write_text(f"{step}\n")


def trained(pod: Sandbox, *flags: str) -> tuple[list[str], list[str]]:
    """What torchrun is given where Pai-Megatron-Patch's script calls it, and what the log says."""
    for script in (pod.root / "scripts/examples").rglob("run_mcore_qwen3.sh"):
        save = pod.root / "mnt" / SAVE
        words = ["--nproc_per_node", "8", "train.py", "--save", str(save), "--train-iters", "40", *flags]
        pod.program(script, f"#!/bin/bash\nmkdir -p {save}\ntorchrun {' '.join(words)}\n")
    lines = pod.run("qwen3-30b-pretrain-pai.sh")
    (call,) = pod.calls("torchrun")
    return call[7:], [line.replace(str(pod.root), "") for line in lines]


BUILT = ("--no-load-optim", "--no-load-rng", "--no-save-optim")


@pytest.mark.slow(reason="runs a launcher as a process")
@pytest.mark.parametrize(
    ("steps", "given", "logged"),
    [
        ({}, [*BUILT], ""),
        ({15: ALL}, ["--no-save-optim", "--load", f"/mnt/{SAVE}"], "from the checkpoint of step 15 in /mnt/"),
        (
            {15: "weight rng_state"},
            ["--no-load-optim", "--no-save-optim", "--load", f"/mnt/{SAVE}"],
            "; the optimizer and the learning rate begin anew, as they were not saved",
        ),
        ({15: ALL, 20: ""}, ["--no-save-optim", "--load", f"/mnt/{SAVE}"], "the newest whole one: 15"),
        ({20: ""}, [*BUILT], "the newest whole one: none"),
        ({40: ALL}, [*BUILT], "is the last one of a training that is done: from the first weights"),
    ],
)
def test_pai_goes_on_from_the_newest_whole_checkpoint(
    launch: Launch, steps: dict[int, str], given: list[str], logged: str
) -> None:
    pod = launch("qwen3-30b-pretrain-pai", gpus=8)
    for step, states in steps.items():
        saved(pod.root / "mnt" / SAVE, step, states)
    found, lines = trained(pod, *BUILT)
    assert found == [*given, "--exit-signal-handler"]
    assert logged in "\n".join(lines)
    if 15 in steps:
        assert pod.text(f"mnt/{SAVE}/latest_checkpointed_iteration.txt") == "15\n", "Megatron loads what it names"


def test_pai_begins_anew_when_it_is_asked_to(launch: Launch) -> None:
    pod = launch("qwen3-30b-pretrain-pai", gpus=8, recipe={"resume": False})
    saved(pod.root / "mnt" / SAVE, 15)
    found, lines = trained(pod, *BUILT)
    assert "--load" not in found
    assert "from the first weights, as asked for" in lines


def test_pai_saves_the_optimizer_when_it_is_asked_to(launch: Launch) -> None:
    pod = launch("qwen3-30b-pretrain-pai", gpus=8, recipe={"train": {"saveOptimizer": True}})
    assert trained(pod, *BUILT)[0] == ["--no-load-optim", "--no-load-rng", "--exit-signal-handler"]


@pytest.mark.slow(reason="runs a launcher as a process")
def test_all_pods_begin_where_index_0_does(launch: Launch) -> None:
    first, second = (launch("qwen3-30b-pretrain-pai", index, gpus=16) for index in (0, 1))
    saved(first.root / "mnt" / SAVE, 15)
    first_words, _ = trained(first, *BUILT)
    assert first_words[-3:] == ["--load", f"/mnt/{SAVE}", "--exit-signal-handler"]
    saved(first.root / "mnt" / SAVE, 20)
    (first.root / "mnt" / SAVE / "iter_0000020/.metadata").write_text("weight")
    second_words, lines = trained(second, *BUILT)
    assert second_words[0] == "--no-save-optim", "with the optimizer, as index 0"
    assert not [line for line in lines if line.startswith("from the checkpoint")]


def swift(pod: Sandbox, recipe: str) -> tuple[dict[str, str], list[str]]:
    lines = pod.run(f"{recipe}.sh")
    words = pod.calls("megatron")[-1][1:]
    return dict(pairwise(words)), [line.replace(str(pod.root), "") for line in lines]


DPO = "mnt/megatron_output/Qwen3-30B-A3B-Instruct-2507"
LOAD = "Qwen3-30B-A3B-Instruct-2507-mcore"


@pytest.mark.parametrize(
    ("version", "states", "flags"),
    [
        ("3.10.3", ALL, {"--load": f"/{DPO}/v1-b", "--finetune": "false", "--ref_load": LOAD}),
        (
            "3.7.1", "weight",
            {"--load": f"/{DPO}/v1-b", "--no_load_optim": "true", "--no_load_rng": "true",
             "--extra_megatron_kwargs": '{"exit_signal_handler": true}'},
        ),
        ("4.3.2", ALL, {"--model": LOAD, "--mcore_model": f"/{DPO}/v1-b", "--finetune": "false", "--ref_model": LOAD}),
    ],
)  # fmt: skip
def test_swift_goes_on_from_its_newest_run(launch: Launch, version: str, states: str, flags: dict[str, str]) -> None:
    pod = launch("swift-dpo", image="registry.example/swift:1", recipe={"swift": {"version": version}})
    saved(pod.root / DPO / "v0-a", 30)
    saved(pod.root / DPO / "v1-b", 15, states)
    first, lines = swift(pod, "swift-dpo")
    assert {name: first.get(name) for name in flags} == flags
    assert any(line.startswith(f"from the checkpoint of step 15 in /{DPO}/v1-b") for line in lines)
    # It came to its end: the same launch again is a new training.
    again, lines = swift(pod, "swift-dpo")
    assert (again["--finetune"], again["--model" if version.startswith("4") else "--load"]) == ("true", LOAD)
    assert any("is the last one of a training that is done" in line for line in lines)


def test_swift_4_goes_on_from_weights_in_hugging_faces_form(launch: Launch) -> None:
    pod = launch("swift-dpo", image="registry.example/swift:1", recipe={"swift": {"version": "4.3.2"}})
    folder = pod.root / DPO / "v0-a/checkpoint-15"
    saved(folder, 15, "rng_state")
    (folder / "model.safetensors.index.json").write_text("{}")
    given, _ = swift(pod, "swift-dpo")
    assert (given["--model"], given["--finetune"], given["--no_load_optim"]) == (
        f"/{DPO}/v0-a/checkpoint-15", "false", "true",
    )  # fmt: skip
    assert "--mcore_model" not in given


def test_converted_weights_are_no_checkpoint(launch: Launch) -> None:
    pod = launch("swift-sft")
    folder = pod.root / "mnt/megatron_output/Qwen2.5-7B-Instruct"
    folder.mkdir(parents=True)
    (folder / "latest_checkpointed_iteration.txt").write_text("release\n")
    assert swift(pod, "swift-sft")[0]["--finetune"] == "true"
