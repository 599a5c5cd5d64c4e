"""Applies the person's settings to the screens (themes, keys, lists, commands) and reports unknown names."""

from __future__ import annotations

import asyncio
import difflib
import importlib
import inspect
import itertools
import json
import pkgutil
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct
from textual.binding import Binding
from textual.dom import DOMNode
from textual.keys import REPLACED_KEYS, Keys, _character_to_key, _normalize_key_list, key_to_character
from textual.theme import BUILTIN_THEMES, Theme

from console.errors import BadInput
from console.metrics.apprise_messages import format_failures, mask_address, send_to_all
from console.settings_file import (
    PLACEHOLDERS,
    Config,
    ConfigProblem,
    LoadedConfig,
    OwnCommand,
    json_schema,
    load_config,
)
from screens.cli.output import print_json, print_line, print_table
from screens.columns.column import PAGE
from screens.theme import DARK, LIGHT

if TYPE_CHECKING:
    from pathlib import Path

    from screens.cli.command_line import ConfigOptions

OWN_THEMES = {DARK.name: DARK, LIGHT.name: LIGHT}
_COLOUR_FIELDS = frozenset(
    ["primary", "secondary", "warning", "error", "success", "accent", "foreground", "background", "surface", "panel"]
)
"""Names of the colours that every Textual theme has; a theme of the settings may set these and our own colours."""
_PLACEHOLDER = re.compile(rf'("?)\$\{{?A4_({"|".join(PLACEHOLDERS).upper()})\b\}}?\1')
_PLAIN_WORD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/@+-]*")
"""A name without spaces, quotes or a leading dash, which is safe as an argument, also where a shell parses it."""
_NAMED_KEYS = {each.value for each in Keys if each.value.isalnum()}
_KEY_MODIFIERS = {"ctrl", "shift", "alt", "super"}
_KEYS_ALLOWED = (
    "A key is a character or its name (slash), or another key's name (enter, pagedown, f5), also after ctrl+, shift+, "
    "alt+ or super+; several are separated by commas."
)


class KeyBinding(Struct, frozen=True):
    """A key binding that the settings file may change."""

    id: str
    keys: str
    what: str


class KnownNames(Struct, frozen=True):
    """The names that the settings file may use: of pages, keys, columns and commands."""

    keys: Mapping[str, KeyBinding]
    lists: Mapping[str, tuple[str, ...]]
    """Titles of the columns of each list."""
    places: tuple[type[DOMNode], ...]
    """Dialogs and widgets that have bindings of their own."""
    pages: tuple[type[Any], ...]
    """All pages: subclasses of LiveScreen."""
    app: type[DOMNode]


def known_names() -> KnownNames:
    """Collect all allowed names; imports every page (half a second). Blocking."""
    import screens
    from screens.widgets.table.table import ResourceTable

    for module in pkgutil.walk_packages(screens.__path__, "screens."):
        if not module.name.startswith(("screens.cli", "screens.__main__", "screens.tour")):
            importlib.import_module(module.name)
    keys: dict[str, KeyBinding] = {}
    lists: dict[str, tuple[str, ...]] = {}
    places = [each for each in dict.fromkeys(_iter_subclasses(DOMNode)) if each.__module__.startswith("screens.")]
    for place in places:
        for each in Binding.make_bindings(vars(place).get("BINDINGS", ())):
            if each.id and each.id in keys:
                every = dict.fromkeys([*keys[each.id].keys.split(","), each.key])
                keys[each.id] = KeyBinding(each.id, ",".join(every), keys[each.id].what)
            elif each.id:
                keys[each.id] = KeyBinding(each.id, each.key, each.tooltip or each.description)
        if issubclass(place, ResourceTable) and place.LIST:
            lists[place.LIST] = tuple(each.title for each in place.COLUMNS if each.title and each.only in {"", PAGE})
    pages = [each for each in places if hasattr(each, "SUBJECT") and not inspect.isabstract(each)]
    (app,) = (each for each in places if each.__name__ == "ConsoleApp")
    others = [each for each in places if "BINDINGS" in vars(each) and not hasattr(each, "SUBJECT")]
    others = [each for each in others if each is not app and not issubclass(each, ResourceTable)]
    return KnownNames(dict(sorted(keys.items())), dict(sorted(lists.items())), tuple(others), tuple(pages), app)


