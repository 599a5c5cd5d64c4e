"""Reads the bytes of a log from a file, a pipe or a terminal."""

from __future__ import annotations

import fcntl
import os
import select
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

_READ_BYTES = 1 << 20
MAX_LINE_BYTES = 64 << 20  # bytes without a line end: this is no log
PIPE_TIMEOUT = 10.0  # seconds for the first bytes of a named pipe


class UnreadableLog(Exception):
    """Raised for a log that cannot be read; its text is one sentence and the next step."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(f"{message} {hint}")
        self.message, self.hint = message, hint


class NotALog(UnreadableLog):
    """Raised if the input is not a log: it has no line ends, or never begins."""


def iter_pieces(name: str, add_note: Callable[[str], None]) -> Iterator[bytes]:
    """The bytes of a file or stdin ("-"); `add_note` gets a message if input is awaited. Raises UnreadableLog."""
    if name == "-" and not sys.stdin:  # none: it was closed before the program began
        raise UnreadableLog("Standard input is closed.", "Name a file, or send the log through a pipe.")
    try:
        descriptor = sys.stdin.fileno() if name == "-" else os.open(name, os.O_RDONLY | os.O_NONBLOCK)
    except OSError as error:
        raise UnreadableLog(
            f"Could not open {name}: {error.strerror}.", "Name a file, or - for standard input."
        ) from error
    try:
        yield from _require_line_breaks(_read_descriptor(descriptor, name, add_note), name)
    except IsADirectoryError as error:
        raise UnreadableLog(f"{Path(name)} is a folder.", "Name a file in it.") from error
    finally:
        if name != "-":
            os.close(descriptor)


def _read_descriptor(descriptor: int, name: str, add_note: Callable[[str], None]) -> Iterator[bytes]:
    if name != "-":
        if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
            yield _read_first(descriptor, name, add_note)
        os.set_blocking(descriptor, True)
    if sys.platform == "linux" and stat.S_ISFIFO(os.fstat(descriptor).st_mode):
        with suppress(OSError):  # who has too many pipes keeps the small one
            fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, _READ_BYTES)
    while data := os.read(descriptor, _READ_BYTES):
        yield data


def _read_first(descriptor: int, name: str, add_note: Callable[[str], None]) -> bytes:
    """The first bytes of a named pipe. Raises UnreadableLog if nobody writes to it in time."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    if not poll.poll(PIPE_TIMEOUT * 1000):
        try:
            data = os.read(descriptor, _READ_BYTES)
        except BlockingIOError:
            add_note(f"No data from {name} yet; Ctrl-C stops waiting.")
            poll.poll()
            return os.read(descriptor, _READ_BYTES)
        if not data:
            raise NotALog(
                f"No data was written to {name} for {PIPE_TIMEOUT:g} s.", "Start the program that writes the log first."
            )
        return data
    return os.read(descriptor, _READ_BYTES)


def _require_line_breaks(data: Iterator[bytes], name: str) -> Iterator[bytes]:
    """Yield the pieces of `data`. Raises NotALog after more than MAX_LINE_BYTES bytes without a line end."""
    without = 0
    for piece in data:
        yield piece
        without = (
            len(piece) - end if (end := max(piece.rfind(b"\n"), piece.rfind(b"\r"))) >= 0 else without + len(piece)
        )
        if without > MAX_LINE_BYTES:
            what = "Standard input" if name == "-" else name
            raise NotALog(
                f"{what} is not a log: {MAX_LINE_BYTES >> 20} MiB without a line break.",
                "What was read before that is shown.",
            )
