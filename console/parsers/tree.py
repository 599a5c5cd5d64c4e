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
                    int(size) if known is EntryKind.FILE else 0,
                    int(mode, 8) & 0o7777,
                    int(float(when)),
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