def _iter_subclasses(kind: type[DOMNode]) -> Iterator[type[DOMNode]]:
    for each in kind.__subclasses__():
        yield each
        yield from _iter_subclasses(each)


def theme_names(config: Config) -> list[str]:
    """Names of this program's themes, the person's, and Textual's."""
    return [*OWN_THEMES, *config.themes, *sorted(BUILTIN_THEMES)]


def themes_of(config: Config) -> list[Theme]:
    made = []
    for name, own in config.themes.items():
        base = OWN_THEMES[own.base]
        made.append(theme := replace(base, name=name, variables={**base.variables, **own.colors}))
        for field in _COLOUR_FIELDS & own.colors.keys():
            setattr(theme, field, own.colors[field])
    return made


# keys


def keys_of(keys: str) -> tuple[str, ...]:
    """The keys in a text, separated by commas, as Textual names them."""
    return tuple(dict.fromkeys(_normalize_key_list(keys).split(",")))


def is_key(key: str) -> bool:
    """Whether Textual knows a key by this name."""
    *modifiers, name = key.split("+")
    character = key_to_character(REPLACED_KEYS.get(name, name))
    there = name in _NAMED_KEYS or (character is not None and _character_to_key(character) == name)
    return there and set(modifiers) <= _KEY_MODIFIERS


def usable_keys(config: Config) -> dict[str, str]:
    return {name: keys for name, keys in config.keys.items() if all(map(is_key, keys_of(keys)))}


def _page_bindings(page: type[DOMNode], app: type[DOMNode]) -> list[Binding]:
    from screens.widgets.table.table import ResourceTable

    return [each for place in (page, ResourceTable, app) for each in _bindings_in(place)]


def _bindings_in(bound_class: type[DOMNode]) -> list[Binding]:
    merged = bound_class._merged_bindings
    return [each for several in merged.key_to_bindings.values() for each in several] if merged else []


def own_commands(page: type[Any], app: type[DOMNode], config: Config) -> Iterator[tuple[int, OwnCommand]]:
    """The person's commands that work on a page, numbered: the page has their objects and their keys are free."""
    taken = _keys_in_use(page, app, config) if config.commands else {}
    for number, command in enumerate(config.commands):
        keys = keys_of(command.key)
        if set(command.uses) <= page.SUBJECT and all(map(is_key, keys)) and not taken.keys() & set(keys):
            yield number, command
        taken.update(dict.fromkeys(keys, command.name))


def _keys_in_use(page: type[DOMNode], app: type[DOMNode], config: Config) -> dict[str, str]:
    """The meaning of each key on a page, by key; default keys that the settings have replaced are included."""
    own, taken = usable_keys(config), dict[str, str]()
    for each in _page_bindings(page, app):
        for key in (each.key, *keys_of(own.get(each.id or "", each.key))):
            taken.setdefault(key, each.description or each.action)
    return taken


# what is wrong


def all_problems(loaded: LoadedConfig, names: KnownNames) -> list[ConfigProblem]:
    """All problems of the settings file, by line."""
    colors = (_wrong_color(loaded, each.path) or each for each in loaded.problems)
    found = [*colors, *_check_themes(loaded), *_commands(loaded, names), *_keys(loaded, names), *_lists(loaded, names)]
    return sorted(found, key=lambda each: each.line)


def _make_problem(loaded: LoadedConfig, text: str, *path: str | int) -> ConfigProblem:
    return ConfigProblem(loaded.line_of(*path), text, path)


