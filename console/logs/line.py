"""Log lines, and the coverage of a job's logs."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

import msgspec
from msgspec import Struct


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


class StreamState(StrEnum):
    """The state of following one container's log."""

    WAITING = "waiting"  # the container has not started, or was not reached yet
    LIVE = "live"
    RECONNECTING = "reconnecting"  # the connection broke, and it is tried again
    ENDED = "ended"  # all that the container printed was read
    CUT = "cut"  # the pod went away before the end of its log was read
    REFUSED = "refused"  # the server refuses it, or has not answered for minutes


class Gap(Struct, frozen=True):
    """A period in which lines of a rank are missing; how many is not known."""

    rank: int
    since: float
    until: float
    why: str = "the log was rotated while it could not be read"

    @property
    def sentence(self) -> str:
        since, until = _format_clock(self.since), _format_clock(self.until)
        return f"pod {self.rank}: lines between {since} and {until} may be lost ({self.why})"


def _format_clock(moment: float) -> str:
    return f"{datetime.fromtimestamp(moment).astimezone():%H:%M:%S}"


class Coverage(Struct, frozen=True):
    """How many ranks of a job are followed, and what is missing."""

    total: int = 0
    live: int = 0
    reconnecting: int = 0
    waiting: int = 0
    ended: int = 0
    cut: int = 0
    refused: int = 0
    gaps: tuple[Gap, ...] = ()
    opened: int = 0  # ranks whose older lines were left out, because only the last ones were asked for
    opened_with: int = 0  # how many last lines that were
    lost: int = 0  # lines known to be lost: those that could be held neither on disk nor in memory
    why: str = ""  # the first refusal
    disk: str = ""  # why lines are not kept on disk; empty: they are
    once: bool = False  # whether only what there was had to be read: then the end of a log says nothing of its rank

    @property
    def sentence(self) -> str:
        """The coverage in words: "126 of 128 live, 2 reconnecting, 0 lines lost"."""
        done = "read" if self.once else "ended"
        parts = [
            f"{self.ended} of {self.total} {done}"
            if self.ended and not self.live
            else f"{self.live} of {self.total} live"
        ]
        if self.live and self.ended:
            parts.append(f"{self.ended} {done}")
        for number, word in (
            (self.reconnecting, "reconnecting"),
            (self.waiting, "waiting"),
            (self.cut, "deleted before the end of the log was read"),
            (self.refused, "refused"),
        ):
            if number:
                parts.append(f"{number} {word}")
        parts.append(f"{self.lost:,} lines lost")
        if self.opened:
            pods = f"{self.opened} pod{'s' if self.opened > 1 else ''}"
            parts.append(f"of {pods} only the last {self.opened_with:,} lines were read")
        if self.gaps:
            parts.append(f"{len(self.gaps)} gap{'s' if len(self.gaps) > 1 else ''} with lines that may be lost")
        return ", ".join(parts) + (f". {self.disk}" if self.disk else "")
