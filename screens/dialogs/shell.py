"""A shell in a pod, in the console's own terminal; when it breaks off, in the pod that takes its place."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from textual.app import SuspendNotSupported

from console.errors import ConsoleError, Unreachable
from console.scheduling.ranks import Fate, fate, successor
from screens.dialogs.question import Choice, Confirm, Pick

if TYPE_CHECKING:
    from console.kube.objects.pod import Pod
    from console.scheduling.ranks import Rank
    from screens.base import LiveScreen
    from screens.widgets.job_line import JobLine


async def shell_in_rank(screen: LiveScreen, line: JobLine, rank: Rank) -> None:
    """A shell in the pod of a job's rank."""
    await open_shell(screen, line.jobset.namespace, rank.name, title=f"pod {rank.number} of {line.jobset.name}")


async def open_shell(screen: LiveScreen, namespace: str, pod: str, container: str = "", *, title: str = "") -> None:
    """Hands the terminal to a shell in that pod and takes it back when the shell ends; to be run in a worker.

    Asks which container when several run. When the pod is replaced meanwhile, offers the next one.
    """
    while True:
        found = screen.app.fleet.pods.get((namespace, pod))
        chosen = container or await _choose(screen, found)
        if chosen is None:
            return
        code, failure = await _lend_terminal(screen, namespace, pod, chosen, title)
        if failure is None and (code == 0 or found is None or fate(screen.app.fleet, found) is Fate.HERE):
            ended = "The shell ended." if code == 0 else f"The shell ended with exit code {code}."
            screen.notify(ended, title=pod, severity="warning" if code else "information", timeout=4, markup=False)
            return
        if failure is not None:
            with screen.report_errors(f"No shell in {pod}"):
                raise failure
        if found is None or (failure is not None and not isinstance(failure, Unreachable)):
            return
        heir = await _await_heir(screen, found)
        if heir is None:
            return
        pod = heir.name


async def _choose(screen: LiveScreen, pod: Pod | None) -> str | None:
    """The container: the only one that runs, else the one the person picks; None if the person turned away."""
    running = [each for each in pod.containers if each.state == "running"] if pod else []
    if len(running) < 2 or pod is None:
        return pod.main.name if pod and pod.main else ""
    main = pod.main.name if pod.main else ""
    notes = {each.name: "init container" for each in running if each.init} | {main: "does the work"}
    choices = [Choice(each.name, notes.get(each.name, ""), each.name == main) for each in running]
    return await screen.app.push_screen_wait(Pick(f"Shell in which container of {pod.name}?", choices))


async def _lend_terminal(
    screen: LiveScreen, namespace: str, pod: str, container: str, title: str
) -> tuple[int, ConsoleError | None]:
    """Exit code of a shell, and what went wrong."""
    app = screen.app
    code = 1
    failure: ConsoleError | None = None
    try:
        session = screen.session
        # Drawing stops as well: what is drawn while suspended fills a queue that nobody empties.
        with app.batch_update(), app.suspend():
            back = "exit or ctrl-d comes back; in tmux, ctrl-b d too, and the shell keeps running"
            sys.stdout.write(f"a4: shell in {title or pod}; {back}\n")
            sys.stdout.flush()
            try:
                code = await session.shell(namespace, pod, container=container, name=title)
            except ConsoleError as error:
                failure = error  # given back: an exception in here would leave the app suspended
    except SuspendNotSupported:
        failure = ConsoleError("A shell cannot be opened in this terminal.", f"Run: a4 shell pod/{pod}")
    except ConsoleError as error:
        failure = error
    app.screen.refresh(layout=True)
    return code, failure


async def _await_heir(screen: LiveScreen, pod: Pod) -> Pod | None:
    """The pod to go on in, if the person wants to: the same one if it still runs, else the one that replaces it."""
    became = fate(screen.app.fleet, pod)
    if became is Fate.OVER:
        screen.notify(f"{pod.name} has ended, and no pod replaces it.", severity="warning", markup=False)
        return None
    here = became is Fate.HERE
    words = f"{pod.name} is still there." if here else f"{pod.name} is being replaced."
    offer = "Open the shell again?" if here else "Open a shell in the pod that replaces it as soon as it runs?"
    again = Confirm(words, [offer], verb="Open", keep="Cancel")
    if not await screen.app.push_screen_wait(again):
        return None
    async for fleet in screen.session.snapshots():
        if here and fate(fleet, pod) is Fate.HERE:
            return pod
        if fate(fleet, pod) is Fate.OVER:
            screen.notify(f"{pod.name} has ended, and no pod replaces it.", severity="warning", markup=False)
            return None
        heir = successor(fleet, pod)
        if heir is not None:
            return heir
    return None
