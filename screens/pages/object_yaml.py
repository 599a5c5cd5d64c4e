"""The page of one API object as YAML."""

from __future__ import annotations

from typing import ClassVar

from textual import getters, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from screens.live_screen import LiveScreen
from screens.widgets.yaml import YamlText


class ObjectYamlScreen(LiveScreen):
    """A page with an object's YAML, read once so that it does not change under the reader."""

    OF_CLUSTER = True
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r,u", "read", "Read again", id="manifest.read"),
        Binding("c", "copy", "Copy", id="manifest.copy", tooltip="Put the text on the clipboard (OSC 52)"),
    ]
    text = getters.query_one(YamlText)

    def __init__(self, kind: str, namespace: str, name: str) -> None:
        super().__init__()
        self._object_id = kind, namespace, name
        self.trail_name = f"{kind} {name} YAML"
        self._text = ""

    def body(self) -> ComposeResult:
        yield YamlText()

    def on_mount(self) -> None:
        self.text.show("# Reading …")
        self.action_read()

    @work(group="manifest", exclusive=True)
    async def action_read(self) -> None:
        kind, namespace, name = self._object_id
        with self.report_errors(f"Could not read {kind} {name}"):
            self._text = await self.session.watch.manifest(kind, namespace, name)
            self.text.show(self._text)

    def action_copy(self) -> None:
        self.app.copy_to_clipboard(self._text)
        self.notify("Copied.", timeout=2)
