"""Strategic merge patch: merges map-like lists by key and follows directives."""

from __future__ import annotations

from typing import Any

from practice.objects.api_error import bad_request
from practice.objects.merge_keys import Path, is_set, strategic_key

_ORDER = "$setElementOrder/"
_FROM_SET = "$deleteFromPrimitiveList/"


def strategic_merge(target: Any, patch: Any, path: Path = ()) -> Any:
    """Return ``target`` with ``patch`` merged in. Raises ApiError 400 for an unknown directive."""
    if not isinstance(patch, dict):
        return patch
    directive = patch.get("$patch")
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != "$patch"}
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        raise bad_request(f"unknown patch type: {directive}")
    merged = dict(target) if isinstance(target, dict) else {}
    retained = patch.get("$retainKeys", merged)
    merged = {key: value for key, value in merged.items() if key in retained}
    for key, value in patch.items():
        if not key.startswith("$"):
            _merge_field(merged, key, value, (*path, key))
    _apply_directives(merged, patch, path)
    return merged


def _apply_directives(merged: dict[str, Any], patch: dict[str, Any], path: Path) -> None:
    """Apply the directives on other fields: deleted set members, then list order."""
    for key, value in patch.items():
        if key.startswith(_FROM_SET):
            name = key.removeprefix(_FROM_SET)
            merged[name] = [item for item in merged.get(name, []) if item not in value]
    for key, value in patch.items():
        if key.startswith(_ORDER):
            _apply_order(merged, key.removeprefix(_ORDER), value, path)


def _merge_field(merged: dict[str, Any], key: str, value: Any, path: Path) -> None:
    if value is None:
        merged.pop(key, None)
    elif isinstance(value, list):
        merged[key] = _merge_list(merged.get(key) or [], value, path)
    else:
        merged[key] = strategic_merge(merged.get(key), value, path)


def _merge_list(target: list[Any], patch: list[Any], path: Path) -> list[Any]:
    if is_set(path):
        if not all(isinstance(item, str) for item in patch):
            raise bad_request(f"cannot merge {patch} into a set of names")
        return sorted({*target, *patch})
    key = strategic_key(path)
    if any(isinstance(item, dict) and item.get("$patch") == "replace" for item in patch):
        return [item for item in patch if "$patch" not in item]
    if not key or not all(isinstance(item, dict) for item in patch):
        return patch
    merged = list(target)
    for item in patch:
        if key not in item:
            raise bad_request(f"map: {item} does not contain declared merge key: {key}")
        at = next((at for at, one in enumerate(merged) if one.get(key) == item[key]), None)
        if item.get("$patch") == "delete":
            merged = [one for one in merged if one.get(key) != item[key]]
        elif at is None:
            merged.append(strategic_merge({}, item, path))
        else:
            merged[at] = strategic_merge(merged[at], item, path)
    return merged


def _apply_order(merged: dict[str, Any], name: str, order: list[Any], path: Path) -> None:
    """Sort a list's items as requested; unnamed ones stay behind their predecessor."""
    items = merged.get(name)
    if not isinstance(items, list):
        return
    key = strategic_key((*path, name))

    def known_as(item: Any) -> Any:
        return item.get(key) if key and isinstance(item, dict) else item

    wanted = [known_as(item) for item in order]
    named = sorted((item for item in items if known_as(item) in wanted), key=lambda item: wanted.index(known_as(item)))
    merged[name] = [*named, *(item for item in items if known_as(item) not in wanted)]
