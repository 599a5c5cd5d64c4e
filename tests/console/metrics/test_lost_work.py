"""What the end of a job would lose, and how that is worded."""

import pytest
from msgspec import structs

from console.kube.objects.jobset import JobSet, Mount
from console.metrics.gpu_time_ledger import LedgerBox
from console.metrics.job_measures import JobMeasures
from console.metrics.lost_work import CHECKPOINTS_IN_PODS, LostWork, SeenFolder, find_lost_work, has_checkpoint
from console.metrics.time_spans import SpanKind, TimeSpan
from tests.console.metrics.test_ledger import Script
from tests.fakes import fleet_of, present
from tests.parsing import run_of
from tests.screens.scene import NOW, jobset, rank
from trainlog import Step

SCRATCH = Mount("/out", stays=False)
DISK = Mount("/out", stays=True)
NODE = Mount("/out", stays=None)


def job(*mounts: Mount, nodes: int = 2) -> JobSet:
    made = jobset("llama", nodes)
    return structs.replace(made, groups=tuple(structs.replace(group, mounts=mounts) for group in made.groups))


def trained(save: int = 0, more: int = 30) -> Script:
    """A run of 100 steps of two seconds; a checkpoint, if any, takes `save` seconds, and `more` steps follow."""
    run = Script(2.0, 16)
    run.start(0, 50, 30, 0)
    run.train(99)
    if save:
        run.save(save)
        run.train(more)
    return run


def loss_of(
    run: Script, *mounts: Mount, ran: float = 7200.0, place: str = "/out", folder: SeenFolder | None = None
) -> LostWork | None:
    made = job(*mounts)
    pods = [rank(made, number, f"n{number}", started=run.now - ran, containers=()) for number in range(2)]
    return find_lost_work(made, fleet_of(made, *pods), run.read(), run.now, path=place, folder=folder)


def track(
    run: Script, *mounts: Mount, folder: SeenFolder | None = None, place: str = "/out", ran: float = 7200.0
) -> str:
    loss = loss_of(run, *mounts, folder=folder, place=place, ran=ran)
    return loss.sentence(run.now) if loss is not None else ""


def seen(run: Script, ago: float, *, read: float = 0.0, absent: str = "") -> SeenFolder:
    return SeenFolder("/out", run.now - read, not absent, None if absent else 40, run.now - ago, absent)


ALL = "up to 32.0 GPU-hours"  # 16 GPUs for two hours


@pytest.mark.parametrize(
    ("mounts", "saves", "words"),
    [
        ((DISK,), True, "the work since step 100 was saved 60 s ago: 16.0 GPU-minutes"),
        ((SCRATCH,), True, f"{ALL}, as {CHECKPOINTS_IN_PODS}"),
        ((), True, f"{ALL}, as {CHECKPOINTS_IN_PODS}"),
        ((Mount("/data", stays=True),), True, f"{ALL}, as {CHECKPOINTS_IN_PODS}"),  # what is mounted lies elsewhere
        ((NODE,), True, f"{ALL}, as whether its checkpoints outlive its pods is not known"),
        ((DISK,), False, f"{ALL}, as no checkpoint of the last 3 min is in its log"),
        ((SCRATCH,), False, f"{ALL}, as no checkpoint of the last 3 min is in its log"),
    ],
)
def test_a_checkpoint_counts_only_where_it_outlives_the_pods(
    mounts: tuple[Mount, ...], saves: bool, words: str
) -> None:
    assert track(trained(30 if saves else 0), *mounts) == words


@pytest.mark.parametrize(
    ("mounts", "place", "stays"),
    [
        ((SCRATCH,), "gs://runs/out", True),
        ((SCRATCH,), "", False),  # nothing outlives the pods, wherever that is
        ((DISK,), "", None),
        ((DISK,), "out/ckpt", None),  # relative to where nobody knows
        ((DISK,), "/out/a/../ckpt", True),
        ((DISK,), "/out/../ckpt", False),
        ((DISK,), "/outside", False),
        ((DISK, Mount("/out/scratch", stays=False)), "/out/scratch/ckpt", False),
        ((DISK, SCRATCH), "/out/ckpt", None),  # two containers mount another volume there
        ((Mount("/", stays=True),), "/out", True),
    ],
)
def test_what_outlives_the_pods_is_known_by_the_volume_around_a_folder(
    mounts: tuple[Mount, ...], place: str, stays: bool | None
) -> None:
    assert job(*mounts).outlives_pods(place) is stays


