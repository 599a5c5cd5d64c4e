"""YAML to type: coloured in the theme's inks, lines that cannot be taken underlined."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rich.style import Style
from textual.widgets import TextArea

from screens.widgets.ink import Inked
from screens.widgets.inputs import kept_bindings
from screens.widgets.steady import Steady
from screens.widgets.yaml_text import yaml_runs

if TYPE_CHECKING:
    from collections.abc import Collection

    from rich.text import Text
    from textual.binding import BindingType

WRONG = Style(underline=True, bold=True)


class YamlEditor(TextArea, Steady, Inked, inherit_bindings=False):
    """The text; Tab indents, Esc leaves."""

    DEFAULT_CSS: ClassVar[str] = """
    YamlEditor { border: none; height: 1fr; padding: 0; background: $background; scrollbar-size-vertical: 1;
                 scrollbar-size-horizontal: 0;
        &:focus { border: none; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = kept_bindings(TextArea.BINDINGS, frozenset({"f6", "f7", "ctrl+f"}))

    def __init__(self) -> None:
        super().__init__("", compact=True, soft_wrap=False, show_line_numbers=True, tab_behavior="indent",
                         highlight_cursor_line=False, placeholder="# values that differ from the defaults")  # fmt: skip
        self.indent_width = 2
        self._wrong: frozenset[int] = frozenset()

    def show(self, text: str) -> None:
        """Another text, as one edit that ctrl+z takes back."""
        if text != self.text:
            place = self.cursor_location
            self.replace(text, (0, 0), self.document.end)
            self.move_cursor(place)

    def begin(self, text: str) -> None:
        """The text of another recipe, with nothing to take back."""
        self.load_text(text)

    def mark(self, lines: Collection[int]) -> None:
        """Lines, counted from 1, in which something is wrong."""
        wrong = frozenset(lines)
        if wrong != self._wrong:
            self._wrong = wrong
            self._line_cache.clear()
            self.refresh()

    def get_line(self, line_index: int) -> Text:
        """A line in its inks."""
        text = super().get_line(line_index)
        at = 0
        for run in yaml_runs(text.plain):
            text.stylize(self.ink(run.ink), at, at + len(run.text))
            at += len(run.text)
        if line_index + 1 in self._wrong:
            text.stylize(WRONG + self.ink("bad"))
        return text
