"""The JobSet as the API server has it, read anew whenever the tab is opened."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual import getters, work

from screens.job_tabs.tab import JobTab
from screens.widgets.yaml import YamlText

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.widget import Widget


class YamlTab(JobTab):
    NAME = "yaml"
    KEY = "y"
    TITLE = "YAML"

    text = getters.query_one(YamlText)

    def compose(self) -> ComposeResult:
        yield YamlText()

    @property
    def focus_target(self) -> Widget:
        return self.text

    def opened(self) -> None:
        self._read()

    @work(group="yaml", exclusive=True)
    async def _read(self) -> None:
        with self.live.report_errors(f"Could not read JobSet {self.key[1]}"):
            self.text.show(await self.live.session.watch.manifest("JobSet", *self.key))
