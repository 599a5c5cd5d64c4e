"""The console over a fake session, and waiting for what a test expects instead of sleeping."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar, cast

from textual.app import App
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widget import Widget

from console.connection_settings import Settings
from screens.app import ConsoleApp
from screens.live_screen import LiveScreen
from tests.fakes import FakeSession
from tests.screens.scene import scene

Found = TypeVar("Found")
Shown = TypeVar("Shown", bound=Screen[Any])
STYLES = str(Path(sys.modules[ConsoleApp.__module__].__file__ or "").with_name("app.tcss"))
"""CSS_PATH of an app that a test derives: Textual looks beside the module that has the class."""
DEADLINE = 30.0
"""Seconds: only a failing test waits so long, and a busy machine may take its time."""


async def until(pilot: Pilot[Any], holds: Callable[[], object]) -> None:
    """Let the app work until that holds, and until the screen in front has its widgets."""
    end, rest = time.monotonic() + DEADLINE, 0.0
    while not (holds() and pilot.app.screen.is_mounted):
        if pilot.app._exception is not None:
            raise pilot.app._exception
        assert time.monotonic() < end, f"what the test waits for did not come:\n{screen_text(pilot.app)}"
        await pilot.pause()
        await asyncio.sleep(rest)
        rest = min(rest + 0.002, 0.05)  # what takes a second is not asked for all the time


async def until_shown(pilot: Pilot[Any], *words: str) -> str:
    """What the whole screen shows, once all these words are on it."""
    await until(pilot, lambda: all(word in screen_text(pilot.app) for word in words))
    return screen_text(pilot.app)


async def press(pilot: Pilot[Any], *keys: str, then: Callable[[], object]) -> None:
    """Press these keys, and wait for what comes of them."""
    await pilot.press(*keys)
    await until(pilot, then)


def screen_of(app: App[Any], kind: type[Shown]) -> Shown:
    """The screen in front, which is of that kind."""
    assert isinstance(app.screen, kind)
    return app.screen


async def next_screen(pilot: Pilot[Any], kind: type[Shown]) -> Shown:
    """The screen of that kind, once it is in front."""
    await until(pilot, lambda: isinstance(pilot.app.screen, kind))
    return screen_of(pilot.app, kind)


async def focus(pilot: Pilot[Any], widget: Widget) -> None:
    """Give the widget the keys: Textual does it some messages later, and a key pressed before goes elsewhere."""
    widget.focus()
    await until(pilot, lambda: widget.has_focus)


def connecting(*answers: object) -> Callable[[], Awaitable[Any]]:
    """What connects the console: it gets these answers, one each time and the last again, or errors that are raised."""
    left = list(answers)

    async def connect() -> Any:
        answer = left.pop(0) if left[1:] else left[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    return connect


@asynccontextmanager
async def console(
    session: FakeSession | None = None,
    *,
    size: tuple[int, int] = (120, 35),
    settings: Settings | None = None,
    messages: bool = False,
    kind: type[ConsoleApp] = ConsoleApp,
) -> AsyncIterator[tuple[ConsoleApp, Pilot[Any], FakeSession]]:
    """The console on its first screen, with the session's picture on it. `messages`: whether messages are drawn."""
    settings = settings or Settings()
    session = session or FakeSession(scene(), settings=settings)
    app = kind(settings, connect=connecting(session))
    async with app.run_test(size=size, notifications=messages) as pilot:
        await until(pilot, lambda: app.fleet is session.fleet and not cast("LiveScreen", app.screen)._drawing_due)
        yield app, pilot, session
        app.workers.cancel_all()  # as by the key that quits


@asynccontextmanager
async def console_at(
    way: Callable[[ConsoleApp, Pilot[Any]], Awaitable[Found]], session: FakeSession | None = None, **options: Any
) -> AsyncIterator[tuple[ConsoleApp, Pilot[Any], Found]]:
    """The console on the page that a way leads to, and that page."""
    async with console(session, **options) as (app, pilot, _):
        yield app, pilot, await way(app, pilot)


def text_of(widget: Any) -> str:
    """What a widget that draws its own lines shows."""
    return "\n".join(widget.render_line(y).text for y in range(widget.size.height))


def screen_text(app: App[Any]) -> str:
    """What the whole screen shows."""
    return "\n".join(strip.text for strip in cast("Any", app.screen._compositor.render_strips()))


def toasts(app: App[Any]) -> str:
    """Title and words of each toast."""
    return "\n".join(f"{each.title}: {each.message}" for each in app._notifications)
