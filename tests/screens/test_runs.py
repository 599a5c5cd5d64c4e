"""What was launched before: the list, one run, two runs compared, launching again, forgetting."""

from typing import Any

import pytest
from msgspec import structs
from msgspec.structs import replace

from console.connection_settings import Settings
from console.errors import NotAllowed, ReleaseFailed
from console.launch.recipes import LaunchPlan
from console.launch.run_record import Outcome, RunRecord
from console.launch.stop import StopPlan
from screens.dialogs.launch import LaunchLook
from screens.dialogs.question import Confirm, Pick
from screens.pages.job import JobScreen
from screens.pages.jobs import JobsScreen
from screens.pages.launch import LaunchScreen
from screens.pages.runs import RunScreen, RunsScreen
from screens.widgets.title_and_keys import KeyBar
from tests.fakes import FakeSession
from tests.screens.press import console, console_at, press, screen_of, screen_text, text_of, toasts, until, until_shown
from tests.screens.scene import NOW, scene
from tests.screens.test_acting import asked
from tests.screens.test_launch import session_of as launch_session, to_form


def run(number: int, name: str, outcome: Outcome = Outcome.SUCCEEDED, **more: Any) -> RunRecord:
    values = {"gpus": 16, "queue": "a4", "recipe": {"nccl": {"end": f"{number}G"}}}
    return RunRecord(
        number=number, name=name, outcome=outcome,
        **{
            "recipe": "nccl-all-reduce", "namespace": "default", "context": "test", "server": "https://x", "gpus": 16,
            "queue": "a4", "who": "anna", "chart": "0.1.0", "launched": NOW - 86400.0 / number, "values": values,
            "started": NOW - 80000.0 / number, "ended": NOW - 79000.0 / number, **more,
        },
    )  # fmt: skip


RUNS = [
    run(4, "nccl-4", Outcome.FAILED, why="pod 1 was killed (137)", left_out=("env.HF_TOKEN",)),
    run(3, "train-3", Outcome.STOPPED, recipe="qwen3-30b-pretrain", loss=2.104, loss_step=4120, step=4120),
    run(2, "nccl-2", peak_busbw=594.2, average_busbw=165.8),
    run(1, "llama-70b", Outcome.RUNNING, uid="uid-llama-70b", ended=0.0, peak_busbw=590.0),
]


def session_of(**answers: Any) -> FakeSession:
    session = FakeSession(scene())
    session.answers |= answers
    session.launch.runs.runs = list(RUNS)
    return session


async def to_runs(app: Any, pilot: Any) -> RunsScreen:
    await press(pilot, "6", then=lambda: isinstance(app.screen, RunsScreen) and len(app.screen.table.shown_keys) == 4)
    return screen_of(app, RunsScreen)


async def to_job(app: Any, pilot: Any) -> None:
    """The cursor on llama-70b in the list of jobs."""
    await press(pilot, "3", then=lambda: isinstance(app.screen, JobsScreen))
    await until(pilot, lambda: app.screen.table.move_to(("default", "llama-70b")))


@pytest.mark.slow(reason="many keys in a whole app")
async def test_every_run_says_how_it_ended() -> None:
    async with console_at(to_runs, session_of(), size=(128, 30)) as (app, pilot, screen):
        text = screen_text(app)
        lines = {name: next(line for line in text.splitlines() if f" {name} " in line) for name in
                 ("nccl-4", "train-3", "nccl-2", "llama-70b")}  # fmt: skip
        assert "✗ failed" in lines["nccl-4"]
        assert "‖ stopped" in lines["train-3"]
        assert "loss 2.104 at 4,120" in lines["train-3"]
        assert "✓ succeeded" in lines["nccl-2"]
        assert "594 GB/s" in lines["nccl-2"]
        assert "● running" in lines["llama-70b"]
        assert "pod 1 was killed (137)" in "".join(run.text for run in screen.explanation.runs)
        assert "env.HF_TOKEN" in "".join(run.text for run in screen.explanation.runs)
        await pilot.press("slash", *"4120")
        assert screen.table.shown_keys == []
        await press(pilot, *["backspace"] * 4, *"end=2G", then=lambda: screen.table.shown_keys == [("2",)])


