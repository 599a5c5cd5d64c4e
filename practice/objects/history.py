"""What happened to the objects of each kind, kept for a while so that a watch can start in the past."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, Literal

from practice.objects.refusal import ApiError, Object, expired

if TYPE_CHECKING:
    from practice.objects.resources import Resource


@dataclass(frozen=True, slots=True)
class Event:
    """One change of one object; ``version`` is the resourceVersion it got, ``previous`` what was there before."""

    type: Literal["ADDED", "MODIFIED", "DELETED"]
    resource: Resource
    object: Object
    version: int
    previous: Object | None = None


class History:
    """The last ``size`` events of each kind; older ones are forgotten, and asking for them is 410."""

    def __init__(self, size: int, oldest: int) -> None:
        self.size = size
        self._oldest = oldest
        self._events: dict[Resource, deque[Event]] = {}
        self._forgotten: dict[Resource, int] = {}

    def add(self, event: Event) -> None:
        """Keep one event, and forget the oldest of its kind when there are too many."""
        events = self._events.setdefault(event.resource, deque())
        events.append(event)
        if len(events) > self.size:
            self._forgotten[event.resource] = events.popleft().version

    def since(self, resource: Resource, version: int, newest: int) -> list[Event]:
        """Return the events after ``version``; ApiError 410 when some are forgotten, 504 when none exists yet."""
        if version > newest:
            text = f"Too large resource version: {version}, current: {newest}"
            cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
            raise ApiError(504, "Timeout", text, {"causes": [cause], "retryAfterSeconds": 1})
        forgotten = self._forgotten.get(resource, self._oldest)
        if version < forgotten:
            raise expired(version, forgotten)
        events = self._events.get(resource)
        if not events or events[-1].version <= version:
            return []
        newer = takewhile(lambda event: event.version > version, reversed(events))
        return list(newer)[::-1]

    def forget(self, newest: int) -> None:
        """Forget everything: a watch from any version before ``newest`` is refused."""
        self._events.clear()
        self._forgotten.clear()
        self._oldest = newest