def _wrong_color(loaded: LoadedConfig, path: tuple[str | int, ...]) -> ConfigProblem | None:
    """The problem of an invalid colour name; None if the path is not one of a colour."""
    names = _COLOUR_FIELDS | DARK.variables.keys()
    if path[:1] != ("themes",) or path[2:3] != ("colors",) or len(path) != 4 or path[3] in names:
        return None
    return _make_problem(loaded, f"There is no colour {path[3]}. There are {', '.join(sorted(names))}.", *path)


def _check_themes(loaded: LoadedConfig) -> Iterator[ConfigProblem]:
    config = loaded.config
    if config.theme not in theme_names(config):
        yield _make_problem(
            loaded, f"There is no theme {config.theme}. There are {', '.join(theme_names(config))}.", "theme"
        )
    for name, own in config.themes.items():
        for color in own.colors:
            if problem := _wrong_color(loaded, ("themes", name, "colors", color)):
                yield problem


def _numbered_commands(loaded: LoadedConfig) -> dict[int, OwnCommand]:
    """The valid commands by their number in the file."""
    wrong = [each.path for each in loaded.problems if each.path[:1] == ("commands",)]
    left_out = {path[1] for path in wrong if path[2:] in {(), ("key",), ("name",), ("command",)} and len(path) > 1}
    numbers = (number for number in itertools.count() if number not in left_out)
    return dict(zip(numbers, loaded.config.commands, strict=False))


def _commands(loaded: LoadedConfig, names: KnownNames) -> Iterator[ConfigProblem]:
    earlier: dict[str, str] = {}
    for number, command in _numbered_commands(loaded).items():
        path = ("commands", number, "key")
        keys = keys_of(command.key)
        yield from _unknown_key_problems(loaded, keys, path)
        for key in keys:
            if key in earlier:
                text = f"{key} is the key of {earlier[key]} already, so {command.name} has none. Give it another one."
                yield _make_problem(loaded, text, *path)
        earlier.update(dict.fromkeys(keys, command.name))
        pages = [page for page in names.pages if set(command.uses) <= page.SUBJECT]
        taken = {page: _keys_in_use(page, names.app, loaded.config) for page in pages}
        clashes = [(key, what, page) for page in pages for key, what in taken[page].items() if key in keys]
        if clashes:
            free = len({page for *_, page in clashes}) < len(pages)
            text = f"{_clash_words(clashes, names)}. {command.name} is left out {'there' if free else 'everywhere'}."
            yield ConfigProblem(loaded.line_of(*path), f"{text} Give it another key.", () if free else path)


def _unknown_key_problems(
    loaded: LoadedConfig, keys: tuple[str, ...], path: tuple[str | int, ...]
) -> Iterator[ConfigProblem]:
    for key in keys:
        if not is_key(key):
            text = f"There is no key {key}." if key else "A key is missing."
            yield _make_problem(loaded, f"{text} {_KEYS_ALLOWED}", *path)


def _page_name(page: type[DOMNode]) -> str:
    return re.sub(r"(?<=.)(?=[A-Z])", " ", page.__name__.removesuffix("Screen")).lower()


def _uses_of(loaded: LoadedConfig, names: KnownNames, problems: Sequence[ConfigProblem]) -> list[dict[str, Any]]:
    """A JSON object for each valid command of the person: line, name, key, uses, and pages on which its key works."""
    refused = {each.path[1] for each in problems if each.path[:1] == ("commands",) and len(each.path) > 1}
    found: list[dict[str, Any]] = []
    for number, command in _numbered_commands(loaded).items():
        if number in refused:
            continue
        keys = set(keys_of(command.key))
        pages = [
            _page_name(page)
            for page in names.pages
            if set(command.uses) <= page.SUBJECT and not keys & _keys_in_use(page, names.app, loaded.config).keys()
        ]
        line = loaded.line_of("commands", number, "command")
        found.append(
            {"line": line, "name": command.name, "key": command.key, "uses": list(command.uses), "pages": sorted(pages)}
        )
    return found


