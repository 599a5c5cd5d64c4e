"""Storage: buckets, Lustre and Filestore around the cluster, those nearest to it first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from textual import getters, on, work
from textual.binding import Binding, BindingType

from console.errors import ApiDisabled, BadInput, ConsoleError
from console.google.storage import bucket_values
from screens import wording
from screens.columns.column import Column, since
from screens.google_base import AskingScreen, PlacedScreen
from screens.widgets.form.model import LaunchRequest
from screens.widgets.sentence_line import SentenceLine, SummaryLine
from screens.widgets.table.column import Notice
from screens.widgets.table.table import ResourceTable
from screens.wording import BAD, OK, WAITS, Cell, Run, sentence

if TYPE_CHECKING:
    from collections.abc import Mapping

    from textual.app import ComposeResult

    from console.google.storage import Bucket, FilestoreInstance, LustreInstance
    from console.kube.nested_values import Value
    from screens.widgets.table.table import RowKey

BUCKET, LUSTRE, FILESTORE = "bucket", "Lustre", "Filestore"


@dataclass(frozen=True, slots=True)
class Place:
    """Something to store in; `error` says why a kind could not be listed."""

    kind: str
    name: str
    location: str
    match: str  # how it lies to the cluster; empty where that is unknown
    near: bool
    state: str  # "": it is simply there
    size: str
    address: str  # mount point, share, or class
    values: Mapping[str, Value]  # what mounts it; empty while it cannot be mounted
    created: float = 0.0
    error: ConsoleError | None = None


def of_bucket(found: Bucket, region: str) -> Place:
    match = found.match(region) if region else ""
    return Place(BUCKET, found.name, found.location, match, found.near(region), "", "",
                 found.storage_class.lower(), bucket_values(found.name), found.created)  # fmt: skip


def of_lustre(found: LustreInstance, region: str) -> Place:
    near = found.location.startswith(f"{region}-")
    ready = found.state == "ACTIVE"
    return Place(LUSTRE, found.name, found.location, _match(near, region), near, found.state, f"{found.gib:,} GiB",
                 found.mount_point, found.values() if ready else {})  # fmt: skip


def of_filestore(found: FilestoreInstance, region: str) -> Place:
    near = found.location == region or found.location.startswith(f"{region}-")
    ready = found.state == "READY" and found.address
    address = f"{found.address}:/{found.share}" if found.address else found.why
    return Place(FILESTORE, found.name, found.location, _match(near, region), near, found.state, f"{found.gib:,} GiB",
                 address, found.values() if ready else {})  # fmt: skip


def _match(near: bool, region: str) -> str:
    return ("same region" if near else f"not in {region}") if region else ""


def match_cell(place: Place) -> Cell:
    """In words, with a mark."""
    if not place.match:
        return ""
    return [OK if place.near else WAITS, Run(f" {place.match}", "" if place.near else "waits")]


def state_cell(place: Place) -> Cell:
    if place.error is not None:
        return [BAD, Run(" not read", "bad")]
    if not place.state:
        return ""
    mark = OK if place.values else BAD if place.state == "ERROR" else WAITS
    return [mark, Run(f" {place.state.lower()}")]


def address_cell(place: Place) -> Cell:
    """Where it is mounted from; why it could not be read."""
    if isinstance(place.error, ApiDisabled):
        return Run(f"{place.error.service} is not enabled", "bad")
    return Run(sentence(place.error.message), "bad") if place.error else Run(place.address, "dim")


class PlaceTable(ResourceTable[Place]):
    NOUN = "place"
    EMPTY = Notice("No storage.", "The project has no buckets, no Lustre and no Filestore.")
    COLUMNS: ClassVar = (
        Column("KIND", lambda place: place.kind, width=9, sort=lambda place: place.kind),
        Column("NAME", lambda place: Run(place.name, "strong"), least=18, most=50, sort=lambda place: place.name),
        Column("LOCATION", lambda place: place.location, least=11, most=18, sort=lambda place: place.location),
        Column("STATE", state_cell, least=8, most=14, drop=2),
        Column("FROM THE CLUSTER", match_cell, least=16, most=70),
        Column("SIZE", lambda place: place.size, least=4, most=12, right=True, drop=4),
        since("AGE", lambda place: place.created, drop=6),
        Column("ENDPOINT", address_cell, fill=True, least=8, drop=3),
    )

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
        self.summary.runs = (Run(f"{words}{where}", "strong"), Run(f"   {region}", "dim"), *self.place_words())
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


def _sentence(place: Place, screen: StorageScreen) -> list[Run]:
    """What it is good for, or why it is not."""
    if place.error is not None:
        return [Run(f"{place.error.message} ", "bad"), Run(screen.hint_of(place.error), "dim")]
    if not place.values:
        return [Run(f"It cannot be mounted now: {place.state.lower()}. {place.address}", "waits")]
    if place.kind == BUCKET:
        words = "Enter opens it. Mounted at /gcs it can hold logs and copies; it is too slow to train from."
        slow = Run("Pods would read it over the network between regions. ", "waits")
        far = [] if place.near or not place.match else [slow]
        return [*far, Run(words, "dim")]
    fields = "  ".join(f"{name}={value}" for kind in _maps(place.values) for name, value in kind.items())
    fills = "mounted by: " if screen.app.without_cluster else "n fills the form: "
    return [Run(fills, "dim"), Run(fields)]


def _maps(values: Mapping[str, Value]) -> list[Mapping[str, Value]]:
    storage = values.get("storage")
    found = list(storage.values()) if isinstance(storage, dict) else []
    return [each for each in found if isinstance(each, dict)]
