"""ManagedFields: which manager owns which field, updated at every write, and server-side apply."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from practice.api.paths_and_versions import ApiPath
from practice.objects.api_error import ApiError, Object
from practice.objects.field_sets import (
    INTERIOR,
    FieldPath,
    FieldSet,
    fields_of,
    format_path,
    from_fields_v1,
    named_items,
    nodes_of,
    to_fields_v1,
)
from practice.objects.lifecycle import copy_of, timestamp
from practice.objects.merge_keys import Path, is_atomic_map

UPDATE, APPLY = "Update", "Apply"

_SYSTEM = (
    "name namespace uid resourceVersion generation creationTimestamp deletionTimestamp deletionGracePeriodSeconds "
    "managedFields selfLink generateName"
)
_ALWAYS_PRESENT = frozenset(
    tuple(f"f:{name}" for name in path.split("."))
    for path in (
        "spec",
        "status",
        "spec.containers",
        "spec.template",
        "spec.template.metadata",
        "spec.template.spec",
        "spec.template.spec.containers",
    )
)
"""Fields that a new object of a built-in kind has even if no manager sets them."""
_NEVER_OWNED = frozenset(("f:metadata", f"f:{name}") for name in _SYSTEM.split())


@dataclass(frozen=True, slots=True)
class _ManagerEntry:
    """The fields that one manager owns by one operation."""

    manager: str
    operation: str
    api_version: str
    subresource: str
    fields: FieldSet
    time: str

    @property
    def identity(self) -> tuple[str, str, str, str]:
        version = "" if self.operation == APPLY else self.api_version
        return (self.manager, self.operation, version, self.subresource)

    def describe_manager(self) -> str:
        """Return the text by which a conflict names this manager."""
        text = f'"{self.manager}"'
        if self.subresource:
            text += f' with subresource "{self.subresource}"'
        return f"{text} using {self.api_version}" if self.operation == UPDATE else text

    def without(self, fields: Iterable[FieldPath]) -> _ManagerEntry:
        return replace(self, fields=self.fields.difference(fields))

    def to_json(self) -> Object:
        entry: Object = {"manager": self.manager, "operation": self.operation, "apiVersion": self.api_version}
        entry |= {"time": self.time, "fieldsType": "FieldsV1", "fieldsV1": to_fields_v1(self.fields)}
        if self.subresource:
            entry["subresource"] = self.subresource
        return entry


@dataclass(frozen=True, slots=True)
class _VersionDifference:
    """The differences between two versions of an object."""

    changed: FieldSet  # added, or with another value
    removed: FieldSet

    @classmethod
    def compare(cls, old: Object | None, new: Object, target: ApiPath) -> _VersionDifference:
        before, after = _ownable_nodes(old or {}, target), _ownable_nodes(new, target)
        changed = frozenset(steps for steps, value in after.items() if steps not in before or before[steps] != value)
        changed -= {steps for steps in changed if after[steps] is INTERIOR and steps in before}
        if old is None and not target.served.resource.is_custom:
            changed -= _ALWAYS_PRESENT
        return cls(changed, frozenset(before.keys() - after.keys()))


def record_update(old: Object | None, new: Object, manager: str, target: ApiPath) -> Object:
    """Return ``new`` with managedFields that give ``manager`` all that it changed of ``old``; None: a new object."""
    given = new["metadata"].get("managedFields")
    entries = [] if given in ([], [{}]) else _manager_entries(new if given else old)
    if old is not None and not entries:
        # Who set what is only kept for objects of which it is known from the beginning, or since the first apply.
        return new
    difference = _VersionDifference.compare(old, new, target)
    if old is not None and given is not None and not difference.changed and not difference.removed:
        return new
    version, subresource = target.served.api_version, target.subresource
    own = _ManagerEntry(manager, UPDATE, version, subresource, difference.changed, timestamp(time.time()))
    kept = []
    for entry in entries:
        if entry.identity == own.identity:
            fields = (entry.fields - difference.removed) | difference.changed
            own = replace(own, fields=fields, time=own.time if difference.changed else entry.time)
        else:
            kept.append(entry.without(difference.changed | difference.removed))
    return _replace_entries(new, [*kept, own])


def server_side_apply(old: Object | None, applied: Object, manager: str, target: ApiPath, *, force: bool) -> Object:
    """Return the object with `applied` merged in, without fields that the manager applied earlier and no longer does.

    Raises ApiError 409 if others own fields with other values, unless ``force`` takes them over. ``old``: None if new.
    """
    applied = copy_of(applied)
    owned = fields_of(_ownable_nodes(applied, target))
    own = _ManagerEntry(manager, APPLY, target.served.api_version, target.subresource, owned, timestamp(time.time()))
    if old is None:
        return _replace_entries(applied, [own])
    entries = _manager_entries(old) or [_before_first_apply(old, target)]
    others = [entry for entry in entries if entry.identity != own.identity]
    mine = next((entry for entry in entries if entry.identity == own.identity), None)
    merged = _merge_applied(copy_of(old), applied, ())
    _remove_dropped_fields(merged, mine.fields if mine else frozenset(), [own, *others])
    difference = _VersionDifference.compare(old, merged, target)
    conflicts = [(entry, steps) for entry in others for steps in sorted(entry.fields & difference.changed)]
    if conflicts and not force:
        raise _conflict_error(conflicts)
    if mine and mine.fields == owned and _without_managed_fields(merged) == _without_managed_fields(old):
        own = replace(own, time=mine.time)
    kept = [entry.without(difference.removed | {steps for _, steps in conflicts}) for entry in others]
    return _replace_entries(merged, [*kept, own])


def _before_first_apply(old: Object, target: ApiPath) -> _ManagerEntry:
    """Return a manager entry that owns all fields of an object which had no managedFields."""
    fields = _VersionDifference.compare(None, old, target).changed
    return _ManagerEntry("before-first-apply", UPDATE, target.served.api_version, "", fields, timestamp(time.time()))


def _remove_dropped_fields(obj: Object, old_fields: FieldSet, entries: list[_ManagerEntry]) -> None:
    """Remove fields that the manager set before and nobody owns now; list items are removed whole."""
    held = frozenset[FieldPath]().union(*(entry.fields for entry in entries))
    for steps in sorted(old_fields - held, key=len):
        if not any(other[: len(steps)] == steps for other in held):
            _remove_field(obj, steps)


def _manager_entries(obj: Object | None) -> list[_ManagerEntry]:
    found = []
    for one in (obj or {}).get("metadata", {}).get("managedFields") or []:
        fields = from_fields_v1(one.get("fieldsV1") or {})
        names = (one.get("manager", ""), one.get("operation", UPDATE), one.get("apiVersion", ""))
        found.append(_ManagerEntry(*names, one.get("subresource", ""), fields - {()}, one.get("time", "")))
    return found


def _replace_entries(obj: Object, entries: list[_ManagerEntry]) -> Object:
    listed = [entry.to_json() for entry in entries if entry.fields]
    return {**obj, "metadata": {**obj["metadata"], "managedFields": listed}}


def _ownable_nodes(obj: Object, target: ApiPath) -> dict[FieldPath, Any]:
    """Return the nodes of an object that a write to this target can own."""
    has_status = target.served.resource.status
    own = {key: value for key, value in obj.items() if key not in ("apiVersion", "kind")}
    return {
        steps: value
        for steps, value in nodes_of(own).items()
        if steps[:2] not in _NEVER_OWNED
        and steps != ("f:metadata",)
        and not (has_status and (steps[0] == "f:status") != (target.subresource == "status"))
    }


def _without_managed_fields(obj: Object) -> Object:
    return {**obj, "metadata": {key: value for key, value in obj["metadata"].items() if key != "managedFields"}}


def _conflict_error(conflicts: list[tuple[_ManagerEntry, FieldPath]]) -> ApiError:
    causes = [
        {
            "reason": "FieldManagerConflict",
            "message": f"conflict with {entry.describe_manager()}",
            "field": format_path(steps),
        }
        for entry, steps in conflicts
    ]
    if len(conflicts) == 1:
        entry, steps = conflicts[0]
        text = f"Apply failed with 1 conflict: conflict with {entry.describe_manager()}: {format_path(steps)}"
        return ApiError(409, "Conflict", text, {"causes": causes})
    lines = []
    for entry in sorted({entry.identity: entry for entry, _ in conflicts}.values(), key=lambda entry: entry.identity):
        lines.append(f"conflicts with {entry.describe_manager()}:")
        lines += [f"- {format_path(steps)}" for other, steps in conflicts if other.identity == entry.identity]
    text = f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(lines)
    return ApiError(409, "Conflict", text, {"causes": causes})


def _merge_applied(live: Any, applied: Any, path: Path) -> Any:
    if isinstance(applied, dict) and isinstance(live, dict) and not is_atomic_map(path):
        for key, value in applied.items():
            if value is None:
                live.pop(key, None)
            else:
                live[key] = _merge_applied(live.get(key), value, (*path, key))
        return live
    if isinstance(applied, list) and isinstance(live, list):
        before, wanted = named_items(live, path), named_items(applied, path)
        if before is not None and wanted is not None:
            merged = {
                step: _merge_applied(before[step], item, path) if step in before else item
                for step, item in wanted.items()
            }
            return _order_merged_items(before, merged)
    return applied


def _order_merged_items(before: dict[str, Any], merged: dict[str, Any]) -> list[Any]:
    """Return the merged list: applied items in the order applied, the others at their old positions."""
    others, applied = list(before), list(merged)
    items: list[Any] = []
    while others or applied:
        if others and others[0] not in merged:
            items.append(before[others.pop(0)])
        elif applied:
            step = applied.pop(0)
            items.append(merged[step])
            if step in others:
                others.remove(step)
    return items


def _remove_field(obj: Object, steps: FieldPath) -> None:
    """Remove the field at a path, and the maps and lists that become empty."""
    places: list[tuple[Any, str, Path]] = []
    place: Any = obj
    path: Path = ()
    for step in steps:
        inner = _children_of(place, path)
        if step not in inner:
            return
        places.append((place, step, path))
        place = inner[step]
        path = (*path, step[2:] if step.startswith("f:") else "")
    for at, (container, step, inner_path) in enumerate(reversed(places)):
        left = _children_of(container, inner_path)[step]
        if at and left:
            return
        if isinstance(container, dict):
            del container[step[2:]]
        else:
            container.remove(left)


def _children_of(parent: Any, path: Path) -> dict[str, Any]:
    """Return step -> value of the direct children in a map or map-like list."""
    if isinstance(parent, dict):
        return {f"f:{key}": value for key, value in parent.items()}
    return (named_items(parent, path) or {}) if isinstance(parent, list) else {}
