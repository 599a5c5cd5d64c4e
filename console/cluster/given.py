"""Lines of a log that were given already, so that none is given twice over a drop."""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    Stamped = tuple[float, bytes]
    """Moment and the whole line, its timestamp in front."""

OVERLAP = 2
"""Seconds that are asked for again after a drop: lines of two streams may be out of order by a little."""
REMEMBERED = 4096
"""Lines of one stream that are remembered."""
PART = 1 << 14
"""Bytes of a part of a line, as the runtime writes it."""
MOST_BEFORE = 8
"""Lines of one moment that are remembered beyond those seconds."""


def _text(raw: bytes) -> bytes:
    return raw.partition(b" ")[2]


class Memory:
    """Lines given in the last seconds, so that none is given twice."""

    def __init__(self, given: Iterable[Stamped] = (), *, whole: bool = True) -> None:
        """`given`: the last lines given before; `whole`: a line that is not among the remembered ones is new."""
        self.last = 0.0
        self._lines: deque[Stamped] = deque()
        self._again: Counter[bytes] = Counter()
        self._replaying = False
        self._whole = whole
        self._floor = 0.0
        self._forgotten: tuple[float, int] = (0.0, 0)
        """The latest moment of which lines were forgotten, and how many of that very moment."""
        self._skipping = 0
        self.met = False
        """Whether a remembered line came again since `rewind`."""
        self._before: list[Stamped] = []
        """The last lines before those that are remembered, all of one moment."""
        self._remember([*given])

    def rewind(self) -> None:
        """The lines since `last - OVERLAP` come once more."""
        self._again = Counter(raw for _, raw in self._lines)
        self._replaying = bool(self._lines)
        self._floor = 0.0 if self._whole else min((moment for moment, _ in self._lines if moment), default=0.0)
        self._skipping = self._forgotten[1]
        self.met = False

    def new(self, lines: list[Stamped]) -> list[Stamped]:
        """Those of the lines that have not been given yet; remembers them."""
        if self._replaying:
            return [line for line in lines if self._is_new(line)]
        self._remember(lines)
        return lines

    def _is_new(self, line: Stamped) -> bool:
        moment, raw = line
        if self._again.get(raw):
            self._again[raw] -= 1
            self.met = True
            return False
        if moment < self._floor or self._is_end_of_one_before(raw, moment):
            return False
        if self._skipping and moment == self._forgotten[0]:
            self._skipping -= 1
            return False
        self._remember([line])
        return True

    def _is_end_of_one_before(self, raw: bytes, moment: float) -> bool:
        """Whether it is what is left of a line that was given, of which only the last parts are asked for again.

        A runtime writes a line in parts of 16 KiB, each with its own timestamp: those of a progress bar may be minutes
        apart.
        """
        if self.met or not self._before or not self._before[0][0] < moment <= self.last:
            return False
        text = _text(raw)
        return bool(text) and any(
            _text(before) == text or (len(before) > PART and before.endswith(text)) for _, before in self._before
        )

    def _remember(self, given: list[Stamped]) -> None:
        lines = self._lines
        lines += given
        for moment, _ in given:
            if moment > self.last:
                self.last = moment
        oldest = int(self.last) - OVERLAP
        while lines and lines[0][0] < oldest:
            gone = lines.popleft()
            if not self._before or gone[0] != self._before[0][0] or len(self._before) == MOST_BEFORE:
                self._before = []
            self._before.append(gone)
        while len(lines) > REMEMBERED:
            moment, _ = lines.popleft()
            latest, number = self._forgotten
            self._forgotten = (moment, number + 1 if moment == latest else 1)
            self._whole = False
