"""The pane of the job under the cursor: what it says of a job that waits, runs or has failed."""

import time

import pytest
from msgspec import structs
from msgspec.structs import replace
from textual.app import App, ComposeResult

from console.checkpoints.completeness import Checkpoint, CheckpointState, Survey
from console.checkpoints.saved_state import SavedState
from console.kube.objects.jobset import JobState
from console.kube.objects.meta import Condition
from console.kube.snapshot import Fleet
from console.metrics.gpu_metrics import Gpu, PodGpus
from console.metrics.job_measures import JobMeasures
from console.metrics.job_progress import JobProgress
from console.scheduling.why import Category, QuotaAccount, QuotaHolder, Why
from screens.columns.jobs import JobLine
from screens.pages.jobs import JobsScreen
from screens.widgets.job_pane import job_lines, saved_state_spans
from screens.widgets.side_pane import SidePane
from tests.fakes import present
from tests.hostile.payloads import PAYLOADS, RAW
from tests.parsing import run_of
from tests.screens.press import console, press, screen_of, screen_text, text_of, until
from tests.screens.queue_scene import queue_scene
from tests.screens.scene import scene
from trainlog import Step


def lines_of(
    fleet: Fleet, name: str, measures: JobMeasures | None = None, job_progress: JobProgress | None = None
) -> list[str]:
    job = JobLine(fleet.jobsets["default", name], fleet, job_progress, owner="mira")
    return ["".join(run.text for run in line) for line in job_lines(job, measures, 70, 40, fleet.at)]


def test_a_waiting_job_has_its_arithmetic_unfolded_and_the_figures_add_up() -> None:
    fleet = queue_scene()
    waits = next(each for each in fleet.jobsets.values() if each.state is JobState.PENDING)
    job = JobLine(waits, fleet)
    account = present(job.why.account)
    shown = ["".join(run.text for run in line) for line in job_lines(job, None, 80, 50, fleet.at)]
    numbers = {line.split()[0]: int(line.replace(",", "").split("needs")[0].split()[-1]) for line in shown
               if line.startswith("  ") and line.split()[0] in {"own", "to", "used", "lent", "free"}}  # fmt: skip
    assert numbers["own"] + numbers["to"] - numbers["used"] - numbers.get("lent", 0) == numbers["free"] == account.free
    assert any(f"needs {job.why.need:,}" in line for line in shown)
    assert any(line.startswith("position  ") for line in shown)


def with_gpus(fleet: Fleet, name: str, *used: tuple[Gpu, ...]) -> JobMeasures:
    measures = JobMeasures(("default", name))
    each = zip(JobLine(fleet.jobsets["default", name], fleet, None).pod_slots, used, strict=False)
    measures.gpus = tuple(PodGpus(rank.number, rank.name, rank.node, gpus, fleet.at - 40) for rank, gpus in each)
    return measures


def used(*percent: float | None) -> tuple[Gpu, ...]:
    return tuple(Gpu(index, utilization=each) for index, each in enumerate(percent))


def test_the_gpus_of_a_running_job_are_shown_by_node_as_they_were_last_read() -> None:
    fleet = scene()
    first = (*used(98, 97, 99, 0, 30, 100, None), Gpu(7, utilization=101, xid=79))
    shown = lines_of(fleet, "llama-70b", with_gpus(fleet, "llama-70b", first, used(*[50] * 8), ()))
    at = shown.index("GPU busy, by node, 40s ago")
    entries = [" ".join(entry.split()) for entry in "   ".join(shown[at + 1 : at + 4]).split("   ") if entry.strip()]
    assert [entry.partition(" ")[2] for entry in entries] == ["███▁▃█─✗ 75 %", "▅▅▅▅▅▅▅▅ 50 %", "not known"]
    assert entries[0].startswith("gke-train-a4-pool-0000")


def test_of_many_nodes_each_is_the_mark_of_its_least_busy_gpu() -> None:
    fleet = scene()
    gpus = (used(90, 10), used(99, 60), (Gpu(0, xid=79), Gpu(1, utilization=0)), used(None, 80), *[used(100)] * 4)
    job = JobLine(fleet.jobsets["default", "llama-70b"], fleet, None)
    lines = job_lines(job, with_gpus(fleet, "llama-70b", *gpus), 30, 40, fleet.at)
    shown = ["".join(run.text for run in line) for line in lines]
    assert shown[shown.index("GPU busy, the least busy of each node, 40s ago") + 1] == "▁▅✗─████"


