"""The NCCL tests that a job's rank 0 prints: table and curve, row by row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual import getters, work

from console.errors import ConsoleError
from screens.tabs.tab import JobTab
from screens.widgets.job_head import nccl_waits, rank_waits
from screens.widgets.nccl_panel import NcclPanel

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.widget import Widget

    from console.models.fleet import Fleet
    from screens.widgets.job_line import JobLine


class NcclTab(JobTab):
    """Measures from the moment rank 0 has started, if the job is a test or somebody looks."""

    NAME = "nccl"
    KEY = "b"
    TITLE = "NCCL"

    panel = getters.query_one(NcclPanel)
    _measured = ""

    def compose(self) -> ComposeResult:
        """The panel."""
        yield NcclPanel()

    @property
    def keys_to(self) -> Widget:
        """The table."""
        return self.panel.table

    def keep(self, line: JobLine | None, fleet: Fleet) -> None:
        """Begin to read the tables as soon as there can be one."""
        self.panel.waiting = nccl_waits(line) if line else self.waits_to_appear()
        if line is None or not (self.is_open or line.jobset.recipe.startswith("nccl")):
            return
        first = line.ranks[0].pod if line.ranks else None
        if self._measured != line.jobset.uid and not rank_waits(0, first):
            self._measured = line.jobset.uid
            self._measure()

    @work(group="nccl", exclusive=True)
    async def _measure(self) -> None:
        try:
            async for tests in self.live.session.nccl(*self.key):
                self.panel.tests = tests
                peak = self.panel.test.peak_busbw if self.panel.test else None
                self.note = f"{peak:,.0f} GB/s" if peak is not None else ""
        except ConsoleError as error:
            self.panel.waiting = f"The tables cannot be read: {error}"
