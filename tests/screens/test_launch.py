import asyncio
import json
import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs
from textual import events
from textual.widgets import TextArea

from console.connection_settings import Settings
from console.errors import BadInput, Conflict, ReleaseFailed, Unreachable
from console.kube.snapshot import WatchState
from console.launch.field_choices import ChoicesState, FieldChoices
from console.launch.install import ChartCatalog
from console.launch.recipes import Field, FieldKind, FieldProblem, LaunchPlan, Manifest
from console.launch.run_record import RunRecord
from console.preflight.check import Check, Result
from console.scheduling.expected_start import ExpectedStart
from console.scheduling.launch_forecast import LaunchDemand
from screens.app import ConsoleApp
from screens.columns.jobs import start_time
from screens.dialogs.launch import LaunchLook, PasteDialog, PasteReport
from screens.dialogs.question import Confirm
from screens.pages.help import HelpScreen, key_groups
from screens.pages.job import JobScreen
from screens.pages.jobs import JobsScreen
from screens.pages.launch import LaunchScreen
from screens.widgets.form.form_model import LaunchRequest
from screens.widgets.form.launch_texts import fit_words, free_name
from screens.widgets.title_and_keys import TabShape, TitleBar
from tests.fakes import FakeSession, present
from tests.screens.press import console, console_at, press, screen_of, screen_text, text_of, toasts, until, until_shown
from tests.screens.queue_scene import FIELDS, MANIFESTS, OTHER, RECIPE, cluster_queue, queue_scene


def judge(plan: LaunchPlan) -> tuple[FieldProblem, ...]:
    """A schema in small: GPUs must be whole nodes, the name must not be empty."""
    found = []
    if plan.values.get("gpus", 16) not in {8, 16, 32}:
        found.append(FieldProblem("gpus", "GPUs must be 8, 16 or 32."))
    if not plan.name:
        found.append(FieldProblem("name", "The name is empty."))
    return tuple(found)


def session_of(**answers: Any) -> FakeSession:
    session = FakeSession(queue_scene())
    session.answers |= {
        "recipes": (RECIPE, OTHER), "fields": FIELDS, "problems": judge, "render": MANIFESTS, "launch": "me-nccl",
        "suggest_name": "llama", **answers,
    }  # fmt: skip
    return session


async def to_form(app: ConsoleApp, pilot: Any) -> LaunchScreen:
    await press(pilot, "5", then=lambda: isinstance(app.screen, LaunchScreen) and "gpus" in app.screen.form.texts)
    screen = screen_of(app, LaunchScreen)
    await press(pilot, "enter", then=lambda: app.focused is not screen.recipes)
    return screen


async def test_a_key_comes_between_the_first_picture_of_the_page_and_the_form() -> None:
    async with console_at(to_form, session_of()) as (app, _, screen):
        for answer in (screen.on_resize(events.Resize(app.size, app.size)), screen.follow_cursor()):
            turns: list[str] = []
            asyncio.get_running_loop().call_soon(turns.append, "key")
            await answer
            assert turns == ["key"]


@pytest.mark.slow(reason="many keys in a whole app")
async def test_digits_open_pages_from_a_form_where_no_text_is_typed() -> None:
    async with console_at(to_form, session_of()) as (app, pilot, screen):
        bar = screen.query_one(TitleBar)
        await until(pilot, lambda: (" 3 ", "faint") in [run for run, _ in bar._tab_spans(TabShape())])
        for path in ("keepAlive", "topology.request"):
            screen.form.go(path)
            await until(pilot, lambda path=path: screen.form.cursor_path == path)  # type: ignore[misc]
            await until(pilot, lambda: not bar.digits_are_text)
            await press(pilot, "3", then=lambda: isinstance(app.screen, JobsScreen))
            await press(pilot, "5", then=lambda: app.screen is screen)
        screen.form.go("gpus")
        await until(pilot, lambda: screen.form.cursor_path == "gpus")
        await press(pilot, "3", then=lambda: screen.form.texts["gpus"] == "3")
        assert app.screen is screen


@pytest.mark.slow(reason="many keys in a whole app")
@pytest.mark.parametrize(("wrong", "here"), [((), "gpus"), ((FieldProblem("queue", "There is none."),), "queue")])
async def test_the_form_begins_at_the_first_problem(wrong: tuple[FieldProblem, ...], here: str) -> None:
    async with console_at(to_form, session_of(problems=wrong)) as (_, _, screen):
        assert screen.form.cursor_path == here


