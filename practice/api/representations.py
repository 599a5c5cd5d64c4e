"""The forms in which objects are sent: whole, as table rows, or as metadata only."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import msgspec

from practice.api.paths_and_versions import ServedKind
from practice.api.tables import column_definitions, row_cells
from practice.objects.api_error import ApiError, Object
from practice.objects.storage import Storage

RepresentationKind = Literal["object", "table", "metadata"]


@dataclass(frozen=True, slots=True)
class Representation:
    """The form that the Accept header selects; ``include`` is what table rows carry: None, Metadata or Object."""

    kind: RepresentationKind = "object"
    include: str = "Metadata"


def negotiate_representation(accept: str, include: str = "") -> Representation:
    """Choose the first form of an Accept header that can be served. Raises ApiError 406 when none can."""
    for choice in (accept or "*/*").split(","):
        media, *parameters = [part.strip() for part in choice.split(";")]
        if media not in ("application/json", "*/*", "application/*"):
            continue
        wanted = dict(part.split("=", 1) for part in parameters if "=" in part)
        kind = wanted.get("as", "")
        if kind == "Table":
            return Representation("table", include or "Metadata")
        if kind.startswith("PartialObjectMetadata"):
            return Representation("metadata")
        if not kind:
            return Representation()
    text = "only the following media types are accepted: application/json"
    raise ApiError(406, "NotAcceptable", text)


class ObjectEncoder:
    """Encodes objects of one kind in one form; the storage caches the bytes of whole objects."""

    def __init__(self, storage: Storage, served: ServedKind, representation: Representation) -> None:
        self._storage = storage
        self._served = served
        self._representation = representation
        self._head = b'{"kind":"%s","apiVersion":"%s",' % (served.resource.kind.encode(), served.api_version.encode())
        self._columns_sent = False

    def encode_object(self, obj: Object) -> bytes:
        if self._representation.kind == "table":
            return msgspec.json.encode(self._table_of([obj]))
        if self._representation.kind == "metadata":
            return msgspec.json.encode(_metadata_only(self._served.from_storage(obj)))
        return self._head + self._encode_object(obj)[1:]

    def encode_list(self, objects: list[Object], meta: Object) -> bytes:
        """Return an encoded list; ``meta`` has its resourceVersion and continue token."""
        if self._representation.kind == "table":
            return msgspec.json.encode({**self._table_of(objects), "metadata": meta})
        if self._representation.kind == "metadata":
            kind, version = "PartialObjectMetadataList", "meta.k8s.io/v1"
            items: Iterable[bytes] = (self.encode_object(obj) for obj in objects)
        else:
            kind, version = f"{self._served.resource.kind}List", self._served.api_version
            items = (self._encode_object(obj) for obj in objects)
            if self._served.resource.is_custom:
                items = (self._head + item[1:] for item in items)
        head = {"kind": kind, "apiVersion": version, "metadata": meta}
        return b"".join([msgspec.json.encode(head)[:-1], b',"items":[', b",".join(items), b"]}\n"])

    def encode_event(self, kind: str, obj: Object) -> bytes:
        return b'{"type":"%s","object":%s}\n' % (kind.encode(), self.encode_object(obj))

    def encode_bookmark(self, version: int, *, initial_end: bool = False) -> bytes:
        """Return a bookmark event of a watch."""
        meta: Object = {"resourceVersion": str(version), "creationTimestamp": None}
        if initial_end:
            meta["annotations"] = {"k8s.io/initial-events-end": "true"}
        mark: Object = {"kind": self._served.resource.kind, "apiVersion": self._served.api_version, "metadata": meta}
        if self._representation.kind == "table":
            mark = {**self._table_of([]), "metadata": {"resourceVersion": str(version)}}
        elif self._representation.kind == "metadata":
            mark |= {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
        return msgspec.json.encode({"type": "BOOKMARK", "object": mark}) + b"\n"

    def _encode_object(self, obj: Object) -> bytes:
        return self._storage.encode_cached(self._served.resource, obj, self._served.api_version, self._without_head)

    def _without_head(self, obj: Object) -> Object:
        return {
            key: value for key, value in self._served.from_storage(obj).items() if key not in ("kind", "apiVersion")
        }

    def _table_of(self, objects: list[Object]) -> Object:
        definitions = None if self._columns_sent else column_definitions(self._served.resource)
        self._columns_sent = True
        rows = [{"cells": row_cells(self._served.resource, obj), "object": self._object_of_row(obj)} for obj in objects]
        newest = objects[0]["metadata"]["resourceVersion"] if objects else ""
        return {
            "kind": "Table",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": {"resourceVersion": newest},
            "columnDefinitions": definitions,
            "rows": rows,
        }

    def _object_of_row(self, obj: Object) -> Object | None:
        if self._representation.include == "None":
            return None
        return self._served.from_storage(obj) if self._representation.include == "Object" else _metadata_only(obj)


def _metadata_only(obj: Object) -> Object:
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}
