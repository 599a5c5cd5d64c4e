"""Writes values as YAML: new, with explanations, or as edits in place, since YAML libraries lose comments."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field as dataclass_field
from typing import TYPE_CHECKING

from console.kube.nested_values import Value
from console.launch.recipes import Field, Recipe
from console.launch.yaml_read import YamlEntry, YamlNode, YamlSyntaxError, parse_text

if TYPE_CHECKING:
    HasValue = Callable[[tuple[str, ...], YamlNode, Value], bool]  # whether a node of the text says that value
    CanStay = Callable[
        [tuple[str, ...], YamlNode], bool
    ]  # whether a node may stay though the values have nothing there

_PLAIN_TEXT = re.compile(r"[A-Za-z_/][\w./@+-]*(?:[:=][\w./@+-]+)*|\d[\w.-]*[A-Za-z_][\w./-]*")
_NOT_PLAIN = re.compile(  # not text to every YAML reader: Helm's is of YAML 1.1
    r"y|n|yes|no|on|off|true|false|null|[-+.]?[\d_,.:]*(?:e[-+]?\d+)?|0x[\da-f_]+|0o[0-7_]+|\.?(?:nan|inf)"
    r"|\d{4}-\d\d?-\d\d?.*",
    re.IGNORECASE,
)
_BLOCK_TEXT = re.compile(r"(?:[^ \t\n\x00-\x1f\x7f-\x9f\ufeff][^\x00-\x09\x0b-\x1f\x7f-\x9f\ufeff]*)", re.DOTALL)


def write_values(values: Mapping[str, Value]) -> str:
    """A map as YAML that YAML 1.1 and 1.2 parse alike, in the map's order; empty for no values."""
    return "".join(f"{line}\n" for line in _map_lines(values)) if values else ""


def _map_lines(values: Mapping[str, Value]) -> list[str]:
    lines: list[str] = []
    for name, value in values.items():
        lines += entry_lines(name, value)
    return lines


def entry_lines(name: str, value: Value) -> list[str]:
    key = _format_single(name)
    if isinstance(value, Mapping) and value:
        return [f"{key}:", *_indent_lines(_map_lines(value))]
    if isinstance(value, Sequence) and not isinstance(value, str) and value:
        return [f"{key}:", *_indent_lines([line for item in value for line in item_lines(item)])]
    first, *rest = _scalar_lines(value)
    return [f"{key}: {first}", *_indent_lines(rest)]


def item_lines(item: Value) -> list[str]:
    if isinstance(item, Mapping) and item:
        inner = _map_lines(item)
    elif isinstance(item, Sequence) and not isinstance(item, str) and item:
        inner = [line for each in item for line in item_lines(each)]
    else:
        inner = _scalar_lines(item)
    return [f"- {inner[0]}", *_indent_lines(inner[1:])]


def _indent_lines(lines: Sequence[str], columns: int = 2) -> list[str]:
    return [f"{' ' * columns}{line}" if line else line for line in lines]


def _scalar_lines(value: Value) -> list[str]:
    if isinstance(value, str) and "\n" in value and _BLOCK_TEXT.fullmatch(value):
        body = value.rstrip("\n")
        ends = len(value) - len(body)
        mark = {0: "|-", 1: "|"}.get(ends, "|+")
        return [mark, *body.split("\n"), *[""] * (ends - 1)]
    return [_format_single(value)]


def _format_single(value: Value) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        if _PLAIN_TEXT.fullmatch(value) and not _NOT_PLAIN.fullmatch(value):
            return value
        quoted = json.dumps(value, ensure_ascii=False)
        return re.sub(r"[\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff]", lambda found: f"\\u{ord(found[0]):04x}", quoted)
    return json.dumps(value)


# into a text that is there


@dataclass(slots=True)
class _TextEdits:
    text: str
    same: HasValue
    can_stay: CanStay
    edits: list[tuple[int, int, str]] = dataclass_field(default_factory=list)

    def replace(self, start: int, end: int, text: str) -> None:
        self.edits.append((start, end, text))

    def remove_lines(self, start: int, end: int) -> None:
        first = self.text.rfind("\n", 0, start) + 1
        self.edits.append((first, self.end_of_line(end), ""))

    def end_of_line(self, offset: int) -> int:
        end = self.text.find("\n", offset)
        return len(self.text) if end < 0 else end + 1

    def insert(self, offset: int, lines: Sequence[str], column: int) -> None:
        missing = "\n" if offset and self.text[offset - 1] != "\n" else ""
        self.edits.append((offset, offset, missing + "".join(f"{line}\n" for line in _indent_lines(lines, column))))

    def apply_edits(self) -> str:
        text = self.text
        # From the end; of what is inserted at one place, the inner map's lines were made first and come first.
        order = sorted(enumerate(self.edits), key=lambda each: (*each[1][:2], each[0]), reverse=True)
        for _, (start, end, new) in order:
            text = text[:start] + new + text[end:]
        return text


def edit_text(old_text: str, values: Mapping[str, Value], has_value: HasValue, can_stay: CanStay) -> str | None:
    """The person's text edited in place to these values; None if impossible. The caller parses it again as a check."""
    try:
        root, repeated = parse_text(old_text)
    except YamlSyntaxError:
        return None
    if repeated:
        return None
    if root is None:
        glue = "" if not old_text.strip() or old_text.endswith("\n") else "\n"
        return (old_text if old_text.strip() else "") + glue + write_values(values)
    if root.flow:
        return None
    edits = _TextEdits(old_text, has_value, can_stay)
    _edit_map(edits, root, values, ())
    return edits.apply_edits()