@pytest.mark.slow(reason="many keys in a whole app")
async def test_the_main_job_form_look_launch_job() -> None:
    session = session_of()
    async with console_at(to_form, session) as (app, pilot, screen):
        assert screen.form.texts["name"] == "llama-2"  # llama is taken
        assert screen.form.texts["queue"] == "a4"  # research is stopped
        await press(pilot, "backspace", "backspace", "8", "ctrl+s", then=lambda: isinstance(app.screen, LaunchLook))
        await until_shown(pilot, "The API server accepts it")
        assert "The API server checks" not in screen_text(app), "it has"
        assert "kind: JobSet" in screen_text(app)
        assert "8 GPUs = 1 node of 8" in screen_text(app)
        assert session.called("launch") == []
        await press(pilot, "enter", then=lambda: isinstance(app.screen, JobScreen))
        plan = session.called("launch")[0][0]
        assert plan == LaunchPlan("nccl-all-reduce", "llama-2", "default", {"gpus": 8, "queue": "a4"})
        assert session.called("check") == [(plan,)]
        assert isinstance(app.screen, JobScreen)
        assert app.screen.key == ("default", "me-nccl")
        assert app.current_mode == "jobs"
        assert "me-nccl is launched" in toasts(app)


@pytest.mark.slow(reason="many keys in a whole app")
async def test_a_number_makes_the_change_with_which_it_would_fit_now() -> None:
    session = session_of()
    async with console_at(to_form, session) as (app, pilot, screen):
        await pilot.press("backspace", "backspace", "3", "2", "ctrl+s")
        await until(pilot, lambda: isinstance(app.screen, LaunchLook))
        await until_shown(pilot, "would fit now with 16 GPUs (1).")
        await pilot.press("2", "3")
        assert isinstance(app.screen, LaunchLook), "there is no second change"
        await press(pilot, "1", then=lambda: isinstance(app.screen, LaunchLook) and "Fits now" in screen_text(app))
        assert screen.form.texts["gpus"] == "16"
        assert "GPUs is 16 now; ctrl+z in the form takes it back." in toasts(app)
        await press(pilot, "escape", then=lambda: app.screen is screen)
        await press(pilot, "ctrl+z", then=lambda: screen.form.texts["gpus"] == "32")
        assert session.called("launch") == []


@pytest.mark.slow(reason="many keys in a whole app")
async def test_when_it_would_start_follows_what_is_typed_and_one_forecast_runs_at_a_time() -> None:
    session = session_of()
    asked: list[int] = []
    answered: list[asyncio.Event] = []

    async def launch_start(demand: LaunchDemand) -> ExpectedStart:
        asked.append(demand.gpus)
        answered.append(asyncio.Event())
        await answered[-1].wait()
        return ExpectedStart(session.fleet.at + 3600 * demand.gpus, "llama")

    session.answers["launch_start"] = launch_start
    session.show(cluster_queues={**session.fleet.cluster_queues, ("", "a4"): cluster_queue("a4", 64)})
    async with console_at(to_form, session) as (_, pilot, screen):
        await until(pilot, lambda: asked == [16])
        assert "Waits (" in text_of(screen.head.query_one("#fit"))
        await pilot.press("backspace", "backspace", "8", "backspace", "3", "2")
        await until(pilot, lambda: screen.form.texts["gpus"] == "32")
        screen._on_typing_paused()
        await pilot.pause()
        assert asked == [16], "the first is still being worked out"
        answered[0].set()
        await until(pilot, lambda: asked == [16, 32])
        assert "starts about" not in text_of(screen.head.query_one("#fit")), "that was of 16"
        answered[1].set()
        words = f"Waits, starts {start_time(ExpectedStart(session.fleet.at + 3600 * 32), session.fleet.at)} ("
        await until(pilot, lambda: words in text_of(screen.head.query_one("#fit")))


@pytest.mark.slow(reason="many keys in a whole app")
async def test_a_queue_that_was_filled_in_follows_what_is_asked_for_until_one_is_typed() -> None:
    """a4 has 16 free, research 64: what fits in a4 alone goes there, and what does not goes where there is room."""
    session = session_of()
    queues = session.fleet.cluster_queues
    session.show(cluster_queues={**queues, ("", "research"): cluster_queue("research", 56)})
    async with console_at(to_form, session) as (app, pilot, screen):
        assert screen.form.texts["queue"] == "a4"
        await until_shown(pilot, "queue a4 filled in")
        session.show(cluster_queues={**queues, ("", "research"): cluster_queue("research", 0)})
        await until(pilot, lambda: screen.form.texts["queue"] == "research")
        screen.form.go("queue")
        await press(pilot, "ctrl+u", "a", "4", then=lambda: screen.form.texts["queue"] == "a4")
        screen.form.go("gpus")
        await until_shown(pilot, "1 changed")
        assert screen.form.texts["queue"] == "a4"
        assert "filled in" not in screen_text(app)


@pytest.mark.slow(reason="many keys in a whole app")
async def test_after_a_launch_the_new_job_is_below_jobs_and_no_field_has_the_keys() -> None:
    async with console(session_of()) as (app, pilot, _):
        await press(pilot, "3", "enter", then=lambda: isinstance(app.screen, JobScreen))
        screen = await to_form(app, pilot)
        await press(pilot, "ctrl+s", then=lambda: isinstance(app.screen, LaunchLook))
        await until_shown(pilot, "The API server accepts it")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, JobScreen) and app.screen.key == ("default", "me-nccl"))
        assert len(app.screen_stack) == 2, "Jobs, and the new job on it: the other job's page is closed"
        assert screen.focused is screen.recipes
        await press(pilot, "5", then=lambda: app.screen is screen)
        await press(pilot, "3", then=lambda: app.current_mode == "jobs")
        assert screen.form.texts["name"] == "llama-2", "a digit is a page again, not a letter of the name"


