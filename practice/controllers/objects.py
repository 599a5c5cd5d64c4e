"""Helpers on objects for all controllers: labels, owners, conditions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from practice.clock import format_timestamp

if TYPE_CHECKING:
    from collections.abc import Iterable

    from practice.objects.resources import Resource

Object = dict[str, Any]
Key = tuple[str, str]  # namespace (empty for cluster objects) and name


def key_of(obj: Object) -> Key:
    meta = obj["metadata"]
    return meta.get("namespace", ""), meta["name"]


def labels_of(obj: Object) -> dict[str, str]:
    found: dict[str, str] = obj["metadata"].get("labels") or {}
    return found


def annotations_of(obj: Object) -> dict[str, str]:
    found: dict[str, str] = obj["metadata"].get("annotations") or {}
    return found


def owner_reference(owner: Object) -> Object:
    """Return the owner reference that makes ``owner`` the controller of an object."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def controller_of(obj: Object) -> Object | None:
    """Return the owner reference of the controller of an object; None if it has none."""
    for owner in obj["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            found: Object = owner
            return found
    return None


def is_controlled_by(obj: Object, owner: Object) -> bool:
    """Whether ``owner`` controls ``obj``."""
    found = controller_of(obj)
    return found is not None and found["uid"] == owner["metadata"]["uid"]


def controlled_by(items: Iterable[Object], owner: Object) -> list[Object]:
    """Return the items that ``owner`` controls."""
    return [item for item in items if is_controlled_by(item, owner)]


def owner_keys(obj: Object, resource: Resource) -> list[Key]:
    """Return the key of the controlling owner if it is of that kind, as a list."""
    owner = controller_of(obj)
    if owner is None or owner["kind"] != resource.kind:
        return []
    return [(obj["metadata"].get("namespace", ""), owner["name"])]


def is_being_deleted(obj: Object) -> bool:
    return bool(obj["metadata"].get("deletionTimestamp"))


def find_condition(obj: Object, kind: str) -> Object | None:
    """Return the condition of that type, None if there is none."""
    for found in obj.get("status", {}).get("conditions") or ():
        if found.get("type") == kind and "status" in found:
            result: Object = found
            return result
    return None


def is_true(obj: Object, kind: str) -> bool:
    """Whether the condition of that type is True."""
    found = find_condition(obj, kind)
    return found is not None and found["status"] == "True"


def set_condition(
    obj: Object, kind: str, status: bool, reason: str, message: str, now: float, *, generation: int | None = None
) -> bool:
    """Write a condition into ``obj``, a draft; returns whether it changed. Its transition time moves with `status`."""
    conditions = obj.setdefault("status", {}).setdefault("conditions", [])
    word = "True" if status else "False"
    new: Object = {
        "type": kind,
        "status": word,
        "lastTransitionTime": format_timestamp(now),
        "reason": reason,
        "message": message,
    }
    if generation is not None:
        new["observedGeneration"] = generation
    old = find_condition(obj, kind)
    if old is None:
        conditions.append(new)
        return True
    if old["status"] == word:
        new["lastTransitionTime"] = old["lastTransitionTime"]
    if old == new:
        return False
    old.clear()
    old.update(new)
    return True


def drop_finalizer(obj: Object, finalizer: str) -> None:
    meta = obj["metadata"]
    kept = [name for name in meta.get("finalizers") or () if name != finalizer]
    if kept:
        meta["finalizers"] = kept
    else:
        meta.pop("finalizers", None)
