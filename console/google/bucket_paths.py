"""Buckets, paths in them (gs://BUCKET/PATH) and objects, as plain data."""

from __future__ import annotations

import re
from dataclasses import dataclass

from console.errors import BadInput

_GCS_ADDRESS = re.compile(r"^gs://([a-z0-9][a-z0-9._-]{1,220}[a-z0-9])(?:/(.*))?$", re.DOTALL)
_ITERATION_FOLDER = re.compile(r"^iter_(\d+)$")


@dataclass(frozen=True, slots=True)
class Bucket:
    name: str
    project: str  # its number, as Google gives it
    location: str  # in small letters: a region ("us-central1"), or "us"
    location_type: str  # region, dual-region or multi-region
    storage_class: str
    created: float
    uniform: bool = False  # whether rights are given for the whole bucket only
    hierarchical: bool = False  # whether its folders are real ones

    def is_near(self, region: str) -> bool:
        """Whether the bucket is in the cluster's region, or in a multi-region that contains that region."""
        return bool(region) and (self.location == region or region.startswith(f"{self.location}-"))

    def describe_distance(self, region: str) -> str:
        """The distance to `region`: "same region", "dual-region, includes it", "not in X"; for "" the location type."""
        if self.is_near(region) and self.location_type == "region":
            return "same region"
        if self.is_near(region):
            return f"{self.location_type}, includes it"
        return f"not in {region}" if region else self.location_type


@dataclass(frozen=True, slots=True)
class GcsPlace:
    """A path in a bucket, without a leading slash; empty for the bucket itself."""

    bucket: str
    path: str = ""

    def __str__(self) -> str:
        return f"gs://{self.bucket}/{self.path}"

    @property
    def folder(self) -> str:
        """The path as a prefix with a trailing slash; empty for the bucket itself."""
        return f"{self.path.rstrip('/')}/" if self.path.strip("/") else ""

    def parent_folder(self) -> GcsPlace:
        above = self.path.rstrip("/").rpartition("/")[0]
        return GcsPlace(self.bucket, f"{above}/" if above else "")


def parse_gcs_address(text: str) -> GcsPlace:
    """Parse `gs://BUCKET/PATH`. Raises BadInput for anything else."""
    found = _GCS_ADDRESS.match(text.strip())
    if found is None:
        raise BadInput(f"{text} is not a path in a bucket.", "Write gs://BUCKET or gs://BUCKET/FOLDER.")
    return GcsPlace(found[1], found[2] or "")


@dataclass(frozen=True, slots=True)
class StoredObject:
    name: str  # the whole name; a folder's ends with a slash
    bytes: int = 0  # 0 for a folder: what is in it is not counted
    updated: float = 0.0
    generation: int = 0
    crc32c: str = ""  # Base64 of the checksum, as Google gives it
    latest: bool = False  # whether it is the checkpoint to go on from

    @property
    def is_folder(self) -> bool:
        return self.name.endswith("/")

    @property
    def title(self) -> str:
        return self.name.rstrip("/").rpartition("/")[2] + ("/" if self.is_folder else "")

    @property
    def iteration(self) -> int | None:
        """The iteration of a checkpoint folder (`iter_0000500/`); None for others."""
        found = _ITERATION_FOLDER.match(self.title.rstrip("/")) if self.is_folder else None
        return int(found[1]) if found else None
