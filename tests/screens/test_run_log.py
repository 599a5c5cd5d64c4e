"""What is kept of a run's log: its curve, its last lines, all of them; and small answers of a job's page."""

from pathlib import Path

import pytest

from console.kube.objects.jobset import recipe_kind
from console.launch.run_record import Outcome
from console.logs.log_folder import JobLogStore, JobMetadata, logs_folder
from console.logs.log_segment import LogSegment
from console.metrics.alarm import AlarmKind
from screens.columns.job_header import first_tab
from screens.pages.job import JobScreen
from screens.pages.runs import RunScreen
from screens.widgets.charts.nccl_panel import NcclPanel
from screens.widgets.charts.training_panel import TrainingPanel
from screens.widgets.log.log_view import LogView
from screens.wording import lower_first_letter, whole_path
from tests.console.metrics.test_log_search import iteration
from tests.fakes import FakeSession
from tests.screens.press import console, press, screen_text, toasts, until, until_shown
from tests.screens.queue_scene import queue_scene
from tests.screens.test_jobs import to_job
from tests.screens.test_runs import run

UID = "uid-of-train-9"


def keep(uid: str, *lines: str, name: str = "train-9") -> None:
    """The log of a job that is gone, as it is kept."""
    shelf = JobLogStore.open(logs_folder(), JobMetadata(uid, "default", name, ranks=2, recipe="qwen3-30b-pretrain"))
    part = LogSegment(1, file=shelf.segment_path(1, 0, "main", "pod-1"))
    part.append_lines(
        [(1000.0 + at, f"2026-11-22T10:00:{at:02}.000000000Z {line}".encode()) for at, line in enumerate(lines)]
    )
    part.write_pending()
    shelf.close()


def session_of(outcome: Outcome = Outcome.SUCCEEDED) -> FakeSession:
    session = FakeSession(queue_scene())
    session.launch.runs.runs = [run(9, "train-9", outcome, recipe="qwen3-30b-pretrain", uid=UID, why="")]
    return session


@pytest.mark.slow(reason="many keys in a whole app")
@pytest.mark.parametrize("size", [(140, 42), (80, 24)])
async def test_a_run_that_is_gone_shows_its_curve_and_its_log(size: tuple[int, int]) -> None:
    keep(UID, *map(iteration, range(1, 30)), "its last words")
    keep("another of the same name", "not this one")
    async with console(session_of(), size=size) as (app, pilot, _):
        app.open_page("run", "9")
        await until(pilot, lambda: isinstance(app.screen, RunScreen) and "its last words" in screen_text(app))
        assert "not this one" not in screen_text(app)
        assert app.screen.query_one(TrainingPanel).display is (size[1] > 30), "a low screen has no room for it"
        assert not app.screen.query_one(NcclPanel).display
        session = app.session
        assert isinstance(session, FakeSession)
        session.mine = session.fleet.jobsets["default", "llama"].owner
        session.alarms.sound("default", "llama", AlarmKind.NAN, "no loss printed at 118")
        app.tick()
        await until(pilot, lambda: "llama" in toasts(app))  # its log is of another run
        assert [len(track) for track in app.screen.query_one(TrainingPanel).tracks] == [29]
        await press(pilot, "l", then=lambda: app.screen.query_one(LogView).size.height > size[1] - 8)
        await press(pilot, "l", then=lambda: "values it was launched with" in screen_text(app))


async def test_a_run_of_which_no_log_is_kept_says_why_and_what_helps() -> None:
    async with console(session_of(), size=(160, 42)) as (app, pilot, _):
        app.open_page("run", "9")
        await until_shown(pilot, "No curve and no log: its log was never opened on this machine")
        await until(
            pilot,
            lambda: (
                "The job is gone. Of the next one: open its log while it is there" in " ".join(screen_text(app).split())
            ),
        )
        assert not app.screen.query_one(LogView).display
        assert app.screen.check_action("log", ()) is False


@pytest.mark.slow(reason="many keys in a whole app")
async def test_while_the_job_is_there_its_page_reads_the_log() -> None:
    session = session_of()
    jobset = session.fleet.jobsets["default", "llama"]
    session.launch.runs.runs = [run(9, "llama", Outcome.DIVERGED, uid=jobset.uid)]
    async with console(session, size=(160, 42)) as (app, pilot, _):
        app.open_page("run", "9")
        await until(pilot, lambda: "The job is still there: J opens it" in " ".join(screen_text(app).split()))
        keep(jobset.uid, "its last words", name="llama")
    session.launch.runs.runs = [run(9, "llama", Outcome.DIVERGED, uid=jobset.uid)]
    async with console(session, size=(160, 42)) as (app, pilot, _):
        app.open_page("run", "9")
        await until_shown(pilot, "its last words")
        assert "No curve and no log" not in screen_text(app)


async def test_a_pod_that_has_ended_is_reported_instead_of_asking_for_ports() -> None:
    async with console(FakeSession(queue_scene()), size=(140, 40)) as (app, pilot, _):
        screen = await to_job(app, pilot, "sweep")
        await until(pilot, lambda: screen.rank == 1)
        await press(pilot, "f", then=lambda: "Pod 1 has ended: OOMKilled (137)." in toasts(app))
        assert app.screen is screen


@pytest.mark.parametrize(
    ("recipe", "tab"),
    [("nccl-all-reduce", "nccl"), ("qwen3-30b-pretrain", "training"), ("swift-dpo-multinode", "training"),
     ("qwen3-next-lustre", "training"), ("own-script", "pods"), ("qwen3-download", "pods"), ("", "pods")],
)  # fmt: skip
def test_a_job_opens_on_its_progress(recipe: str, tab: str) -> None:
    assert recipe_kind(recipe) == tab


async def test_a_job_that_failed_opens_on_its_pods() -> None:
    fleet = queue_scene()
    assert first_tab(fleet.jobsets["default", "sweep"]) == "pods"
    assert first_tab(None) == "pods"
    async with console(FakeSession(fleet), size=(140, 40)) as (app, pilot, _):
        app.open_page("job", "default", "sweep")
        await until(pilot, lambda: isinstance(app.screen, JobScreen) and app.screen.is_mounted)
        assert isinstance(app.screen, JobScreen)
        assert app.screen.here.NAME == "pods"


def test_where_a_file_is_saved_is_reported_in_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert whole_path("llama.log") == tmp_path / "llama.log"
    monkeypatch.setenv("HOME", "/home/anna")
    assert str(whole_path("~/llama.log")) == "/home/anna/llama.log"


def test_names_keep_their_capitals_after_a_colon() -> None:
    assert lower_first_letter("GPUs, disks, mounts") == "GPUs, disks, mounts"
    assert lower_first_letter("NCCL lines") == "NCCL lines"
    assert lower_first_letter("A shell in pod 0") == "a shell in pod 0"
    assert lower_first_letter("Ports of this machine") == "ports of this machine"
