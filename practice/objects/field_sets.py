"""Sets of owned fields as paths, and their format in managedFields (FieldsV1)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from practice.objects.api_error import Object
from practice.objects.merge_keys import Path, is_atomic_map, is_set, item_key, list_keys

FieldPath = tuple[str, ...]
"""Steps into an object: ``f:name`` a field, ``k:{...}`` an item by its keys, ``v:...`` a member of a set."""

FieldSet = frozenset[FieldPath]

_MISSING = object()

INTERIOR = object()  # the value of a node that has nodes below it


def nodes_of(obj: Any) -> dict[FieldPath, Any]:
    """Return every node of an object by path: values of fields and list items, INTERIOR for containers."""
    return dict(_walk_nodes(obj, (), ()))


def fields_of(nodes: dict[FieldPath, Any]) -> FieldSet:
    """Return the fields that an applied object sets: its leaves, and items of map-like lists."""
    return frozenset(steps for steps, value in nodes.items() if value is not INTERIOR or steps[-1][:2] in ("k:", "v:"))


def _walk_nodes(value: Any, steps: FieldPath, path: Path) -> Iterator[tuple[FieldPath, Any]]:
    inner: dict[str, Any] | None = None
    if isinstance(value, dict) and not is_atomic_map(path):
        inner = {f"f:{key}": below for key, below in value.items()} or None
    elif isinstance(value, list):
        inner = named_items(value, path)
    if steps:
        yield steps, value if inner is None else INTERIOR
    for step, below in (inner or {}).items():
        # An item is no list any more: the empty name keeps it from being taken for one.
        yield from _walk_nodes(below, (*steps, step), (*path, step[2:] if step.startswith("f:") else ""))


def named_items(items: list[Any], path: Path) -> dict[str, Any] | None:
    """Return step -> item of a list that is a map or a set; None when it is one value."""
    path = tuple(part for part in path if part)
    if is_set(path):
        return {f"v:{json.dumps(item)}": item for item in items}
    keys = list_keys(path)
    if not keys or any(item_key(item, keys) is None for item in items):
        return None
    named = {}
    for item in items:
        values = dict(zip(keys, item_key(item, keys) or (), strict=True))
        named[f"k:{json.dumps(dict(sorted(values.items())), separators=(',', ':'))}"] = item
    return named


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
    return _simplify_leaves(root)


def _simplify_leaves(parent: Object) -> Object:
    if set(parent) == {"."}:
        return {}
    return {key: _simplify_leaves(inner) for key, inner in parent.items()}


def from_fields_v1(nested: Any) -> FieldSet:
    """Read the nested object of managedFields."""
    return frozenset(_iter_paths(nested, ()))


def _iter_paths(nested: Any, steps: FieldPath) -> Iterator[FieldPath]:
    if not isinstance(nested, dict) or not nested:
        yield steps
        return
    for step, inner in nested.items():
        if step == ".":
            yield steps
        else:
            yield from _iter_paths(inner, (*steps, step))


def format_path(steps: FieldPath) -> str:
    """Format a path as in error texts: ``.spec.containers[name="c"].image``."""
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
