"""Log lines with their severity, the coverage of a job's logs, and lines of a known program that cannot be parsed."""

from __future__ import annotations

import re
from datetime import datetime
from enum import StrEnum

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from console.logs.failure_kinds import FAILURE_WORDS
from console.patterns import lazy_pattern


class LogLine(Struct, frozen=True):
    """A log line with the time at which the kubelet received it."""

    time: float
    text: str  # without its line end; bytes that are no UTF-8 are shown as U+FFFD
    open: bool = False  # whether it is drawn again and again, as a progress bar: another one takes its place


class RankLine(msgspec.Struct, frozen=True, gc=False):
    """A log line of one rank; a msgspec Struct, because thousands are created per second."""

    rank: int
    time: float  # seconds since the epoch; of a line without a timestamp that of the line before
    text: str
    attempt: int = 0  # restart attempt of the JobSet
    pod: str = ""
    container: str = ""


def sort_key(line: RankLine) -> tuple[float, int]:
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
            (self.cut, "deleted before the end of the log was read"),
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


LEVELS = ("error", "warn", "info", "debug")  # most serious first
_AT_LEAST = {least: frozenset(LEVELS[: at + 1]) for at, least in enumerate(LEVELS)}
HEAD = 400  # characters of a line that are looked at
_FAILURES = tuple(word.lower() for word in FAILURE_WORDS)
ERROR_WORDS = (  # a line without any of these, in lower case, tells of no error
    *_FAILURES, b"error", b"fatal", b"critical", b"traceback", b"exception", b"fail", b"panic", b"segfault", b"abort",
    b"oom", b"killed", b"xid", b"nan", b"nccl warn",
)  # fmt: skip
WARN_WORDS = (b"warn",)
DEBUG_WORDS = (b"debug", b"trace")
NCCL_WORDS = (b"NCCL INFO", b"NCCL WARN", b"NCCL TRACE", b"NCCL VERSION", b"NCCL ERROR")  # what libnccl begins with
NOT_A_NUMBER = r"[:=]\s*[+-]?(?:nan|NaN|NAN)\b|\b[Ll]oss\s+(?:nan|NaN|NAN)\b"  # as diverging losses are printed
XID = r"\bS?Xid\b"  # a search for faults that the driver reports
_STANDALONE = (b"fatal", b"critical", b"traceback", b"exception", b"failed", b"failure", b"panic", b"segfault",
               b"aborted", b"oom", b"killed")  # fmt: skip
FIRST_ERROR = (  # what a search for the first line that tells of an error looks for
    r"\b(?:[Ee]rror|ERROR|[Ff]atal|FATAL|Traceback|[Ee]xception|[Ff]ailed|FAILED|[Pp]anic|OOM|[Kk]illed|S?Xid)\b"
    rf"|[a-z]Error\b|{NOT_A_NUMBER}|" + "|".join(re.escape(word.decode()) for word in FAILURE_WORDS)
)
_NO_ERROR = lazy_pattern(rb"\b(?:0|no) (?:errors?|failures?|failed)\b|\b(?:errors?|failed|failures?)[:=]\s*0\b")
_WARN = lazy_pattern(rb"warn(?:\b(?<!\wwarn)|ing\b(?<!\wwarning))")
_DEBUG = lazy_pattern(rb"\b(?:debug|trace)\b")
_NAN_VALUE = lazy_pattern(rb"[:=]\s*[+-]?nan\b")
NCCL = lazy_pattern(b"|".join(NCCL_WORDS))  # what libnccl says of itself


def _word_pattern(word: bytes, before: bytes = rb"\w") -> re.Pattern[bytes]:
    r"""A pattern for a whole word that searches for its letters first: ten times faster than \b at the start."""
    return lazy_pattern(word + rb"\b(?<!" + before + word + b")")


_ERRORS: tuple[tuple[bytes, re.Pattern[bytes]], ...] = (  # what every error has one of, and how it stands there
    (b"error", _word_pattern(b"error", rb"[0-9_]")),
    (b"nccl warn", lazy_pattern(b"nccl warn")),
    (b"xid", lazy_pattern(rb"xid\b(?:(?<!\wxid)|(?<=sxid)(?<!\wsxid))")),
    *((word, _word_pattern(word)) for word in _STANDALONE),
)


def detect_level(text: bytes) -> str:
    head = text[:HEAD].lower()
    if _is_error(head) and not _NO_ERROR.search(head):
        return "error"
    if b"warn" in head and _WARN.search(head):
        return "warn"
    return "debug" if (b"debug" in head or b"trace" in head) and _DEBUG.search(head) else "info"


def _is_error(head: bytes) -> bool:
    """Whether the line contains a word for an error, or reports a NaN or infinity."""
    if not any(map(head.__contains__, ERROR_WORDS)):
        return False
    if any(map(head.__contains__, _FAILURES)):
        return True
    for letters, word in _ERRORS:
        if letters in head and word.search(head):
            return True
    return b"nan" in head and _NAN_VALUE.search(head) is not None


def is_warning(text: bytes) -> bool:
    return _WARN.search(text[:HEAD].lower()) is not None


def has_severity(text: bytes, least: str) -> bool:
    return detect_level(text) in _AT_LEAST[least]


class UnparsedLines(Struct, frozen=True):
    """Lines that look like a known report but could not be parsed; the first one is kept as an example."""

    first: int  # number of the first line, from 1
    last: int
    lines: int
    text: str  # the first line
    goes_on: bool = True  # whether no line of that kind could be read after it

    @property
    def summary(self) -> str:
        """The count in words: "unreadable since line 120 (3 lines)"."""
        number = f"{self.lines:,} line{'s' if self.lines > 1 else ''}"
        if self.goes_on:
            return f"unreadable since line {self.first:,} ({number})"
        where = f"line {self.first:,}" if self.first == self.last else f"lines {self.first:,} to {self.last:,}"
        return f"{number} unreadable ({where})"


MAX_EXAMPLE = 300  # letters of a line that are kept


class UnparsedCounter:
    def __init__(self) -> None:
        self.told: UnparsedLines | None = None  # None: all could be read
        self._before = 0  # lines before the present block
        self._block, self._start = b"", 0
        self._counted, self._lines = 0, 0  # up to where the lines of the block are counted, and how many those are

    def begin_block(self, block: bytes, line: int | None = None) -> None:
        """Start the next block; `line` is the number of its first line if lines were skipped."""
        self._block, self._counted, self._lines = block, 0, 0
        if line is not None:
            self._before = line - 1

    def set_offset(self, start: int) -> None:
        self._start = start

    def end_block(self) -> None:
        self._before += self._block.count(b"\n")
        self._block, self._start = b"", 0

    def add_unparsed(self, text: str) -> None:
        if self._start < self._counted:
            self._counted, self._lines = 0, 0
        self._lines += self._block.count(b"\n", self._counted, self._start)
        self._counted = self._start
        number = self._before + self._lines + 1
        old = self.told
        if old is None:
            self.told = UnparsedLines(number, number, 1, text.strip()[:MAX_EXAMPLE])
        else:
            self.told = replace(old, last=number, lines=old.lines + 1, goes_on=True)

    def add_parsed(self) -> None:
        if self.told is not None and self.told.goes_on:
            self.told = replace(self.told, goes_on=False)
