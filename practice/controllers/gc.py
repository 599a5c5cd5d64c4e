"""The garbage collector: dependents are deleted with their owner, by the foreground, background or orphan policy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

from practice.controllers.base import Controller
from practice.controllers.objects import Key, Object, drop_finalizer, is_being_deleted, key_of
from practice.objects.api_error import ApiError
from practice.objects.resources import BY_KIND, EVENTS, NAMESPACES, RESOURCES, SERVICEACCOUNTS, Resource

_FOREGROUND, _ORPHAN = "foregroundDeletion", "orphan"


class GarbageCollector(Controller):
    """Deletes objects whose owner is gone. Its keys are (uid of an owner, "")."""

    def watches(self) -> dict[Resource, Callable[[Object], Iterable[Key]]]:
        """Return for all kinds the uids to reconcile when an object changes: its own and its owners'."""
        return {resource: self._affected_owners for resource in RESOURCES if resource is not EVENTS}

    def _affected_owners(self, obj: Object) -> Iterator[Key]:
        for owner in obj["metadata"].get("ownerReferences") or ():
            if self._find_owner(obj, owner) is None or is_being_deleted(obj):
                yield owner["uid"], ""
        if is_being_deleted(obj) or (
            (resource := _resource_of(obj)) is not None and self.storage.find(resource, *key_of(obj)) is None
        ):
            yield obj["metadata"]["uid"], ""

    def reconcile(self, key: Key) -> None:
        """Delete or orphan the dependents of one owner, by uid."""
        uid = key[0]
        owner, dependents = None, []
        for resource in RESOURCES:
            if resource is EVENTS:
                continue
            for obj in self.storage.list(resource):
                if obj["metadata"]["uid"] == uid:
                    owner = (resource, obj)
                if any(item["uid"] == uid for item in obj["metadata"].get("ownerReferences") or ()):
                    dependents.append((resource, obj))
        if owner is None:
            for resource, obj in dependents:
                self._delete_object(resource, obj, "Background")
            return
        if is_being_deleted(owner[1]):
            self._remove_deletion_finalizers(owner, dependents)

    def _remove_deletion_finalizers(
        self, owner: tuple[Resource, Object], dependents: list[tuple[Resource, Object]]
    ) -> None:
        resource, obj = owner
        finalizers = obj["metadata"].get("finalizers") or ()
        uid = obj["metadata"]["uid"]
        if _ORPHAN in finalizers:
            for kind, item in dependents:
                self.storage.modify(kind, *key_of(item), lambda draft: _remove_owner_reference(draft, uid))
            self._remove_finalizer(resource, obj, _ORPHAN)
        elif _FOREGROUND in finalizers:
            holding = [pair for pair in dependents if _blocks_owner_deletion(pair[1], uid)]
            for kind, item in dependents:
                self._delete_object(kind, item, "Foreground" if _has_dependents(kind) else "Background")
            if not any(self.storage.find(kind, *key_of(item)) for kind, item in holding):
                self._remove_finalizer(resource, obj, _FOREGROUND)

    def _remove_finalizer(self, resource: Resource, obj: Object, finalizer: str) -> None:
        with suppress(ApiError):  # gone in the meantime
            self.storage.modify(resource, *key_of(obj), lambda draft: drop_finalizer(draft, finalizer))

    def _delete_object(self, resource: Resource, obj: Object, propagation: str) -> None:
        if is_being_deleted(obj) or self.storage.find(resource, *key_of(obj)) is None:
            return
        with suppress(ApiError):  # gone in the meantime
            self.storage.delete(resource, *key_of(obj), propagation=propagation)

    def _find_owner(self, obj: Object, owner: Object) -> Object | None:
        group, _, _ = owner["apiVersion"].rpartition("/")
        resource = BY_KIND.get((group, owner["kind"]))
        if resource is None:
            return obj  # a kind that is not served here is taken to exist
        found = self.storage.find(resource, obj["metadata"].get("namespace"), owner["name"])
        return found if found is not None and found["metadata"]["uid"] == owner["uid"] else None


class NamespaceController(Controller):
    """Creates the default ServiceAccount of a namespace, and empties a namespace that is being deleted."""

    def watches(self) -> dict[Resource, Callable[[Object], Iterable[Key]]]:
        inside = {resource: self._parent for resource in RESOURCES if resource.namespaced and resource is not EVENTS}
        return {**inside, NAMESPACES: lambda obj: [key_of(obj)], SERVICEACCOUNTS: _namespace_of}

    def _parent(self, obj: Object) -> list[Key]:
        found = self.storage.find(NAMESPACES, "", obj["metadata"]["namespace"])
        return [key_of(found)] if found is not None and is_being_deleted(found) else []

    def reconcile(self, key: Key) -> None:
        namespace = self.storage.find(NAMESPACES, *key)
        if namespace is None:
            return
        if not is_being_deleted(namespace):
            if self.storage.find(SERVICEACCOUNTS, key[1], "default") is None:
                self.storage.create(SERVICEACCOUNTS, {"metadata": {"name": "default", "namespace": key[1]}})
            return
        left = 0
        for resource in RESOURCES:
            if not resource.namespaced:
                continue
            for obj in self.storage.list(resource, key[1]):
                if not is_being_deleted(obj):
                    self.storage.delete(resource, *key_of(obj))
                left += self.storage.find(resource, *key_of(obj)) is not None
        if not left:
            self.storage.modify(NAMESPACES, *key, lambda draft: draft["spec"].update(finalizers=[]))


def _namespace_of(obj: Object) -> list[Key]:
    return [("", obj["metadata"]["namespace"])]


def _resource_of(obj: Object) -> Resource | None:
    group, _, _ = obj["apiVersion"].rpartition("/")
    return BY_KIND.get((group, obj["kind"]))


def _blocks_owner_deletion(obj: Object, uid: str) -> bool:
    owners = obj["metadata"].get("ownerReferences") or ()
    return any(owner["uid"] == uid and owner.get("blockOwnerDeletion") for owner in owners)


def _remove_owner_reference(obj: Object, uid: str) -> None:
    owners = [owner for owner in obj["metadata"].get("ownerReferences") or () if owner["uid"] != uid]
    if owners:
        obj["metadata"]["ownerReferences"] = owners
    else:
        obj["metadata"].pop("ownerReferences", None)


def _has_dependents(resource: Resource) -> bool:
    return resource.kind in ("Job", "JobSet")
