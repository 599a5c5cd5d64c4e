"""The page of one image build: its progress and its growing log."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import aclosing
from typing import ClassVar

from textual import getters, on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from console.errors import ConsoleError
from console.google.builds import Build, BuildLine
from console.kube.snapshot import Fleet
from screens import wording
from screens.base import error_runs
from screens.columns.google import BUILD_GLYPHS
from screens.dialogs.build import cancel_build, launch_with
from screens.dialogs.save import save_log
from screens.google_base import InGoogleScreen
from screens.widgets.log.view import WAITING, LogView
from screens.widgets.sentence_line import SummaryLine
from screens.wording import WAITS, Span, sentence

AGAIN = 3.0  # seconds between two looks at how far it is


class BuildScreen(InGoogleScreen):
    KINDS = ("jobsets",)
    CHANGES_CLUSTER = frozenset({"cancel"})
    NEEDS_CLUSTER = frozenset({"launch"})
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n", "launch", "Launch with it", id="build.launch", tooltip="The launch form, with this image in it",
                priority=True),
        Binding("x", "cancel", "Cancel", id="build.cancel", tooltip="End the build; asks first"),
    ]  # fmt: skip
    view = getters.query_one(LogView)
    head = getters.query_one(SummaryLine)

    def __init__(self, number: str, project: str, location: str) -> None:
        super().__init__()
        self._about = number, project, location
        self.crumb = f"build {number[:8]}"
        self.build: Build | None = None
        self._connection: object | None = None
        """By which its log was last asked for; None also without a cluster."""
        self._given: Counter[BuildLine] = Counter()
        """What its log has given, which is read from its beginning each time."""
        self._read_all = False

    def body(self) -> ComposeResult:
        yield SummaryLine()
        yield LogView()

    def on_mount(self) -> None:
        self.view.lines.focus()
        self._connection = self.app.connection
        self.set_interval(AGAIN, self.look)
        self.read()

    def read(self) -> None:
        """Read the build's state and the new part of its log."""
        self.look()
        if not self._read_all:
            self.follow()

    def show_fleet(self, fleet: Fleet) -> None:
        if (connection := self.app.connection) not in {None, self._connection}:
            self._connection = connection
            self.read()

    def tick(self) -> None:
        super().tick()
        self._tell()

    @work(group="look", exclusive=True)
    async def look(self) -> None:
        if self.is_current and (self.build is None or not self.build.over):
            try:
                self.build = await self.app.google.images.look(*self._about)
            except ConsoleError as error:
                self.head.runs = error_runs(error.message)
                return
            self._tell()
            self.refresh_bindings()

    def _tell(self) -> None:
        build = self.build
        if build is None or not self.is_attached or not self.query(SummaryLine):
            return
        mark = BUILD_GLYPHS.get(build.status, WAITS)
        took = build.seconds(time.time())
        self.head.runs = (
            mark,
            Span(f" {build.status.lower().replace('_', ' ')}  "),
            Span(", ".join(build.images), "strong"),
            Span(f"  {wording.age(took)} of at most {wording.age(build.time_out)}" if took else "", "dim"),
            Span(f"  {sentence(build.why)}" if build.why else "", "bad"),
        )

    @work(group="log", exclusive=True)
    async def follow(self) -> None:
        number, project, location = self._about
        self.view.over, self.view.status = "", "the builder prints"
        known = self._given.copy()
        try:
            async with aclosing(self.app.google.images.log(number, project=project, location=location)) as lines:
                async for line in lines:
                    if known[line]:
                        known[line] -= 1
                    else:
                        self._given[line] += 1
                        self.view.lines.append([(line.time, line.text)])
        except ConsoleError as error:
            now = self.app.connection
            lost = not self.app.without_cluster and (now is None or now is not self._connection)
            self.view.over = WAITING if lost else "✗ not followed"
            self.view.status = "" if lost else sentence(f"{error.message} {error.hint}")
            return
        self._read_all = True
        self.view.over, self.view.status = "○ the build is over", ""
        self.look()

    def offers(self) -> dict[str, object]:
        build = self.build
        usable = build and build.images and (build.succeeded or not build.over)
        return {"cancel": build and not build.over, "launch": usable}

    def action_launch(self) -> None:
        if self.build and self.build.images:
            launch_with(self, self.build.images[0])

    @work(group="actions")
    async def action_cancel(self) -> None:
        with self.report_errors("Not cancelled"):
            if self.build is not None and (ended := await cancel_build(self, self.build)):
                self.build = ended
                self._tell()
                self.refresh_bindings()

    @on(LogView.Saved)
    @work(group="actions")
    async def save(self, event: LogView.Saved) -> None:
        await save_log(self, event.text, f"build-{self._about[0][:8]}")
