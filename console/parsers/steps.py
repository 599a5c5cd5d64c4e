"""Progress lines of our launchers: `step 3 discovery: run`, then done, skip or failed."""

from __future__ import annotations

import re

from console.models.launcher import LauncherStep, StepState

_STEP = re.compile(
    r"(?:^|[\]>\sZ])step (\d{1,6}) ([^:]{1,200}): "
    r"(?:(run)|done in (\d{1,9}) s|skip: (.{0,1000})|failed with exit code (\d{1,3}))\s*$"
)


def launcher_step(line: str) -> LauncherStep | None:
    """What a launcher says in that line; None if it says nothing."""
    found = _STEP.search(line) if "step " in line else None
    if found is None:
        return None
    number, name, running, seconds, why, code = found.groups()
    step = int(number)
    if running:
        return LauncherStep(step, name, StepState.RUNNING)
    if seconds is not None:
        return LauncherStep(step, name, StepState.DONE, seconds=int(seconds))
    if why is not None:
        return LauncherStep(step, name, StepState.SKIPPED, why=why.strip())
    return LauncherStep(step, name, StepState.FAILED, exit_code=int(code))
