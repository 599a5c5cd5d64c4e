"""Checkpoints that torch 2.11 and transformers 5.17 wrote (tests/fixtures/checkpoints.tar.gz), whole and damaged."""

import asyncio
import json
import os
import shutil
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from console.checkpoints.completeness import CheckpointState, StoredFile, Survey, survey_checkpoints
from console.checkpoints.reader import survey_bucket, survey_container
from console.errors import NotFound
from console.google.bucket_paths import GcsPlace
from practice.google.bucket_store import BUCKET, BucketStore
from tests.console.attach.files.pod import Pod
from tests.console.checkpoints.damages import (
    DAMAGES,
    FORMATS,
    POINTER,
    POINTER_DAMAGES,
    SWIFT,
    make_runs,
    spoil,
    unpack,
    vary,
)  # fmt: skip
from tests.google.practised import google

LATER = 10_000.0


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack(tmp_path_factory.mktemp("whole"))


@pytest.fixture(scope="module")
def runs(whole: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return make_runs(whole, tmp_path_factory.mktemp("runs"))


class Disk:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def read_heads(self, bytes_by_path: Mapping[str, int]) -> dict[str, bytes]:
        return {path: (self._folder / path).read_bytes()[:size] for path, size in bytes_by_path.items()}

    async def read_tails(self, bytes_by_path: Mapping[str, int]) -> dict[str, bytes]:
        return {path: (self._folder / path).read_bytes()[-size:] for path, size in bytes_by_path.items()}


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


Everywhere = Callable[[Path], Awaitable[Survey]]


async def on_a_mount(folder: Path) -> Survey:
    """As commands in a pod that mounts it read it."""
    return await survey_container(Pod(folder.parent).files, folder.name, time.time() + LATER)


async def in_a_bucket(folder: Path) -> Survey:
    """As it is read from a bucket, where folders without files are objects of their own, as gcsfuse makes them."""
    async with google() as (session, world):
        world.page = 1000
        vault, old = world.service_state(BucketStore), time.time() - 86_400
        for each in sorted(Path.rglob(folder, "*")):
            name = f"all/{each.relative_to(folder)}"
            if each.is_file():
                vault.put(BUCKET, name, each.read_bytes(), moment=old)
            elif not any(each.iterdir()):
                vault.put(BUCKET, f"{name}/", b"", moment=old)
        return await survey_bucket(session.google.storage, GcsPlace(BUCKET, "all/"), time.time())


PLACES = pytest.mark.parametrize("survey", [on_a_mount, in_a_bucket])
KINDS = pytest.mark.parametrize("kind", FORMATS | SWIFT)


@pytest.mark.slow(reason="runs the script of a pod in a shell")
@PLACES
@KINDS
async def test_forty_that_are_whole_in_other_ways_are_not_accused(
    runs: dict[str, Path], tmp_path: Path, kind: str, survey: Everywhere
) -> None:
    expected: set[str] = set()
    for number in range(40):
        place = f"run-{number}" if number % 2 else f"{number}/output"
        shutil.copytree(runs[kind], tmp_path / "all" / place)
        expected |= {f"{place}/{step}" for step in vary(tmp_path / "all" / place, kind, number)}
    found = await survey(tmp_path / "all")
    assert {each.path for each in found.checkpoints} == expected
    assert [each for each in found.checkpoints if each.state is not CheckpointState.COMPLETE or each.problems] == []
    assert found.notes == ()


@pytest.mark.slow(reason="runs the script of a pod in a shell")
@PLACES
@KINDS
async def test_forty_that_are_damaged_are_all_found(
    runs: dict[str, Path], tmp_path: Path, kind: str, survey: Everywhere
) -> None:
    damaged: dict[str, str] = {}
    pointers: dict[str, str] = {}
    for number in range(40):
        place = tmp_path / f"all/{number}"
        shutil.copytree(runs[kind], place)
        how, step = spoil(place, kind, number)
        if how in POINTER_DAMAGES:
            pointers[f"{number}/{POINTER}"] = POINTER_DAMAGES[how]
        else:
            damaged[f"{number}/{step}"] = how
    assert len(damaged) + len(pointers) == 40
    assert set(damaged.values()) | {how for how in POINTER_DAMAGES if POINTER_DAMAGES[how] in pointers.values()} == set(
        DAMAGES[kind]
    )
    found = await survey(tmp_path / "all")
    told = {each.path: each.problems for each in found.checkpoints if each.state is CheckpointState.INCOMPLETE}
    assert {path: how for path, how in damaged.items() if path not in told} == {}
    assert told.keys() == damaged.keys(), "those beside them are whole"
    assert all(told.values())
    assert sum(each.state is CheckpointState.COMPLETE for each in found.checkpoints) == 80 - len(damaged)
    notes = {note.partition(" ")[0]: note for note in found.notes}
    assert {path: words for path, words in pointers.items() if words not in notes.get(path, "")} == {}
    # The other pointers name the damaged one, if it is still there by that name.
    assert all(words.endswith(("which is incomplete", "which is not there", "step 200 is complete"))
               for words in found.notes)  # fmt: skip


@KINDS
def test_a_save_that_is_not_over_yet_is_being_written(runs: dict[str, Path], tmp_path: Path, kind: str) -> None:
    for number in range(len(DAMAGES[kind])):
        folder = tmp_path / str(number)
        shutil.copytree(runs[kind], folder)
        how, name = spoil(folder, kind, number)
        if how in POINTER_DAMAGES or how == "nothing":  # of an empty folder nobody knows since when it is empty
            continue
        for each in (folder / name).rglob("*"):
            os.utime(each)
        now = {each.path: each for each in looked_through(folder, 0).checkpoints}
        assert now[name].state is CheckpointState.WRITING, how


def shell_alone(programs: Path) -> Path:
    """A folder with the programs of a small image, among them no Python."""
    programs.mkdir()
    for name in ("sh", "find", "head", "tail", "xargs", "stat", "df", "awk", "pwd", "dirname", "basename", "readlink"):
        if path := shutil.which(name):
            (programs / name).symlink_to(path)
    return programs


@pytest.mark.slow(reason="runs the script of a pod in a shell")
@pytest.mark.parametrize("python", [True, False], ids=["with python", "with a shell alone"])
@pytest.mark.parametrize(
    "name",
    [
        "dcp/step-200/__1_0.distcp", "dcp/step-200/.metadata", "hf/checkpoint-100/config.json",
        "hf/checkpoint-100/model-00004-of-00010.safetensors", "legacy/iter_0000200/mp_rank_01/model_optim_rng.pt",
    ],
)  # fmt: skip
async def test_a_file_that_may_not_be_read_is_not_judged(whole: Path, tmp_path: Path, name: str, python: bool) -> None:
    folder = tmp_path / "pod/mnt"
    shutil.copytree(whole, folder)
    # To root all files can be read: a link of links to itself cannot, and the list tells the size of the file.
    pod = Pod(tmp_path / "pod", None if python else shell_alone(tmp_path / "programs"), alone=not python)

    class Files:
        def __getattr__(self, member: str) -> Any:
            return getattr(pod.files, member)

        async def list_tree(self, place: str) -> Any:
            found = await pod.files.list_tree(place)
            (folder / name).unlink()
            (folder / name).symlink_to(folder / name)
            return found

    found = await survey_container(cast("Any", Files()), "mnt", time.time() + LATER)
    wrong = [(each.state, each.problems) for each in found.checkpoints if each.state is not CheckpointState.COMPLETE]
    assert wrong == [(CheckpointState.UNKNOWN, (f"{name.split('/', 2)[2]} cannot be read",))]


def test_pointers_that_are_wrong_are_reported(whole: Path, tmp_path: Path) -> None:
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


@pytest.mark.slow(reason="runs the script of a pod in a shell")
@pytest.mark.parametrize("python", [True, False], ids=["with python", "with a shell alone"])
async def test_in_a_container(whole: Path, tmp_path: Path, python: bool) -> None:
    programs = shell_alone(tmp_path / "programs")
    shutil.copytree(whole, tmp_path / "pod/mnt")
    os.truncate(tmp_path / "pod/mnt/hf/checkpoint-100/model-00004-of-00010.safetensors", 100)
    pod = Pod(tmp_path / "pod", None if python else programs, alone=not python)
    found = await survey_container(pod.files, "mnt", time.time() + LATER)
    wrong = [each for each in found.checkpoints if each.state is not CheckpointState.COMPLETE]
    claims = "model-00004-of-00010.safetensors claims 136 bytes up to the end of its header, the file has 100"
    assert [(each.path, each.problems) for each in wrong] == [("hf/checkpoint-100", (claims,))]
    assert len(found.checkpoints) == 8
    with pytest.raises(NotFound):
        await survey_container(pod.files, "nowhere/at all", time.time())


@pytest.mark.slow(reason="runs the script of a pod in a shell")
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
