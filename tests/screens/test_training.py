import json
import time
from pathlib import Path
from typing import Any

import pytest
from textual.widgets import Input, Static

from console.checkpoints.completeness import Checkpoint, CheckpointState, Survey
from console.checkpoints.saved_state import SavedState
from console.kube.stream_completeness import SERVER_CLOCK
from console.logs.log_line import LogLine, PodLine
from console.metrics.alarm import AlarmKind
from console.metrics.job_measures import JobMeasures
from practice.programs.choose_program import RECIPES
from screens.dialogs.question import Pick, Prompt
from screens.pages.job import JobScreen
from screens.widgets.charts.nccl_panel import NcclPanel
from screens.widgets.charts.training_panel import TrainingPanel
from screens.widgets.log.log_view import LogView
from screens.wording import Span
from tests.fakes import FakeSession
from tests.practice.test_programs import place, printed
from tests.screens.press import console, console_at, press, screen_of, screen_text, text_of, toasts, until, until_shown
from tests.screens.queue_scene import queue_scene, table_text
from tests.screens.test_jobs import to_job

FIRST = "llama-workload-0-0-x7k0"


@pytest.fixture(autouse=True)
def _own_state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def iteration(number: int, *, loss: str = "2.5E+00", total: int = 200) -> str:
    return (
        f" [2026-09-05 16:08:25] iteration {number:8}/ {total} | consumed samples: {number} |"
        f" elapsed time per iteration (ms): 7000.0 | throughput per GPU (TFLOP/s/GPU): 1125.0 |"
        f" learning rate: 3.0E-04 | lm loss: {loss} | loss scale: 1.0 | grad norm: 0.7 |"
    )


def training(number: int = 60, spike: int = 0) -> list[str]:
    return [iteration(at, loss=f"{9 - at / 20 + (6 if at == spike else 0):.6E}") for at in range(1, number + 1)]


def last_rank(session: FakeSession) -> str:
    names = sorted(pod.name for pod in session.fleet.pods.values() if pod.name.startswith("llama-workload-0-"))
    return max(names, key=lambda name: int(name.split("-")[3]))


def say(session: FakeSession, *texts: str) -> None:
    session.say(last_rank(session), *texts)


async def opened(app: Any, pilot: Any) -> TrainingPanel:
    screen = await to_job(app, pilot, "llama", "training")
    panel: TrainingPanel = screen.query_one(TrainingPanel)
    return panel


@pytest.mark.slow(reason="many keys in a whole app")
async def test_the_curve_grows_with_the_log_of_whichever_rank_prints(session: FakeSession) -> None:
    say(session, *training(60, spike=40), "  successfully saved checkpoint from iteration      50 to /out")
    async with console_at(opened, session, size=(150, 40)) as (_, pilot, panel):
        text = await until_shown(
            pilot,
            "step 60 of 200",
            "30 %",
            "1,125 TFLOP/s per GPU",
            "spike: loss up",
            "checkpoint: saved at 50",
            "Training 30 %  loss 6",
        )
        for title in ("grad norm 0.7", "step time 7 s", "learning rate 0.0003"):
            assert title in text
        say(session, iteration(61, loss="nan"))
        await until_shown(pilot, "loss is NaN since step 61 (last good 6")
        assert panel.track is not None
        assert panel.track.nan


@pytest.mark.slow(reason="many keys in a whole app")
async def test_the_tab_of_a_stalled_job_has_the_sign_of_the_header(session: FakeSession) -> None:
    say(session, *training(60))
    session.alarms.late_steps["default", "llama"] = "no step for 40 s after step 60"
    async with console_at(opened, session, size=(150, 40)) as (app, pilot, _):
        await until_shown(pilot, "⚠ late  llama", "Training ⚠ late", "⚠ ████░")
        session.alarms.sound("default", "llama", AlarmKind.STALL, "no step for 90 s after step 60")
        app.tick()
        await until_shown(pilot, "▲ stalled  llama", "Training ▲ stalled", "▲ ████░")


@pytest.mark.slow(reason="many keys in a whole app")
@pytest.mark.parametrize("version", ["3.10.3", "4.1.0"])
async def test_either_generation_of_swift_is_watched_while_it_runs(session: FakeSession, version: str) -> None:
    lines, _ = printed(RECIPES["swift-dpo"], place(A4_SWIFT_VERSION=version, A4_SWIFT_BETA="0.1"))
    steps = [line for line in lines if "rewards/margins" in line]
    say(session, *lines[: lines.index(steps[11])])
    async with console_at(opened, session, size=(150, 40)) as (app, pilot, panel):
        await until_shown(pilot, "step 11 of 100")
        for number in (12, 13):
            say(session, steps[number - 1])
            await until(pilot, lambda number=number: f"step {number} of 100" in screen_text(app))  # type: ignore[misc]
        assert panel.track is not None
        assert panel.track.format == "ms-swift"
        assert [step.step for step in panel.track.steps] == [*range(1, 14)]