def _print_checked(loaded: LoadedConfig, names: KnownNames, problems: Sequence[ConfigProblem]) -> None:
    """Print on which pages own commands have their keys, and whether the settings file is right."""
    for use in _uses_of(loaded, names, problems):
        if use["uses"]:
            objects = ", ".join(use["uses"])
            print_line(f"{use['name']} ({use['key']}) is on the pages that show {objects}: {', '.join(use['pages'])}.")
    if not problems:
        there = "has no errors" if loaded.text is not None else "is not there: everything is at its default"
        print_line(f"{loaded.path} {there}.")


def _clash_words(clashes: Sequence[tuple[str, str, type[DOMNode]]], known_names: KnownNames) -> str:
    """Key clashes as text: "x is Stop (job), x is Delete (pod, pods)"."""
    by_use: dict[tuple[str, str], dict[str, None]] = {}
    for key, what, place in clashes:
        by_use.setdefault((key, what), {})[_page_name(place)] = None
    return ", ".join(
        f"{key} is {what} ({'every page' if len(names) == len(known_names.pages) else ', '.join(sorted(names))})"
        for (key, what), names in by_use.items()
    )


def _keys(loaded: LoadedConfig, names: KnownNames) -> Iterator[ConfigProblem]:
    own = usable_keys(loaded.config)
    every: list[tuple[type[DOMNode], list[Binding]]] = [(page, _page_bindings(page, names.app)) for page in names.pages]
    every += [(place, _bindings_in(place)) for place in names.places]
    for name, text in loaded.config.keys.items():
        path = ("keys", name)
        if name not in names.keys:
            near = difflib.get_close_matches(name, names.keys, 3, 0.5)
            meant = f"Is it {' or '.join(near)}? " if near else ""
            yield _make_problem(loaded, f"There is no binding {name}. {meant}a4 config keys lists them.", *path)
        yield from _unknown_key_problems(loaded, keys_of(text), path)
        if name in own:
            new = set(keys_of(text)) - set(names.keys[name].keys.split(",") if name in names.keys else ())
            clashes = [
                (key, other.description or other.action, place)
                for place, bindings in every
                if any(each.id == name for each in bindings)
                for other in bindings
                if other.id != name
                for key in dict.fromkeys(keys_of(own.get(other.id or "", other.key)))
                if key in new
            ]
            if clashes:
                yield _make_problem(loaded, f"{_clash_words(clashes, names)}. Give {name} or that another key.", *path)


def _lists(loaded: LoadedConfig, names: KnownNames) -> Iterator[ConfigProblem]:
    for name, own in loaded.config.lists.items():
        if name not in names.lists:
            yield _make_problem(loaded, f"There is no list {name}. There are {', '.join(names.lists)}.", "lists", name)
            continue
        titles = names.lists[name]
        for column in (*own.columns, *filter(None, [own.sort])):
            if column not in titles:
                at = "columns" if column in own.columns else "sort"
                text = f"List {name} has no column {column}. It has {', '.join(titles)}."
                yield _make_problem(loaded, text, "lists", name, at)


# commands of one's own


def fill_in(
    command: OwnCommand, subject: Mapping[str, str], kubeconfig: Path | None = None
) -> tuple[str, dict[str, str]]:
    """The command line with object names filled in, and its script's variables. Raises BadInput for an unsafe name."""
    for each in command.uses:
        if not _PLAIN_WORD.fullmatch(name := subject.get(each, "")):
            why = f"The {each} is called {name!r}: a command may take it for an option or for several words."
            raise BadInput(why, "Names of letters, digits and ._:/@+- are given to commands, beginning with no sign.")
    line = _PLACEHOLDER.sub(lambda each: subject.get(each[2].lower(), each[0]), command.script)
    names = {f"A4_{each.upper()}": subject[each] for each in command.uses}
    return line, names | ({"KUBECONFIG": str(kubeconfig)} if kubeconfig else {})


def has_objects(command: OwnCommand, subject: Mapping[str, str]) -> bool:
    """Whether all objects that the command refers to are available."""
    return all(subject.get(each) for each in command.uses)


# a4 config


