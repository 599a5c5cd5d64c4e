"""Checkpoints that torch 2.11 and transformers 5.17 wrote (tests/fixtures/checkpoints.tar.gz), whole and damaged."""

from __future__ import annotations

import asyncio
import json
import os
import pickle
import random
import shutil
import tarfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from console.checkpoints.judge import CheckpointState, StoredFile, Survey, read_needed_sizes, survey_checkpoints
from console.checkpoints.sources import survey_container
from console.errors import NotFound, Unreadable
from tests.console.attach.files.pod import Pod

if TYPE_CHECKING:
    from collections.abc import Mapping

PACKED = Path(__file__).parents[2] / "fixtures/checkpoints.tar.gz"
FORMATS = {"dcp": "torch DCP", "megatron": "Megatron torch_dist", "legacy": "Megatron torch", "hf": "safetensors"}
SWIFT = {"swift": "safetensors", "swift-megatron": "Megatron torch_dist"}  # adapters by SWIFT, and Megatron-SWIFT
OPTIONAL = {"generation_config.json", "additional_config.json"}
LATER = 10_000.0


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    with tarfile.open(PACKED) as packed:
        if hasattr(tarfile, "data_filter"):  # Python 3.11.2 has none yet, and 3.12 warns without
            packed.extraction_filter = tarfile.data_filter
        packed.extractall(folder)
    older, legacy = folder / "ck/legacy/iter_0000100", folder / "ck/legacy/iter_0000200"
    shutil.copytree(older, legacy)  # so that each has one beside it
    (folder / "ck/legacy/latest_checkpointed_iteration.txt").write_text("200")
    return folder / "ck"


