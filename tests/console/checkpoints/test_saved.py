"""What is known of a job's checkpoints: from its log, from its folder, and what its end would lose."""

import asyncio
import os
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from console.checkpoints import reader as reading
from console.checkpoints.completeness import Checkpoint, CheckpointState, Survey
from console.checkpoints.reader import CheckpointReader
from console.checkpoints.saved_state import REREAD_SECONDS, SavedState, list_checkpoint_faults, values_to_resume
from console.kube.objects.jobset import Mount
from console.metrics.job_measures import JobMeasures
from console.metrics.lost_work import CHECKPOINTS_IN_PODS
from tests.console.attach.files.pod import Pod
from tests.parsing import run_of
from tests.screens.queue_scene import job, queue_scene
from trainlog import Step

NOW = 1_000_000.0


def measures(saved: int = 0, ago: float = 600.0, place: str = "/out") -> JobMeasures:
    """A run of 100 steps of ten seconds; `saved`: the step of a checkpoint, so many seconds ago."""
    found, steps = JobMeasures(("default", "llama")), range(1, 101)
    run = run_of((Step(number, 1000, 1.0) for number in steps), NOW, [NOW - 10 * (100 - number) for number in steps])
    if saved:
        run.add_checkpoint(saved, NOW - ago, place)
    found.tracks = (run,)
    return found


def checkpoint(step: int, state: CheckpointState, ago: float, *problems: str) -> Checkpoint:
    return Checkpoint(f"iter_{step:07}", "torch DCP", step, state, 100, 3, NOW - ago, problems)


def read(*checkpoints: Checkpoint, ago: float = 60.0, notes: tuple[str, ...] = ()) -> SavedState:
    return SavedState(NOW - ago, "/out", Survey(checkpoints, notes), by="7 files in 0.3 s, by commands in pod 0")


WHOLE = checkpoint(40, CheckpointState.COMPLETE, 1800)


def test_faults_are_the_newest_first_and_end_with_wrong_pointers() -> None:
    survey = Survey(
        (
            checkpoint(20, CheckpointState.INCOMPLETE, 900, "a.distcp is empty"), WHOLE,
            checkpoint(60, CheckpointState.WRITING, 5, ".metadata is missing"),
            checkpoint(80, CheckpointState.UNKNOWN, 5, "too large"),
        ),
        ("latest names step 300, which is not there",),
    )  # fmt: skip
    assert list_checkpoint_faults(survey) == [
        "step 60 is being written", "step 20 is incomplete: a.distcp is empty",
        "latest names step 300, which is not there",
    ]  # fmt: skip


def test_the_folder_is_read_again_seldom_and_only_where_something_may_be_new() -> None:
    assert not read(WHOLE, ago=REREAD_SECONDS - 1).should_be_read_again(NOW, measures(60, ago=1.0))
    assert read(WHOLE, ago=REREAD_SECONDS + 1).should_be_read_again(NOW, measures(60, ago=1.0))
    assert not read(WHOLE, ago=REREAD_SECONDS + 1).should_be_read_again(NOW, measures(60, ago=1800.0)), (
        "nothing was saved since"
    )
    cut = checkpoint(60, CheckpointState.WRITING, 5, ".metadata is missing")
    assert read(WHOLE, cut, ago=REREAD_SECONDS + 1).should_be_read_again(NOW, measures(60, ago=1800.0))
    assert not read(ago=REREAD_SECONDS - 1).should_be_read_again(NOW, None)
    assert read(ago=REREAD_SECONDS + 1).should_be_read_again(NOW, None), "a folder without checkpoints may have one now"


MEGATRON = replace(WHOLE, path="run/iter_0000040", format="Megatron torch_dist")
TENSORS = replace(WHOLE, path="checkpoint-40", format="safetensors")


@pytest.mark.parametrize(
    ("saved", "paths", "folder"),
    [
        (read(MEGATRON), {"recipe.train.checkpoint"}, "/out/run"),
        (read(TENSORS), {"recipe.swift.load"}, "/out/checkpoint-40"),
        (replace(read(MEGATRON), folder="gs://runs/out"), {"recipe.train.checkpoint"}, ""),
        (read(replace(MEGATRON, state=CheckpointState.UNKNOWN)), {"recipe.train.checkpoint"}, ""),
        (SavedState(NOW, problem="There is no folder /out."), {"recipe.train.checkpoint"}, ""),
    ],
)
def test_a_launch_begins_with_the_last_complete_checkpoint_or_says_why_not(
    saved: SavedState, paths: set[str], folder: str
) -> None:
    values, words = values_to_resume(saved, paths)
    if folder:
        (path,) = paths
        _, part, name = path.split(".")
        assert values == {"recipe": {part: {name: folder}}}
        assert words == f"It begins with the weights of step 40, in {folder}."
    else:
        assert values == {}
        assert any(each in words for each in ("choose the weights", "None of its", "There is no folder /out"))


def test_no_launch_begins_with_what_goes_with_the_pods() -> None:
    scratch = job("llama", 2, mounts=(Mount("/out", stays=False),))
    values, words = values_to_resume(read(MEGATRON), {"recipe.train.checkpoint"}, scratch)
    assert (values, words) == ({}, f"It begins as the job did: {CHECKPOINTS_IN_PODS}.")
    assert values_to_resume(read(MEGATRON), {"recipe.train.checkpoint"}, job("llama", 2))[0]


