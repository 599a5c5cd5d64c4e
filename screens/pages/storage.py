"""The page of buckets, Lustre and Filestore, nearest to the cluster first, and the page of one bucket folder."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import ClassVar

from textual import getters, on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from console.attach.files.copy_progress import CopyProgress
from console.errors import BadInput, Conflict, ConsoleError
from console.google.bucket_paths import GcsPlace, StoredObject, parse_gcs_address
from screens import wording
from screens.columns.column import Column, RowKey, age_column
from screens.columns.google import BUCKET, FILESTORE, LUSTRE, STORAGE, StoragePlace, of_bucket, of_file_system
from screens.dialogs.question import Confirm, Pick, PickEntry, Prompt
from screens.google_pages import GoogleScreen, InGoogleScreen, ProjectRegionScreen
from screens.live_screen import error_notice, error_spans
from screens.sanitize import one_line
from screens.widgets.form.form_model import LaunchRequest
from screens.widgets.table.row_painter import EmptyNotice
from screens.widgets.table.table import ResourceTable
from screens.widgets.wrapped_sentence import SentenceLine, SummaryLine
from screens.wording import Cell, Span


class PlaceTable(ResourceTable[StoragePlace]):
    NOUN = "place"
    EMPTY = EmptyNotice("No storage.", "The project has no buckets, no Lustre and no Filestore.")
    COLUMNS: ClassVar = STORAGE

    def row_text(self, row: StoragePlace) -> str:
        return f"{row.kind} {row.name} {row.location} {row.match_text} {row.address}"


class StorageScreen(ProjectRegionScreen, GoogleScreen):
    """The Storage page: buckets and file systems; Enter opens a bucket or mounts a file system."""

    trail_name = "storage"
    KINDS = ("jobsets",)
    NEEDS_CLUSTER = frozenset({"launch"})
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n", "launch", "Launch with it", id="storage.launch", tooltip="The form, with what mounts this"),
        Binding("c", "copy", "Copy address", id="storage.copy", tooltip="gs://BUCKET, or the mount point"),
        Binding("r", "read", "Read again", id="storage.read", tooltip="Ask Google again"),
    ]
    table = getters.query_one(PlaceTable)
    explanation = getters.query_one(SentenceLine)

    def body(self) -> ComposeResult:
        yield SummaryLine()
        yield PlaceTable()
        yield SentenceLine()

    @work(group="storage", exclusive=True)
    async def read(self) -> None:
        """Read all three kinds; one that fails does not hide the others."""
        try:
            if not await self.ensure_place(needs_region=False):
                raise BadInput("No cluster is connected, and no project was named.", "w asks for it.")
            storage = self.app.google.storage
            project = await storage.project_or_default() if self.app.without_cluster else ""
        except ConsoleError as error:
            self.summary.runs = ()
            self.table.show_trouble(error_notice(error))
            return
        rows: dict[RowKey, StoragePlace] = {}
        region = ""

        async def buckets() -> dict[RowKey, StoragePlace]:
            nonlocal region
            region = await storage.cluster_region()
            return {(BUCKET, each.name, ""): of_bucket(each, region) for each in await storage.list_buckets()}

        async def lustre() -> dict[RowKey, StoragePlace]:
            found = await storage.list_lustre()
            return {(LUSTRE, each.name, each.location): of_file_system(LUSTRE, each, region) for each in found}

        async def shares() -> dict[RowKey, StoragePlace]:
            found = {
                (FILESTORE, f"{each.name}/{each.share}", each.location): each for each in await storage.list_filestore()
            }
            return {key: of_file_system(FILESTORE, each, region) for key, each in found.items()}

        for kind, places in ((BUCKET, buckets), (LUSTRE, lustre), (FILESTORE, shares)):
            try:
                rows |= await places()
                self.record_result(kind)
            except ConsoleError as error:
                rows[kind, "", ""] = StoragePlace(kind, "", "", "", False, "", "", "", {}, error=error)
                self.record_result(kind, error)
        self.table.show_trouble(PlaceTable.EMPTY)
        self.table.show_rows(rows)
        near = sum(each.is_near for each in rows.values())
        there = sum(each.error is None for each in rows.values())
        words = f"{wording.count(there, 'place')} to store in"
        where = f", project {project}" if project else f", {near} by the cluster"
        self.summary.runs = (Span(f"{words}{where}", "strong"), Span(f"   {region}", "dim"), *self.place_words())
        self._show_details()

    @on(ResourceTable.Highlighted)
    def _show_details(self) -> None:
        place = self.table.row
        self.explanation.runs = tuple(_place_sentence(place, self)) if place is not None else ()
        self.refresh_bindings()

    def offers(self) -> dict[str, object]:
        usable = self.table.row and self.table.row.values
        return super().offers() | {"launch": usable, "copy": usable}

    @on(ResourceTable.Opened)
    def _row_opened(self, event: ResourceTable.Opened) -> None:
        event.stop()
        place = self.table.row
        if place is not None and place.kind == BUCKET and place.error is None:
            self.app.open_page("bucket", f"gs://{place.name}")
        else:
            self.action_launch()

    def action_launch(self) -> None:
        place = self.table.row
        if place is not None and place.values:
            text = f"{place.kind} {place.name} is in the form, under Storage."
            self.app.open_launch(LaunchRequest("", place.values, message=text, merges_values=True))

    def action_copy(self) -> None:
        place = self.table.row
        if place is not None and place.values:
            self.copy([f"gs://{place.name}" if place.kind == BUCKET else place.address])


def _place_sentence(place: StoragePlace, screen: StorageScreen) -> list[Span]:
    if place.error is not None:
        return [Span(f"{place.error.message} ", "bad"), Span(screen.hint_of(place.error), "dim")]
    if not place.values:
        return [Span(f"It cannot be mounted now: {place.state.lower()}. {place.address}", "waits")]
    if place.kind == BUCKET:
        words = "Enter opens it. Mounted at /gcs it can hold logs and copies; it is too slow to train from."
        slow = Span("Pods would read it over the network between regions. ", "waits")
        far = [] if place.is_near or not place.match_text else [slow]
        return [*far, Span(words, "dim")]
    storage = place.values.get("storage")
    kinds = storage.values() if isinstance(storage, dict) else ()
    fields = "  ".join(f"{name}={value}" for kind in kinds if isinstance(kind, dict) for name, value in kind.items())
    fills = "mounted by: " if screen.app.without_cluster else "n fills the form: "
    return [Span(fills, "dim"), Span(fields)]


def name_cell(obj: StoredObject) -> Cell:
    name = Span(one_line(obj.title), "accent" if obj.is_folder else "")
    return [name, Span("  ← the last complete checkpoint", "ok")] if obj.latest else name


class ObjectTable(ResourceTable["StoredObject"]):
    NOUN = "object"
    EMPTY = EmptyNotice("Nothing is here.")
    COLUMNS: ClassVar = (
        Column("NAME", name_cell, least=20, most=120, sort=lambda stored: stored.name),
        Column("SIZE", lambda stored: "" if stored.is_folder else wording.size(stored.bytes), width=10, right=True,
               sort=lambda stored: stored.bytes, down=True),
        age_column("AGE", lambda stored: stored.updated),
        Column("ITERATION", lambda stored: f"{stored.iteration:,}" if stored.iteration is not None else "", width=9,
               right=True, sort=lambda stored: stored.iteration or -1, down=True, drop=5),
    )  # fmt: skip

    def row_text(self, row: StoredObject) -> str:
        return row.title


def shorten_path(path: str, width: int) -> str:
    """A path shortened in the middle to at most `width` columns."""
    if len(path) <= width:
        return path
    head = path[: path.index("/", len("gs://")) + 1]
    return f"{head}…{path[-max(1, width - len(head) - 1) :]}" if len(head) < width - 12 else f"…{path[1 - width :]}"


class BucketScreen(InGoogleScreen):
    """A page with the contents of a bucket folder; Enter opens a folder, Esc goes up."""

    KINDS = ("jobsets",)
    CHANGES_CLUSTER = NEEDS_CLUSTER = frozenset({"store"})
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "u",
            "fetch",
            "Copy here",
            id="bucket.fetch",
            tooltip="Bring what is under the cursor, or all that is marked, to this machine",
        ),
        Binding("s", "store", "Store logs", id="bucket.store", tooltip="Put the logs of all pods of a job here"),
        Binding("c", "copy", "Copy address", id="bucket.copy", tooltip="gs://BUCKET/PATH to the clipboard"),
        Binding("r", "read", "Read again", id="bucket.read", tooltip="List the folder again"),
    ]
    table = getters.query_one(ObjectTable)
    summary = getters.query_one(SummaryLine)
    explanation = getters.query_one(SentenceLine)

    def __init__(self, address: str) -> None:
        super().__init__()
        self.place = parse_gcs_address(address)
        self.trail_name = f"gs://{self.place.bucket}"
        self._last_target = ""  # where the last copy went

    def body(self) -> ComposeResult:
        yield SummaryLine()
        yield ObjectTable()
        yield SentenceLine()

    def on_mount(self) -> None:
        self.read()

    def action_read(self) -> None:
        self.read()

    @work(group="bucket", exclusive=True)
    async def read(self, back_to: str = "") -> None:
        """Read the folder; puts the cursor on `back_to`."""
        place = self.place
        self.summary.runs = (Span(str(place), "strong"), Span("   looking …", "dim"))
        try:
            found = await self.app.google.storage.list_folder(place)
        except ConsoleError as error:
            self.table.show_rows({})
            self.table.show_trouble(error_notice(error))
            self.summary.runs = (Span(f"{place}   ", "strong"), *error_spans(error.message))
            return
        self.table.show_trouble(ObjectTable.EMPTY)
        self.table.show_rows({(each.name,): each for each in found.objects})
        files = [each for each in found.objects if not each.is_folder]
        folders = len(found.objects) - len(files)
        amount = sum(each.bytes for each in files)
        words = f"   {wording.count(folders, 'folder')}, {wording.count(len(files), 'object')}, {wording.size(amount)}"
        more = [Span("   and more, which are not shown", "waits")] if found.has_more else []
        room = max(20, self.size.width - len(words) - 4)
        self.summary.runs = (Span(shorten_path(str(found.place), room), "strong"), Span(words, "dim"), *more)
        self.explanation.runs = (Span(found.note),) if found.note else ()
        if back_to:
            self.table.move_to((back_to,))

    @on(ResourceTable.Opened)
    def _row_opened(self, event: ResourceTable.Opened) -> None:
        event.stop()
        stored = self.table.row
        if stored is not None and stored.is_folder:
            self.place = GcsPlace(self.place.bucket, stored.name)
            self.read()
        else:
            self.action_fetch()

    def action_back(self) -> None:
        if self.table.filter_text or self.table.marks or not self.place.path:
            super().action_back()
            return
        here = self.place.path
        self.place = self.place.parent_folder()
        self.read(here)

    def action_copy(self) -> None:
        chosen = [str(GcsPlace(self.place.bucket, each.name)) for each in self.table.chosen_rows]
        self.copy(chosen or [str(self.place)], "addresses")

    @work(group="actions")
    async def action_fetch(self) -> None:
        """Ask for a target and download; existing files are kept, interrupted downloads are resumed."""
        chosen = self.table.chosen_rows
        if not chosen:
            return
        what = chosen[0].title if len(chosen) == 1 else wording.count(len(chosen), "thing")
        target = await self.app.push_screen_wait(
            Prompt(f"Copy {what} into which folder of this machine?", self._last_target or str(Path.cwd()))
        )
        if not target:
            return
        self._last_target, folder = target, await asyncio.to_thread(Path(target).expanduser)
        for each in chosen:
            with self.report_errors(f"{each.title} was not copied"):
                place = GcsPlace(self.place.bucket, each.name)
                report = await self.app.google.storage.fetch_folder(place, folder, self._show_details)
                kept = f", {report.kept} of them were there" if report.kept else ""
                words = f"{wording.count(report.files, 'file')}, {wording.size(report.bytes)}{kept}; crc32c equal."
                self.notify(words, title=f"{each.title} is in {target}")
                for name, why in report.problems[:3]:
                    self.notify(why, title=f"{name} was skipped", severity="error", timeout=8)
        self.table.clear_marks()
        self.explanation.runs = ()

    @work(group="actions")
    async def action_store(self) -> None:
        """Ask for job and target and upload its logs; existing objects are replaced only if confirmed."""
        jobs = sorted(self.app.fleet.jobsets, key=lambda key: -self.app.fleet.jobsets[key].created)
        picked = await self.app.push_screen_wait(
            Pick("Store the logs of which job?", [PickEntry(f"{namespace}/{name}") for namespace, name in jobs])
        )
        if not picked:
            return
        namespace, _, job = picked.partition("/")
        usual = GcsPlace(self.place.bucket, f"{self.place.folder}testbed-logs/")
        typed = await self.app.push_screen_wait(Prompt(f"Store the logs of {job} where?", str(usual)))
        if not typed:
            return
        with self.report_errors(f"The logs of {job} were not stored"):
            place = parse_gcs_address(typed)
            try:
                report = await self.app.google.storage.store_logs(namespace, job, place)
            except Conflict as error:
                question = Confirm("Replace what is there?", [error.message], verb="Replace")
                if not await self.app.push_screen_wait(question):
                    return
                report = await self.app.google.storage.store_logs(namespace, job, place, replace=True)
            words = ", ".join(f"{name} ({wording.count(lines, 'line')})" for name, lines in report.objects[:4])
            self.notify(words, title=f"The logs of {job} are in {place}")
            self.read()

    def _show_details(self, progress: CopyProgress) -> None:
        share = wording.percent(progress.done, progress.total)
        files = f"{progress.done_files} of {wording.count(progress.all_files, 'file')}"
        self.explanation.runs = (
            Span("◐ ", "waits"),
            Span(f"{share}  {wording.size(progress.done)} of {wording.size(progress.total)}, {files}  "),
            Span(one_line(progress.now), "dim"),
        )
