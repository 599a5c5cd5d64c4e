"""Parses YAML that people write into values of the schema's types, with line numbers.

Values are built from the parser's events: references, tags and other YAML features that turn a few lines into gigabytes
or objects are refused with their line, and a number keeps its spelling until its field's type is known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from console.errors import BadInput
from console.kube.nested_values import Value
from console.launch.recipes import HIDDEN, Remark
from console.launch.values_schema import Schema, iter_fields, suggest_path
from trainlog import is_confidential, looks_confidential

KeyPath = tuple[str | int, ...]

_NULL_WORDS = {"", "~", "null", "Null", "NULL"}
_TRUE_WORDS = {"true", "yes", "on"}
_FALSE_WORDS = {"false", "no", "off"}
_INTEGER = re.compile(r"[-+]?(0|[1-9][\d_]*)|0x[\da-fA-F_]+|0o?[0-7_]+")
_NUMBER = re.compile(r"[-+]?(\d[\d_]*(\.[\d_]*)?|\.\d[\d_]*)([eE][-+]?\d+)?")
_MAX_NUMBER_CHARACTERS = 40  # characters of a number; longer ones are text


@dataclass(slots=True)
class ParsedValues:
    known: Sequence[str]  # paths that the schema has
    values: dict[str, Value] = field(default_factory=dict)
    lines: dict[KeyPath, int] = field(default_factory=dict)  # where each value stands, by the way to it
    recipe: str = ""
    problems: list[Remark] = field(default_factory=list)
    notes: list[Remark] = field(default_factory=list)

    def line_of(self, keys: KeyPath) -> int:
        """The line of the closest enclosing key with a known line; 0 if there is none."""
        for length in range(len(keys), 0, -1):
            if keys[:length] in self.lines:
                return self.lines[keys[:length]]
        return 0

    def parse_group(self, node: YamlNode, part: Schema, keys: KeyPath, hidden: Mapping[str, Value]) -> dict[str, Value]:
        """Parse a map whose keys are properties of the schema `part`."""
        values: dict[str, Value] = {}
        for entry in node.entries or ():
            way = (*keys, entry.name)
            self.lines[way] = entry.key.line
            if way == ("launchers",):  # values read back from a release hold it
                self.notes.append(Remark(entry.name, f"{entry.name} is brought by the console.", entry.key.line))
                continue
            inner, path = part["properties"].get(entry.name), ".".join(map(str, way))
            if inner is None:
                words = f"{path} is not a value of the chart{suggest_path(path, self.known)}"
                if path in ("name", "namespace"):
                    words = (
                        f"{path} is no value: it is the launch's own (the field of that name, or a4 launch --{path})."
                    )
                self.problems.append(Remark(path, words, entry.key.line))
                continue
            under = hidden.get(entry.name)
            if "properties" in inner and entry.value.entries is not None:
                values[entry.name] = self.parse_group(
                    entry.value, inner, way, under if isinstance(under, Mapping) else {}
                )
            elif "properties" in inner and not (entry.value.plain and entry.value.text in _NULL_WORDS):
                words = f"{path} must be a map of names and values."
                self.problems.append(Remark(path, words, entry.value.line))
            elif "properties" not in inner:
                values[entry.name] = self._parse_value(entry.value, inner, way, under)
        return values

    def _parse_value(self, node: YamlNode, part: Schema, keys: KeyPath, kept: Value) -> Value:
        """Parse any other value; `kept` is the previous value, for `(hidden)`."""
        self.lines.setdefault(keys, node.line)
        if node.entries is not None:
            made: dict[str, Value] = {}
            for entry in node.entries:
                self.lines[(*keys, entry.name)] = entry.key.line
                before = kept.get(entry.name) if isinstance(kept, Mapping) else None
                inner = _child_schema(part, entry.name)
                made[entry.name] = self._parse_value(entry.value, inner, (*keys, entry.name), before)
            return made
        if node.items is not None:
            inner = _child_schema(part, 0)
            return [self._parse_value(item, inner, (*keys, place), None) for place, item in enumerate(node.items)]
        if node.text == HIDDEN and (part.get("x-secret") or is_confidential(str(keys[-1]))):
            if kept is None:
                words = f"{keys[-1]} is {HIDDEN}, and there is no value before to keep."
                self.problems.append(Remark(".".join(map(str, keys)), words, node.line))
            return kept
        return parse_scalar(node, part)


def read_values(root: YamlNode | None, schema: Schema, hidden: Mapping[str, Value]) -> ParsedValues:
    """Parse the values of a YAML map (None: empty); `hidden` has the values behind `(hidden)`."""
    out = ParsedValues([path for path, part in iter_fields(schema) if not part.get("x-hidden")])
    if root is not None:
        out.values = out.parse_group(root, schema, (), hidden)
        recipe = out.values.get("recipe")
        if isinstance(recipe, dict) and isinstance(recipe.get("id"), str):
            out.recipe = str(recipe.pop("id"))
            if not recipe:
                del out.values["recipe"]
    return out


def find_schema(schema: Schema, keys: Sequence[str | int]) -> Schema | None:
    """The schema at a path, in which `*` is any entry of a list; None if there is no such name."""
    part = schema
    for key in keys:
        if "properties" in part:
            if key not in part["properties"]:
                return None
            part = part["properties"][key]
        else:
            part = _child_schema(part, 0 if key == "*" else key)
    return part


def parse_plain(node: YamlNode, part: Schema) -> Value:
    """The value of a node in its schema's type, without a check whether it is allowed."""
    if node.entries is not None:
        return {entry.name: parse_plain(entry.value, _child_schema(part, entry.name)) for entry in node.entries}
    if node.items is not None:
        return [parse_plain(item, _child_schema(part, 0)) for item in node.items]
    return parse_scalar(node, part)


