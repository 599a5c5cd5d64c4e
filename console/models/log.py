"""One line that a container printed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line with the moment the kubelet received it."""

    time: float
    text: str
    """Without its line end; bytes that are no UTF-8 are shown as U+FFFD."""
