"""Where the log of a job opens, where its keys lead, and what its lines look like."""

import asyncio
from typing import Any

import pytest

from console.logs.job_log import JobLog
from console.metrics.alarm import AlarmKind
from screens.app import ConsoleApp
from screens.dialogs.question import Confirm
from screens.job_tabs.log import LogTab
from screens.pages.job import JobScreen
from screens.widgets.log.log_view import LogView
from tests.console.metrics.test_log_search import iteration
from tests.fakes import FakeSession
from tests.screens.press import console, console_at, press, screen_text, until, until_shown
from tests.screens.queue_scene import queue_scene
from tests.screens.test_reconnect import FIRST, go_on, page
from tests.screens.test_watching import report

SECOND = "llama-workload-0-1-x7k1"


def session_of(*lines: str) -> FakeSession:
    """A job whose first pod prints no iterations, as of Megatron the last pod alone does."""
    session = FakeSession(queue_scene())
    session.say(FIRST, "step 1 libraries: run", "[rank 0] ready; the last rank prints the iterations")
    session.say(SECOND, *lines)
    return session


async def to_log(app: ConsoleApp, pilot: Any, tab: str = "log") -> JobScreen:
    app.open_page("job", "default", "llama", tab)
    if tab == "hang":  # somebody else launched it
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        await pilot.press("y")
    await until(pilot, lambda: isinstance(app.screen, JobScreen) and app.screen.is_mounted)
    assert isinstance(app.screen, JobScreen)
    return app.screen


@pytest.mark.slow(reason="many keys in a whole app")
async def test_the_log_opens_on_the_pod_that_prints_iterations() -> None:
    async with console_at(to_log, session_of(*map(iteration, range(1, 9))), size=(140, 35)) as (app, pilot, screen):
        await until(pilot, lambda: screen.rank == 1 and "it 8/97" in screen_text(app))
        await press(pilot, "less_than_sign", then=lambda: "libraries: run" in screen_text(app))
        await pilot.press("r", "l")
        assert screen.rank == 0, "whom a person has chosen stays"


@pytest.mark.slow(reason="many keys in a whole app")
async def test_under_an_alarm_the_log_opens_on_its_line() -> None:
    healthy, sick = map(iteration, range(1, 90)), (iteration(number, "", "nan") for number in range(90, 150))
    session = session_of(*healthy, *sick)
    session.alarms.sound("default", "llama", AlarmKind.NAN, "loss is NaN since step 90")
    async with console_at(to_log, session, size=(140, 35)) as (app, pilot, screen):
        await until(pilot, lambda: screen.rank == 1 and "nan: 1 of 60 matches" in screen_text(app))
        await until_shown(pilot, "loss nan  gn nan")
        assert screen.query_one(LogView).lines.match_line == 89, "iteration 90"
        assert not screen.query_one(LogView).lines.follow


class ReadyLate(asyncio.Event):
    """Set half a second after it was asked to be: the lines have come, and the place of the alarm was looked for."""

    def set(self) -> None:
        asyncio.get_running_loop().call_later(0.5, super().set)


@pytest.mark.slow(reason="many keys in a whole app")
async def test_the_line_of_an_alarm_stays_shown_when_the_rest_of_the_log_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    begin = JobLog.__init__

    def begin_late(log: JobLog, *words: Any, **options: Any) -> None:
        begin(log, *words, **options)
        log.ready = ReadyLate()

    monkeypatch.setattr(JobLog, "__init__", begin_late)
    session = session_of(*map(iteration, range(1, 90)), *(iteration(number, "", "nan") for number in range(90, 150)))
    session.alarms.sound("default", "llama", AlarmKind.NAN, "loss is NaN since step 90")
    async with console_at(to_log, session, size=(140, 35)) as (_, pilot, screen):
        log = screen.query_one(LogTab)
        await until(pilot, lambda: log._log is not None and log._log.ready.is_set())
        await until_shown(pilot, "nan: 1 of 60 matches")
        await pilot.pause(0.3)
        await until_shown(pilot, "loss nan  gn nan")
        assert screen.query_one(LogView).lines.match_line == 89, "iteration 90"


@pytest.mark.slow(reason="many keys in a whole app")
async def test_an_alarm_of_which_no_pod_tells_shows_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("screens.job_tabs.log.MAX_PLACE_LOOKS", 5)
    session = session_of("ready")
    session.alarms.sound("default", "llama", AlarmKind.STALL, "no pod has printed a line for 10 min")
    async with console_at(to_log, session, size=(140, 35)) as (_, pilot, screen):
        await until(pilot, lambda: screen.here.note == "all pods")


@pytest.mark.slow(reason="many keys in a whole app")
async def test_the_first_error_is_looked_for_in_all_pods() -> None:
    session = session_of(*map(iteration, range(1, 20)), *(iteration(number, "", "nan") for number in range(20, 60)))
    async with console_at(to_log, session, size=(140, 35)) as (app, pilot, screen):
        await until(pilot, lambda: screen.rank == 1)
        await press(pilot, "less_than_sign", then=lambda: "libraries: run" in screen_text(app))
        await pilot.press("E")
        await until_shown(pilot, "pod 0 has none; pod 1 has some, first at iteration 20: Enter")
        await press(pilot, "enter", then=lambda: "errors: 1 of 40 matches" in screen_text(app))
        assert screen.rank == 1
        await until_shown(pilot, "loss nan  gn nan")
        assert screen.query_one(LogView).lines.match_line == 19, "iteration 20"


async def test_where_no_pod_reports_an_error_that_is_shown() -> None:
    async with console_at(to_log, session_of("ready"), size=(140, 35)) as (app, pilot, _):
        await until_shown(pilot, "libraries: run")
        await press(pilot, "E", then=lambda: "No line of any pod contains an error." in screen_text(app))


async def test_iterations_in_few_words_are_drawn_and_not_saved() -> None:
    async with console_at(to_log, session_of(*map(iteration, range(1, 9))), size=(80, 24)) as (app, pilot, screen):
        await until(pilot, lambda: screen.rank == 1)
        await until_shown(pilot, "it 8/97  loss 10.580  gn 0.31  2.82 s  883 TF")
        text = screen.query_one(LogView).lines.text
        assert [row.text for row in text.read_rows(0, 8)] == [*map(iteration, range(1, 9))]
        await press(pilot, "C", then=lambda: "consumed samples" in screen_text(app))


async def test_keys_on_a_process_are_about_its_pod() -> None:
    session = session_of("I am pod 1")
    session.inspector.report = report()
    async with console(session, size=(140, 45)) as (app, pilot, _):
        screen = await to_log(app, pilot, "hang")
        await until_shown(pilot, "Rank 9 (pod 1, GPU 1) is in the data loader")
        await until(pilot, lambda: screen.rank == 1)
        await press(pilot, "l", then=lambda: "I am pod 1" in screen_text(app))


@pytest.mark.slow(reason="many keys in a whole app")
async def test_what_pods_agree_on_keeps_its_reading_place_after_a_reconnect() -> None:
    lines = [f"line {number}" for number in range(200)]
    async with page("log", lines=lines) as (screen, pilot, first, second):
        await pilot.press("m", "m")
        log = screen.query_one(LogView).lines
        await until(pilot, lambda: log.total == 200)
        await pilot.press("home", *["pagedown"] * 2)
        top = log.scroll_y
        assert (top > 0, log.follow) == (True, False)
        go_on(first, second)
        second.say(FIRST, "while away")
        await press(pilot, "ctrl+r", then=lambda: log.total == 201)
        assert (log.scroll_y, log.follow) == (top, False)
