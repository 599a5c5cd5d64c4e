"""Required fields of custom kinds, from their definitions.

``data/required.txt`` holds one line per kind: its type name, then paths with the names of their required fields; ``[]``
is every item of a list.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Any

from practice.api.api_fields import type_name
from practice.api.paths_and_versions import ServedKind
from practice.objects.api_error import FieldCause, Object


@cache
def _read_rules() -> dict[str, list[tuple[list[str], list[str]]]]:
    """Return by type the rules (path, names of fields that must be there)."""
    rules = {}
    text = files("practice").joinpath("data", "required.txt").read_text(encoding="utf-8")
    for line in text.splitlines():
        name, _, listed = line.partition(": ")
        pairs = (one.split(" ") for one in listed.split(", "))
        rules[name] = [(path.split("."), names) for path, *names in pairs]
    return rules


def missing_fields(served: ServedKind, obj: Object, subresource: str) -> list[FieldCause]:
    """Return a cause for every missing required field that a write to this subresource can set."""
    causes = []
    for path, names in _read_rules().get(type_name(served.api_version, served.resource.kind), []):
        if (path[0] == "status") != (subresource == "status"):
            continue
        for place, node in _iter_nodes(obj, path, ""):
            for name in names:
                if name not in node:
                    causes.append(FieldCause(f"{place}.{name}".lstrip("."), "Required value", "FieldValueRequired"))
    return causes


def _iter_nodes(node: Any, path: list[str], file_path: str) -> Iterator[tuple[str, Object]]:
    """Yield every map at a path with wildcards, with its concrete path."""
    if not path or path == [""]:
        if isinstance(node, dict):
            yield file_path, node
        return
    if not isinstance(node, dict):
        return
    name = path[0].removesuffix("[]")
    inner, here = node.get(name), f"{file_path}.{name}".lstrip(".")
    if path[0].endswith("[]"):
        for at, item in enumerate(inner or ()):
            yield from _iter_nodes(item, path[1:], f"{here}[{at}]")
    else:
        yield from _iter_nodes(inner, path[1:], here)
