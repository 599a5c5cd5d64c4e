"""The page of buckets, Lustre and Filestore instances, nearest to the cluster first."""

from __future__ import annotations

from typing import ClassVar

from textual import getters, on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from console.errors import BadInput, ConsoleError
from screens import wording
from screens.base import error_notice
from screens.columns.google import BUCKET, FILESTORE, LUSTRE, PLACES, Place, of_bucket, of_filestore, of_lustre
from screens.google_base import AskingScreen, PlacedScreen
from screens.widgets.form.model import LaunchRequest
from screens.widgets.sentence_line import SentenceLine, SummaryLine
from screens.widgets.table.listing import RowKey
from screens.widgets.table.row_painter import Notice
from screens.widgets.table.table import ResourceTable
from screens.wording import Span


class PlaceTable(ResourceTable[Place]):
    NOUN = "place"
    EMPTY = Notice("No storage.", "The project has no buckets, no Lustre and no Filestore.")
    COLUMNS: ClassVar = PLACES

    def row_text(self, row: Place) -> str:
        return f"{row.kind} {row.name} {row.location} {row.match} {row.address}"


class StorageScreen(PlacedScreen, AskingScreen):
    """All storage; Enter opens a bucket or mounts a file system."""

    crumb = "storage"
    KINDS = ("jobsets",)
    NEEDS_CLUSTER = frozenset({"launch"})
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n", "launch", "Launch with it", id="storage.launch",
                tooltip="The launch form, with the fields that mount this"),
        Binding("c", "copy", "Copy address", id="storage.copy", tooltip="gs://BUCKET, or the mount point"),
        Binding("r", "read", "Read again", id="storage.read", tooltip="Ask Google again"),
    ]  # fmt: skip
    table = getters.query_one(PlaceTable)
    told = getters.query_one(SentenceLine)

    def body(self) -> ComposeResult:
        yield SummaryLine()
        yield PlaceTable()
        yield SentenceLine()

    @work(group="storage", exclusive=True)
    async def read(self) -> None:
        """Read all three kinds; one that fails does not hide the others."""
        try:
            if not await self.placed(region=False):
                raise BadInput("No cluster is connected, and no project was named.", "w asks for it.")
            storage = self.app.google.storage
            project = await storage.project() if self.app.without_cluster else ""
        except ConsoleError as error:
            self.summary.runs = ()
            self.table.show_trouble(error_notice(error))
            return
        rows: dict[RowKey, Place] = {}
        region = ""

        async def buckets() -> dict[RowKey, Place]:
            nonlocal region
            region = await storage.region()
            return {(BUCKET, each.name, ""): of_bucket(each, region) for each in await storage.buckets()}

        async def lustre() -> dict[RowKey, Place]:
            return {(LUSTRE, each.name, each.location): of_lustre(each, region) for each in await storage.lustre()}

        async def shares() -> dict[RowKey, Place]:
            found = await storage.filestore()
            return {
                (FILESTORE, f"{each.name}/{each.share}", each.location): of_filestore(each, region) for each in found
            }

        for kind, places in ((BUCKET, buckets), (LUSTRE, lustre), (FILESTORE, shares)):
            try:
                rows |= await places()
                self.heard(kind)
            except ConsoleError as error:
                rows[kind, "", ""] = Place(kind, "", "", "", False, "", "", "", {}, error=error)
                self.heard(kind, error)
        self.table.show_trouble(PlaceTable.EMPTY)
        self.table.show_rows(rows)
        near = sum(each.near for each in rows.values())
        there = sum(each.error is None for each in rows.values())
        words = f"{wording.count(there, 'place')} to store in"
        where = f", project {project}" if project else f", {near} by the cluster"
        self.summary.runs = (Span(f"{words}{where}", "strong"), Span(f"   {region}", "dim"), *self.place_words())
        self._tell()

    @on(ResourceTable.Highlighted)
    def _tell(self) -> None:
        place = self.table.row
        self.told.runs = tuple(_sentence(place, self)) if place is not None else ()
        self.refresh_bindings()

    def offers(self) -> dict[str, object]:
        usable = self.table.row and self.table.row.values
        return super().offers() | {"launch": usable, "copy": usable}

    @on(ResourceTable.Opened)
    def _open(self, event: ResourceTable.Opened) -> None:
        event.stop()
        place = self.table.row
        if place is not None and place.kind == BUCKET and place.error is None:
            self.app.open_page("bucket", f"gs://{place.name}")
        else:
            self.action_launch()

    def action_launch(self) -> None:
        place = self.table.row
        if place is not None and place.values:
            said = f"{place.kind} {place.name} is in the form, under Storage."
            self.app.open_launch(LaunchRequest("", place.values, said=said, over=True))

    def action_copy(self) -> None:
        place = self.table.row
        if place is not None and place.values:
            self.copy([f"gs://{place.name}" if place.kind == BUCKET else place.address])


def _sentence(place: Place, screen: StorageScreen) -> list[Span]:
    if place.error is not None:
        return [Span(f"{place.error.message} ", "bad"), Span(screen.hint_of(place.error), "dim")]
    if not place.values:
        return [Span(f"It cannot be mounted now: {place.state.lower()}. {place.address}", "waits")]
    if place.kind == BUCKET:
        words = "Enter opens it. Mounted at /gcs it can hold logs and copies; it is too slow to train from."
        slow = Span("Pods would read it over the network between regions. ", "waits")
        far = [] if place.near or not place.match else [slow]
        return [*far, Span(words, "dim")]
    storage = place.values.get("storage")
    kinds = storage.values() if isinstance(storage, dict) else ()
    fields = "  ".join(f"{name}={value}" for kind in kinds if isinstance(kind, dict) for name, value in kind.items())
    fills = "mounted by: " if screen.app.without_cluster else "n fills the form: "
    return [Span(fills, "dim"), Span(fields)]
