"""Lines of a log, and how they are split from the bytes that the kubelet serves: timestamp, space, text.

A progress bar is a line that is redrawn after a carriage return. Kept as lines are its last frame, one frame of each
step with a loss (for the curves), and the bar that stood before a printed loss (for its step). So hours of a bar take
little more space than one line.
"""

from __future__ import annotations

from functools import lru_cache

import msgspec
from msgspec import Struct

from console.errors import Unreadable
from console.kube.objects.meta import parse_time
from trainlog import lazy_pattern


class LogLine(Struct, frozen=True):
    """A log line with the time at which the kubelet received it."""

    time: float
    text: str  # without its line end; bytes that are no UTF-8 are shown as U+FFFD
    open: bool = False  # whether it is drawn again and again, as a progress bar: another one takes its place


class PodLine(msgspec.Struct, frozen=True, gc=False):
    """A log line of one rank; a msgspec Struct, because thousands are created per second."""

    rank: int
    time: float  # seconds since the epoch; of a line without a timestamp that of the line before
    text: str
    attempt: int = 0  # restart attempt of the JobSet
    pod: str = ""
    container: str = ""


def sort_key(line: PodLine) -> tuple[float, int]:
    return line.time, line.rank


_BAR_POSITION = lazy_pattern(rb"\| *(\d{1,15})/")
_BAR_MARK, _LOSS_WORD = b"%|", b"loss"


class ProgressBarFilter:
    """Chooses which frames of a progress bar to keep as lines; `last` is the current frame."""

    def __init__(self) -> None:
        self.last_frame = b""
        self._bar = b""
        self._step = b""  # the step of the last bar with a loss, and that bar
        self._last_loss_frame = b""

    def add_frame(self, picture: bytes) -> list[bytes]:
        """Add a complete frame; returns the earlier frames to keep as lines."""
        if not picture.strip():
            return []
        self.last_frame = picture
        if _BAR_MARK not in picture:
            return []
        self._bar = picture
        place = _BAR_POSITION.search(picture) if _LOSS_WORD in picture else None
        if place is None:
            return []
        step, self._step = self._step, place[1]
        earlier, self._last_loss_frame = self._last_loss_frame, picture
        return [earlier] if step not in {b"", place[1]} else []

    def flush_frame(self, picture: bytes) -> list[bytes]:
        """Add the last frame of the line; returns the frames to keep as lines."""
        lines = self.add_frame(picture)
        over = self._bar if _LOSS_WORD in self.last_frame else b""
        for each in (self._last_loss_frame, over):
            if each not in {b"", self.last_frame, *lines[-1:]}:
                lines.append(each)
        return [*lines, self.last_frame]


MAX_LINE_BYTES = 1 << 20  # bytes of one line that are kept; the rest is counted and left out
_SECONDS_LENGTH = 19  # length of 2026-11-21T07:00:00
_SECOND = slice(17, 19)
_DIGITS = slice(20, 29)  # of 2026-11-21T07:00:00.000000000Z, as the kubelet writes it
_TIMESTAMP_LENGTH = 31  # length of 2026-11-21T07:00:00.000000000Z and the space behind it


class LineSplitter:
    """Splits bytes into lines of at most 1 MiB; of a redrawn line the frames that `ProgressBarFilter` keeps."""

    def __init__(self, *, stamped: bool = True) -> None:
        """`stamped`: whether each line begins with its timestamp."""
        self._stamped = stamped
        self._partial_line = bytearray()
        self._dropped = 0
        self._head = b""  # timestamp of the line whose pictures these are, and the space after it
        self._bar_filter: ProgressBarFilter | None = None

    @property
    def open_line(self) -> bytes:
        """The current frame of a progress bar whose line has not ended; empty if there is none."""
        return self._bar_filter.last_frame if self._bar_filter else b""

    def feed(self, chunk: bytes) -> list[bytes]:
        *whole, last = chunk.split(b"\n")
        if self._bar_filter or b"\r" in chunk:
            lines: list[bytes] = []
            for piece in whole:
                lines += self._add_piece(piece)
                lines += self._split_overlong()
            return lines + self._add_piece(last)
        for at, line in enumerate(whole):
            if self._partial_line or len(line) > MAX_LINE_BYTES:
                self._buffer_piece(line)
                whole[at] = self._take_buffered()
        if last:
            self._buffer_piece(last)
        return whole

    def feed_text(self, chunk: bytes) -> bytes:
        """Split a block of text into whole lines with their line ends; lines without progress bars stay one text."""
        end = chunk.rfind(b"\n") + 1
        if self._bar_filter or b"\r" in chunk or not end or len(self._partial_line) + len(chunk) > MAX_LINE_BYTES:
            return b"".join([line + b"\n" for line in self.feed(chunk)])
        block, self._partial_line = bytes(self._partial_line) + chunk[:end], bytearray(chunk[end:])
        return block

    def flush(self) -> list[bytes]:
        """The last line, if the log stopped without a line end."""
        return self._split_overlong() if self._partial_line or self._bar_filter else []

    def _add_piece(self, chunk: bytes) -> list[bytes]:
        """Add to the current line, which may be a progress bar; returns the frames to keep as lines."""
        while b"\r\r" in chunk:
            chunk = chunk.replace(b"\r\r", b"\r")
        first, *others = chunk.split(b"\r")
        self._buffer_piece(first)
        lines: list[bytes] = []
        for each in others:
            text = self._take_buffered()
            if self._bar_filter is None:
                self._bar_filter = ProgressBarFilter()
                stamp, space, behind = text.partition(b" ")
                self._head, text = (stamp + space, behind) if self._stamped and is_timestamp(stamp) else (b"", text)
            lines += self._bar_filter.add_frame(text)
            self._buffer_piece(each)
        return [self._head + line for line in lines]

    def _buffer_piece(self, chunk: bytes) -> None:
        room = MAX_LINE_BYTES - len(self._partial_line)
        self._partial_line += chunk[:room]
        self._dropped += max(0, len(chunk) - room)

    def _take_buffered(self) -> bytes:
        line = bytes(self._partial_line) + (f" … ({self._dropped} bytes more)".encode() if self._dropped else b"")
        self._partial_line, self._dropped = bytearray(), 0
        return line

    def _split_overlong(self) -> list[bytes]:
        line, pictures, self._bar_filter = self._take_buffered(), self._bar_filter, None
        return [line] if pictures is None else [self._head + each for each in pictures.flush_frame(line)]


