"""Stopping jobs: the question that says what goes and what stays, then the doing."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from console.errors import Conflict, ConsoleError, ReleaseFailed
from screens import wording
from screens.dialogs.question import Confirm

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from console.kube.objects.jobset import JobSet
    from console.kube.snapshot import Fleet
    from console.launch.releases import StopPlan
    from screens.base import LiveScreen

    Key = tuple[str, str]

STAYS = "Stays: what it wrote to buckets and volumes, and volume claims."
MOST = 4  # jobs of which all is said; of more, what goes with each, in a line


def describe(jobset: JobSet, fleet: Fleet) -> list[str]:
    """What goes with that job, as far as the snapshot shows it, a line each."""
    if jobset.release:
        first = f"Helm release {jobset.release} in {jobset.namespace}: uninstalled, with JobSet {jobset.name}"
        first += ", its Service, its ConfigMap and its Secret"
    else:
        first = f"JobSet {jobset.name} in {jobset.namespace}: deleted (no Helm release made it)"
    return [first, *_pods_line(jobset, fleet)]


def _pods_line(jobset: JobSet, fleet: Fleet) -> list[str]:
    pods = fleet.pods_by_jobset.get(jobset.uid, ())
    if not pods:
        return []
    held = 0 if jobset.finished else sum(pod.holds_gpus for pod in pods)
    freed = f"; {held} GPUs are free after that" if held else ""
    return [f"  with {wording.count(len(pods), 'pod')} and the logs in them{freed}"]


def told(plan: StopPlan, jobset: JobSet, fleet: Fleet) -> list[str]:
    """The same from Helm's record of the release: every object by name, and what is kept."""
    where = f"{jobset.name} in {jobset.namespace}"
    whose = f"Helm release {plan.release} is uninstalled" if plan.release else "deleted (no Helm release made it)"
    lines = [f"{where}: {whose}", f"  goes: {', '.join(plan.goes)}", *_pods_line(jobset, fleet)]
    return [*lines, f"  stays: {', '.join(plan.stays) or 'nothing: no volume and no bucket is mounted'}"]


async def read_plans(screen: LiveScreen, found: Sequence[JobSet]) -> dict[Key, StopPlan | ConsoleError]:
    """What would go with each, or why Helm's record cannot be read or will not be obeyed."""
    plan = screen.session.launch.stopping.plan
    plans = await asyncio.gather(*(plan(each.namespace, each.name) for each in found), return_exceptions=True)
    made: dict[Key, StopPlan | ConsoleError] = {}
    for jobset, answer in zip(found, plans, strict=True):
        if isinstance(answer, BaseException) and not isinstance(answer, ConsoleError):
            raise answer
        made[jobset.namespace, jobset.name] = answer
    return made


def question_lines(found: Sequence[JobSet], plans: Mapping[Key, StopPlan | ConsoleError], fleet: Fleet) -> list[str]:
    """What goes and what stays with all of them; from the snapshot alone where Helm's record cannot be read."""
    lines, short = [], len(found) > MOST
    for jobset in found:
        plan = plans[jobset.namespace, jobset.name]
        if isinstance(plan, ConsoleError):
            lines += [*describe(jobset, fleet), f"  ⚠ {plan.message}"]
        elif short:
            lines.append(f"{jobset.name} in {jobset.namespace}: {', '.join(plan.goes)}, and its pods")
        else:
            lines += told(plan, jobset, fleet)
    unread = any(isinstance(plan, ConsoleError) for plan in plans.values())
    return [*lines, STAYS] if unread or short else lines


async def stop_jobs(screen: LiveScreen, keys: Sequence[Key]) -> bool:
    """Asks once for all of them, then stops each; whether anything was asked to go. To be run in a worker."""
    fleet = screen.app.fleet
    found = [fleet.jobsets[key] for key in keys if key in fleet.jobsets]
    if not found:
        return False
    names = ", ".join(jobset.name for jobset in found[:3]) + (f" and {len(found) - 3} more" if len(found) > 3 else "")
    plans = await read_plans(screen, found)
    lines = question_lines(found, plans, fleet)
    if not await screen.app.push_screen_wait(Confirm(f"Stop {names}?", lines, verb="Stop")):
        return False
    for jobset in found:
        with screen.report_errors(f"Could not stop {jobset.name}"):
            plan = plans[jobset.namespace, jobset.name]
            if isinstance(plan, Conflict | ReleaseFailed):
                raise plan
            named = None if isinstance(plan, ConsoleError) else plan.goes
            report = await screen.session.launch.stop(jobset.namespace, jobset.name, named)
            gone = ", ".join(report.deleted[:4])
            gone += f" and {len(report.deleted) - 4} more" if len(report.deleted) > 4 else ""
            screen.notify(f"Deleting: {gone or jobset.name}.", title=f"{jobset.name} stopped", markup=False)
    return True
