"""The ranks of a job at a glance and in a table, with the latest events below."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, ClassVar

from textual import getters, on, work

from console.models.failure import endings
from screens.tabs.events import show_event
from screens.tabs.tab import JobTab
from screens.widgets.event_table import EventTable
from screens.widgets.failure_card import FailureCardView
from screens.widgets.job_head import events_of
from screens.widgets.rank_matrix import RankCell, RankMatrix
from screens.widgets.rank_table import RankTable, rank_glyph
from screens.widgets.sentence_line import SentenceLine
from screens.wording import Run

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.widget import Widget

    from console.follow.pulse import Pulse
    from console.models.fleet import Fleet
    from console.models.ranks import Rank
    from screens.widgets.job_line import JobLine
    from screens.widgets.listing import RowKey

EVENTS = 6
"""Lines the latest events keep beside the card of a failure: a head, and some of them."""
BEAT = 0.5
"""Seconds between two looks at how fresh the ranks are."""
FEW = 8
"""Up to so many ranks the table alone shows them all at a glance."""


class RanksTab(JobTab):
    """Matrix and table have one cursor; Enter on a rank is its log."""

    NAME = "pods"
    KEY = "r"
    TITLE = "Pods"
    DEFAULT_CSS: ClassVar[str] = """
    RanksTab {
        RankMatrix { max-height: 8; margin: 1 0 0 0; }
        RankTable { height: auto; min-height: 4; max-height: 55%; margin: 1 0 0 0; }
        &.-failed RankTable { max-height: 40%; }
        #caption { height: 1; margin: 1 0 0 0; }
        EventTable { height: 1fr; min-height: 3; }
    }
    """

    card = getters.query_one(FailureCardView)
    matrix = getters.query_one(RankMatrix)
    table = getters.query_one(RankTable)
    latest = getters.query_one(EventTable)
    _pulse: Pulse | None = None
    _listening = False
    _told = (0, 0)

    def compose(self) -> ComposeResult:
        """Matrix, table, events."""
        yield FailureCardView()
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
        self._show_cells(line)
        self._keep_pulse(line)
        self._keep_card(line)
        self.latest.show_rows(events_of(line), fleet.links.get("events"))
        self._make_room()

    def _show_cells(self, line: JobLine) -> None:
        pulse = self._pulse
        heard, behind = (pulse.heard, pulse.behind) if pulse else ({}, lambda rank: 0)
        self.matrix.cells = tuple(
            RankCell(rank.number, rank_glyph(rank), heard.get(rank.number, 0.0), behind(rank.number))
            for rank in line.ranks
        )
        self.matrix.refresh()

    def _keep_pulse(self, line: JobLine) -> None:
        """Listen to all ranks, once there are too many to look at one by one and one of them runs."""
        if not self._listening and len(line.ranks) > FEW and any(rank.phase == "Running" for rank in line.ranks):
            self._listening = True
            self._listen()

    @work(group="pulse", exclusive=True)
    async def _listen(self) -> None:
        from console.follow.pulse import pulses

        with self.live.report_errors("The pods cannot be watched"):
            async with self.job_log() as log, aclosing(pulses(log)) as beats:
                async for pulse in beats:
                    self._pulse = pulse
                    if self.is_open and self.line is not None:
                        self._show_cells(self.line)
                    await asyncio.sleep(BEAT)

    def connected_anew(self) -> None:
        """Listen on."""
        if self._listening:
            self._listen()

    def _keep_card(self, line: JobLine) -> None:
        """The card of what failed first, anew whenever more has ended badly."""
        found = len(endings(line.jobset, line.fleet))
        about = (line.jobset.restarts, found)
        if any(about) and about != self._told:
            self._told = about
            self._read_card()

    @work(group="card", exclusive=True)
    async def _read_card(self) -> None:
        with self.live.report_errors("What failed first cannot be told"):
            self.card.card = await self.live.session.follow.why(*self.key)
            self.set_class(self.card.card is not None, "-failed")

    def on_resize(self) -> None:
        """Another height has another room for the card."""
        self.call_after_refresh(self._make_room)  # by then it is known whether the page is a low one

    def _make_room(self) -> None:
        """The card may have what the ranks and the latest events do not need."""
        low, size = not self.latest.display, self.size
        ranks = len(self.table.listing.rows) + 1
        others = max(4, min(ranks, size.height * 2 // 5)) + (0 if low else 1)
        if self.matrix.display:
            others += self.matrix.get_content_height(size, size, size.width) + (0 if low else 1)
        if not low:
            others += 2 + max(4, min(len(self.latest.listing.rows) + 1, EVENTS)) + 1
        self.card.room = size.height - others

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
