"""Watches: past events since a version, live events, and bookmarks."""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from practice.api.paths_and_versions import parse_flag, parse_number, parse_resource_version
from practice.objects.api_error import ApiError, Object, expired_version

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping

    from practice.api.representations import ObjectEncoder
    from practice.objects.history import Event
    from practice.objects.resources import Resource
    from practice.objects.selectors import Predicate
    from practice.objects.storage import Storage

_LAST_BOOKMARK = 2.0  # seconds before its end at which a watch says how far it came
_DEFAULT_TIMEOUT = (1800, 3600)


@dataclass(frozen=True, slots=True)
class WatchRequest:
    """The parameters of a watch; ``version`` 0 starts with all objects, ``timeout`` is in seconds."""

    resource: Resource
    namespace: str
    matches: Predicate | None
    version: int
    timeout: float
    bookmarks: bool
    initial_events: bool

    @classmethod
    def from_query(
        cls, query: Mapping[str, str], resource: Resource, namespace: str, matches: Predicate | None
    ) -> WatchRequest:
        timeout = parse_number(query, "timeoutSeconds") or random.randint(*_DEFAULT_TIMEOUT)
        version = parse_resource_version(query)
        initial = parse_flag(query, "sendInitialEvents")
        return cls(resource, namespace, matches, version, timeout, parse_flag(query, "allowWatchBookmarks"), initial)


class OpenWatch:
    """One open watch; iterates over chunks of event lines."""

    def __init__(
        self, storage: Storage, request: WatchRequest, writer: ObjectEncoder, *, bookmark_seconds: float
    ) -> None:
        self._storage = storage
        self._request = request
        self._writer = writer
        self._bookmark_seconds = bookmark_seconds
        self._pending: deque[Event] = deque()
        self._event_arrived = asyncio.Event()
        self._ended: ApiError | None = None
        self._closing = False

    def close(self) -> None:
        """End the watch after pending events, as at shutdown or timeout."""
        self._closing = True
        self._event_arrived.set()

    def expire(self) -> None:
        """End the watch with an ERROR event, code 410."""
        self._ended = expired_version(self._request.version, self._storage.version)
        self._event_arrived.set()

    async def stream_chunks(self) -> AsyncIterator[bytes]:
        """Yield bytes until the timeout, until the watch is closed, or its version has expired."""
        unsubscribe = self._storage.subscribe(self._on_event, is_first=True)
        try:
            try:
                first = b"".join(self._initial_lines())
            except ApiError as refusal:
                yield _error_line(refusal)
                return
            yield first
            async for chunk in self._follow_events():
                yield chunk
        finally:
            unsubscribe()

    async def _follow_events(self) -> AsyncIterator[bytes]:
        end = time.monotonic() + self._request.timeout
        marks = self._bookmark_times(end)
        due = next(marks)
        while True:
            if self._pending:
                yield b"".join(self._encode_pending())
            if self._ended:
                yield _error_line(self._ended)
                return
            now = time.monotonic()
            if self._closing or now >= end:
                break
            try:
                async with asyncio.timeout(max(due - now, 0)):
                    await self._event_arrived.wait()
            except TimeoutError:
                if due < end:
                    yield self._writer.encode_bookmark(self._storage.version)
                due = next(marks)
            self._event_arrived.clear()

    def _bookmark_times(self, end_time: float) -> Iterator[float]:
        """Yield when bookmarks are due (monotonic clock): at intervals, shortly before `end_time`, then `end_time`."""
        if self._request.bookmarks:
            due = time.monotonic() + self._bookmark_seconds
            while due < end_time - _LAST_BOOKMARK:
                yield due
                due += self._bookmark_seconds
            if end_time - _LAST_BOOKMARK > time.monotonic():
                yield end_time - _LAST_BOOKMARK
        while True:
            yield end_time

    def _on_event(self, event: Event) -> None:
        if event.resource is self._request.resource:
            self._pending.append(event)
            self._event_arrived.set()

    def _initial_lines(self) -> list[bytes]:
        wish = self._request
        if wish.version and not wish.initial_events:
            self._pending.extendleft(reversed(self._storage.events_since(wish.resource, wish.version)))
            return list(self._encode_pending())
        if wish.version > self._storage.version:
            self._storage.events_since(wish.resource, wish.version)
        objects = self._storage.list(wish.resource, wish.namespace)
        lines = [
            self._writer.encode_event("ADDED", obj) for obj in objects if wish.matches is None or wish.matches(obj)
        ]
        if wish.initial_events and wish.bookmarks:
            lines.append(self._writer.encode_bookmark(self._storage.version, initial_end=True))
        return lines

    def _encode_pending(self) -> list[bytes]:
        lines = []
        while self._pending:
            line = self._encode_event(self._pending.popleft())
            if line:
                lines.append(line)
        return lines

    def _encode_event(self, event: Event) -> bytes:
        """Encode an event as the selector sees it: an object that stops matching is deleted, a new match added."""
        wish = self._request
        if wish.namespace and event.object["metadata"].get("namespace") != wish.namespace:
            return b""
        if wish.matches is None:
            return self._writer.encode_event(event.type, event.object)
        before = event.previous is not None and wish.matches(event.previous)
        after = event.type != "DELETED" and wish.matches(event.object)
        if before and not after:
            gone: Object = (
                event.object if event.type == "DELETED" else _with_version(event.previous or {}, event.version)
            )
            return self._writer.encode_event("DELETED", gone)
        if not after:
            return b""
        return self._writer.encode_event("MODIFIED" if before else "ADDED", event.object)


def _with_version(obj: Object, version: int) -> Object:
    return {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(version)}}


def _error_line(refusal: ApiError) -> bytes:
    return msgspec.json.encode({"type": "ERROR", "object": refusal.to_status()}) + b"\n"
