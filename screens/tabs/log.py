"""What the chosen rank prints, followed over restarts and new pods."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from textual import getters, work

from console.errors import ConsoleError
from screens.tabs.tab import JobTab
from screens.widgets.job_head import rank_waits
from screens.widgets.log_view import LogView

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.widget import Widget

    from console.models.fleet import Fleet
    from console.models.pod import Pod
    from screens.widgets.job_line import JobLine

TAIL = 20_000
"""Lines of a log that are fetched when it is opened; what comes after is followed."""


class LogTab(JobTab):
    """Follows from the first time it is opened, in front or not."""

    NAME = "log"
    KEY = "l"
    TITLE = "Log"
    TURNS_RANKS = True

    view = getters.query_one(LogView)
    _followed: tuple[str, int] = ("", 0)
    _asked = False

    def compose(self) -> ComposeResult:
        """The lines."""
        yield LogView()

    @property
    def keys_to(self) -> Widget:
        """The lines."""
        return self.view.lines

    def come(self) -> None:
        """From here on it is followed."""
        self._asked = True
        super().come()

    def watch_rank(self) -> None:
        """Another rank's log begins."""
        self._followed = ("", 0)
        self.workers.cancel_group(self, "log")
        self.view.lines.clear()
        if self.fleet is not None:
            self.keep(self.line, self.fleet)

    def keep(self, line: JobLine | None, fleet: Fleet) -> None:
        """Follows the log of the chosen rank once its container has started; again when its pod is another one."""
        self.note = f"rank {self.rank}"
        if line is None:
            self.view.status = self.waits_to_appear()
            return
        if not self._asked:
            return
        pod = self.chosen.pod if self.chosen else None
        waits = rank_waits(self.rank, pod, over=line.jobset.finished)
        if pod is None or waits:
            self.view.status = waits
            return
        if self._followed != (pod.uid, pod.restarts):
            if self._followed[0] and self.view.lines.shown:
                words = f"── rank {self.rank} goes on in {pod.name}, attempt {pod.attempt + 1} ──"
                self.view.lines.append([(time.time(), words)])
            self._followed = pod.uid, pod.restarts
            self._follow(self.rank, pod)

    @work(group="log", exclusive=True)
    async def _follow(self, rank: int, pod: Pod) -> None:
        where = f"rank {rank}  {pod.name}" + (f" on {pod.node}" if pod.node else "")
        self.view.status = where
        container = pod.main.name if pod.main else ""
        try:
            stream = self.live.session.follow_log(pod.namespace, pod.name, container=container, tail=TAIL)
            async for line in stream:
                self.view.lines.append([(line.time, line.text)])
        except ConsoleError as error:
            self.view.status = f"✗ {where}: {error}"
        else:
            self.view.status = f"{where}, ended"
