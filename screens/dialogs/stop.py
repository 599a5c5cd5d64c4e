"""Stops jobs after a confirmation that lists what is removed and kept."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from console.errors import Conflict, ConsoleError, ReleaseFailed
from console.kube.objects.jobset import JobSet
from console.launch.stop import StopPlan
from screens.base import LiveScreen
from screens.columns.runs import launched_by_others, stop_lines
from screens.dialogs.question import Confirm

if TYPE_CHECKING:
    Key = tuple[str, str]

MOST = 4  # jobs of which all is said; of more, what goes with each, in a line


async def read_plan(screen: LiveScreen, jobset: JobSet) -> tuple[StopPlan, ConsoleError | None]:
    """What stopping removes and keeps; from the snapshot alone if Helm's record cannot be read, with the error."""
    from console.launch.stop import plan_from_snapshot  # loaded with what asks Helm

    try:
        return await screen.session.launch.stopping.plan(jobset.namespace, jobset.name), None
    except ConsoleError as error:
        return plan_from_snapshot(jobset, screen.app.fleet), error


def question_lines(screen: LiveScreen, plans: Sequence[tuple[StopPlan, ConsoleError | None]]) -> list[str]:
    """What stopping all of them removes and keeps."""
    lines, short = [], len(plans) > MOST
    for plan, error in plans:
        lines += stop_lines(plan, screen.app.whose(plan.owner), short=short and error is None)
        lines += [f"  ⚠ {error.message}"] if error else []
    stays = ", ".join(dict.fromkeys(each for plan, _ in plans for each in plan.stays))
    return [*lines, f"Stays: {stays or 'no file of them: no volume and no bucket is mounted'}."] if short else lines


async def stop_jobs(screen: LiveScreen, keys: Sequence[Key]) -> bool:
    """Confirm once and stop each job; returns whether any was. To be run in a worker."""
    jobsets = screen.app.fleet.jobsets
    found = [jobsets[key] for key in keys if key in jobsets]
    if not found:
        return False
    names = ", ".join(jobset.name for jobset in found[:3]) + (f" and {len(found) - 3} more" if len(found) > 3 else "")
    plans = await asyncio.gather(*(read_plan(screen, each) for each in found))
    others = launched_by_others([plan for plan, _ in plans], screen.app.whose)
    question = Confirm(f"Stop {names}{others}?", question_lines(screen, plans), verb="Stop")
    if not await screen.app.push_screen_wait(question):
        return False
    for jobset, (plan, error) in zip(found, plans, strict=True):
        with screen.report_errors(f"Could not stop {jobset.name}"):
            if isinstance(error, Conflict | ReleaseFailed):
                raise error
            named = None if error else plan.goes
            report = await screen.session.launch.stop(jobset.namespace, jobset.name, named)
            gone = ", ".join(report.deleted[:4])
            gone += f" and {len(report.deleted) - 4} more" if len(report.deleted) > 4 else ""
            screen.notify(f"Deleting: {gone or jobset.name}.", title=f"{jobset.name} stopped", markup=False)
    return True
