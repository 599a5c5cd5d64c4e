"""Lists that fields offer choices from: names, and the little that helps to choose."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from console.errors import Unreadable
from console.parsers.meta import OURS, UNREADABLE, Meta, ObjectWire, Wire, labels_of
from console.parsers.timestamp import parse_time

_T = TypeVar("_T")
Named = list[tuple[str, str]]
"""Name and a few words about it."""


class ListMetaWire(Wire):
    """metadata of a list."""

    continue_: str | None = msgspec.field(default=None, name="continue")


class ClaimSpecWire(Wire):
    """spec of a PersistentVolumeClaim."""

    access_modes: list[str] | None = None


class ClaimStatusWire(Wire):
    """status of a PersistentVolumeClaim."""

    phase: str | None = None
    capacity: dict[str, str] | None = None


class ClaimWire(ObjectWire):
    """A PersistentVolumeClaim."""

    spec: ClaimSpecWire | None = None
    status: ClaimStatusWire | None = None


class ImageWire(Wire):
    """A container."""

    image: str | None = None


class ImagesWire(Wire):
    """A pod's spec."""

    containers: list[ImageWire] | None = None


class PodImagesWire(Wire):
    """A pod's template."""

    spec: ImagesWire | None = None


class JobImagesWire(Wire):
    """A Job's spec."""

    template: PodImagesWire | None = None


class JobTemplateImagesWire(Wire):
    """A Job's template."""

    spec: JobImagesWire | None = None


class GroupImagesWire(Wire):
    """A replicated job."""

    template: JobTemplateImagesWire | None = None


class JobSetImagesSpecWire(Wire):
    """spec of a JobSet."""

    replicated_jobs: list[GroupImagesWire] | None = None


class JobSetImagesWire(ObjectWire):
    """A JobSet, for its images."""

    spec: JobSetImagesSpecWire | None = None


class PriorityWire(ObjectWire):
    """A WorkloadPriorityClass."""

    value: int | None = None


class _Claims(Wire):
    items: list[ClaimWire] | None = None
    metadata: ListMetaWire | None = None


class _Names(Wire):
    items: list[ObjectWire] | None = None
    metadata: ListMetaWire | None = None


class _JobSets(Wire):
    items: list[JobSetImagesWire] | None = None
    metadata: ListMetaWire | None = None


class _Priorities(Wire):
    items: list[PriorityWire] | None = None
    metadata: ListMetaWire | None = None


def claims(body: bytes) -> Named:
    """Claims by name; those that are going are left out."""
    found = _read(body, _Claims).items or []
    return sorted((_name(each.metadata), _about_claim(each)) for each in found if not each.metadata.deletion_timestamp)


def _about_claim(wire: ClaimWire) -> str:
    spec, status = wire.spec or ClaimSpecWire(), wire.status or ClaimStatusWire()
    words = [status.phase or "Pending", (status.capacity or {}).get("storage", ""), *(spec.access_modes or ())]
    return ", ".join(each for each in words if each)


def names(body: bytes) -> Named:
    """Names of any kind, what our own launches made left out."""
    found = _read(body, _Names).items or []
    kept = (each.metadata for each in found if not any(key.startswith(OURS) for key in labels_of(each.metadata)))
    return sorted((_name(each), "") for each in kept)


def images(body: bytes) -> Named:
    """Images of JobSets, the one that was used last first."""
    found = sorted(_read(body, _JobSets).items or [], key=lambda each: -parse_time(each.metadata.creation_timestamp))
    used: dict[str, str] = {}
    for each in found:
        for group in (each.spec.replicated_jobs if each.spec else None) or ():
            for image in _images_of(group):
                used.setdefault(image, f"last used by {_name(each.metadata)}")
    return list(used.items())


def _images_of(group: GroupImagesWire) -> list[str]:
    job = group.template.spec if group.template else None
    pod = job.template.spec if job and job.template else None
    return [each.image for each in (pod.containers if pod else None) or () if each.image]


def priorities(body: bytes) -> Named:
    """Priority classes, the highest first."""
    found = sorted(_read(body, _Priorities).items or [], key=lambda each: (-(each.value or 0), _name(each.metadata)))
    return [(_name(each.metadata), f"priority {each.value or 0}") for each in found]


def next_page(body: bytes) -> str:
    """The token of the next part of a list; empty if this was the last."""
    found = _read(body, _Names).metadata
    return (found.continue_ if found else None) or ""


def _read(body: bytes, type_: type[_T]) -> _T:
    try:
        return msgspec.json.decode(body, type=type_)
    except UNREADABLE as error:
        raise Unreadable(f"The API server's list cannot be read: {error}.") from error


def _name(meta: Meta) -> str:
    return meta.name or ""
