"""YAML to read: coloured, scrolled by keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.containers import VerticalScroll
from textual.getters import query_one
from textual.reactive import reactive
from textual.widgets import Static

if TYPE_CHECKING:
    from textual.app import ComposeResult


class YamlText(VerticalScroll, can_focus=True):
    """The text; another theme colours it anew."""

    DEFAULT_CSS: ClassVar[str] = """
    YamlText { height: 1fr; padding: 0 1; scrollbar-size-vertical: 1;
        Static { width: auto; }
    }
    """

    text: reactive[str] = reactive("")
    body = query_one(Static)

    def compose(self) -> ComposeResult:
        """The text alone."""
        yield Static("Reading …", markup=False)

    def on_mount(self) -> None:
        """Colours follow the theme."""
        self.watch(self.app, "theme", self.watch_text, init=False)

    def watch_text(self) -> None:
        """Draws it."""
        if not self.text or not self.is_mounted:
            return
        from rich.syntax import Syntax  # Pygments takes a while to import, and most screens never need it

        theme = "ansi_dark" if self.app.current_theme.dark else "ansi_light"
        self.body.update(Syntax(self.text, "yaml", theme=theme, background_color="default"))
