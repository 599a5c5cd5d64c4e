"""How serious a line of a log is, by the words in it."""

from __future__ import annotations

import re

LEVELS = ("error", "warn", "info", "debug")
"""Most serious first."""
HEAD = 400
"""Characters of a line that are looked at."""
ERROR_WORDS = (
    b"error", b"fatal", b"critical", b"traceback", b"exception", b"fail", b"panic", b"segfault", b"abort", b"oom",
    b"killed", b"xid", b"nan", b"nccl warn",
)  # fmt: skip
"""A line without any of these, in lower case, tells of no error."""
WARN_WORDS = (b"warn",)
DEBUG_WORDS = (b"debug", b"trace")
_ERROR = re.compile(
    rb"\b(?:error|fatal|critical|traceback|exception|failed|failure|panic|segfault|aborted|oom|killed|s?xid)\b"
    rb"|[a-z]error\b|nccl warn|[:=]\s*[+-]?nan\b"
)
_NO_ERROR = re.compile(rb"\b(?:0|no) (?:errors?|failures?|failed)\b|\b(?:errors?|failed|failures?)[:=]\s*0\b")
_WARN = re.compile(rb"\bwarn(?:ing)?\b")
_DEBUG = re.compile(rb"\b(?:debug|trace)\b")
NCCL = re.compile(rb"NCCL (?:INFO|WARN|TRACE|VERSION|ERROR)")
"""What libnccl says of itself."""


def level(text: bytes) -> str:
    """One of LEVELS."""
    head = text[:HEAD].lower()
    if any(word in head for word in ERROR_WORDS) and _ERROR.search(head) and not _NO_ERROR.search(head):
        return "error"
    if b"warn" in head and _WARN.search(head):
        return "warn"
    return "debug" if (b"debug" in head or b"trace" in head) and _DEBUG.search(head) else "info"


def at_least(text: bytes, least: str) -> bool:
    """Whether a line is that serious or more."""
    return LEVELS.index(level(text)) <= LEVELS.index(least)
