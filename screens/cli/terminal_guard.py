"""Standard output and error of plain commands in a terminal: nothing that a cluster says can do anything to it.

A pipe or a file gets every text as it is. Bytes (`exec`, `shell`, `logs --raw`) pass on purpose.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO, cast

from screens.wording import for_terminal

if TYPE_CHECKING:
    from collections.abc import Iterator


class GuardedStream:
    """A stream whose texts are cleaned before the terminal sees them; all else is the stream's own."""

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
    """Clean what is written to a terminal, for as long as one command lasts."""
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
    """Standard output of this command gets its texts as they are: the person asked for that."""
    sys.stdout = getattr(sys.stdout, "unguarded", sys.stdout)


def unguarded(stream: TextIO) -> TextIO:
    """The terminal itself, for sequences of our own around texts that were cleaned; nothing else may pass here."""
    return cast("TextIO", getattr(stream, "unguarded", stream))


def write_to_terminal(stream: TextIO, text: str) -> None:
    """Write escape sequences of our own, around a text that was cleaned, to the terminal."""
    unguarded(stream).write(text)
