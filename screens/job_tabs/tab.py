"""The base class of the tabs of a job's page."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, cast

from textual import on
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget

from console.kube.snapshot import Fleet
from screens.columns.jobs import JobLine
from screens.live_screen import LiveScreen
from screens.widgets.styled_text import AbstractWidgetMeta, Room
from screens.widgets.table.table import ResourceTable


class JobTab(Room, metaclass=AbstractWidgetMeta):
    """One tab of a job's page, which calls `show` with each snapshot and `opened` when it appears, and sets `rank`."""

    DEFAULT_CSS: ClassVar[str] = "JobTab { height: 1fr; }"

    CHANGES_CLUSTER: ClassVar[frozenset[str]] = frozenset()  # actions that are gone in read-only mode
    NAME: ClassVar[str]  # its name in code: the widget's id, and the last part of the key's id
    KEY: ClassVar[str]  # the key that opens it, on the whole page
    TITLE: ClassVar[str]
    SHOWS: ClassVar[frozenset[str]] = frozenset()  # what of a job's course it shows itself
    note: reactive[str] = reactive("", init=False)  # what stands beside the title, such as a count
    rank: reactive[int] = reactive(0, init=False)
    """Number of the chosen rank; the page sets it, a tab asks for another one by `Chosen`."""

    @dataclass
    class Chosen(Message):
        rank: int
        tab_name: str = ""  # name of the tab to open with it; empty: none
        by_tab: bool = False  # whether the tab led there by itself: no person has chosen it
        line: tuple[float, str] | None = None  # the tab is to show it: its time, and its text or the number it names

    def __init__(self, key: tuple[str, str]) -> None:
        super().__init__(id=self.NAME)
        self.key = key  # namespace and name of the JobSet
        self.line: JobLine | None = None
        """The job's row in the last snapshot that had the job; None until it appears."""
        self.fleet: Fleet | None = None
        self.ended = ""  # how a job ended that is not in the cluster any more; the page sets it
        self.is_open = False
        self._connection: object | None = None

    # what the page calls

    def show(self, line: JobLine | None, fleet: Fleet) -> None:
        """Show a snapshot; `line`: the job, or its last known state if it is gone; None if it never existed."""
        self.line, self.fleet = line, fleet
        before, now = self._connection, self.live.app.connection
        if now is not None and now is not before:
            self._connection = now
            if before is not None:
                self.resume_after_reconnect()
        self.update_note(line, fleet)
        if self.is_open:
            self.draw(line, fleet)

    def activated(self) -> None:
        self.is_open = True
        if self.fleet is not None:
            self.update_note(self.line, self.fleet)
            self.draw(self.line, self.fleet)
        for table in self.query(ResourceTable):
            table.repaint_changed()  # ages go on while it is hidden
        self.opened()

    def deactivated(self) -> None:
        self.is_open = False

    # what a tab fills in

    def update_note(self, line: JobLine | None, fleet: Fleet) -> None:
        """Called with every snapshot, visible or not, to keep streams alive and the note current; must be fast."""

    def draw(self, line: JobLine | None, fleet: Fleet) -> None:
        """Called with every snapshot while visible, and when the tab becomes visible."""

    def opened(self) -> None:
        """Called when the tab becomes visible."""

    def resume_after_reconnect(self) -> None:
        """Called after a reconnection, which ended all streams, to open them again."""

    def show_line(self, time: float, sentence: str) -> None:
        """Show the log line printed at `time`; of several lines the one that contains `sentence`."""

    @property
    def turns_ranks(self) -> bool:
        """Whether the tab shows one rank at a time, so that `<` and `>` change the rank."""
        return False

    @property
    def fault(self) -> str:
        """The problem that this tab found with the job, as text; empty if none."""
        return ""

    @property
    @abstractmethod
    def focus_target(self) -> Widget:
        """The widget to focus when the tab is opened."""

    @on(ResourceTable.Highlighted, ".pods")
    def choose_pod(self, event: ResourceTable.Highlighted) -> None:
        """Make the selected pod of the table the one that actions apply to."""
        event.stop()
        if event.key is not None and self.is_open:
            self.post_message(self.Chosen(int(event.key[0])))

    @on(ResourceTable.Opened, ".pods")
    def open_pod(self, event: ResourceTable.Opened) -> None:
        event.stop()
        self.post_message(self.Chosen(int(event.key[0]), "log"))

    def offers(self) -> dict[str, object]:
        """By action whether it is available now; actions that are always available are left out."""
        return {}

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in self.CHANGES_CLUSTER and self.live.app.settings.read_only:
            return False
        return bool(not self.is_mounted or self.offers().get(action, True))

    def spare_lines(self, height: int) -> int:
        """The number of lines, of `height`, that the tab leaves free for the job's progress."""
        return 0

    # what a tab may use

    @property
    def live(self) -> LiveScreen:
        return cast("LiveScreen", self.screen)  # Textual knows of no widget whose screens it is on

    def waits_to_appear(self) -> str:
        if self.ended:
            return f"There is nothing of {self.key[1]} here. {self.ended}"
        return f"Waiting for JobSet {self.key[1]} to appear."