async def test_escape_at_the_look_launches_nothing() -> None:
    session = session_of()
    async with console_at(to_form, session) as (app, pilot, screen):
        await press(pilot, "ctrl+s", then=lambda: isinstance(app.screen, LaunchLook))
        await press(pilot, "escape", then=lambda: app.screen is screen)
        assert session.called("launch") == []


@pytest.mark.slow(reason="many keys in a whole app")
async def test_the_look_names_the_checks_that_fail_and_asks_all_the_same() -> None:
    session = session_of()
    bucket = "The bucket gs://gone does not exist."
    session.preflight.found["P11"] = Check("P11", "Bucket", "storage", Result.FAIL, bucket, "", "Make it.", at=1.0)
    async with console_at(to_form, session) as (app, pilot, screen):
        await press(pilot, "ctrl+s", then=lambda: isinstance(app.screen, LaunchLook))
        await until_shown(
            pilot,
            f"✗ Bucket: {bucket}",
            "Fix: Make it.",
            "1 check failed. Launch llama-2 all the same?",
            "launches all the same",
        )
        await press(pilot, "escape", then=lambda: app.screen is screen)
        assert session.called("launch") == []


CONFIRMED = "launches when the checks end, unless one fails"


@pytest.mark.slow(reason="many keys in a whole app")
async def test_what_is_confirmed_while_the_checks_run_launches_when_they_end() -> None:
    session = session_of()
    session.preflight.held = asyncio.Event()
    async with console_at(to_form, session) as (app, pilot, screen):
        await press(pilot, "ctrl+s", then=lambda: "The API server checks llama-2 …" in screen_text(app))
        await press(pilot, "enter", then=lambda: f"Confirmed: {CONFIRMED}" in screen_text(app))
        assert screen.form.cursor_path == "gpus", "the key is no key of the form"
        assert session.called("launch") == []
        session.preflight.held.set()
        await until(pilot, lambda: isinstance(app.screen, JobScreen))
        assert len(session.called("launch")) == 1


@pytest.mark.slow(reason="many keys in a whole app")
async def test_the_launch_key_held_down_or_pressed_twice_confirms_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    session = session_of()
    session.preflight.held = asyncio.Event()
    monkeypatch.setattr("screens.dialogs.launch.KEY_REPEAT_SECONDS", 3600.0)
    async with console_at(to_form, session) as (app, pilot, _):
        await press(pilot, "ctrl+s", "ctrl+s", "ctrl+s", then=lambda: CONFIRMED in screen_text(app))
        assert "Confirmed" not in screen_text(app), "nobody has read what it asks"
        session.preflight.held.set()
        await until_shown(pilot, "The API server accepts it")
        await pilot.press("ctrl+s", "ctrl+s")
        assert isinstance(app.screen, LaunchLook), "still held down"
        assert session.called("launch") == []
        monkeypatch.setattr("screens.dialogs.launch.KEY_REPEAT_SECONDS", 0.0)
        await press(pilot, "ctrl+s", then=lambda: isinstance(app.screen, JobScreen))
        assert len(session.called("launch")) == 1


@pytest.mark.slow(reason="many keys in a whole app")
async def test_a_check_that_fails_drops_what_was_confirmed_and_asks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    session = session_of()
    session.preflight.held = asyncio.Event()
    gone = "The bucket gs://gone does not exist."
    session.preflight.found["P11"] = Check("P11", "Bucket", "storage", Result.FAIL, gone, "", "Make it.", at=1.0)
    monkeypatch.setattr("screens.dialogs.launch.MIN_READING_SECONDS", 3600.0)
    async with console_at(to_form, session) as (app, pilot, _):
        await press(pilot, "ctrl+s", then=lambda: CONFIRMED in screen_text(app))
        await pilot.press("enter")
        session.preflight.held.set()
        await until_shown(pilot, "1 check failed. Launch llama-2 all the same?")
        await pilot.press("enter")
        assert isinstance(app.screen, LaunchLook), "pressed before the failure could be read"
        assert session.called("launch") == []
        app.screen.launches_from = 0.0
        await press(pilot, "enter", then=lambda: isinstance(app.screen, JobScreen))


@pytest.mark.parametrize("confirmed", [True, False])
async def test_escape_while_the_checks_run_cancels_the_launch(confirmed: bool) -> None:
    session = session_of()
    session.preflight.held = asyncio.Event()
    async with console_at(to_form, session) as (app, pilot, screen):
        await press(pilot, "ctrl+s", then=lambda: CONFIRMED in screen_text(app))
        await press(pilot, *(["enter"] if confirmed else []), "escape", then=lambda: app.screen is screen)
        session.preflight.held.set()
        await pilot.pause()
        assert app.screen is screen
        assert session.called("launch") == []


