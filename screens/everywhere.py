"""A command in many ranks of a job, from the job's page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from console.models.ranks import ranks
from screens.modals.everywhere import Everywhere

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from console.models.everywhere import RankOutput
    from console.models.ranks import Rank
    from screens.base import LiveScreen
    from screens.widgets.job_line import JobLine


async def run_in_ranks(screen: LiveScreen, line: JobLine, rank: Rank) -> None:
    """Opens the dialog; which pod fills a rank is looked up when the command is run."""
    jobset = line.jobset

    async def perform(numbers: Sequence[int], argv: Sequence[str], ended: Callable[[RankOutput], None]) -> None:
        fleet = screen.app.fleet
        found = fleet.jobsets.get((jobset.namespace, jobset.name), jobset)
        chosen = [each for each in ranks(found, fleet) if each.number in set(numbers)]
        await screen.session.inside.everywhere(chosen, argv, ended=ended)

    await screen.app.push_screen_wait(Everywhere(jobset.name, [each.number for each in line.ranks], perform))
