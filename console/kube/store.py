"""Builds snapshots from the changes that the watches report; the only mutable state of the cluster view."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from console.kube.arrivals import SERVER_CLOCK
from console.kube.snapshot import Fleet, Key, KueueVersion, WatchState, WatchStatus

SNAPSHOT_SECONDS = 0.25  # seconds between two snapshots
REDRAW_GROWTH, MAX_REDRAW_PAUSE = 1.2, 1.0  # so much longer, or seconds later, a list that grows is drawn again

MAX_EVENTS = 40_000  # events that are kept, the latest

FLEET_FIELDS: Mapping[str, str] = {  # plural name of a kind -> its field in Fleet
    "nodes": "nodes",
    "pods": "pods",
    "events": "events",
    "jobsets": "jobsets",
    "jobs": "jobs",
    "clusterqueues": "cluster_queues",
    "localqueues": "local_queues",
    "workloads": "workloads",
    "resourceflavors": "flavors",
    "topologies": "topologies",
    "cohorts": "cohorts",
}


class Store:
    """The objects of each kind as the watches report them, and the state of each watch."""

    def __init__(self, kinds: Iterable[str] = FLEET_FIELDS, *, clock: Callable[[], float] = SERVER_CLOCK.now) -> None:
        self._clock = clock
        self._woken: set[asyncio.Event] = set()
        self._failure: BaseException | None = None
        self._ended = False
        self.reset(kinds)

    def reset(self, kinds: Iterable[str]) -> None:
        now = self._clock()
        self._objects: dict[str, dict[Key, Any]] = {kind: {} for kind in kinds}
        self._odd: dict[str, dict[Key, str]] = {kind: {} for kind in self._objects}
        self._notes: dict[str, str] = {}
        self._links = {kind: WatchStatus(kind, since=now) for kind in self._objects}
        self._published: dict[str, dict[Key, Any]] = {}
        self.kueue = KueueVersion()
        self._fleet: Fleet | None = None
        self._shown: dict[str, tuple[int, float]] = {}  # lists under way: length when shown, and time
        self._wake()

    def _wake(self, kind: str = "") -> None:
        """Mark the snapshot as outdated, and with a kind that kind's objects, and wake all subscribers."""
        if kind:
            self._published.pop(kind, None)
        self._fleet = None
        for event in self._woken:
            event.set()

    def set_version(self, kind: str, version: str, note: str = "") -> None:
        """Record the API version in which a kind is served; `note` says which fields are missing."""
        self._notes[kind] = note
        self._links[kind] = replace(self._links[kind], version=version)
        self._wake()

    def add(self, kind: str, objects: Mapping[Key, Any]) -> None:
        """Add objects of a list that is still being paged; the state of the watch does not change."""
        self._objects[kind].update(objects)
        self._forget(kind)
        self._links[kind] = replace(self._links[kind], last_seen=self._clock(), received=time.monotonic())
        self._published.pop(kind, None)
        count, now = len(self._objects[kind]), time.monotonic()
        shown, at = self._shown.get(kind, (0, 0.0))
        if count > REDRAW_GROWTH * shown or now > at + MAX_REDRAW_PAUSE:
            self._shown[kind] = count, now
            self._wake()

    def replace(self, kind: str, objects: Mapping[Key, Any], unparsable: Mapping[Key, str]) -> None:
        """Replace all objects of a kind; one that cannot be parsed keeps its last known version."""
        before = self._objects[kind]
        kept = {key: before[key] for key in unparsable if key in before}
        self._objects[kind] = {**objects, **kept}
        self._forget(kind)
        self._odd[kind] = dict(unparsable)
        self._on_change(kind)

    def set_object(self, kind: str, key: Key, thing: Any) -> None:
        self._objects[kind][key] = thing
        self._forget(kind)
        self._odd[kind].pop(key, None)
        self._on_change(kind)

    def _forget(self, kind: str) -> None:
        """Drop the oldest events, a tenth of them at once, where there are too many."""
        objects = self._objects[kind]
        if kind == "events" and len(objects) > MAX_EVENTS:
            by_age = sorted(objects.items(), key=lambda each: each[1].last)
            self._objects[kind] = dict(by_age[-(MAX_EVENTS * 9 // 10) :])
            self._notes[kind] = f"only the latest {MAX_EVENTS:,} of more events are kept"

    def mark_unparsable(self, kind: str, key: Key, why: str) -> None:
        """Record that an object cannot be parsed: it keeps its last known version, and the watch status names it."""
        self._odd[kind][key] = why
        self.mark_alive(kind)

    def remove(self, kind: str, key: Key) -> None:
        self._objects[kind].pop(key, None)
        self._odd[kind].pop(key, None)
        self._on_change(kind)

    def mark_lost(self, kind: str, state: WatchState, why: str, hint: str) -> None:
        """Record that the watch was lost or refused: the objects stay, unless the server does not offer the kind."""
        link, now = self._links[kind], self._clock()
        since = link.since if link.state is state else now
        self._links[kind] = replace(link, state=state, since=since, why=why, hint=hint)
        if state in {WatchState.ABSENT, WatchState.FORBIDDEN}:
            self._objects[kind] = {}
            self._wake(kind)
        self._wake()

    def mark_alive(self, kind: str) -> None:
        link, now = self._links[kind], self._clock()
        since = link.since if link.state is WatchState.LIVE else now
        self._links[kind] = replace(
            link,
            state=WatchState.LIVE,
            since=since,
            last_seen=now,
            received=time.monotonic(),
            why=self._describe_missing(kind),
            hint="",
        )
        self._wake()

    def _on_change(self, kind: str) -> None:
        self._published.pop(kind, None)
        self.mark_alive(kind)

    def _describe_missing(self, kind: str) -> str:
        odd, note = self._odd[kind], self._notes.get(kind, "")
        if not odd:
            return note
        (namespace, name), why = next(iter(odd.items()))
        first = "/".join(part for part in (namespace, name) if part) or "one without a name"
        many = f"{len(odd)} of them cannot be read, the first {first}: {why}"
        return f"{note}; {many}" if note else many

    def link(self, kind: str) -> WatchStatus:
        return self._links[kind]

    def object_count(self, kind: str) -> int:
        return len(self._objects[kind])

    @property
    def fleet(self) -> Fleet:
        """The current snapshot; the same object until something changes."""
        if self._fleet is None:
            for kind, objects in self._objects.items():
                if kind not in self._published:
                    self._published[kind] = objects.copy()
            fields = {FLEET_FIELDS[kind]: objects for kind, objects in self._published.items()}
            self._fleet = Fleet(at=self._clock(), links=self._links.copy(), kueue=self.kueue, **fields)
        return self._fleet

    async def changes(self) -> AsyncGenerator[None, None]:
        """Yield at once and after every change; raises the exception that ended a watch."""
        woken = asyncio.Event()
        woken.set()
        self._woken.add(woken)
        try:
            while True:
                await woken.wait()
                woken.clear()
                if self._failure:
                    raise self._failure
                if self._ended:
                    return
                yield
        finally:
            self._woken.discard(woken)

    async def snapshots(self) -> AsyncGenerator[Fleet, None]:
        """Yield the current snapshot and new ones after changes, with a pause in which changes accumulate."""
        async for _ in self.changes():
            yield self.fleet
            await asyncio.sleep(SNAPSHOT_SECONDS)

    def fail(self, error: BaseException) -> None:
        """Record that a watch ended with a bug of this program: everyone who reads snapshots gets the exception."""
        self._failure = self._failure or error
        self._wake()

    def end(self) -> None:
        self._ended = True
        self._wake()
