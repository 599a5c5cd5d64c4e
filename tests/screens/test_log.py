"""The log of one container: chosen on the pod's page, and the run before its last restart by a key."""

from typing import Any

import pytest
from textual.pilot import Pilot

from console.connection_settings import Settings
from console.kube.snapshot import ContextName
from console.logs.log_line import LogLine
from screens.app import ConsoleApp
from screens.pages.log import LogScreen
from screens.pages.pods import PodScreen
from screens.widgets.log.log_lines import LogLines
from screens.widgets.log.log_view import LogView
from tests.fakes import FakeSession
from tests.screens.press import connecting, console, focus, next_screen, press, screen_text, until, until_shown
from tests.screens.scene import scene

KEY = ("default", "dpo-[b]-workload-0-1-x7k1")


async def log_of(app: ConsoleApp, pilot: Pilot[Any]) -> LogScreen:
    """Its page."""
    app.open_page("log", *KEY)
    await until(pilot, lambda: isinstance(app.screen, LogScreen))
    assert isinstance(app.screen, LogScreen)
    return app.screen


async def test_a_container_of_a_pod_is_chosen_and_its_run_before() -> None:
    session = FakeSession(scene())
    session.printed[KEY] = [LogLine(1.0, "iteration 7")]
    async with console(session) as (app, pilot, _):
        app.open_page("pod", *KEY)
        page = await next_screen(pilot, PodScreen)
        await until(pilot, lambda: page.containers.row is not None)
        names = [each.name for each in app.fleet.pods[KEY].containers]
        await focus(pilot, page.containers)
        page.containers.move_to((names[-1],))
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, LogScreen) and "iteration 7" in screen_text(app))
        await until_shown(pilot, f"log of {KEY[1]}/{names[-1]}")
        await press(pilot, "p", then=lambda: "previous run" in screen_text(app))
        asked = session.called("follow_log")
        assert [(container, previous) for _, _, container, _, _, previous, _ in asked] == [
            (names[-1], False), (names[-1], True),
        ]  # fmt: skip
        await press(pilot, "p", then=lambda: len(session.called("follow_log")) == 3)
        assert session.called("follow_log")[-1][5] is False


@pytest.mark.slow(reason="many keys in a whole app")
async def test_a_pod_is_listed_with_its_node_and_its_address() -> None:
    async with console(size=(320, 35)) as (app, pilot, session):
        await press(pilot, "4", then=lambda: KEY[1] in screen_text(app))
        line = next(each for each in screen_text(app).splitlines() if KEY[1] in each)
        pod = session.fleet.pods[KEY]
        assert pod.node
        assert pod.node in line
        assert "IP" in screen_text(app)
        assert (pod.ip or "") in line


async def test_a_log_goes_on_after_a_reconnect_without_losing_or_repeating_a_line() -> None:
    sessions = [FakeSession(scene()) for _ in range(2)]
    sessions[0].say(KEY[1], "same", at=1.0)
    sessions[0].say(KEY[1], "same", "two", at=2.0)
    app = ConsoleApp(Settings(), connect=connecting(*sessions))
    async with app.run_test(size=(120, 35)) as pilot:
        await until(pilot, lambda: app.fleet is sessions[0].fleet)
        page = await log_of(app, pilot)
        await until(pilot, lambda: page.view.lines.total == 3)
        await until_shown(pilot, "● following")
        sessions[1].printed[KEY] = [*sessions[0].printed[KEY], LogLine(2.0, "same"), LogLine(3.0, "three")]
        sessions[1].running.add(KEY)
        await press(pilot, "ctrl+r", then=lambda: page.view.lines.total == 5)
        assert [row.text for row in page.view.lines.text.read_rows(0, 9)] == ["same", "same", "two", "same", "three"]
        await until_shown(pilot, "● following")
        sessions[1].say(KEY[1], "four", at=4.0)
        await until_shown(pilot, "four")


async def test_a_log_waits_while_there_is_no_connection_and_says_so() -> None:
    session = FakeSession(scene())
    session.say(KEY[1], "one", at=1.0)
    async with console(session) as (app, pilot, _):
        page = await log_of(app, pilot)
        await until(pilot, lambda: page.view.lines.total == 1)
        await app._close_session()
        await until_shown(pilot, "◐ waits for the connection")
        assert "following" not in screen_text(app)


async def test_a_log_of_a_container_that_has_ended_is_not_followed() -> None:
    session = FakeSession(scene())
    session.say(KEY[1], "one", at=1.0)
    async with console(session) as (app, pilot, _):
        page = await log_of(app, pilot)
        await until_shown(pilot, "● following")
        session.end(KEY[1])
        await until_shown(pilot, "○ the container has ended  1 line")
        page.view.lines.follow = False
        await until_shown(pilot, "○ the container has ended  1 line")


@pytest.mark.slow(reason="many keys in a whole app")
async def test_pages_of_a_cluster_close_when_the_console_goes_to_another_one() -> None:
    session = FakeSession(scene())
    session.answers["contexts"] = [ContextName("test", "a", "default", True), ContextName("other", "b", "default")]
    session.say(KEY[1], "one", at=1.0)
    async with console(session) as (app, pilot, _):
        await pilot.press("4")
        app.open_page("job", "default", "llama-70b", "log")
        await log_of(app, pilot)
        await pilot.press("1")
        app.open_page("pod", *KEY)
        await until(pilot, lambda: isinstance(app.screen, PodScreen))
        await session.watch.switch_context(context="other")
        await until(pilot, lambda: len(app.screen_stack) == 1)
        await press(pilot, "4", then=lambda: app.current_mode == "pods" and len(app.screen_stack) == 1)


async def test_what_comes_in_while_the_page_closes_is_not_shown() -> None:
    session = FakeSession(scene())
    session.printed[KEY] = [LogLine(1.0, "iteration 7")]
    async with console(session) as (app, pilot, _):
        page = await log_of(app, pilot)
        view = page.query_one(LogView)
        await view.query_one(LogLines).remove()
        view.end_reason = "✗ not followed"
        assert "not followed" not in screen_text(app)
