"""One object as YAML, as the API server has it."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual import getters, work
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widgets import Static

from screens.base import LiveScreen

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from console.kube.snapshot import Fleet


class Manifest(VerticalScroll, can_focus=True):
    """The text, scrolled by keys."""


class ManifestScreen(LiveScreen):
    """The object's YAML; read again with `u`."""

    OF_CLUSTER = True
    DEFAULT_CSS = """
    ManifestScreen #yaml { width: auto; padding: 0 2; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("u", "read", "Read again", id="manifest.read"),
        Binding("c", "copy", "Copy", id="manifest.copy", tooltip="Put the text on the clipboard (OSC 52)"),
    ]
    text_box = getters.query_one("#yaml", Static)

    def __init__(self, kind: str, namespace: str, name: str) -> None:
        super().__init__()
        self._about = kind, namespace, name
        self.crumb = f"{kind} {name} YAML"
        self._text = ""

    def body(self) -> ComposeResult:
        with Manifest():
            yield Static("Reading …", id="yaml", markup=False)

    def show_fleet(self, fleet: Fleet) -> None:
        """Does not follow the snapshot: text under one's eyes must not move."""

    def on_mount(self) -> None:
        self.query_one(Manifest).focus()
        self.action_read()

    @work(group="manifest", exclusive=True)
    async def action_read(self) -> None:
        kind, namespace, name = self._about
        with self.report_errors(f"Could not read {kind} {name}"):
            self._text = await self.session.watch.manifest(kind, namespace, name)
            self._draw()

    def action_copy(self) -> None:
        self.app.copy_to_clipboard(self._text)
        self.notify("Copied.", timeout=2)

    def _draw(self) -> None:
        from rich.syntax import Syntax  # Pygments takes a while to import

        theme = "ansi_dark" if self.app.current_theme.dark else "ansi_light"
        self.text_box.update(Syntax(self._text, "yaml", theme=theme, background_color="default"))
