"""Reads standard input for commands: an answer on the terminal, or bytes for a program.

Standard input is read only when it has data: a blocked read would make Ctrl-C, or the end of a program, wait for Enter.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Sequence

from console.errors import BadInput

_READ_BYTES = 1 << 16


async def ask_line(prompt: str) -> str | None:
    """Print a question on standard error and return the typed line in lower case; None at the end of input."""
    sys.stderr.write(prompt)
    sys.stderr.flush()
    await _wait_until_readable(sys.stdin.fileno())
    typed = sys.stdin.readline()
    return typed.strip().lower() if typed else None


def is_interactive() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


async def confirm(
    lines: Sequence[str], prompt: str, hint: str = "Add --yes, or --dry-run to see what it would do."
) -> bool:
    """Ask on the terminal for confirmation; returns whether it was given. BadInput, with `hint`, without a terminal."""
    if not is_interactive():
        raise BadInput(f"{prompt} There is no terminal to confirm it.", hint)
    for line in lines:
        sys.stderr.write(f"{line}\n")
    return await ask_line(f"{prompt} [y/N] ") in {"y", "yes"}


async def read_stdin() -> AsyncIterator[bytes]:
    descriptor = sys.stdin.fileno()
    while True:
        await _wait_until_readable(descriptor)
        data = os.read(descriptor, _READ_BYTES)
        if not data:
            return
        yield data


async def _wait_until_readable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    try:
        loop.add_reader(descriptor, readable.set)
    except PermissionError:  # a file, which can always be read
        return
    try:
        await readable.wait()
    finally:
        loop.remove_reader(descriptor)
