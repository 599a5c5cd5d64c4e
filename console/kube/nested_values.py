"""Nested chart values (JSON data): read and changed by dotted paths, and merged as Helm does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from console.errors import BadInput

Value: TypeAlias = "str | int | float | bool | Sequence[Value] | Mapping[str, Value] | None"


def set_path(values: dict[str, Value], path: str, value: Value) -> None:
    """Set the value at a dotted path; missing levels are created. Raises BadInput if a level is a single value."""
    *above, last = path.split(".")
    level = values
    for name in above:
        below = level.setdefault(name, {})
        if not isinstance(below, dict):
            raise BadInput(f"{path} cannot be set: {name} is a single value.")
        level = below
    level[last] = value


def get_path(values: Mapping[str, Value], path: str) -> Value:
    """The value at a dotted path; None if there is none."""
    found: Value = values
    for name in path.split("."):
        if not isinstance(found, Mapping):
            return None
        found = found.get(name)
    return found


def merge_values(lower_values: Mapping[str, Value], upper_values: Mapping[str, Value]) -> dict[str, Value]:
    """Both trees merged level by level as Helm does: `upper_values` win, and None in them removes a lower value."""
    merged: dict[str, Value] = {
        name: merge_values(value, {}) if isinstance(value, Mapping) else value
        for name, value in lower_values.items()
        if value is not None
    }
    for name, value in upper_values.items():
        under = lower_values.get(name)
        if isinstance(value, Mapping) and isinstance(under, Mapping):
            merged[name] = merge_values(under, value)
        elif value is not None or under is None:
            merged[name] = value
        else:
            del merged[name]
    return merged


def overlay_values(lower_values: Mapping[str, Value], upper_values: Mapping[str, Value]) -> dict[str, Value]:
    """Merge values like `merge_values`, but keep None, so that it removes the name in a later merge."""
    laid = dict(lower_values)
    for name, value in upper_values.items():
        under = laid.get(name)
        if isinstance(value, Mapping):
            laid[name] = overlay_values(under if isinstance(under, Mapping) else {}, value)
        else:
            laid[name] = value
    return laid


def minimal_override(lower_values: Mapping[str, Value], values: Mapping[str, Value]) -> dict[str, Value]:
    """The smallest values that, merged over `lower_values`, give the same result as `values`."""
    least: dict[str, Value] = {}
    for name, value in values.items():
        under = lower_values.get(name)
        if isinstance(value, Mapping) and isinstance(under, Mapping):
            if part := minimal_override(under, value):
                least[name] = part
        elif (name not in lower_values and value is not None) or (name in lower_values and value != under):
            least[name] = value
    return least
