"""Watches: past events since a version, live events, and bookmarks."""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from practice.api.serving import flag, number, resource_version
from practice.objects.refusal import ApiError, Object, expired

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping

    from practice.api.forms import Writer
    from practice.objects.history import Event
    from practice.objects.resources import Resource
    from practice.objects.selectors import Predicate
    from practice.objects.storage import Storage

_BOOKMARK_EVERY = 60.0
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
    def read(
        cls, query: Mapping[str, str], resource: Resource, namespace: str, matches: Predicate | None
    ) -> WatchRequest:
        timeout = number(query, "timeoutSeconds") or random.randint(*_DEFAULT_TIMEOUT)
        version = resource_version(query)
        initial = flag(query, "sendInitialEvents")
        return cls(resource, namespace, matches, version, timeout, flag(query, "allowWatchBookmarks"), initial)


class Watch:
    """One open watch; iterates over chunks of event lines."""

    def __init__(
        self, storage: Storage, wish: WatchRequest, writer: Writer, *, bookmark_every: float = _BOOKMARK_EVERY
    ) -> None:
        self._storage = storage
        self._wish = wish
        self._writer = writer
        self._bookmark_every = bookmark_every
        self._pending: deque[Event] = deque()
        self._woken = asyncio.Event()
        self._ended: ApiError | None = None
        self._closing = False

    def close(self) -> None:
        """End the watch after pending events, as at shutdown or timeout."""
        self._closing = True
        self._woken.set()

    def expire(self) -> None:
        """End the watch with an ERROR event, code 410."""
        self._ended = expired(self._wish.version, self._storage.version)
        self._woken.set()

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield bytes until the timeout, until the watch is closed, or its version has expired."""
        unsubscribe = self._storage.subscribe(self._hear, first=True)
        try:
            try:
                first = b"".join(self._beginning())
            except ApiError as refusal:
                yield _error_line(refusal)
                return
            yield first
            async for chunk in self._following():
                yield chunk
        finally:
            unsubscribe()

    async def _following(self) -> AsyncIterator[bytes]:
        end = time.monotonic() + self._wish.timeout
        marks = self._bookmark_times(end)
        due = next(marks)
        while True:
            if self._pending:
                yield b"".join(self._drain())
            if self._ended:
                yield _error_line(self._ended)
                return
            now = time.monotonic()
            if self._closing or now >= end:
                break
            try:
                async with asyncio.timeout(max(due - now, 0)):
                    await self._woken.wait()
            except TimeoutError:
                if due < end:
                    yield self._writer.bookmark(self._storage.version)
                due = next(marks)
            self._woken.clear()

    def _bookmark_times(self, end: float) -> Iterator[float]:
        """Yield when bookmarks are due: at intervals, and shortly before the timeout."""
        if self._wish.bookmarks:
            due = time.monotonic() + self._bookmark_every
            while due < end - _LAST_BOOKMARK:
                yield due
                due += self._bookmark_every
            if end - _LAST_BOOKMARK > time.monotonic():
                yield end - _LAST_BOOKMARK
        while True:
            yield end

    def _hear(self, event: Event) -> None:
        if event.resource is self._wish.resource:
            self._pending.append(event)
            self._woken.set()

    def _beginning(self) -> list[bytes]:
        wish = self._wish
        if wish.version and not wish.initial_events:
            self._pending.extendleft(reversed(self._storage.events_since(wish.resource, wish.version)))
            return list(self._drain())
        if wish.version > self._storage.version:
            self._storage.events_since(wish.resource, wish.version)
        objects = self._storage.list(wish.resource, wish.namespace)
        lines = [self._writer.event("ADDED", obj) for obj in objects if wish.matches is None or wish.matches(obj)]
        if wish.initial_events and wish.bookmarks:
            lines.append(self._writer.bookmark(self._storage.version, initial_end=True))
        return lines

    def _drain(self) -> list[bytes]:
        lines = []
        while self._pending:
            line = self._line(self._pending.popleft())
            if line:
                lines.append(line)
        return lines

    def _line(self, event: Event) -> bytes:
        """Encode an event as the selector sees it: an object that stops matching is deleted, a new match added."""
        wish = self._wish
        if wish.namespace and event.object["metadata"].get("namespace") != wish.namespace:
            return b""
        if wish.matches is None:
            return self._writer.event(event.type, event.object)
        before = event.previous is not None and wish.matches(event.previous)
        after = event.type != "DELETED" and wish.matches(event.object)
        if before and not after:
            gone: Object = event.object if event.type == "DELETED" else _at(event.previous or {}, event.version)
            return self._writer.event("DELETED", gone)
        if not after:
            return b""
        return self._writer.event("MODIFIED" if before else "ADDED", event.object)


def _at(obj: Object, version: int) -> Object:
    return {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(version)}}


def _error_line(refusal: ApiError) -> bytes:
    return msgspec.json.encode({"type": "ERROR", "object": refusal.to_status()}) + b"\n"
