"""Base classes of all widgets and the app: abstract widgets, stable scroll bars, and a filter of terminal output.

Whatever a widget draws, no letter in it can be obeyed as a command; and no error that ends the app tells values.
"""

from __future__ import annotations

import re
import sys
from abc import ABCMeta
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.cells import get_character_cell_size
from rich.segment import Segment
from rich.text import Text
from textual.app import App
from textual.filter import LineFilter
from textual.geometry import Size
from textual.message_pump import _MessagePumpMeta
from textual.scroll_view import ScrollView

from screens.cli.crash import report
from screens.widgets.line import DARK, LIGHT
from screens.wording import one_line

if TYPE_CHECKING:
    from textual.color import Color
    from textual.notifications import SeverityLevel


class AbstractWidgetMeta(_MessagePumpMeta, ABCMeta):
    """Metaclass of widgets with abstract methods: a class that lacks one cannot be instantiated."""


class FixedHeightView(ScrollView):
    """A scroll view that sets its own height.

    Textual tells such a view its size at every layout, whatever moved, with a height that is not its own; it then
    repaints its bar, and with it everything between this bar and what did move.
    """

    _told: tuple[Size, Size] | None = None

    def _size_updated(self, size: Size, virtual_size: Size, container_size: Size, layout: bool = True) -> bool:
        if self._told == (size, container_size):
            return False
        self._told = size, container_size
        return super()._size_updated(size, virtual_size, container_size, layout)


class ControlCharFilter(LineFilter):
    """Removes control characters that are left in a line, and sets words from right to left apart; no width changes.

    Widgets make controls visible where they format a text (`wording.one_line`); this is for those that forgot.
    """

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        if all(_is_plain(segment.text) for segment in segments):
            return segments
        return [
            segment
            if segment.control or _is_plain(segment.text)
            else Segment(_RIGHT_TO_LEFT.sub(APART, _replace_unprintable(segment.text)), segment.style)
            for segment in segments
        ]


_LETTERS = "[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001eeff]"
_RIGHT_TO_LEFT = re.compile(rf"{_LETTERS}+(?:[ '\"./_-]{_LETTERS}+)*")
APART = "\u200e\\g<0>\u200e"
"""Words from right to left, such as Hebrew names, between marks of no width.

A terminal that reorders a line by itself would else move the figures after such a name before it. The marks hold
wherever a line is cut, as the ends of an isolate would not.
"""


def _is_plain(text: str) -> bool:
    return text.isprintable() and (text.isascii() or _RIGHT_TO_LEFT.search(text) is None)


def _replace_unprintable(text: str) -> str:
    return "".join(
        letter if letter.isprintable() or (letter.isspace() and letter >= "\xa0" and letter not in "\u2028\u2029")
        else "·" * get_character_cell_size(letter)
        for letter in text
    )  # fmt: skip


class SanitizingApp(App[int]):
    def __init__(self, **textual: Any) -> None:
        super().__init__(**textual)
        self._text_gate = ControlCharFilter()
        self.animation_level = "none"  # a scroll that glides settles after 0.9 s
        for theme in (DARK, LIGHT):
            self.register_theme(theme)
        self.theme = DARK.name

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """This app's text styles, for themes that do not define them."""
        return (DARK if self.current_theme.dark else LIGHT).variables

    def action_theme(self) -> None:
        self.theme = (LIGHT if self.current_theme.dark else DARK).name

    def get_line_filters(self) -> Sequence[LineFilter]:
        return [*super().get_line_filters(), self._text_gate]

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: SeverityLevel = "information",
        timeout: float | None = None,
        markup: bool = False,
    ) -> None:
        """Show a toast; its text may come from a cluster, so it is sanitized and never parsed as markup."""
        clean = "\n".join(map(one_line, message.split("\n")))
        super().notify(clean, title=one_line(title), severity=severity, timeout=timeout, markup=False)

    def panic(self, *renderables: Any) -> None:
        """End the app with this program's crash report: libraries' reports show source lines with variable values."""
        if (error := sys.exc_info()[1] or self._exception) is not None:
            renderables = (Text(report(error)),)
        super().panic(*renderables)

    def _fatal_error(self) -> None:
        # Textual's own prints every variable of every frame.
        self.bell()
        error = sys.exc_info()[1] or self._exception
        self._exit_renderables.append(Text(report(error) if error is not None else "An unexpected error."))
        self._close_messages_no_wait()
