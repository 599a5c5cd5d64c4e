"""Validates objects against their kind: unknown fields are dropped, wrong types are refused."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from practice.api.api_fields import read_types, type_name
from practice.api.paths_and_versions import ServedKind
from practice.objects.api_error import ApiError, FieldCause, Object, bad_request, invalid_object
from practice.objects.resources import Resource

_QUANTITY = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)(([KMGTPE]i)|[numkMGTPE]|([eE][+-]?(\d+(\.\d*)?|\.\d+)))?")
_GO_QUANTITY = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_CRD_QUANTITY = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)
_KEPT_WHEN_EMPTY = frozenset({"containers", "rules"})


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_quantity(value: Any) -> bool:
    if isinstance(value, str):
        return bool(_QUANTITY.fullmatch(value))
    return _is_whole(value) or isinstance(value, float)


_CHECKS: dict[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "time": lambda value: isinstance(value, str),
    "microtime": lambda value: isinstance(value, str),
    "bytes": lambda value: isinstance(value, str),
    "bool": lambda value: isinstance(value, bool),
    "int32": _is_whole,
    "int64": _is_whole,
    "float": lambda value: _is_whole(value) or isinstance(value, float),
    "quantity": _is_quantity,
    "int-or-string": lambda value: isinstance(value, str) or _is_whole(value),
    "any": lambda value: True,
}
_OPENAPI = {"int32": "integer", "int64": "integer", "bool": "boolean", "float": "number"}


def normalize_object(served: ServedKind, obj: Object, *, keep_empty: bool = False) -> list[str]:
    """Drop unknown fields, nulls and empty values from a draft; return the paths of the unknown fields.

    Raises ApiError 400 (422 for custom kinds) for a value of the wrong type.
    """
    root = type_name(served.api_version, served.resource.kind)
    if root not in read_types():
        return []
    meta = obj.get("metadata")
    name = str(meta.get("name", "")) if isinstance(meta, dict) else ""
    walk = _ObjectNormalizer(served.version, served.resource.kind, served.resource, name, keep_empty)
    walk.normalize_struct(obj, root, "")
    return walk.unknown


def normalize_request(body: Any, api_version: str, kind: str) -> Object:
    """Return the body of a request that is no stored object (DeleteOptions). Raises ApiError 400 for wrong types."""
    if not isinstance(body, dict):
        raise bad_request(f"the object provided is unrecognized (must be of type {kind})")
    walk = _ObjectNormalizer(api_version.rpartition("/")[2], kind, None, "", keep_empty=False)
    walk.normalize_struct(body, type_name(api_version, kind), "")
    return body


@dataclass(slots=True)
class _ObjectNormalizer:
    """Validates one object; ``resource`` is None for objects that are not stored."""

    version: str
    kind: str
    resource: Resource | None
    name: str
    keep_empty: bool
    unknown: list[str] = field(default_factory=list)

    def normalize_struct(self, obj: Object, kind: str, path: str) -> None:
        fields = read_types()[kind].fields
        for key in list(obj):
            place = f"{path}.{key}" if path else key
            if key not in fields:
                self.unknown.append(place)
                del obj[key]
            elif obj[key] is None or (not obj[key] and self._is_omitted(key, fields[key], kind)):
                del obj[key]
            else:
                self.normalize_value(obj[key], fields[key], place, kind)

    def _is_omitted(self, key: str, kind: str, owner: str) -> bool:
        """Whether an empty list or map of this field is dropped, as Go's omitempty does."""
        if self.keep_empty or not kind.startswith(("[]", "{}")) or key in _KEPT_WHEN_EMPTY:
            return False
        return owner == "meta.ObjectMeta" or self.resource is None or not self.resource.is_custom

    def normalize_value(self, value: Any, kind: str, path: str, owner: str) -> None:
        if kind.startswith("[]"):
            if not isinstance(value, list):
                raise self._type_error(value, kind, path, owner)
            for at, item in enumerate(value):
                self.normalize_value(item, kind[2:], f"{path}[{at}]", owner)
        elif kind.startswith("{}"):
            if not isinstance(value, dict):
                raise self._type_error(value, kind, path, owner)
            for key, item in value.items():
                self.normalize_value(item, kind[2:], f"{path}.{key}", owner)
        elif kind in _CHECKS:
            if not _CHECKS[kind](value):
                raise self._type_error(value, kind, path, owner)
        elif not isinstance(value, dict):
            raise self._type_error(value, kind, path, owner)
        else:
            self.normalize_struct(value, kind, path)

    def _type_error(self, value: Any, kind: str, path: str, owner: str) -> ApiError:
        if self.resource is not None and self.resource.is_custom:
            return self._custom_type_error(self.resource, value, kind, path)
        return self._builtin_type_error(value, kind, path, owner)

    def _custom_type_error(self, resource: Resource, value: Any, kind: str, path: str) -> ApiError:
        if kind == "quantity" and isinstance(value, str):
            text = f"Invalid value: \"{value}\": {path} in body should match '{_CRD_QUANTITY}'"
            return invalid_object(resource, self.name, [FieldCause(path, text, "FieldValueInvalid")])
        given = _json_type_name(value, ("boolean", "integer", "number", "array", "object", "string", "null"))
        wanted = "array" if kind.startswith("[]") else _OPENAPI.get(kind, "string" if kind in _CHECKS else "object")
        text = f'Invalid value: "{given}": {path} in body must be of type {wanted}: "{given}"'
        return invalid_object(resource, self.name, [FieldCause(path, text, "FieldValueTypeInvalid")])

    def _builtin_type_error(self, value: Any, kind: str, path: str, owner: str) -> ApiError:
        name = self.kind
        head = f'{name} in version "{self.version}" cannot be handled as a {name}: '
        if kind == "quantity" and isinstance(value, str):
            return bad_request(head + _GO_QUANTITY)
        given = _json_type_name(value, ("bool", "number", "number", "array", "object", "string", "null"))
        plain = re.sub(r"\[\d+\]", "", path)
        text = f"json: cannot unmarshal {given} into Go struct field {owner.rpartition('.')[2]}.{plain} of type "
        return bad_request(head + text + _go_type_name(kind))


def _json_type_name(value: Any, type_names: tuple[str, ...]) -> str:
    """Return the JSON type of a value as Go's error texts name it."""
    kinds = (bool, int, float, list, dict, str)
    return next((word for one, word in zip(kinds, type_names, strict=False) if isinstance(value, one)), type_names[-1])


def _go_type_name(kind: str) -> str:
    if kind.startswith("[]"):
        return "[]" + _go_type_name(kind[2:])
    if kind.startswith("{}"):
        return "map[string]" + _go_type_name(kind[2:])
    if kind in _CHECKS:
        return {
            "quantity": "resource.Quantity",
            "time": "v1.Time",
            "microtime": "v1.MicroTime",
            "float": "float64",
        }.get(kind, kind)
    return kind.partition(".")[2] if kind.count(".") == 2 else "v1." + kind.partition(".")[2]
