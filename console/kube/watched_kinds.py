"""The watched kinds: API group and versions, and how their lists and watch events are decoded, object by object."""

import math
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cache, cached_property
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Struct

from console.decoding import DECODING_ERRORS
from console.errors import Unreadable
from console.kube.api_errors import StatusSchema
from console.kube.objects.meta import ApiSchema, Meta, ObjectSchema

W = TypeVar("W", bound=ObjectSchema)
M = TypeVar("M")
Key = tuple[str, str]


class ListMetaSchema(ApiSchema):
    resource_version: str | None = None
    next: str | None = msgspec.field(default=None, name="continue")
    remaining: int | None = msgspec.field(default=None, name="remainingItemCount")


class ListSchema(ApiSchema, Generic[M]):
    metadata: ListMetaSchema | None = None
    items: list[M] | None = None


class WatchLineSchema(ApiSchema):
    type: str | None = None
    object: msgspec.Raw = msgspec.Raw(b"{}")


class ListPage(Struct, Generic[W], frozen=True):
    """One page of a list; `build_models` decodes the items that are still raw JSON."""

    items: Sequence[W | msgspec.Raw]
    continue_token: str  # token of the next page; empty on the last
    version: str  # resourceVersion to watch from
    remaining: int | None = None  # objects on the pages after it, as far as the server says so


class WatchEvent(Struct, Generic[M], frozen=True):
    """One event of a watch; its `type` decides which fields are set."""

    type: str  # ADDED, MODIFIED, DELETED, BOOKMARK, ERROR, or a word of tomorrow
    key: Key = ("", "")
    version: str = ""
    model: M | None = None
    status: StatusSchema | None = None
    unreadable: str = ""


_NAME_MISSING = "its name is missing."
_META_DECODER = msgspec.json.Decoder(ObjectSchema)
_WATCH_LINE_DECODER = msgspec.json.Decoder(WatchLineSchema)
_STATUS_DECODER = msgspec.json.Decoder(StatusSchema)


def object_key(meta: Meta) -> Key:
    return meta.namespace or "", meta.name or ""


class KindReader(Generic[W, M]):
    """Decodes lists and watch events of one kind: `schema` decodes the JSON, `parse` builds the model."""

    def __init__(self, schema: type[W], parse: Callable[[W], M]) -> None:
        self._schema = schema
        self._parse = parse

    # Decoders are made on first use: building all of them would cost every start, also of commands that need one.

    @cached_property
    def _object_decoder(self) -> msgspec.json.Decoder[W]:
        return msgspec.json.Decoder(self._schema)

    @cached_property
    def _list_decoder(self) -> msgspec.json.Decoder[ListSchema[W]]:
        return msgspec.json.Decoder(ListSchema[self._schema])  # type: ignore[name-defined]  # mypy takes no type out of a variable

    def read_page(self, body: bytes) -> ListPage[W]:
        """Decode a list response; the objects of a large one stay raw JSON. Raises Unreadable if it is no list."""
        with suppress(*DECODING_ERRORS):
            if len(body) <= MAX_PAGE_DECODED_AT_ONCE:
                return _list_page(self._list_decoder.decode(body))
        try:
            return _list_page(msgspec.json.decode(body, type=ListSchema[msgspec.Raw]))
        except DECODING_ERRORS as error:
            raise Unreadable(f"The API server's list cannot be read: {error}.") from error

    def decode(self, item: W | msgspec.Raw) -> W:
        """Decode one object of a list page. Raises Unreadable if it is of another kind."""
        if not isinstance(item, msgspec.Raw):
            return item
        try:
            return self._object_decoder.decode(item)
        except DECODING_ERRORS as error:
            raise Unreadable(str(error)) from error

    def build_models(
        self, items: Iterable[W | msgspec.Raw], seconds: float = math.inf
    ) -> tuple[dict[Key, M], dict[Key, str]]:
        """(models by key, errors by key of unparsable objects); an iterator is used for at most `seconds`."""
        made, unreadable, parse, ends = {}, {}, self._parse, time.monotonic() + seconds
        for item in items:
            try:
                decoded = self.decode(item)
                if not (key := object_key(decoded.metadata))[1]:
                    raise Unreadable(_NAME_MISSING)
                made[key] = parse(decoded)
            except Unreadable as error:
                unreadable[_key_of_raw_object(item) if isinstance(item, msgspec.Raw) else key] = error.message
            if time.monotonic() > ends:
                break
        return made, unreadable

    def read_object(self, body: bytes, action: str) -> M:
        """The model of one object; Unreadable, with `action` in its sentence, if the object cannot be decoded."""
        made, unreadable = self.build_models(self.read_page(b'{"items":[' + body + b"]}").items)
        for model in made.values():
            return model
        raise Unreadable(f"{action} cannot be read: {next(iter(unreadable.values()), 'it is no such object')}.")

    def read_event(self, text: bytes) -> WatchEvent[M]:
        """Decode a watch event. Raises Unreadable if it is not one, such as a line that was cut off."""
        try:
            event = _WATCH_LINE_DECODER.decode(text)
            if event.type == "ERROR":
                return WatchEvent("ERROR", status=_STATUS_DECODER.decode(event.object))
            meta = _META_DECODER.decode(event.object).metadata
        except DECODING_ERRORS as error:
            raise Unreadable(f"The API server's watch sent an unreadable line: {error}.") from error
        key, kind, version = object_key(meta), event.type or "", meta.resource_version or ""
        if kind not in {"ADDED", "MODIFIED"}:
            return WatchEvent(kind, key, version)
        if not key[1]:
            return WatchEvent(kind, key, version, unreadable=_NAME_MISSING)
        try:
            return WatchEvent(kind, key, version, self._parse(self._object_decoder.decode(event.object)))
        except (*DECODING_ERRORS, Unreadable) as error:
            return WatchEvent(kind, key, version, unreadable=str(error))


