"""Columns for Google Cloud: clusters, node pools, builds, images and storage."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from console.errors import ApiDisabled, ConsoleError
from console.kube.stream_completeness import SERVER_CLOCK
from screens import wording
from screens.columns.column import COMMAND, PAGE, Column, age_column
from screens.wording import BAD, CARE, IDLE, OK, UNDER_WAY, Cell, Span, sentence

if TYPE_CHECKING:
    from console.google.bucket_paths import Bucket
    from console.google.builds import Build, Image
    from console.google.clusters import GkeCluster, GkeOperation
    from console.google.node_pools import PoolStatus
    from console.google.storage import FilestoreInstance, LustreInstance
    from console.kube.nested_values import Value


_CLUSTER_GLYPHS = {"RUNNING": OK, "ERROR": BAD, "DEGRADED": BAD, "STOPPING": IDLE}


@dataclass(frozen=True, slots=True)
class ClusterRow:
    """A row with a cluster, or with a project whose clusters could not be listed."""

    project: str
    cluster: GkeCluster | None = None
    error: ConsoleError | None = None


def _cluster_status(row: ClusterRow) -> Cell:
    if row.cluster is None:
        return [BAD, Span(" not read", "bad")]
    glyph = _CLUSTER_GLYPHS.get(row.cluster.status, UNDER_WAY)
    return [glyph, Span(f" {row.cluster.status.lower().replace('_', ' ')}")]


def _access_cell(row: ClusterRow) -> Cell:
    cluster = row.cluster
    if cluster is None:
        return ""
    if cluster.dns_endpoint:
        return "DNS endpoint"
    if not cluster.endpoint:
        return Span("none", "dim")
    return Span("private", "waits") if cluster.private else "public"


def _unread_words(error: ConsoleError) -> str:
    """The reason why a value from Google could not be read, for a table cell."""
    if isinstance(error, ApiDisabled):
        return f"{error.service} is not enabled"
    what, _, why = error.message.partition(": ")
    return sentence(why if why and what.startswith("Could not ") else error.message)


def _cluster_why(row: ClusterRow) -> Cell:
    if row.error is not None:
        return Span(_unread_words(row.error), "dim")
    return Span(sentence(row.cluster.message), "bad") if row.cluster and row.cluster.message else ""


CLUSTERS: tuple[Column[ClusterRow], ...] = (
    Column("CLUSTER", lambda row: Span(row.cluster.name if row.cluster else "─", "strong"), least=8, most=40,
           sort=lambda row: row.cluster.name if row.cluster else ""),
    Column("PROJECT", lambda row: row.project, least=8, most=30, sort=True),
    Column("LOCATION", lambda row: row.cluster.location if row.cluster else "", least=13, most=20, sort=True),
    Column("STATUS", _cluster_status, least=11, most=16, sort=lambda row: row.cluster.status if row.cluster else ""),
    Column("NODES", lambda row: f"{row.cluster.nodes:,}" if row.cluster else "", width=6, right=True, drop=8,
           sort=lambda row: row.cluster.nodes if row.cluster else -1, down=True),
    Column("VERSION", lambda row: row.cluster.version if row.cluster else "", most=20, drop=9, style="dim", sort=True),
    Column("ENTRANCE", _access_cell, least=8, most=12, drop=7),
    Column("WHY", _cluster_why, fill=True, least=0, drop=6),
)  # fmt: skip


POOL_GLYPHS = {"ok": OK, "busy": UNDER_WAY, "bad": BAD}


def _pool_state(status: PoolStatus) -> Cell:
    words = "; ".join(status.sentences) or status.pool.status.lower().replace("_", " ")
    style = {"ok": "dim", "busy": "waits", "bad": "bad"}[status.state]
    return [POOL_GLYPHS[status.state], Span(f" {sentence(words)}", style)]


NODE_POOLS: tuple[Column[PoolStatus], ...] = (
    Column("POOL", lambda row: row.pool.name, least=8, most=40, sort=True, style="strong"),
    Column("MACHINE", lambda row: row.pool.machine_type, least=8, most=24, drop=5, sort=True),
    Column(
        "READY",
        lambda row: f"{row.ready}/{row.nodes if row.target_size is None else row.target_size}",
        width=7,
        right=True,
        sort=lambda row: row.ready,
        down=True,
    ),
    Column("LIMITS", lambda row: row.limits, width=9, right=True, drop=3, sort=lambda row: row.pool.most, down=True),
    Column("PROVISIONING", lambda row: row.provisioning, least=11, most=30, drop=4, sort=True),
    Column("PLACEMENT", lambda row: row.pool.placement.lower(), width=9, drop=7, style="dim"),
    Column("VERSION", lambda row: row.pool.version, most=20, drop=6, sort=True, style="dim"),
    Column("STATE", _pool_state, fill=True, least=34, sort=lambda row: row.state),
)


def operation_state(operation: GkeOperation) -> str:
    if not operation.over:
        return operation.status.lower()
    return "failed" if operation.error else "done"


OPERATIONS: tuple[Column[GkeOperation], ...] = (
    Column("OPERATION", lambda each: each.kind),
    Column("POOL", lambda each: each.pool),
    Column("STATE", operation_state),
    Column("NODES", lambda each: f"{each.done or 0}/{each.total}" if each.total else "", right=True),
    Column("STARTED", lambda each: wording.moment(each.started, SERVER_CLOCK.now()), right=True),
    Column("WHY", lambda each: each.error or each.detail),
)


_IMAGE_PATH = re.compile(r"\b[\w.-]+\.[\w.-]+/(?:[\w.-]+/)*(?=[\w.-]+[:@])")  # before the name that tells images apart
BUILD_GLYPHS = {"SUCCESS": OK, "FAILURE": BAD, "INTERNAL_ERROR": BAD, "TIMEOUT": BAD, "EXPIRED": BAD, "CANCELLED": IDLE}
"""The glyph of each final build status, by Google's name of the status."""