def test_a_folder_that_was_read_counts_for_more_than_the_log() -> None:
    run = trained(30)
    assert track(run, DISK, folder=seen(run, 240)) == "the work since step 40 was saved 4 min ago: 1.1 GPU-hours"
    newer = "the work since step 100 was saved 60 s ago: 16.0 GPU-minutes"
    assert track(run, DISK, folder=seen(run, 240, read=90.0)) == newer, "it was saved after the folder was read"
    absent = "there is no folder /out in pod 0 of llama"
    assert track(run, DISK, folder=seen(run, 0, absent=absent)) == f"{ALL}, as {absent}"
    assert track(run, SCRATCH, folder=seen(run, 240)) == f"{ALL}, as {CHECKPOINTS_IN_PODS}"


def test_what_is_over_loses_what_lies_in_its_pods_and_not_what_was_never_saved() -> None:
    for save, mounts, words in ((30, SCRATCH, "GPU-hours"), (30, DISK, ""), (0, SCRATCH, "")):
        run = trained(save, 1)
        run.end_training()
        run.spend(LedgerBox.IDLE, 3600)
        assert words in track(run, mounts)
        assert bool(track(run, mounts)) == bool(words)
    failed, made = trained(30), job(DISK)
    ended = TimeSpan(failed.now, failed.now, SpanKind.ENDED, last=1)
    pod = rank(made, 0, "n0", started=failed.now - 7200)
    spans = [*failed.read(), ended]
    assert find_lost_work(made, fleet_of(made, pod), spans, failed.now, path="/out") is None, (
        "kept pods do no more work"
    )
    loss = present(loss_of(run := _over(), SCRATCH))
    assert loss.gpu_hours(run.now) == loss.gpu_hours(run.now + 3600), "its idle pods do no work"


def _over() -> Script:
    run = trained(30, 1)
    run.end_training()
    run.spend(LedgerBox.IDLE, 60)
    return run


def test_never_more_is_lost_than_its_pods_did_to_the_second() -> None:
    run = trained(30)
    loss = present(loss_of(run, DISK, ran=240.0, folder=seen(run, 3600)))
    assert loss.is_all
    sentence = "all its work of 4 min, as step 40 was saved before its pods ran: 1.1 GPU-hours"
    assert loss.sentence(run.now) == sentence
    fresh = Script(2.0, 16)
    fresh.start(0, 5, 3, 0)
    fresh.train(40)
    few = present(loss_of(fresh, DISK, ran=91.0))
    assert few.cost(fresh.now) == "up to 24.3 GPU-minutes", "not two whole minutes"
    assert few.gpu_hours(fresh.now) == pytest.approx(16 * 91 / 3600)


def test_what_is_not_known_is_not_known() -> None:
    made = job(DISK)
    pods = [rank(made, number, f"n{number}", started=NOW - 3600, containers=()) for number in range(2)]
    fleet = fleet_of(made, *pods)
    quiet = present(find_lost_work(made, fleet, (), NOW))
    assert quiet.sentence(NOW) == "up to 16.0 GPU-hours, as its log tells of no step"
    unread = present(find_lost_work(made, fleet, (), NOW, why_unread="its log could not be read in 10 s"))
    assert unread.sentence(NOW) == "up to 16.0 GPU-hours, as its log could not be read in 10 s"
    hidden = present(find_lost_work(made, fleet_of(made), (), NOW))
    assert (hidden.gpus, hidden.sentence(NOW)) == (16, "how much is not known, as its log tells of no step")


def test_what_holds_no_gpu_or_is_a_test_of_nccl_loses_nothing() -> None:
    made = job(DISK)
    pod = rank(made, 0, "n0", phase="Succeeded")
    assert find_lost_work(made, fleet_of(made, pod), (), NOW) is None
    assert find_lost_work(structs.replace(made, suspended=True), fleet_of(made), (), NOW) is None
    test = structs.replace(made, recipe="nccl-all-reduce")
    assert find_lost_work(test, fleet_of(test, rank(made, 0, "n0")), (), NOW) is None


def test_whether_there_is_a_checkpoint_is_known_by_the_folder_and_by_a_log_that_was_read() -> None:
    measured, here, gone = JobMeasures(("default", "llama")), job(DISK), job(SCRATCH)
    assert has_checkpoint(here, None, None) is None
    assert has_checkpoint(here, measured, None) is None, "nothing was read yet"
    whole = SeenFolder("/out", NOW, True, 40, NOW)
    assert has_checkpoint(here, None, whole) is True
    assert has_checkpoint(gone, None, whole) is False, "it goes with the pods"
    assert has_checkpoint(here, None, SeenFolder("/out", NOW, absent="there is none")) is False
    assert has_checkpoint(structs.replace(here, recipe="nccl-all-reduce"), None, None) is False
    run = run_of([Step(step=1, loss=1.0)], NOW)
    measured.tracks = (run,)
    assert has_checkpoint(here, measured, None) is False
    run.add_checkpoint(1, NOW, "/out")
    assert has_checkpoint(here, measured, None) is True
    assert has_checkpoint(gone, measured, None) is False
