"""The severity of a log line, by its words."""

from __future__ import annotations

import re

from trainlog.failure_kinds import FAILURE_WORDS
from trainlog.lines import WordSearch
from trainlog.regex import lazy_pattern

LEVELS = ("error", "warn", "info", "debug")  # most serious first
_LEVELS_FROM = {least: frozenset(LEVELS[: at + 1]) for at, least in enumerate(LEVELS)}
MAX_HEAD_CHARACTERS = 400  # characters of a line that are looked at
_FAILURES = tuple(word.lower() for word in FAILURE_WORDS)
ERROR_WORDS = WordSearch(  # a line without any of these tells of no error
    *_FAILURES, b"error", b"fatal", b"critical", b"traceback", b"exception", b"fail", b"panic", b"segfault", b"abort",
    b"oom", b"killed", b"xid", b"nan", b"nccl warn", fold=True,
)  # fmt: skip
WARN_WORDS = (b"warn",)
DEBUG_WORDS = (b"debug", b"trace")
NCCL_WORDS = (b"NCCL INFO", b"NCCL WARN", b"NCCL TRACE", b"NCCL VERSION", b"NCCL ERROR")  # what libnccl begins with
NOT_A_NUMBER = r"[:=]\s*[+-]?(?:nan|NaN|NAN)\b|\b[Ll]oss\s+(?:nan|NaN|NAN)\b"  # as diverging losses are printed
XID_WORD = r"\bS?Xid\b"  # a search for faults that the driver reports
_ERROR_WHOLE_WORDS = (b"fatal", b"critical", b"traceback", b"exception", b"failed", b"failure", b"panic", b"segfault",
               b"aborted", b"oom", b"killed")  # fmt: skip
FIRST_ERROR = (  # what a search for the first line that tells of an error looks for
    r"\b(?:[Ee]rror|ERROR|[Ff]atal|FATAL|Traceback|[Ee]xception|[Ff]ailed|FAILED|[Pp]anic|OOM|[Kk]illed|S?Xid)\b"
    rf"|[a-z]Error\b|{NOT_A_NUMBER}|" + "|".join(re.escape(word.decode()) for word in FAILURE_WORDS)
)
_ZERO_ERRORS = lazy_pattern(rb"\b(?:0|no) (?:errors?|failures?|failed)\b|\b(?:errors?|failed|failures?)[:=]\s*0\b")
_WARNING_WORD = lazy_pattern(rb"warn(?:\b(?<!\wwarn)|ing\b(?<!\wwarning))")
_DEBUG_WORD = lazy_pattern(rb"\b(?:debug|trace)\b")
_NAN_VALUE = lazy_pattern(rb"[:=]\s*[+-]?nan\b")
NCCL_LINE = lazy_pattern(b"|".join(NCCL_WORDS))  # what libnccl says of itself


def _word_pattern(word: bytes, before: bytes = rb"\w") -> re.Pattern[bytes]:
    r"""A pattern for a whole word that first searches its letters: ten times as fast as one that begins with \b."""
    return lazy_pattern(word + rb"\b(?<!" + before + word + b")")


_ERRORS: tuple[tuple[bytes, re.Pattern[bytes]], ...] = (  # what every error has one of, and how it stands there
    (b"error", _word_pattern(b"error", rb"[0-9_]")),
    (b"nccl warn", lazy_pattern(b"nccl warn")),
    (b"xid", lazy_pattern(rb"xid\b(?:(?<!\wxid)|(?<=sxid)(?<!\wsxid))")),
    *((word, _word_pattern(word)) for word in _ERROR_WHOLE_WORDS),
)


def detect_level(text: bytes) -> str:
    head = text[:MAX_HEAD_CHARACTERS].lower()
    if _is_error(head) and not _ZERO_ERRORS.search(head):
        return "error"
    if b"warn" in head and _WARNING_WORD.search(head):
        return "warn"
    return "debug" if (b"debug" in head or b"trace" in head) and _DEBUG_WORD.search(head) else "info"


def _is_error(head: bytes) -> bool:
    """Whether the line contains a word for an error, or reports a NaN or infinity."""
    if not ERROR_WORDS.occurs_in(head):
        return False
    if any(map(head.__contains__, _FAILURES)):
        return True
    for letters, word in _ERRORS:
        if letters in head and word.search(head):
            return True
    return b"nan" in head and _NAN_VALUE.search(head) is not None


def is_warning(text: bytes) -> bool:
    return _WARNING_WORD.search(text[:MAX_HEAD_CHARACTERS].lower()) is not None


def has_severity(text: bytes, least: str) -> bool:
    return detect_level(text) in _LEVELS_FROM[least]
