"""What a session knows of earlier runs."""

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec.structs import replace

from console.alarm_thresholds import Thresholds
from console.kube.objects.jobset import JobSet
from console.launch.install import ChartCatalog
from console.launch.jobs_interface import KnownJobs
from console.launch.run_record import Outcome, RunRecord
from console.launch.run_recorder import RunRecorder
from console.launch.session_runs import SessionRuns
from console.logs.log_line import PodLine
from console.metrics.alarm import Alarm, AlarmKind
from console.metrics.gpu_time_ledger import LedgerBox
from console.metrics.job_measures import JobMeasures, LogReader
from console.metrics.time_spans import TimeSpan
from console.session_jobs import SessionJobs
from tests.fakes import fleet_of

CATALOGUE = ChartCatalog.from_chart()
SERVER = "https://10.0.0.1"
RUN = RunRecord("qwen3-sft", "one", "team", server=SERVER, launched=1000.0, gpus=16, outcome=Outcome.SUCCEEDED)


def history_of(folder: Path, jobs: KnownJobs, *objects: Any) -> tuple[SessionRuns, RunRecorder]:
    target = SimpleNamespace(cluster=SimpleNamespace(practice_folder=folder, server=SERVER))
    cluster = SimpleNamespace(
        current_connection=SimpleNamespace(target=target), fleet=fleet_of(*objects), is_watched=lambda *_: True
    )
    runs = SessionRuns(cast("Any", cluster), jobs)
    return runs, RunRecorder(cast("Any", cluster), jobs, runs, cast("Any", None), cast("Any", None))


class HangingJob(SessionJobs):
    """A job that made 20 steps and then none for 100 s, as its log has it, and as its record knows it."""

    def __init__(self, now: float) -> None:
        super().__init__(cast("Any", None))
        self.measures = JobMeasures(("team", "one"))
        reader = LogReader(self.measures, 1)
        begin = now - 150
        times = [begin + 10 + 2 * at for at in range(1, 21)]
        reader.feed_lines(
            [PodLine(0, at, f"step {step}/97 | loss {3 - step / 20:.2f}") for step, at in enumerate(times, 1)]
        )
        reader.close()
        self.is_read, self.sounded = True, list[Alarm]()
        self.jobset = JobSet(namespace="team", name="one", uid="u", created=begin)
        self.run = replace(
            RUN, outcome=Outcome.RUNNING, launched=begin, started=begin, uid="u", step=1, loss=2.95, loss_step=1
        )

    def find_measures(self, *_: Any, **__: Any) -> JobMeasures | None:
        return self.measures if self.is_read else None

    def list_alarms(self, *_: Any) -> tuple[Alarm, ...]:
        return tuple(self.sounded)

    def list_spans(self, *_: Any) -> list[TimeSpan]:
        return self.measures.list_spans(time.time(), Thresholds())


async def test_what_is_usual_is_reported_by_ended_runs_of_the_recipe_on_as_many_gpus_of_this_cluster(
    tmp_path: Path,
) -> None:
    runs, _ = history_of(tmp_path, SessionJobs(cast("Any", None)))
    for each in (
        replace(RUN, tflops=850.0),
        replace(RUN, tflops=860.0, outcome=Outcome.STOPPED),
        replace(RUN, tflops=180.0, outcome=Outcome.RUNNING),
        replace(RUN, tflops=400.0, gpus=32),
        replace(RUN, tflops=300.0, recipe="swift-dpo"),
        replace(RUN, tflops=200.0, server="https://10.0.0.2"),
        replace(RUN, tokens_per_s=9_000.0),
        RUN,
    ):
        await runs.history.add_run(each)
    assert sorted(await runs.earlier_runs.speeds("qwen3-sft", 16, "tflops_per_gpu")) == [850.0, 860.0]
    assert list(await runs.earlier_runs.speeds("qwen3-sft", 32, "tflops_per_gpu")) == [400.0]
    assert list(await runs.earlier_runs.speeds("qwen3-sft", 8, "tflops_per_gpu")) == []
    assert list(await runs.earlier_runs.speeds("qwen3-sft", 16, "tokens_per_s")) == [9_000.0]
    await runs.history.close()


async def test_an_open_run_is_reported_as_this_session_knows_it_now(tmp_path: Path) -> None:
    now = time.time()
    job = HangingJob(now)
    (runs, _), run = history_of(tmp_path, job, job.jobset), job.run
    await runs.history.add_run(run)
    (found,) = await runs.list_runs()
    assert (found.step, found.loss_step) == (20, 20)
    boxes = found.ledger(now + 60).boxes
    assert (boxes[LedgerBox.HANG] / 16_000, boxes[LedgerBox.PRODUCTIVE] / 16_000) == pytest.approx((98, 40), abs=2)
    assert boxes[LedgerBox.UNSEEN] / 16_000 == pytest.approx(12, abs=1), "before its first line, and nothing at its end"
    assert sum(boxes.values()) == 16 * (round(1000 * found.looked) - round(1000 * run.launched))
    (kept,) = await runs.history.list_runs()
    assert (kept.step, kept.seen, kept.looked) == (1, "", 0.0), "it is not written each time that a page looks"
    await runs.history.close()


async def test_the_last_step_is_recorded_at_the_alarm_at_the_latest(tmp_path: Path) -> None:
    job = HangingJob(time.time())
    job.is_read, (runs, recorder) = False, history_of(tmp_path, job, job.jobset)
    await runs.history.add_run(job.run)
    await recorder.update_open_runs()
    assert (await runs.history.list_runs())[0].step == 1
    job.is_read = True
    await recorder.update_open_runs()
    assert (await runs.history.list_runs())[0].step == 1, "it is due later"
    job.sounded.append(Alarm(AlarmKind.STALL, "no step for 60 s after step 20", time.time()))
    await recorder.update_open_runs()
    (kept,) = await runs.history.list_runs()
    assert (kept.step, kept.loss_step, kept.loss) == (20, 20, 2.0)
    await runs.history.close()