@pytest.mark.slow(reason="many keys in a whole app")
@pytest.mark.parametrize("refused", [True, False])
async def test_the_end_of_the_checks_neither_closes_nor_launches_below_another_screen(refused: bool) -> None:
    error = Unreachable("The API server does not answer.", "Try again.")
    session = session_of(**({"check": error} if refused else {}))
    held = session.preflight.held = asyncio.Event()
    if refused:
        session.answers["hold check"] = held
    async with console_at(to_form, session) as (app, pilot, screen):
        await press(pilot, "ctrl+s", then=lambda: CONFIRMED in screen_text(app))
        await pilot.press("enter")
        above = Confirm("Another question?")
        await app.push_screen(above)
        held.set()
        await until(pilot, lambda: not any(each.group == "checks" for each in app.workers))
        assert app.screen is above
        assert session.called("launch") == []
        await pilot.press("n")
        if refused:
            await until(pilot, lambda: app.screen is screen and str(error) in toasts(app))
        else:
            await until_shown(pilot, "The API server accepts it")


async def test_the_look_says_what_is_awaited_and_asks_about_checks_that_learnt_nothing() -> None:
    session = session_of()
    session.preflight.held, session.preflight.awaited = asyncio.Event(), ("Bucket", "Image")
    late = "There was no answer within 8 s."
    session.preflight.found["P11"] = Check("P11", "Bucket", "storage", Result.COULD_NOT, "Nothing.", late, "", at=1.0)
    async with console_at(to_form, session) as (app, pilot, _):
        await press(pilot, "ctrl+s", then=lambda: isinstance(app.screen, LaunchLook))
        await until_shown(pilot, "The checks wait up to 8 s for Bucket, Image …")
        await pilot.press("enter")
        session.preflight.held.set()
        await until_shown(
            pilot,
            "Not known: Bucket (There was no answer within 8 s).",
            "1 check had no answer. Launch llama-2 all the same?",
        )
        assert session.called("launch") == [], "confirmed before it was known"


async def test_errors_while_typing_stand_at_the_field_and_stop_the_launch() -> None:
    session = session_of()
    async with console_at(to_form, session) as (app, pilot, screen):
        await press(pilot, "backspace", "2", then=lambda: "✗ GPUs" in screen_text(app))
        await until_shown(pilot, "must be 8, 16 or 32.", "Needs another value: GPUs.")
        await press(pilot, "ctrl+s", then=lambda: "Not yet: GPUs must be 8, 16 or 32." in toasts(app))
        assert session.called("check") == []
        await press(pilot, "x", then=lambda: "must be a whole number" in screen_text(app))
        screen.form.put_texts({"gpus": "8", "queue": "nope"})
        await until_shown(pilot, "✗ Queue")
        screen.form.put_texts({"queue": "a4"})
        await until(pilot, lambda: "✗ Queue" not in screen_text(app))


@pytest.mark.slow(reason="many keys in a whole app")
async def test_the_default_takes_an_unreadable_number_and_its_error_away() -> None:
    session = session_of()
    async with console_at(to_form, session) as (app, pilot, screen):
        screen.form.go("gpus")
        await press(pilot, "a", "b", "c", then=lambda: "must be a whole number" in screen_text(app))
        await press(pilot, "ctrl+g", then=lambda: screen.form.texts["gpus"] == "16")
        await until(pilot, lambda: "must be a whole number" not in screen_text(app))
        await press(pilot, "ctrl+s", then=lambda: isinstance(app.screen, LaunchLook))


@pytest.mark.slow(reason="many keys in a whole app")
@pytest.mark.parametrize(
    ("method", "error"),
    [
        ("check", BadInput("Queue must exist; a4 was given.")),
        ("render", ReleaseFailed("Helm could not render.", "Look at the values.")),
        ("launch", Conflict("The name llama-2 is taken.", "Choose another.")),
        ("launch", Unreachable("The API server does not answer.", "Try again.")),
    ],
)
async def test_a_refusal_is_reported_and_the_form_stays(method: str, error: Exception) -> None:
    session = session_of(**{method: error})
    async with console_at(to_form, session) as (app, pilot, screen):
        await pilot.press("ctrl+s")
        if method == "launch":
            await until(pilot, lambda: isinstance(app.screen, LaunchLook))
            await pilot.press("enter")
        await until(pilot, lambda: str(error) in toasts(app))
        await until(pilot, lambda: app.screen is screen)
        assert screen.form.texts["name"] == "llama-2"
        if method == "check":
            await until_shown(pilot, "✗ Queue", "exist; a4 was given")


async def test_advanced_fields_come_and_go_and_keep_what_was_typed() -> None:
    async with console_at(to_form, session_of()) as (_, pilot, screen):
        assert "hub.token" not in screen.form.model.shown()
        await press(pilot, "ctrl+t", then=lambda: "hub.token" in screen.form.model.shown())
        screen.form.go("env")
        await pilot.press("ctrl+n", *"X=2")
        await press(pilot, "ctrl+t", then=lambda: "hub.token" not in screen.form.model.shown())
        assert "env" in screen.form.model.shown(), "what is changed stays in sight"
        planned = present(screen.plan())
        assert planned[0].values["env"] == {"X": "2"}