def _child_schema(part: Schema, key: str | int) -> Schema:
    found = part.get("items") if isinstance(key, int) else part.get("properties", {}).get(key)
    if found is None and not isinstance(key, int):
        found = part.get("additionalProperties")
    return found if isinstance(found, Mapping) else {}


def parse_scalar(node: YamlNode, part: Schema) -> Value:
    """Parse a scalar to its field's type; text fields keep the spelling, also of 1e-5 and yes."""
    text, kind = node.text, part.get("type")
    if node.plain and text in _NULL_WORDS:
        return None
    if kind == "string" or (not node.plain and kind not in ("integer", "number", "boolean")):
        return text
    return _convert_scalar(text, str(kind or ""))


def _convert_scalar(text: str, kind: str) -> Value:
    word = text.strip()
    if kind in ("boolean", "") and word.lower() in _TRUE_WORDS | _FALSE_WORDS:
        return word.lower() in _TRUE_WORDS
    if len(word) > _MAX_NUMBER_CHARACTERS:
        return text
    if kind != "boolean" and _INTEGER.fullmatch(word):
        plain = word.replace("_", "")
        digits = plain.lstrip("+-")
        octal = len(digits) > 1 and digits.startswith("0") and digits[1] not in "xXo"
        return int(plain, 8 if octal else 0)
    if kind in ("number", "") and _NUMBER.fullmatch(word):
        return float(word.replace("_", ""))
    return text


MAX_TEXT_CHARACTERS = 1 << 20  # characters of a text; the values of a launch are a few thousand at most
MAX_DEPTH = 20  # levels of lists and maps within each other


@dataclass(frozen=True, slots=True)
class YamlNode:
    """One value of a YAML text, with its positions as character offsets."""

    start: int
    end: int
    line: int  # counted from 1
    column: int
    text: str = ""  # of a single value, as it is spelled
    plain: bool = False  # a single value without quotes
    flow: bool = False  # a list or map in brackets
    entries: tuple[YamlEntry, ...] | None = None  # of a map
    items: tuple[YamlNode, ...] | None = None  # of a list


@dataclass(frozen=True, slots=True)
class YamlEntry:
    name: str
    key: YamlNode
    value: YamlNode


class YamlSyntaxError(BadInput):
    """Raised for a text that is no YAML or no map of values; `remark` has the position."""

    def __init__(self, message: str, line: int = 0) -> None:
        super().__init__(f"Line {line}: {message}" if line else message)
        self.remark = Remark("", message, line)


@dataclass(slots=True)
class _YamlReader:
    text: str
    events: Iterator[Any]
    repeated: list[Remark] = field(default_factory=list)


def parse_text(text: str) -> tuple[YamlNode | None, tuple[Remark, ...]]:
    """Parse YAML into a mapping (None if empty), and its duplicate keys. Raises YamlSyntaxError."""
    import yaml  # only forms with a text, and values files, pay for it

    if len(text) > MAX_TEXT_CHARACTERS:
        raise YamlSyntaxError(f"The text has {len(text):,} characters; values have {MAX_TEXT_CHARACTERS:,} at most.")
    reading = _YamlReader(text, iter(yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))))
    try:
        return _read_document(reading), tuple(reading.repeated)
    except yaml.reader.ReaderError as error:
        place = error.position if isinstance(error.position, int) else 0
        line = text.count("\n", 0, place) + 1
        raise YamlSyntaxError("this character is not allowed in YAML.", line) from error
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(text, error) from error