def _build_status(build: Build) -> Cell:
    mark = BUILD_GLYPHS.get(build.status, UNDER_WAY)
    return [mark, Span(f" {build.status.lower().replace('_', ' ')}", "bad" if mark.style == "bad" else "")]


def _seconds_of(build: Build) -> float:
    return build.seconds(SERVER_CLOCK.now())


BUILDS: tuple[Column[Build], ...] = (
    Column("BUILD", lambda build: build.id, only=COMMAND),
    Column("STATUS", _build_status, width=16, sort=lambda build: build.status),
    Column("IMAGE", lambda build: Span(", ".join(each.rpartition("/")[2] for each in build.images) or "─", "strong"),
           least=12, most=60, cut="middle", sort=lambda build: build.images),
    Column("TOOK", lambda build: wording.age(_seconds_of(build)) if _seconds_of(build) else "", width=7, right=True,
           sort=_seconds_of, down=True, ages=True),
    age_column("BEGAN", lambda build: build.created),
    Column("MACHINE", lambda build: build.machine, least=8, most=16, drop=5, style="dim"),
    Column("BUILD", lambda build: build.id[:8], only=PAGE, width=8, drop=6, style="dim"),
    Column("WHY", lambda build: Span(_IMAGE_PATH.sub("", sentence(build.why)), "bad") if build.why else "", fill=True,
           least=0, drop=2),
)  # fmt: skip


IMAGES: tuple[Column[Image], ...] = (
    Column("IMAGE", lambda image: image.name, least=10, most=40, sort=True, style="strong"),
    Column(
        "TAGS",
        lambda image: ", ".join(image.tags) or Span("untagged", "dim"),
        least=8,
        most=40,
        sort=lambda image: image.tags,
    ),
    Column(
        "SIZE", lambda image: wording.size(image.bytes), width=9, right=True, down=True, sort=lambda image: image.bytes
    ),
    age_column("AGE", lambda image: image.uploaded),
    Column("DIGEST", lambda image: image.digest.removeprefix("sha256:")[:12], width=12, drop=5, style="dim"),
    Column("REPOSITORY", lambda image: image.repository, least=10, fill=True, drop=3, sort=True, style="dim"),
)


BUCKET, LUSTRE, FILESTORE = "bucket", "Lustre", "Filestore"


@dataclass(frozen=True, slots=True)
class StoragePlace:
    """A row with a bucket or file system; `error` is why its kind could not be listed."""

    kind: str
    name: str
    location: str
    match_text: str  # how it lies to the cluster; empty where that is unknown
    is_near: bool
    state: str  # "": it is simply there
    size: str
    address: str  # mount point, share, or class
    values: Mapping[str, Value]  # what mounts it; empty while it cannot be mounted
    created: float = 0.0
    error: ConsoleError | None = None


def of_bucket(bucket: Bucket, region: str) -> StoragePlace:
    from console.google.storage import bucket_values

    match = bucket.describe_distance(region) if region else ""
    return StoragePlace(
        BUCKET,
        bucket.name,
        bucket.location,
        match,
        bucket.is_near(region),
        "",
        "",
        bucket.storage_class.lower(),
        bucket_values(bucket.name),
        bucket.created,
    )


def of_file_system(kind: str, instance: LustreInstance | FilestoreInstance, region: str) -> StoragePlace:
    near = instance.location == region or instance.location.startswith(f"{region}-")
    return StoragePlace(
        kind,
        instance.name,
        instance.location,
        ("same region" if near else f"not in {region}") if region else "",
        near,
        instance.state,
        f"{instance.gib:,} GiB",
        instance.endpoint or instance.why,
        instance.launch_values() if instance.ready and instance.endpoint else {},
    )


def _match_cell(place: StoragePlace) -> Cell:
    if not place.match_text:
        return ""
    words = place.match_text.partition(",")[0] if place.is_near else "another"  # its location is beside it
    return [OK if place.is_near else CARE, Span(f" {words}", "" if place.is_near else "waits")]


def _place_state(place: StoragePlace) -> Cell:
    if place.error is not None:
        return [BAD, Span(" not read", "bad")]
    if not place.state:
        return ""
    mark = OK if place.values else BAD if place.state == "ERROR" else UNDER_WAY
    return [mark, Span(f" {place.state.lower()}")]


def _address_cell(place: StoragePlace) -> Cell:
    return Span(_unread_words(place.error), "bad") if place.error else Span(place.address, "dim")


STORAGE: tuple[Column[StoragePlace], ...] = (
    Column("KIND", lambda place: place.kind, only=PAGE, width=9, sort=True),
    Column("NAME", lambda place: place.name, least=18, most=50, sort=True, style="strong"),
    Column("LOCATION", lambda place: place.location, least=11, most=18, sort=True),
    Column("STATE", _place_state, least=8, most=14, drop=2),
    Column("REGION", _match_cell, least=13, most=20),
    Column("SIZE", lambda place: place.size, least=4, most=12, right=True, drop=4),
    age_column("AGE", lambda place: place.created, drop=6),
    Column("DETAILS", _address_cell, fill=True, least=18, drop=3),
)