async def test_f1_tells_all_of_a_field_and_the_keys() -> None:
    told = " ".join(f"word{number}" for number in range(200))
    fields = tuple(replace(each, description=told) if each.path == "gpus" else each for each in FIELDS)
    async with console_at(to_form, session_of(fields=fields)) as (app, pilot, screen):
        await until_shown(pilot, "f1 shows all")
        assert "word199" not in screen_text(app)
        assert screen_text(app).rstrip().endswith("f1 Help"), "? is a letter of the field"
        await press(pilot, "f1", then=lambda: isinstance(app.screen, HelpScreen) and "word199" in screen_text(app))
        groups = key_groups(screen)
        assert groups[0].title == "This screen"
        assert groups[-1].title == "Typing"
        await press(pilot, "f1", then=lambda: app.screen is screen)


@pytest.mark.slow(reason="many keys in a whole app")
async def test_each_recipe_keeps_its_own_values() -> None:
    other = (Field("tries", "Tries", "How often.", FieldKind.INTEGER, 1, group="Job"),)
    fields: Mapping[str, Any] = {"nccl-all-reduce": FIELDS, "ddp-smoke": other}
    async with console_at(to_form, session_of(fields=fields.__getitem__)) as (_, pilot, screen):
        await press(pilot, "backspace", "backspace", "8", "escape", "down", then=lambda: "tries" in screen.form.texts)
        assert "gpus" not in screen.form.texts
        await press(pilot, "up", then=lambda: screen.form.texts.get("gpus") == "8")


@pytest.mark.slow(reason="many keys in a whole app")
async def test_preview_follows_the_typing_and_says_when_it_cannot() -> None:
    async with console(session_of(), size=(190, 40)) as (app, pilot, session):
        await to_form(app, pilot)
        await until_shown(pilot, "name: me-nccl")
        await press(pilot, "backspace", "2", then=lambda: "# Not rendered: GPUs must be" in screen_text(app))
        assert session.called("launch") == []


def chart_session(**answers: Any) -> FakeSession:
    """The real chart's recipes over the fake cluster."""
    catalogue = ChartCatalog.from_chart()
    return session_of(
        recipes=catalogue.recipes(), fields=catalogue.fields, problems=catalogue.plan_problems, suggest_name="me-nccl",
        **answers,
    )  # fmt: skip


@pytest.mark.slow(reason="many keys in a whole app")
async def test_yaml_and_form_are_one() -> None:
    async with console_at(to_form, chart_session()) as (_, pilot, screen):
        await press(pilot, "backspace", "backspace", "8", "f3", then=lambda: "gpus: 8" in screen.pane.yaml.text)
        assert "queue: a4" in screen.pane.yaml.text, "exactly what differs, in sight at once"
        screen.pane.yaml.move_cursor((0, 0))
        await pilot.press(*"# a small one", "enter", *"restarts: 2", "enter")
        await until(pilot, lambda: screen.form.texts["restarts"] == "2")
        await pilot.press("escape")
        screen.form.go("restarts")
        await press(pilot, "backspace", "3", "f3", then=lambda: "restarts: 3" in screen.pane.yaml.text)
        assert screen.pane.yaml.text.startswith("# a small one\n"), "comments live on"
        await press(pilot, "escape", "ctrl+z", then=lambda: screen.form.texts["restarts"] == "2")


@pytest.mark.slow(reason="many keys in a whole app")
async def test_a_wrong_value_of_the_form_is_reported_in_the_yaml_too_which_goes_on_to_follow_the_form() -> None:
    async with console_at(to_form, chart_session()) as (app, pilot, screen):
        await pilot.press("backspace", "backspace", *"12", "f3")
        await until(pilot, lambda: "gpus: 12" in screen.pane.yaml.text and "✗ line 1:" in screen_text(app))
        assert screen.pane.remarks == ()
        screen.form.go("gpus")
        await press(pilot, "backspace", "backspace", "8", then=lambda: "gpus: 8" in screen.pane.yaml.text)


@pytest.mark.slow(reason="many keys in a whole app")
async def test_yaml_that_cannot_be_taken_is_reported_at_its_line_and_stops_the_launch() -> None:
    async with console(chart_session()) as (app, pilot, session):
        screen = await to_form(app, pilot)
        await press(pilot, "f3", then=lambda: "queue: a4" in screen.pane.yaml.text)
        screen.pane.yaml.move_cursor(screen.pane.yaml.document.end)
        await press(pilot, *"gpuz: 8", then=lambda: "✗ line 2:" in screen_text(app))
        assert "did you mean gpus?" in screen.pane.remarks[0].message
        assert screen.form.texts["gpus"] == "16"
        await press(pilot, "ctrl+s", then=lambda: "Not yet: the YAML" in toasts(app))
        assert session.called("check") == []
        screen.form.go("gpus")
        await press(pilot, "backspace", "backspace", "8", then=lambda: not screen.pane.remarks)