def _syntax_error(text: str, error: Any) -> YamlSyntaxError:
    mark = error.problem_mark or error.context_mark
    number = mark.line + 1 if mark else 0
    lines = text.splitlines()
    line = lines[number - 1] if 0 < number <= len(lines) else ""
    for place, before in enumerate(lines[: max(number, 1)], start=1):
        if before[: len(before) - len(before.lstrip())].count("\t") and place >= number - 1:
            return YamlSyntaxError("it is indented with a tab; YAML takes spaces only.", place)
    problem = str(error.problem or "it cannot be read").replace("did not find", "there is no").replace("found ", "")
    secret = looks_confidential(line) or is_confidential(line.partition(":")[0].strip(" -\"'"))
    shown = f" ({line.strip()[:40]})" if line.strip() and not secret else ""
    return YamlSyntaxError(f"it is not YAML: {problem}{shown}.", number)


def _is_event(event: Any, kind: str) -> bool:
    return type(event).__name__ == kind


def _read_document(yaml_reader: _YamlReader) -> YamlNode | None:
    root: YamlNode | None = None
    documents = 0
    for event in yaml_reader.events:
        if _is_event(event, "DocumentStartEvent"):
            documents += 1
            if documents > 1:
                raise YamlSyntaxError("a second document begins; values are one document.", event.start_mark.line + 1)
            root = _read_node(yaml_reader, next(yaml_reader.events), 0)
    if root is None or (root.entries is None and root.items is None and root.plain and not root.text):
        return None
    if root.entries is None:
        raise YamlSyntaxError("The text must be a map of names and values, such as `gpus: 16`.", root.line)
    return root


def _read_node(yaml_reader: _YamlReader, event: Any, depth: int) -> YamlNode:
    line = event.start_mark.line + 1
    if _is_event(event, "AliasEvent") or getattr(event, "anchor", None):
        raise YamlSyntaxError("references (&name, *name) are not allowed.", line)
    if getattr(event, "tag", None):
        raise YamlSyntaxError(f"tags ({event.tag.replace('tag:yaml.org,2002:', '!!')}) may not be used.", line)
    if depth > MAX_DEPTH:
        raise YamlSyntaxError(f"it is nested more than {MAX_DEPTH} levels deep.", line)
    if _is_event(event, "MappingStartEvent"):
        return _read_map(yaml_reader, event, depth)
    if _is_event(event, "SequenceStartEvent"):
        return _read_list(yaml_reader, event, depth)
    start, end = event.start_mark.index, event.end_mark.index
    if event.style in ("|", ">"):
        end = start + len(yaml_reader.text[start:end].rstrip())
    return YamlNode(start, end, line, event.start_mark.column, str(event.value), plain=not event.style)


def _read_map(yaml_reader: _YamlReader, opened: Any, depth: int) -> YamlNode:
    entries: list[YamlEntry] = []
    seen: dict[str, int] = {}
    while not _is_event(event := next(yaml_reader.events), "MappingEndEvent"):
        key = _read_node(yaml_reader, event, depth + 1)
        if key.entries is not None or key.items is not None:
            raise YamlSyntaxError("a name must be a single word, no list or map.", key.line)
        value = _read_node(yaml_reader, next(yaml_reader.events), depth + 1)
        if key.text == "<<" and key.plain:
            raise YamlSyntaxError("merging maps (<<) is not allowed.", key.line)
        if key.text in seen:
            message = f"{key.text} is set twice, here and in line {seen[key.text]}; keep one of them."
            yaml_reader.repeated.append(Remark(key.text, message, key.line))
        seen.setdefault(key.text, key.line)
        entries.append(YamlEntry(key.text, key, value))
    first = entries[0].key if entries else None
    block = not opened.flow_style and first is not None
    return YamlNode(
        first.start if block and first else opened.start_mark.index,
        entries[-1].value.end if block else event.end_mark.index,
        opened.start_mark.line + 1,
        first.column if block and first else opened.start_mark.column,
        flow=bool(opened.flow_style),
        entries=tuple(entries),
    )


def _read_list(yaml_reader: _YamlReader, opened: Any, depth: int) -> YamlNode:
    items: list[YamlNode] = []
    while not _is_event(event := next(yaml_reader.events), "SequenceEndEvent"):
        items.append(_read_node(yaml_reader, event, depth + 1))
    block = not opened.flow_style and items
    return YamlNode(
        opened.start_mark.index,
        items[-1].end if block else event.end_mark.index,
        opened.start_mark.line + 1,
        opened.start_mark.column,
        flow=bool(opened.flow_style),
        items=tuple(items),
    )
