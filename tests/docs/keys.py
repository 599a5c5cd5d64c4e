"""The page of all keys, from the bindings of the screens and of the parts they are made of."""

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterable
from functools import cache
from typing import Any

from textual.app import App
from textual.binding import Binding
from textual.dom import DOMNode
from textual.screen import ModalScreen, Screen
from textual.widget import Widget

import screens
from console.connection_settings import Settings
from screens.app import ConsoleApp
from screens.job_tabs.tab import JobTab
from screens.live_screen import LiveScreen
from screens.wording import GLYPH_MEANINGS, lower_first_letter
from tests.docs.markdown import anchor, code, table, text

HEAD = """\
# Keys

<!-- Written by `make docs` from the bindings of the screens; a test compares the two. -->

In the console `?` shows the keys that work where you are, and `:` finds them by name. This page has all of them, by the
place to which they belong. Keys that change the cluster are absent with `--read-only`.
"""
TITLES = {
    "ConsoleApp": "Everywhere",
    "LiveScreen": "On every page",
    "ResourceTable": "Lists",
    "PanedScreen": "Lists with a pane",
    "ProjectRegionScreen": "Pages of one project and region",
    "PodActions": "A pod under the cursor",
    "NodeActions": "A node under the cursor",
    "PoolSizes": "A pool under the cursor",
    "PoolScreen": "A pool's page",
    "LogScreen": "Log of a pod",
    "GpusTab": "GPUs tab",
    "NcclTab": "NCCL tab",
    "FloorMap": "Map of the hosts",
    "PodMatrix": "Grid of the pods",
    "NcclPanel": "Several NCCL tests in one job",
    "TrainingPanel": "Several training runs in one job",
    "LogLines": "Lines of a text",
    "LogFileApp": "a4 view",
    "ObjectYamlScreen": "YAML of an object",
    "Form": "Launch form",
    "SearchInput": "Search in the form",
    "LaunchLook": "Before a launch",
    "WhatIfScreen": "What if",
    "ExecAll": "A command in many pods",
    "CopyDialog": "Copying files",
    "EditorDialog": "Editor for a pod",
    "AskBuild": "Building an image",
    "AskPorts": "Ports to forward",
    "PasteDialog": "Pasting values",
    "PasteReport": "After pasting values",
    "QuickNccl": "A short NCCL test in a pod",
    "FilterInput": "Filter of a list",
    "Pick": "Pick from a list",
    "Confirm": "Confirm a question",
    "Prompt": "Type a line",
}
"""Headings of classes whose names do not say it to a person."""


NAMES = {"⏎": "Enter", "⌫": "Backspace", "esc": "Esc", "tab": "Tab", "shift+tab": "Shift+Tab", "space": "Space",
         "pgup": "PgUp", "pgdn": "PgDn", "home": "Home", "end": "End"}  # fmt: skip


def keys_page() -> str:
    """Every place that has keys, and what each key does there."""
    groups: dict[str, list[type[DOMNode]]] = {}
    for each in _places():
        groups.setdefault(_group(each), []).append(each)
    order = (
        "The whole console",
        "Main screens",
        "Pages",
        "Tabs of a job",
        "Lists, texts and forms",
        "Dialogs",
        "Other programs",
    )
    parts = [HEAD]
    for name in order:
        places = groups.get(name, [])
        if name == "Main screens":
            places = sorted(places, key=lambda each: _main().index(each.__name__))
        parts += [f"## {name}", *map(_section, places)]
    signs = table(["sign", "means"], [[sign.text, meaning] for sign, meaning in GLYPH_MEANINGS])
    parts += ["## Signs", "On every page, a sign and its word tell the state of a thing.", signs]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _main() -> list[str]:
    return [f"{name}Screen" for _, _, name in ConsoleApp.TABS]


def titles_without_a_class() -> set[str]:
    """Entries of TITLES that are about nothing any more."""
    return set(TITLES) - {each.__name__ for each in _places()}


@cache
def _places() -> list[type[DOMNode]]:
    """Every class with keys of its own that a person may press, by module and name."""
    found: dict[str, type[DOMNode]] = {}
    for module in pkgutil.walk_packages(screens.__path__, "screens."):
        for each in vars(importlib.import_module(module.name)).values():
            if (
                inspect.isclass(each)
                and issubclass(each, DOMNode)
                and each.__module__ == module.name
                and _actions(each)
            ):
                found[f"{each.__module__}.{each.__name__}"] = each
    return [found[name] for name in sorted(found)]


def _group(place: type[DOMNode]) -> str:
    if place in (ConsoleApp, LiveScreen):
        return "The whole console"
    if place.__name__ in _main():
        return "Main screens"
    for base, name in (
        (ModalScreen, "Dialogs"), (JobTab, "Tabs of a job"), (Screen, "Pages"), (App, "Other programs"),
        (Widget, "Lists, texts and forms"),
    ):  # fmt: skip
        if issubclass(place, base):
            return name
    raise TypeError(f"{place.__name__} has keys but is no part of a screen.")


def _title(place: type[DOMNode]) -> str:
    name = re.sub(r"(?<=.)Screen$", "", place.__name__)
    return TITLES.get(place.__name__) or re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).capitalize()


def _section(place: type[DOMNode]) -> str:
    rows = [(" ".join(code(key) for key in keys), text(told)) for told, keys in _actions(place).values()]
    more = [each for each in place.__mro__[1:] if each is not LiveScreen and each in _places()]
    also = (
        "Also the keys of " + ", ".join(f"[{_title(each)}](#{anchor(_title(each))})" for each in more) + "."
        if more
        else ""
    )
    return "\n\n".join(filter(None, (f"### {_title(place)}", table(("key", "what it does"), rows), also)))


def _actions(place: type[DOMNode]) -> dict[str, tuple[str, list[str]]]:
    """Action -> what it does, and its keys; without those that Textual's own widgets have."""
    known = {
        (each.key, each.action)
        for base in place.__mro__[1:] if base.__module__.startswith("textual.")
        for each in _bindings(base)
    }  # fmt: skip
    found: dict[str, tuple[str, list[str]]] = {}
    for each in _bindings(place):
        if not each.description or each.system or (each.key, each.action) in known:
            continue
        why = f": {lower_first_letter(each.tooltip)}" if each.tooltip else ""
        _, keys = found.setdefault(each.action, (f"{each.description}{why}", []))
        keys += [key for key in _keys(each) if key not in keys]
    return found


def _keys(binding: Binding) -> list[str]:
    """As a sentence names them."""
    shown = _APP.get_key_display(binding)
    return [NAMES.get(key, key.replace("^", "ctrl+")) for key in shown.split(" ")]


def _bindings(place: type[Any]) -> Iterable[Binding]:
    return Binding.make_bindings(vars(place).get("BINDINGS", ()))


_APP = ConsoleApp(Settings())
"""For the names of keys; it is never run."""
