"""The page of one container's log."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, ClassVar

from textual import getters, on, work
from textual.binding import Binding, BindingType

from console.errors import ConsoleError
from console.logs.container_log import ResumeCursor
from screens.base import LiveScreen
from screens.dialogs.save import save_log
from screens.widgets.log.view import WAITING, LogView
from screens.wording import sentence

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from console.kube.snapshot import Fleet

TAIL = 10_000  # lines read at first


class LogScreen(LiveScreen):
    """The followed log of a container; `p` shows that of the previous container."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("p", "previous", "Previous run", id="log.previous_run",
                tooltip="The log of the container before its last restart, and back"),
    ]  # fmt: skip
    KINDS = ("pods",)
    OF_CLUSTER = True
    view = getters.query_one(LogView)

    def __init__(self, namespace: str, pod: str, container: str = "") -> None:
        super().__init__()
        self._about = namespace, pod, container
        self.crumb = f"log of {pod}" + (f"/{container}" if container else "")
        self._previous = False
        self._connection: object | None = None  # by which it is followed
        self._memory = ResumeCursor(whole=False)

    def body(self) -> ComposeResult:
        yield LogView()

    def on_mount(self) -> None:
        self.view.lines.focus()
        self.view.over = WAITING

    def show_fleet(self, fleet: Fleet) -> None:
        """Follow the log, and continue where it stopped after a reconnection."""
        if (connection := self.app.connection) not in {None, self._connection}:
            self._connection = connection
            self.follow()

    def action_previous(self) -> None:
        self._previous = not self._previous
        self._memory = ResumeCursor(whole=False)
        self.view.lines.clear()
        self.follow()

    @on(LogView.Saved)
    @work(group="actions")
    async def save(self, event: LogView.Saved) -> None:
        await save_log(self, event.text, "-".join(filter(None, self._about[1:])))

    @work(group="log", exclusive=True)
    async def follow(self) -> None:
        namespace, pod, container = self._about
        run = "previous run" if self._previous else ""
        self.view.over, self.view.status = "", run
        try:
            log = self.session.logs.follow(
                namespace, pod, container=container, tail=TAIL, previous=self._previous, follow=not self._previous,
                memory=self._memory,
            )  # fmt: skip
            async with aclosing(log) as lines:
                async for line in lines:
                    self.view.lines.append([(line.time, line.text)])
        except ConsoleError as error:
            lost = self.app.connection is not self._connection
            self.view.over = WAITING if lost else "✗ not followed"
            self.view.status = run if lost else sentence(f"{error.message} {error.hint}")
            return
        self.view.over = "○ the end" if run else "○ the container has ended"
