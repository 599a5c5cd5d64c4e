"""Another cluster, another namespace: the questions and what follows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from screens.modals.pick import Choice, Pick

if TYPE_CHECKING:
    from screens.base import LiveScreen


async def pick_context(screen: LiveScreen) -> None:
    """Ask for a context of the kubeconfig and go there."""
    with screen.report_errors("Could not switch the cluster"):
        session = screen.session
        choices = [
            Choice(each.name, f"{each.cluster}  {each.namespace}", present=each.name == session.context)
            for each in session.contexts()
        ]
        name = await screen.app.push_screen_wait(Pick("Which cluster?", choices))
        if name and name != session.context:
            await session.switch(context=name)
            screen.app.refresh_bindings()


async def pick_namespace(screen: LiveScreen) -> None:
    """Ask for a namespace, seen ones first, and act there from now on."""
    with screen.report_errors("Could not switch the namespace"):
        session, fleet = screen.session, screen.app.fleet
        objects = (fleet.pods, fleet.jobsets, fleet.local_queues)
        seen = sorted({namespace for kind in objects for namespace, _ in kind} | {session.namespace})
        choices = [Choice(each, present=each == session.namespace) for each in seen]
        name = await screen.app.push_screen_wait(Pick("Which namespace?", choices, free=True))
        if name and name != session.namespace:
            await session.switch(namespace=name)
            told = f"Launches go to {name} from now on; lists show every namespace you may read."
            screen.notify(told, title="Namespace", markup=False)
