"""Lines of a log that look like a report of a program whose format is half known, and cannot be read."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Such lines; the first one is kept, so that a person can see what it says."""

    first: int
    """Number of the first line, from 1."""
    last: int
    lines: int
    text: str
    """The first line."""
    goes_on: bool = True
    """Whether no line of that kind could be read after it."""

    @property
    def words(self) -> str:
        """As a person would say it: "unreadable since line 120 (3 lines)"."""
        number = f"{self.lines:,} line{'s' if self.lines > 1 else ''}"
        if self.goes_on:
            return f"unreadable since line {self.first:,} ({number})"
        where = f"line {self.first:,}" if self.first == self.last else f"lines {self.first:,} to {self.last:,}"
        return f"{number} unreadable ({where})"