@pytest.mark.slow(reason="many keys in a whole app")
async def test_a_pasted_helm_line_fills_the_form_and_one_undo_takes_it_back() -> None:
    line = "helm install -n team mira-llama ./a4 --set recipe.id=nccl-all-reduce,gpus=32 --set restarts=4 --set x=1"
    async with console_at(to_form, chart_session()) as (app, pilot, screen):
        await pilot.press("backspace", "backspace", "8")
        app.post_message(events.Paste(line))
        await until(pilot, lambda: isinstance(app.screen, PasteReport))
        await until(pilot, lambda: "○ x:" in screen_text(app))  # what was not taken is named
        assert "namespace team; launches go to default" in toasts(app)
        await press(pilot, "enter", then=lambda: app.screen is screen)
        assert (screen.form.texts["name"], screen.form.texts["gpus"]) == ("mira-llama", "32")
        assert screen.form.texts["restarts"] == "4"
        await press(
            pilot, "ctrl+z", then=lambda: (screen.form.texts["gpus"], screen.form.texts["restarts"]) == ("8", "0")
        )


@pytest.mark.slow(reason="many keys in a whole app")
async def test_a_values_file_goes_through_the_dialog() -> None:
    async with console_at(to_form, chart_session()) as (app, pilot, screen):
        await press(pilot, "f6", then=lambda: isinstance(app.screen, PasteDialog) and isinstance(app.focused, TextArea))
        app.post_message(events.Paste("gpus: 24\nenv:\n  NCCL_ALGO: Ring\n"))
        await until_shown(pilot, "Ring")
        await press(pilot, "ctrl+s", then=lambda: screen.form.texts["gpus"] == "24")
        assert "NCCL_ALGO=Ring" in screen.form.texts["env"].split("\n")
        await until(pilot, lambda: "ctrl+z takes it back" in toasts(app))
        assert screen.form.texts["queue"] == "a4", "values alone are laid over what is there"


@pytest.mark.slow(reason="many keys in a whole app")
async def test_a_text_that_says_nothing_leaves_the_form() -> None:
    async with console_at(to_form, chart_session()) as (app, pilot, screen):
        before = screen.form.texts
        app.post_message(events.Paste("gpus: [\nqueue: {\n"))
        await until(pilot, lambda: isinstance(app.screen, PasteReport))
        await until_shown(pilot, "Nothing was imported")
        await press(pilot, "escape", then=lambda: screen.form.texts == before)


@pytest.mark.slow(reason="many keys in a whole app")
async def test_the_views_turn_and_say_what_differs() -> None:
    def render(plan: LaunchPlan) -> tuple[Manifest, ...]:
        return (Manifest("JobSet", "me-nccl", f"kind: JobSet\nspec:\n  gpus: {plan.values.get('gpus', 16)}\n"),)

    session = chart_session(render=render)
    session.launch.runs.runs = [
        RunRecord(ChartCatalog.from_chart().recipes()[0].id, "llama", "default", values={"gpus": 24})
    ]
    async with console_at(to_form, session, size=(150, 40)) as (app, pilot, screen):
        await press(pilot, "backspace", "backspace", "8", "f4", then=lambda: "+   gpus: 8" in screen_text(app))
        await until_shown(pilot, "beside the recipe's defaults")
        await press(pilot, "b", then=lambda: "beside llama, the last launch" in screen_text(app))
        await until_shown(pilot, "-   gpus: 24")
        await press(pilot, "f5", then=lambda: "helm install me-nccl" in screen_text(app))
        await until_shown(pilot, "me-nccl.values.yaml")
        await press(pilot, "i", then=lambda: "--set gpus=8" in screen_text(app))
        await press(pilot, "c", then=lambda: "in the clipboard" in toasts(app))
        assert app.clipboard.startswith("helm install me-nccl")
        await press(pilot, "ctrl+o", then=lambda: not screen.pane.is_open)
        assert screen.form.page.has_keys


@pytest.mark.slow(reason="many keys in a whole app")
async def test_another_screen_begins_a_launch_from_earlier_values() -> None:
    async with console(chart_session()) as (app, pilot, _):
        await pilot.press("3")
        wish = LaunchRequest("ddp-smoke", {"gpus": 32, "gone": 1, "env": {"A": "1, 2"}}, "llama", {"gpus": 8}, "llama")
        app.open_launch(wish)
        await until(pilot, lambda: isinstance(app.screen, LaunchScreen) and app.screen.draft is not None)
        screen = screen_of(app, LaunchScreen)
        await until(pilot, lambda: screen.form.texts.get("gpus") == "32")
        assert screen.draft is not None
        assert screen.draft.recipe.id == "ddp-smoke"
        assert screen.form.texts["name"] == "llama-2"
        assert (screen.draft.compared_values, screen.draft.compared_name) == ({"gpus": 8}, "llama")
        await until(pilot, lambda: "Not values of this chart, skipped: gone" in toasts(app))
        await press(pilot, "ctrl+z", then=lambda: screen.form.texts["gpus"] == "16")


