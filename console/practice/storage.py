"""The objects of the practice cluster: one place that reads, writes, counts versions and tells who listens."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Literal, Protocol
from uuid import UUID

import msgspec

from console.practice.history import Event, History
from console.practice.refusal import ApiError, Object, already_exists, conflict, forbidden, not_found
from console.practice.resources import NAMESPACES, NODES, PODS, Resource

__all__ = ["Admission", "ApiError", "ContainerLog", "Event", "Object", "Operation", "Resource", "Runtime", "Storage"]

Operation = Literal["CREATE", "UPDATE", "DELETE"]
Admission = Callable[[Operation, Resource, Object, Object | None], Object]
Listener = Callable[[Event], None]
Key = tuple[str, str]

_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_FIRST_VERSION = 1000


def copy_of(obj: Object) -> Object:
    """Return a deep copy that may be changed."""
    copied: Object = msgspec.json.decode(msgspec.json.encode(obj))
    return copied


def timestamp(seconds: float) -> str:
    """Return epoch seconds as the API writes a time: ``2026-11-21T06:33:39Z``."""
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Storage:
    """All objects by kind, namespace and name. Stored objects are never changed, only replaced: do not mutate them."""

    def __init__(self, now: Callable[[], float] = time.time, *, window: int = 5000, seed: int | None = None) -> None:
        self.admission: list[Admission] = []
        """Called in order for every create, update and delete; each returns the object to go on with."""
        self.version = _FIRST_VERSION
        self._now = now
        self._random = random.Random(seed)
        self._objects: dict[Resource, dict[Key, Object]] = {}
        self._sorted: dict[Resource, list[Key]] = {}
        self._history = History(window)
        self._listeners: list[Listener] = []
        self._encoded: dict[tuple[str, str], bytes] = {}

    # reading

    def find(self, resource: Resource, namespace: str | None, name: str) -> Object | None:
        """Return one object, or None."""
        key = (namespace or "" if resource.namespaced else "", name)
        return self._objects.get(resource, {}).get(key)

    def get(self, resource: Resource, namespace: str | None, name: str) -> Object:
        """Return one object; ApiError 404 when there is none."""
        found = self.find(resource, namespace, name)
        if found is None:
            raise not_found(resource, name)
        return found

    def list(self, resource: Resource, namespace: str | None = None) -> list[Object]:
        """Return the objects of a kind, of one namespace or of all, in order of namespace and name."""
        kept = self._objects.get(resource, {})
        keys = self._sorted.get(resource)
        if keys is None:
            keys = self._sorted[resource] = sorted(kept)
        if namespace and resource.namespaced:
            return [kept[key] for key in keys if key[0] == namespace]
        return [kept[key] for key in keys]

    def events_since(self, resource: Resource, version: int) -> list[Event]:
        """Return what happened after ``version``; ApiError 410 when that is no longer kept."""
        return self._history.since(resource, version, self.version)

    def compact(self) -> None:
        """Forget all past events, as etcd's compaction does."""
        self._history.forget(self.version)

    def encoded(self, obj: Object, form: str, make: Callable[[Object], Object]) -> bytes:
        """Return the JSON of a stored object in one served form; made once per stored version."""
        key = (obj["metadata"]["resourceVersion"], form)
        found = self._encoded.get(key)
        if found is None:
            found = self._encoded[key] = msgspec.json.encode(make(obj))
        return found

    def subscribe(self, callback: Listener) -> Callable[[], None]:
        """Call ``callback`` at every change, at once; the returned function ends it."""
        self._listeners.append(callback)

        def unsubscribe() -> None:
            with suppress(ValueError):
                self._listeners.remove(callback)

        return unsubscribe

    # writing

    def create(self, resource: Resource, obj: Object, *, dry_run: bool = False, keep_status: bool = False) -> Object:
        """Store a new object; ApiError 409 when the name is taken, 422 when admission finds it wrong.

        A status is dropped, as the API does, but for nodes or when ``keep_status`` is set (the opening scene).
        """
        obj = copy_of(obj)
        meta = obj.setdefault("metadata", {})
        self._name(meta)
        if resource.namespaced:
            meta["namespace"] = meta.get("namespace") or "default"
            self._check_namespace(resource, meta["namespace"], meta["name"])
        else:
            meta.pop("namespace", None)
        if resource.status and not keep_status and resource is not NODES:
            obj.pop("status", None)
        if resource is PODS:
            obj.setdefault("status", {}).setdefault("phase", "Pending")
        for admit in self.admission:
            obj = admit("CREATE", resource, obj, None)
        meta = obj["metadata"]
        if self.find(resource, meta.get("namespace"), meta["name"]) is not None:
            raise already_exists(resource, meta["name"])
        meta["uid"] = str(UUID(int=self._random.getrandbits(128), version=4))
        meta["creationTimestamp"] = meta.get("creationTimestamp") if keep_status else None
        meta["creationTimestamp"] = meta["creationTimestamp"] or timestamp(self._now())
        meta.pop("deletionTimestamp", None)
        meta.pop("deletionGracePeriodSeconds", None)
        if resource.generation:
            meta["generation"] = 1
        obj["apiVersion"], obj["kind"] = resource.api_version, resource.kind
        return obj if dry_run else self._put("ADDED", resource, obj, None)

    def update(self, resource: Resource, obj: Object, *, subresource: str = "", dry_run: bool = False) -> Object:
        """Replace an object; ApiError 409 when its resourceVersion is given and stale. A write without change is none.

        ``subresource="status"`` replaces the status alone; without it the status stays.
        """
        meta = obj["metadata"]
        old = self.get(resource, meta.get("namespace"), meta["name"])
        before = old["metadata"]
        given = meta.get("resourceVersion")
        if given and given != before["resourceVersion"]:
            raise conflict(resource, before["name"])
        if meta.get("uid") and meta["uid"] != before["uid"]:
            why = f"Precondition failed: UID in precondition: {meta['uid']}, UID in object meta: {before['uid']}"
            raise conflict(resource, before["name"], why)
        new = _only_status(old, copy_of(obj)) if subresource == "status" else _without_status(resource, old, obj)
        _keep_identity(resource, new, old)
        if not subresource:
            for admit in self.admission:
                new = admit("UPDATE", resource, new, old)
        if new == old:
            return old
        if resource.generation and not subresource and _wish(new) != _wish(old):
            new["metadata"]["generation"] = before.get("generation", 0) + 1
        if dry_run:
            return new
        if _may_go(new):
            return self._drop(resource, new)
        return self._put("MODIFIED", resource, new, old)

    def modify(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        change: Callable[[Object], None],
        *,
        subresource: str = "",
    ) -> Object:
        """Change an object in place, as it seems to ``change``, which gets a copy of the newest."""
        draft = copy_of(self.get(resource, namespace, name))
        change(draft)
        return self.update(resource, draft, subresource=subresource)

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
        """Begin or finish a deletion; the object returned carries a deletionTimestamp while something holds it.

        What holds it: finalizers (Foreground and Orphan add theirs), and for a pod on a node the kubelet.
        """
        old = self.get(resource, namespace, name)
        _check_preconditions(resource, old["metadata"], uid, version)
        for admit in self.admission:
            admit("DELETE", resource, old, old)
        if dry_run:
            return old
        draft = copy_of(old)
        meta = draft["metadata"]
        grace = _grace(resource, old, grace_seconds)
        finalizer = {"Foreground": "foregroundDeletion", "Orphan": "orphan"}.get(propagation)
        if finalizer and finalizer not in meta.get("finalizers", ()):
            meta.setdefault("finalizers", []).append(finalizer)
        if not grace and not meta.get("finalizers"):
            return self._drop(resource, draft)
        running = meta.get("deletionGracePeriodSeconds")
        if running is not None and running <= grace:
            return old
        meta.setdefault("deletionTimestamp", timestamp(self._now() + grace))
        meta["deletionGracePeriodSeconds"] = grace
        if resource.generation and running is None:
            meta["generation"] = meta.get("generation", 0) + 1
        return self._put("MODIFIED", resource, draft, old)

    def remove(self, resource: Resource, namespace: str | None, name: str) -> None:
        """End a deletion that waited for the kubelet or a controller; finalizers still hold the object."""
        draft = copy_of(self.get(resource, namespace, name))
        if not draft["metadata"].get("finalizers"):
            self._drop(resource, draft)
            return
        draft["metadata"].setdefault("deletionTimestamp", timestamp(self._now()))
        draft["metadata"]["deletionGracePeriodSeconds"] = 0
        self._put("MODIFIED", resource, draft, self.get(resource, namespace, name))

    # inside

    def _name(self, meta: Object) -> None:
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
            raise forbidden(resource, name, why)

    def _put(
        self, kind: Literal["ADDED", "MODIFIED", "DELETED"], resource: Resource, obj: Object, old: Object | None
    ) -> Object:
        self.version += 1
        meta = obj["metadata"]
        meta["resourceVersion"] = str(self.version)
        key = (meta.get("namespace", ""), meta["name"])
        kept = self._objects.setdefault(resource, {})
        if old is not None:
            for form in resource.versions:
                self._encoded.pop((old["metadata"]["resourceVersion"], f"{resource.group}/{form}"), None)
        if kind == "DELETED":
            del kept[key]
        else:
            kept[key] = obj
        if kind != "MODIFIED":
            self._sorted.pop(resource, None)
        event = Event(kind, resource, obj, self.version, old)
        self._history.add(event)
        for listener in list(self._listeners):
            listener(event)
        return obj

    def _drop(self, resource: Resource, draft: Object) -> Object:
        meta = draft["metadata"]
        old = self.get(resource, meta.get("namespace"), meta["name"])
        return self._put("DELETED", resource, draft, old)


