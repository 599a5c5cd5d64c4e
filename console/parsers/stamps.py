"""Lines as the kubelet serves them: a timestamp, a space, the text; cut from bytes in any pieces."""

from __future__ import annotations

from console.errors import Unreadable
from console.parsers.timestamp import parse_time

LONGEST = 1 << 20
"""Bytes of one line that are kept; the rest is counted and left out."""
_SECOND = 19
"""Length of 2026-11-21T07:00:00."""


class LineCutter:
    """Turns bytes into whole lines, of any length, though of a very long one only the first mebibyte.

    A line may consist of the pictures of a progress bar, each after a carriage return: of these the last one is kept.
    """

    def __init__(self) -> None:
        self._rest = bytearray()
        self._dropped = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that are whole now."""
        whole = chunk.split(b"\n")
        last = whole.pop()
        joined = bool(whole and self._rest)
        if joined:
            self._add(whole[0])
            whole[0] = self._cut()
        if len(chunk) > LONGEST:
            for at, line in enumerate(whole):
                if len(line) > LONGEST and (at or not joined):
                    self._add(line)
                    whole[at] = self._cut()
        if last:
            self._add(last)
        return whole

    def end(self) -> list[bytes]:
        """The last line, if it has no end: a program may stop in the middle of one."""
        return [self._cut()] if self._rest else []

    def _add(self, piece: bytes) -> None:
        rest = self._rest
        if len(rest) + len(piece) > LONGEST and b"\r" in piece:
            piece = self._last_picture(piece)
        room = LONGEST - len(rest)
        rest += piece[:room]
        self._dropped += max(0, len(piece) - room)

    def _last_picture(self, piece: bytes) -> bytes:
        head, space, _ = bytes(self._rest[:64]).partition(b" ")
        del self._rest[len(head) + len(space) if is_stamp(head) else 0 :]
        return piece.rstrip(b"\r").rpartition(b"\r")[2]

    def _cut(self) -> bytes:
        line = bytes(self._rest) + (f" … ({self._dropped} bytes more)".encode() if self._dropped else b"")
        self._rest, self._dropped = bytearray(), 0
        return line


def is_stamp(word: bytes) -> bool:
    """Whether the first word of a line has the shape of a timestamp."""
    return word[4:5] == b"-" and word[10:11] == b"T" and word[13:14] == b":" and word[:4].isdigit()


def moment_of(raw: bytes) -> float:
    """The moment in a line's timestamp; 0.0 if it has none."""
    return stamped([raw])[0][0]


def stamped(raws: list[bytes]) -> list[tuple[float, bytes]]:
    """Each line with the moment of its timestamp, 0.0 where there is none."""
    head, second = b"", 0.0
    lines: list[tuple[float, bytes]] = []
    for raw in raws:
        stop = raw.find(b" ", _SECOND, 48)
        if raw[stop - 1 : stop] != b"Z":
            lines.append((_parsed(raw[:stop] if stop > 0 else raw[:48]), raw))
            continue
        if raw[:_SECOND] != head:
            head, second = raw[:_SECOND], _parsed(raw[:_SECOND] + b"Z")
        digits = raw[_SECOND + 1 : stop - 1]
        if second and digits.isdigit():
            lines.append((second + int(digits) / 10 ** len(digits), raw))
        else:
            lines.append((second if not digits else 0.0, raw))
    return lines


def _parsed(stamp: bytes) -> float:
    if not is_stamp(stamp):
        return 0.0
    try:
        return parse_time(stamp.decode("ascii"))
    except (Unreadable, UnicodeDecodeError):
        return 0.0


def text_of(raw: bytes) -> bytes:
    """The text of a line without its timestamp and without a carriage return at its end."""
    if is_stamp(raw[:20]):
        raw = raw[raw.find(b" ") + 1 :] if b" " in raw[:48] else b""
    return raw.removesuffix(b"\r")