@pytest.mark.slow(reason="many keys in a whole app, which waits for what it reads")
async def test_a_log_of_hours_says_how_far_the_job_is_only_when_it_was_read_up_to_now() -> None:
    session, begun = FakeSession(queue_scene()), time.time() - 3600
    for at, line in enumerate(training(60)):
        session.say(last_rank(session), line, at=begun + 60 * at)
    shown: list[str] = []
    async with console_at(opened, session, size=(150, 40)) as (app, pilot, panel):

        def read() -> bool:
            words = "".join(span.text for span in panel.sentence.runs)
            shown.extend([words] if shown[-1:] != [words] else [])
            return "step 60 of 200" in shown[-1]

        await until(pilot, read)
        screen = screen_of(app, JobScreen)
        await until(pilot, lambda: "loss 6" in screen.tabs["training"].note)
    before = [each for each in shown[:-1] if each]
    assert before
    assert all(each.startswith("◐ Reading the log up to now …") for each in before), before


def printed_at(*times: float) -> list[PodLine]:
    return [PodLine(0, each, "step") for each in times]


def test_lines_that_come_faster_than_they_were_printed_are_of_a_log_that_is_still_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 10_000.0
    monkeypatch.setattr(SERVER_CLOCK, "_boot_time", None)
    monkeypatch.setattr(time, "time", lambda: now)
    job = JobMeasures(("default", "llama"))
    assert not job.is_reading_old_lines
    job.catch_up.begin()
    job.catch_up.begin_batch(printed_at(1.0, 2000.0))
    now += 5  # the batch takes long to read
    assert job.is_reading_old_lines
    job.catch_up.end_batch()
    job.catch_up.begin_batch(printed_at(2000.5, 9000.0))
    job.catch_up.end_batch()
    now += 0.9
    assert job.is_reading_old_lines
    now += 0.2
    assert not job.is_reading_old_lines
    for at in range(3):  # each as it is printed, by a node whose clock is late
        job.catch_up.begin_batch(printed_at(9001.0 + at))
        assert not job.is_reading_old_lines
        job.catch_up.end_batch()
        now += 1


