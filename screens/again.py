"""Launching again: the form with the values of a run that is remembered, or of a job that is there."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from console.errors import BadInput, NotAllowed, NotFound
from screens import wording
from screens.widgets.launch_wish import LaunchWish
from screens.widgets.run_words import spoken

if TYPE_CHECKING:
    from console.models.job import JobSet
    from console.models.run import RunRecord
    from screens.base import LiveScreen

AGAIN = 2.0
"""Seconds between two looks into the memory while its screens are open: other consoles write it too."""


def launch_like(screen: LiveScreen, run: RunRecord, other: RunRecord | None = None) -> None:
    """The launch form with a run's values; its differences are shown against the run they are to be compared with."""
    now = time.time()
    said = f"Values of {run.name}, launched {wording.moment(run.launched, now)}."
    if run.left_out:
        said += f" Not kept, because secret: {', '.join(run.left_out)}."
    against = run if other is None or other.recipe != run.recipe else other
    screen.app.open_launch(
        LaunchWish(run.recipe, run.values, run.name, against.values, spoken(against, now), said=wording.one_line(said))
    )


async def launch_like_job(screen: LiveScreen, jobset: JobSet) -> None:
    """The launch form with the values of a job's release; as it stands where no release of ours made the job."""
    if not jobset.release:
        screen.notify(f"{jobset.name} was not launched from a recipe.", severity="warning", markup=False)
        screen.app.switch_mode("launch")
        return
    with screen.report_errors(f"The values of {jobset.name} could not be read"):
        try:
            plan = await screen.session.releases.plan(jobset.namespace, jobset.release)
        except (BadInput, NotFound, NotAllowed) as error:
            screen.notify(str(error), title=f"Not the values of {jobset.name}", severity="warning", markup=False)
            screen.app.switch_mode("launch")
            return
        name = f"the job {jobset.name}"
        wish = LaunchWish(plan.recipe, plan.values, plan.name, plan.values, name, said=f"Values of {jobset.name}.")
        screen.app.open_launch(wish)


def open_job(screen: LiveScreen, run: RunRecord, page: str = "job") -> None:
    """The page of a run's job (or its release's), if it still lives and is no other of the same name."""
    jobset = screen.app.fleet.jobsets.get(run.key)
    if jobset is None or (run.uid and jobset.uid != run.uid):
        screen.notify(f"The job {run.name} is not in this cluster any more.", severity="warning", markup=False)
        return
    screen.app.open_page(page, *run.key)


def open_release(screen: LiveScreen, key: tuple[str, str]) -> None:
    """The release that a job came from, or that none made it; a job's own name stands for one that is gone."""
    jobset = screen.app.fleet.jobsets.get(key)
    if jobset is not None and not jobset.release:
        screen.notify(f"{jobset.name} belongs to no Helm release: nothing to change or roll back.", severity="warning",
                      markup=False)  # fmt: skip
        return
    screen.app.open_page("release", key[0], (jobset.release if jobset else "") or key[1])
