"""Lines that look like the report of a step, for the case that nothing could be read of them."""

from __future__ import annotations

import re

_ITERATION = re.compile(r"\biteration\s+\d")
_STEP = re.compile(r"(?i)\b(?:global_?)?(?:step|iter(?:ation)?)\b[\s:=]{0,4}\d")
_LOSS = re.compile(r"(?i)\b(?:[a-z]{1,12}[ _])?loss\b[\s:=]{1,4}\S")
_OTHER = re.compile(r"(?i)\b(?:val|valid|validation|eval|evaluation|test|best|save|saved|saving|checkpoint)")
"""What is no step of training."""


def half_megatron(text: str) -> bool:
    """Whether it looks like a line of Megatron for an iteration."""
    return "loss" in text and text.count("|") > 1 and _ITERATION.search(text) is not None and not _OTHER.search(text)


def half_step(text: str) -> bool:
    """Whether it names a step and a loss, and says nothing of an evaluation or a checkpoint."""
    return bool(_STEP.search(text) and _LOSS.search(text)) and not _OTHER.search(text)
