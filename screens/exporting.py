"""Writing what a panel shows to a file of the person's choice: a table, an object, or a picture, by its ending."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING

from console.errors import BadInput
from screens.modals.prompt import Prompt
from screens.wording import whole_path

if TYPE_CHECKING:
    from collections.abc import Callable

    from screens.base import LiveScreen

KINDS = ("csv", "json", "svg")


async def save_export(screen: LiveScreen, name: str, text: Callable[[str], str]) -> None:
    """Asks where to and writes there what `text` gives for that kind of file; to be run in a worker."""
    place = await screen.app.push_screen_wait(
        Prompt("Save as", name, hint="The ending says what it becomes: .csv, .json or .svg. Esc cancels.")
    )
    if not place:
        return
    with screen.report_errors("Nothing is saved"):
        await asyncio.to_thread(write_export, place, text)
        screen.notify(f"{whole_path(place)} is written.", title="Saved", markup=False)


def write_export(place: str, text: Callable[[str], str]) -> None:
    """A new file that only its owner may read. BadInput for another ending, and if it cannot be made."""
    file = Path(place).expanduser()
    kind = file.suffix.lower().removeprefix(".")
    if kind not in KINDS:
        raise BadInput(f"{file.name} has no ending that says what to write.", "End it in .csv, .json or .svg.")
    try:
        fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError as error:
        raise BadInput(f"{file} is there already.", "Choose another name.") from error
    except OSError as error:
        raise BadInput(f"{file} cannot be written: {error.strerror}.", "Choose another place.") from error
    with os.fdopen(fd, "w", encoding="utf-8") as out:
        out.write(text(kind))
