"""Lines that say that a checkpoint was saved, of Megatron and NeMo, HF Trainer and ms-swift, torchtitan, MaxText."""

from __future__ import annotations

import re
from typing import NamedTuple

WORDS = (b"checkpoint",)
"""A line without it says nothing of a checkpoint."""
_SAVED = (
    re.compile(r"successfully saved checkpoint (?:from|at) (?:iteration|step)\s+(\d{1,12})", re.IGNORECASE),
    re.compile(r"Saving model checkpoint to \S{0,400}?checkpoint-(\d{1,12})\b"),
    re.compile(r"(?i)\bsaved a checkpoint at step (\d{1,12})\b"),
    re.compile(r"(?i)\bcheckpoint\b.{0,80}\bsaved (?:at|for|from) (?:global_)?step[ :=]{1,3}(\d{1,12})\b"),
)
_SOMEWHERE = re.compile(r"(?i)finished saving the checkpoint|saved checkpoint (?:to|in) ")


class Saved(NamedTuple):
    """A checkpoint that was saved."""

    step: int | None
    """None: the line does not say of which step; it is the last one."""


def checkpoint(text: str) -> Saved | None:
    """What a line says of a checkpoint; None if it says of none that was saved."""
    if "heckpoint" not in text:
        return None
    for pattern in _SAVED:
        if found := pattern.search(text):
            return Saved(int(found.group(1)))
    return Saved(None) if _SOMEWHERE.search(text) else None