async def test_the_list_follows_the_memory() -> None:
    async with console(session_of()) as (app, pilot, session):
        screen = await to_runs(app, pilot)
        session.launch.runs.runs.insert(0, run(5, "new", Outcome.WAITING))
        session.show()
        await until(pilot, lambda: screen.table.shown_keys[0] == ("5",))


async def test_without_runs_there_are_no_keys_for_one() -> None:
    session = session_of()
    session.launch.runs.runs = []
    async with console(session) as (app, pilot, _):
        await press(pilot, "6", then=lambda: "No runs in the history" in screen_text(app))
        assert "Forget" not in text_of(app.screen.query_one(KeyBar))
        session.launch.runs.runs = list(RUNS)
        session.show()
        await until(pilot, lambda: "Forget" in text_of(app.screen.query_one(KeyBar)))


async def test_one_run_beside_the_last_that_succeeded() -> None:
    async with console_at(to_runs, session_of(), size=(120, 40)) as (app, pilot, _):
        await press(pilot, "enter", then=lambda: isinstance(app.screen, RunScreen) and app.screen.run is not None)
        await until_shown(pilot, "compared with the last that succeeded: nccl-2", "end: 4G", "recipe.nccl.end", "2G")
        await press(pilot, "d", then=lambda: isinstance(app.screen, Pick))
        await press(pilot, *"train", "enter", then=lambda: "compared with train-3 (run 3, stopped" in screen_text(app))
        await until_shown(pilot, "qwen3-30b-pretrain")
        await press(pilot, "escape", then=lambda: isinstance(app.screen, RunsScreen))


@pytest.mark.slow(reason="many keys in a whole app")
async def test_two_marked_runs_side_by_side() -> None:
    async with console_at(to_runs, session_of()) as (app, pilot, _):
        await press(pilot, "space", "down", "space", "d", then=lambda: isinstance(app.screen, RunScreen))
        await until_shown(pilot, "compared with nccl-2 (run 2")
        assert isinstance(app.screen, RunScreen)
        assert app.screen.run is RUNS[0]


@pytest.mark.slow(reason="many keys in a whole app")
async def test_launching_again_opens_the_form_with_the_values() -> None:
    async with console_at(to_runs, session_of()) as (app, pilot, _):
        await press(pilot, "n", then=lambda: isinstance(app.screen, LaunchScreen))
        assert app.launch_request is None or app.launch_request.values == RUNS[0].values
        assert "env.HF_TOKEN" in toasts(app) or app.launch_request is not None


@pytest.mark.slow(reason="many keys in a whole app")
@pytest.mark.parametrize("where", ["list", "page"])
async def test_a_run_is_reviewed_at_once_with_its_values(where: str) -> None:
    session = launch_session()
    session.launch.runs.runs = [run(4, "nccl-4", values={"gpus": 32})]
    async with console(session) as (app, pilot, _):
        await press(pilot, "6", then=lambda: isinstance(app.screen, RunsScreen) and app.screen.table.cursor is not None)
        if where == "page":
            await press(pilot, "enter", then=lambda: isinstance(app.screen, RunScreen) and app.screen.run is not None)
        await press(pilot, "ctrl+s", then=lambda: isinstance(app.screen, LaunchLook) and "32 GPUs" in screen_text(app))
        assert session.called("launch") == [], "it is looked at first"


async def test_the_job_of_a_run_while_it_lives() -> None:
    async with console_at(to_runs, session_of()) as (app, pilot, _):
        await press(pilot, "J", then=lambda: "not in this cluster any more" in toasts(app))
        await press(pilot, "end", "J", then=lambda: isinstance(app.screen, JobScreen))
        assert isinstance(app.screen, JobScreen)
        assert app.screen.key == ("default", "llama-70b")


