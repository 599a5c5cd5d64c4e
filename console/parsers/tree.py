"""Listings of files in a pod, as the script of `console.files.scripts` prints them."""

from __future__ import annotations

import re

from console.errors import Unreadable
from console.models.copying import Entry, EntryKind

_KINDS = {"f": EntryKind.FILE, "d": EntryKind.FOLDER, "l": EntryKind.LINK}
_WORDS = {
    "regular file": "f", "regular empty file": "f", "directory": "d", "symbolic link": "l",
}  # fmt: skip
_SUM = re.compile(rb"(\\?)([0-9a-f]{64}) [ *](.+)")
_ESCAPES = {b"\\\\": b"\\", b"\\n": b"\n", b"\\r": b"\r"}


_LATEST = 1 << 33
"""Seconds since the epoch that this machine's file systems take (year 2242)."""
_LONGEST_NUMBER = 20


def file_size(text: str) -> int:
    """Bytes; ValueError for what is no size."""
    if not (text.isascii() and text.isdecimal() and len(text) < _LONGEST_NUMBER):
        raise ValueError(text[:_LONGEST_NUMBER])
    return int(text)


def file_mode(text: str) -> int:
    """Permission bits out of octal digits; ValueError."""
    return int(text[:_LONGEST_NUMBER], 8) & 0o7777


def file_time(text: str) -> int:
    """Seconds since the epoch, fractions cut; ValueError for what no file system has."""
    when = float(text[: 2 * _LONGEST_NUMBER])
    if not -_LATEST < when < _LATEST:
        raise ValueError(text[:_LONGEST_NUMBER])
    return int(when)


def tree(data: bytes) -> list[Entry]:
    """Entries of `KIND|SIZE|MODE|TIME|PATH NUL TARGET NUL`, KIND in find's letters or stat's words; else Unreadable."""
    fields = data.split(b"\0")
    found = []
    for head, target in zip(fields[:-1:2], fields[1::2], strict=False):
        try:
            kind, size, mode, when, path = head.decode(errors="surrogateescape").split("|", 4)
            known = _KINDS.get(_WORDS.get(kind, kind), EntryKind.OTHER)
            found.append(
                Entry(
                    path.removeprefix("./") if path != "." else "",
                    known,
                    file_size(size) if known is EntryKind.FILE else 0,
                    file_mode(mode),
                    file_time(when),
                    target.decode(errors="surrogateescape") if known is EntryKind.LINK else "",
                )
            )
        except ValueError as error:
            raise Unreadable(f"The list of files cannot be read at {head[:80]!r}.") from error
    return found


def checksums(data: bytes) -> dict[str, str]:
    """Names and sums that `sha256sum` printed; odd lines are left out."""
    found = {}
    for line in data.split(b"\n"):
        match = _SUM.fullmatch(line)
        if match:
            escaped, value, name = match.groups()
            if escaped:
                name = re.sub(rb"\\[\\nr]", lambda each: _ESCAPES[each[0]], name)
            found[name.decode(errors="surrogateescape")] = value.decode()
    return found
