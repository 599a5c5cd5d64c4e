"""The bytes of a log from wherever it comes: a file, a pipe, a terminal."""

from __future__ import annotations

import os
import select
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from console.errors import BadInput
from screens.cli.output import warn

if TYPE_CHECKING:
    from collections.abc import Iterator

_PIECE = 1 << 20
ENDLESS = 64 << 20
"""Bytes without a line end after which it is said that this is no log."""
PATIENCE = 10.0
"""Seconds after which it is said that nothing comes."""


class NoLog(BadInput):
    """What comes is no log: it has no lines, or never begins."""


def pieces(name: str) -> Iterator[bytes]:
    """The bytes of a file, or of standard input as they come; BadInput if there is none, NoLog if it is no log."""
    if name == "-" and not sys.stdin:  # none: it was closed before the program began
        raise BadInput("Standard input is closed.", "Name a file, or send the log through a pipe: … | a4 read -")
    try:
        descriptor = sys.stdin.fileno() if name == "-" else os.open(name, os.O_RDONLY | os.O_NONBLOCK)
    except OSError as error:
        raise BadInput(f"Could not open {name}: {error.strerror}.", "Name a file, or - for standard input.") from error
    try:
        yield from _lined(_read(descriptor, name), name)
    except IsADirectoryError as error:
        raise BadInput(f"{Path(name)} is a folder.", "Name a file in it.") from error
    finally:
        if name != "-":
            os.close(descriptor)


def _read(descriptor: int, name: str) -> Iterator[bytes]:
    if name != "-":
        if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
            yield _first(descriptor, name)
        os.set_blocking(descriptor, True)
    while data := os.read(descriptor, _PIECE):
        yield data


def _first(descriptor: int, name: str) -> bytes:
    """The first bytes that somebody writes into the named pipe; if nobody has opened it, none may ever come."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    if not poll.poll(PATIENCE * 1000):
        try:
            data = os.read(descriptor, _PIECE)
        except BlockingIOError:
            warn(f"Nothing has come from {name} yet; Ctrl-C ends it.")
            poll.poll()
            return os.read(descriptor, _PIECE)
        if not data:
            raise NoLog(f"Nobody has written into {name} for {PATIENCE:g} s.", "Start what writes the log first.")
        return data
    return os.read(descriptor, _PIECE)


def _lined(data: Iterator[bytes], name: str) -> Iterator[bytes]:
    """The same bytes, as long as lines end in them now and then."""
    without = 0
    for piece in data:
        yield piece
        without = (
            len(piece) - end if (end := max(piece.rfind(b"\n"), piece.rfind(b"\r"))) >= 0 else without + len(piece)
        )
        if without > ENDLESS:
            what = "Standard input" if name == "-" else name
            raise NoLog(
                f"{what} is no log: {ENDLESS >> 20} MiB came without the end of a line.",
                "What was read before is told.",
            )
