"""Lines that containers printed, and how well a job's logs are being followed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

import msgspec


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line with the moment the kubelet received it."""

    time: float
    text: str
    """Without its line end; bytes that are no UTF-8 are shown as U+FFFD."""
    open: bool = False
    """Whether it has no end yet and is drawn again and again, as a progress bar is: another one takes its place."""


class RankLine(msgspec.Struct, frozen=True, gc=False):
    """A line of one rank of a job. A struct of msgspec's, because thousands a second are made of them."""

    rank: int
    time: float
    """Seconds since the epoch; of a line without a timestamp that of the line before."""
    text: str
    attempt: int = 0
    """Restart attempt of the JobSet."""
    pod: str = ""
    container: str = ""


class StreamState(StrEnum):
    """How it stands with one container's log."""

    WAITING = "waiting"
    """The container has not started, or was not reached yet."""
    LIVE = "live"
    RECONNECTING = "reconnecting"
    """The connection broke, and it is tried again."""
    ENDED = "ended"
    """All that the container printed was read."""
    CUT = "cut"
    """The pod went away before the end of its log was read."""
    REFUSED = "refused"
    """The server refuses it, or has not answered for minutes."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Lines of a rank between two moments that nobody can tell any more: their number is not known."""

    rank: int
    since: float
    until: float
    why: str = "the log was rotated while it could not be read"

    @property
    def words(self) -> str:
        """Whose lines, and when."""
        return f"pod {self.rank}: lines between {_clock(self.since)} and {_clock(self.until)} may be lost ({self.why})"


def _clock(moment: float) -> str:
    return f"{datetime.fromtimestamp(moment).astimezone():%H:%M:%S}"


@dataclass(frozen=True, slots=True)
class Coverage:
    """How many ranks of a job are followed, and what is missing."""

    total: int = 0
    live: int = 0
    reconnecting: int = 0
    waiting: int = 0
    ended: int = 0
    cut: int = 0
    refused: int = 0
    gaps: tuple[Gap, ...] = ()
    opened: int = 0
    """Ranks whose older lines were left out, because only the last ones were asked for."""
    opened_with: int = 0
    """How many last lines that were."""
    lost: int = 0
    """Lines known to be lost: those that could be held neither on disk nor in memory."""
    why: str = ""
    """The first refusal."""
    disk: str = ""
    """Why lines are not kept on disk; empty: they are."""
    once: bool = False
    """Whether only what there was had to be read: then the end of a log says nothing of its rank."""

    @property
    def words(self) -> str:
        """As a person would say it: "126 of 128 live, 2 reconnecting, 0 lines lost"."""
        done = "read" if self.once else "ended"
        said = [
            f"{self.ended} of {self.total} {done}"
            if self.ended and not self.live
            else f"{self.live} of {self.total} live"
        ]
        if self.live and self.ended:
            said.append(f"{self.ended} {done}")
        for number, word in (
            (self.reconnecting, "reconnecting"),
            (self.waiting, "waiting"),
            (self.cut, "gone before the end of the log was read"),
            (self.refused, "refused"),
        ):
            if number:
                said.append(f"{number} {word}")
        said.append(f"{self.lost:,} lines lost")
        if self.opened:
            pods = f"{self.opened} pod{'s' if self.opened > 1 else ''}"
            said.append(f"of {pods} only the last {self.opened_with:,} lines were read")
        if self.gaps:
            said.append(f"{len(self.gaps)} gap{'s' if len(self.gaps) > 1 else ''} with lines that may be lost")
        return ", ".join(said) + (f". {self.disk}" if self.disk else "")
