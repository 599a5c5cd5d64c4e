"""Two tabs with the job's Kubernetes events and its YAML."""

from __future__ import annotations

from textual import getters, work
from textual.app import ComposeResult

from console.kube.snapshot import Fleet
from screens.columns.job_header import events_of
from screens.columns.jobs import JobLine
from screens.job_tabs.tab import JobTab
from screens.widgets.table.events import EventTable
from screens.widgets.yaml import YamlText


class EventsTab(JobTab):
    NAME = "events"
    KEY = "e"
    TITLE = "Events"

    table = focus_target = getters.query_one(EventTable)

    def compose(self) -> ComposeResult:
        yield EventTable()

    def spare_lines(self, height: int) -> int:
        return height - self.table.lines_wanted - 1

    def update_note(self, line: JobLine | None, fleet: Fleet) -> None:
        number = len(events_of(line)) if line else 0
        self.note = f"{number}" if number else ""

    def draw(self, line: JobLine | None, fleet: Fleet) -> None:
        if line is not None:
            self.table.show_rows(events_of(line), fleet.links.get("events"))


class YamlTab(JobTab):
    NAME = "yaml"
    KEY = "y"
    TITLE = "YAML"

    text = focus_target = getters.query_one(YamlText)

    def compose(self) -> ComposeResult:
        yield YamlText()

    def opened(self) -> None:
        self._read_yaml()

    @work(group="yaml", exclusive=True)
    async def _read_yaml(self) -> None:
        with self.live.report_errors(f"Could not read JobSet {self.key[1]}"):
            self.text.show(await self.live.session.watch.manifest("JobSet", *self.key))
