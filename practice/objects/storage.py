"""The object store of the practice cluster: reads, writes, resource versions and change notification."""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Literal
from uuid import UUID

import msgspec

from practice.objects.api_error import ApiError, Object, already_exists, conflict_error, forbidden_request, not_found
from practice.objects.history import Event, EventHistory
from practice.objects.lifecycle import (
    can_be_removed,
    check_preconditions,
    copy_identity,
    copy_of,
    desired_state,
    drop_empty_metadata,
    grace_period_seconds,
    has_finalizers,
    initialize_object,
    normalize_for_storage,
    timestamp,
    with_new_status,
    with_old_status,
)
from practice.objects.resources import NAMESPACES, Resource
from practice.runtime import ContainerLog, Runtime

__all__ = ["Admission", "ApiError", "ContainerLog", "Event", "Object", "Operation", "Resource", "Runtime", "Storage"]

Operation = Literal["CREATE", "UPDATE", "DELETE"]
Admission = Callable[[Operation, Resource, Object, Object | None], Object]
Listener = Callable[[Event], None]
Change = Callable[[Object], object]
Key = tuple[str, str]
Objects = list[Object]
Events = list[Event]

_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_FIRST_VERSION = 1000


class Storage:
    """The API objects by kind, namespace and name. A stored object is replaced, never changed: do not mutate it."""

    def __init__(self, now: Callable[[], float] = time.time, *, window: int = 5000, seed: int | None = None) -> None:
        self.admission: list[Admission] = []
        """Functions called in order for each create, update and delete; each returns the object to go on with."""
        self.version = _FIRST_VERSION
        self._now = now
        self._random = random.Random(seed)
        self._objects: dict[Resource, dict[Key, Object]] = {}
        self._sorted: dict[Resource, list[Key]] = {}
        self._history = EventHistory(window, _FIRST_VERSION)
        self._listeners: list[Listener] = []
        self._undelivered: deque[Event] = deque()
        self._delivering = False
        self._encoded: dict[str, dict[str, bytes]] = {}

    # reading

    @property
    def moment(self) -> str:
        return timestamp(self._now())

    def find(self, resource: Resource, namespace: str | None, name: str) -> Object | None:
        """Return one object, or None."""
        key = (namespace or "" if resource.namespaced else "", name)
        return self._objects.get(resource, {}).get(key)

    def get(self, resource: Resource, namespace: str | None, name: str) -> Object:
        """Return one object. Raises ApiError 404 when there is none."""
        found = self.find(resource, namespace, name)
        if found is None:
            raise not_found(resource, name)
        return found

    def list(self, resource: Resource, namespace: str | None = None) -> Objects:
        """Return the objects of a kind, of one namespace or of all, in order of namespace and name."""
        kept = self._objects.get(resource, {})
        keys = self._sorted.get(resource)
        if keys is None:
            keys = self._sorted[resource] = sorted(kept)
        if namespace and resource.namespaced:
            return [kept[key] for key in keys if key[0] == namespace]
        return [kept[key] for key in keys]

    def events_since(self, resource: Resource, version: int) -> Events:
        """Return the events after ``version``. Raises ApiError 410 if they were dropped."""
        return self._history.since(resource, version, self.version)

    def compact_history(self) -> None:
        """Drop all past events, like etcd's compaction."""
        self._history.forget(self.version)

    def encode_cached(self, resource: Resource, obj: Object, encoding: str, make: Callable[[Object], Object]) -> bytes:
        """Return an object's JSON in the form that ``make`` gives it; cached per stored version and ``encoding``."""
        meta = obj["metadata"]
        if self.find(resource, meta.get("namespace"), meta["name"]) is not obj:
            return msgspec.json.encode(make(obj))
        forms = self._encoded.setdefault(meta["resourceVersion"], {})
        found = forms.get(encoding)
        if found is None:
            found = forms[encoding] = msgspec.json.encode(make(obj))
        return found

    def subscribe(self, callback: Listener, *, is_first: bool = False) -> Callable[[], None]:
        """Call ``callback`` synchronously at every change; the returned function unsubscribes.

        ``is_first``: call it before all others, for a listener that only passes events on.
        """
        self._listeners.insert(0 if is_first else len(self._listeners), callback)

        def unsubscribe() -> None:
            with suppress(ValueError):  # ended before
                self._listeners.remove(callback)

        return unsubscribe

    # writing

    def create(self, resource: Resource, obj: Object, *, dry_run: bool = False, keep_status: bool = False) -> Object:
        """Store a new object. Raises ApiError 409 if the name is taken, 422 if admission refuses the object.

        Its status is dropped, as the API does, except for nodes or with ``keep_status`` (the opening scene).
        """
        obj = copy_of(obj)
        meta = obj.setdefault("metadata", {})
        drop_empty_metadata(meta)
        self._generate_name(meta)
        if resource.namespaced:
            meta["namespace"] = meta.get("namespace") or "default"
            self._check_namespace(resource, meta["namespace"], meta["name"])
        else:
            meta.pop("namespace", None)
        initialize_object(resource, obj, keep_status=keep_status)
        meta["uid"] = str(UUID(int=self._random.getrandbits(128), version=4))
        for admit in self.admission:
            obj = admit("CREATE", resource, obj, None)
        meta = obj["metadata"]
        if self.find(resource, meta.get("namespace"), meta["name"]) is not None:
            raise already_exists(resource, meta["name"])
        meta["creationTimestamp"] = meta.get("creationTimestamp") if keep_status else None
        meta["creationTimestamp"] = meta["creationTimestamp"] or timestamp(self._now())
        return obj if dry_run else self._store_event("ADDED", resource, obj, None)

    def update(self, resource: Resource, obj: Object, *, subresource: str = "", dry_run: bool = False) -> Object:
        """Replace an object. Raises ApiError 409 if its resourceVersion is stale. An equal object is not stored.

        ``subresource="status"`` replaces the status alone; without it the status stays.
        """
        meta = obj["metadata"]
        old = self.get(resource, meta.get("namespace"), meta["name"])
        before = old["metadata"]
        given = meta.get("resourceVersion")
        if given and given != before["resourceVersion"]:
            raise conflict_error(resource, before["name"])
        if meta.get("uid") and meta["uid"] != before["uid"]:
            why = f"Precondition failed: UID in precondition: {meta['uid']}, UID in object meta: {before['uid']}"
            raise conflict_error(resource, before["name"], why)
        new = with_new_status(old, copy_of(obj)) if subresource == "status" else with_old_status(resource, old, obj)
        copy_identity(resource, new, old)
        drop_empty_metadata(new["metadata"])
        normalize_for_storage(resource, new)
        if not subresource:
            for admit in self.admission:
                new = admit("UPDATE", resource, new, old)
        if new == old:
            return old
        if resource.generation and not subresource and desired_state(new) != desired_state(old):
            new["metadata"]["generation"] = before.get("generation", 0) + 1
        if dry_run:
            return new
        if can_be_removed(new):
            return self._delete_stored(resource, new)
        return self._store_event("MODIFIED", resource, new, old)

    def modify(
        self, resource: Resource, namespace: str | None, name: str, change: Change, subresource: str = ""
    ) -> Object:
        """Apply ``change`` to a copy of the newest version and store it. Raises ApiError as `get` and `update` do."""
        draft = copy_of(self.get(resource, namespace, name))
        change(draft)
        return self.update(resource, draft, subresource=subresource)

    def modify_status(self, resource: Resource, namespace: str | None, name: str, change: Change) -> Object:
        return self.modify(resource, namespace, name, change, "status")

    def delete(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        *,
        propagation: str = "Background",
        grace_seconds: int | None = None,
        uid: str = "",
        version: str = "",
        dry_run: bool = False,
    ) -> Object:
        """Begin or finish a deletion; the returned object has a deletionTimestamp while something holds it.

        Finalizers hold it (Foreground and Orphan add theirs), and a pod on a node its kubelet. Raises ApiError.
        """
        old = self.get(resource, namespace, name)
        check_preconditions(resource, old["metadata"], uid, version)
        for admit in self.admission:
            admit("DELETE", resource, old, old)
        if dry_run:
            return old
        draft = copy_of(old)
        meta = draft["metadata"]
        grace = grace_period_seconds(resource, old, grace_seconds)
        finalizer = {"Foreground": "foregroundDeletion", "Orphan": "orphan"}.get(propagation)
        if finalizer and finalizer not in meta.get("finalizers", ()):
            meta.setdefault("finalizers", []).append(finalizer)
        if not grace and not has_finalizers(draft):
            return self._delete_stored(resource, draft)
        running = meta.get("deletionGracePeriodSeconds")
        if running is not None and running <= grace:
            return old
        meta.setdefault("deletionTimestamp", timestamp(self._now() + grace))
        meta["deletionGracePeriodSeconds"] = grace
        if resource.generation and running is None:
            meta["generation"] = meta.get("generation", 0) + 1
        if resource is NAMESPACES:
            draft["status"]["phase"] = "Terminating"
        return self._store_event("MODIFIED", resource, draft, old)

    def remove(self, resource: Resource, namespace: str | None, name: str) -> None:
        """Finish a deletion that waited for kubelet or controller; finalizers still hold the object."""
        draft = copy_of(self.get(resource, namespace, name))
        if not draft["metadata"].get("finalizers"):
            self._delete_stored(resource, draft)
            return
        draft["metadata"].setdefault("deletionTimestamp", timestamp(self._now()))
        draft["metadata"]["deletionGracePeriodSeconds"] = 0
        self._store_event("MODIFIED", resource, draft, self.get(resource, namespace, name))

    # inside

    def _generate_name(self, meta: Object) -> None:
        if not meta.get("name") and meta.get("generateName"):
            suffix = "".join(self._random.choices(_SUFFIX_LETTERS, k=5))
            meta["name"] = f"{meta['generateName'][:58]}{suffix}"
        if not meta.get("name"):
            raise ApiError(422, "Invalid", "name or generateName is required")

    def _check_namespace(self, resource: Resource, namespace: str, name: str) -> None:
        found = self.find(NAMESPACES, "", namespace)
        if found is None:
            raise not_found(NAMESPACES, namespace)
        if found["metadata"].get("deletionTimestamp"):
            why = f"unable to create new content in namespace {namespace} because it is being terminated"
            raise forbidden_request(resource, name, why)

    def _store_event(
        self, kind: Literal["ADDED", "MODIFIED", "DELETED"], resource: Resource, obj: Object, old: Object | None
    ) -> Object:
        self.version += 1
        meta = obj["metadata"]
        meta["resourceVersion"] = str(self.version)
        key = (meta.get("namespace", ""), meta["name"])
        kept = self._objects.setdefault(resource, {})
        if old is not None:
            self._encoded.pop(old["metadata"]["resourceVersion"], None)
        if kind == "DELETED":
            del kept[key]
        else:
            kept[key] = obj
        if kind != "MODIFIED":
            self._sorted.pop(resource, None)
        event = Event(kind, resource, obj, self.version, old)
        self._history.add(event)
        self._undelivered.append(event)
        self._notify_listeners()
        return obj

    def _notify_listeners(self) -> None:
        """Notify listeners in order of events: a write by a listener is queued."""
        if self._delivering:
            return
        self._delivering = True
        try:
            while self._undelivered:
                event = self._undelivered.popleft()
                for listener in list(self._listeners):
                    listener(event)
        finally:
            self._delivering = False

    def _delete_stored(self, resource: Resource, obj: Object) -> Object:
        meta = obj["metadata"]
        old = self.get(resource, meta.get("namespace"), meta["name"])
        return self._store_event("DELETED", resource, obj, old)