@pytest.mark.slow(reason="many keys in a whole app")
async def test_what_is_launched_is_the_form_that_is_shown_whatever_was_searched_before() -> None:
    async with console(chart_session()) as (app, pilot, _):
        await press(pilot, "5", then=lambda: isinstance(app.screen, LaunchScreen) and app.screen.draft is not None)
        screen = screen_of(app, LaunchScreen)
        screen.recipes.filter_by("qwen3-30b-pretrain")
        first, second = screen.recipes.shown_keys
        assert (screen.recipes.cursor, first, second) == (first, ("qwen3-30b-pretrain",), ("qwen3-30b-pretrain-pai",))
        screen.recipes.filter_by("pretrain")
        assert screen.recipes.shown_keys[0] != first, "the order is that of the chart again"
        screen.open_recipe_form()
        assert screen.draft is not None
        assert "pretrain" in screen.draft.recipe.id
        await pilot.press("3")
        app.open_launch(LaunchRequest("ddp-smoke", {"gpus": 16}, "llama", {}, "llama"))
        await until(pilot, lambda: screen.draft is not None and screen.draft.recipe.id == "ddp-smoke")
        assert screen.recipes.row is not None
        assert screen.recipes.row.id == "ddp-smoke", "the list shows it and the cursor is on it"
        screen.form.finder.open()
        screen.form.search("priority")
        assert "gpus" not in screen.form.model.shown()
        await app.action_switch_mode("jobs")
        app.open_launch(LaunchRequest("ddp-smoke", {"gpus": 32}, "llama", {}, "llama"))
        await until(pilot, lambda: "gpus" in screen.form.model.shown() and not screen.form.finder.display)
        await press(pilot, "ctrl+s", then=lambda: not isinstance(app.screen, LaunchScreen))
        assert screen.draft.recipe.id == "ddp-smoke"
        assert "llama-2" in screen_text(app)


@pytest.mark.slow(reason="many keys in a whole app")
async def test_a_value_added_to_the_schema_is_in_the_form_with_label_help_and_validation() -> None:
    catalogue = ChartCatalog.from_chart()
    schema = json.loads(json.dumps(catalogue.schema))
    schema["properties"]["patience"] = {
        "type": "integer", "title": "Patience", "description": "How long one waits for good news.", "default": 5,
        "minimum": 1, "maximum": 9, "x-group": "Job", "x-order": 15, "x-unit": "days",
    }  # fmt: skip
    grown = replace(catalogue, schema=schema)
    session = session_of(
        recipes=grown.recipes(), fields=grown.fields, problems=grown.plan_problems, suggest_name="me-nccl"
    )
    async with console_at(to_form, session) as (app, pilot, screen):
        await until_shown(pilot, "Patience", "days")
        screen.form.go("patience")
        await until_shown(pilot, "How long one waits for good news.")
        await press(pilot, "end", "5", then=lambda: "✗ Patience" in screen_text(app))
        await until_shown(pilot, "must be at most 9; 55 was given")
        await press(pilot, "backspace", "backspace", "7", then=lambda: "✗" not in screen_text(app))
        planned = present(screen.plan())
        assert planned[0].values["patience"] == 7


@pytest.mark.slow(reason="many keys in a whole app")
async def test_what_is_left_of_a_failed_launch_may_be_removed() -> None:
    error = ReleaseFailed("me-nccl could not be installed; the server went away.")
    error.half_made = ("default", "me-nccl")
    async with console(chart_session(launch=error)) as (app, pilot, session):
        await to_form(app, pilot)
        await press(pilot, "ctrl+s", then=lambda: isinstance(app.screen, LaunchLook))
        await press(pilot, "enter", then=lambda: isinstance(app.screen, Confirm))
        await until_shown(pilot, "Remove what is left of me-nccl?")
        await press(pilot, "y", then=lambda: session.called("stop_job") == [("default", "me-nccl")])


@pytest.mark.slow(reason="many keys in a whole app")
async def test_choices_of_the_cluster_and_what_may_not_be_listed() -> None:
    choices = {
        "pvcs": FieldChoices("pvcs", ("nfs-pvc",), {"nfs-pvc": "Bound, 10Ti"}),
        "secrets": FieldChoices("secrets", state=ChoicesState.NOT_ALLOWED, why="You may not list Secrets in default."),
    }
    async with console_at(to_form, chart_session(choices=choices)) as (app, pilot, screen):
        screen.form.go("storage.pvc")
        await press(pilot, "enter", then=lambda: "Bound, 10Ti" in screen_text(app))
        await press(pilot, "enter", *"/data", then=lambda: screen.form.texts["storage.pvc"] == "nfs-pvc=/data")
        screen.form.go("imagePullSecrets")
        await press(pilot, "enter", then=lambda: "You may not list Secrets in default." in screen_text(app))


