"""The recent events of each kind, so that a watch can start in the past."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, Literal

from practice.objects.api_error import ApiError, Object, expired_version

if TYPE_CHECKING:
    from practice.objects.resources import Resource


@dataclass(frozen=True, slots=True)
class Event:
    """A change of one object; ``version`` is its new resourceVersion, ``previous`` the old object."""

    type: Literal["ADDED", "MODIFIED", "DELETED"]
    resource: Resource
    object: Object
    version: int
    previous: Object | None = None


class EventHistory:
    """The last ``size`` events of each kind; a request for older ones is refused with 410."""

    def __init__(self, size: int, oldest: int) -> None:
        self.size = size
        self._oldest = oldest
        self._events: dict[Resource, deque[Event]] = {}
        self._forgotten: dict[Resource, int] = {}

    def add(self, event: Event) -> None:
        """Add an event, dropping the oldest of its kind if there are too many."""
        events = self._events.setdefault(event.resource, deque())
        events.append(event)
        if len(events) > self.size:
            self._forgotten[event.resource] = events.popleft().version

    def since(self, resource: Resource, version: int, newest: int) -> list[Event]:
        """Return the events after ``version``. Raises ApiError 410 if some were dropped, 504 if it is in the future."""
        if version > newest:
            text = f"Too large resource version: {version}, current: {newest}"
            cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
            raise ApiError(504, "Timeout", text, {"causes": [cause], "retryAfterSeconds": 1})
        forgotten = self._forgotten.get(resource, self._oldest)
        if version < forgotten:
            raise expired_version(version, forgotten)
        events = self._events.get(resource)
        if not events or events[-1].version <= version:
            return []
        newer = takewhile(lambda event: event.version > version, reversed(events))
        return list(newer)[::-1]

    def forget(self, newest: int) -> None:
        """Drop all events: watches from versions before ``newest`` are refused."""
        self._events.clear()
        self._forgotten.clear()
        self._oldest = newest
