"""The one line that a4 puts into the person's ssh config, and takes out again without a trace.

Nothing else of that file is read into meaning or written back changed: not its line ends, its encoding, its mode, nor
the link it may be.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from console.errors import BadInput
from console.ssh.places import write
from console.ssh.quoting import word

if TYPE_CHECKING:
    from pathlib import Path

    from console.ssh.places import Places

MARK = b"# a4 put this line and the next one here; `a4 ssh --undo` takes both away"
MADE = b"# a4 made this file for the next line; `a4 ssh --undo` takes it away"


def line(places: Places) -> str:
    """The line as ssh reads it: the whole path, since ssh takes ~ from $HOME here, and from the account elsewhere."""
    return f"Include {word(str(places.config))}"


def present(places: Places) -> bool:
    """Whether ssh reads our hosts by itself."""
    try:
        content = places.user_config.read_bytes()
    except OSError:  # then ssh does not read it either
        return False
    return line(places).encode() in _before_hosts(content)


def _before_hosts(content: bytes) -> list[bytes]:
    """Lines that hold for every host: those before the first Host or Match."""
    found = []
    for each in content.splitlines():
        first = each.strip().partition(b" ")[0].partition(b"\t")[0].partition(b"=")[0].lower()
        if first in {b"host", b"match"}:
            break
        found.append(each.strip())
    return found


def add(places: Places) -> bool:
    """Put the line on top of the person's config, whose other bytes stay; whether it was missing. Raises BadInput."""
    if present(places):
        return False
    remove(places)  # a line that leads elsewhere
    path = places.user_config
    there = path.exists()
    content = _read(path)
    end = b"\r\n" if content.partition(b"\n")[0].endswith(b"\r") else b"\n"
    head = (MARK if there else MADE) + end + line(places).encode() + end
    try:
        _replace(path, head + content, there)
    except OSError as error:
        raise BadInput(
            f"{path} cannot be changed: {error.strerror}.",
            f"Put `{line(places)}` on top of it yourself, or use `ssh -F {places.whole_config}`.",
        ) from error
    return True


def remove(places: Places) -> bool:
    """Take the line away again, and the file if it was made for it; whether there was one. Raises BadInput."""
    path = places.user_config
    content = _read(path)
    kept, made, found = [], False, False
    lines = content.splitlines(keepends=True)
    for at, each in enumerate(lines):
        if each.strip() in {MARK, MADE}:
            made = made or each.strip() == MADE
            found = True
            continue
        after_mark = at > 0 and lines[at - 1].strip() in {MARK, MADE}
        if not (after_mark and each.lstrip().lower().startswith(b"include ")):
            kept.append(each)
    if not found:
        return False
    try:
        if made and not kept:
            path.unlink()
        else:
            _replace(path, b"".join(kept), True)
    except OSError as error:
        raise BadInput(f"{path} cannot be changed: {error.strerror}.", "Delete the two lines of a4 in it.") from error
    return True


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}.", "Make it a file that you may read.") from error


def _replace(path: Path, content: bytes, there: bool) -> None:
    """Write the file that a link leads to, keeping its mode; in place where its folder allows nothing else."""
    target = path.resolve()
    if not there:
        write(target, content)
        return
    about = target.stat()
    if about.st_nlink > 1 or about.st_uid != os.getuid():
        target.write_bytes(content)
        return
    if not os.access(target, os.W_OK):
        raise PermissionError(13, "Permission denied")
    try:
        write(target, content, stat.S_IMODE(about.st_mode))
    except OSError:
        target.write_bytes(content)