@pytest.mark.slow(reason="many keys in a whole app")
async def test_while_the_number_of_gpus_is_wrong_no_queue_says_whether_it_fits() -> None:
    async with console_at(to_form, session_of()) as (_, pilot, screen):
        await until(pilot, lambda: "(an estimate)" in text_of(screen.head.query_one("#fit")))
        assert set(screen.form.page.offers["localqueues"].details) == {"a4", "research"}
        await pilot.press("backspace", "backspace", "7")
        await until(pilot, lambda: "Whether it fits is known once" in text_of(screen.head.query_one("#fit")))
        offer = screen.form.page.offers["localqueues"]
        assert (set(offer.names), offer.details) == ({"a4", "research"}, {})
        await press(pilot, "backspace", "8", then=lambda: "(an estimate)" in text_of(screen.head.query_one("#fit")))
        assert set(screen.form.page.offers["localqueues"].details) == {"a4", "research"}


async def test_before_the_cluster_answers_there_is_a_sentence() -> None:
    session = session_of()
    session.answers["recipes"] = ()
    async with console(session) as (app, pilot, _):
        await press(pilot, "5", "ctrl+s", "ctrl+t", "ctrl+o", then=lambda: isinstance(app.screen, LaunchScreen))
        assert session.called("launch") == []


@pytest.mark.slow(reason="many keys in a whole app")
@pytest.mark.parametrize("size", [(80, 24), (250, 60), (20, 5)])
async def test_the_form_draws_at_every_size(size: tuple[int, int]) -> None:
    async with console_at(to_form, session_of(), size=size) as (app, pilot, _):
        await press(pilot, "ctrl+t", "ctrl+o", "ctrl+o", then=lambda: isinstance(app.screen, LaunchScreen))


@pytest.mark.slow(reason="many keys in a whole app")
async def test_a_key_in_the_whole_form_of_the_chart_is_judged_once() -> None:
    catalogue = ChartCatalog.from_chart()
    judged: list[LaunchPlan] = []

    def problems(plan: LaunchPlan) -> tuple[FieldProblem, ...]:
        judged.append(plan)
        return catalogue.plan_problems(plan)

    session = session_of(fields=catalogue.fields, problems=problems, suggest_name="me-nccl-test")
    async with console_at(to_form, session) as (_, pilot, screen):
        await press(pilot, "ctrl+t", then=lambda: "network.nccl.debug" in screen.form.model.shown())
        screen.form.go("name")
        await pilot.pause()
        before = len(judged)
        await press(pilot, "x", then=lambda: judged[-1].name.endswith("x"))
        assert len(judged) - before == 1


def test_a_free_name_counts_on() -> None:
    fleet = queue_scene()
    assert free_name("llama", fleet, "default") == "llama-2"
    assert free_name("llama", fleet, "default", {"llama-2"}) == "llama-3"
    assert free_name("llama", fleet, "elsewhere") == "llama"


def test_the_fit_light_fades_while_the_server_is_away() -> None:
    fleet, ask = queue_scene(), LaunchDemand("default", queue="a4", gpus=8)
    live = fit_words(fleet, ask)
    link = structs.replace(fleet.links["clusterqueues"], state=WatchState.STALE, last_seen=1_700_000_000.0)
    away = fit_words(structs.replace(fleet, links={**fleet.links, "clusterqueues": link}), ask)
    assert away[0].text == "◌ " != live[0].text
    assert away[1].text == live[1].text, "what was known last"
    assert away[1].style == "dim"
    assert "reconnecting" in "".join(run.text for run in away)
    assert "reconnecting" not in "".join(run.text for run in live)


@pytest.mark.slow(reason="a whole console, whose window grows")
async def test_manifests_appear_when_the_terminal_grows() -> None:
    async with console_at(to_form, session_of()) as (app, pilot, _):
        assert "kind: JobSet" not in screen_text(app)
        await pilot.resize_terminal(200, 50)
        await until_shown(pilot, "kind: JobSet")


@pytest.mark.slow(reason="many keys in a whole app")
async def test_going_down_the_recipes_makes_a_form_only_where_the_cursor_rests() -> None:
    made: list[str] = []

    def fields(recipe: str) -> tuple[Field, ...]:
        if threading.current_thread() is threading.main_thread():  # beside it all of them are read ahead
            made.append(recipe)
        return FIELDS

    async with console(session_of(fields=fields)) as (app, pilot, _):
        await press(pilot, "5", then=lambda: isinstance(app.screen, LaunchScreen) and "gpus" in app.screen.form.texts)
        screen = screen_of(app, LaunchScreen)
        assert made == [RECIPE.id]
        await pilot.press("down", "up", "down", "enter")  # whoever does not wait gets the form of the one chosen
        await until(pilot, lambda: app.focused is not screen.recipes)
        assert made == [RECIPE.id, OTHER.id]
        await press(pilot, "escape", "up", then=lambda: screen.draft is not None and screen.draft.recipe == RECIPE)
        assert made == [RECIPE.id, OTHER.id], "what was typed there is kept"


async def test_read_only_says_that_nothing_can_be_launched() -> None:
    settings = Settings(read_only=True)
    session = session_of()
    session.watch.settings, session.watch.read_only = settings, True
    async with console_at(to_form, session, settings=settings) as (_, pilot, _):
        await until_shown(pilot, "nothing can be launched")
