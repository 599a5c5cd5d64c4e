"""A shell in a pod, in the console's own terminal."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from textual.app import SuspendNotSupported

from console.errors import ConsoleError

if TYPE_CHECKING:
    from console.models.ranks import Rank
    from screens.base import LiveScreen
    from screens.widgets.job_line import JobLine


async def shell_in_rank(screen: LiveScreen, line: JobLine, rank: Rank) -> None:
    """The same in the pod of a job's rank."""
    await open_shell(screen, line.jobset.namespace, rank.name)


async def open_shell(screen: LiveScreen, namespace: str, pod: str, container: str = "") -> None:
    """Hands the terminal to a shell in that pod and takes it back when the shell ends; to be run in a worker."""
    what = f"No shell in {pod}"
    app = screen.app
    failure: ConsoleError | None = None
    code = 0
    with screen.report_errors(what):
        session = screen.session
        try:
            # Drawing stops as well: what is drawn while suspended fills a queue that nobody empties.
            with app.batch_update(), app.suspend():
                sys.stdout.write(f"a4: shell in {pod}; exit or ctrl-d comes back\n")
                sys.stdout.flush()
                try:
                    code = await session.shell(namespace, pod, container=container)
                except ConsoleError as error:
                    failure = error  # raised below: an exception in here would leave the app suspended
        except SuspendNotSupported:
            raise ConsoleError("This terminal cannot be handed over.", f"Run: a4 exec for {pod}.") from None
        if failure is not None:
            raise failure
        app.screen.refresh(layout=True)
        ended = "The shell ended." if code == 0 else f"The shell ended with exit code {code}."
        screen.notify(ended, title=pod, severity="information" if code == 0 else "warning", timeout=4, markup=False)
