"""A release on the screen: its revisions, other values for it, back to an earlier one; nothing without a look."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from console.launch.recipes import LaunchPlan
from console.launch.releases import ObjectChange, ObjectFate, ReleaseChange
from console.settings import Settings
from screens.pages.release import ChangeLook, EditValues, ReleaseScreen
from screens.widgets.bars import KeyBar
from screens.widgets.yaml import YamlEditor
from tests.fakes import FakeSession
from tests.screens.press import console, screen_text, text_of, until
from tests.screens.scene import scene
from tests.screens.test_jobs import toasts

if TYPE_CHECKING:
    from screens.app import ConsoleApp

JOB = ("default", "llama-70b")
PLAN = LaunchPlan("nccl-all-reduce", "llama-70b", "default", {"ttl": 100})


def session_of(**answers: Any) -> FakeSession:
    session = FakeSession(scene())
    session.answers |= {"release_plan": PLAN, **answers}
    return session


async def to_release(app: ConsoleApp, pilot: Any) -> ReleaseScreen:
    app.open_page("job", *JOB)
    await until(pilot, lambda: len(app.screen_stack) == 2)
    await pilot.press("R")
    await until(
        pilot, lambda: isinstance(app.screen, ReleaseScreen) and app.screen.is_mounted and app.screen.table.shown
    )
    screen = app.screen
    assert isinstance(screen, ReleaseScreen)
    return screen


@pytest.mark.slow(reason="many keys in a whole app")
async def test_back_to_an_earlier_revision_after_a_look() -> None:
    async with console(session_of()) as (app, pilot, session):
        screen = await to_release(app, pilot)
        assert screen.table.shown == [("2",), ("1",)]
        assert "Roll back" not in text_of(screen.query_one(KeyBar)), "the latest is what there is"
        await pilot.press("down")
        await until(pilot, lambda: "Back to revision 1: ✓ The API server accepts it: 1 object" in screen_text(app))
        assert "+  ttl: 200" in screen_text(app)
        await until(pilot, lambda: "Roll back" in text_of(screen.query_one(KeyBar)))
        await pilot.press("r")
        await until(pilot, lambda: isinstance(app.screen, ChangeLook))
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is screen)
        assert not session.called("rollback")
        await pilot.press("r")
        await until(pilot, lambda: isinstance(app.screen, ChangeLook))
        await pilot.press("y")
        await until(pilot, lambda: ("3",) in screen.table.shown)
        assert session.called("rollback") == [("default", "llama-70b", 1)]
        assert "llama-70b is back at revision 1." in toasts(app)


@pytest.mark.slow(reason="many keys in a whole app")
async def test_other_values_after_a_look() -> None:
    async with console(session_of()) as (app, pilot, session):
        screen = await to_release(app, pilot)
        await pilot.press("e")
        await until(pilot, lambda: isinstance(app.screen, EditValues))
        editor = app.screen.query_one(YamlEditor)
        assert editor.text == "ttl: 100\n"
        editor.text = "ttl: soon\n"
        await until(pilot, lambda: "line 1: " in screen_text(app))
        await pilot.press("ctrl+s")
        assert isinstance(app.screen, EditValues), "what is wrong goes nowhere"
        editor.text = "ttl: 200\n"
        await pilot.press("ctrl+s")
        await until(pilot, lambda: isinstance(app.screen, ChangeLook))
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, EditValues))
        assert app.screen.query_one(YamlEditor).text == "ttl: 200\n", "what was typed is kept"
        await pilot.press("ctrl+s")
        await until(pilot, lambda: isinstance(app.screen, ChangeLook))
        await pilot.press("y")
        await until(pilot, lambda: ("3",) in screen.table.shown)
        wanted = LaunchPlan("nccl-all-reduce", "llama-70b", "default", {"ttl": 200})
        assert session.called("upgrade") == session.called("changed") == [(wanted,)]
        assert screen.table.cursor == ("3",)


async def test_what_the_cluster_refuses_is_not_done() -> None:
    refused = ObjectChange(
        "JobSet", "llama-70b", ObjectFate.CHANGED, ("-gpus: 8", "+gpus: 16"), "Its pods cannot change."
    )
    change = ReleaseChange("default", "llama-70b", (refused,))
    async with console(session_of(change=change)) as (app, pilot, session):
        await to_release(app, pilot)
        await pilot.press("e")
        await until(pilot, lambda: isinstance(app.screen, EditValues))
        await pilot.press("ctrl+s")
        await until(pilot, lambda: isinstance(app.screen, ChangeLook))
        assert "JobSet llama-70b: Its pods cannot change." in " ".join(screen_text(app).split())
        await pilot.press("y", "ctrl+s")
        assert isinstance(app.screen, ChangeLook)
        assert not session.called("upgrade")


async def test_read_only_looks_and_changes_nothing() -> None:
    session = session_of()
    session.watch.settings = Settings(read_only=True)
    async with console(session, settings=session.watch.settings) as (app, pilot, _):
        screen = await to_release(app, pilot)
        await pilot.press("down")
        await until(pilot, lambda: "Back to revision 1" in screen_text(app))
        keys = text_of(screen.query_one(KeyBar))
        assert "Roll back" not in keys
        assert "Change values" not in keys
        await pilot.press("r", "e")
        assert app.screen is screen
        assert "read-only" in toasts(app)


async def test_a_job_that_is_no_release_says_so() -> None:
    session = session_of()
    session.launch.releases.revisions = 0
    async with console(session) as (app, pilot, _):
        app.open_page("release", *JOB)
        await until(pilot, lambda: "is not a release of the chart" in screen_text(app))
        assert "Change values" not in text_of(app.screen.query_one(KeyBar))
