"""Texts on what stopping jobs removes, loses and keeps, for the question before a stop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from console.connection_settings import OWN_NAME
from screens import wording

if TYPE_CHECKING:
    from console.launch.stop import StopPlan


def launched_by_others(plans: Sequence[StopPlan], name_owner: Callable[[str], str]) -> str:
    """A text that names the others who launched these jobs, for the question before a stop; empty if there are none."""
    owners = [owner for plan in plans if (owner := name_owner(plan.owner)) not in {"", OWN_NAME}]
    if not owners:
        return ""
    which = "" if len(owners) == len(plans) else f"{len(owners)} of them "
    return f", {which}launched by {', '.join(dict.fromkeys(owners))}, not by you"


def kept_objects_text(stays: Sequence[str], owner: str) -> str:
    """A text on what is kept when jobs are stopped, such as their checkpoints."""
    return ", ".join(stays) or f"none of {owner} files, as no volume and no bucket is mounted"


def stop_consequence_lines(plan: StopPlan, owner: str, *, is_short: bool = False) -> list[str]:
    """The lines on what stopping a job removes and keeps; `owner`: who launched it, "you" for this person."""
    goes = ", ".join(plan.goes)
    whose = f", launched by {owner}, not by you" if owner not in {"", OWN_NAME} else ""
    if is_short:
        lost = f"; lost: {plan.lost}" if plan.lost else ""
        return [f"{plan.name} in {plan.namespace}{whose}: {goes}, and its pods with the files inside{lost}"]
    how = f"Helm release {plan.release} is uninstalled" if plan.release else "deleted (no Helm release made it)"
    lines = [f"{plan.name} in {plan.namespace}{whose}: {how}", f"  goes: {goes}"]
    if plan.pods:
        freed = f"; {plan.gpus} GPUs are free after that" if plan.gpus else ""
        inside = "with the logs, files and checkpoints inside"
        lines.append(f"        {wording.count(plan.pods, 'pod')} {inside}{freed}")
    lines += [f"  lost: {plan.lost}"] if plan.lost else []
    return [*lines, f"  stays: {kept_objects_text(plan.stays, 'its')}"]
