"""The log of one container, followed; and the app of `a4 view FILE`, which shows a file of any size in the log view."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from pathlib import Path
from typing import ClassVar

from textual import getters, on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Static

from console.errors import ConsoleError
from console.kube.snapshot import Fleet
from console.logs.container_log import LogRequest, ResumeCursor
from console.logs.log_text import FileText
from screens.dialogs.question import FilePrompt
from screens.dialogs.save_and_copy import save_log, write_lines
from screens.key_ordered_app import KeyOrderedApp
from screens.live_screen import LiveScreen
from screens.widgets.log.log_view import WAITING_FOR_CONNECTION, LogView
from screens.wording import count, sentence, size

TAIL_LINES = 10_000  # lines read at first


class LogScreen(LiveScreen):
    """A page with the log of a container, which is followed; `p` shows the log before its last restart."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("p", "previous", "Previous run", id="log.previous_run", tooltip="The log before its last restart")
    ]
    KINDS = ("pods",)
    OF_CLUSTER = True
    view = getters.query_one(LogView)

    def __init__(self, namespace: str, pod: str, container: str = "") -> None:
        super().__init__()
        self._container_id = namespace, pod, container
        self.trail_name = f"log of {pod}" + (f"/{container}" if container else "")
        self._shows_previous = False
        self._connection: object | None = None  # by which it is followed
        self._cursor = ResumeCursor(is_whole_file=False)

    def body(self) -> ComposeResult:
        yield LogView()

    def on_mount(self) -> None:
        self.view.lines.focus()
        self.view.end_reason = WAITING_FOR_CONNECTION

    def show_fleet(self, fleet: Fleet) -> None:
        """Follow the log, and continue where it stopped after a reconnection."""
        if (connection := self.app.connection) not in {None, self._connection}:
            self._connection = connection
            self.follow_log()

    def action_previous(self) -> None:
        self._shows_previous = not self._shows_previous
        self._cursor = ResumeCursor(is_whole_file=False)
        self.view.lines.clear()
        self.follow_log()

    @on(LogView.Saved)
    @work(group="actions")
    async def save(self, event: LogView.Saved) -> None:
        await save_log(self, event.text, "-".join(filter(None, self._container_id[1:])))

    @work(group="log", exclusive=True)
    async def follow_log(self) -> None:
        run = "previous run" if self._shows_previous else ""
        self.view.end_reason, self.view.status = "", run
        try:
            wanted = LogRequest(*self._container_id, TAIL_LINES, self._shows_previous, follow=not self._shows_previous)
            async with aclosing(self.session.logs.follow_pod(wanted, cursor=self._cursor)) as batches:
                async for lines in batches:
                    self.view.lines.append([(line.time, line.text) for line in lines])
        except ConsoleError as error:
            lost = self.app.connection is not self._connection
            self.view.end_reason = WAITING_FOR_CONNECTION if lost else "✗ not followed"
            self.view.status = run if lost else sentence(f"{error.message} {error.hint}")
            return
        self.view.end_reason = "○ the end" if run else "○ the container has ended"


FILE_POLL_SECONDS = 1.0  # seconds between two looks whether the file has grown


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
        yield Static(
            "/ find  n N next  F filter  L level  E first error  M NCCL  W wrap  g G ends  S save  q quit",
            classes="log-foot",
            markup=False,
        )

    def on_mount(self) -> None:
        """Start at the beginning of the file, not at its end as for a log."""
        self.view.lines.show_text(self.text)
        self.view.lines.action_top()
        self.view.lines.focus()
        self._update_status()
        self.set_interval(FILE_POLL_SECONDS, self._poll_file)

    def _poll_file(self) -> None:
        if not self.is_running:  # a last look may come while the widgets are being taken away
            return
        self.text.read_growth()
        self.view.lines.show_changes()
        self._update_status()

    def _update_status(self) -> None:
        words = f"{self.text.file}  {size(self.text.size)}"
        if not self.text.size:
            words = f"The file is empty; what is written to it is shown here: {self.text.file}"
        self.query_one("#head", Static).update(words)

    @on(LogView.Saved)
    @work(group="actions")
    async def save(self) -> None:
        place = await self.push_screen_wait(
            FilePrompt("Save the lines that are shown to", f"{self.text.file.name}.part")
        )
        if not place:
            return
        try:
            number = await asyncio.to_thread(write_lines, self.text, place)
        except ConsoleError as error:
            self.notify(str(error), title="Not saved", severity="error")
        else:
            self.notify(f"{count(number, 'line')} in {place}.", title="Saved")


def view_log_file(file: str) -> int:
    app = LogFileApp(FileText(Path(file).expanduser()))
    app.run()
    return app.return_code or 0