def test_no_gpu_is_shown_of_a_job_of_which_nothing_was_read_or_that_has_ended() -> None:
    fleet = scene()
    for measures in (None, JobMeasures(("default", "nccl-0412")), with_gpus(fleet, "nccl-0412", used(None), ())):
        assert not any("GPU busy" in line for line in lines_of(fleet, "nccl-0412", measures))
    measures = with_gpus(fleet, "nccl-0412", used(50.0))
    assert any("GPU busy" in line for line in lines_of(fleet, "nccl-0412", measures))
    ended = structs.replace(fleet.jobsets["default", "nccl-0412"], conditions=(Condition("Failed", "True"),))
    told = job_lines(JobLine(ended, fleet, None), measures, 70, 40, fleet.at)
    assert not any("GPU busy" in run.text for line in told for run in line)


def test_where_places_are_missing_nobodys_end_is_shown_as_freeing_quota() -> None:
    blockers = (QuotaHolder("default", "nccl", gpus=16),)
    account = QuotaAccount(nominal=16, can_borrow=16, free=32, total=32)
    why = Why("quota is there", Category.TOPOLOGY, need=32, flavor="a4", account=account, unblocks=blockers)
    assert why.with_end(None).sentence == "quota is there; room free when nccl ends"
    short = structs.replace(why, category=Category.QUOTA, short_by=16)
    assert short.with_end(None).sentence == "quota is there; quota free when nccl ends"


def measured(steps: int, *texts: str) -> JobMeasures:
    found = JobMeasures(("default", "llama"))
    every = (Step(step=number, total=steps * 2, loss=10.0 / (number + 1)) for number in range(steps))
    found.tracks = (run_of(every, time.time()),)
    for text in texts:
        found.store_line(time.time(), time.time(), text, 0)
    return found


def running(fleet: Fleet) -> str:
    return next(each.name for each in fleet.jobsets.values() if each.state is JobState.RUNNING)


def test_a_running_job_shows_its_bar_curve_pods_and_last_lines() -> None:
    fleet = queue_scene()
    job_progress = JobProgress(step=40, total=100, loss=0.25, step_time=3.0, pace=3.0)
    shown = lines_of(fleet, running(fleet), measured(50, "it 40/100 loss 0.25"), job_progress)
    assert any("40 %  step 40 of 100   3m00s left" in line for line in shown)
    assert any("loss 0.25" in line and "3 s a step" in line for line in shown)
    assert sum(any("⠀" < letter <= "⣿" for letter in line) for line in shown) >= 4, "a curve of braille dots"
    assert shown[-1] == "it 40/100 loss 0.25"


def test_in_a_low_pane_the_curve_goes_before_the_last_lines_and_the_newest_is_folded() -> None:
    fleet = queue_scene()
    job_progress = JobProgress(step=40, total=100, loss=0.25, step_time=3.0, pace=3.0)
    newest = "    [2026-09-05] saved checkpoint 40 of 100 | consumed samples: 40 | to /gcs/some/bucket/checkpoints |"
    job = JobLine(fleet.jobsets["default", running(fleet)], fleet, job_progress, owner="mira")
    measures = measured(50, "it 38/100 loss 0.27", newest)
    for height in (12, 15, 20, 30):
        shown = ["".join(run.text for run in line) for line in job_lines(job, measures, 60, height, fleet.at)]
        assert len(shown) <= height
        assert "40 %  step 40 of 100" in "\n".join(shown)
        at = shown.index("last lines")
        assert " ".join(map(str.rstrip, shown[at + 1 :])).endswith(newest)
    assert "it 38/100 loss 0.27" in shown
    assert any("⠀" < letter <= "⣿" for line in shown for letter in line), "a curve of braille dots"


def test_gpu_hours_too_few_for_a_digit_are_not_called_none() -> None:
    fleet = queue_scene()
    name = running(fleet)
    jobset = fleet.jobsets["default", name]
    workload = present(fleet.workload_of(jobset))
    admitted = next(each.since for each in workload.conditions if each.type == "Admitted")
    job = JobLine(jobset, fleet)
    for after, words in ((1.0, f"{jobset.gpus} GPU-seconds"), (3600.0, f"{jobset.gpus:.1f} GPU-hours")):
        lines = job_lines(job, None, 70, 40, admitted + after)
        assert any(words in "".join(run.text for run in line) for line in lines)


def test_secrets_and_controls_of_a_log_do_not_reach_the_screen() -> None:
    fleet = queue_scene()
    shown = lines_of(fleet, running(fleet), measured(3, "export HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz0123456789"))
    assert any("HF_TOKEN" in line for line in shown)
    assert not any("hf_abcdefgh" in line for line in shown)


