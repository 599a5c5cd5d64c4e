"""Output of nccl-tests, read while it is printed: bytes in any pieces, tests out.

One log may hold several tests: one after another, or two processes that print into each other. Lines that carry a label
of their process are kept apart by it.

Cost: searching for the words takes half a nanosecond a byte; rows that follow each other cost a microsecond
each, every other line of a table 5 to 20.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from console.parsers.blocks import Blocks, spans_with
from console.parsers.nccl_line import MORE_WORDS, WORDS, label_of
from console.parsers.nccl_rows import rows_at
from console.parsers.nccl_stream import Run, Stream, fails
from console.parsers.puzzle import Puzzle

if TYPE_CHECKING:
    from collections.abc import Sequence

    from console.models.nccl import NcclTest
    from console.models.unreadable import Unreadable

LONGEST = 1 << 12
"""Bytes of a line that are kept; the rest of a longer one is dropped."""
_REST_WITHIN = 4096
"""Lines after a torn row among which the rest of it is looked for."""
_LEAST, _MOST = 1 << 8, 1 << 15
"""Bytes that are searched at once: few where a table begins or ends, as other words are searched for after it."""
_FAR = 64
"""Rows of a table after which it is tried again to read those that follow together, where they do not."""
_MARK = ord("#")
"""It begins a line that is no row: tables have many of these, one after another."""
_WHOLE = 12
"""Words of a whole row."""
_ROW_LIKE = re.compile(r"\s*\d+\s+\d+\s+[a-z]\w{2,}(?:\s+\S+){0,3}(?:\s+[\d.+-]\S*){4,}\s*$")
"""What looks like a row: two whole numbers, a type, and figures."""


def _is_row(text: str, *, torn: bool) -> bool:
    """Whether it looks like a row; of a torn one only if it looks like a whole one, with nothing glued to it."""
    if not torn:
        return _ROW_LIKE.match(text) is not None
    words = text.split()
    return len(words) >= _WHOLE and words[0].isdigit() and words[1].isdigit() and "NCCL" not in text and ":" not in text


class NcclParser:
    """Reads the output of any number of tests, a piece at a time."""

    def __init__(self) -> None:
        self._runs: list[Run] = []
        self._streams: dict[str, Stream] = {}
        self._blocks = Blocks(LONGEST)
        self._look = 0
        """Lines among which the rest of a row is still looked for."""
        self._busy = False
        """Whether a table is open."""
        self._reach, self._patience = _LEAST, 1
        self._puzzle = Puzzle()

    @property
    def unreadable(self) -> Unreadable | None:
        """Lines within a table that look like rows and cannot be read; None if there are none."""
        return self._puzzle.told

    @property
    def tests(self) -> tuple[NcclTest, ...]:
        """All tests so far, in the order they began."""
        return tuple(run.test() for run in self._runs)

    @property
    def growing(self) -> Sequence[Run]:
        """The same tests as they are kept, for whoever cannot afford to copy their rows."""
        return self._runs

    def feed(self, data: bytes, line: int | None = None) -> list[NcclTest]:
        """Reads on; the tests that changed by it. A line counts once its end has come.

        `line` is the number of the first line of `data` in its log, where lines before it were left out.
        """
        return [run.test() for run in self.read(data, line)]

    def read(self, data: bytes, line: int | None = None) -> list[Run]:
        """Reads on like `feed`; the tests that changed as they are kept, in the order they began."""
        block, at = self._blocks.add(data), 0
        self._puzzle.begin(block, line)
        changed: dict[Run, None] = {}
        while at < len(block):
            if block[at] == _MARK:
                at = self._marked(block, at, changed)
                continue
            if self._busy and (taken := self._rows(block, at, changed)):
                at = taken
                continue
            end = block.find(b"\n", at + self._reach) + 1 or len(block)
            self._reach = min(2 * self._reach, _MOST)
            at += self._window(block[at:end], at, changed)
        self._puzzle.end()
        return sorted(changed, key=lambda run: run.place)

    def close(self) -> list[NcclTest]:
        """Reads what is left without a line end; the tests that changed by it."""
        changed = [self._line(self._blocks.end()), *(stream.flush() for stream in self._streams.values())]
        found = dict.fromkeys(run for run in changed if run)
        return [run.test() for run in sorted(found, key=lambda run: run.place)]

    def _rows(self, block: bytes, at: int, changed: dict[Run, None]) -> int:
        """Take rows that follow each other there and can only belong to one test; where they end, 0 if there are none.

        Labels tell processes apart: only where no line has one it is certain whose they are.
        """
        stream = self._streams.get("") if len(self._streams) == 1 else None
        run = stream.single if stream and not self._look else None
        if stream is None or run is None:
            return 0
        end, rows = rows_at(block, at)
        self._patience = 1 if rows else min(2 * self._patience, _FAR)
        if rows is None:
            return 0
        stream.take(run, rows)
        self._puzzle.read()
        changed[run] = None
        return end

    def _window(self, block: bytes, at: int, changed: dict[Run, None]) -> int:
        """Reads lines up to where a table begins, ends or goes on with rows; how many bytes that was."""
        busy, rows = self._busy, 0
        for start, end in spans_with(MORE_WORDS if busy else WORDS, block, lambda: self._look > 0):
            self._puzzle.at(at + start)
            if run := self._line(block[start : min(end, start + LONGEST)]):
                changed[run] = None
                rows += 1
                self._busy = any(stream.busy for stream in self._streams.values())
            if self._busy is not busy or (busy and rows == self._patience):
                self._reach = _LEAST
                return end + 1
        return len(block)

    def _marked(self, block: bytes, at: int, changed: dict[Run, None]) -> int:
        """Reads the lines there that hold one of the words, as their mark is one; where they end."""
        said, size = False, len(block)
        while at < size and block[at] == _MARK:
            self._puzzle.at(at)
            end = block.index(b"\n", at)
            if run := self._line(block[at : min(end, at + LONGEST)]):
                changed[run] = None
                said = True
            at = end + 1
        if said:
            self._busy = any(stream.busy for stream in self._streams.values())
            self._reach = _LEAST
        return at

    def _line(self, raw: bytes) -> Run | None:
        self._look -= self._look > 0
        label, text = label_of(raw.decode("utf-8", "replace").rstrip("\r"))
        if not text.strip():
            return None
        known = self._streams.get(label)
        own = stream = known or Stream(self._start)
        failure = fails(text)
        if failure and not stream.busy:
            stream = next((each for each in self._streams.values() if each.busy), stream)
        was = stream.torn
        rows = stream.rows
        run = stream.line(text, failure)
        if stream.rows == rows and text[0] != "#" and stream.busy and _is_row(text, torn=stream.torn is not None):
            self._puzzle.unread(text)
            stream.spoil()
        elif stream.rows > rows:
            self._puzzle.read()
        if known is None and not own.blank:
            self._streams[label] = own
        if stream.torn is not was:
            self._look = _REST_WITHIN if any(each.torn for each in self._streams.values()) else 0
        return run

    def _start(self) -> Run:
        run = Run(place=len(self._runs))
        self._runs.append(run)
        return run


def parse_nccl(data: bytes) -> tuple[NcclTest, ...]:
    """The tests in a whole log."""
    parser = NcclParser()
    parser.feed(data)
    parser.close()
    return parser.tests
