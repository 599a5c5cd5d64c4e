"""Stopping jobs: the question that says what goes and what stays, then the doing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from screens import wording
from screens.modals.confirm import Confirm

if TYPE_CHECKING:
    from collections.abc import Sequence

    from console.models.fleet import Fleet
    from console.models.job import JobSet
    from screens.base import LiveScreen

    Key = tuple[str, str]

STAYS = "Stays: what it wrote to buckets and volumes, and volume claims."


def describe(jobset: JobSet, fleet: Fleet) -> list[str]:
    """What goes with that job, a line each."""
    pods = fleet.pods_by_jobset.get(jobset.uid, ())
    if jobset.release:
        first = f"Helm release {jobset.release} in {jobset.namespace}: uninstalled, with JobSet {jobset.name}"
        first += ", its Service, its ConfigMap and its Secret"
    else:
        first = f"JobSet {jobset.name} in {jobset.namespace}: deleted (no Helm release made it)"
    if not pods:
        return [first]
    held = 0 if jobset.finished else sum(pod.holds_gpus for pod in pods)
    freed = f"; {held} GPUs are free after that" if held else ""
    return [first, f"  with {wording.count(len(pods), 'pod')} and the logs in them{freed}"]


async def stop_jobs(screen: LiveScreen, keys: Sequence[Key]) -> bool:
    """Asks once for all of them, then stops each; whether anything was asked to go. To be run in a worker."""
    fleet = screen.app.fleet
    found = [fleet.jobsets[key] for key in keys if key in fleet.jobsets]
    if not found:
        return False
    names = ", ".join(jobset.name for jobset in found[:3]) + (f" and {len(found) - 3} more" if len(found) > 3 else "")
    lines = [line for jobset in found for line in describe(jobset, fleet)]
    if not await screen.app.push_screen_wait(Confirm(f"Stop {names}?", [*lines, STAYS], verb="Stop")):
        return False
    for jobset in found:
        with screen.report_errors(f"Could not stop {jobset.name}"):
            report = await screen.session.stop_job(jobset.namespace, jobset.name)
            gone = ", ".join(report.deleted[:4])
            gone += f" and {len(report.deleted) - 4} more" if len(report.deleted) > 4 else ""
            screen.notify(f"Going: {gone or jobset.name}.", title=f"{jobset.name} stopped", markup=False)
    return True
