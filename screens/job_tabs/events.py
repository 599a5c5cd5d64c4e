"""What was reported of a job, its Jobs, its pods and its Workload."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual import getters

from screens.columns.jobs import events_of
from screens.job_tabs.tab import JobTab
from screens.widgets.table.events import EventTable

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.widget import Widget

    from console.kube.snapshot import Fleet
    from screens.columns.jobs import JobLine


class EventsTab(JobTab):
    NAME = "events"
    KEY = "e"
    TITLE = "Events"

    table = getters.query_one(EventTable)

    def compose(self) -> ComposeResult:
        yield EventTable()

    def keep(self, line: JobLine | None, fleet: Fleet) -> None:
        number = len(events_of(line)) if line else 0
        self.note = f"{number}" if number else ""

    def draw(self, line: JobLine | None, fleet: Fleet) -> None:
        if line is not None:
            self.table.show_rows(events_of(line), fleet.links.get("events"))

    @property
    def focus_target(self) -> Widget:
        return self.table
