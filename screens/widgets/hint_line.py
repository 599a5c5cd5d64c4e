"""Hints for who opens the console for the first time: each is shown once, on a line of its own above the keys."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

import msgspec
from textual.widgets import Static

from console.folders import atomic_write, make_private, state_folder


class Hint(NamedTuple):
    name: str
    page: str
    """Name of the class of the page it is about; empty: any."""
    text: str
    """Bindings stand in it by their id, in braces."""


HINTS = (
    Hint("anywhere", "", "{app.commands} finds pages, jobs, pods and commands by name; {app.help} shows all keys here"),
    Hint("lists", "JobsScreen", "{table.filter} filters, {table.sort} sorts, {table.mine} shows only your jobs; "
         "{pane.size} sizes the pane beside"),
    Hint("job", "JobScreen", "{job.log} opens its log, {job.training} its training, {job.hang} why it hangs; "
         "{job.before} {job.after} turn the tabs"),
)  # fmt: skip
_BRACED = re.compile(r"\{([\w.-]+)\}")


class HintLine(Static):
    """A hint, until it is clicked, closed by Esc, or its page is left."""

    DEFAULT_CSS = "HintLine { height: auto; padding: 0 1; background: $surface; color: $accent; }"

    def on_click(self) -> None:
        self.remove()


class FirstHints:
    """Which hints this person has not seen."""

    def __init__(self) -> None:
        self._file = state_folder() / "hints.json"
        self.seen: set[str] = set()
        with suppress(OSError, ValueError):  # it is not there, or was made by something else
            self.seen = set(msgspec.json.decode(self._file.read_bytes(), type=list[str]))

    def next(self, page: str) -> Hint | None:
        """The first one for that page that was not seen."""
        return next((each for each in HINTS if each.name not in self.seen and each.page in {"", page}), None)

    def take(self, hint: Hint, keys: Mapping[str, str]) -> str:
        """Its text with the keys of those bindings, once all are there; until then it is empty and the hint unseen."""
        if not all(each in keys for each in _BRACED.findall(hint.text)):
            return ""
        self.seen.add(hint.name)
        return _BRACED.sub(lambda found: keys[found[1]], f"{hint.text}   (esc closes this)")

    def save(self) -> None:
        """Blocking; where nothing can be written the hints come again."""
        with suppress(OSError):
            make_private(self._file.parent)
            atomic_write(self._file, msgspec.json.encode(sorted(self.seen)))
