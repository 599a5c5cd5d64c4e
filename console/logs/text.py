"""Lines to look at: a page of them, those a filter lets through, and where a search text stands (see `Text`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from console.logs.line import NCCL, has_severity

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Sequence

    from console.logs.consensus import Consensus
    from console.logs.line import Gap

SLICE = 20_000  # lines that one step of a search looks at
WIDEST = 1 << 16  # characters of a line that are shown


class TextRow(NamedTuple):
    text: str
    time: float = 0.0
    label: str = ""  # whose line it is; empty where there is only one
    dissent: bool = False
    whole: str = ""  # the line as it was printed, where `text` is a shorter form of it


@dataclass(frozen=True, slots=True)
class LineFilter:
    pattern: re.Pattern[bytes] | None = None
    without: bool = False  # those in which the pattern is not found
    level: str = ""  # that serious or more; empty: all
    nccl: str = ""  # "only" what libnccl says, or all "without" that; empty: both

    def __call__(self, text: bytes) -> bool:
        if self.pattern is not None and (self.pattern.search(text) is None) is not self.without:
            return False
        if self.nccl and (NCCL.search(text) is not None) is not (self.nccl == "only"):
            return False
        return not self.level or has_severity(text, self.level)

    @property
    def description(self) -> str:
        """What it lets through; empty: everything."""
        said = (
            [f"{self.level} or worse"] if self.level and self.level != "error" else [self.level] if self.level else []
        )
        said += [f"NCCL {self.nccl}" if self.nccl == "only" else "without NCCL"] if self.nccl else []
        if self.pattern is not None:
            said.append(f"{'without' if self.without else 'with'} {self.pattern.pattern.decode('utf-8', 'replace')}")
        return ", ".join(said)


class Text(Protocol):
    """Lines by number; there may be millions, and more at any time.

    After `apply_filter` or `seek`, `advance` has to be called until it returns False. It may run in another thread, and
    has to be called again for lines that came later.
    """

    note: str  # what is to be said of the text itself, such as how far it has been read; empty: nothing

    def __len__(self) -> int:
        """Lines that are shown: those the filter let through so far."""

    def total(self) -> int:
        """All lines there are, shown or not."""

    def page(self, start: int, stop: int) -> list[TextRow]: ...

    def apply_filter(self, keep: LineFilter | None) -> None:
        """Show only these lines; None: all."""

    def seek(self, pattern: re.Pattern[bytes] | None) -> None: ...

    def advance(self) -> bool:
        """Look at some more lines; whether there are still more."""

    @property
    def found(self) -> int:
        """How many lines match the search, as far as they were looked at."""

    def place(self, match: int) -> int:
        """The number of the line that match stands in."""

    def nearest(self, line: int) -> int:
        """The first match in that line or after it; `found` if there is none."""


class SearchedText(ABC):
    """A text that is looked through from its beginning for a filter and a search."""

    def __init__(self) -> None:
        self.note = ""
        self._keep: LineFilter | None = None
        self._pattern: re.Pattern[bytes] | None = None
        self.again()

    @abstractmethod
    def total(self) -> int: ...

    def __len__(self) -> int:
        return self.total() if self._keep is None else len(self._kept)

    def apply_filter(self, keep: LineFilter | None) -> None:
        self._keep = keep
        self.again()

    def seek(self, pattern: re.Pattern[bytes] | None) -> None:
        self._pattern = pattern
        self.again()

    def again(self) -> None:
        """Look at all lines anew."""
        self._kept: array[int] = array("Q")
        self._matches: array[int] = array("Q")
        """Lines that the filter keeps, and those in which the search text stands: by number, or by where they begin."""
        self._seen = 0

    @property
    def found(self) -> int:
        return len(self._matches)


class ListText(SearchedText):
    """A text whose lines are in a list that grows at its end: what `row` gives."""

    @abstractmethod
    def row(self, number: int) -> TextRow: ...

    def text_of(self, number: int) -> str:
        return self.row(number).text

    def page(self, start: int, stop: int) -> list[TextRow]:
        stop = min(stop, len(self))
        return [self.row(self._kept[at] if self._keep else at) for at in range(max(0, start), stop)]

    def advance(self) -> bool:
        if self._keep is None and self._pattern is None:
            return False
        stop = min(self.total(), self._seen + SLICE)
        for number in range(self._seen, stop):
            text = self.text_of(number).encode()
            if self._keep is not None:
                if not self._keep(text):
                    continue
                self._kept.append(number)
            if self._pattern is not None and self._pattern.search(text):
                self._matches.append(number)
        self._seen = stop
        return stop < self.total()

    def place(self, match: int) -> int:
        number = self._matches[match]
        return bisect_left(self._kept, number) if self._keep else number

    def nearest(self, line: int) -> int:
        """The first match from that line on."""
        if self._keep:
            line = self._kept[line] if line < len(self._kept) else self.total()
        return bisect_left(self._matches, line)


class MemoryText(ListText):
    """Lines that are given one after the other; of very many only the newest are kept."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit
        self._rows: list[TextRow] = []

    def total(self) -> int:
        return len(self._rows)

    def row(self, number: int) -> TextRow:
        return self._rows[number]

    def append(self, lines: Sequence[tuple[float, str]]) -> int:
        """More lines (moment, text); how many of the oldest went for them."""
        self._rows += [TextRow(text, moment) for moment, text in lines]
        gone = len(self._rows) - self._limit
        if gone > 0:
            del self._rows[:gone]
            self.again()
        return max(0, gone)

    def clear(self) -> None:
        self._rows = []
        self.again()


class AgreedText(ListText):
    """A consensus, in which each line says who printed it."""

    def __init__(self, consensus: Consensus, ranks: int, gaps: Callable[[], Sequence[Gap]]) -> None:
        """`gaps`: whose lines of what time are not known at this moment."""
        super().__init__()
        self._consensus = consensus
        self._ranks = ranks
        self._gaps = gaps

    def total(self) -> int:
        return len(self._consensus.lines)

    def row(self, number: int) -> TextRow:
        line, gaps = self._consensus.lines[number], self._gaps()
        return TextRow(line.text, line.time, line.ranks_text(self._ranks, gaps), line.is_minority(self._ranks, gaps))

    def text_of(self, number: int) -> str:
        """What it says, without who."""
        return self._consensus.lines[number].text
