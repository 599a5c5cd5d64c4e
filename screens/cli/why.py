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
    from console.models.alarm import Alarm
    from console.models.job import JobSet
    from console.session import Session
    from screens.cli.options import Options


LISTENS = 3.0
"""Seconds for which a job that runs is listened to: what its log tells is known by then, a stall is not."""


async def why(options: Options) -> int:
    """Print the card of the first failure, and why the job is as it is now."""
    async with connected(options, (*WAIT_KINDS, "jobsets", "pods", "nodes", "events")) as session:
        fleet = await session.listed()
        card = await session.follow.why(session.namespace, options.job)
        job = fleet.jobsets.get((session.namespace, options.job))
        if job is None and card is None:
            find_job(fleet, session.namespace, options.job)
        sentence = why_jobset(job, session.fleet).sentence if job else "is not in the cluster any more"
        found: tuple[Alarm, ...] = ()
        usual = "is done"
        if job and not job.finished and not sentence:
            found, usual = await _heard(session, job)
        if options.json:
            sentence = sentence or (usual if found else "")
            told = {"namespace": session.namespace, "name": options.job, "state": job.state if job else None,
                    "why": sentence, "card": msgspec.to_builtins(card) if card else None, "alarms": found}  # fmt: skip
            say_json(told)
            return 0
        for line in card.told() if card else ():
            say(line)
        if card is None or (job and job.state is not JobState.FAILED):
            say(f"{options.job} {sentence or usual}.")
    return 0


async def _heard(session: Session, job: JobSet) -> tuple[tuple[Alarm, ...], str]:
    """The alarms of a job that nothing keeps from running, and how it is in words."""
    found, refused = await session.alarms.hear(*job.key, LISTENS)
    state = "runs" if job.state is JobState.RUNNING else f"is {job.state}"
    if found:
        return found, f"{state}, but {'; '.join(f'{each.kind} alarm: {each.words}' for each in found)}"
    if refused:
        return (), f"{state}; nothing more is known of it: {refused.rstrip('.')}"
    return (), f"{state}, and no alarm rang in {LISTENS:g} s (a4 alarms listens longer)"
