"""Lines that a program draws again and again, each picture followed by a carriage return: progress bars.

What is kept of such a line is its last picture, and before it, as lines of their own, one picture of each step of a bar
that tells of a loss (curves are drawn of these), and the bar over which a loss was printed (it says of which step). All
other pictures are dropped as they come: hours of a bar take no more room than one line.
"""

from __future__ import annotations

import re

_STEP = re.compile(rb"\| *(\d{1,15})/")
_BAR, _LOSS = b"%|", b"loss"


class Pictures:
    """The pictures of one line; `last` is the one that is seen now."""

    def __init__(self) -> None:
        self.last = b""
        self._bar = b""
        self._step = b""
        """The step of the last bar with a loss, and that bar."""
        self._told = b""

    def add(self, picture: bytes) -> list[bytes]:
        """A picture is whole; those before it that are lines of their own."""
        if not picture.strip():
            return []
        self.last = picture
        if _BAR not in picture:
            return []
        self._bar = picture
        place = _STEP.search(picture) if _LOSS in picture else None
        if place is None:
            return []
        step, self._step = self._step, place[1]
        told, self._told = self._told, picture
        return [told] if step not in {b"", place[1]} else []

    def end(self, picture: bytes) -> list[bytes]:
        """The line ends with that picture: what is kept of it."""
        lines = self.add(picture)
        over = self._bar if _LOSS in self.last else b""
        for each in (self._told, over):
            if each not in {b"", self.last, *lines[-1:]}:
                lines.append(each)
        return [*lines, self.last]
