"""The step or the saved checkpoint that one line tells of, from that line alone: for every line of every rank.

Cost: a line without any of the words below 0.4 microseconds, one that tells of a step 2 to 6.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from console.metrics.training.formats.known import known
from console.metrics.training.reader import drawn_bar

LONGEST = 2000  # characters of a line that are looked at
_WORDS = ("iter", "step", "%|", "Iter", "Step", "STEP", "DLLL")
_PLAIN = re.compile(
    r"(?i)\b(?:iter(?:ation)?s?|(?:global_?)?step(?:/max_steps)?)[\s:=#\"']{0,8}(\d{1,12})(?![\d.]*\s*(?:ms|s\b))"
)


def parse_step(line: str) -> tuple[int, int] | None:
    """The step, and the length of the bar that says so (0: it is no bar); None if the line tells of no step."""
    if not any(word in line for word in _WORDS):
        return None
    text = line[:LONGEST]
    if "%|" in text and "loss=" not in text and (bar := drawn_bar(text)):
        return bar.step, bar.total
    if ("%|" in text or "DLLL" in text) and (found := known(text)) and found.step.step is not None:
        return found.step.step, 0
    plain = _PLAIN.search(text)
    return (int(plain[1]), 0) if plain else None


WORDS = (b"checkpoint",)  # a line without it says nothing of a checkpoint
_SAVED = (
    re.compile(r"successfully saved checkpoint (?:from|at) (?:iteration|step)\s+(\d{1,12})", re.IGNORECASE),
    re.compile(r"Saving model checkpoint to \S{0,400}?checkpoint-(\d{1,12})\b"),
    re.compile(r"(?i)\bsaved a checkpoint at step (\d{1,12})\b"),
    re.compile(r"(?i)\bcheckpoint\b.{0,80}\bsaved (?:at|for|from) (?:global_)?step[ :=]{1,3}(\d{1,12})\b"),
)
_SOMEWHERE = re.compile(r"(?i)finished saving the checkpoint|saved checkpoint (?:to|in) ")


class Saved(NamedTuple):
    """A checkpoint that was saved."""

    step: int | None  # None: the line does not say of which step; it is the last one


def checkpoint(text: str) -> Saved | None:
    """What a line says of a checkpoint; None if it says of none that was saved."""
    if "heckpoint" not in text:
        return None
    for pattern in _SAVED:
        if found := pattern.search(text):
            return Saved(int(found.group(1)))
    return Saved(None) if _SOMEWHERE.search(text) else None
