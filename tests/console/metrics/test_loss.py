"""What the end of a job would lose, and how that is worded."""

from __future__ import annotations

from console.metrics.job_measures import JobMeasures
from console.metrics.ledger import Box
from console.metrics.loss import Loss, SavedInFolder, find_loss, find_start, has_checkpoint
from console.metrics.training.run import TrainingRun
from console.metrics.training.steps import Step, Steps
from tests.console.metrics.test_ledger import Script
from tests.screens.scene import NOW, scene


def test_what_a_stop_would_lose() -> None:
    run = Script(2.0, 16)
    run.start(0, 50, 30, 0)
    run.train(99)

    def told() -> str:
        loss = find_loss(run.read(), 0.0)
        return loss.sentence(run.now, 16) if loss is not None else ""

    assert told() == "up to 1.1 GPU-hours: its log tells of no checkpoint in the last 3 min"
    run.save(30)
    run.train(30)
    assert told() == "the work since step 100 was saved 60 s ago: 16.0 GPU-minutes"
    run.end_training()
    run.spend(Box.IDLE, 5)
    assert told() == ""
    assert find_loss([], 0.0) is None


def test_never_more_is_lost_than_its_pods_did() -> None:
    run = Script(2.0, 24)
    run.start(0, 50, 30, 0)
    run.train(99)
    ran = run.now - 240
    loss = find_loss(run.read(), ran, SavedInFolder(100, run.now - 3600, run.now))
    assert loss == Loss(ran, 100, run.now - 3600, by_folder=True)
    assert loss.is_all
    told = "all its work of 4 min, as step 100 was saved before its pods ran: 1.6 GPU-hours"
    assert loss.sentence(run.now, 24) == told
    loss = find_loss(run.read(), ran, SavedInFolder(40, run.now - 120, run.now))
    assert loss is not None
    assert not loss.is_all
    assert loss.cost(run.now, 24) == "48.0 GPU-minutes"


def test_where_no_checkpoint_is_known_the_whole_run_may_be_lost_and_not_what_was_read_of_the_log_alone() -> None:
    run = Script(2.0, 16)
    run.start(0, 50, 30, 0)
    run.train(99)
    loss = find_loss(run.read(), run.now - 7000)
    assert loss is not None
    assert loss.sentence(run.now, 16) == "up to 31.2 GPU-hours: its log tells of no checkpoint in the last 3 min"
    assert loss.seconds(run.now) >= 7000, "what is told as the most is never less than that"


def test_the_pods_of_a_job_run_since_the_first_of_them_started() -> None:
    fleet = scene()
    assert find_start(fleet.jobsets["default", "llama-70b"], fleet) == NOW - 3900
    assert find_start(None, fleet) == 0.0


def test_whether_there_is_a_checkpoint_is_known_by_the_folder_and_by_a_log_that_was_read() -> None:
    told, run = JobMeasures(("default", "llama")), TrainingRun()
    assert has_checkpoint("qwen3-sft", None, None) is None
    assert has_checkpoint("qwen3-sft", told, None) is None, "nothing was read yet"
    assert has_checkpoint("qwen3-sft", None, SavedInFolder(40, NOW, NOW)) is True
    assert has_checkpoint("nccl-all-reduce", None, None) is False
    run.sync_steps(Steps([Step(step=1, loss=1.0)]), NOW, [NOW])
    told.tracks = (run,)
    assert has_checkpoint("qwen3-sft", told, None) is False
    run.add_checkpoint(1, NOW, "/out")
    assert has_checkpoint("qwen3-sft", told, None) is True
