"""The line under a form that says how its launch stands with cluster and project; it looks by itself when keys rest."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, ClassVar

from textual import work

from console.errors import ConsoleError
from console.models.check import Result, tally
from screens.widgets.sentence_line import SentenceLine
from screens.wording import BAD, CARE, OK, Run

if TYPE_CHECKING:
    from textual.timer import Timer

    from console.models.check import Check, Tally
    from console.models.launch import LaunchPlan
    from console.session import Session

REST = 1.5
"""Seconds without a change of the form after which the checks look."""
BELIEVED = 60.0
"""Seconds for which what was found for a plan is believed."""


def tally_words(found: Tally) -> list[Run]:
    """The tally with its mark."""
    results = dict(found.counts)
    mark = BAD if found.failing else CARE if results.get(Result.WARN) else OK
    return [mark, Run(" preflight: ", "dim"), Run(found.sentence), Run("  f9 shows all", "faint")]


class PreflightLine(SentenceLine):
    """Nothing at first; then the tally of the plan that was checked last."""

    DEFAULT_CSS: ClassVar[str] = "PreflightLine { height: 1; max-height: 1; display: none; }"

    def __init__(self) -> None:
        super().__init__(id="preflight")
        self.checks: tuple[Check, ...] = ()
        self._plan: LaunchPlan | None = None
        self._looked_at = 0.0
        self._due: Timer | None = None

    def look_soon(self, session: Session, plan: LaunchPlan) -> None:
        """Look at what this plan needs once the form rests; nothing to do for one that was just looked at."""
        if plan == self._plan and time.monotonic() < self._looked_at + BELIEVED:
            return
        if self._due is not None:
            self._due.stop()
        self._due = self.set_timer(REST, lambda: self._look(session, plan))

    def wait(self) -> None:
        """Somebody moves in the form: a look that is due begins that much later."""
        if self._due is not None:
            self._due.reset()

    @work(group="preflight", exclusive=True)
    async def _look(self, session: Session, plan: LaunchPlan) -> None:
        try:
            engine = session.preflight
            self.checks = tuple([check async for check in engine.run(engine.wish(plan))])
        except ConsoleError as error:
            self.runs = (CARE, Run(f" preflight: {error.message}", "dim"))
        else:
            self._plan, self._looked_at = plan, time.monotonic()
            self.runs = tuple(tally_words(tally(self.checks)))
        self.display = True