def test_a_wrong_pointer_in_the_folder_to_begin_with_is_reported() -> None:
    _, words = values_to_resume(read(MEGATRON, notes=("run/latest names step 60, which is incomplete",)), ())
    assert words.endswith("But run/latest names step 60, which is incomplete.")


def reader_of(pod: Pod, told: JobMeasures) -> CheckpointReader:
    """A reader of one job whose pod 0 is that folder, and whose log is followed."""
    fleet = queue_scene()
    copies = SimpleNamespace(for_container=lambda *_, **__: SimpleNamespace(command_files=lambda: pod.files))

    async def read_log(*_: str) -> JobMeasures:
        return told

    followed = SimpleNamespace(read_log=read_log)
    cluster = cast("Any", SimpleNamespace(fleet=fleet))
    return CheckpointReader(cluster, lambda: cast("Any", followed), lambda: cast("Any", copies), lambda: cast("Any", 0))


@pytest.mark.slow(reason="starts programs of its own")
async def test_a_folder_that_the_log_names_is_read_by_commands_in_the_first_pod(tmp_path: Path) -> None:
    pod = Pod(tmp_path / "pod")
    step = tmp_path / "pod/out/checkpoint-40"
    step.mkdir(parents=True)
    (step / "model.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")
    place = str(tmp_path / "pod/out")
    reader = reader_of(pod, measures(40, place=place))
    found = await reader.read_job("default", "llama")
    assert found.survey
    assert found.survey.last_complete
    assert (found.problem, found.survey.last_complete.step, found.folder) == ("", 40, place)
    assert found.by.startswith("1 file in ")
    assert found.by.endswith(" s, by commands in pod 0")
    assert reader.saved_states["default", "llama"] is found
    assert 0 < len(pod.commands) <= 4, "a few commands, whatever lies there"


@pytest.mark.slow(reason="starts programs of its own")
async def test_what_cannot_be_read_is_reported_and_nothing_is_taken_for_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pod = Pod(tmp_path / "pod")
    gone = await reader_of(pod, measures(40, place=f"{tmp_path}/pod/nowhere")).read_job("default", "llama")
    assert (gone.survey, "nowhere" in gone.problem, gone.folder_missing) == (None, True, True)
    monkeypatch.setattr(reading, "MAX_FILES_UNASKED", 3)
    for number in range(5):
        (tmp_path / f"pod/out-{number}").mkdir()
        (tmp_path / f"pod/out-{number}/a").write_text("")
    many = await reader_of(pod, measures(40, place=f"{tmp_path}/pod")).read_job("default", "llama")
    assert (many.survey, "more than 3 files" in many.problem, many.folder_missing) == (None, True, False)


@pytest.fixture
def training_in() -> Iterator[Callable[[Path], None]]:
    """Starts a process of a training that runs in a folder."""
    processes: list[subprocess.Popen[bytes]] = []
    environment = {**os.environ, "LOCAL_RANK": "0"}
    yield lambda folder: processes.append(subprocess.Popen(["sleep", "600"], cwd=folder, env=environment))
    for each in processes:
        each.kill()
        each.wait()


@pytest.mark.slow(reason="starts programs of its own")
async def test_a_relative_folder_of_a_log_is_one_where_the_training_runs(
    tmp_path: Path, training_in: Callable[[Path], None]
) -> None:
    pod, work = Pod(tmp_path / "pod"), tmp_path / "pod/work"
    saved = work / "output/a4-test/checkpoint-40"
    saved.mkdir(parents=True)
    (saved / "model.safetensors").write_bytes(b"")
    training_in(work)
    training_in(work)
    training_in(tmp_path / "pod")
    found = await reader_of(pod, measures(40, place="output/a4-test")).read_job("default", "llama")
    assert found.folder == str(work / "output/a4-test")
    assert found.survey is not None
    assert [each.step for each in found.survey.checkpoints] == [40]
    (tmp_path / "pod/output/a4-test").mkdir(parents=True)
    many = await reader_of(pod, measures(40, place="output/a4-test")).read_job("default", "llama")
    assert many.survey is None
    assert many.problem.startswith("output/a4-test, which the log names, is not one folder in ")


async def test_a_folder_that_does_not_answer_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pod, ended = Pod(tmp_path / "pod"), asyncio.Event()

    @asynccontextmanager
    async def start(*_: object, **__: object) -> AsyncIterator[Any]:
        try:
            await asyncio.Event().wait()
            yield None
        finally:
            ended.set()

    pod.files.start = start
    monkeypatch.setattr(reading, "UNASKED_TIMEOUT", 0.1)
    begun = time.monotonic()
    found = await reader_of(pod, measures(40)).read_job("default", "llama")
    assert "could not be read" in found.problem
    assert (time.monotonic() - begun < 5, ended.is_set()) == (True, True)


async def test_a_log_that_is_followed_and_names_no_folder_is_not_read_once_more(tmp_path: Path) -> None:
    found = await reader_of(Pod(tmp_path / "pod"), measures(place="")).read_job("default", "llama")
    assert "does not say where it saves checkpoints" in found.problem
