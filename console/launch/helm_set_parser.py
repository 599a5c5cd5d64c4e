"""Parses Helm's --set options by the rules of its own parser (pkg/strvals): typed, pasted, and in files.

Options that Helm ignores silently (`=1`, `.a=1`, `a[0`) are refused here, and so are those that would fill the memory.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from console.errors import BadInput
from console.kube.nested_values import Value, get_path, overlay_values, set_path
from console.launch.field_values import parse_value
from console.launch.recipes import Field, FieldKind
from console.launch.values_schema import suggest_path

SET_OPTIONS = ("--set-json", "--set", "--set-string", "--set-file", "--set-literal")  # as Helm applies them
MAX_LIST_INDEX, MAX_DOTS_IN_PATH = 65536, 30  # Helm's: of a place in a list, and of dots in a path
_MAX_DEPTH = 100  # names and places of one path; Helm counts the dots alone
_MAX_LIST_ITEMS = 1 << 20  # that lists are filled up to, all together; Helm has no bound
_COMMA_HINT = r"Write path=value; a comma within a value as \, and a list as {a,b}."
KeyPath = tuple[str | int, ...]  # names and places in lists: ("workload", "envs", 7, "value")
FileValue = PurePosixPath  # a value of --set-file: the text of that file


class _EndOfText(Exception):
    """Raised when an option's text ends before its value; a list opened for it is dropped, as in Helm."""