MAX_PAGE_DECODED_AT_ONCE = 8 << 20  # bytes of a page that is decoded in one step; 500 pods have some 5 MB
PEEK_BYTES = 1 << 12  # bytes of a page in which its metadata are looked for


def peek_list_meta(body: bytes) -> ListMetaSchema:
    """The metadata of a list, if it precedes the items as API servers write it; else empty."""
    head, items, _ = body[:PEEK_BYTES].partition(b'"items":')
    with suppress(*DECODING_ERRORS):
        if items and (found := msgspec.json.decode(head.rstrip(b", \n") + b"}", type=ListSchema[msgspec.Raw]).metadata):
            return found
    return ListMetaSchema()


def _list_page(page: ListSchema[Any]) -> ListPage[Any]:
    meta = page.metadata or ListMetaSchema()
    return ListPage(page.items or [], meta.next or "", meta.resource_version or "", meta.remaining)


def _key_of_raw_object(raw_object: msgspec.Raw) -> Key:
    """Namespace and name of an object that may not be decodable as a whole."""
    try:
        return object_key(_META_DECODER.decode(raw_object).metadata)
    except DECODING_ERRORS:
        return "", ""


JOBSET_GROUP = "jobset.x-k8s.io"
KUEUE_GROUP = "kueue.x-k8s.io"


class Kind(Struct, frozen=True):
    plural: str
    group: str
    versions: tuple[str, ...]  # versions that can be read, best first
    namespaced: bool

    @property
    def reader(self) -> KindReader[Any, Any]:
        return reader_of(self.plural)

    def path(self, version: str, namespace: str = "") -> str:
        """URL path of the list: of one namespace if one is given, else of all."""
        root = f"/apis/{self.group}/{version}" if self.group else f"/api/{version}"
        return f"{root}/namespaces/{namespace}/{self.plural}" if namespace else f"{root}/{self.plural}"


@cache
def reader_of(plural: str) -> KindReader[Any, Any]:
    """The reader of a watched kind; imports its module here, since most commands need only a few kinds."""
    match plural:
        case "nodes":
            from console.kube.objects import node

            return KindReader(node.NodeSchema, node.parse_node)
        case "pods":
            from console.kube.objects import pod

            return KindReader(pod.PodSchema, pod.parse_pod)
        case "events":
            from console.kube.objects import event

            return KindReader(event.EventSchema, event.parse_event)
        case "jobsets" | "jobs":
            from console.kube.objects import jobset

            return KindReader(*jobset.PARSERS[plural])
        case "workloads":
            from console.kube.objects import workload

            return KindReader(workload.WorkloadSchema, workload.parse_workload)
        case _:
            from console.kube.objects import queue

            return KindReader(*queue.PARSERS[plural])


_KUEUE_VERSIONS = ("v1beta2", "v1beta1", "v1alpha1")

KINDS: tuple[Kind, ...] = (
    Kind("nodes", "", ("v1",), False),
    Kind("pods", "", ("v1",), True),
    Kind("events", "", ("v1",), True),
    Kind("jobsets", JOBSET_GROUP, ("v1alpha2",), True),
    Kind("jobs", "batch", ("v1",), True),
    Kind("clusterqueues", KUEUE_GROUP, _KUEUE_VERSIONS, False),
    Kind("localqueues", KUEUE_GROUP, _KUEUE_VERSIONS, True),
    Kind("workloads", KUEUE_GROUP, _KUEUE_VERSIONS, True),
    Kind("resourceflavors", KUEUE_GROUP, _KUEUE_VERSIONS, False),
    Kind("topologies", KUEUE_GROUP, _KUEUE_VERSIONS, False),
    Kind("cohorts", KUEUE_GROUP, _KUEUE_VERSIONS, False),
)


def kind_named(plural: str) -> Kind:
    return next(each for each in KINDS if each.plural == plural)
