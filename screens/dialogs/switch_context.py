"""Another cluster, another namespace: the questions and what follows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from screens.base import ALL_NAMESPACES
from screens.dialogs.question import Choice, Pick

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
            screen.app.only_namespace = ""  # the other cluster may not have it
            screen.app.refresh_bindings()


async def pick_namespace(screen: LiveScreen) -> None:
    """Ask for a namespace, all of them first; lists are narrowed to it, and launches go there from now on."""
    with screen.report_errors("Could not switch the namespace"):
        session, fleet = screen.session, screen.app.fleet
        objects = (fleet.pods, fleet.jobsets, fleet.local_queues)
        seen = sorted({namespace for kind in objects for namespace, _ in kind} | {session.namespace})
        only = screen.app.only_namespace
        choices = [
            Choice(ALL_NAMESPACES, f"launches go to {session.namespace}", present=not only),
            *(Choice(each, present=each == only) for each in seen),
        ]
        name = await screen.app.push_screen_wait(Pick("Which namespace?", choices, free=True))
        if not name:
            return
        if name not in {ALL_NAMESPACES, *seen}:
            await session.require_namespace(name)
        screen.app.only_namespace = "" if name == ALL_NAMESPACES else name
        if name not in {ALL_NAMESPACES, session.namespace}:
            await session.switch(namespace=name)
        screen.on_screen_resume()
        lists = "every namespace" if name == ALL_NAMESPACES else name
        told = f"Lists of jobs, pods and workloads show {lists}; launches go to {session.namespace}."
        screen.notify(told, title="Namespace", markup=False)
