"""Sanitizes terminal output of plain commands, so that data from a cluster cannot control the terminal.

A pipe or a file gets every text as it is. Bytes (`exec`, `shell`, `logs --raw`) pass on purpose.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

from screens.wording import for_terminal


class GuardedStream:
    """A stream that sanitizes text before writing it to the terminal."""

    def __init__(self, stream: TextIO) -> None:
        self.unguarded = stream

    def write(self, text: str) -> int:
        self.unguarded.write(for_terminal(text))
        return len(text)

    def writelines(self, lines: Any) -> None:
        self.write("".join(lines))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.unguarded, name)


@contextmanager
def guarded() -> Iterator[None]:
    """Sanitize what is written to a terminal during this block."""
    out, error = sys.stdout, sys.stderr
    if out.isatty():
        sys.stdout = cast("TextIO", GuardedStream(out))
    if error.isatty():
        sys.stderr = cast("TextIO", GuardedStream(error))
    try:
        yield
    finally:
        sys.stdout, sys.stderr = out, error


def pass_raw() -> None:
    """Stop sanitizing standard output, on the person's request."""
    sys.stdout = getattr(sys.stdout, "unguarded", sys.stdout)


def unguarded(stream: TextIO) -> TextIO:
    """The terminal stream itself, only for this program's own escape sequences."""
    return cast("TextIO", getattr(stream, "unguarded", stream))


def write_to_terminal(stream: TextIO, text: str) -> None:
    """Write this program's own escape sequences, around sanitized text, to the terminal."""
    unguarded(stream).write(text)
