"""How serious a line of a log is, by the words in it."""

from __future__ import annotations

import re

LEVELS = ("error", "warn", "info", "debug")
"""Most serious first."""
HEAD = 400
"""Characters of a line that are looked at."""
ERROR = re.compile(
    rb"(?i)\b(?:error|fatal|critical|traceback|exception|failed|failure|panic|segfault|aborted|oom|killed|sxid|xid|nan)\b"
    rb"|[a-z]Error\b|NCCL WARN|CUDA error"
)
WARN = re.compile(rb"(?i)\bwarn(?:ing)?\b")
DEBUG = re.compile(rb"(?i)\b(?:debug|trace)\b|NCCL TRACE")
_NO_ERROR = re.compile(rb"(?i)\b(?:0|no) (?:errors?|failures?|failed)\b")
NCCL = re.compile(rb"NCCL (?:INFO|WARN|TRACE|VERSION|ERROR)")
"""What libnccl says of itself."""


def level(text: bytes) -> str:
    """One of LEVELS."""
    head = text[:HEAD]
    if ERROR.search(head) and not _NO_ERROR.search(head):
        return "error"
    if WARN.search(head):
        return "warn"
    return "debug" if DEBUG.search(head) else "info"


def at_least(text: bytes, least: str) -> bool:
    """Whether a line is that serious or more."""
    return LEVELS.index(level(text)) <= LEVELS.index(least)
