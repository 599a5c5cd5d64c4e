"""Lines as the kubelet serves them: a timestamp, a space, the text; cut from bytes in any pieces."""

from __future__ import annotations

from functools import lru_cache

from console.errors import Unreadable
from console.parsers.pictures import Pictures
from console.parsers.timestamp import parse_time

LONGEST = 1 << 20
"""Bytes of one line that are kept; the rest is counted and left out."""
_SECOND = 19
"""Length of 2026-11-21T07:00:00."""
_STAMP = 31
"""Length of 2026-11-21T07:00:00.000000000Z and the space behind it."""


class LineCutter:
    """Turns bytes into whole lines, of any length, though of a very long one only the first mebibyte.

    Of a line that a program draws again and again only what `Pictures` says is kept; carriage returns at the end of a
    line go.
    """

    def __init__(self) -> None:
        self._rest = bytearray()
        self._dropped = 0
        self._head = b""
        """Timestamp of the line whose pictures these are, and the space after it."""
        self._pictures: Pictures | None = None

    @property
    def open(self) -> bytes:
        """The picture that is seen now of a line that has no end yet; empty if it is no such line."""
        return self._pictures.last if self._pictures else b""

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that are whole now."""
        *whole, last = chunk.split(b"\n")
        if self._pictures or b"\r" in chunk:
            return self._drawn(whole, last)
        for at, line in enumerate(whole):
            if self._rest or len(line) > LONGEST:
                self._put(line)
                whole[at] = self._taken()
        if last:
            self._put(last)
        return whole

    def end(self) -> list[bytes]:
        """The last line, if it has no end: a program may stop in the middle of one."""
        return self._cut() if self._rest or self._pictures else []

    def _drawn(self, whole: list[bytes], last: bytes) -> list[bytes]:
        lines: list[bytes] = []
        for piece in whole:
            lines += self._add(piece)
            lines += self._cut()
        return lines + self._add(last)

    def _add(self, piece: bytes) -> list[bytes]:
        """More of a line, in which there may be pictures; those that are lines of their own."""
        first, *others = piece.split(b"\r")
        self._put(first)
        lines: list[bytes] = []
        for each in others:
            text = self._taken()
            if self._pictures is None:
                self._pictures = Pictures()
                stamp, space, behind = text.partition(b" ")
                self._head, text = (stamp + space, behind) if is_stamp(stamp) else (b"", text)
            lines += self._pictures.add(text)
            self._put(each)
        return [self._head + line for line in lines]

    def _put(self, piece: bytes) -> None:
        room = LONGEST - len(self._rest)
        self._rest += piece[:room]
        self._dropped += max(0, len(piece) - room)

    def _taken(self) -> bytes:
        line = bytes(self._rest) + (f" … ({self._dropped} bytes more)".encode() if self._dropped else b"")
        self._rest, self._dropped = bytearray(), 0
        return line

    def _cut(self) -> list[bytes]:
        line, pictures, self._pictures = self._taken(), self._pictures, None
        return [line] if pictures is None else [self._head + each for each in pictures.end(line)]


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
            head = raw[:_SECOND]
            second = _parsed(head + b"Z")
        digits = raw[_SECOND + 1 : stop - 1]
        if second and digits.isdigit():
            lines.append((second + int(digits) / 10 ** len(digits), raw))
        else:
            lines.append((second if not digits else 0.0, raw))
    return lines


@lru_cache(maxsize=64)
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


def texts_of(raws: list[bytes]) -> list[bytes]:
    """The texts of many lines: as `text_of`, faster for timestamps as long as the kubelet makes them."""
    return [
        raw[_STAMP:]
        if raw.find(b" ", 0, _STAMP) == _STAMP - 1
        and raw[4:14:3] == b"--T:"
        and raw[:4].isdigit()
        and raw[-1:] != b"\r"
        else text_of(raw)
        for raw in raws
    ]
