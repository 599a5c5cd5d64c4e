"""YAML to read: coloured in the theme's inks, only the visible lines drawn."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, ClassVar

from console.models.text import MemoryText
from screens.widgets.log_lines import LIMIT, LogLines
from screens.widgets.steady import Steady
from screens.wording import Run

if TYPE_CHECKING:
    from textual.binding import BindingType

_LINE = re.compile(r"(?P<lead>\s*(?:- )*)(?P<key>[^\s#'\"{}\[\]][^:#]*?:(?=\s|$))?(?P<rest>.*)")
_PLAIN_WORD = re.compile(r"\s*(?:-?\d[\d.]*|true|false|null)\s*")


def yaml_runs(text: str) -> list[Run]:
    """One line of YAML: keys, numbers and switches, strings, comments."""
    if text.lstrip().startswith(("#", "---")):
        return [Run(text, "dim")]
    found = _LINE.fullmatch(text)
    if found is None:
        return [Run(text)]
    lead, key, rest = found["lead"], found["key"] or "", found["rest"]
    ink = "waits" if _PLAIN_WORD.fullmatch(rest) else ""
    return [run for run in (Run(lead, "dim"), Run(key, "accent"), Run(rest, ink)) if run.text]


class YamlText(LogLines, Steady):
    """The text; it begins at its first line and stays where it is."""

    DEFAULT_CSS: ClassVar[str] = """
    YamlText { height: 1fr; padding: 0 1; overflow-y: auto; scrollbar-size-vertical: 1; scrollbar-size-horizontal: 0; }
    """
    BINDINGS: ClassVar[list[BindingType]] = []
    _whole: str | None = None

    def show(self, text: str) -> None:
        """Shows this text instead, from its first line unless it is another form of the same."""
        if text == self._whole:
            return
        self._whole = text
        held = MemoryText(LIMIT)
        held.append([(0.0, line) for line in text.splitlines()])
        row = self.scroll_y
        with self.app.batch_update():
            self.show_text(held)
            self.follow = False
            self.scroll_to(y=min(row, self.max_scroll_y), animate=False, immediate=True, force=True)

    def paint(self, text: str, whole: str) -> list[Run]:
        """YAML has inks of its own."""
        return yaml_runs(text)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """There is nothing to follow and no time of a line."""
        if action in {"toggle_follow", "toggle_times"}:
            return False
        return super().check_action(action, parameters)