def _wish(obj: Object) -> Object:
    return {key: value for key, value in obj.items() if key not in ("metadata", "status")}


def _only_status(old: Object, obj: Object) -> Object:
    new = {**old, "metadata": dict(old["metadata"])}
    if "managedFields" in obj["metadata"]:
        new["metadata"]["managedFields"] = obj["metadata"]["managedFields"]
    new.pop("status", None)
    if "status" in obj:
        new["status"] = obj["status"]
    return new


def _without_status(resource: Resource, old: Object, obj: Object) -> Object:
    new = copy_of(obj)
    if resource.status:
        new.pop("status", None)
        if "status" in old:
            new["status"] = old["status"]
    return new


def _keep_identity(resource: Resource, new: Object, old: Object) -> None:
    meta, before = new["metadata"], old["metadata"]
    for name in ("uid", "creationTimestamp", "resourceVersion", "generation", "deletionTimestamp"):
        meta.pop(name, None)
        if name in before:
            meta[name] = before[name]
    if "deletionGracePeriodSeconds" in before:
        meta["deletionGracePeriodSeconds"] = before["deletionGracePeriodSeconds"]
    if resource.namespaced:
        meta["namespace"] = before["namespace"]
    new["apiVersion"], new["kind"] = resource.api_version, resource.kind