def test_of_a_log_without_a_line_it_is_known_once_it_is_connected(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 10_000.0
    monkeypatch.setattr(SERVER_CLOCK, "_boot_time", None)
    monkeypatch.setattr(time, "time", lambda: now)
    job = JobMeasures(("default", "llama"))
    job.catch_up.begin()
    now += 60
    assert job.is_reading_old_lines
    job.catch_up.on_connected()
    now += 1.1
    assert not job.is_reading_old_lines


@pytest.mark.slow(reason="many keys in a whole app")
async def test_keys_choose_zoom_scroll_and_point(session: FakeSession) -> None:
    say(session, *training(100))
    async with console(session, size=(150, 40)) as (app, pilot, _):
        charts = (await opened(app, pilot)).charts
        await until_shown(pilot, "step 100 of 200")
        await press(pilot, "down", then=lambda: charts.large_metric == "grad_norm")
        await press(pilot, "up", "plus", "plus", "left", then=lambda: charts.large_metric == "loss")
        assert (charts.view.span, charts.view.end) == (0.25, 0.9375)
        await until_shown(pilot, "4× zoom")
        await press(pilot, "home", "comma", then=lambda: "at step 100" in screen_text(app))
        await press(
            pilot,
            "g",
            "a",
            "m",
            "z",
            then=lambda: (
                (charts.view.log, charts.view.by_time, charts.view.smooth, charts.alone) == (True, True, False, True)
            ),
        )
        await until(pilot, lambda: "grad norm" not in screen_text(app))


@pytest.mark.slow(reason="many keys in a whole app")
async def test_a_run_is_saved_by_its_ending(session: FakeSession, tmp_path: Path) -> None:
    say(session, *training(20))
    async with console_at(opened, session, size=(150, 40)) as (app, pilot, _):
        await until_shown(pilot, "step 20 of 200")
        for name, expected in (("a.csv", "run,time,step"), ("a.json", "{"), ("a.svg", "<svg"), ("a.txt", "")):
            await press(pilot, "S", then=lambda: isinstance(app.screen, Prompt))
            field = app.screen.query_one(Input)
            hint = app.screen.query_one(".hint", Static)
            await until(pilot, lambda hint=hint: str(Path.cwd() / "llama-training.csv") in str(hint.content))  # type: ignore[misc]
            field.value = str(tmp_path / name)
            await until(
                pilot,
                lambda hint=hint, name=name: str(tmp_path / name) in str(hint.content),  # type: ignore[misc]
            )
            await pilot.press("enter")
            if expected:
                written = tmp_path / name
                await until(
                    pilot,
                    lambda written=written, expected=expected: (  # type: ignore[misc]
                        written.exists() and written.read_text().startswith(expected)
                    ),
                )
        await until(pilot, lambda: "no ending that says what to write" in toasts(app))
        assert len(json.loads((tmp_path / "a.json").read_text())["training"][0]["steps"]) == 20


async def test_what_cannot_be_read_is_reported(session: FakeSession) -> None:
    say(session, *training(20), " iteration 21 of 200 | loss is 2.6 this time | took 11 s |")
    async with console_at(opened, session, size=(150, 40)) as (_, pilot, _):
        await until_shown(pilot, "unreadable since line 21 (1 line)", "loss is 2.6 this time")


@pytest.mark.slow(reason="many keys in a whole app")
async def test_without_a_step_it_says_what_it_waits_for() -> None:
    async with console(FakeSession(queue_scene())) as (app, pilot, _):
        await to_job(app, pilot, "dpo-b", "training")
        await until_shown(pilot, "Training has not started: needs 32 GPUs")


@pytest.mark.parametrize("size", [(80, 24), (250, 60), (30, 8)])
async def test_it_draws_at_every_size(session: FakeSession, size: tuple[int, int]) -> None:
    say(session, *training(50))
    async with console(session, size=size) as (app, pilot, _):
        app.open_page("job", "default", "llama", "training")
        await until(pilot, lambda: isinstance(app.screen, JobScreen) and app.screen.is_mounted)
        panel = app.screen.query_one(TrainingPanel)
        await until(pilot, lambda: panel.track is not None)
        await pilot.pause()


async def test_a_test_is_compared_with_an_earlier_one(session: FakeSession) -> None:
    session.say(FIRST, *table_text(500.0, 600.0, 620.0, finished=True), *table_text(550.0, 660.0, 680.0))
    async with console(session, size=(200, 40)) as (app, pilot, _):
        screen = await to_job(app, pilot, "llama", "nccl")
        panel = screen.query_one(NcclPanel)
        await until_shown(pilot, "test 2 of 2")
        await press(pilot, "a", then=lambda: isinstance(app.screen, Pick))
        await press(pilot, "enter", then=lambda: panel.compared_test is not None)
        await until_shown(pilot, "10 % more GB/s than llama", "+10.0 %")


async def test_a_test_whose_next_row_does_not_come_is_not_shown_as_running(session: FakeSession) -> None:
    session.say(FIRST, *table_text(500.0, 600.0, 620.0))
    async with console(session, size=(200, 40)) as (app, pilot, _):
        panel = (await to_job(app, pilot, "llama", "nccl")).query_one(NcclPanel)
        await until_shown(pilot, "⚠ low  84 % of the A4 reference at 512 MiB")
        panel.late_spans = (Span("▲", "bad"), Span(" stalled", "bad"))
        await until_shown(pilot, "▲ stalled  620.0 GB/s")


async def test_the_list_of_jobs_says_how_far_they_are(session: FakeSession) -> None:
    session.printed["default", last_rank(session)] = [LogLine(time.time(), text) for text in training(50)]
    async with console(session, size=(230, 30)) as (app, pilot, _):
        await press(pilot, "3", then=lambda: "loss 6.5" in screen_text(app))
        await until_shown(pilot, "25 %")
        looked = {arguments[1] for arguments in session.called("read_tail")}
        assert all(name.startswith("llama") or session.fleet.pods["default", name] for name in looked)


@pytest.mark.slow(reason="many keys in a whole app")
async def test_a_point_of_the_chart_and_its_line_in_the_log_lead_to_each_other(session: FakeSession) -> None:
    for number in range(1, 61):
        session.say(last_rank(session), iteration(number), f"checked {number}", at=1_700_000_000 + 10 * number)
    async with console(session, size=(140, 40)) as (app, pilot, _):
        screen = await to_job(app, pilot, "llama", "training")
        panel = screen.query_one(TrainingPanel)
        await until_shown(pilot, "step 60 of 200")
        assert "⏎ Log line" not in screen_text(app)
        panel.charts.point_at(22)
        await until_shown(pilot, "⏎ Log line")
        await pilot.press("enter")
        lines = screen.query_one(LogView).lines
        await until(pilot, lambda: screen.here.NAME == "log" and lines.match_line >= 0)
        assert "iteration       23/ 200" in lines.text.read_rows(lines.match_line, lines.match_line + 1)[0].text
        assert screen.rank == 5, "the pod that printed it"
        assert not lines.follow
        await until_shown(pilot, "⏎ Chart")
        panel.charts.action_whole()
        await press(pilot, "enter", then=lambda: "at step 23, " in screen_text(app))
        await press(pilot, "l", "end", then=lambda: "⏎ Chart" in screen_text(app) and "checked 60" in screen_text(app))
        await press(pilot, "enter", then=lambda: "at step 60, " in screen_text(app))


@pytest.mark.slow(reason="many keys in a whole app")
async def test_a_line_of_a_job_whose_training_was_not_looked_at_leads_to_its_step(session: FakeSession) -> None:
    for number in range(1, 61):
        session.say(last_rank(session), iteration(number), at=1_700_000_000 + 10 * number)
    async with console(session, size=(140, 40)) as (app, pilot, _):
        await to_job(app, pilot, "llama", "log")
        await until_shown(pilot, "⏎ Chart")
        await press(pilot, "home", then=lambda: "it 1/200  loss" in screen_text(app))
        await press(pilot, "enter", then=lambda: "loss 2.5" in screen_text(app) and "at step " in screen_text(app))


def saved_state(*, ago: float) -> SavedState:
    whole = Checkpoint("iter_0000040", "torch DCP", 40, CheckpointState.COMPLETE, 100, 3, time.time() - ago)
    cut = Checkpoint("iter_0000050", "torch DCP", 50, CheckpointState.INCOMPLETE, 9, 2, time.time(), ("a is missing",))
    return SavedState(time.time(), "/out", Survey((whole, cut)), by="5 files in 0.3 s, by commands in pod 0")


def saved_text(app: Any) -> str:
    return " ".join(text_of(app.screen.saved).split())


@pytest.mark.slow(reason="many keys in a whole app")
async def test_the_page_of_ones_own_job_says_which_checkpoint_is_whole_and_what_would_be_lost() -> None:
    session = FakeSession(queue_scene())
    session.mine = session.fleet.jobsets["default", "llama"].owner
    say(session, *training(60), "  successfully saved checkpoint from iteration      50 to /out")
    session.checkpoints.state = saved_state(ago=1800)
    async with console_at(opened, session, size=(150, 45)) as (app, pilot, _):
        await until(pilot, lambda: "the work since step 40 was saved 30 min ago: 24." in saved_text(app))
        words = "GPU-hours. Complete by its folder. Step 50 is incomplete: a is missing. /out, read"
        await until(
            pilot, lambda: words in saved_text(app) and "5 files in 0.3 s, by commands in pod 0" in saved_text(app)
        )
        assert session.called("checkpoints") == [("default", "llama")], "once, and not again each second"


@pytest.mark.slow(reason="many keys in a whole app")
@pytest.mark.parametrize("read_only", [False, True])
async def test_nothing_is_read_unasked_of_a_job_of_others_and_a_key_reads_it(*, read_only: bool) -> None:
    session = FakeSession(queue_scene())
    if read_only:
        session.mine = session.fleet.jobsets["default", "llama"].owner
        session.read_only = True
    say(session, *training(60), "  successfully saved checkpoint from iteration      50 to /out")
    session.checkpoints.state = saved_state(ago=1800)
    async with console_at(opened, session, size=(150, 45)) as (app, pilot, _):
        await until(pilot, lambda: "c reads its folder" in saved_text(app))
        assert "since step 50 was saved" in saved_text(app)
        assert session.called("checkpoints") == []
        await press(pilot, "c", then=lambda: "since step 40 was saved" in saved_text(app))
        assert session.called("checkpoints") == [("default", "llama")]


@pytest.mark.slow(reason="many keys in a whole app")
async def test_why_a_folder_could_not_be_read_is_readable_on_a_small_terminal(session: FakeSession) -> None:
    session.mine = session.fleet.jobsets["default", "llama"].owner
    say(session, *training(60), "  successfully saved checkpoint from iteration      50 to out/llama/checkpoint")
    problem = "There is no folder out/llama/checkpoint in pod 0 of llama."
    session.checkpoints.state = SavedState(time.time(), "out/llama/checkpoint", problem=problem)
    async with console(session, size=(80, 24)) as (app, pilot, _):
        screen = await to_job(app, pilot, "llama", "training")
        why = "Its folder could not be read: there is no folder out/llama/checkpoint in pod 0 of llama (tried"
        await until(pilot, lambda: why in " ".join(screen_text(app).split()))
        assert not screen.saved.is_cut


@pytest.mark.slow(reason="many keys in a whole app")
async def test_a_job_that_trains_nothing_has_no_line_of_checkpoints(session: FakeSession) -> None:
    say(session, "hello")
    async with console(session, size=(150, 45)) as (app, pilot, _):
        screen = await to_job(app, pilot, "llama", "training")
        await until_shown(pilot, "No training step")
        assert screen.saved.runs == ()
