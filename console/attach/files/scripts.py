"""Shell scripts for copies, limited to what GNU and busybox tools share, and parsers of their output.

Paths are arguments, never parts of a script, so no name can be a command; and they never begin with a dash. Input has a
known length and is cut with `head`, because not every server can close a command's input.
"""

from __future__ import annotations

import re

from console.attach.files.copy_progress import EntryKind, FileEntry
from console.errors import Unreadable

EXIT_MISSING, EXIT_FORBIDDEN = 44, 45  # exit codes of a script that found nothing there, or may not look
EXIT_NOT_GNU = 46  # exit code of a script that needs GNU's programs and found others

_ABSOLUTE_PATH = """p=$1
case $p in "~") p=$HOME ;; "~/"*) p=$HOME/${p#"~/"} ;; "") p=. ;; esac
"""

STAT_PATH = (
    _ABSOLUTE_PATH
    + """
if [ -d "$p" ]; then
  cd "$p" || exit 45
  printf 'd|0|%s|0|%s\\0\\0' "$(stat -c %a . 2>/dev/null || echo 755)" "$(pwd -P)"; at=.
elif [ -e "$p" ]; then
  d=$(dirname "$p"); b=$(basename "$p"); l=$(readlink -f "$p" 2>/dev/null || printf '%s' "$p")
  s=$(stat -L -c '%s|%a|%Y' "$p") || exit 45
  k=o; [ -f "$p" ] && k=f
  printf '%s|%s|%s\\0\\0' "$k" "$s" "$l"; at=$d
else
  [ -L "$p" ] && exit 44
  d=$(dirname "$p"); at=$d
  [ -d "$d" ] || exit 44
  d=$(cd "$d" && pwd -P) || exit 45
  printf 'o|0|0|0|%s/%s\\0\\0' "${d%/}" "$(basename "$p")"
fi
df -Pk "$at" 2>/dev/null | awk 'NR > 1 { print $4 * 1024 }' | tail -n 1
"""
)
"""Prints a path's entry and free bytes; kind `o` and mode 0 for a new name, EXIT_MISSING if its folder is missing."""

WORKING_FOLDER = """
for e in /proc/[0-9]*/environ; do
  tr '\\0' '\\n' 2>/dev/null < "$e" | grep -qE '^(LOCAL_RANK|RANK|OMPI_COMM_WORLD_RANK)=' || continue
  d=$(cd "${e%environ}cwd/$1" 2>/dev/null && pwd -P) && printf '%s\\0' "$d"
done
exit 0
"""
"""Prints, each ended by a zero byte, the folders that a relative path names from training processes' folders."""

LIST_TREE = """
cd "$1" || exit 45
if find . -maxdepth 0 -printf '' 2>/dev/null; then
  find . -printf '%y|%s|%m|%T@|%p\\0%l\\0'
else
  find . -exec sh -c 'for f; do
    s=$(stat -c "%F|%s|%a|%Y" "$f") && printf "%s|%s\\0%s\\0" "$s" "$f" "$(readlink "$f" 2>/dev/null)"
  done' sh {} +
fi
"""
"""Prints the entries of a folder and all below, itself as `.`; unreadable ones are named on stderr and left out."""

LIST_FOLDER = (
    _ABSOLUTE_PATH
    + """
[ -e "$p" ] || exit 44
[ -d "$p" ] || p=$(dirname "$p")
cd "$p" || exit 45
pwd -P | tr '\\n' '\\0'
df -Pk . 2>/dev/null | awk 'NR > 1 { print $2, $3, $4 }' | tail -n 1
printf '\\0'
if find . -maxdepth 0 -printf '' 2>/dev/null; then
  find . -mindepth 1 -maxdepth 1 -printf '%y|%s|%m|%T@|%p\\0%l\\0'
else
  find . -mindepth 1 -maxdepth 1 -exec sh -c 'for f; do
    s=$(stat -c "%F|%s|%a|%Y" "$f") && printf "%s|%s\\0%s\\0" "$s" "$f" "$(readlink "$f" 2>/dev/null)"
  done' sh {} +
fi
"""
)
"""Prints a folder's path (a file's parent), KiB of its file system (total, used, free) and entries as in LIST_TREE."""

EXIT_OTHER_FILE_SYSTEM = 47  # exit code of DELETE_PATH where another file system begins
DELETE_PATH = """
[ -e "$1" ] || [ -L "$1" ] || exit 44
if [ -d "$1" ] && [ ! -L "$1" ] && [ "$(stat -c %d "$1")" != "$(stat -c %d "$1/..")" ]; then exit 47; fi
exec rm -rf "$1"
"""

READ_FILE = """
[ -e "$1" ] || exit 44
[ -r "$1" ] || exit 45
if [ "$2" -eq 0 ]; then exec head -c "$3" "$1"; fi
tail -c "+$(($2 + 1))" "$1" | head -c "$3"
"""

READ_ENDS = """
cd "$1" || exit 45
head -c "$2" | if command -v python3 >/dev/null 2>&1; then
  exec python3 -I -S -c '
import os, sys
words = sys.stdin.buffer.read().split(b"\\0")
for size, path in zip(words[::2], words[1::2]):
    size, data, read = int(size), b"", b"-"
    try:
        with open(path, "rb") as file:
            if sys.argv[1] == "tail":
                file.seek(max(0, os.fstat(file.fileno()).st_size - size))
            data, read = file.read(size), b"+"
    except OSError:
        pass
    sys.stdout.buffer.write(read + data.ljust(size, b"\\0"))
' "$3"
else
  xargs -0 -n 2 sh -c 'if head -c 0 "$2" 2>/dev/null; then printf +; else printf -- -; fi
    { "$0" -c "$1" "$2" 2>/dev/null; head -c "$1" /dev/zero; } | head -c "$1"' "$3"
fi
"""
"""Prints, for each size and path on stdin, `+` or (unreadable) `-`, then zero-padded bytes of its `head` or `tail`."""

