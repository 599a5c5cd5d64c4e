"""Nodes of a person's YAML into values, each read as its field in the schema says, with the line it stands in."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from console.models.draft import HIDDEN, Remark
from console.models.secrecy import is_confidential
from console.parsers.schema import Schema, leaves
from console.parsers.values import nearest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from console.models.values import Value
    from console.parsers.values_text import Node

Keys = tuple[str | int, ...]

_NULL = {"", "~", "null", "Null", "NULL"}
_TRUE = {"true", "yes", "on"}
_FALSE = {"false", "no", "off"}
_INTEGER = re.compile(r"[-+]?(0|[1-9][\d_]*)|0x[\da-fA-F_]+|0o?[0-7_]+")
_NUMBER = re.compile(r"[-+]?(\d[\d_]*(\.[\d_]*)?|\.\d[\d_]*)([eE][-+]?\d+)?")
_LONGEST = 40
"""Characters of a number; longer ones are text."""
_OWN = ("launchers",)
"""What the console passes by itself; values read back from a release hold it."""


@dataclass(slots=True)
class Readout:
    """What a text gives, with everything to say of it."""

    values: dict[str, Value] = field(default_factory=dict)
    lines: dict[Keys, int] = field(default_factory=dict)
    """Where each value stands, by the way to it."""
    recipe: str = ""
    problems: list[Remark] = field(default_factory=list)
    notes: list[Remark] = field(default_factory=list)

    def line(self, keys: Keys) -> int:
        """The line of the nearest thing that has one on the way there; 0 if nothing has."""
        for length in range(len(keys), 0, -1):
            if keys[:length] in self.lines:
                return self.lines[keys[:length]]
        return 0


def read_values(root: Node | None, schema: Schema, kept: Mapping[str, Value]) -> Readout:
    """The values that a map of the text gives; `kept` holds what `(hidden)` stands for."""
    out = Readout()
    if root is not None:
        reader = _Reader(schema, out)
        out.values = reader.group(root, schema, (), kept)
        recipe = out.values.get("recipe")
        if isinstance(recipe, dict) and isinstance(recipe.get("id"), str):
            out.recipe = str(recipe.pop("id"))
            if not recipe:
                del out.values["recipe"]
    return out


class _Reader:
    def __init__(self, schema: Schema, out: Readout) -> None:
        self._known = [path for path, part in leaves(schema) if not part.get("x-hidden")]
        self._out = out

    def group(self, node: Node, part: Schema, keys: Keys, kept: Mapping[str, Value]) -> dict[str, Value]:
        """A map whose names the schema knows one by one."""
        values: dict[str, Value] = {}
        for entry in node.entries or ():
            way = (*keys, entry.name)
            self._out.lines[way] = entry.key.line
            if way in {(name,) for name in _OWN}:
                self._out.notes.append(Remark(entry.name, f"{entry.name} is brought by the console.", entry.key.line))
                continue
            inner = part["properties"].get(entry.name)
            if inner is None:
                path = ".".join(map(str, way))
                words = f"{path} is not a value of the chart{nearest(path, self._known)}"
                self._out.problems.append(Remark(path, words, entry.key.line))
                continue
            under = kept.get(entry.name)
            if "properties" in inner and entry.value.entries is not None:
                values[entry.name] = self.group(entry.value, inner, way, under if isinstance(under, Mapping) else {})
            elif "properties" in inner and not (entry.value.plain and entry.value.text in _NULL):
                words = f"{'.'.join(map(str, way))} must be a map of names and values."
                self._out.problems.append(Remark(".".join(map(str, way)), words, entry.value.line))
            elif "properties" not in inner:
                values[entry.name] = self.value(entry.value, inner, way, under)
        return values

    def value(self, node: Node, part: Schema, keys: Keys, kept: Value) -> Value:
        """Any other value; `kept` is what was there before."""
        self._out.lines.setdefault(keys, node.line)
        if node.entries is not None:
            made: dict[str, Value] = {}
            for entry in node.entries:
                self._out.lines[(*keys, entry.name)] = entry.key.line
                before = kept.get(entry.name) if isinstance(kept, Mapping) else None
                inner = _inner(part, entry.name)
                made[entry.name] = self.value(entry.value, inner, (*keys, entry.name), before)
            return made
        if node.items is not None:
            inner = _inner(part, 0)
            return [self.value(item, inner, (*keys, place), None) for place, item in enumerate(node.items)]
        if node.text == HIDDEN and (part.get("x-secret") or is_confidential(str(keys[-1]))):
            if kept is None:
                words = f"{keys[-1]} is {HIDDEN}, and there is no value before to keep."
                self._out.problems.append(Remark(".".join(map(str, keys)), words, node.line))
            return kept
        return single(node, part)


def part_at(schema: Schema, keys: Sequence[str | int]) -> Schema | None:
    """The schema of the value at the end of that way; `*` is any entry of a list. None: the schema has no such name."""
    part = schema
    for key in keys:
        if "properties" in part:
            if key not in part["properties"]:
                return None
            part = part["properties"][key]
        else:
            part = _inner(part, 0 if key == "*" else key)
    return part


def plain_value(node: Node, part: Schema) -> Value:
    """The value of a node as its part of the schema reads it, whatever else may be wrong with it."""
    if node.entries is not None:
        return {entry.name: plain_value(entry.value, _inner(part, entry.name)) for entry in node.entries}
    if node.items is not None:
        return [plain_value(item, _inner(part, 0)) for item in node.items]
    return single(node, part)


def _inner(part: Schema, key: str | int) -> Schema:
    """The schema of what lies in a list or in a map."""
    found = part.get("items") if isinstance(key, int) else part.get("properties", {}).get(key)
    if found is None and not isinstance(key, int):
        found = part.get("additionalProperties")
    return found if isinstance(found, Mapping) else {}


def single(node: Node, part: Schema) -> Value:
    """A single value as its field reads it: text keeps its spelling, 1e-5 and yes included."""
    text, kind = node.text, part.get("type")
    if node.plain and text in _NULL:
        return None
    if kind == "string" or (not node.plain and kind not in ("integer", "number", "boolean")):
        return text
    return _typed(text, str(kind or ""))


def _typed(text: str, kind: str) -> Value:
    word = text.strip()
    if kind in ("boolean", "") and word.lower() in _TRUE | _FALSE:
        return word.lower() in _TRUE
    if len(word) > _LONGEST:
        return text
    if kind != "boolean" and _INTEGER.fullmatch(word):
        return _integer(word)
    if kind in ("number", "") and _NUMBER.fullmatch(word):
        return float(word.replace("_", ""))
    return text


def _integer(word: str) -> int:
    plain = word.replace("_", "")
    digits = plain.lstrip("+-")
    if len(digits) > 1 and digits.startswith("0"):
        return int(plain, 0) if digits[1] in "xXo" else int(plain, 8)
    return int(plain)