async def test_runs_are_forgotten_when_somebody_agrees() -> None:
    async with console(session_of()) as (app, pilot, session):
        screen = await to_runs(app, pilot)
        await press(pilot, "space", "x", then=lambda: isinstance(app.screen, Confirm))
        await until_shown(pilot, "Forget 1 run?", "The jobs and their output stay.")
        await press(pilot, "escape", then=lambda: app.screen is screen)
        assert session.called("forget") == []
        await press(pilot, "space", "x", then=lambda: isinstance(app.screen, Confirm))
        await press(pilot, "y", then=lambda: len(screen.table.shown_keys) == 2)
        assert session.called("forget") == [((3, 4),)]


async def test_a_run_whose_job_still_runs_is_not_forgotten() -> None:
    session = session_of()
    running = structs.replace(
        RUNS[-1], server=session.watch.server, uid=session.fleet.jobsets["default", "llama-70b"].uid
    )
    session.launch.runs.runs = [running, *RUNS[:-1]]
    async with console_at(to_runs, session) as (app, pilot, screen):
        screen.table.move_to((str(running.number),))
        await press(pilot, "x", then=lambda: "Nothing is forgotten of llama-70b." in toasts(app))
        assert app.screen is screen
        assert session.called("forget") == []


async def test_what_is_wrong_with_the_run_history_is_shown() -> None:
    session = session_of()
    session.launch.runs.note = "The history of runs was written by a newer a4: it is shown read-only."
    async with console_at(to_runs, session) as (_, pilot, _):
        await until_shown(pilot, "written by a newer a4")


async def test_read_only_launches_nothing_again() -> None:
    settings = Settings(read_only=True)
    session = FakeSession(scene(), settings=settings)
    session.launch.runs.runs = list(RUNS)
    async with console_at(to_runs, session, settings=settings) as (app, pilot, screen):
        await press(pilot, "n", then=lambda: "read-only" in toasts(app))
        assert app.screen is screen


async def test_before_a_stop_every_object_is_named() -> None:
    plan = StopPlan(
        "default", "llama-70b", "llama-70b", ("JobSet llama-70b", "Secret llama-70b-ssh"),
        ("PersistentVolumeClaim data", "bucket gs://runs, mounted at /gcs"),
        lost="the work since step 1,240 was saved 23 min ago: 6.1 GPU-hours",
    )  # fmt: skip
    async with console(session_of(stop_plan=plan)) as (app, pilot, session):
        await to_job(app, pilot)
        await press(pilot, "x", then=lambda: isinstance(app.screen, Confirm))
        await until_shown(
            pilot,
            "goes: JobSet llama-70b, Secret llama-70b-ssh",
            "lost: the work since step 1,240 was saved 23 min ago: 6.1 GPU-hours",
            "stays: PersistentVolumeClaim data, bucket gs://runs, mounted at /gcs",
        )
        await press(pilot, "y", then=lambda: session.called("stop_job") == [("default", "llama-70b")])


async def test_what_a_forged_release_would_remove_is_not_asked_for() -> None:
    refused = ReleaseFailed("The release llama-70b in default holds what this chart does not make: hooks.")
    async with console(session_of(stop_plan=refused)) as (app, pilot, session):
        await to_job(app, pilot)
        await press(pilot, "x", then=lambda: isinstance(app.screen, Confirm))
        assert "holds what this chart does not make: hooks" in screen_text(app)
        await press(pilot, "y", then=lambda: len(app._notifications) > 0)
        assert session.called("stop_job") == []


async def test_where_helm_cannot_be_read_the_picture_tells_what_goes() -> None:
    async with console_at(to_job, session_of(stop_plan=NotAllowed("You may not read secrets."))) as (app, pilot, _):
        await press(pilot, "x", then=lambda: isinstance(app.screen, Confirm))
        assert "llama-70b in default: Helm release llama-70b" in screen_text(app)
        assert "stays: what it wrote" in screen_text(app)