def _may_go(obj: Object) -> bool:
    meta = obj["metadata"]
    waiting = meta.get("deletionTimestamp") and not meta.get("deletionGracePeriodSeconds")
    return bool(waiting) and not meta.get("finalizers")


def _check_preconditions(resource: Resource, meta: Object, uid: str, version: str) -> None:
    if uid and uid != meta["uid"]:
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {meta['uid']}"
        raise conflict(resource, meta["name"], why)
    if version and version != meta["resourceVersion"]:
        why = "Precondition failed: ResourceVersion in precondition: "
        why += f"{version}, ResourceVersion in object meta: {meta['resourceVersion']}"
        raise conflict(resource, meta["name"], why)


def _grace(resource: Resource, obj: Object, wanted: int | None) -> int:
    if resource is not PODS or not obj.get("spec", {}).get("nodeName"):
        return 0
    if obj.get("status", {}).get("phase") in ("Succeeded", "Failed"):
        return 0
    if wanted is not None:
        return max(wanted, 0)
    return int(obj["spec"].get("terminationGracePeriodSeconds", 30))


class ContainerLog(Protocol):
    """What a container printed: lines that only grow, each with the epoch seconds it was printed at."""

    lines: list[tuple[float, bytes]]
    ended: bool

    async def wait(self, after: int) -> None:
        """Return when there are more than ``after`` lines, or the log has ended."""


class Runtime(Protocol):
    """The kubelets, as the API server reaches them."""

    def log(self, namespace: str, pod: str, container: str, previous: bool) -> ContainerLog:
        """Return what a container printed, or its previous run; ApiError when there is none."""

    async def exec(
        self,
        namespace: str,
        pod: str,
        container: str,
        argv: list[str],
        *,
        tty: bool,
        stdin: Any,
        write: Callable[[int, bytes], Any],
        resize: Any,
    ) -> int:
        """Run a command and return its exit code."""

    async def dial(self, namespace: str, pod: str, port: int) -> tuple[Any, Any]:
        """Open a byte stream to a port of a pod."""
