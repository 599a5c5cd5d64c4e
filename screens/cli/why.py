"""The command `a4 why`: why a job failed, or why it does not run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from console.models.job import JobState
from console.models.why_job import why_jobset
from screens.cli.connect import connected
from screens.cli.jobs import find_job
from screens.cli.launching import WAIT_KINDS
from screens.cli.output import say, say_json

if TYPE_CHECKING:
    from screens.cli.options import Options


async def why(options: Options) -> int:
    """Print the card of the first failure, and why the job is as it is now."""
    async with connected(options, (*WAIT_KINDS, "jobsets", "pods", "nodes", "events")) as session:
        fleet = await session.listed()
        card = await session.follow.why(session.namespace, options.job)
        job = fleet.jobsets.get((session.namespace, options.job))
        if job is None and card is None:
            find_job(fleet, session.namespace, options.job)
        sentence = why_jobset(job, session.fleet).sentence if job else "is not in the cluster any more"
        if options.json:
            told = {"namespace": session.namespace, "name": options.job, "state": job.state if job else None,
                    "why": sentence, "card": msgspec.to_builtins(card) if card else None}  # fmt: skip
            say_json(told)
            return 0
        for line in card.told() if card else ():
            say(line)
        if card is None or (job and job.state is not JobState.FAILED):
            usual = "is done" if job and job.finished else "runs, and all is well"
            say(f"{options.job} {sentence or usual}.")
    return 0
