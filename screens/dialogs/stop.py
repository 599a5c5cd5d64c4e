"""Stopping jobs: one question for all of them, with what is removed and what is kept."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from console.errors import Conflict, ConsoleError, ReleaseFailed
from console.kube.objects.jobset import JobSet
from console.launch.stop import StopPlan
from screens.columns.stop_consequences import kept_objects_text, launched_by_others, stop_consequence_lines
from screens.dialogs.question import Confirm
from screens.live_screen import LiveScreen
from screens.wording import first_names

MAX_JOBS_IN_FULL = 4  # jobs that are shown in full; of more, what goes with each, in a line


async def read_plan(screen: LiveScreen, jobset: JobSet) -> tuple[StopPlan, ConsoleError | None]:
    """(what stopping a job removes and keeps, None); with unreadable Helm records (plan by the snapshot, the error)."""
    from console.launch.stop import plan_from_snapshot  # loaded with what asks Helm

    launch = screen.session.launch
    try:
        return await launch.job_stopper.plan_stop(*jobset.key), None
    except ConsoleError as error:
        lost = await launch.unsaved.find_unsaved(*jobset.key)
        return replace(plan_from_snapshot(jobset, screen.app.fleet), lost=lost), error


def question_lines(screen: LiveScreen, plans: Sequence[tuple[StopPlan, ConsoleError | None]]) -> list[str]:
    lines, short = [], len(plans) > MAX_JOBS_IN_FULL
    for plan, error in plans:
        owner = screen.app.format_owner(plan.owner) if len(plans) > 1 else ""  # of one its title tells it
        lines += stop_consequence_lines(plan, owner, is_short=short and error is None)
        lines += [f"  ⚠ {error.message}"] if error else []
    if not short:
        return lines
    stays = tuple(dict.fromkeys(each for plan, _ in plans for each in plan.stays))
    return [*lines, f"Stays: {kept_objects_text(stays, 'their')}."]


async def _stops_what_has_ended(screen: LiveScreen, jobsets: Sequence[JobSet]) -> bool:
    """Whether to go on: asks again if some of the jobs ended while the question was open."""
    now = (screen.app.fleet.jobsets.get(each.key) for each in jobsets if not each.finished)
    ended = [each for each in now if each is not None and each.finished]
    if not ended:
        return True
    lines = [f"{each.name}: {each.state}. Removing it deletes its pods with their logs and files." for each in ended]
    names = first_names([each.name for each in ended])
    question = Confirm(f"{names} ended in the meantime. Go on all the same?", lines, verb="Remove")
    return await screen.app.push_screen_wait(question)


async def stop_jobs(screen: LiveScreen, keys: Sequence[tuple[str, str]]) -> bool:
    """Confirm once and stop each job; returns whether any was. To be run in a worker."""
    jobsets = screen.app.fleet.jobsets
    found = [jobsets[key] for key in keys if key in jobsets]
    if not found:
        return False
    names = first_names([each.name for each in found])
    plans = await asyncio.gather(*(read_plan(screen, each) for each in found))
    others = launched_by_others([plan for plan, _ in plans], screen.app.format_owner)
    question = Confirm(f"Stop {names}{others}?", question_lines(screen, plans), verb="Stop")
    if not await screen.app.push_screen_wait(question) or not await _stops_what_has_ended(screen, found):
        return False
    for jobset, (plan, error) in zip(found, plans, strict=True):
        with screen.report_errors(f"Could not stop {jobset.name}"):
            if isinstance(error, Conflict | ReleaseFailed):
                raise error
            named = None if error else plan.goes
            report = await screen.session.launch.stop(jobset.namespace, jobset.name, named)
            gone = first_names(report.deleted, 4)
            words = f"Deleting: {gone or jobset.name}. {report.note}".strip()
            screen.notify(words, title=f"{jobset.name} stopped", markup=False)
    return True
