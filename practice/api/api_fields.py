"""The types of the published API: the fields of each with their types and protobuf numbers.

``data/fields.txt`` holds one line per type: its name, then its fields as ``name=number type``. No type means string, a
``?`` after the type that an explicit zero differs from none; ``[]`` is a list, ``{}`` a map; a nameless field is a
message whose fields JSON has one level higher. Custom kinds have no numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files

_PROTOBUF_PACKAGES = {"": "core", "meta.k8s.io": "meta", "rbac.authorization.k8s.io": "rbac"}


@dataclass(frozen=True, slots=True)
class NumberedField:
    """A protobuf field; an empty name is a message whose fields are inlined."""

    name: str
    type: str
    optional: bool


@dataclass(frozen=True, slots=True)
class FieldTypes:
    """The fields of one API type: by name their JSON type, by number their protobuf field."""

    fields: dict[str, str] = field(default_factory=dict)
    numbers: dict[int, NumberedField] = field(default_factory=dict)


@cache
def read_types() -> dict[str, FieldTypes]:
    """Return every type by its name, such as ``core.v1.Pod``; read from the data file at the first call."""
    text = files("practice").joinpath("data", "fields.txt").read_text(encoding="utf-8")
    return dict(_parse_line(line) for line in text.splitlines())


def _parse_line(line: str) -> tuple[str, FieldTypes]:
    name, _, listed = line.partition(": ")
    found = FieldTypes()
    for one in listed.split(", "):
        head, _, kind = one.partition(" ")
        key, _, number = head.partition("=")
        plain = kind.removesuffix("?") or "string"
        if key:
            found.fields[key] = plain
        if number:
            found.numbers[int(number)] = NumberedField(key, plain, kind.endswith("?"))
    return name, found


def type_name(api_version: str, kind: str) -> str:
    """Return the name of the type of a kind: ``batch/v1`` and ``Job`` give ``batch.v1.Job``."""
    group, _, version = api_version.rpartition("/")
    package = _PROTOBUF_PACKAGES.get(group, group.split(".")[0])
    return f"{package}.{version}.{kind}" if kind != "DeleteOptions" else "meta.DeleteOptions"
