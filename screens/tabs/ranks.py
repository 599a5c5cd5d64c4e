"""The ranks of a job at a glance and in a table, with the latest events below."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual import getters, on

from screens.tabs.events import show_event
from screens.tabs.tab import JobTab
from screens.widgets.event_table import EventTable
from screens.widgets.job_head import events_of
from screens.widgets.rank_matrix import RankCell, RankMatrix
from screens.widgets.rank_table import RankTable, rank_glyph
from screens.widgets.sentence_line import SentenceLine
from screens.wording import Run

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.widget import Widget

    from console.models.fleet import Fleet
    from console.models.ranks import Rank
    from screens.widgets.job_line import JobLine
    from screens.widgets.listing import RowKey

FEW = 8
"""Up to so many ranks the table alone shows them all at a glance."""


class RanksTab(JobTab):
    """Matrix and table have one cursor; Enter on a rank is its log."""

    NAME = "ranks"
    KEY = "r"
    TITLE = "Ranks"
    DEFAULT_CSS: ClassVar[str] = """
    RanksTab {
        RankMatrix { max-height: 8; margin: 1 0 0 0; }
        RankTable { height: auto; min-height: 4; max-height: 55%; margin: 1 0 0 0; }
        #caption { height: 1; margin: 1 0 0 0; }
        EventTable { height: 1fr; min-height: 3; }
    }
    .-low RanksTab {
        RankMatrix { margin: 0; }
        RankTable { height: 1fr; max-height: 100%; margin: 0; }
        #caption, EventTable { display: none; }
    }
    """

    matrix = getters.query_one(RankMatrix)
    table = getters.query_one(RankTable)
    latest = getters.query_one(EventTable)

    def compose(self) -> ComposeResult:
        """Matrix, table, events."""
        yield RankMatrix()
        yield RankTable()
        yield SentenceLine(id="caption")
        yield EventTable()

    def on_mount(self) -> None:
        """The caption stays as it is."""
        self.query_one("#caption", SentenceLine).runs = (Run("── ", "faint"), Run("latest events", "head"))

    def draw(self, line: JobLine | None, fleet: Fleet) -> None:
        """All ranks as they are."""
        if line is None:
            return
        rows: dict[RowKey, Rank] = {(str(rank.number),): rank for rank in line.ranks}
        began = self.table.cursor is None
        self.table.show_rows(rows, fleet.links.get("pods"))
        if began:
            self.table.move_to((str(self.rank),))
        self.matrix.display = len(line.ranks) > FEW
        self.matrix.cells = tuple(RankCell(rank.number, rank_glyph(rank)) for rank in line.ranks)
        self.latest.show_rows(events_of(line), fleet.links.get("events"))

    @property
    def keys_to(self) -> Widget:
        """The table."""
        return self.table

    @on(RankMatrix.Pointed)
    def point(self, event: RankMatrix.Pointed) -> None:
        """Matrix and table have one cursor."""
        self.table.move_to((str(event.number),))

    @on(RankTable.Highlighted, "RankTable")
    def choose(self, event: RankTable.Highlighted) -> None:
        """The rank under the cursor is the one actions are about."""
        if event.key is not None and self.is_open:
            self.post_message(self.Chosen(int(event.key[0])))

    @on(RankTable.Opened, "RankTable")
    def open_rank(self, event: RankTable.Opened) -> None:
        """Enter on a rank is its log."""
        event.stop()
        self.post_message(self.Chosen(int(event.key[0]), "log"))

    @on(RankMatrix.Opened)
    def open_cell(self, event: RankMatrix.Opened) -> None:
        """Enter on a cell of the matrix too."""
        self.post_message(self.Chosen(event.number, "log"))

    @on(EventTable.Opened, "EventTable")
    def open_event(self, event: EventTable.Opened) -> None:
        """Enter on an event shows its whole message."""
        event.stop()
        show_event(self, event)
