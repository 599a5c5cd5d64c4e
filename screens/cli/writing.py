"""Writing a text to a file that a command was given."""

from __future__ import annotations

import sys
from pathlib import Path

from console.errors import BadInput


def write_text(place: str, text: str) -> None:
    """Into that file, or on standard output for "-"; BadInput if it cannot be written."""
    if place == "-":
        sys.stdout.write(text)
        return
    try:
        Path(place).expanduser().write_text(text, encoding="utf-8")
    except OSError as error:
        raise BadInput(f"{place} cannot be written: {error.strerror}.", "Name another file.") from error
