"""Screens of what Google tells when it is asked, not with every picture of the cluster."""

from __future__ import annotations

from abc import abstractmethod

from textual import getters

from screens.base import LiveScreen
from screens.widgets.summary_line import SummaryLine
from screens.wording import Run

ASKING = (Run("◐ ", "waits"), Run("asking Google …", "dim"))


class AskingScreen(LiveScreen):
    """Asks when it is opened, and again by a key."""

    summary = getters.query_one(SummaryLine)

    @abstractmethod
    def read(self) -> object:
        """Ask, in a worker."""

    def on_mount(self) -> None:
        """Ask at once."""
        self.summary.runs = ASKING
        self.read()

    def _trouble_changed(self) -> None:
        super()._trouble_changed()
        if self.app.trouble and not self.app.connected:
            self.summary.runs = ()

    def action_read(self) -> None:
        """Ask now."""
        self.read()
