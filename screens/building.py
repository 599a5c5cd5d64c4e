"""Builds from wherever they are shown: asked for, cancelled, and launched from."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from console.errors import BadInput
from screens.modals.ask_build import AskBuild
from screens.modals.confirm import Confirm
from screens.modals.pick import Choice, Pick
from screens.modals.prompt import Prompt
from screens.widgets.launch_wish import LaunchWish
from screens.wording import BAD, IDLE, OK

if TYPE_CHECKING:
    from console.models.build import Build, BuildContext
    from screens.base import LiveScreen

OWN = "a folder of yours"
GLYPHS = {"SUCCESS": OK, "FAILURE": BAD, "INTERNAL_ERROR": BAD, "TIMEOUT": BAD, "EXPIRED": BAD, "CANCELLED": IDLE}
"""Of builds that are over, by Google's word."""


async def build_one(screen: LiveScreen) -> Build | None:
    """Ask what, and with what; the build, once it has begun."""
    images = screen.app.google.images
    known = await images.contexts()
    choices = [Choice(each.name, each.title) for each in known]
    picked = await screen.app.push_screen_wait(
        Pick("Build which image?", [*choices, Choice(OWN, "with a Dockerfile or a cloudbuild.yml")])
    )
    if picked is None:
        return None
    context = await _own(screen) if picked == OWN else next(each for each in known if each.name == picked)
    if context is None:
        return None
    plan = await screen.app.push_screen_wait(AskBuild(await images.begin(context), images.problems))
    if plan is None:
        return None
    screen.notify(f"Sending {context.folder} to the builder …", timeout=2, markup=False)
    return await images.build(plan)


async def _own(screen: LiveScreen) -> BuildContext | None:
    place = await screen.app.push_screen_wait(Prompt("Which folder, or which Dockerfile?", str(Path.cwd())))
    if not place:
        return None
    try:
        return await screen.app.google.images.own_context(_typed(place))
    except BadInput as error:
        screen.notify(str(error), title="Nothing to build", severity="error", markup=False)
        return None


def _typed(text: str) -> Path:
    return Path(text).expanduser()


async def cancel_one(screen: LiveScreen, build: Build) -> Build | None:
    """Ask, then end it; None if it goes on."""
    if build.over:
        screen.notify(f"It is over: {build.status}.", markup=False)
        return None
    lines = [f"{', '.join(build.images) or build.id}", "What it has done so far is lost."]
    question = Confirm(f"Cancel build {build.id[:8]}?", lines, verb="Cancel it", keep="Let it go on")
    if not await screen.app.push_screen_wait(question):
        return None
    return await screen.app.google.images.cancel(build.id, build.project, build.location)


def launch_with(screen: LiveScreen, image: str) -> None:
    """The launch form, with that image in it."""
    said = f"{image.rpartition('/')[2]} is in the form."
    screen.app.open_launch(LaunchWish("", {"image": image}, said=said, over=True))
