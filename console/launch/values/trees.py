"""Nested maps and lists of values that no schema describes: set, laid over each other, taken apart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from console.errors import BadInput
from console.launch.helm_command import spell_way

if TYPE_CHECKING:
    from collections.abc import Iterator

    from console.launch.helm_command import Way

MISSING = object()  # nothing stands there, not even null


def deep_merge(below: dict[str, Any], above: Mapping[str, Any]) -> None:
    """The values of `above` into `below`, level by level."""
    for name, value in above.items():
        under = below.get(name)
        if isinstance(value, Mapping) and isinstance(under, dict):
            deep_merge(under, value)
        else:
            below[name] = value


def put_at(root: dict[str, Any], way: Way, value: Any) -> None:
    """Set a value, making the maps and lists on the way there; BadInput where the way leads through a single value."""
    level: Any = root
    for name, following in zip(way, (*way[1:], None), strict=True):
        last = following is None
        if isinstance(name, int):
            if not isinstance(level, list):
                raise BadInput(f"{spell_way(way)} counts in what is not a list.")
            level += [None] * (name + 1 - len(level))
        elif not isinstance(level, dict):
            raise BadInput(f"{spell_way(way)} goes below a single value.")
        if last:
            level[name] = value
            return
        below = level.get(name) if isinstance(level, dict) else level[int(name)]
        wanted: type = list if isinstance(following, int) else dict
        if not isinstance(below, wanted):
            below = wanted()
            level[name] = below
        level = below


def pop_at(root: dict[str, Any], way: tuple[str, ...]) -> Any:
    """Take a value out of the tree, with the maps that are empty then."""
    first, *rest = way
    if first not in root:
        return MISSING
    if not rest:
        return root.pop(first)
    below = root[first]
    if not isinstance(below, dict):
        return MISSING
    found = pop_at(below, tuple(rest))
    if not below:
        del root[first]
    return found


def remaining(root: dict[str, Any], way: tuple[str, ...]) -> Any:
    """Take what is left at the end of that way; None if nothing is."""
    found = pop_at(root, way)
    return None if found is MISSING else found


def leaves_of(value: Any, way: Way) -> Iterator[tuple[Way, Any]]:
    """Every single value and the way to it; nulls left out."""
    if isinstance(value, Mapping) and value:
        for name, item in value.items():
            yield from leaves_of(item, (*way, str(name)))
    elif isinstance(value, list) and value:
        for place, item in enumerate(value):
            yield from leaves_of(item, (*way, place))
    elif value is not None:
        yield way, value
