"""Keys that arrive together, as from a paste or over a slow line: posted in a row, without a pause."""

import asyncio

import pytest
from textual import events
from textual.app import App
from textual.command import CommandPalette
from textual.widgets import Input

from console.errors import Unreachable
from console.launch.recipes import LaunchPlan
from console.logs.log_line import LogLine
from screens.dialogs.question import Pick, PickEntry
from screens.job_tabs.ranks import RankTable
from screens.pages.job import JobScreen
from screens.pages.jobs import JobsScreen
from screens.pages.launch import LaunchScreen
from screens.pages.log import LogScreen
from screens.pages.pods import PodsScreen
from screens.widgets.log.log_view import LogView
from screens.widgets.title_and_keys import KeyBar
from tests.fakes import FakeSession
from tests.screens.press import console, console_at, press, screen_of, screen_text, toasts, until
from tests.screens.queue_scene import queue_scene
from tests.screens.scene import scene
from tests.screens.test_launch import chart_session, to_form

NAMES = {"/": "slash", ":": "colon", " ": "space"}


def type_at_once(app: App[int], *keys: str) -> None:
    """Single characters and names of keys."""
    for key in keys:
        app.post_message(events.Key(NAMES.get(key, key), key if len(key) == 1 else None))


async def test_letters_right_after_the_slash_are_the_filter() -> None:
    async with console() as (app, pilot, session):
        await pilot.press("4")
        screen = screen_of(app, PodsScreen)
        type_at_once(app, "/", *"llama xyl")
        await until(pilot, lambda: screen.table.filter_text == "llama xyl")
        assert app.screen is screen
        assert session.called("follow_log") == []
        assert session.called("manifest") == []


async def test_keys_after_the_enter_of_a_filter_are_commands_again() -> None:
    async with console() as (app, pilot, _):
        await pilot.press("4")
        screen = screen_of(app, PodsScreen)
        type_at_once(app, "/", *"nccl", "enter", "down", "space")
        await until(pilot, lambda: screen.table.marks)
        assert screen.table.filter_text == "nccl"
        assert [name for _, name in screen.table.marks] == ["nccl-0412-workload-0-1-x7k1"]


async def test_a_main_screen_and_its_filter_at_once() -> None:
    async with console() as (app, pilot, _):
        type_at_once(app, "4", "/", *"nccl")
        await until(pilot, lambda: isinstance(app.screen, PodsScreen) and app.screen.table.filter_text == "nccl")


async def test_letters_right_after_the_colon_are_the_palettes() -> None:
    async with console() as (app, pilot, _):
        theme = app.theme
        type_at_once(app, ":", *"tCq light")
        await until(pilot, lambda: isinstance(app.screen, CommandPalette))
        await until(pilot, lambda: app.screen.query_one(Input).value == "tCq light")
        assert app.theme == theme
        await press(pilot, "escape", then=lambda: not isinstance(app.screen, CommandPalette))


async def test_letters_right_after_the_slash_of_a_log_are_the_search() -> None:
    session = FakeSession(scene())
    session.printed["default", "nccl-0412-workload-0-0-x7k0"] = [LogLine(1.0, "avg bus bandwidth"), LogLine(2.0, "p")]
    async with console(session) as (app, pilot, _):
        app.open_page("log", "default", "nccl-0412-workload-0-0-x7k0")
        await until(pilot, lambda: isinstance(app.screen, LogScreen) and app.screen.is_mounted)
        screen = screen_of(app, LogScreen)
        await until(pilot, lambda: screen.view.lines.shown == 2)
        type_at_once(app, "/", *"avg pw")
        await until(pilot, lambda: screen.view.lines.wanted == "avg pw")
        assert len(session.called("follow_log")) == 1
        type_at_once(app, "enter", "p")
        await until(pilot, lambda: len(session.called("follow_log")) == 2)
        await until(pilot, lambda: "match(1)" not in {hint.action for hint in screen.query_one(KeyBar).hints})


@pytest.mark.slow(reason="many keys in a whole app")
async def test_letters_that_come_at_once_are_all_in_the_field_and_none_after_it_is_lost() -> None:
    async with console_at(to_form, chart_session()) as (app, pilot, screen):
        screen.form.go("queue")
        await until(pilot, lambda: screen.form.cursor_path == "queue")
        type_at_once(app, *"researching")
        await until(pilot, lambda: screen.form.texts["queue"] == "researching")


async def test_keys_right_after_a_reconnect_are_answered() -> None:
    async with console() as (app, pilot, _):
        type_at_once(app, "ctrl+r", "4")
        await until(pilot, lambda: isinstance(app.screen, PodsScreen))


