"""After ctrl+r the page of a job goes on with the new session, from where it was."""

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
from msgspec.structs import replace
from textual.pilot import Pilot

from console.connection_settings import Settings
from console.kube.objects.meta import Condition
from console.metrics.alarm import AlarmKind
from console.metrics.gpu_metrics import GpuBoard, PodGpus
from screens.app import ConsoleApp
from screens.live_screen import LiveScreen
from screens.pages.job import JobScreen
from screens.widgets.log.log_view import LogView
from tests.fakes import FakeSession
from tests.screens.press import connecting, press, screen_text, toasts, until
from tests.screens.queue_scene import queue_scene, table_text

pytestmark = pytest.mark.slow(reason="many keys in a whole app")

KEY = "default", "llama"
FIRST = "llama-workload-0-0-x7k0"


@asynccontextmanager
async def page(
    tab: str, lines: Sequence[str] = ()
) -> AsyncIterator[tuple[JobScreen, Pilot[Any], FakeSession, FakeSession]]:
    """The page of llama on that tab in the first of two sessions."""
    sessions = [FakeSession(queue_scene()) for _ in range(2)]
    sessions[0].say(FIRST, *lines)
    app = ConsoleApp(Settings(), connect=connecting(*sessions))
    async with app.run_test(size=(140, 35)) as pilot:
        await until(pilot, lambda: app.fleet is sessions[0].fleet)
        app.open_page("job", *KEY, tab)
        await until(pilot, lambda: isinstance(app.screen, JobScreen) and app.screen.is_mounted)
        assert isinstance(app.screen, JobScreen)
        yield app.screen, pilot, sessions[0], sessions[1]
        app.workers.cancel_all()


def go_on(first: FakeSession, second: FakeSession) -> None:
    """The containers print on while nobody is connected."""
    second.printed = {key: [*lines] for key, lines in first.printed.items()}
    second.running = {*first.running}


async def test_the_log_of_all_ranks_goes_on_and_stays_where_it_was_read() -> None:
    lines = [f"line {number}" for number in range(100)]
    async with page("log", lines=lines) as (screen, pilot, first, second):
        log = screen.query_one(LogView).lines
        await until(pilot, lambda: log.total == 100)
        await press(pilot, "home", then=lambda: not log.follow)
        go_on(first, second)
        second.say(FIRST, "while away")
        await press(pilot, "ctrl+r", then=lambda: log.total == 101)
        second.say(FIRST, "since then")
        await until(pilot, lambda: log.total == 102)
        assert [row.text for row in log.text.read_rows(0, 102)] == [*lines, "while away", "since then"]
        assert (log.follow, log.scroll_y) == (False, 0)
        await press(pilot, "m", "m", then=lambda: "since then" in screen_text(screen.app))
        assert second.alarms.kept == {KEY}


async def test_what_all_ranks_agree_on_goes_on() -> None:
    async with page("log", lines=["one"]) as (screen, pilot, first, second):
        await press(pilot, "m", "m", then=lambda: "one" in screen_text(screen.app))
        go_on(first, second)
        second.say(FIRST, "two")
        await press(pilot, "ctrl+r", then=lambda: "two" in screen_text(screen.app))
        await until(pilot, lambda: screen_text(screen.app).count("pod 0 one") == 1)


async def test_a_log_without_a_session_claims_nothing_of_its_ranks() -> None:
    async with page("log", lines=["one"]) as (screen, pilot, _, _):
        view = screen.query_one(LogView)
        await until(pilot, lambda: "1 of 6 live" in view.status)
        await screen.app._close_session()
        await until(pilot, lambda: "◐ waits for the connection" in screen_text(screen.app))
        assert "live" not in view.status


async def test_a_test_is_read_on() -> None:
    texts = table_text(500.0, 640.0)
    async with page("nccl", lines=texts[:-1]) as (screen, pilot, first, second):
        await until(pilot, lambda: "500.0 GB/s" in screen_text(screen.app))
        assert "640.0 GB/s" not in screen_text(screen.app)
        go_on(first, second)
        second.say(FIRST, *texts[-1:])
        await press(pilot, "ctrl+r", then=lambda: "640.0 GB/s" in screen_text(screen.app))


async def test_gpus_are_read_on() -> None:
    async with page("gpus") as (screen, pilot, first, second):
        await until(pilot, lambda: first.gpus.readers == 1)
        second.gpus.board = GpuBoard((PodGpus(0, FIRST, "a-node-of-now", (), time.time(), "nvidia-smi"),))
        await press(pilot, "ctrl+r", then=lambda: "a-node-of-now" in screen_text(screen.app))
        assert (first.gpus.readers, second.gpus.readers) == (0, 1)


async def test_an_alarm_that_was_reported_is_not_reported_again() -> None:
    async with page("pods") as (screen, pilot, first, second):
        app = cast(ConsoleApp, screen.app)
        for session in (first, second):
            session.mine = first.fleet.jobsets[KEY].owner
            session.alarms.sound(*KEY, AlarmKind.NAN, "loss nan at 7")
            session.alarms.sound(*KEY, AlarmKind.NAN, "and again at 9")
        await until(pilot, lambda: "and again at 9" in toasts(app))
        app._notifications.clear()
        await press(pilot, "ctrl+r", then=lambda: app.fleet is second.fleet)
        app.tick()
        assert toasts(app) == ""
        second.alarms.sound(*KEY, AlarmKind.NAN, "a third at 11")
        await until(pilot, lambda: "a third at 11" in toasts(app))
        assert "again" not in toasts(app)


async def test_the_log_of_a_job_that_has_ended_says_so() -> None:
    async with page("log", lines=["one"]) as (screen, pilot, first, _):
        await until(pilot, lambda: "● following" in screen_text(screen.app))
        done = replace(first.fleet.jobsets[KEY], conditions=(Condition("Completed", "True", since=time.time()),))
        first.show(jobsets={**first.fleet.jobsets, KEY: done})
        await until(pilot, lambda: screen.line is not None and screen.line.jobset.finished)
        await until(pilot, lambda: "● following" in screen_text(screen.app))
        first.end(FIRST)
        await until(pilot, lambda: "○ the log has ended" in screen_text(screen.app))


@pytest.mark.parametrize(
    "about", [("node", "gke-train-a4-pool-0000"), ("pool", "a4-highgpu-8g-a4-pool"), ("job", *KEY, "gpus")]
)
async def test_a_page_that_is_opened_while_nothing_is_connected_is_drawn(about: tuple[str, ...]) -> None:
    async with page("pods") as (first, pilot, _, _):
        app = cast(ConsoleApp, first.app)
        await app._close_session()
        app.open_page(*about)
        await until(pilot, lambda: app.screen is not first and app.screen.is_mounted)
        app.screen.refresh_bindings()
        app.tick()
        await pilot.pause()
        assert not app.connected
        drawn = app.screen
        assert isinstance(drawn, LiveScreen)
        assert drawn.trail_name in screen_text(app)


async def test_a_page_that_is_being_removed_is_not_drawn_any_more() -> None:
    async with page("pods") as (screen, _, _, _):
        screen._pruning = True  # as while the app ends
        await screen.remove_children()
        screen.draw_fleet()
        cast(ConsoleApp, screen.app).tick()
