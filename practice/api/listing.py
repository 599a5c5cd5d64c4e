"""Paged lists: one snapshot of the objects, returned page by page until it expires."""

from __future__ import annotations

import base64
import binascii
from collections import OrderedDict
from collections.abc import Mapping

import msgspec

from practice.api.paths_and_versions import parse_number, parse_resource_version
from practice.objects.api_error import ApiError, Object, bad_request, expired_version
from practice.objects.resources import Resource
from practice.objects.selectors import Predicate, field_predicate, label_predicate
from practice.objects.storage import Storage

_MAX_SNAPSHOTS = 64
_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)


def parse_selectors(query: Mapping[str, str], resource: Resource, name: str = "") -> Predicate | None:
    """Return the predicate for a query's selectors, and `name` if given; None if there is neither."""
    asked: list[Predicate] = []
    if query.get("labelSelector"):
        asked.append(label_predicate(query["labelSelector"]))
    fields = query.get("fieldSelector", "")
    if name:
        fields = f"{fields},metadata.name={name}".lstrip(",")
    if fields:
        asked.append(field_predicate(fields, resource))
    if not asked:
        return None
    return asked[0] if len(asked) == 1 else lambda obj: all(matches(obj) for matches in asked)


class ListPager:
    """Answers lists; keeps the snapshots of recent paged ones, so that pages are consistent."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._snapshots: OrderedDict[tuple[Resource, str, int], list[Object]] = OrderedDict()

    def expire_tokens(self) -> None:
        """Expire all continue tokens, as a compaction does."""
        self._snapshots.clear()

    def read_page(self, resource: Resource, namespace: str, query: Mapping[str, str]) -> tuple[list[Object], Object]:
        """Return one page of objects and the list's metadata. Raises ApiError 410 if its snapshot has expired."""
        matches = parse_selectors(query, resource)
        token = query.get("continue", "")
        objects, version, start = (
            self._next_page(resource, namespace, token) if token else self._first_page(resource, namespace, query)
        )
        limit = parse_number(query, "limit") or 0
        meta: Object = {"resourceVersion": str(version)}
        found: list[Object] = []
        for at in range(start, len(objects)):
            if limit and len(found) == limit and (matches is None or any(map(matches, objects[at:]))):
                meta |= self._continue_metadata(resource, namespace, objects, version, at, counted=matches is None)
                break
            if matches is None or matches(objects[at]):
                found.append(objects[at])
        return found, meta

    def _first_page(
        self, resource: Resource, namespace: str, query: Mapping[str, str]
    ) -> tuple[list[Object], int, int]:
        newest = self._storage.version
        asked = parse_resource_version(query)
        if asked > newest:
            text = f"Too large resource version: {asked}, current: {newest}"
            cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
            raise ApiError(504, "Timeout", text, {"causes": [cause], "retryAfterSeconds": 1})
        if query.get("resourceVersionMatch") == "Exact" and asked != newest:
            kept = self._snapshots.get((resource, namespace, asked))
            if kept is None:
                raise expired_version(asked, newest)
            return kept, asked, 0
        return self._storage.list(resource, namespace), newest, 0

    def _next_page(self, resource: Resource, namespace: str, token: str) -> tuple[list[Object], int, int]:
        try:
            read = msgspec.json.decode(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
            version, key = int(read["rv"]), tuple(read["start"])
        except (binascii.Error, msgspec.DecodeError, KeyError, TypeError, ValueError):
            text = "invalid continue token: continue key is not valid: "
            raise bad_request(f"{text}it cannot be decoded") from None
        inconsistent = version < 0
        if inconsistent:
            objects, version = self._storage.list(resource, namespace), self._storage.version
        else:
            kept = self._snapshots.get((resource, namespace, version))
            if kept is None:
                meta = {"continue": _format_token(-1, key)}
                raise PageGoneError(meta)
            objects = kept
        start = next((at for at, obj in enumerate(objects) if _sort_key(obj) >= key), len(objects))
        return objects, version, start

    def _continue_metadata(
        self, resource: Resource, namespace: str, objects: list[Object], version: int, offset: int, *, counted: bool
    ) -> Object:
        self._snapshots[resource, namespace, version] = objects
        while len(self._snapshots) > _MAX_SNAPSHOTS:
            self._snapshots.popitem(last=False)
        meta: Object = {"continue": _format_token(version, _sort_key(objects[offset]))}
        if counted:
            meta["remainingItemCount"] = len(objects) - offset
        return meta


class PageGoneError(ApiError):
    """Raised as 410 if a page's snapshot has expired; a token in its metadata continues with newer objects."""

    def __init__(self, meta: Object) -> None:
        super().__init__(410, "Expired", _TOO_OLD)
        self.meta = meta

    def to_status(self) -> Object:
        """Return the Status object, with the token."""
        return {**super().to_status(), "metadata": self.meta}


def _sort_key(obj: Object) -> tuple[str, str]:
    return (obj["metadata"].get("namespace", ""), obj["metadata"]["name"])


def _format_token(version: int, key: tuple[str, ...]) -> str:
    content = msgspec.json.encode({"v": "meta.k8s.io/v1", "rv": version, "start": list(key)})
    return base64.urlsafe_b64encode(content).decode().rstrip("=")
