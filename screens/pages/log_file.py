"""The app of `a4 view FILE`: shows a file of any size in the log view, also while it grows."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import getters, on, work
from textual.binding import Binding, BindingType
from textual.widgets import Static

from console.errors import ConsoleError
from console.logs.text import FileText
from screens.dialogs.question import Prompt
from screens.dialogs.save import write_lines
from screens.key_order import KeyOrderedApp
from screens.widgets.log.view import LogView
from screens.wording import count, size

if TYPE_CHECKING:
    from textual.app import ComposeResult

LOOK = 1.0  # seconds between two looks whether the file has grown


class LogFileApp(KeyOrderedApp):
    CSS: ClassVar[str] = "#head { height: 1; background: $ground-head; padding: 0 1; }"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "Quit", id="view.quit"),
        Binding("t", "theme", "Light or dark", id="view.theme"),
    ]
    view = getters.query_one(LogView)

    def __init__(self, text: FileText) -> None:
        super().__init__()
        self.text = text

    def compose(self) -> ComposeResult:
        yield Static(id="head", markup=False)
        yield LogView()
        yield Static("/ find  n N next  F filter  L level  E first error  M NCCL  W wrap  g G ends  S save  q quit",
                     classes="log-foot", markup=False)  # fmt: skip

    def on_mount(self) -> None:
        """Start at the beginning of the file, not at its end as for a log."""
        self.view.lines.show_text(self.text)
        self.view.lines.action_top()
        self.view.lines.focus()
        self._tell()
        self.set_interval(LOOK, self._look)

    def _look(self) -> None:
        if not self.is_running:  # a last look may come while the widgets are being taken away
            return
        self.text.grow()
        self.view.lines.renew()
        self._tell()

    def _tell(self) -> None:
        told = f"{self.text.file}  {size(self.text.size)}"
        if not self.text.size:
            told = f"The file is empty; what is written to it is shown here: {self.text.file}"
        self.query_one("#head", Static).update(told)

    @on(LogView.Saved)
    @work(group="actions")
    async def save(self) -> None:
        place = await self.push_screen_wait(Prompt("Save the lines that are shown to", f"{self.text.file.name}.part"))
        if not place:
            return
        try:
            number = await asyncio.to_thread(write_lines, self.text, place)
        except ConsoleError as error:
            self.notify(str(error), title="Not saved", severity="error")
        else:
            self.notify(f"{count(number, 'line')} in {place}.", title="Saved")


def view(file: str) -> int:
    app = LogFileApp(FileText(Path(file).expanduser()))
    app.run()
    return app.return_code or 0
