"""A command of one's own, from the settings, about what is under the cursor."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

from textual.app import SuspendNotSupported

from screens.config import fill
from screens.dialogs.question import Confirm

if TYPE_CHECKING:
    from console.config import OwnCommand
    from screens.base import LiveScreen


async def run_command(screen: LiveScreen, command: OwnCommand) -> None:
    """Lend the terminal to a command of one's own; one that changes the cluster asks first. To be run in a worker."""
    line, app = fill(command, screen.subject()), screen.app
    if command.changes and not await app.push_screen_wait(Confirm(f"Run {command.name}?", [line], verb="Run")):
        return
    try:
        with app.batch_update(), app.suspend():
            sys.stdout.write(f"a4: {command.name}\n")
            sys.stdout.flush()
            code = await (await asyncio.create_subprocess_exec("/bin/sh", "-c", line)).wait()
            sys.stdout.write(f"a4: it ended with code {code}; Enter comes back ")
            sys.stdout.flush()
            await asyncio.to_thread(sys.stdin.readline)
    except SuspendNotSupported:
        screen.notify(f"Run it yourself: {line}", title="This terminal cannot be lent", severity="error", markup=False)
    app.screen.refresh(layout=True)