def is_timestamp(content: bytes) -> bool:
    return content[4:5] == b"-" and content[10:11] == b"T" and content[13:14] == b":" and content[:4].isdigit()


def split_timestamps(raws: list[bytes]) -> list[tuple[float, bytes]]:
    """Split each line into its time (0.0 if it has no timestamp) and its text."""
    head, second = b"", 0.0
    lines: list[tuple[float, bytes]] = []
    for raw in raws:
        digits = raw[_DIGITS]
        if raw[: _SECONDS_LENGTH + 1] == head and raw[29:31] == b"Z " and second and digits.isdigit():
            lines.append((second + int(digits) / 1_000_000_000, raw))
            continue
        stop = raw.find(b" ", _SECONDS_LENGTH, 48)
        if raw[stop - 1 : stop] != b"Z":
            lines.append((_parse_timestamp(raw[:stop] if stop > 0 else raw[:48]), raw))
            continue
        if raw[: _SECONDS_LENGTH + 1] != head:
            head = raw[: _SECONDS_LENGTH + 1]
            second = _parse_second(raw)
        digits = raw[_SECONDS_LENGTH + 1 : stop - 1]
        if second and digits.isdigit():
            lines.append((second + int(digits[:9] or 0) / 10 ** len(digits[:9]), raw))
        else:
            lines.append((second if not digits else 0.0, raw))
    return lines


def _parse_second(line: bytes) -> float:
    """The whole second of the time that begins a line, from a cache of minutes."""
    minute, digits = _parse_timestamp(line[: _SECOND.start] + b"00Z"), line[_SECOND]
    if minute and digits.isdigit() and digits < b"60":
        return minute + int(digits)
    return _parse_timestamp(line[:_SECONDS_LENGTH] + b"Z")


@lru_cache(maxsize=64)
def _parse_timestamp(stamp: bytes) -> float:
    if not is_timestamp(stamp):
        return 0.0
    try:
        return parse_time(stamp.decode("ascii"))
    except (Unreadable, UnicodeDecodeError):
        return 0.0


def decode_line(line: bytes) -> bytes:
    """The text of a line without its timestamp and without a carriage return at its end."""
    if is_timestamp(line[:20]):
        line = line[line.find(b" ") + 1 :] if b" " in line[:48] else b""
    return line.removesuffix(b"\r")


def decode_lines(raws: list[bytes]) -> list[bytes]:
    """The texts of many lines; like `decode_line`, but faster for the kubelet's usual timestamps."""
    return [
        raw[_TIMESTAMP_LENGTH:]
        if raw.find(b" ", 0, _TIMESTAMP_LENGTH) == _TIMESTAMP_LENGTH - 1
        and raw[4:14:3] == b"--T:"
        and raw[:4].isdigit()
        and raw[-1:] != b"\r"
        else decode_line(raw)
        for raw in raws
    ]


_TIMESTAMP = lazy_pattern(  # as the kubelet writes it, and whatever else `decode_line` takes for one
    rb"\n(?:\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z |\d{4}-(?=[^\n]{5}T[^\n]{2}:)(?:[^ \n]{0,42} |[^\n]*))"
)


def strip_timestamps(block: bytes) -> bytes:
    """A block of lines without timestamps; no line may end in a carriage return."""
    return _TIMESTAMP.sub(b"\n", b"\n" + block)[1:]
