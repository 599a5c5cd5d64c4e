"""JSON patch (RFC 6902) and JSON merge patch (RFC 7386)."""

from __future__ import annotations

from typing import Any

from practice.objects.api_error import ApiError, Object, bad_request
from practice.objects.lifecycle import copy_of

_MISSING = object()


def merge_patch(target: Any, patch: Any) -> Any:
    """Return ``target`` with ``patch`` merged in; null removes."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value)
    return merged


def json_patch(target: Object, operations: Any) -> Object:
    """Return ``target`` after all operations. Raises ApiError 422 if one does not apply, 400 if they are invalid."""
    if not isinstance(operations, list) or not all(isinstance(one, dict) for one in operations):
        raise bad_request("error decoding patch: json: cannot unmarshal object into Go value of type jsonpatch.Patch")
    root: Object = {"": target}
    for one in operations:
        _apply_operation(root, one)
    if not isinstance(root[""], dict):
        raise bad_request("the patch leaves no object")
    return dict(root[""])


def _apply_operation(root: Object, operation: Object) -> None:
    path = _parse_pointer(operation.get("path"))
    match operation.get("op"):
        case "add":
            _add_at(root, path, _value_of(operation))
        case "remove":
            _remove_at(root, path)
        case "replace":
            _replace_at(root, path, _value_of(operation))
        case "move":
            _add_at(root, path, _remove_at(root, _parse_pointer(operation.get("from"))))
        case "copy":
            _add_at(root, path, copy_of({"": _find_at(root, _parse_pointer(operation.get("from")))})[""])
        case "test":
            if _find_at(root, path, missing=None) != operation.get("value"):
                raise _invalid_patch()
        case unknown:
            raise bad_request(f"Unexpected kind: {unknown}")


def _parse_pointer(text: object) -> list[str]:
    if not isinstance(text, str) or (text and not text.startswith("/")):
        raise _invalid_patch()
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")]


def _value_of(operation: Object) -> Any:
    if "value" not in operation:
        raise _invalid_patch()
    return operation["value"]


def _find_at(root: Object, path: list[str], missing: Any = _MISSING) -> Any:
    place: Any = root
    for part in path:
        place = _child_of(place, part)
        if place is _MISSING:
            if missing is _MISSING:
                raise _invalid_patch()
            return missing
    return place


def _child_of(parent: Any, part: str) -> Any:
    if isinstance(parent, dict):
        return parent.get(part, _MISSING)
    if isinstance(parent, list) and part.isdigit() and int(part) < len(parent):
        return parent[int(part)]
    return _MISSING


def _add_at(root: Object, path: list[str], value: Any) -> None:
    place, last = _find_at(root, path[:-1]), path[-1]
    if isinstance(place, dict):
        place[last] = value
    elif isinstance(place, list) and last == "-":
        place.append(value)
    elif isinstance(place, list) and last.isdigit() and int(last) <= len(place):
        place.insert(int(last), value)
    else:
        raise _invalid_patch()


def _replace_at(root: Object, path: list[str], value: Any) -> None:
    """Replace a value; in a map the key may be new, as in the API server's patch library."""
    place = _find_at(root, path[:-1])
    if isinstance(place, list):
        _remove_at(root, path)
    _add_at(root, path, value)


def _remove_at(root: Object, path: list[str]) -> Any:
    place, last = _find_at(root, path[:-1]), path[-1]
    if _child_of(place, last) is _MISSING:
        raise _invalid_patch()
    return place.pop(int(last) if isinstance(place, list) else last)


def _invalid_patch() -> ApiError:
    return ApiError(422, "Invalid", "the server rejected our request due to an error in our request")