FILE_SIZE = 'if [ -f "$1" ]; then wc -c < "$1"; else echo 0; fi'

WRITE_PART = """
if [ "$2" -eq 0 ]; then : > "$1" || exit 1; fi
[ "$(wc -c < "$1")" -eq "$2" ] || { echo "the part that was there has changed" >&2; exit 1; }
exec head -c "$3" >> "$1"
"""

PUT_IN_PLACE = """
if [ -d "$2" ] && [ ! -L "$2" ]; then echo "a folder of that name is there" >&2; exit 1; fi
if [ -d "$2" ]; then rm -f "$2"; fi
chmod "$3" "$1" && { touch -d "@$4" "$1" 2>/dev/null || :; } && mv -f "$1" "$2"
"""

MAKE_FOLDER = 'mkdir -p "$1"'

CHECKSUMS = """
command -v sha256sum >/dev/null || exit 44
cd "$1" || exit 45
head -c "$2" | xargs -0 sha256sum
"""

CHECKSUM = """
command -v sha256sum >/dev/null || exit 44
sha256sum < "$1"
"""

PACK_FILES = """
cd "$1" || exit 45
tar --version 2>/dev/null | grep -q GNU || exit 46
head -c "$2" | tar --null -T - --no-recursion --hard-dereference --ignore-failed-read -cf -
"""

PACK_TREE = """
cd "$1" || exit 45
exec tar -cf - .
"""

UNPACK_TAR = """
mkdir -p "$1" && cd "$1" || exit 45
head -c "$2" | tar -xpof -
"""

MERGE_TREES = """
if [ ! -e "$2" ] && [ ! -L "$2" ] && mv -T "$1" "$2" 2>/dev/null; then exit 0; fi
T=$2; export T; cd "$1" || exit 45
find . -type d -exec sh -c 'for d; do mkdir -p "$T/$d" || exit 1; done' sh {} + &&
find . ! -type d -exec sh -c 'for f; do
  if [ -d "$T/$f" ] && [ ! -L "$T/$f" ]; then echo "$f is a folder there" >&2; exit 1; fi
  if [ -L "$T/$f" ]; then rm -f "$T/$f"; fi
  mv -f "$f" "$T/$f" || exit 1
done' sh {} + && cd / && rm -rf "$1"
"""


_KIND_OF_LETTER = {"f": EntryKind.FILE, "d": EntryKind.FOLDER, "l": EntryKind.LINK}
_EXIT_WORDS = {"regular file": "f", "regular empty file": "f", "directory": "d", "symbolic link": "l"}
_CHECKSUM_LINE = re.compile(rb"(\\?)([0-9a-f]{64}) [ *](.+)")
_ESCAPES = {b"\\\\": b"\\", b"\\n": b"\n", b"\\r": b"\r"}


_MAX_TIME = 1 << 33  # seconds since the epoch that this machine's file systems take (year 2242)
_MAX_DIGITS = 20


def parse_byte_count(text: str) -> int:
    """Parse a number of bytes, decimal digits only ("4096", no unit or sign); ValueError for other text."""
    if not (text.isascii() and text.isdecimal() and len(text) < _MAX_DIGITS):
        raise ValueError(text[:_MAX_DIGITS])
    return int(text)


def parse_mode(text: str) -> int:
    return int(text[:_MAX_DIGITS], 8) & 0o7777


def parse_time(text: str) -> int:
    """Parse a modification time to whole seconds since the epoch; ValueError for impossible ones."""
    when = float(text[: 2 * _MAX_DIGITS])
    if not -_MAX_TIME < when < _MAX_TIME:
        raise ValueError(text[:_MAX_DIGITS])
    return int(when)


def parse_tree(data: bytes) -> list[FileEntry]:
    """Parse entries `KIND|SIZE|MODE|TIME|PATH NUL TARGET NUL`. Raises Unreadable for anything else."""
    fields = data.split(b"\0")
    found = []
    for head, target in zip(fields[:-1:2], fields[1::2], strict=False):
        try:
            kind, size, mode, when, path = head.decode(errors="surrogateescape").split("|", 4)
            known = _KIND_OF_LETTER.get(_EXIT_WORDS.get(kind, kind), EntryKind.OTHER)
            found.append(
                FileEntry(
                    path.removeprefix("./") if path != "." else "",
                    known,
                    parse_byte_count(size) if known is EntryKind.FILE else 0,
                    parse_mode(mode),
                    parse_time(when),
                    target.decode(errors="surrogateescape") if known is EntryKind.LINK else "",
                )
            )
        except ValueError as error:
            raise Unreadable(f"The list of files cannot be read at {head[:80]!r}.") from error
    return found


def parse_checksums(data: bytes) -> dict[str, str]:
    """Parse the output of `sha256sum`: name -> checksum; other lines are ignored."""
    found = {}
    for line in data.split(b"\n"):
        match = _CHECKSUM_LINE.fullmatch(line)
        if match:
            escaped, value, name = match.groups()
            if escaped:
                name = re.sub(rb"\\[\\nr]", lambda each: _ESCAPES[each[0]], name)
            found[name.decode(errors="surrogateescape")] = value.decode()
    return found
