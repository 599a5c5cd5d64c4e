"""How serious a line of a log is, by the words in it."""

from __future__ import annotations

import re

from console.models.log_failure import FAILURE_WORDS

LEVELS = ("error", "warn", "info", "debug")
"""Most serious first."""
_AT_LEAST = {least: frozenset(LEVELS[: at + 1]) for at, least in enumerate(LEVELS)}
HEAD = 400
"""Characters of a line that are looked at."""
_FAILURES = tuple(word.lower() for word in FAILURE_WORDS)
ERROR_WORDS = (
    *_FAILURES, b"error", b"fatal", b"critical", b"traceback", b"exception", b"fail", b"panic", b"segfault", b"abort",
    b"oom", b"killed", b"xid", b"nan", b"nccl warn",
)  # fmt: skip
"""A line without any of these, in lower case, tells of no error."""
WARN_WORDS = (b"warn",)
DEBUG_WORDS = (b"debug", b"trace")
NCCL_WORDS = (b"NCCL INFO", b"NCCL WARN", b"NCCL TRACE", b"NCCL VERSION", b"NCCL ERROR")
"""What libnccl puts in front of all it says."""
NOT_A_NUMBER = r"[:=]\s*[+-]?(?:nan|NaN|NAN)\b|\b[Ll]oss\s+(?:nan|NaN|NAN)\b"
"""A search for a value that is none, as losses and gradients that diverge are printed."""
XID = r"\bS?Xid\b"
"""A search for faults that the driver reports."""
_ALONE = (b"fatal", b"critical", b"traceback", b"exception", b"failed", b"failure", b"panic", b"segfault", b"aborted",
          b"oom", b"killed")  # fmt: skip
FIRST_ERROR = (
    r"\b(?:[Ee]rror|ERROR|[Ff]atal|FATAL|Traceback|[Ee]xception|[Ff]ailed|FAILED|[Pp]anic|OOM|[Kk]illed|S?Xid)\b"
    rf"|[a-z]Error\b|{NOT_A_NUMBER}|" + "|".join(re.escape(word.decode()) for word in FAILURE_WORDS)
)
"""What a search for the first line that tells of an error looks for."""
_NO_ERROR = re.compile(rb"\b(?:0|no) (?:errors?|failures?|failed)\b|\b(?:errors?|failed|failures?)[:=]\s*0\b")
_WARN = re.compile(rb"warn(?:\b(?<!\wwarn)|ing\b(?<!\wwarning))")
_DEBUG = re.compile(rb"\b(?:debug|trace)\b")
_NAN = re.compile(rb"nan\b")
NCCL = re.compile(b"|".join(NCCL_WORDS))
"""What libnccl says of itself."""


def _word(word: bytes, before: bytes = rb"\w") -> re.Pattern[bytes]:
    """The word as such, found by its letters first: ten times faster than a look at each place for its edge."""
    return re.compile(word + rb"\b(?<!" + before + word + b")")


_ERRORS: tuple[tuple[bytes, re.Pattern[bytes]], ...] = (
    (b"error", _word(b"error", rb"[0-9_]")),
    (b"nccl warn", re.compile(b"nccl warn")),
    (b"xid", re.compile(rb"xid\b(?:(?<!\wxid)|(?<=sxid)(?<!\wsxid))")),
    *((word, _word(word)) for word in _ALONE),
)
"""What every error has one of, and how it stands there."""


def level(text: bytes) -> str:
    """One of LEVELS."""
    head = text[:HEAD].lower()
    if _is_error(head) and not _NO_ERROR.search(head):
        return "error"
    if b"warn" in head and _WARN.search(head):
        return "warn"
    return "debug" if (b"debug" in head or b"trace" in head) and _DEBUG.search(head) else "info"


def _is_error(head: bytes) -> bool:
    """Whether a word of an error stands there, or that something is not a number."""
    if not any(map(head.__contains__, ERROR_WORDS)):
        return False
    if any(map(head.__contains__, _FAILURES)):
        return True
    for letters, word in _ERRORS:
        if letters in head and word.search(head):
            return True
    return b"nan" in head and any(_is_value(head[: found.start()]) for found in _NAN.finditer(head))


def _is_value(before: bytes) -> bool:
    """Whether what comes next is said to be the value of something."""
    return (before[:-1] if before[-1:] in {b"+", b"-"} else before).rstrip().endswith((b":", b"="))


def warns(text: bytes) -> bool:
    """Whether a line says that it is a warning."""
    return _WARN.search(text[:HEAD].lower()) is not None


def at_least(text: bytes, least: str) -> bool:
    """Whether a line is that serious or more."""
    return level(text) in _AT_LEAST[least]
