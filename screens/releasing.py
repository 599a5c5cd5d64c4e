"""Two conversations about a release: other values for it, and back to an earlier revision; each looked at before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from console.models.launch import LaunchPlan
from screens.modals.change_look import ChangeLook
from screens.modals.edit_values import EditValues

if TYPE_CHECKING:
    from collections.abc import Sequence

    from console.models.draft import Remark
    from screens.base import LiveScreen


async def change_values(screen: LiveScreen, namespace: str, name: str) -> bool:
    """Asks for the values as YAML, shows what they change, and changes it; whether it was done."""
    session = screen.session
    plan = await session.releases.plan(namespace, name)
    drafting = session.drafting

    def judge(text: str) -> Sequence[Remark]:
        return drafting.read_yaml(plan.recipe, text, kept=plan.values).problems

    text: str | None = drafting.write_yaml(plan)
    while True:
        text = await screen.app.push_screen_wait(EditValues(f"Values of {name}", text or "", judge))
        if text is None:
            return False
        values = drafting.read_yaml(plan.recipe, text, kept=plan.values).values
        wanted = LaunchPlan(plan.recipe, name, namespace, values)
        with screen.report_errors(f"{name} was not changed"):
            change = await session.releases.try_upgrade(wanted)
            if await screen.app.push_screen_wait(ChangeLook(f"Change {name}?", change, "change it")):
                await session.releases.upgrade(wanted)
                await session.runs.changed(wanted)
                screen.notify(f"{name} is changed.", markup=False)
                return True


async def roll_back(screen: LiveScreen, namespace: str, name: str, revision: int) -> bool:
    """Shows what going back changes, and goes; whether it was done."""
    with screen.report_errors(f"{name} was not rolled back"):
        releases = screen.session.releases
        change = await releases.try_rollback(namespace, name, revision)
        title = f"Roll {name} back to revision {revision}?"
        if await screen.app.push_screen_wait(ChangeLook(title, change, "roll back")):
            await releases.rollback(namespace, name, revision)
            screen.notify(f"{name} is back at revision {revision}.", markup=False)
            return True
    return False
