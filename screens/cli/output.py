"""How plain commands speak: JSON, tables of text, and one line for what went wrong."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from console.errors import ConsoleError


def say(text: str = "") -> None:
    """One line on standard output."""
    sys.stdout.write(text + "\n")


def say_json(value: Any) -> None:
    """A value as indented JSON on standard output; frozen dataclasses and tuples are written as objects and lists."""
    raw = msgspec.json.format(msgspec.json.encode(value), indent=2)
    sys.stdout.write(raw.decode() + "\n")


def warn(text: str) -> None:
    """One line on standard error."""
    sys.stderr.write(f"a4: {text}\n")


def complain(error: ConsoleError) -> int:
    """Say what went wrong on standard error; gives the exit code."""
    warn(str(error))
    return error.exit_code


def say_table(titles: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[bool]) -> None:
    """Rows under titles, each column as wide as its widest cell; `right` marks the columns of numbers."""
    widths = [max(map(len, column)) for column in zip(titles, *rows, strict=True)]
    for row in (titles, *rows):
        cells = (
            cell.rjust(width) if flush else cell.ljust(width)
            for cell, width, flush in zip(row, widths, right, strict=True)
        )
        say("  ".join(cells).rstrip())
