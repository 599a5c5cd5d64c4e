"""Storage: buckets, Lustre and Filestore around the cluster, those nearest to it first."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual import getters, on, work
from textual.binding import Binding, BindingType

from console.errors import BadInput, ConsoleError
from screens import wording
from screens.columns.google import BUCKET, FILESTORE, LUSTRE, PLACES, Place, of_bucket, of_filestore, of_lustre
from screens.google_base import AskingScreen, PlacedScreen
from screens.widgets.form.model import LaunchRequest
from screens.widgets.sentence_line import SentenceLine, SummaryLine
from screens.widgets.table.row_painter import Notice
from screens.widgets.table.table import ResourceTable
from screens.wording import Span

if TYPE_CHECKING:
    from collections.abc import Mapping

    from textual.app import ComposeResult

    from console.kube.nested_values import Value
    from screens.widgets.table.table import RowKey


class PlaceTable(ResourceTable[Place]):
    NOUN = "place"
    EMPTY = Notice("No storage.", "The project has no buckets, no Lustre and no Filestore.")
    COLUMNS: ClassVar = PLACES

    def row_text(self, row: Place) -> str:
        return f"{row.kind} {row.name} {row.location} {row.match} {row.address}"


class StorageScreen(PlacedScreen, AskingScreen):
    """Enter looks into a bucket, and mounts a file system."""

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

    @property
    def crumb(self) -> str:
        return "storage"

    def body(self) -> ComposeResult:
        """A line about all, the places, a sentence about one."""
        yield SummaryLine()
        yield PlaceTable()
        yield SentenceLine()

    def on_mount(self) -> None:
        self.table.focus()

    @work(group="storage", exclusive=True)
    async def read(self) -> None:
        """All three kinds; one that cannot be read keeps none of the others away."""
        try:
            if not await self.placed(region=False):
                raise BadInput("No cluster is connected, and no project was named.", "w asks for it.")
            storage = self.app.google.storage
            project = await storage.project() if self.app.without_cluster else ""
        except ConsoleError as error:
            self.summary.runs = ()
            self.table.show_trouble(Notice(error.message, error.hint, "✗", "bad"))
            return
        rows: dict[RowKey, Place] = {}
        failed: dict[str, ConsoleError] = {}
        region = ""
        try:
            region = await storage.region()
            for bucket in await storage.buckets():
                rows[BUCKET, bucket.name, ""] = of_bucket(bucket, region)
        except ConsoleError as error:
            rows[BUCKET, "", ""] = _unread(BUCKET, error)
            failed[BUCKET] = error
        try:
            for lustre in await storage.lustre():
                rows[LUSTRE, lustre.name, lustre.location] = of_lustre(lustre, region)
        except ConsoleError as error:
            rows[LUSTRE, "", ""] = _unread(LUSTRE, error)
            failed[LUSTRE] = error
        try:
            for share in await storage.filestore():
                rows[FILESTORE, f"{share.name}/{share.share}", share.location] = of_filestore(share, region)
        except ConsoleError as error:
            rows[FILESTORE, "", ""] = _unread(FILESTORE, error)
            failed[FILESTORE] = error
        self.table.show_trouble(PlaceTable.EMPTY)
        self.table.show_rows(rows)
        near = sum(each.near for each in rows.values())
        there = sum(each.error is None for each in rows.values())
        for kind in (BUCKET, LUSTRE, FILESTORE):
            self.heard(kind, failed.get(kind))
        words = f"{wording.count(there, 'place')} to store in"
        where = f", project {project}" if project else f", {near} by the cluster"
        self.summary.runs = (Span(f"{words}{where}", "strong"), Span(f"   {region}", "dim"), *self.place_words())
        self._tell()

    @on(ResourceTable.Highlighted)
    def _tell(self) -> None:
        place = self.table.row
        self.told.runs = tuple(_sentence(place, self)) if place is not None else ()
        self.refresh_bindings()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        place = self.table.row if self.is_mounted else None
        if action in {"launch", "copy"} and (place is None or not place.values):
            return False
        return super().check_action(action, parameters)

    @on(ResourceTable.Opened)
    def _open(self, event: ResourceTable.Opened) -> None:
        event.stop()
        place = self.table.listing.rows.get(event.key)
        if place is not None and place.kind == BUCKET and place.error is None:
            self.app.open_page("bucket", f"gs://{place.name}")
        elif place is not None and place.values:
            self.action_launch()

    def action_launch(self) -> None:
        place = self.table.row
        if place is not None and place.values:
            said = f"{place.kind} {place.name} is in the form, under Storage."
            self.app.open_launch(LaunchRequest("", place.values, said=said, over=True))

    def action_copy(self) -> None:
        place = self.table.row
        if place is not None and place.values:
            address = f"gs://{place.name}" if place.kind == BUCKET else place.address
            self.app.copy_to_clipboard(address)
            self.notify(f"Copied {address}.", timeout=2, markup=False)


def _unread(kind: str, error: ConsoleError) -> Place:
    return Place(kind, "", "", "", False, "", "", "", {}, error=error)


def _sentence(place: Place, screen: StorageScreen) -> list[Span]:
    """What it is good for, or why it is not."""
    if place.error is not None:
        return [Span(f"{place.error.message} ", "bad"), Span(screen.hint_of(place.error), "dim")]
    if not place.values:
        return [Span(f"It cannot be mounted now: {place.state.lower()}. {place.address}", "waits")]
    if place.kind == BUCKET:
        words = "Enter opens it. Mounted at /gcs it can hold logs and copies; it is too slow to train from."
        slow = Span("Pods would read it over the network between regions. ", "waits")
        far = [] if place.near or not place.match else [slow]
        return [*far, Span(words, "dim")]
    fields = "  ".join(f"{name}={value}" for kind in _maps(place.values) for name, value in kind.items())
    fills = "mounted by: " if screen.app.without_cluster else "n fills the form: "
    return [Span(fills, "dim"), Span(fields)]


def _maps(values: Mapping[str, Value]) -> list[Mapping[str, Value]]:
    storage = values.get("storage")
    found = list(storage.values()) if isinstance(storage, dict) else []
    return [each for each in found if isinstance(each, dict)]
