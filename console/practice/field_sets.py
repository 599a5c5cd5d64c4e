"""Which fields of an object somebody owns: sets of paths, as managedFields writes them (FieldsV1)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from console.practice.merge_keys import Path, is_atomic_map, is_set, key_of, list_keys

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from console.practice.refusal import Object

FieldPath = tuple[str, ...]
"""Steps into an object: ``f:name`` a field, ``k:{...}`` an item by its keys, ``v:...`` a member of a set."""

FieldSet = frozenset[FieldPath]

_MISSING = object()


def fields_of(obj: Any) -> FieldSet:
    """Return every field an object sets: its leaves, and the items of its map-like lists."""
    return frozenset(_walk(obj, (), ()))


def _walk(value: Any, steps: FieldPath, path: Path) -> Iterator[FieldPath]:
    if isinstance(value, dict) and value and not is_atomic_map(path):
        for key, inner in value.items():
            yield from _walk(inner, (*steps, f"f:{key}"), (*path, key))
        return
    if isinstance(value, list):
        named = named_items(value, path)
        if named is not None:
            for step, item in named.items():
                yield (*steps, step)
                if isinstance(item, dict):
                    yield from _walk(item, (*steps, step), (*path[:-1], f"{path[-1]}", ""))
            return
    yield steps


def named_items(items: list[Any], path: Path) -> dict[str, Any] | None:
    """Return step -> item of a list that is a map or a set; None when it is one value."""
    path = tuple(part for part in path if part)
    if is_set(path):
        return {f"v:{json.dumps(item)}": item for item in items}
    keys = list_keys(path)
    if not keys or any(key_of(item, keys) is None for item in items):
        return None
    named = {}
    for item in items:
        values = dict(zip(keys, key_of(item, keys) or (), strict=True))
        named[f"k:{json.dumps(dict(sorted(values.items())), separators=(',', ':'))}"] = item
    return named


def value_at(obj: Any, steps: FieldPath) -> Any:
    """Return what stands at a path; MISSING when nothing does."""
    path: Path = ()
    for step in steps:
        kind, _, name = step.partition(":")
        if kind == "f":
            if not isinstance(obj, dict) or name not in obj:
                return _MISSING
            obj, path = obj[name], (*path, name)
        else:
            named = named_items(obj, path) if isinstance(obj, list) else None
            if named is None or step not in named:
                return _MISSING
            obj = named[step]
    return obj


def is_leaf(obj: Any, steps: FieldPath) -> bool:
    """Whether a path ends in a value that is owned whole, not in something with fields of its own."""
    value = value_at(obj, steps)
    return not (isinstance(value, dict) and value and steps[-1].startswith("k:"))


def to_fields_v1(fields: Iterable[FieldPath]) -> Object:
    """Return a set of paths as the nested object managedFields carries."""
    root: Object = {}
    for steps in sorted(fields):
        place = root
        for step in steps:
            place = place.setdefault(step, {})
        if steps and steps[-1].startswith(("k:", "v:")):
            place.setdefault(".", {})
    for steps in fields:
        place = root
        for step in steps:
            place = place[step]
        if set(place) - {"."}:
            place["."] = {}
    return _tidy(root)


def _tidy(place: Object) -> Object:
    if set(place) == {"."}:
        return {}
    return {key: _tidy(inner) for key, inner in place.items()}


def from_fields_v1(nested: Any) -> FieldSet:
    """Read the nested object of managedFields."""
    return frozenset(_read(nested, ()))


def _read(nested: Any, steps: FieldPath) -> Iterator[FieldPath]:
    if not isinstance(nested, dict) or not nested:
        yield steps
        return
    for step, inner in nested.items():
        if step == ".":
            yield steps
        else:
            yield from _read(inner, (*steps, step))


def written(steps: FieldPath) -> str:
    """Return a path as error texts write it: ``.spec.containers[name="c"].image``."""
    text = ""
    for step in steps:
        kind, _, name = step.partition(":")
        if kind == "f":
            text += f".{name}"
        elif kind == "k":
            pairs = json.loads(name)
            text += "[" + ",".join(f"{key}={json.dumps(value)}" for key, value in pairs.items()) + "]"
        else:
            text += f"[={name}]"
    return text
