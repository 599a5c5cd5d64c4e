"""Which pages are kept in which state, and what is compared: lines, and words whose colour says something."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path
from typing import Any

from msgspec import structs
from msgspec.structs import replace
from rich.color import Color, ColorSystem
from textual.screen import ModalScreen

from console.kube.snapshot import WatchState
from practice.cluster import Scene
from screens.app import ConsoleApp
from screens.theme import DARK, LIGHT, in_256_colours
from tests.pictures.frozen import LOOK, MOMENT, Still, still_console
from tests.pictures.views import VIEWS, View
from tests.screens.test_styles import LEAST_SEEN, chroma

TEXTS = Path(__file__).parent / "texts"
MAIN = ("fleet", "queues", "jobs", "pods", "launch", "runs-none", "tunnels")
OF_OBJECTS = ("pool", "node", "pod", "job-pods")
JOB = (
    "job-pods-slow",
    "job-log",
    "job-nccl-done",
    "job-training",
    "job-training-nan",
    "job-events",
    "job-pending",
    "job-failed",
)
OF_GOOGLE = ("images", "storage", "nodepools")
ASKED = ("help", "more", "stop", "launch-look")
SAYS = ("ok", "waits", "bad")
"""Inks that carry meaning: each of their words is kept beside the lines."""
STALE_SECONDS = 90.0
MAX_DRAWN = 4
"""Times that a state is drawn anew until it is twice the same."""
PATIENCE = 45.0
"""Seconds for which a page may differ from what is kept; only one that is not as it was takes them."""


@dataclass(frozen=True)
class Kept:
    """One state of the console and the views that are kept of it."""

    name: str
    views: tuple[str, ...]
    size: tuple[int, int] = (120, 35)
    scene: Scene = "full"
    reader: bool = False
    stale: bool = False

    @property
    def complete(self) -> bool:
        """Whether everything is there, and may be seen."""
        return self.scene == "full" and not self.reader


STATES = (
    Kept("busy", (*MAIN, *OF_OBJECTS, *JOB, "alarms", *OF_GOOGLE, *ASKED)),
    Kept("narrow", (*MAIN, *OF_OBJECTS, *JOB, "alarms", "stop"), size=(80, 24)),
    Kept("wide", ("fleet", "queues", "jobs", "job-pods", "job-log", "job-nccl", "job-training"), size=(200, 50)),
    Kept("empty", (*MAIN, "alarms"), scene="empty"),
    Kept("stale", (*MAIN, "node", "pod", "job-pods"), stale=True),
    Kept("forbidden", (*MAIN, "node", "pod", "job-pods"), reader=True),
)


@asynccontextmanager
async def in_state(kept: Kept) -> AsyncIterator[Still]:
    """The console in that state; a stale one has its whole picture, and hears nothing for a while."""
    async with still_console(size=kept.size, scene=kept.scene, reader=kept.reader) as still:
        if kept.stale:
            await still.until("all lists", lambda: states(still) == {WatchState.LIVE})
            await still.settled()
            links = {
                kind: structs.replace(
                    link,
                    state=WatchState.STALE,
                    since=MOMENT - STALE_SECONDS,
                    last_seen=MOMENT - STALE_SECONDS,
                    why="connection refused",
                )
                for kind, link in still.app.fleet.links.items()
            }
            still.app.fleet = replace(still.app.fleet, links=links)
        yield still


def states(still: Still) -> set[WatchState]:
    return {link.state for link in still.app.fleet.links.values()}


def shown(still: Still) -> str:
    """The screen as it is kept."""
    styles = inked(still.app)
    told = [f"{style}: {'  |  '.join(styles[style])}" for style in SAYS if style in styles]
    return "\n".join([*part(still.app, still.text().split("\n")), "", "── colours", *told, ""])


def part(app: ConsoleApp, lines: list[str]) -> list[str]:
    """Of a dialog only itself: what is behind it is kept elsewhere."""
    if not isinstance(app.screen, ModalScreen):
        return lines
    if not app.screen.children:
        return lines  # a dialog that has only begun to open
    x, y, width, height = app.screen.children[0].region
    return [line[x : x + width] for line in lines[y : y + height]]


def inked(app: ConsoleApp) -> dict[str, list[str]]:
    """The words in each of the styles that say something, in the order in which they are first seen."""
    names = {app.theme_variables[f"ink-{style}"].lower(): style for style in SAYS}
    found: dict[str, list[str]] = {}
    strips: Any = app.screen._compositor
    for strip in strips.render_strips():
        for segment in strip:
            colour = segment.style.color if segment.style else None
            style = names.get(colour.get_truecolor().hex) if colour is not None else None
            words = segment.text.strip()
            if style and words and words not in found.setdefault(style, []):
                found[style].append(words)
    return found


async def differences(kept: Kept) -> list[str]:
    """What is not as it is kept, page by page."""
    wrong: list[str] = []
    async with in_state(kept) as still:
        for view in VIEWS:
            if view.name not in kept.views:
                continue
            await view.open(still, complete=kept.complete)
            path = TEXTS / kept.name / f"{view.name}.txt"
            expected = path.read_text() if path.exists() else ""
            end = time.monotonic() + (PATIENCE if not wrong else PATIENCE / 5)
            while (seen := shown(still)) != expected and time.monotonic() < end:
                still.app.clear_notifications()
                await still.look()
            if seen != expected:
                names = f"kept/{kept.name}/{view.name}", f"seen/{kept.name}/{view.name}"
                lines = expected.splitlines(), seen.splitlines()
                wrong.append("\n".join(unified_diff(*lines, *names, lineterm="", n=2)))
            elif louder := await louder_than_faults(still, view):
                wrong.append(f"{kept.name}/{view.name}: louder than what is wrong are {', '.join(sorted(louder))}")
    return wrong


async def louder_than_faults(still: Still, view: View) -> set[str]:
    """The colours of that page that are more colourful than a fault's, in both themes, in true colour and in 256."""
    found: set[str] = set()
    for theme in (LIGHT, DARK):
        still.app.theme = theme.name
        if view.then and not view.once:  # what is open over a page keeps the colours that it was opened with
            await view.open(still)
        ground = Color.parse(str(theme.background)).get_truecolor().hex
        await still.until(f"{theme.name}", lambda ground=ground: ground in colours(still.app))  # type: ignore[misc]
        for system, given in ((ColorSystem.TRUECOLOR, theme), (ColorSystem.EIGHT_BIT, in_256_colours(theme))):
            instead = dict(zip(theme.variables.values(), given.variables.values(), strict=True))
            bad, waits = (chroma(given.variables[f"ink-{name}"], system) for name in ("bad", "waits"))
            faults = {theme.variables[f"ink-{name}"] for name in ("bad", "waits")}
            most = min(bad, min(bad, waits) + LEAST_SEEN)
            others = {each for each in colours(still.app) if not any(is_near(each, fault) for fault in faults)}
            found |= {f"{each} on {given.name}" for each in others if chroma(instead.get(each, each), system) > most}
    return found