def show_config(options: ConfigOptions) -> int:
    """`a4 config`: show the settings in force with their origin, problems, or allowed names."""
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
    if options.what == "notify":
        return _try_notifications(loaded.config.notifications.to)
    problems = all_problems(loaded, known) + (_check_addresses(loaded) if options.what == "check" else [])
    settings = _valid_settings(loaded, problems)
    if options.json:
        wrong = [{"line": each.line, "problem": each.text} for each in problems]
        in_force = {} if options.what == "check" else {"settings": settings}
        uses = {"commands": _uses_of(loaded, known, problems)} if options.what == "check" else {}
        print_json({"file": str(loaded.path), "exists": loaded.text is not None, **in_force, "problems": wrong, **uses})
    else:
        if options.what != "check":
            _print_effective_settings(loaded, settings)
        for each in problems:
            print_line(f"{loaded.path}:{each.line}: {each.text}")
        if options.what == "check":
            _print_checked(loaded, known, problems)
    return BadInput.exit_code if problems and options.what == "check" else 0


def _check_addresses(loaded: LoadedConfig) -> list[ConfigProblem]:
    """Problems with the addresses of alarms, found by a process with the library that knows their forms."""
    to, at = loaded.config.notifications.to, ("notifications", "to")
    failed = asyncio.run(send_to_all(to, "", "")) if to else {}
    return [_make_problem(loaded, f"notifications.to: {format_failures(to, failed)}", *at)] if failed else []


def _try_notifications(addresses: Sequence[str]) -> int:
    """Send a test message to every address of [notifications]: the exit code. Raises BadInput without addresses."""
    if not addresses:
        raise BadInput("There are no addresses to send to.", 'Name some in config.toml: [notifications] to = ["…"].')
    failed = asyncio.run(send_to_all(addresses, "a4", "This is where the a4 console sends alarms."))
    for each in addresses:
        print_line(f"{mask_address(each)} {f'failed: {failed[each]}' if each in failed else 'has taken a message'}")
    return 1 if failed else 0


def _print_names(titles: tuple[str, ...], rows: Sequence[tuple[str, ...]], *, as_json: bool) -> int:
    if as_json:
        print_json({"items": [dict(zip(titles, row, strict=True)) for row in rows]})
    else:
        print_table([title.upper() for title in titles], rows)
    return 0


def _valid_settings(loaded: LoadedConfig, problems: Sequence[ConfigProblem]) -> dict[str, Any]:
    """The settings without invalid parts."""
    settings: dict[str, Any] = msgspec.to_builtins(loaded.config)
    if to := loaded.config.notifications.to:
        settings["notifications"]["to"] = [mask_address(each) for each in to]
    wrong = {each.path for each in problems} - {each.path for each in loaded.problems}  # those are not in it
    refused = {path[1] for path in wrong if path[:1] == ("commands",)}
    settings["commands"] = [
        command
        for number, command in zip(_numbered_commands(loaded), settings["commands"], strict=True)
        if number not in refused
    ]
    for path in wrong:
        if path == ("theme",):
            settings["theme"] = Config().theme
        elif path and path[0] != "commands":
            *way, last = path
            part: Any = settings
            for each in way:
                part = part.get(each, {})
            part.pop(last, None)
    return settings


def _print_effective_settings(loaded: LoadedConfig, settings: Mapping[str, Any]) -> None:
    """Print each setting with its line number."""
    default, rows = msgspec.to_builtins(Config()), []
    for name, value in settings.items():
        parts = {f"{name}.{key}": part for key, part in value.items()} if isinstance(value, dict) else {name: value}
        for key, part in parts.items() if value else ():
            source = f"line {loaded.line_of(*key.split('.', 1))}" if part != default.get(name) else "default"
            rows.append((key, part if isinstance(part, str) else json.dumps(part, ensure_ascii=False), source))
        if not value:
            rows.append((name, "none", "default"))
    there = loaded.text is not None
    print_line(str(loaded.path) if there else f"{loaded.path} is not there; everything is at its default.")
    print_table(("SETTING", "VALUE", "FROM"), rows)