@dataclass(slots=True)
class SetValues:
    """Nested values to which --set options are applied one after the other."""

    root: dict[str, Any] = field(default_factory=dict)
    left_out: list[tuple[KeyPath, tuple[str, ...]]] = field(default_factory=list)  # with the unknown variables in them
    _option: str = ""
    _text: str = ""
    _offset: int = 0
    _key_path: list[str | int] = field(default_factory=list)
    _entries_left: int = _MAX_LIST_ITEMS

    def add(self, option: str, text: str, unknown: Collection[str] = ()) -> None:
        """Apply an option; values with a variable in `unknown` go to `left_out`. Raises BadInput for invalid text."""
        self._option, self._text, self._offset, self._key_path = option, text, 0, []
        if option == "--set-json" and text.lstrip().startswith("{"):
            tree = self._decode_json()
            if self._text[self._offset :].strip():
                raise self._error("is not valid JSON")
            self.left_out += [((name,), tuple(unknown)) for name in tree if unknown]
            self.root = self.root if unknown else overlay_values(self.root, tree)
            return
        while (start := self._offset) < len(text):
            if unknown:
                self._add_one({})
                given = text[start : self._offset]
                names = tuple(each for each in unknown if each in given)
                # The name of a launcher tells the recipe, wherever its folder is.
                if names and not (option == "--set-file" and "$" not in FileValue(given).name):
                    self.left_out.append((tuple(self._key_path), names))
                    continue
                self._offset = start
            self._add_one(self.root)

    def _add_one(self, root: dict[str, Any]) -> None:
        self._key_path = []
        with suppress(_EndOfText):
            self._set_key(root, 0)

    def _error(self, subject: str, hint: str = "") -> BadInput:
        return BadInput(f"{' '.join(filter(None, (self._option, format_key_path(self._key_path))))} {subject}.", hint)

    def _set_key(self, level: dict[str, Any], dots: int) -> None:
        name, end = self._read_until("=[." if self._option == "--set-literal" else "=[.,")
        self._enter_key(name)
        if not name or end in {"", ","}:
            raise self._error("has no value" if name else "has an empty name", _COMMA_HINT)
        if end == "=":
            level[name] = ""
            level[name] = self._read_value()
        elif end == "[":
            level[name] = self._open_level(level, name, list)
            self._set_item(level[name], self._read_index(), dots)
        elif dots == MAX_DOTS_IN_PATH:
            raise self._error(f"nests deeper than {MAX_DOTS_IN_PATH} levels")
        else:
            inner = self._open_level(level, name, dict)
            try:
                self._set_key(inner, dots + 1)
            finally:
                level |= {name: inner} if inner else {}

    def _set_item(self, items: list[Any], index: int, dots: int) -> None:
        stray, end = self._read_until("=[.")
        if stray:
            raise self._error(f"is followed by {stray[:40]}", "After ] comes a dot, [ or =.")
        if not end:
            raise _EndOfText
        value: Any = ""
        if end == "=":
            value = self._read_value() if self._offset < len(self._text) or self._option == "--set-json" else ""
        elif end == "[":
            value = self._open_level(items, index, list)
            self._set_item(value, self._read_index(), dots)
        else:
            if index < len(items) and not isinstance(items[index], dict):
                items[index] = {}
            value = items[index] if index < len(items) else {}
            self._set_key(value, dots)
        more = max(0, index + 1 - len(items))
        self._entries_left -= more
        if index > MAX_LIST_INDEX or self._entries_left < 0:
            raise self._error(f"counts beyond {MAX_LIST_INDEX:,} entries")
        items += [None] * more
        items[index] = value

    def _open_level(self, level: Any, key: str | int, kind: type) -> Any:
        """The map or list under a key, created if missing; null counts as missing in a list."""
        there = key in level if isinstance(key, str) else key < len(level) and level[key] is not None
        below = level[key] if there else kind()
        if not isinstance(below, kind):
            raise self._error("has a value of its own: nothing can be set in it")
        return below

    def _enter_key(self, key: str | int) -> None:
        self._key_path.append(key)
        if len(self._key_path) > _MAX_DEPTH:
            raise self._error(f"nests deeper than {_MAX_DEPTH} levels")

    def _read_until(self, end_characters: str) -> tuple[str, str]:
        """(text up to the first unescaped character of `end_characters`, that character or empty at the end)."""
        literal, end_characters = self._option == "--set-literal", re.escape(end_characters)
        inside = f"[^{end_characters}]" if literal else rf"\\.?|[^\\{end_characters}]"
        found = re.compile(rf"((?>(?:{inside})*))([{end_characters}]?)", re.DOTALL).match(self._text, self._offset)
        assert found is not None  # it may be empty
        self._offset = found.end()
        return found[1] if literal else re.sub(r"\\(.?)", r"\1", found[1], flags=re.DOTALL), found[2]

    def _read_index(self) -> int:
        text, end = self._read_until("]")
        if not end or not re.fullmatch(r"\+?\d{1,18}|-0+", text, re.ASCII):
            raise self._error(f"is not the path of a value: [{text[:20]}{end}", "Write it as workload.envs[7].value.")
        self._enter_key(int(text))
        return int(text)

    def _read_value(self) -> Any:
        if self._option == "--set-literal":
            start, self._offset = self._offset, len(self._text)
            return self._text[start:]
        if self._option == "--set-json":
            if self._skip_comma():
                return None
            value = self._decode_json()
            self._skip_comma()
            return value
        if self._offset == len(self._text):
            raise _EndOfText
        if self._text[self._offset] != "{":
            return self._convert_text(self._read_until(",")[0])
        items, end = [], ""
        self._offset += 1
        while end != "}":
            item, end = self._read_until(",}")
            if not end:
                raise self._error("has a list that is never closed", "Quote it: --set 'path={a,b}'.")
            items.append(self._convert_text(item))
        self._offset += self._text.startswith(",", self._offset)
        return items

    def _skip_comma(self) -> bool:
        """Skip blanks and one comma; returns whether there was a comma or the end of the text."""
        self._offset = len(self._text) - len(self._text[self._offset :].lstrip())
        self._offset += (comma := self._text.startswith(",", self._offset))
        return comma or self._offset == len(self._text)

    def _decode_json(self) -> Any:
        start = len(self._text) - len(self._text[self._offset :].lstrip())
        try:
            value, self._offset = _JSON_DECODER.raw_decode(self._text, start)
        except (ValueError, RecursionError) as error:
            raise self._error("is not valid JSON") from error
        return value

    def _convert_text(self, text: str) -> Any:
        """The value that --set makes of a text: true, false, null and integers; --set-string keeps the text."""
        if self._option != "--set":
            return FileValue(text) if self._option == "--set-file" else text
        if text.casefold() in _CONSTANTS:
            return _CONSTANTS[text.casefold()]
        if re.fullmatch(r"0|[-+]\d{1,999}|[1-9]\d{0,18}", text, re.ASCII) and -(1 << 63) <= int(text) < 1 << 63:
            return int(text)
        return text


