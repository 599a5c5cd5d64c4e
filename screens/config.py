"""The person's settings on the screen: themes, keys, lists and commands; a name that does not exist is told."""

from __future__ import annotations

import difflib
import importlib
import json
import pkgutil
import re
import shlex
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct
from textual.binding import Binding
from textual.dom import DOMNode
from textual.theme import BUILTIN_THEMES, Theme

from console.config import PLACEHOLDERS, Config, Loaded, OwnCommand, Problem, json_schema, load_config
from console.errors import BadInput
from screens.cli.output import print_json, print_line, print_table
from screens.widgets.line import DARK, LIGHT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from screens.cli.command_line import ConfigOptions

OURS = {DARK.name: DARK, LIGHT.name: LIGHT}
_FIELDS = (
    "primary",
    "secondary",
    "warning",
    "error",
    "success",
    "accent",
    "foreground",
    "background",
    "surface",
    "panel",
)
_BRACED = re.compile(r"\{(\w+)\}")


class KeyBinding(Struct, frozen=True):
    """A binding that the file may give other keys."""

    id: str
    keys: str
    what: str


class Known(Struct, frozen=True):
    """The names that the file may use."""

    keys: Mapping[str, KeyBinding]
    lists: Mapping[str, tuple[str, ...]]
    """Titles of the columns of each list."""


def known_names() -> Known:
    """All of them. It imports every page: half a second. Blocking."""
    import screens
    from screens.widgets.table.table import ResourceTable

    for module in pkgutil.walk_packages(screens.__path__, "screens."):
        if not module.name.startswith(("screens.cli", "screens.__main__", "screens.tour")):
            importlib.import_module(module.name)
    keys: dict[str, KeyBinding] = {}
    lists: dict[str, tuple[str, ...]] = {}
    for place in _subclasses(DOMNode):
        if not place.__module__.startswith("screens."):
            continue
        for each in Binding.make_bindings(vars(place).get("BINDINGS", ())):
            if each.id and each.id in keys:
                keys[each.id] = KeyBinding(each.id, f"{keys[each.id].keys},{each.key}", keys[each.id].what)
            elif each.id:
                keys[each.id] = KeyBinding(each.id, each.key, each.tooltip or each.description)
        if issubclass(place, ResourceTable) and place.LIST:
            lists[place.LIST] = tuple(column.title for column in place.columns_of_page() if column.title)
    return Known(dict(sorted(keys.items())), dict(sorted(lists.items())))


def _subclasses(kind: type[DOMNode]) -> Iterator[type[DOMNode]]:
    for each in kind.__subclasses__():
        yield each
        yield from _subclasses(each)


def theme_names(config: Config) -> list[str]:
    """Of ours, of one's own, of Textual's."""
    return [*OURS, *config.themes, *sorted(BUILTIN_THEMES)]


def themes_of(config: Config) -> list[Theme]:
    """The themes of one's own."""
    made = []
    for name, own in config.themes.items():
        base = OURS[own.base]
        made.append(theme := replace(base, name=name, variables={**base.variables, **own.colors}))
        for field in _FIELDS & own.colors.keys():
            setattr(theme, field, own.colors[field])
    return made


def all_problems(loaded: Loaded, known: Known) -> list[Problem]:
    """Everything that is wrong in the file, by line."""
    return sorted([*loaded.problems, *quick_problems(loaded), *_names(loaded, known)], key=lambda each: each.line)


def quick_problems(loaded: Loaded) -> list[Problem]:
    """What is wrong in themes and commands, for which no page has to be imported."""
    config, found = loaded.config, list[Problem]()
    if config.theme not in theme_names(config):
        said = f"There is no theme {config.theme}. There are {', '.join(theme_names(config))}."
        found.append(Problem(loaded.where("theme"), said, ("theme",)))
    for name, own in config.themes.items():
        for color in own.colors:
            if color not in _FIELDS and color not in DARK.variables:
                path = ("themes", name, "colors", color)
                said = f"There is no colour {color}. There are {', '.join(sorted(_FIELDS | DARK.variables.keys()))}."
                found.append(Problem(loaded.where(*path), said, path))
    for number, command in enumerate(config.commands):
        for word in _BRACED.findall(command.command):
            if word not in PLACEHOLDERS:
                at = ("commands", number, "command")
                said = (
                    f"Nothing is put in for {{{word}}}. There are {', '.join(f'{{{each}}}' for each in PLACEHOLDERS)}."
                )
                found.append(Problem(loaded.where(*at), said, at))
    return found


