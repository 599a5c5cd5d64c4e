"""A command in many pods of a job, and a short NCCL test in one, from the job's page."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from console.inside.quick_nccl import QuickTest
from console.models.nccl_kept import MeasuredTest
from console.models.ranks import ranks
from screens.modals.everywhere import Everywhere
from screens.modals.quick_nccl import QuickNccl

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from console.models.everywhere import RankOutput
    from console.models.nccl import NcclTest
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


async def nccl_in_pod(screen: LiveScreen, line: JobLine, rank: Rank) -> None:
    """Open the dialog; the pod is the one that was chosen."""
    jobset, pod, test = line.jobset, rank.pod, QuickTest()
    assert pod is not None
    node = screen.app.fleet.nodes.get(("", pod.node))

    async def perform(take: Callable[[MeasuredTest], None], complain: Callable[[str], None]) -> None:
        def heard(channel: int, data: bytes) -> None:
            if channel == 2:
                complain(data.decode(errors="replace"))

        def grown(test: NcclTest) -> None:
            nodes, accelerator = (pod.node,), node.accelerator if node else ""
            job, space, number = jobset.name, jobset.namespace, rank.number
            take(MeasuredTest(test, job, space, rank=number, at=time.time(), nodes=nodes, accelerator=accelerator))

        await screen.session.inside.quick_nccl(pod, test, heard=heard, grown=grown, limit=120.0)

    title = f"NCCL test in pod {rank.number} of {jobset.name}"
    await screen.app.push_screen_wait(QuickNccl(title, f"{test.first} to {test.last}", perform))