def _edit_map(edits: _TextEdits, node: YamlNode, values: Mapping[str, Value], keys: tuple[str, ...]) -> None:
    """Rewrite a YAML mapping in place to these values; new names come after its last entry."""
    entries = node.entries or ()
    there = {entry.name for entry in entries}
    last: YamlEntry | None = None
    for entry in entries:
        if _edit_entry(edits, entry, values, (*keys, entry.name)):
            last = entry
    new = [line for name, value in values.items() if name not in there for line in entry_lines(name, value)]
    if not new or not entries:
        return
    column = entries[0].key.column
    start = edits.text.rfind("\n", 0, entries[0].key.start) + 1
    edits.insert(edits.end_of_line(last.value.end) if last else start, new, column)


def _edit_entry(edits: _TextEdits, entry: YamlEntry, values: Mapping[str, Value], keys: tuple[str, ...]) -> bool:
    """Edit or remove one entry; returns whether it still exists."""
    node = entry.value
    if entry.name not in values:
        if _can_stay(edits, node, keys):
            return True
        edits.remove_lines(entry.key.start, node.end)
        return False
    value = values[entry.name]
    if isinstance(value, Mapping) and value and node.entries and not node.flow:
        _edit_map(edits, node, value, keys)
    elif edits.same(keys, node, value):
        return True
    elif isinstance(value, Sequence) and not isinstance(value, str) and value and node.items and not node.flow:
        _edit_list(edits, node, value, keys)
    else:
        _replace_value(edits, entry, value)
    return True


def _can_stay(edits: _TextEdits, node: YamlNode, keys: tuple[str, ...]) -> bool:
    if node.entries and not node.flow:
        return all(_can_stay(edits, each.value, (*keys, each.name)) for each in node.entries)
    return edits.can_stay(keys, node)


def _replace_value(edits: _TextEdits, entry: YamlEntry, value: Value) -> None:
    node = entry.value
    first, *rest = entry_lines(entry.name, value)
    new = first.partition(":")[2] if not first.startswith('"') else first[len(_format_single(entry.name)) + 1 :]
    colon = edits.text.index(":", entry.key.end)
    indented = "".join(f"\n{line}" for line in _indent_lines(rest, entry.key.column))
    single = node.entries is None and node.items is None and "\n" not in edits.text[colon : node.end]
    if single and not rest and node.end > node.start:
        edits.replace(node.start, node.end, new.strip())
    else:
        edits.replace(colon + 1, max(node.end, colon + 1), new + indented)


def _edit_list(edits: _TextEdits, node: YamlNode, value: Sequence[Value], keys: tuple[str, ...]) -> None:
    """Edit a list: remaining entries keep their lines and comments, others are removed or inserted."""
    old = node.items or ()
    column, place = node.column, edits.text.rfind("\n", 0, node.start) + 1
    taken = 0
    for item in old:
        found = next((at for at in range(taken, len(value)) if edits.same((*keys, "*"), item, value[at])), None)
        if found is None:
            edits.remove_lines(edits.text.rindex("-", 0, item.start), item.end)
            continue
        _insert_items(edits, place, value[taken:found], column)
        taken, place = found + 1, edits.end_of_line(item.end)
    _insert_items(edits, place, value[taken:], column)


def _insert_items(edits: _TextEdits, offset: int, items: Sequence[Value], column: int) -> None:
    lines = [line for item in items for line in item_lines(item)]
    if lines:
        edits.insert(offset, lines, column)


_COMMENT_WIDTH = 110


def defaults_yaml(recipe: Recipe, fields: Sequence[Field]) -> str:
    """A commented YAML template that changes nothing: title, unit and meaning of each value."""
    head = [
        f"# {recipe.title}: {recipe.summary}",
        f"# Needs {recipe.needs}.",
        f"# Gives {recipe.gives}; {recipe.duration}.",
        f"# All values at their defaults. Launch it: a4 launch {recipe.id} -f FILE",
    ]
    tree: dict[str, object] = {}
    for field in fields:
        level = tree
        *above, last = field.path.split(".")
        for name in above:
            whose = {"id": recipe.id} if level is tree and name == "recipe" else {}
            below = level.setdefault(name, whose)
            assert isinstance(below, dict)
            level = below
        level[last] = field
    tree.setdefault("recipe", {"id": recipe.id})
    wrapped = (part for line in head for part in _wrap_comment(line, _COMMENT_WIDTH))
    return "".join(f"{line}\n" for line in (*wrapped, *_default_lines(tree, 0)))


def _wrap_comment(line: str, width: int) -> list[str]:
    return textwrap.wrap(line, width, subsequent_indent="# ", break_long_words=False, break_on_hyphens=False)


def _default_lines(tree: dict[str, object], depth: int) -> Iterator[str]:
    pad = "  " * depth
    for name, found in tree.items():
        if depth == 0:
            yield ""
        if isinstance(found, dict):
            yield f"{pad}{name}:"
            yield from _default_lines(found, depth + 1)
        elif isinstance(found, str):
            yield f"{pad}# Whose values these are: a form that they are pasted into becomes that recipe's."
            yield f"{pad}{name}: {found}"
        else:
            yield from _field_lines(name, found, pad)


def _field_lines(name: str, field: object, pad: str) -> Iterator[str]:
    assert isinstance(field, Field)
    unit = f" ({field.unit})" if field.unit else ""
    words = f"# {field.title}{unit}: {' '.join(field.description.split())}"
    if field.choices:
        words += f" One of {', '.join(field.choices)}."
    if field.examples:
        words += f" For example {'; '.join(' '.join(each.split()) for each in field.examples)}."
    yield from (pad + line for line in _wrap_comment(words, _COMMENT_WIDTH - len(pad)))
    for line in entry_lines(name, field.default):
        yield pad + line if line else ""