@pytest.fixture(scope="module")
def runs(whole: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A run of each format with two checkpoints; those of ms-swift have the files that it adds."""
    made = {kind: tmp_path_factory.mktemp(kind) / "v0-20260901-120000" for kind in SWIFT}
    for step in (whole / "hf").iterdir():
        adapter = made["swift"] / step.name
        adapter.mkdir(parents=True)
        shutil.copy2(step / "model-00001-of-00010.safetensors", adapter / "adapter_model.safetensors")
        for name in ("optimizer.pt", "scheduler.pt", "rng_state_0.pth", "rng_state_1.pth", "trainer_state.json",
                     "training_args.bin"):  # fmt: skip
            shutil.copy2(step / name, adapter / name)
        (adapter / "adapter_config.json").write_text('{"peft_type": "LORA", "r": 8}')
        (adapter / "additional_config.json").write_text('{"lora_dtype": null}')
        (adapter / "args.json").write_text('{"model": "Qwen/Qwen2.5-7B-Instruct"}')
    shutil.copytree(whole / "megatron", made["swift-megatron"])
    for step in made["swift-megatron"].iterdir():
        if step.is_dir():
            (step / "args.json").write_text('{"save": "megatron_output"}')
    (made["swift-megatron"] / "args.json").write_text("{}")
    return {**{kind: whole / kind for kind in FORMATS}, **made}


class Disk:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def read_heads(self, wanted: Mapping[str, int]) -> dict[str, bytes]:
        return {path: (self._folder / path).read_bytes()[:size] for path, size in wanted.items()}

    async def read_tails(self, wanted: Mapping[str, int]) -> dict[str, bytes]:
        return {path: (self._folder / path).read_bytes()[-size:] for path, size in wanted.items()}


def looked_through(folder: Path, later: float = LATER) -> Survey:
    every = [each for each in folder.rglob("*") if each.is_file()]
    files = [StoredFile(str(each.relative_to(folder)), each.stat().st_size, each.stat().st_mtime) for each in every]
    folders = [str(each.relative_to(folder)) for each in folder.rglob("*") if each.is_dir()]
    return asyncio.run(survey_checkpoints(files, Disk(folder), time.time() + later, folder.name, folders))


@pytest.mark.parametrize("kind", FORMATS | SWIFT)
def test_what_was_saved_whole_is_complete(runs: dict[str, Path], kind: str) -> None:
    found = looked_through(runs[kind])
    assert [each.state for each in found.checkpoints] == [CheckpointState.COMPLETE] * 2
    assert {each.format for each in found.checkpoints} == {(FORMATS | SWIFT)[kind]}
    assert found.last_complete is found.checkpoints[-1]
    assert [each.step for each in found.checkpoints] == ([50, 100] if kind in {"hf", "swift"} else [100, 200])
    assert found.notes == ()


@pytest.mark.parametrize("kind", FORMATS | SWIFT)
def test_forty_that_are_whole_in_other_ways_are_not_accused(runs: dict[str, Path], tmp_path: Path, kind: str) -> None:
    for number in range(40):
        chance = random.Random(number)
        folder = tmp_path / f"run-{number}" if number % 2 else tmp_path / str(number) / "output"
        shutil.copytree(runs[kind], folder)
        steps = sorted(each for each in folder.iterdir() if each.is_dir())
        if chance.random() < 0.4:
            shutil.rmtree(steps.pop(0))
        if chance.random() < 0.4:
            (folder / "events.out.tfevents.1").write_bytes(b"")
            (folder / "runs").mkdir()
            (folder / "runs/step-7.png").write_bytes(b"png")
        for step in steps:
            if chance.random() < 0.3:
                (step / ".lock").write_bytes(b"")
                (step / "merges.txt").write_text("")
                (step / "tokenizer.bin").write_bytes(b"no archive at all")
        if kind in {"hf", "swift"} and chance.random() < 0.3:
            for step in steps:
                (step / "optimizer.pt").unlink()  # save_only_model
        if chance.random() < 0.3:
            steps[-1].rename(steps[-1].with_name(f"step_{30_000 + number}"))
            for name in ("latest_checkpointed_iteration.txt",):
                (folder / name).unlink(missing_ok=True)
        found = looked_through(folder)
        assert len(found.checkpoints) == len(steps), number
        assert [(each.state, each.problems) for each in found.checkpoints] == [(CheckpointState.COMPLETE, ())] * len(
            steps
        ), number
        assert found.notes == (), number


def needed(step: Path) -> list[Path]:
    """Files without which it cannot be loaded."""
    return sorted(each for each in step.rglob("*") if each.is_file() and each.name not in OPTIONAL)


@pytest.mark.parametrize("kind", FORMATS | SWIFT)
def test_forty_that_are_damaged_are_all_found(runs: dict[str, Path], tmp_path: Path, kind: str) -> None:
    for number in range(40):
        chance = random.Random(number)
        folder = tmp_path / str(number)
        shutil.copytree(runs[kind], folder)
        step = max((each for each in folder.iterdir() if each.is_dir()), key=lambda each: each.stat().st_mtime)
        file = chance.choice(needed(step))
        how = ("missing", "empty", "cut", "half", "nothing", "unfinished")[number % 6]
        if how == "missing":
            file.unlink()
        elif how == "empty":
            os.truncate(file, 0)
        elif how == "cut":
            os.truncate(file, file.stat().st_size - 1)
        elif how == "half":
            os.truncate(file, file.stat().st_size // 2)
        elif how == "nothing":
            for each in step.iterdir():
                shutil.rmtree(each) if each.is_dir() else each.unlink()
        else:
            step = step.rename(step.with_name(f"tmp-{step.name}"))
        found = looked_through(folder)
        states = {each.path: each for each in found.checkpoints}
        assert states[step.name].state is CheckpointState.INCOMPLETE, (number, how, file.name)
        assert states[step.name].problems
        assert sum(each.state is CheckpointState.COMPLETE for each in found.checkpoints) == 1, (number, how, file.name)
        if how != "nothing":  # of an empty folder nobody knows since when it is empty
            for each in step.rglob("*"):
                os.utime(each)
            now = {each.path: each for each in looked_through(folder, 0).checkpoints}
            assert now[step.name].state is CheckpointState.WRITING, (number, how, file.name)


def test_pointers_that_are_wrong_are_told(whole: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(whole / "megatron", folder)
    pointer = folder / "latest_checkpointed_iteration.txt"
    for said, told in (
        ("200", ""), ("release", ""), ("100", "names step 100, but step 200 is complete"),
        ("300", "names step 300, which is not there"), ("\x1b]0;x", "names no step: '\\x1b]0;x'"),
    ):  # fmt: skip
        pointer.write_text(said)
        assert looked_through(folder).notes == ((f"{pointer.name} {told}",) if told else ())
    pointer.write_text("200")
    (folder / "iter_0000200/.metadata").unlink()
    found = looked_through(folder)
    assert found.notes == (f"{pointer.name} names step 200, which is incomplete",)
    assert found.last_complete
    assert found.last_complete.step == 100


def test_one_checkpoint_by_itself_and_one_of_another_name(whole: Path) -> None:
    alone = looked_through(whole / "hf/checkpoint-50")
    assert [(each.path, each.step, each.state) for each in alone.checkpoints] == [("", 50, CheckpointState.COMPLETE)]
    assert looked_through(whole.parent).last_complete
    assert len(looked_through(whole).checkpoints) == 8


class Evil:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("touch /tmp/a4-evil-was-run",)


def test_a_pickle_runs_nothing_and_takes_no_memory_that_it_asks_for(tmp_path: Path) -> None:
    Path("/tmp/a4-evil-was-run").unlink(missing_ok=True)
    for data in (
        pickle.dumps(Evil()), pickle.dumps({"storage_data": Evil()}), b"\x80\x02r\xff\xff\xff\xffN.", b"", b"garbage",
        b"\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\x7f.", b"(" * 100_000 + b"t" * 100_000 + b".",
    ):  # fmt: skip
        with pytest.raises(Unreadable):
            read_needed_sizes(data)
    assert not Path("/tmp/a4-evil-was-run").exists()


@pytest.mark.parametrize("python", [True, False], ids=["with python", "with a shell alone"])
async def test_in_a_container(whole: Path, tmp_path: Path, python: bool) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("sh", "find", "head", "tail", "xargs", "stat", "df", "awk", "pwd", "dirname", "basename", "readlink"):
        if path := shutil.which(name):
            (programs / name).symlink_to(path)
    shutil.copytree(whole, tmp_path / "pod/mnt")
    os.truncate(tmp_path / "pod/mnt/hf/checkpoint-100/model-00004-of-00010.safetensors", 100)
    pod = Pod(tmp_path / "pod", None if python else programs, alone=not python)
    found = await survey_container(pod.files, "mnt", time.time() + LATER)
    wrong = [each for each in found.checkpoints if each.state is not CheckpointState.COMPLETE]
    assert [(each.path, each.problems) for each in wrong] == [
        ("hf/checkpoint-100", ("model-00004-of-00010.safetensors has 100 bytes, its header alone 120",))
    ] or wrong[0].problems[0].startswith("model-00004-of-00010.safetensors has 100 ")
    assert len(found.checkpoints) == 8
    with pytest.raises(NotFound):
        await survey_container(pod.files, "nowhere/at all", time.time())


async def test_ten_thousand_files_take_less_than_five_seconds(whole: Path, tmp_path: Path) -> None:
    folder = tmp_path / "pod/out"
    shard = (whole / "hf/checkpoint-50/model-00001-of-00010.safetensors").read_bytes()
    for number in range(10):
        step = folder / f"checkpoint-{number}"
        step.mkdir(parents=True)
        names = [f"model-{each:05}-of-01000.safetensors" for each in range(1, 1001)]
        for name in names:
            (step / name).write_bytes(shard)
        index = {"weight_map": {f"layer.{number}": name for number, name in enumerate(names)}}
        (step / "model.safetensors.index.json").write_text(json.dumps(index))
    pod = Pod(tmp_path / "pod")
    begun = time.process_time()
    found = await survey_container(pod.files, "out", time.time() + LATER)
    assert {each.state for each in found.checkpoints} == {CheckpointState.COMPLETE}
    assert time.process_time() - begun < 5