@pytest.mark.slow(reason="many keys in a whole app")
@pytest.mark.parametrize("asks", ["N", "C"])
async def test_letters_right_after_a_key_that_asks_are_the_answer(asks: str) -> None:
    """`x`, `t`, `q` and digits are commands everywhere else."""
    async with console() as (app, pilot, _):
        await pilot.press("4")
        screen, theme = app.screen, app.theme
        type_at_once(app, asks, *"xtq3")
        await until(pilot, lambda: isinstance(app.screen, Pick) and app.screen.query_one(Input).value == "xtq3")
        assert app.theme == theme
        assert app.current_mode == "pods"
        await press(pilot, "escape", then=lambda: app.screen is screen)


async def test_keys_right_after_x_are_the_answer_of_its_question() -> None:
    async with console() as (app, pilot, session):
        await pilot.press("3")
        screen = screen_of(app, JobsScreen)
        await until(pilot, lambda: screen.table.move_to(("default", "llama-70b")))
        type_at_once(app, "x", "y", "t")
        await until(pilot, lambda: session.called("stop_job"))
        assert session.called("stop_job")[0] == ("default", "llama-70b")


async def test_keys_for_a_question_that_does_not_come_are_dropped() -> None:
    session = FakeSession(scene())
    away = Unreachable("The API server is away.", "Try again.")
    session.answers |= {"release_plan": away, "plan_of_job": away}
    async with console(session) as (app, pilot, _):
        app.open_page("job", "default", "llama-70b")
        await until(pilot, lambda: isinstance(app.screen, JobScreen) and "x7k7" in screen_text(app))
        screen = app.screen
        type_at_once(app, "n", *"43q")
        await until(pilot, lambda: "The API server is away." in toasts(app))
        await until(pilot, lambda: not app.typing_waits)
        assert app.screen is screen
        type_at_once(app, "4")
        await until(pilot, lambda: isinstance(app.screen, PodsScreen))


async def test_letters_of_a_word_that_opens_the_form_by_its_first_are_not_typed_into_it() -> None:
    plan = LaunchPlan("nccl-all-reduce", "llama", "default", {"gpus": 8})
    async with console(chart_session(release_plan=plan)) as (app, pilot, _):
        await pilot.press("3")
        screen = screen_of(app, JobsScreen)
        await until(pilot, lambda: screen.table.move_to(("default", "llama")))
        type_at_once(app, *"nccl-64")
        await until(pilot, lambda: isinstance(app.screen, LaunchScreen) and not app.typing_waits)
        form = screen_of(app, LaunchScreen).form
        await until(pilot, lambda: "not taken" in toasts(app) and form.texts.get("gpus") == "8")
        assert app.current_mode == "launch"


async def test_what_fills_a_page_ends_before_its_widgets_do_but_not_what_closes_it() -> None:
    async with console() as (app, pilot, _):
        app.open_page("log", "default", "nccl-0412-workload-0-0-x7k0")
        await until(pilot, lambda: isinstance(app.screen, LogScreen))
        went_on = asyncio.Event()

        async def close() -> None:
            app.pop_screen()
            await asyncio.sleep(0)
            went_on.set()

        filling = app.screen.run_worker(asyncio.Event().wait())
        app.screen.run_worker(close())
        await until(pilot, went_on.is_set)
        assert filling.is_cancelled, "a line that comes now would find no widget"


async def test_a_question_takes_its_first_answer_and_the_page_behind_it_stays() -> None:
    async with console() as (app, pilot, _):
        app.open_page("log", "default", "nccl-0412-workload-0-0-x7k0")
        await until(pilot, lambda: isinstance(app.screen, LogScreen))
        page, answers = app.screen, list[str | None]()
        app.push_screen(question := Pick("Which?", [PickEntry("a"), PickEntry("b")]), answers.append)
        await until(pilot, lambda: app.screen is question and question.is_mounted)
        question.dismiss("a")
        question.dismiss("b")
        await until(pilot, lambda: app.screen is page and answers)
        assert answers == ["a"]


@pytest.mark.slow(reason="many keys in a whole app")
async def test_keys_after_the_one_that_opens_a_page_are_for_the_page() -> None:
    async with console(FakeSession(queue_scene())) as (app, pilot, _):
        await pilot.press("3")
        screen = screen_of(app, JobsScreen)
        await until(pilot, lambda: screen.table.move_to(("default", "llama")))
        type_at_once(app, "enter", "enter", "l", "/", *"iter")
        await until(pilot, lambda: isinstance(app.screen, JobScreen) and app.screen.here.NAME == "log")
        page = app.screen
        await until(pilot, lambda: page.query_one(LogView).lines.wanted == "iter")
        assert app.screen_stack == [screen, page]
        type_at_once(app, "escape", "r", "/", *"x")
        await until(pilot, lambda: page.query_one(RankTable).filter_text == "x")
        assert app.screen is page
