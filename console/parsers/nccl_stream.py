"""One test of nccl-tests while it is printed, and the lines of one process or of several that cannot be told apart.

Tests are told apart by what they announce and by sizes that fall back. A test without its footer is not finished, and
one that said why it failed has that as its error.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from console.models.nccl import NcclTest, Row
from console.models.nccl_rows import PackedRows, Rows
from console.parsers.nccl_line import Torn, Units, completed, first_half, number, row_of

if TYPE_CHECKING:
    from collections.abc import Callable

FAILURE = re.compile(
    r"Test (?:(?:NCCL|CUDA|HIP|RCCL|MPI) failure|failure|timeout)\b.*|(?:NCCL|Cuda) failure [\w./-]{1,200}\.cu:\d.*"
)
"""How a test says that it has failed; the second way is that of 2018."""
_COMMAND = re.compile(
    r"\b((?:all_reduce|all_gather|reduce_scatter|alltoallv?|sendrecv|broadcast|reduce|gather|scatter|hypercube)_perf\w*)"
)
_ANNOUNCED = (
    ("-tests", re.compile(r"nccl-tests version ([\w.+-]+)|rccl-tests: Version ([\w.+-]+)"), "version"),
    ("Collective", re.compile(r"Collective test starting: *([\w.-]+)"), "program"),
    ("nThread", re.compile(r"(?:#|^) *nThread\s+\d+\s+nGpus\s+(\d+)"), "settings"),
)
"""What stands in such a line, which is found ten times as fast; how it says what."""
_RANK = re.compile(
    r"#\s+(?:Rank|Device)\s+(\d+)\s+(?:Group|Pid|on|->)\s|^\s*Rank\s+(\d+)\s+(?:Group\s+\d+\s+)?Pid\s+\d+\s+on\s"
)
"""The second way: its "#" was taken for a heading by whoever kept the log."""
_HEADER = re.compile(r"#?\s*(size|bytes)\s+(?:count|N)\s+type\b")
_ERRORS = ("error", "res")
"""With one of these as its last column."""
_BOUNDS = re.compile(r"Out of bounds values\s*:\s*(\d+)\s*(OK|FAILED)?")
_AVERAGE = re.compile(r"Avg bus bandwidth\s*:\s*([+-]?[\d.]+(?:e[+-]?\d+)?|\S*)\s*(?:GB/s)?\s*(FAILED)?")
_ENDED = re.compile(r"Collective test concluded(?:: *([\w.-]+))?")
_ERROR = re.compile(r"^\s*# error: *(\S.*?)\s*$")
_TODAYS = Units()


def fails(text: str) -> re.Match[str] | None:
    """How the line says that a test has failed; None if it does not."""
    return FAILURE.search(text) if "failure" in text or "Test timeout" in text else None


@dataclass(eq=False, slots=True)
class Run:
    """One test while it grows."""

    said: dict[str, str] = field(default_factory=dict)
    """What was announced: version, program, settings."""
    command: str | None = None
    """Program named by a line before it."""
    ranks: set[int] = field(default_factory=set)
    units: Units = field(default_factory=Units)
    headed: bool = False
    rows: Rows = field(default_factory=Rows)
    average: float | None = None
    bounds: int | None = None
    failed: bool = False
    finished: bool = False
    concluded: bool = False
    error: str | None = None
    wrong: bool = False
    """Whether a row has wrong elements."""
    unread: bool = False
    """Whether a row of it could not be read."""
    place: int = 0
    """How many tests of the log began before it."""

    def add(self, row: Row) -> None:
        """A row that came."""
        self.rows.append(row)
        self.wrong = self.wrong or any(half is not None and half.wrong for half in (row.out_of_place, row.in_place))

    def test(self, *, with_rows: bool = True) -> NcclTest:
        """What is known of it now; without its rows it costs the same however many they are."""
        bad = self.failed or self.error is not None or bool(self.bounds) or self.wrong
        sure = self.bounds == 0 and bool(self.rows) and not self.unread
        return NcclTest(
            program=self.said.get("program") or self.command,
            version=self.said.get("version"),
            ranks=max(self.ranks) + 1 if self.ranks else None,
            rows=tuple(self.rows) if with_rows else (),
            avg_busbw=self.average,
            out_of_bounds=self.bounds,
            ok=False if bad else True if sure else None,
            finished=self.finished,
            error=self.error,
        )


class Stream:
    """The lines of one process, or of several that cannot be told apart."""

    def __init__(self, start: Callable[[], Run]) -> None:
        self._start = start
        self._open: list[Run] = []
        self._last: Run | None = None
        self._command: str | None = None
        self.torn: Torn | None = None
        self.rows = 0
        """Rows so far."""

    def line(self, text: str, failure: re.Match[str] | None) -> Run | None:
        """The run that changed by this line; `failure`: how it says that a test has failed."""
        if failure:
            return self.fail(failure.group().strip())
        if text[:1] == "#" and self.torn is None and not text.lstrip("# \t")[:1].isdigit():
            return self._words(text)
        return self._table(text) or self._words(text)

    def fail(self, text: str) -> Run:
        """A failure belongs to the test under way, else to the last one, else to one that printed nothing else."""
        run = self._open[-1] if self._open else self._last or self._new()
        self._open = [each for each in self._open if each is not run]
        if run.error is None or ("'" in text and "'" not in run.error):
            run.error = text
        self._last, self.torn = run, None
        return run

    @property
    def blank(self) -> bool:
        """Whether nothing has been learned from this stream."""
        return self._last is None and self._command is None and self.torn is None and not self._open

    @property
    def busy(self) -> bool:
        """Whether a test of this stream is under way."""
        return bool(self._open)

    def _new(self) -> Run:
        run = self._start()
        run.command, self._command = self._command, None
        self._open.append(run)
        return run

    # rows

    def _table(self, text: str) -> Run | None:
        found = row_of(text, self._open[0].units if self._open else Units())
        if found is None and self.torn:
            whole = completed(self.torn, text, self._open[0].units if self._open else Units())
            return self._keep(whole) if whole else None
        if found is None:
            return None
        self.flush()
        return self._keep(found)

    def _keep(self, found: Row | Torn) -> Run | None:
        """A row goes to its run; the beginning of one waits for the rest, and begins no test by itself."""
        if isinstance(found, Torn):
            self.torn = found
            return None
        self.torn = None
        run = self._run_for(found)
        run.add(found)
        self.rows += 1
        return run

    def spoil(self) -> None:
        """A row could not be read: of the test that is under way nothing can be said to be well any more."""
        if self._open:
            self._open[0].unread = True

    @property
    def single(self) -> Run | None:
        """The test to which every row of today's tables belongs that comes next; None if that is not certain."""
        only = self._open[0] if len(self._open) == 1 else None
        return only if only and self.torn is None and only.units == _TODAYS else None

    def take(self, run: Run, rows: PackedRows) -> None:
        """Rows of that test."""
        run.rows.extend(rows)
        run.wrong = run.wrong or rows.wrong
        self.rows += len(rows)

    def flush(self) -> Run | None:
        """Keeps what there is of a torn row once it is clear that no more of it will come."""
        torn, self.torn = self.torn, None
        row = first_half(torn, self._open[0].units if self._open else Units()) if torn else None
        return self._keep(row) if row else None

    def _run_for(self, row: Row) -> Run:
        """Sizes rise within a test; of two that print into each other, the one goes on that the size continues."""
        alone = len(self._open) == 1
        for run in self._open:
            last = run.rows[-1].size if run.rows else -1
            if row.size > last or (alone and row.size == last):
                return run
        return self._open[0] if self._open else self._new()

    # comments

    def _words(self, text: str) -> Run | None:
        for word, pattern, what in _ANNOUNCED:
            if word in text and (found := pattern.search(text)):
                return self._announce(what, next((each for each in found.groups() if each), ""))
        if ("Rank" in text or "Device" in text) and (found := _RANK.search(text)):
            return self._rank(int(found.group(1) or found.group(2)))
        if "type" in text and (found := _HEADER.match(text)):
            return self._header(Units(found.group(1) == "bytes", text.rstrip().endswith(_ERRORS)))
        if "#" in text or "bandwidth" in text or "bounds" in text:
            return self._footer(text)
        if found := _COMMAND.search(text):
            self._command = found.group(1)
        return None

    def _announce(self, what: str, value: str) -> Run:
        """Two processes announce themselves before either prints its columns; later, a new test has begun."""
        run = next((each for each in self._open if not each.headed and what not in each.said and not each.rows), None)
        if run is None:
            if any(each.headed or each.rows for each in self._open):
                self.flush()
                self._last, self._open = self._open[-1], []
            run = self._new()
        run.said[what] = value
        return run

    def _rank(self, number_: int) -> Run:
        waiting = [each for each in self._open if not each.rows]
        run = next((each for each in waiting if number_ not in each.ranks), None) or (waiting or [self._new()])[-1]
        run.ranks.add(number_)
        return run

    def _header(self, units: Units) -> Run | None:
        run = next((each for each in self._open if not each.headed and not each.rows), None)
        if run is None and any(not each.rows for each in self._open):
            return None
        if run is None:  # those before it broke off without a footer
            self.flush()
            self._last, self._open = self._open[-1] if self._open else self._last, []
            run = self._new()
        run.headed, run.units = True, units
        return run

    def _footer(self, text: str) -> Run | None:
        if "Out of" in text and (found := _BOUNDS.search(text)):
            self.flush()
            run = self._ending(lambda each: each.bounds is None)
            run.bounds, run.failed = int(found.group(1)), run.failed or found.group(2) == "FAILED"
            return run
        if "Avg" in text and (found := _AVERAGE.search(text)):
            self.flush()
            run = self._ending(lambda each: each.bounds is not None)
            run.average, run.failed = number(found.group(1)), run.failed or found.group(2) == "FAILED"
            return self._finish(run)
        if "concluded" in text and (found := _ENDED.search(text)):
            return self._conclude(found.group(1))
        if "error" in text and (found := _ERROR.match(text)) and (run_ := self._open[0] if self._open else self._last):
            run_.error = run_.error or found.group(1)
            return run_
        return None

    def _ending(self, fits: Callable[[Run], bool]) -> Run:
        """The run whose footer this is: the first that has rows and lacks it."""
        printed = [each for each in self._open if each.rows] or self._open
        return next((each for each in printed if fits(each)), None) or (printed or [self._new()])[0]

    def _finish(self, run: Run) -> Run:
        run.finished = True
        if run in self._open:
            self._open.remove(run)
        self._last, self.torn = run, None
        return run

    def _conclude(self, program: str | None) -> Run | None:
        half_done = next((each for each in self._open if each.bounds is not None), None)
        if half_done is None and self._last and not self._last.concluded:
            run = self._last
        elif half_done or self._open:
            run = self._finish(half_done or self._open[0])
        else:
            return None
        run.concluded = True
        if program:
            run.said.setdefault("program", program)
        return run
