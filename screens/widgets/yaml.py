"""Views and editors for YAML with highlighting; faulty lines are underlined."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import ClassVar

from rich.style import Style
from rich.text import Text
from textual.binding import BindingType
from textual.widgets import TextArea

from console.logs.log_text import MemoryText
from screens.widgets.form.editors import kept_bindings
from screens.widgets.log.log_lines import MAX_MEMORY_LINES, LogLines
from screens.widgets.styled_text import SelfSizedScrollView, StyledWidget, fold_at_spaces
from screens.wording import Span

_YAML_LINE = re.compile(r"(?P<lead>\s*(?:- )*)(?P<key>[^\s#'\"{}\[\]][^:#]*?:(?=\s|$))?(?P<rest>.*)")
_PLAIN_WORD = re.compile(r"\s*(?:-?\d[\d.]*|true|false|null)\s*")


def yaml_spans(text: str) -> list[Span]:
    if text.lstrip().startswith(("#", "---")):
        return [Span(text, "dim")]
    found = _YAML_LINE.fullmatch(text)
    if found is None:
        return [Span(text)]
    lead, key, rest = found["lead"], found["key"] or "", found["rest"]
    style = "waits" if _PLAIN_WORD.fullmatch(rest) else ""
    return [run for run in (Span(lead, "dim"), Span(key, "accent"), Span(rest, style)) if run.text]


class YamlText(LogLines, SelfSizedScrollView):
    """A read-only YAML view; it starts at the first line and does not scroll by itself."""

    DEFAULT_CSS: ClassVar[str] = """
    YamlText { height: 1fr; padding: 0 1; overflow-y: auto; scrollbar-size-vertical: 1; scrollbar-size-horizontal: 0; }
    """
    _full_text: str | None = None

    def show(self, text: str) -> None:
        """Replace the text; the scroll position stays as far as possible."""
        if text == self._full_text:
            return
        self._full_text = text
        held = MemoryText(MAX_MEMORY_LINES)
        held.append_lines([(0.0, line) for line in text.splitlines()])
        row = self.scroll_y
        with self.app.batch_update():
            self.show_text(held)
            self.follow = False
            self.scroll_to(y=min(row, self.max_scroll_y), animate=False, immediate=True, force=True)

    def paint(self, text: str, full_text: str) -> list[Span]:
        return yaml_spans(text)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return super().check_action(action, parameters) if action != "toggle" else parameters == ("wrap",)


WRONG_STYLE = Style(underline=True, bold=True)


class YamlEditor(TextArea, SelfSizedScrollView, StyledWidget, inherit_bindings=False):
    """A YAML editor; Tab indents, Esc leaves."""

    DEFAULT_CSS: ClassVar[str] = """
    YamlEditor { border: none; height: 1fr; padding: 0; background: $background; scrollbar-size-vertical: 1;
                 scrollbar-size-horizontal: 0;
        &:focus { border: none; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = kept_bindings(TextArea.BINDINGS, frozenset({"f6", "f7", "ctrl+f"}))

    def __init__(self) -> None:
        super().__init__(
            "",
            compact=True,
            soft_wrap=False,
            show_line_numbers=True,
            tab_behavior="indent",
            highlight_cursor_line=False,
            placeholder="# values that differ from the defaults",
        )
        self.indent_width = 2
        self._wrong: frozenset[int] = frozenset()

    def show(self, text: str) -> None:
        """Replace the text as one edit that ctrl+z undoes."""
        if text != self.text:
            place = self.cursor_location
            self.replace(text, (0, 0), self.document.end)
            self.move_cursor(place)

    def mark(self, lines: Collection[int]) -> None:
        """Underline these lines (counted from 1) as faulty."""
        wrong = frozenset(lines)
        if wrong != self._wrong:
            self._wrong = wrong
            self._line_cache.clear()
            self.refresh()

    def get_line(self, line_index: int) -> Text:
        text = super().get_line(line_index)
        at = 0
        for run in yaml_spans(text.plain):
            text.stylize(self.style_of(run.style), at, at + len(run.text))
            at += len(run.text)
        if line_index + 1 in self._wrong:
            text.stylize(WRONG_STYLE + self.style_of("bad"))
        return text


HEADING = "── "
_STYLE_OF_GLYPH = {"✗": "bad", "≠": "waits", "⚠": "waits", "◐": "waits", "●": "ok", "○": "dim"}


class OutputText(YamlText):
    """A widget with a program's output under headings; it keeps its scroll position when the text is replaced."""

    fold = staticmethod(fold_at_spaces)

    def paint(self, text: str, full_text: str) -> list[Span]:
        if not text.startswith(HEADING):
            return [Span(text)]
        glyph, _, words = text.removeprefix(HEADING).partition(" ")
        style = _STYLE_OF_GLYPH.get(glyph, "head")
        title, colon, rest = words.partition(": ")
        return [
            Span(HEADING, "faint"),
            Span(f"{glyph} ", style),
            Span(title, "bad" if style == "bad" else "strong"),
            Span(f"{colon}{rest}", "" if style in ("bad", "waits") else "dim"),
        ]
