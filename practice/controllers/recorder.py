"""Records events in both shapes of real clusters: counted (kubelet, Jobs) and series (scheduler, Kueue, JobSet)."""

from __future__ import annotations

from collections import deque
from contextlib import suppress

from practice.clock import Clock, format_micro_timestamp, format_timestamp
from practice.controllers.objects import Object
from practice.objects.api_error import ApiError
from practice.objects.resources import EVENTS
from practice.objects.storage import Storage

_EVENT_TTL_SECONDS = 3600.0  # an API server forgets events after an hour
_SERIES = {"default-scheduler", "jobset", "kueue-admission", "kueue-workload-controller"}


def _reports_series(source: str) -> bool:
    return source in _SERIES or source.endswith("-kueue-controller")


class EventRecorder:
    """Records events, counts repetitions, and deletes them after an hour."""

    def __init__(self, storage: Storage, clock: Clock) -> None:
        self._storage = storage
        self._clock = clock
        self._known: dict[tuple[str, ...], str] = {}
        self._ages: deque[tuple[float, str, str, tuple[str, ...]]] = deque()
        self._count = 0

    def record(
        self,
        obj: Object,
        kind: str,
        reason: str,
        message: str,
        *,
        source: str,
        action: str = "",
        host: str = "",
        field: str = "",
    ) -> None:
        """Record one event (``kind`` Normal or Warning); ``source`` is the reporting component."""
        now = self._clock.now()
        if now < self._clock.live_from - _EVENT_TTL_SECONDS:
            return
        self._delete_old_events(now)
        same: tuple[str, ...] = (obj["metadata"]["uid"], kind, reason, message, source, field)
        if _reports_series(source):  # these count a repeat only while the object is as it was
            same += (str(obj["metadata"].get("resourceVersion")),)
        namespace = obj["metadata"].get("namespace") or "default"
        if same in self._known:
            self._count_again(namespace, self._known[same], now)
            return
        self._count += 1
        name = f"{obj['metadata']['name']}.{int(now * 1e6) * 1000 + self._count % 1000:x}"
        event = _new_event(obj, namespace, name, kind, reason, message)
        if field:
            event["involvedObject"]["fieldPath"] = field
        event |= (
            _series_fields(source, action or reason, now)
            if _reports_series(source)
            else _count_fields(source, host, now)
        )
        with suppress(ApiError):  # the namespace is being deleted: the real recorder gives up on that, too
            self._storage.create(EVENTS, event)
            self._known[same] = name
            self._ages.append((now, namespace, name, same))

    def _count_again(self, namespace: str, name: str, now: float) -> None:
        def count(event: Object) -> None:
            if "count" in event:
                event["count"] += 1
                event["lastTimestamp"] = format_timestamp(now)
                return
            series = event.setdefault("series", {"count": 1})
            series["count"] += 1
            series["lastObservedTime"] = format_micro_timestamp(now)

        if self._storage.find(EVENTS, namespace, name) is not None:
            self._storage.modify(EVENTS, namespace, name, count)

    def _delete_old_events(self, now: float) -> None:
        while self._ages and self._ages[0][0] < now - _EVENT_TTL_SECONDS:
            _, namespace, name, same = self._ages.popleft()
            self._known.pop(same, None)
            if self._storage.find(EVENTS, namespace, name) is not None:
                self._storage.delete(EVENTS, namespace, name)


def _series_fields(source: str, action: str, now: float) -> Object:
    return {
        "eventTime": format_micro_timestamp(now),
        "reportingComponent": source,
        "reportingInstance": f"{source}-practice",
        "action": action,
        "source": {},
        "firstTimestamp": None,
        "lastTimestamp": None,
    }


def _count_fields(source: str, host: str, now: float) -> Object:
    return {
        "source": {"component": source} | ({"host": host} if host else {}),
        "firstTimestamp": format_timestamp(now),
        "lastTimestamp": format_timestamp(now),
        "count": 1,
        "eventTime": None,
        "reportingComponent": source,
        "reportingInstance": host,
    }


def _new_event(obj: Object, namespace: str, name: str, kind: str, reason: str, message: str) -> Object:
    meta = obj["metadata"]
    involved = {
        "kind": obj["kind"],
        "namespace": meta.get("namespace"),
        "name": meta["name"],
        "uid": meta["uid"],
        "apiVersion": obj["apiVersion"],
        "resourceVersion": meta.get("resourceVersion"),
    }
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": namespace},
        "involvedObject": {key: value for key, value in involved.items() if value},
        "reason": reason,
        "message": message[:1024],
        "type": kind,
    }