def is_near(one: str, other: str) -> bool:
    """Whether two colours are the same but for what mixing with an opaque ground rounds away."""
    return all(
        abs(a - b) <= 1 for a, b in zip(*(Color.parse(each).get_truecolor() for each in (one, other)), strict=True)
    )


def colours(app: ConsoleApp) -> set[str]:
    """Those of letters and grounds on the screen."""
    strips: Any = app.screen._compositor
    segments = [segment for strip in strips.render_strips() for segment in strip if segment.style]
    letters = (each.style.color for each in segments if each.text.strip())
    grounds = (each.style.bgcolor for each in segments)
    return {each.get_truecolor().hex for each in (*letters, *grounds) if each is not None and not each.is_default}


async def drawn(kept: Kept) -> dict[str, str]:
    """Each page of that state once it has come to rest, with the forecasts of all that waits."""
    pages: dict[str, str] = {}
    async with in_state(kept) as still:
        for view in VIEWS:
            if view.name in kept.views:
                await view.open(still, complete=kept.complete)
                await still.settled()
                await still.app.session.forecasts.expected_starts()
                await asyncio.sleep(5 * LOOK)
                await still.settled()
                pages[view.name] = shown(still)
    return pages


async def renew(kept: Kept) -> list[str]:
    """Keep what two consoles show, each from its start, and give the names of the pages that changed.

    On a busy machine a page may stand still before it is complete: such a page is another one the next time.
    """
    pages, differ = await drawn(kept), {""}
    for _ in range(MAX_DRAWN):
        again = await drawn(kept)
        differ = {name for name in again if again[name] != pages.get(name)}
        if not differ:
            break
        pages = again
    if differ:
        raise TimeoutError(f"No two consoles show the same in {kept.name}: {', '.join(sorted(differ))}")
    folder = TEXTS / kept.name
    folder.mkdir(parents=True, exist_ok=True)
    before = {path.stem: path.read_text() for path in folder.glob("*.txt")}
    for gone in before.keys() - pages.keys():
        (folder / f"{gone}.txt").unlink()
    for name, text in pages.items():
        (folder / f"{name}.txt").write_text(text)
    return sorted(name for name in before.keys() | pages.keys() if before.get(name) != pages.get(name))
