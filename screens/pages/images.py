"""The page of image builds and registry contents, and the page of one build with its growing log."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import aclosing
from typing import ClassVar

from textual import getters, on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from console.errors import BadInput, ConsoleError
from console.google.builds import Build, BuildLine, Image
from console.kube.snapshot import Fleet
from console.kube.stream_completeness import SERVER_CLOCK
from screens import wording
from screens.columns.google import BUILD_GLYPHS, BUILDS, IMAGES
from screens.dialogs.build import cancel_build, launch_with_image, start_build
from screens.dialogs.question import Prompt
from screens.dialogs.save_and_copy import save_log
from screens.google_pages import GoogleScreen, InGoogleScreen, ProjectRegionScreen
from screens.live_screen import error_notice, error_spans
from screens.widgets.log.log_view import WAITING_FOR_CONNECTION, LogView
from screens.widgets.table.row_painter import EmptyNotice
from screens.widgets.table.table import ResourceTable
from screens.widgets.wrapped_sentence import SentenceLine, SummaryLine
from screens.wording import UNDER_WAY, Span, sentence

BUSY_POLL_SECONDS, IDLE_POLL_SECONDS = 3.0, 30.0  # between two looks while a build runs, and while none does


class BuildTable(ResourceTable["Build"]):
    LIST = "builds"
    NOUN = "build"
    EMPTY = EmptyNotice("No builds.", "b builds one that comes with the console, or one of yours.")
    COLUMNS: ClassVar = BUILDS

    def row_text(self, row: Build) -> str:
        return f"{row.id} {' '.join(row.images)} {row.status} {row.why}"


class ImageTable(ResourceTable["Image"]):
    LIST = "images"
    NOUN = "image"
    EMPTY = EmptyNotice("No images.", "b builds one.")
    COLUMNS: ClassVar = IMAGES

    def row_text(self, row: Image) -> str:
        return f"{row.repository}/{row.name} {' '.join(row.tags)} {row.digest}"


class ImagesScreen(ProjectRegionScreen, GoogleScreen):
    trail_name = "images"
    DEFAULT_CSS = """
    ImagesScreen BuildTable { height: 2fr; }
    ImagesScreen ImageTable { height: 3fr; }
    ImagesScreen .head { margin-top: 1; }
    """
    KINDS = ("jobsets",)
    CHANGES_CLUSTER = ProjectRegionScreen.CHANGES_CLUSTER | {"build", "cancel", "create"}
    NEEDS_CLUSTER = frozenset({"launch"})
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("b", "build", "Build", id="images.build", tooltip="Build one of the console's own images, or yours"),
        Binding("n", "launch", "Launch with it", id="images.launch", tooltip="The form with this image"),
        Binding("x", "cancel", "Cancel", id="images.cancel", tooltip="End the build under the cursor; asks first"),
        Binding("c", "copy", "Copy name", id="images.copy", tooltip="The image's whole name, to the clipboard"),
        Binding(
            "m",
            "create",
            "New repository",
            show=False,
            id="images.create",
            tooltip="Make a repository for images in this project and region",
        ),
        Binding("r", "read", "Read again", show=False, id="images.read", tooltip="Ask Google again"),
    ]
    builds = getters.query_one(BuildTable)
    images = getters.query_one(ImageTable)
    summary = getters.query_one("#summary", SummaryLine)
    held = getters.query_one("#held", SummaryLine)
    explanation = getters.query_one(SentenceLine)

    def body(self) -> ComposeResult:
        yield SummaryLine(id="summary")
        yield BuildTable()
        yield SummaryLine(id="held", classes="head")
        yield ImageTable()
        yield SentenceLine()

    @work(group="images", exclusive=True)
    async def read(self) -> None:
        """Read builds at intervals, and images whenever a build has ended."""
        ended: set[str] | None = None
        if not await self._require_place():
            return
        while True:
            pause = IDLE_POLL_SECONDS
            able = self.app.connected or self.app.without_cluster
            if self.is_current and able:
                found = await self._read_builds()
                over = {each.id for each in found or () if each.over}
                if found is not None and over != ended:
                    ended = over
                    await self._read_images()
                if found and any(not each.over for each in found):
                    pause = BUSY_POLL_SECONDS
            await asyncio.sleep(pause if able else 0.5)

    async def _require_place(self) -> bool:
        """Whether the Google project and region are known; if not, the tables say why."""
        try:
            if await self.ensure_place(needs_region=True):
                return True
            error: ConsoleError = BadInput("No cluster is connected, and no region was named.", "w asks for it.")
        except ConsoleError as why:
            error = why
        self._show_refusal(self.builds, self.summary, error)
        self.images.show_trouble(EmptyNotice("", ""))
        return False

    async def _read_builds(self) -> tuple[Build, ...] | None:
        try:
            images = self.app.google.images
            found = await images.list_builds()
            project, location = await images.build_location()
        except ConsoleError as error:
            self._show_refusal(self.builds, self.summary, error)
            return None
        self.builds.show_trouble(BuildTable.EMPTY)
        self.builds.show_rows({(each.id,): each for each in found})
        running = sum(not each.over for each in found)
        runs = [Span(f"Builds of {project} in {location}", "strong")]
        if running:
            runs += [Span("   ◐ ", "waits"), Span(f"{running} under way")]
        runs += self.place_words()
        self.record_result("builds")
        self.summary.runs = tuple(runs)
        self._show_explanation()
        return found

    async def _read_images(self) -> None:
        try:
            found = await self.app.google.images.survey_registry()
        except ConsoleError as error:
            self._show_refusal(self.images, self.held, error)
            return
        self.record_result("images")
        self.images.show_trouble(ImageTable.EMPTY)
        self.images.show_rows({(each.repository, each.name, each.digest): each for each in found.images})
        words = f"{wording.count(len(found.images), 'image')} in {len(found.repositories)} repositories"
        runs = [Span(words, "strong")]
        runs += [Span(f"   {address}: {sentence(why)}", "waits") for address, why in found.unread]
        self.held.runs = tuple(runs)

    def _show_refusal(self, table: BuildTable | ImageTable, line: SummaryLine, error: ConsoleError) -> None:
        self.record_result("builds" if table is self.builds else "images", error)
        table.show_trouble(error_notice(error, self.hint_of(error)))
        line.runs = error_spans(error.message)

    # the row under the cursor

    @on(ResourceTable.Highlighted)
    def _show_explanation(self) -> None:
        build = self.builds.row
        if self.focused is self.images and self.images.row is not None:
            self.explanation.runs = (Span(self.images.row.references[0], "dim"),)
        elif build is not None:
            self.explanation.runs = tuple(_build_sentence(build))
        self.refresh_bindings()

    def on_descendant_focus(self) -> None:
        self._show_explanation()

    def _chosen_image(self) -> str:
        if self.focused is self.images:
            return self.images.row.references[0] if self.images.row else ""
        build = self.builds.row
        return build.images[0] if build and build.images and (build.succeeded or not build.over) else ""

    def offers(self) -> dict[str, object]:
        build = self.builds.row if self.focused is self.builds else None
        image = self._chosen_image()
        return super().offers() | {"cancel": build and not build.over, "launch": image, "copy": image}

    @on(ResourceTable.Opened, "BuildTable")
    def _open_build(self, event: ResourceTable.Opened) -> None:
        event.stop()
        build = self.builds.row
        if build is not None:
            self.app.open_page("build", build.id, build.project, build.location)

    @on(ResourceTable.Opened, "ImageTable")
    def _open_image(self, event: ResourceTable.Opened) -> None:
        event.stop()
        if self.app.without_cluster:
            self.notify_cluster_needed("A launch")
        else:
            self.action_launch()

    def action_launch(self) -> None:
        if image := self._chosen_image():
            launch_with_image(self, image)

    def action_copy(self) -> None:
        if image := self._chosen_image():
            self.copy([image])

    @work(group="actions")
    async def action_build(self) -> None:
        with self.report_errors("Not built"):
            build = await start_build(self)
            if build is not None:
                self.read()
                self.app.open_page("build", build.id, build.project, build.location)

    @work(group="actions")
    async def action_create(self) -> None:
        with self.report_errors("No repository was made"):
            images = self.app.google.images
            project, location = await images.build_location()
            name = await self.app.push_screen_wait(Prompt(f"New repository in {project}, {location}, named?", "a4"))
            if name:
                made = await images.create_repository(project, location, name)
                self.notify(f"{made.address} is there.", timeout=4)
                self.read()

    @work(group="actions")
    async def action_cancel(self) -> None:
        build = self.builds.row
        with self.report_errors("Not cancelled"):
            if build is not None and await cancel_build(self, build):
                self.read()


def _build_sentence(build: Build) -> list[Span]:
    values = "  ".join(f"{name}={value}" for name, value in sorted(build.substitutions.items()))
    runs = [Span(f"{sentence(build.why)} ", "bad")] if build.why else []
    return [*runs, Span(f"{build.id}  ", ""), Span(values, "dim")]


BUILD_POLL_SECONDS = 3.0  # seconds between two looks at how far it is


class BuildScreen(InGoogleScreen):
    KINDS = ("jobsets",)
    CHANGES_CLUSTER = frozenset({"cancel"})
    NEEDS_CLUSTER = frozenset({"launch"})
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "n",
            "launch",
            "Launch with it",
            id="build.launch",
            tooltip="The launch form, with this image in it",
            priority=True,
        ),
        Binding("x", "cancel", "Cancel", id="build.cancel", tooltip="End the build; asks first"),
    ]
    view = getters.query_one(LogView)
    head = getters.query_one(SummaryLine)

    def __init__(self, number: str, project: str, location: str) -> None:
        super().__init__()
        self._build_id = number, project, location
        self.trail_name = f"build {number[:8]}"
        self.build: Build | None = None
        self._connection: object | None = None
        """The connection by which the log was last requested; None before that, and without a cluster."""
        self._shown_lines: Counter[BuildLine] = Counter()
        """The log lines shown so far, with their counts: each request returns the log from its beginning."""
        self._log_complete = False

    def body(self) -> ComposeResult:
        yield SummaryLine()
        yield LogView()

    def on_mount(self) -> None:
        self.view.lines.focus()
        self._connection = self.app.connection
        self.set_interval(BUILD_POLL_SECONDS, self.read_build)
        self.read()

    def read(self) -> None:
        """Read the build's state and the new part of its log."""
        self.read_build()
        if not self._log_complete:
            self.follow_log()

    def show_fleet(self, fleet: Fleet) -> None:
        if (connection := self.app.connection) not in {None, self._connection}:
            self._connection = connection
            self.read()

    def tick(self) -> None:
        super().tick()
        self._show_build_details()

    @work(group="look", exclusive=True)
    async def read_build(self) -> None:
        if self.is_current and (self.build is None or not self.build.over):
            try:
                self.build = await self.app.google.images.read_build(*self._build_id)
            except ConsoleError as error:
                self.head.runs = error_spans(error.message)
                return
            self._show_build_details()
            self.refresh_bindings()

    def _show_build_details(self) -> None:
        build = self.build
        if build is None or not self.is_attached or not self.query(SummaryLine):
            return
        mark = BUILD_GLYPHS.get(build.status, UNDER_WAY)
        took = build.seconds(SERVER_CLOCK.now())
        self.head.runs = (
            mark,
            Span(f" {build.status.lower().replace('_', ' ')}  "),
            Span(", ".join(build.images), "strong"),
            Span(f"  {wording.age(took)} of at most {wording.age(build.time_out)}" if took else "", "dim"),
            Span(f"  {sentence(build.why)}" if build.why else "", "bad"),
        )

    @work(group="log", exclusive=True)
    async def follow_log(self) -> None:
        number, project, location = self._build_id
        self.view.end_reason, self.view.status = "", "the builder prints"
        known = self._shown_lines.copy()
        try:
            async with aclosing(self.app.google.images.follow_log(number, project=project, location=location)) as lines:
                async for line in lines:
                    if known[line]:
                        known[line] -= 1
                    else:
                        self._shown_lines[line] += 1
                        self.view.lines.append([(line.time, line.text)])
        except ConsoleError as error:
            now = self.app.connection
            lost = not self.app.without_cluster and (now is None or now is not self._connection)
            self.view.end_reason = WAITING_FOR_CONNECTION if lost else "✗ not followed"
            self.view.status = "" if lost else sentence(f"{error.message} {error.hint}")
            return
        self._log_complete = True
        self.view.end_reason, self.view.status = "○ the build is over", ""
        self.read_build()

    def offers(self) -> dict[str, object]:
        build = self.build
        usable = build and build.images and (build.succeeded or not build.over)
        return {"cancel": build and not build.over, "launch": usable}

    def action_launch(self) -> None:
        if self.build and self.build.images:
            launch_with_image(self, self.build.images[0])

    @work(group="actions")
    async def action_cancel(self) -> None:
        with self.report_errors("Not cancelled"):
            if self.build is not None and (ended := await cancel_build(self, self.build)):
                self.build = ended
                self._show_build_details()
                self.refresh_bindings()

    @on(LogView.Saved)
    @work(group="actions")
    async def save(self, event: LogView.Saved) -> None:
        await save_log(self, event.text, f"build-{self._build_id[0][:8]}")
