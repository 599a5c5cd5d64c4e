"""Dialogs to start and cancel image builds, and to launch with an image."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.widgets import Input, Static

from console.errors import BadInput
from console.google.builds import BUILD_MACHINES, Build, BuildContext, BuildPlan, plan_problems
from screens.dialogs.question import Confirm, Pick, PickEntry, Prompt, Question
from screens.live_screen import LiveScreen
from screens.widgets.form.form_model import LaunchRequest
from screens.wording import whole_path

MACHINE_FIELD, TIMEOUT_FIELD = "machine", "time-out"
_BUILD_TIME = re.compile(r"^(\d+)([smh]?)$")
_SECONDS_PER_UNIT = {"": 1, "s": 1, "m": 60, "h": 3600}
_SUBSTITUTION_HELP = {
    "_ARTIFACT_REGISTRY": "LOCATION-docker.pkg.dev/PROJECT/REPOSITORY",
    "_IMAGE_NAME": "name of the image in it",
    "_IMAGE_TAG": "its tag; an image that has it loses it",
    "_BASE_IMAGE": "what the Dockerfile begins from",
    MACHINE_FIELD: "  ".join(BUILD_MACHINES),
    TIMEOUT_FIELD: "30m, 2h or seconds",
}


class AskBuild(Question["BuildPlan | None"]):
    """Asks for each substitution of a build; answers with a valid plan, None if cancelled."""

    DEFAULT_CSS = """
    AskBuild > VerticalScroll { width: 110; max-width: 95%; border-subtitle-color: $ink-dim; padding: 1 2; }
    AskBuild Horizontal { height: 1; }
    AskBuild .name { width: 20; color: $ink-dim; }
    AskBuild Input { padding: 0; width: 1fr; }
    AskBuild .meaning { color: $ink-dim; padding-left: 20; height: 1; }
    AskBuild .hint { margin-top: 1; }
    AskBuild #wrong { color: $error; margin-top: 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "Cancel", id="build-form.cancel"),
        Binding("ctrl+s", "take", "Build", id="build-form.take", priority=True),
        Binding("down", "app.focus_next", "Next", show=False),
        Binding("up", "app.focus_previous", "Previous", show=False),
    ]

    def __init__(self, plan: BuildPlan) -> None:
        super().__init__()
        self._plan = plan

    def compose(self) -> ComposeResult:
        plan = self._plan
        values = {**plan.context.defaults, **plan.substitutions}
        with VerticalScroll() as box:
            box.border_title = Content(f"Build {plan.context.name} in {plan.project}, {plan.location}")
            yield Static(plan.context.title, markup=False)
            yield Static(f"from {plan.context.folder}", markup=False, classes="hint")
            lines = [(name, values.get(name, "")) for name in plan.context.wanted]
            for name, value in (*lines, (MACHINE_FIELD, plan.machine), (TIMEOUT_FIELD, _format_seconds(plan.time_out))):
                with Horizontal():
                    yield Static(name, markup=False, classes="name")
                    yield Input(value, name=name, compact=True)
                yield Static(_SUBSTITUTION_HELP.get(name, ""), markup=False, classes="meaning")
            yield Static("", markup=False, id="wrong")
            box.border_subtitle = "Enter builds it, Esc cancels; the build continues when the console closes"

    def on_mount(self) -> None:
        self.query(Input).first().focus()
        self._update_problem()

    def plan(self) -> tuple[BuildPlan, str]:
        typed = {each.name or "": each.value.strip() for each in self.query(Input)}
        machine, time = typed.pop(MACHINE_FIELD), _BUILD_TIME.match(typed.pop(TIMEOUT_FIELD))
        defaults = self._plan.context.defaults
        changed = {name: value for name, value in typed.items() if value and value != defaults.get(name)}
        emptied = [name for name, value in typed.items() if not value]
        plan = replace(self._plan, substitutions=changed, machine=machine)
        if time is None:
            return plan, f"The timeout is written {_SUBSTITUTION_HELP[TIMEOUT_FIELD]}."
        plan = replace(plan, time_out=int(time[1]) * _SECONDS_PER_UNIT[time[2]])
        if machine not in BUILD_MACHINES:
            return plan, f"Cloud Build has no machine {machine or '(none)'}: {', '.join(BUILD_MACHINES)}."
        if emptied:
            return plan, f"{emptied[0]} has no value."
        return plan, " ".join(words for _, words in plan_problems(plan))

    @on(Input.Changed)
    def _update_problem(self) -> None:
        self.query_one("#wrong", Static).update(self.plan()[1])

    @on(Input.Submitted)
    def _submit_plan(self) -> None:
        self.action_take()

    def action_take(self) -> None:
        plan, wrong = self.plan()
        if wrong:
            self.query_one("#wrong", Static).update(wrong)
        else:
            self.dismiss(plan)


def _format_seconds(seconds: int) -> str:
    for unit, length in (("h", 3600), ("m", 60)):
        if seconds % length == 0:
            return f"{seconds // length}{unit}"
    return str(seconds)


OWN = "a folder of yours"


async def start_build(screen: LiveScreen) -> Build | None:
    """Ask for context and settings and start a build; None if cancelled."""
    images = screen.app.google.images
    known = await images.list_contexts()
    choices = [PickEntry(each.name, each.title) for each in known]
    choices.append(PickEntry(OWN, "with a Dockerfile or a cloudbuild.yml"))
    picked = await screen.app.push_screen_wait(Pick("Build which image?", choices))
    if picked is None:
        return None
    context = await _read_own_context(screen) if picked == OWN else next(each for each in known if each.name == picked)
    if context is None:
        return None
    plan = await screen.app.push_screen_wait(AskBuild(await images.new_plan(context)))
    if plan is None:
        return None
    screen.notify(f"Sending {context.folder} to the builder …", timeout=2, markup=False)
    return await images.start_build(plan)


async def _read_own_context(screen: LiveScreen) -> BuildContext | None:
    place = await screen.app.push_screen_wait(Prompt("Which folder, or which Dockerfile?", str(Path.cwd())))
    if not place:
        return None
    try:
        return await screen.app.google.images.read_context(whole_path(place))
    except BadInput as error:
        screen.notify(str(error), title="Nothing to build", severity="error", markup=False)
        return None


async def cancel_build(screen: LiveScreen, build: Build) -> Build | None:
    """Cancel a build after confirmation; None if it continues."""
    if build.over:
        screen.notify(f"It is over: {build.status}.", markup=False)
        return None
    lines = [f"{', '.join(build.images) or build.id}", "What it has done so far is lost."]
    question = Confirm(f"Cancel build {build.id[:8]}?", lines, verb="Cancel it", keep="Let it go on")
    if not await screen.app.push_screen_wait(question):
        return None
    return await screen.app.google.images.cancel_build(build.id, build.project, build.location)


def launch_with_image(screen: LiveScreen, image: str) -> None:
    text = f"{image.rpartition('/')[2]} is in the form."
    screen.app.open_launch(LaunchRequest("", {"image": image}, message=text, merges_values=True))