@pytest.mark.slow(reason="many keys in a whole app")
@pytest.mark.parametrize(("where", "known"), [("jobs", False), ("job", True)])
async def test_a_job_is_launched_again_with_the_values_of_the_history_else_of_its_release(
    where: str, *, known: bool
) -> None:
    plan = LaunchPlan("nccl-all-reduce", "llama-70b", "default", {"gpus": 8})
    async with console(session_of(release_plan=plan)) as (app, pilot, session):
        session.launch.runs.runs = list(RUNS) if known else []
        await to_job(app, pilot)
        if where == "job":
            await press(pilot, "enter", then=lambda: isinstance(app.screen, JobScreen))
        await pilot.press("n")
        wish = await asked(app, pilot)
        assert session.called("release_plan") == ([] if known else [("default", "llama-70b")])
        assert (wish.values == plan.values) is not known
        said = (
            "Values of llama-70b, launched " if known else "Values of the release of llama-70b, which others may have"
        )
        assert wish.message.startswith(said)


@pytest.mark.slow(reason="many keys in a whole app")
async def test_a_job_of_a_recipe_that_no_release_made_is_launched_again_with_what_it_tells() -> None:
    session = session_of()
    session.launch.runs.runs.clear()
    key = ("default", "llama-70b")
    bare = replace(session.fleet.jobsets[key], release="", recipe="nccl-all-reduce")
    session.show(jobsets={**session.fleet.jobsets, key: bare})
    async with console_at(to_job, session) as (app, pilot, _):
        await press(pilot, "n", then=lambda: isinstance(app.screen, LaunchScreen))
        assert session.called("plan_of_job") == [("llama-70b",)]
        assert "was not launched from a recipe" not in toasts(app)


def form_session(**profiles: Any) -> FakeSession:
    session = launch_session()
    session.launch.profiles.kept = profiles
    return session


async def test_the_default_profile_is_in_a_new_form() -> None:
    session = form_session(prod={"gpus": 8, "queue": "research"})
    session.launch.profiles.chosen = "prod"
    async with console_at(to_form, session) as (app, pilot, screen):
        await until(pilot, lambda: screen.form.texts["gpus"] == "8")
        assert screen.form.texts["queue"] == "research"
        assert "Profile prod: 2 values." in toasts(app)


@pytest.mark.slow(reason="many keys in a whole app")
async def test_a_profile_is_picked_and_taken_back() -> None:
    async with console_at(to_form, form_session(prod={"gpus": 8}, test={"gpus": 32})) as (app, pilot, screen):
        assert screen.form.texts["gpus"] == "16"
        await press(pilot, "f8", then=lambda: isinstance(app.screen, Pick))
        await press(pilot, *"test", "enter", then=lambda: screen.form.texts["gpus"] == "32")
        await until(pilot, lambda: app.screen is screen)
        await press(pilot, "ctrl+z", then=lambda: screen.form.texts["gpus"] == "16")


@pytest.mark.slow(reason="many keys in a whole app")
async def test_values_of_a_run_are_not_mixed_with_the_default_profile() -> None:
    session = form_session(prod={"gpus": 8})
    session.launch.profiles.chosen = "prod"
    session.launch.runs.runs = [run(1, "nccl-1", values={"gpus": 32})]
    async with console(session) as (app, pilot, _):
        await press(pilot, "6", then=lambda: isinstance(app.screen, RunsScreen) and app.screen.table.cursor is not None)
        await pilot.press("n")
        await until(pilot, lambda: isinstance(app.screen, LaunchScreen) and app.screen.form.texts.get("gpus") == "32")
        assert isinstance(app.screen, LaunchScreen)
        assert app.screen.form.texts["name"] == "nccl-1"


async def test_without_profiles_the_way_to_make_one_is_shown() -> None:
    async with console_at(to_form, form_session()) as (app, pilot, _):
        await press(pilot, "f8", then=lambda: "a4 profiles NAME --set queue=a4" in toasts(app))
