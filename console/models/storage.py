"""Buckets and what is in them, Lustre and Filestore instances."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from console.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Iterable

    from console.models.values import Value

_ADDRESS = re.compile(r"^gs://([a-z0-9][a-z0-9._-]{1,220}[a-z0-9])(?:/(.*))?$", re.DOTALL)
_ITERATION = re.compile(r"^iter_(\d+)$")
LATEST = "latest_checkpointed_iteration.txt"
"""The file by which Megatron says which checkpoint is the last whole one."""
TENSORBOARD = "tensorboard"
"""The folder of a result tree that TensorBoard is to be pointed at."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """A bucket."""

    name: str
    project: str
    """Its number, as Google gives it."""
    location: str
    """In small letters: a region ("us-central1"), or "us"."""
    location_type: str
    """region, dual-region or multi-region."""
    storage_class: str
    created: float
    uniform: bool = False
    """Whether rights are given for the whole bucket only."""
    hierarchical: bool = False
    """Whether its folders are real ones."""

    def near(self, region: str) -> bool:
        """Whether it lies in the region of a cluster there, or of a zone of it."""
        return bool(region) and (self.location == region or region.startswith(f"{self.location}-"))

    def match(self, region: str) -> str:
        """How its place goes with that of a cluster, in words."""
        if self.near(region) and self.location_type == "region":
            return "same region"
        if self.near(region):
            return f"{self.location_type}, around the cluster"
        return f"not in {region}" if region else self.location_type


@dataclass(frozen=True, slots=True)
class GcsPlace:
    """A place in a bucket; `path` without a slash in front, empty for the bucket itself."""

    bucket: str
    path: str = ""

    def __str__(self) -> str:
        return f"gs://{self.bucket}/{self.path}"

    @property
    def folder(self) -> str:
        """The path as a prefix: with a slash at the end, unless empty."""
        return f"{self.path.rstrip('/')}/" if self.path.strip("/") else ""

    def up(self) -> GcsPlace:
        """The folder above."""
        above = self.path.rstrip("/").rpartition("/")[0]
        return GcsPlace(self.bucket, f"{above}/" if above else "")


def gcs_place(text: str) -> GcsPlace:
    """The place that `gs://BUCKET/PATH` names; BadInput for anything else."""
    found = _ADDRESS.match(text.strip())
    if found is None:
        raise BadInput(f"{text} is no place in a bucket.", "Write gs://BUCKET or gs://BUCKET/FOLDER.")
    return GcsPlace(found[1], found[2] or "")


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object, or a folder of them."""

    name: str
    """The whole name; a folder's ends with a slash."""
    bytes: int = 0
    """0 for a folder: what is in it is not counted."""
    updated: float = 0.0
    generation: int = 0
    crc32c: str = ""
    """Base64 of the checksum, as Google gives it."""
    latest: bool = False
    """Whether it is the checkpoint to go on from."""

    @property
    def is_folder(self) -> bool:
        """Whether it stands for what lies under it."""
        return self.name.endswith("/")

    @property
    def title(self) -> str:
        """The last part of its name."""
        return self.name.rstrip("/").rpartition("/")[2] + ("/" if self.is_folder else "")

    @property
    def iteration(self) -> int | None:
        """The iteration of a checkpoint's folder (`iter_0000500/`); None for anything else."""
        found = _ITERATION.match(self.title.rstrip("/")) if self.is_folder else None
        return int(found[1]) if found else None


@dataclass(frozen=True, slots=True)
class Listing:
    """What is in one folder of a bucket."""

    place: GcsPlace
    objects: tuple[StoredObject, ...]
    """Folders first."""
    note: str = ""
    """What there is to say about it: its checkpoints, a TensorBoard folder."""
    more: bool = False
    """Whether there is more than was asked for."""

    @property
    def checkpoints(self) -> tuple[StoredObject, ...]:
        """Folders of checkpoints, last iteration first."""
        found = [each for each in self.objects if each.iteration is not None]
        return tuple(sorted(found, key=lambda each: -(each.iteration or 0)))


@dataclass(frozen=True, slots=True)
class FetchReport:
    """What a download came to."""

    source: str
    target: str
    files: int
    bytes: int
    kept: int
    """Files that were there already, whole and the same."""
    seconds: float
    problems: tuple[tuple[str, str], ...] = ()
    """Object -> why it was left out."""


@dataclass(frozen=True, slots=True)
class StoreReport:
    """Logs that were put into a bucket."""

    place: str
    objects: tuple[tuple[str, int], ...]
    """Name under the place -> lines."""


@dataclass(frozen=True, slots=True)
class LustreInstance:
    """An instance of Managed Lustre."""

    project: str
    location: str
    """A zone."""
    name: str
    state: str
    """ACTIVE, CREATING, ..."""
    filesystem: str
    mount_point: str
    """"10.0.0.2@tcp:/lustrefs"."""
    gib: int
    network: str
    throughput: int = 0
    """MB/s per TiB."""
    legacy_port: bool = False
    """Whether it was made for clients of GKE that use the legacy port."""
    why: str = ""

    @property
    def server(self) -> str:
        """The address in the mount point."""
        return self.mount_point.partition("@")[0]

    def values(self) -> dict[str, Value]:
        """The seven fields of the launch form that mount it."""
        filled: dict[str, Value] = {
            "claim": f"{self.name}-pvc",
            "server": self.server,
            "filesystem": self.filesystem or self.mount_point.rpartition("/")[2],
            "instance": self.name,
            "project": self.project,
            "location": self.location,
            "size": f"{self.gib}Gi",
        }
        return {"storage": {"lustre": filled}}


@dataclass(frozen=True, slots=True)
class FilestoreInstance:
    """A share of an instance of Filestore."""

    project: str
    location: str
    name: str
    state: str
    """READY, CREATING, ..."""
    tier: str
    share: str
    gib: int
    address: str
    network: str
    why: str = ""

    def values(self) -> dict[str, Value]:
        """The fields of the launch form that mount it."""
        filled: dict[str, Value] = {
            "claim": f"{self.name}-pvc",
            "server": self.address,
            "share": self.share,
            "instance": self.name,
            "location": self.location,
            "size": f"{self.gib}Gi",
        }
        return {"storage": {"nfs": filled}}


def bucket_values(bucket: str, path: str = "/gcs") -> dict[str, Value]:
    """The fields of the launch form that mount a bucket."""
    return {"storage": {"gcs": {bucket: path}}}


def marked(objects: Iterable[StoredObject], latest: int | None) -> tuple[StoredObject, ...]:
    """Folders before objects, checkpoints by iteration; the one that is the last whole one is marked.

    `latest` is what Megatron's marker file says; without one no checkpoint is known to be whole.
    """
    from dataclasses import replace

    found = [replace(each, latest=latest is not None and each.iteration == latest) for each in objects]
    return tuple(sorted(found, key=lambda each: (not each.is_folder, each.iteration or 0, each.name)))
