"""What is lost of the work of jobs that are stopped, or whose node is taken out of service: one answer everywhere."""

import time
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec import structs
from msgspec.structs import replace

from console.checkpoints.saved_state import SavedState
from console.errors import Unreachable
from console.kube.objects.jobset import Mount
from console.kube.snapshot import Fleet
from console.launch.lost_work_of_jobs import UnsavedWork
from console.metrics.job_measures import JobMeasures
from console.metrics.lost_work import CHECKPOINTS_IN_PODS, SeenFolder
from console.scheduling.what_if import Consequence, WhatIf
from screens.columns.jobs import JobLine
from screens.widgets.job_pane import saved_state_spans
from tests.parsing import run_of
from tests.screens.scene import scene
from trainlog import Step

LLAMA = "default", "llama-70b"


def measured(now: float, *, saved: bool) -> JobMeasures:
    """50 steps in an hour; half an hour ago step 20 was saved to /out."""
    found, steps = JobMeasures(LLAMA), range(1, 51)
    run = run_of((Step(number, 1000, 1.0) for number in steps), now, [now - 60 * (50 - number) for number in steps])
    if saved:
        run.add_checkpoint(20, now - 1800, "/out")
    found.tracks = (run,)
    return found


def work(fleet: Fleet, measured: JobMeasures | Exception, folder: SeenFolder | None = None) -> UnsavedWork:
    async def read_log(namespace: str, name: str) -> JobMeasures:
        if name != LLAMA[1]:
            return JobMeasures((namespace, name))
        if isinstance(measured, Exception):
            raise measured
        return measured

    class Runs:
        async def read_spans(self, namespace: str, name: str) -> list[Any]:
            return []

    jobs = SimpleNamespace(read_log=read_log, seen_folder=lambda _: folder)
    return UnsavedWork(cast("Any", SimpleNamespace(fleet=fleet)), cast("Any", Runs()), cast("Any", jobs))


def fleet_with(*mounts: Mount) -> Fleet:
    fleet = cast("Fleet", scene())
    llama = fleet.jobsets[LLAMA]
    groups = tuple(structs.replace(group, mounts=mounts) for group in llama.groups)
    started = time.time() - 3900
    pods = {key: structs.replace(pod, started=started) for key, pod in fleet.pods.items()}
    return replace(fleet, pods=pods, jobsets={**fleet.jobsets, LLAMA: structs.replace(llama, groups=groups)})


@pytest.mark.parametrize(
    ("mount", "saved", "absent", "words"),
    [
        (Mount("/out", stays=True), True, "", "the work since step 20 was saved 30 min ago: 32.0 GPU-hours"),
        (Mount("/out", stays=False), True, "", f", as {CHECKPOINTS_IN_PODS}"),
        (Mount("/out", stays=None), True, "", ", as whether its checkpoints outlive its pods is not known"),
        (Mount("/out", stays=True), True, "there is no such folder", ", as there is no such folder"),
        (Mount("/out", stays=True), False, "", ", as no checkpoint of the last 49 min is in its log"),
    ],
)  # fmt: skip
async def test_every_place_gives_the_same_answer(mount: Mount, saved: bool, absent: str, words: str) -> None:
    """Stop and `stop --dry-run` ask by `find_unsaved`, `whatif` and `W` by `add_losses`, a report of a node by
    `list_unsaved`, `a4 checkpoints` by `find_lost_work`, and the page of the job and its pane by `saved_state_spans`.
    """
    fleet, now = fleet_with(mount), time.time()
    log = measured(now, saved=saved)
    found = SavedState(now, "/out", problem=f"{absent}.", folder_missing=True) if absent else None
    unsaved = work(fleet, log, found.in_folder if found is not None else None)
    answer = await unsaved.find_unsaved(*LLAMA)
    most = "up to 69.3 GPU-hours"  # of its 64 GPUs for the 65 minutes that its pods run
    assert answer == (f"{most}{words}" if words.startswith(", as ") else words)
    loss = await unsaved.find_lost_work(*LLAMA)
    assert loss is not None
    assert loss.sentence(time.time()) == answer
    node = next(pod.node for pod in fleet.pods.values() if pod.jobset == LLAMA[1])
    assert await unsaved.list_unsaved(node) == [f"llama-70b: {answer}"]
    ended = Consequence("llama-70b", "default", "a4", 64, "stopped")
    after = await unsaved.add_losses(WhatIf((ended, structs.replace(ended, what="starts")), (), (), None))
    assert [each.lost for each in after.consequences] == [answer, ""]
    page = saved_state_spans(JobLine(fleet.jobsets[LLAMA], fleet, saved=found), log, time.time())
    assert f"{answer}. " in [run.text for run in page]


async def test_a_log_that_cannot_be_read_stands_beside_the_most_that_can_be_lost() -> None:
    unsaved = work(fleet_with(Mount("/out", stays=True)), Unreachable("The kubelet does not answer."))
    assert await unsaved.find_unsaved(*LLAMA) == (
        "up to 69.3 GPU-hours, as its log could not be read (The kubelet does not answer)"
    )
    assert await unsaved.list_unsaved("gke-train-system-0") == [], "a pod of no job loses no work"
