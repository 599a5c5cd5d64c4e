"""First-time hints: each once in the life of an account, on a line of their own, gone by Esc or with their page."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from console.folders import state_folder
from screens.pages.jobs import JobsScreen
from screens.widgets.bars import FirstHints, HintLine, KeyBar
from tests.screens.press import console, screen_text, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from screens.app import ConsoleApp

ANYWHERE, LISTS, JOB = "finds pages, jobs, pods", "filters, o sorts, m shows only your jobs", "why it hangs"


@asynccontextmanager
async def opened(size: tuple[int, int] = (120, 35)) -> AsyncIterator[tuple[ConsoleApp, Any]]:
    async with console(size=size) as (app, pilot, _):
        vars(app)["first_hints"] = FirstHints()  # as on a terminal
        yield app, pilot


def seen() -> list[str]:
    file = state_folder() / "hints.json"
    return list(json.loads(file.read_text())) if file.exists() else []


@pytest.mark.slow(reason="many keys in a whole app")
@pytest.mark.parametrize("size", [(80, 24), (160, 50)])
async def test_three_hints_are_shown_once(size: tuple[int, int]) -> None:
    async with opened(size) as (app, pilot):
        await until(pilot, lambda: f": {ANYWHERE}" in screen_text(app))
        line, bar = app.screen.query_one(HintLine), app.screen.query_one(KeyBar)
        assert line.region.bottom == bar.region.y, "the key line stands below it, whole"
        others = [each for each in app.screen.children if each is not line]
        assert not any(each.region.overlaps(line.region) for each in others)
        await pilot.press("3")
        await until(pilot, lambda: LISTS in " ".join(screen_text(app).split()))
        await pilot.press("escape")
        await until(pilot, lambda: not app.screen.query(HintLine))
        assert isinstance(app.screen, JobsScreen)
        await pilot.press("enter")
        await until(pilot, lambda: JOB in " ".join(screen_text(app).split()))
        await pilot.press("1")
        await until(pilot, lambda: app.current_mode == "fleet" and not app.screen.query(HintLine))
        await until(pilot, lambda: seen() == ["anywhere", "job", "lists"])
    async with opened(size) as (app, pilot):
        hints = app.first_hints
        assert hints is not None
        assert [hints.next(page) for page in ("FleetScreen", "JobsScreen", "JobScreen")] == [None] * 3


@pytest.mark.slow(reason="many keys in a whole app")
async def test_keys_of_ones_own_stand_in_the_hint() -> None:
    from console.config import config_path

    config_path().parent.mkdir(parents=True, exist_ok=True)
    config_path().write_text('[keys]\n"pane.size" = "f9"\n')
    async with opened() as (app, pilot):
        await until(pilot, lambda: ANYWHERE in screen_text(app))
        await pilot.press("3")
        await until(pilot, lambda: "f9 sizes the pane beside" in screen_text(app))


async def test_where_nobody_looks_there_is_none() -> None:
    async with console() as (app, _, _):
        assert app.first_hints is None


@pytest.mark.parametrize("text", ["{", "7", "[[]]", ""])
def test_a_file_that_is_something_else_counts_for_nothing(text: str) -> None:
    state_folder().mkdir(parents=True, exist_ok=True)
    (state_folder() / "hints.json").write_text(text)
    assert FirstHints().next("FleetScreen") is not None