def _names(loaded: Loaded, known: Known) -> Iterator[Problem]:
    config = loaded.config
    for name in config.keys:
        if name not in known.keys:
            near = _nearest(name, known.keys)
            yield Problem(loaded.where("keys", name), f"There is no binding {name}. {near}", ("keys", name))
    for name, own in config.lists.items():
        path = ("lists", name)
        if name not in known.lists:
            yield Problem(loaded.where(*path), f"There is no list {name}. There are {', '.join(known.lists)}.", path)
            continue
        titles = known.lists[name]
        for column in (*own.columns, *filter(None, [own.sort])):
            if column not in titles:
                at = "columns" if column in own.columns else "sort"
                said = f"List {name} has no column {column}. It has {', '.join(titles)}."
                yield Problem(loaded.where(*path, at), said, (*path, at))


def _nearest(name: str, known: Mapping[str, KeyBinding]) -> str:
    near = difflib.get_close_matches(name, known, 3, 0.5)
    return f"Is it {' or '.join(near)}? a4 config keys lists them." if near else "a4 config keys lists them."


# commands of one's own


def fill(command: OwnCommand, subject: Mapping[str, str]) -> str:
    """The line for the shell; whatever a cluster calls its objects, it is one word of it."""
    return _BRACED.sub(lambda each: shlex.quote(subject[each[1]]) if each[1] in subject else each[0], command.command)


def applies(command: OwnCommand, subject: Mapping[str, str]) -> bool:
    """Whether all that the command names is there."""
    return all(subject.get(each) for each in command.uses)


# a4 config


def show_config(options: ConfigOptions) -> int:
    """`a4 config`: what is in force and from where, what is wrong, or which names there are."""
    if options.what == "schema":
        print_json(json_schema())
        return 0
    known = known_names()
    if options.what == "keys":
        rows = [(each.id, each.keys, each.what) for each in known.keys.values()]
        return _print_names(("id", "keys", "what"), rows, as_json=options.json)
    if options.what == "lists":
        lists = [(name, ", ".join(titles)) for name, titles in known.lists.items()]
        return _print_names(("list", "columns"), lists, as_json=options.json)
    loaded = load_config()
    problems = all_problems(loaded, known)
    if options.json:
        wrong = [{"line": each.line, "problem": each.text} for each in problems]
        in_force = {} if options.what == "check" else {"settings": msgspec.to_builtins(loaded.config)}
        print_json({"file": str(loaded.path), "exists": loaded.text is not None, **in_force, "problems": wrong})
    else:
        if options.what != "check":
            _print_in_force(loaded)
        for each in problems:
            print_line(f"{loaded.path}:{each.line}: {each.text}")
        if options.what == "check" and not problems:
            there = "is right" if loaded.text is not None else "is not there: everything is as usual"
            print_line(f"{loaded.path} {there}.")
    return BadInput.exit_code if problems and options.what == "check" else 0


def _print_names(titles: tuple[str, ...], rows: Sequence[tuple[str, ...]], *, as_json: bool) -> int:
    if as_json:
        print_json({"items": [dict(zip(titles, row, strict=True)) for row in rows]})
    else:
        print_table([title.upper() for title in titles], rows, [False] * len(titles))
    return 0


def _print_in_force(loaded: Loaded) -> None:
    """Each setting, and the line it comes from."""
    usual, rows = msgspec.to_builtins(Config()), []
    for name, value in msgspec.to_builtins(loaded.config).items():
        parts = {f"{name}.{key}": part for key, part in value.items()} if isinstance(value, dict) else {name: value}
        for key, part in parts.items() or {name: "none"}.items():
            source = f"line {loaded.where(*key.split('.', 1))}" if part != usual.get(name) else "usual"
            rows.append((key, part if isinstance(part, str) else json.dumps(part), source))
    print_line(str(loaded.path) if loaded.text is not None else f"{loaded.path} is not there; everything is as usual.")
    print_table(("SETTING", "VALUE", "FROM"), rows, (False, False, False))
