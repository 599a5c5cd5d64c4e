"""The forms in which objects are sent: whole, as table rows, or as metadata only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import msgspec

from practice.api.tables import columns, row
from practice.objects.refusal import ApiError, Object

if TYPE_CHECKING:
    from collections.abc import Iterable

    from practice.api.serving import Served
    from practice.objects.storage import Storage

Shape = Literal["object", "table", "metadata"]


@dataclass(frozen=True, slots=True)
class Form:
    """The form that the Accept header selects; ``include`` is what table rows carry: None, Metadata or Object."""

    shape: Shape = "object"
    include: str = "Metadata"


def negotiate(accept: str, include: str = "") -> Form:
    """Choose the first form of an Accept header that can be served; ApiError 406 when none can."""
    for choice in (accept or "*/*").split(","):
        media, *parameters = [part.strip() for part in choice.split(";")]
        if media not in ("application/json", "*/*", "application/*"):
            continue
        wanted = dict(part.split("=", 1) for part in parameters if "=" in part)
        kind = wanted.get("as", "")
        if kind == "Table":
            return Form("table", include or "Metadata")
        if kind.startswith("PartialObjectMetadata"):
            return Form("metadata")
        if not kind:
            return Form()
    text = "only the following media types are accepted: application/json"
    raise ApiError(406, "NotAcceptable", text)


class Writer:
    """Encodes objects of one kind in one form; the storage caches the bytes of whole objects."""

    def __init__(self, storage: Storage, served: Served, form: Form) -> None:
        self._storage = storage
        self._served = served
        self._form = form
        self._head = b'{"kind":"%s","apiVersion":"%s",' % (served.resource.kind.encode(), served.api_version.encode())
        self._columns_sent = False

    def one(self, obj: Object) -> bytes:
        if self._form.shape == "table":
            return msgspec.json.encode(self._table([obj]))
        if self._form.shape == "metadata":
            return msgspec.json.encode(_metadata(self._served.outward(obj)))
        return self._head + self._bare(obj)[1:]

    def many(self, objects: list[Object], meta: Object) -> bytes:
        """Return an encoded list; ``meta`` has its resourceVersion and continue token."""
        if self._form.shape == "table":
            return msgspec.json.encode({**self._table(objects), "metadata": meta})
        if self._form.shape == "metadata":
            kind, version = "PartialObjectMetadataList", "meta.k8s.io/v1"
            items: Iterable[bytes] = (self.one(obj) for obj in objects)
        else:
            kind, version = f"{self._served.resource.kind}List", self._served.api_version
            items = (self._bare(obj) for obj in objects)
            if self._served.resource.custom:
                items = (self._head + item[1:] for item in items)
        head = {"kind": kind, "apiVersion": version, "metadata": meta}
        return b"".join([msgspec.json.encode(head)[:-1], b',"items":[', b",".join(items), b"]}\n"])

    def event(self, kind: str, obj: Object) -> bytes:
        return b'{"type":"%s","object":%s}\n' % (kind.encode(), self.one(obj))

    def bookmark(self, version: int, *, initial_end: bool = False) -> bytes:
        """Return a bookmark event of a watch."""
        meta: Object = {"resourceVersion": str(version), "creationTimestamp": None}
        if initial_end:
            meta["annotations"] = {"k8s.io/initial-events-end": "true"}
        mark: Object = {"kind": self._served.resource.kind, "apiVersion": self._served.api_version, "metadata": meta}
        if self._form.shape == "table":
            mark = {**self._table([]), "metadata": {"resourceVersion": str(version)}}
        elif self._form.shape == "metadata":
            mark |= {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
        return msgspec.json.encode({"type": "BOOKMARK", "object": mark}) + b"\n"

    def _bare(self, obj: Object) -> bytes:
        return self._storage.encoded(self._served.resource, obj, self._served.api_version, self._without_head)

    def _without_head(self, obj: Object) -> Object:
        return {key: value for key, value in self._served.outward(obj).items() if key not in ("kind", "apiVersion")}

    def _table(self, objects: list[Object]) -> Object:
        definitions = None if self._columns_sent else columns(self._served.resource)
        self._columns_sent = True
        rows = [{"cells": row(self._served.resource, obj), "object": self._row_object(obj)} for obj in objects]
        newest = objects[0]["metadata"]["resourceVersion"] if objects else ""
        return {
            "kind": "Table",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": {"resourceVersion": newest},
            "columnDefinitions": definitions,
            "rows": rows,
        }

    def _row_object(self, obj: Object) -> Object | None:
        if self._form.include == "None":
            return None
        return self._served.outward(obj) if self._form.include == "Object" else _metadata(obj)


def _metadata(obj: Object) -> Object:
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}
