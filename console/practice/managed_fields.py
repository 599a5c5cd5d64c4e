"""Who set which field: kept at every write, and what server-side apply decides by."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from console.practice.field_sets import (
    FieldPath,
    FieldSet,
    fields_of,
    from_fields_v1,
    is_leaf,
    named_items,
    to_fields_v1,
    value_at,
    written,
)
from console.practice.lifecycle import copy_of, timestamp
from console.practice.merge_keys import Path, is_atomic_map
from console.practice.refusal import ApiError, Object

if TYPE_CHECKING:
    from console.practice.serving import Target

UPDATE, APPLY = "Update", "Apply"

_SYSTEM = (
    "name namespace uid resourceVersion generation creationTimestamp deletionTimestamp deletionGracePeriodSeconds "
    "managedFields selfLink generateName"
)
_NEVER_OWNED = frozenset(("f:metadata", f"f:{name}") for name in _SYSTEM.split())


@dataclass(frozen=True, slots=True)
class _Entry:
    """What one manager owns by one way of writing."""

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

    def described(self) -> str:
        """Return the words a conflict names it by."""
        text = f'"{self.manager}"'
        if self.subresource:
            text += f' with subresource "{self.subresource}"'
        return f"{text} using {self.api_version}" if self.operation == UPDATE else text

    def to_json(self) -> Object:
        entry: Object = {"manager": self.manager, "operation": self.operation, "apiVersion": self.api_version}
        entry |= {"time": self.time, "fieldsType": "FieldsV1", "fieldsV1": to_fields_v1(self.fields)}
        if self.subresource:
            entry["subresource"] = self.subresource
        return entry


def record_update(old: Object | None, new: Object, manager: str, target: Target) -> Object:
    """Return the new object with managedFields that give all it changed to its manager."""
    given = new["metadata"].get("managedFields")
    entries = [] if given in ([], [{}]) else _entries(new if given else old)
    before, after = _owned(old or {}, target), _owned(new, target)
    changed = frozenset(steps for steps in after if _differs(old, new, steps))
    gone = before - after
    if not changed and not gone and given is not None and old is not None:
        return new
    own = _Entry(manager, UPDATE, target.served.api_version, target.subresource, changed, timestamp(time.time()))
    kept = []
    for entry in entries:
        if entry.identity == own.identity:
            merged = (entry.fields | changed) - gone
            own = replace(own, fields=merged, time=own.time if merged != entry.fields or changed else entry.time)
        else:
            kept.append(replace(entry, fields=entry.fields - changed - gone))
    return _with(new, [*kept, own])


def apply(old: Object | None, applied: Object, manager: str, target: Target, *, force: bool) -> Object:
    """Return the object with what a manager applies merged in, and without what it applied before and no longer does.

    ApiError 409 when others own fields with other values, unless ``force`` takes them over.
    """
    applied = copy_of(applied)
    owned = _owned(applied, target)
    own = _Entry(manager, APPLY, target.served.api_version, target.subresource, owned, timestamp(time.time()))
    if old is None:
        return _with(applied, [own])
    entries = _entries(old)
    others = [entry for entry in entries if entry.identity != own.identity]
    mine = next((entry for entry in entries if entry.identity == own.identity), None)
    conflicts = [(entry, steps) for entry in others for steps in sorted(owned & entry.fields)]
    conflicts = [(entry, steps) for entry, steps in conflicts if _conflicts(old, applied, steps)]
    if conflicts and not force:
        raise _conflict(conflicts)
    taken = frozenset(steps for _, steps in conflicts)
    merged = _merge(copy_of(old), applied, ())
    held = frozenset[FieldPath]().union(*(entry.fields for entry in others))
    for steps in sorted((mine.fields if mine else frozenset()) - owned, key=len):
        if not any(other[: len(steps)] == steps for other in held | owned):
            _remove(merged, steps)
    if mine and mine.fields == owned and not taken and _plain(merged) == _plain(old):
        own = replace(own, time=mine.time)
    return _with(merged, [*(replace(entry, fields=entry.fields - taken) for entry in others), own])


def _entries(obj: Object | None) -> list[_Entry]:
    found = []
    for one in (obj or {}).get("metadata", {}).get("managedFields") or []:
        fields = from_fields_v1(one.get("fieldsV1") or {})
        names = (one.get("manager", ""), one.get("operation", UPDATE), one.get("apiVersion", ""))
        found.append(_Entry(*names, one.get("subresource", ""), fields - {()}, one.get("time", "")))
    return found


def _with(obj: Object, entries: list[_Entry]) -> Object:
    listed = [entry.to_json() for entry in entries if entry.fields]
    return {**obj, "metadata": {**obj["metadata"], "managedFields": listed}}


def _owned(obj: Object, target: Target) -> FieldSet:
    """Return the fields of an object that a write to this target can own."""
    has_status = target.served.resource.status
    owned = set()
    for steps in fields_of({key: value for key, value in obj.items() if key not in ("apiVersion", "kind")}):
        if not steps or steps[:2] in _NEVER_OWNED or steps == ("f:metadata",):
            continue
        if has_status and (steps[0] == "f:status") != (target.subresource == "status"):
            continue
        owned.add(steps)
    return frozenset(owned)


def _differs(old: Object | None, new: Object, steps: FieldPath) -> bool:
    if old is None:
        return True
    before = value_at(old, steps)
    if steps[-1].startswith("k:") and isinstance(before, dict):
        return False
    return bool(before != value_at(new, steps))


def _conflicts(old: Object, applied: Object, steps: FieldPath) -> bool:
    return is_leaf(applied, steps) and value_at(old, steps) != value_at(applied, steps)


def _plain(obj: Object) -> Object:
    return {**obj, "metadata": {key: value for key, value in obj["metadata"].items() if key != "managedFields"}}


def _conflict(conflicts: list[tuple[_Entry, FieldPath]]) -> ApiError:
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {entry.described()}", "field": written(steps)}
        for entry, steps in conflicts
    ]
    if len(conflicts) == 1:
        entry, steps = conflicts[0]
        text = f"Apply failed with 1 conflict: conflict with {entry.described()}: {written(steps)}"
        return ApiError(409, "Conflict", text, {"causes": causes})
    lines = []
    for entry in sorted({entry.identity: entry for entry, _ in conflicts}.values(), key=lambda entry: entry.identity):
        lines.append(f"conflicts with {entry.described()}:")
        lines += [f"- {written(steps)}" for other, steps in conflicts if other.identity == entry.identity]
    text = f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(lines)
    return ApiError(409, "Conflict", text, {"causes": causes})


def _merge(live: Any, applied: Any, path: Path) -> Any:
    if isinstance(applied, dict) and isinstance(live, dict) and not is_atomic_map(path):
        for key, value in applied.items():
            if value is None:
                live.pop(key, None)
            else:
                live[key] = _merge(live.get(key), value, (*path, key))
        return live
    if isinstance(applied, list) and isinstance(live, list):
        before, wanted = named_items(live, path), named_items(applied, path)
        if before is not None and wanted is not None:
            merged = {step: _merge(item, wanted.get(step, item), path) for step, item in before.items()}
            return (
                list({**wanted, **merged}.values()) if not before else list({**merged, **_new(wanted, merged)}.values())
            )
    return applied


def _new(wanted: dict[str, Any], merged: dict[str, Any]) -> dict[str, Any]:
    return {step: item for step, item in wanted.items() if step not in merged}


def _remove(obj: Object, steps: FieldPath) -> None:
    """Take away what stands at a path, and the maps and lists that are empty then."""
    places: list[tuple[Any, str, Path]] = []
    place: Any = obj
    path: Path = ()
    for step in steps:
        places.append((place, step, path))
        place = value_at(place, (step,)) if step.startswith("f:") else (named_items(place, path) or {}).get(step)
        if step.startswith("f:"):
            path = (*path, step[2:])
        if not isinstance(place, dict | list) and step is not steps[-1]:
            return
    for at, (container, step, inner) in enumerate(reversed(places)):
        left = (
            value_at(container, (step,)) if step.startswith("f:") else (named_items(container, inner) or {}).get(step)
        )
        if at and left:
            return
        if step.startswith("f:"):
            container.pop(step[2:], None)
        else:
            item = (named_items(container, inner) or {}).get(step)
            if item in container:
                container.remove(item)