_CONSTANTS = {"true": True, "false": False, "null": None}
_JSON_DECODER = json.JSONDecoder(parse_constant=int)  # which refuses NaN and Infinity: they are no JSON


def format_key_path(key_path: Iterable[str | int]) -> str:
    text = ""
    for name in key_path:
        text += f"[{name}]" if isinstance(name, int) else f".{name}" if text else str(name)
    return text


def parse_settings(settings: Iterable[str], lower_values: Mapping[str, Value]) -> dict[str, Any]:
    into = SetValues(overlay_values({}, copy.deepcopy(lower_values)))
    for setting in settings:
        into.add("--set", setting)
    return into.root


def convert_values(
    fields: Sequence[Field], tree: Mapping[str, Value], lower_values: Mapping[str, Value], owner: str = "this recipe"
) -> dict[str, Value]:
    """The values converted to their fields' types; BadInput for a path neither of a field nor in `lower_values`."""
    known = {each.path: each for each in fields}
    values: dict[str, Value] = {}
    for path, value in iter_field_values(tree, known):
        if path not in known and get_path(lower_values, path) != value:
            hint = "`a4 values RECIPE` lists the values of a recipe."
            raise BadInput(f"{path} is not a value of {owner}{suggest_path(path, [*known])}", hint)
        set_path(values, path, value if path not in known or value is None else coerce_value(known[path], value))
    return values


def iter_field_values(
    values: Mapping[str, Value], fields: Collection[str], parent_path: str = ""
) -> Iterator[tuple[str, Value]]:
    """Yield (path, value) of every field, and of every key that is no field, below `parent_path` (empty: the root)."""
    for name, value in values.items():
        path = f"{parent_path}.{name}" if parent_path else str(name)
        if path not in fields and isinstance(value, Mapping) and value:
            yield from iter_field_values(value, fields, path)
        else:
            yield path, value


def coerce_value(field: Field, value: Any) -> Value:
    """Convert a value parsed by Helm's rules to the field's type. Raises BadInput if that is impossible."""
    if isinstance(value, FileValue):
        raise BadInput(f"{field.title} takes no file.")
    match field.kind:
        case FieldKind.MAP if isinstance(value, Mapping):
            return {
                str(name): None if item is None else _coerce_entry(field, name, item) for name, item in value.items()
            }
        case FieldKind.LIST if isinstance(value, list):
            return [as_word(each) for each in value if each is not None]
        case FieldKind.ROWS if isinstance(value, list):
            return value
        case _ if isinstance(value, (list, Mapping)):
            raise BadInput(f"{field.title} must be a single value.")
        case FieldKind.TEXT | FieldKind.BLOCK | FieldKind.CHOICE:
            # A word that is no choice goes into the form as it is, where it is marked.
            return as_word(value)
    return parse_value(field, as_word(value))


def _coerce_entry(field: Field, name: str, item: Any) -> str:
    hint = ""
    while isinstance(item, Mapping) and item:
        inner, item = next(iter(item.items()))
        name += rf"\.{inner}"
        hint = rf"A dot within a name is written \.: {field.path}.{name}=TEXT"
    if hint or isinstance(item, (list, Mapping, FileValue)):
        raise BadInput(f"{field.title} takes one text for each name.", hint)
    return as_word(item)


def as_word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