async def test_hostile_lines_are_drawn_without_control_sequences() -> None:
    fleet = queue_scene()
    job = JobLine(fleet.jobsets["default", running(fleet)], fleet)

    class OnePane(App[None]):
        def compose(self) -> ComposeResult:
            yield SidePane(lambda *size: job_lines(job, measured(3, *PAYLOADS.values()), *size))

    async with OnePane().run_test(size=(160, 45)) as pilot:
        pane = pilot.app.query_one(SidePane)
        pane.renew()
        drawn = text_of(pane)
        assert "last lines" in drawn
        assert not RAW.search(drawn)


def test_events_stand_where_no_line_was_printed() -> None:
    fleet = queue_scene()
    shown = lines_of(fleet, "llama")
    at = shown.index("events")
    assert any("Started" in line for line in shown[at:])


@pytest.mark.slow(reason="many keys in a whole app")
async def test_the_pane_is_right_of_a_wide_list_below_a_high_one_and_off_on_a_small_terminal() -> None:
    async with console(size=(250, 45)) as (app, pilot, _):
        await pilot.press("3")
        screen = screen_of(app, JobsScreen)
        await until(
            pilot, lambda: screen.table.row is not None and screen.table.row.jobset.name in text_of(screen.pane)
        )
        assert screen.pane.region.x > screen.table.region.x
        assert screen.table.size.width >= screen.table.columns_wanted
        wide = screen.pane.size.width
        await press(pilot, "z", then=lambda: screen.pane.size.width > wide)
        await press(pilot, "z", then=lambda: not screen.pane.display or not screen.pane.size.width)
        await pilot.press("z")
        await pilot.resize_terminal(100, 45)
        await until(pilot, lambda: screen.pane.region.y > screen.table.region.y)
        await pilot.resize_terminal(80, 24)
        await until(pilot, lambda: not screen.pane.size.width)
        assert screen.table.row is not None
        assert screen.table.row.jobset.name in screen_text(app)


def test_the_pane_of_a_training_says_what_is_saved_and_a_wide_one_keeps_its_curve() -> None:
    fleet = queue_scene()
    whole = Checkpoint("iter_40", "torch DCP", 40, CheckpointState.COMPLETE, 100, 3, fleet.at - 600)
    saved = SavedState(fleet.at + 60, "/out", Survey((whole,)), by="3 files in 0.1 s, by commands in pod 0")
    job = JobLine(fleet.jobsets["default", running(fleet)], fleet, saved=saved)
    lines = ["".join(run.text for run in line) for line in job_lines(job, measured(50), 120, 40, fleet.at + 60)]
    at = next(number for number, each in enumerate(lines) if each.startswith("at risk"))
    shown = " ".join(lines[at : at + 2])
    assert shown.startswith("at risk  the work since step 40 was saved 11 min ago: 8.8 GPU-hours. Complete by")
    assert "/out, read" in shown
    assert any("pods" in each and "GPU-hours since its admission" in each for each in lines), "both fit in one line"
    assert any("⠀" < letter <= "⣿" for each in lines for letter in each), "a curve of braille dots"

    def has_curve(shown: JobLine, height: int) -> bool:
        rows = job_lines(shown, measured(50), 60, height, fleet.at + 60, shows_tail=False)
        return any("⠀" < letter <= "⣿" for runs in rows for run in runs for letter in run.text)

    unread = replace(job, saved=None)
    assert {has_curve(unread, height) for height in range(6, 30)} == {True, False}
    assert all(has_curve(job, height) for height in range(6, 30) if has_curve(unread, height)), "c replaces no curve"


@pytest.mark.parametrize(
    ("place", "problem", "words"),
    [
        ("out/ck", "There is no folder out/ck in pod 0 of llama.", "there is no folder out/ck in pod 0 of llama"),
        ("", "The log of llama does not say where it saves.", "the log of llama does not say where it saves"),
    ],
)
def test_of_a_folder_that_could_not_be_read_the_reason_comes_before_when_that_was_tried(
    place: str, problem: str, words: str
) -> None:
    fleet = queue_scene()
    saved = SavedState(fleet.at, place, problem=problem)
    job = JobLine(fleet.jobsets["default", running(fleet)], fleet, saved=saved)
    told = "".join(run.text for run in saved_state_spans(job, measured(50), fleet.at + 60))
    assert told.endswith(f"is in its log. Its folder could not be read: {words} (tried 1m00s ago).")
