"""Saves a log, table, object or chart to a file; the extension selects the format."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from console.errors import BadInput
from console.logs.text import Text
from screens.base import LiveScreen
from screens.dialogs.question import Prompt
from screens.wording import count, whole_path

PAGE = 5000


async def save_log(screen: LiveScreen, text: Text, name: str) -> None:
    """Ask for a file and write the shown lines; to be run in a worker."""
    place = await screen.app.push_screen_wait(Prompt("Save the lines that are shown to", f"{name}.log"))
    if not place:
        return
    with screen.report_errors("The log is not saved"):
        number = await asyncio.to_thread(write_lines, text, place)
        screen.notify(f"{count(number, 'line')} in {whole_path(place)}.", title="Saved", markup=False)


def write_lines(text: Text, place: str) -> int:
    """Write all lines to a new file with mode 0600; returns their number. BadInput: no lines, or no file."""
    total = len(text)
    if not total:
        raise BadInput("There are no lines to save.", "Wait for new lines, or clear the filter with esc.")
    with _new_file(place) as out:
        for start in range(0, total, PAGE):
            for row in text.page(start, min(total, start + PAGE)):
                out.write(f"[{row.label}] {row.text}\n" if row.label else f"{row.text}\n")
    return total


@contextmanager
def _new_file(place: str) -> Iterator[TextIO]:
    """Create a file with mode 0600; BadInput if it exists or cannot be written."""
    file = Path(place).expanduser()
    try:
        fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "w", encoding="utf-8", errors="replace") as out:
            yield out
    except FileExistsError as error:
        raise BadInput(f"{file} already exists.", "Choose another name.") from error
    except OSError as error:
        raise BadInput(f"{file} cannot be written: {error.strerror}.", "Choose another place.") from error


KINDS = ("csv", "json", "svg")


async def save_export(screen: LiveScreen, name: str, text: Callable[[str], str]) -> None:
    """Ask for a file and write what `text` returns for its extension; to be run in a worker."""
    hint = "The ending says what it becomes: .csv, .json or .svg. Esc cancels."
    place = await screen.app.push_screen_wait(Prompt("Save as", name, hint=hint))
    if not place:
        return
    with screen.report_errors("Nothing is saved"):
        await asyncio.to_thread(write_export, place, text)
        screen.notify(f"{whole_path(place)} is written.", title="Saved", markup=False)


def write_export(place: str, text: Callable[[str], str]) -> None:
    """Write a new file with mode 0600. BadInput for another extension or if it cannot be created."""
    kind = Path(place).suffix.lower().removeprefix(".")
    if kind not in KINDS:
        raise BadInput(f"{Path(place).name} has no ending that says what to write.", "End it in .csv, .json or .svg.")
    with _new_file(place) as out:
        out.write(text(kind))
