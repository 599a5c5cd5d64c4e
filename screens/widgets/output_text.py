"""Output of programs under headings: a heading begins with a rule, and its glyph says how it went."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from screens.widgets.yaml import YamlText
from screens.wording import Run

if TYPE_CHECKING:
    from textual.binding import BindingType

RULE = "── "
_INKS = {"✗": "bad", "≠": "waits", "⚠": "waits", "◐": "waits", "●": "ok", "○": "dim"}


class OutputText(YamlText):
    """The text; it stays where it is when it is shown anew."""

    DEFAULT_CSS: ClassVar[str] = """
    OutputText {
        height: 1fr; padding: 0 1; overflow-y: auto; scrollbar-size-vertical: 1; scrollbar-size-horizontal: 0;
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = []

    def paint(self, text: str, whole: str) -> list[Run]:
        """Headings in the ink of their glyph, the rest plain."""
        if not text.startswith(RULE):
            return [Run(text)]
        glyph, _, words = text.removeprefix(RULE).partition(" ")
        ink = _INKS.get(glyph, "head")
        title, colon, rest = words.partition(": ")
        return [Run(RULE, "faint"), Run(f"{glyph} ", ink), Run(title, "bad" if ink == "bad" else "strong"),
                Run(f"{colon}{rest}", "" if ink in ("bad", "waits") else "dim")]  # fmt: skip
