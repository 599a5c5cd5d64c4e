"""How plain commands speak: JSON, tables of text, and one line for what went wrong.

Writing a text to a file that a command was given.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from console.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from console.errors import ConsoleError


def say(text: str = "") -> None:
    """One line on standard output."""
    sys.stdout.write(text + "\n")


def print_json(value: Any) -> None:
    """A value as indented JSON on standard output; frozen dataclasses and tuples are written as objects and lists."""
    import msgspec

    raw = msgspec.json.format(msgspec.json.encode(value), indent=2)
    sys.stdout.write(raw.decode() + "\n")


class MessageStyle:
    """How this process speaks on standard error: in lines for people, or in objects, one a line."""

    as_json: ClassVar[bool] = False
    namespace: ClassVar[str] = ""
    """What commands that are told of have to name; empty: they take theirs by themselves."""


@contextmanager
def speaking(*, as_json: bool) -> Iterator[None]:
    """Speak so, for as long as one command lasts."""
    MessageStyle.as_json = as_json
    try:
        yield
    finally:
        MessageStyle.as_json, MessageStyle.namespace = False, ""


def _reaching(text: str) -> str:
    """The text, its commands with the namespace that this one was about."""
    if not MessageStyle.namespace:
        return text
    from console.kube.find_job import in_namespace

    return in_namespace(text, MessageStyle.namespace)


def say_hint(text: str) -> None:
    """One line on standard output; the commands in it reach the namespace that this one was about."""
    say(_reaching(text))


def warn(text: str) -> None:
    """One line on standard error, its commands as in `say_hint`."""
    text = _reaching(text)
    _tell({"note": text}, text)


def complain(error: ConsoleError) -> int:
    """Say what went wrong on standard error; gives the exit code."""
    message, hint, whole = (_reaching(text) for text in (error.message, error.hint, str(error)))
    _tell({"error": message, "hint": hint}, whole)
    return error.exit_code


def _tell(told: dict[str, str], text: str) -> None:
    if MessageStyle.as_json:
        import msgspec

        sys.stderr.write(f"{msgspec.json.encode(told).decode()}\n")
    else:
        sys.stderr.write(f"a4: {text}\n")


class Parser(argparse.ArgumentParser):
    """A command line whose mistakes are told in the same way as everything else that goes wrong."""

    def error(self, message: str) -> NoReturn:
        """Usage and mistake on standard error; exits with 2."""
        if not MessageStyle.as_json:
            super().error(message)
        raise SystemExit(complain(BadInput(f"{message[:1].upper()}{message[1:]}.", f"{self.prog} --help says more.")))


def print_table(titles: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[bool]) -> None:
    """Rows under titles, each column as wide as its widest cell; `right` marks the columns of numbers."""
    widths = [max(map(len, column)) for column in zip(titles, *rows, strict=True)]
    for row in (titles, *rows):
        cells = (
            cell.rjust(width) if flush else cell.ljust(width)
            for cell, width, flush in zip(row, widths, right, strict=True)
        )
        say("  ".join(cells).rstrip())


def write_text(place: str, text: str) -> None:
    """Into that file, or on standard output for "-"; BadInput if it cannot be written."""
    if place == "-":
        sys.stdout.write(text)
        return
    try:
        Path(place).expanduser().write_text(text, encoding="utf-8")
    except OSError as error:
        raise BadInput(f"{place} cannot be written: {error.strerror}.", "Name another file.") from error
