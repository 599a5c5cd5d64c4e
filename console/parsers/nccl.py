"""Output of nccl-tests, read while it is printed: bytes in any pieces, tests out.

One log may hold several tests: one after another, or two processes that print into each other. Lines that carry a label
of their process are kept apart by it; those without are told apart by what they announce and by sizes that fall back.
A test without its footer is not finished, and one that said why it failed has that as its error.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from console.models.nccl import NcclTest, Row
from console.parsers.blocks import Blocks, spans_with
from console.parsers.nccl_line import MORE_WORDS, WORDS, Torn, Units, completed, first_half, label_of, number, row_of

if TYPE_CHECKING:
    from collections.abc import Callable

LONGEST = 1 << 12
"""Bytes of a line that are kept; the rest of a longer one is dropped."""
_REST_WITHIN = 4096
"""Lines after a torn row among which the rest of it is looked for."""
_FAILURE = re.compile(r"Test (?:(?:NCCL|CUDA|HIP|RCCL|MPI) failure|failure|timeout)\b.*")
_COMMAND = re.compile(
    r"\b((?:all_reduce|all_gather|reduce_scatter|alltoallv?|sendrecv|broadcast|reduce|gather|scatter|hypercube)_perf\w*)"
)
_ANNOUNCED = (
    (re.compile(r"# nccl-tests version (\S+)|rccl-tests: Version (\S+)"), "version"),
    (re.compile(r"Collective test starting: *(\S+)"), "program"),
    (re.compile(r"# *nThread\s+\d+\s+nGpus\s+(\d+)"), "settings"),
)
_RANK = re.compile(r"#\s+(?:Rank|Device)\s+(\d+)\s+(?:Group|Pid|on|->)\s")
_HEADER = re.compile(r"#?\s*(size|bytes)\s+(?:count|N)\s+type\b.*?(#wrong|error|res)?\s*$")
_BOUNDS = re.compile(r"Out of bounds values\s*:\s*(\d+)\s*(OK|FAILED)?")
_AVERAGE = re.compile(r"Avg bus bandwidth\s*:\s*([+-]?[\d.]+(?:e[+-]?\d+)?|\S*)\s*(?:GB/s)?\s*(FAILED)?")
_ENDED = re.compile(r"Collective test concluded(?:: *(\S+))?")
_ERROR = re.compile(r"^\s*# error: *(\S.*?)\s*$")


@dataclass(eq=False, slots=True)
class _Run:
    """One test while it grows."""

    said: dict[str, str] = field(default_factory=dict)
    """What was announced: version, program, settings."""
    command: str | None = None
    """Program named by a line before it."""
    ranks: set[int] = field(default_factory=set)
    units: Units = field(default_factory=Units)
    headed: bool = False
    rows: list[Row] = field(default_factory=list)
    average: float | None = None
    bounds: int | None = None
    failed: bool = False
    finished: bool = False
    concluded: bool = False
    error: str | None = None

    def test(self) -> NcclTest:
        """What is known of it now."""
        halves = [half for row in self.rows for half in (row.out_of_place, row.in_place) if half]
        bad = self.failed or self.error is not None or bool(self.bounds) or any(half.wrong for half in halves)
        return NcclTest(
            program=self.said.get("program") or self.command,
            version=self.said.get("version"),
            ranks=max(self.ranks) + 1 if self.ranks else None,
            rows=tuple(self.rows),
            avg_busbw=self.average,
            out_of_bounds=self.bounds,
            ok=False if bad else True if self.bounds == 0 else None,
            finished=self.finished,
            error=self.error,
        )


class _Stream:
    """The lines of one process, or of several that cannot be told apart."""

    def __init__(self, start: Callable[[], _Run]) -> None:
        self._start = start
        self._open: list[_Run] = []
        self._last: _Run | None = None
        self._command: str | None = None
        self.torn: Torn | None = None

    def line(self, text: str) -> _Run | None:
        """The run that changed by this line."""
        if failure := _FAILURE.search(text):
            return self.fail(failure.group().strip())
        return self._table(text) or self._words(text)

    def fail(self, text: str) -> _Run:
        """A failure belongs to the test under way, else to the last one, else to one that printed nothing else."""
        run = self._open[-1] if self._open else self._last or self._new()
        self._open = [each for each in self._open if each is not run]
        if run.error is None or ("'" in text and "'" not in run.error):
            run.error = text
        self._last, self.torn = run, None
        return run

    @property
    def busy(self) -> bool:
        """Whether a test of this stream is under way."""
        return bool(self._open)

    def _new(self) -> _Run:
        run = self._start()
        run.command, self._command = self._command, None
        self._open.append(run)
        return run

    # rows

    def _table(self, text: str) -> _Run | None:
        found = row_of(text, self._open[0].units if self._open else Units())
        if found is None and self.torn:
            whole = completed(self.torn, text, self._open[0].units if self._open else Units())
            return self._keep(whole) if whole else None
        if found is None:
            return None
        self.flush()
        return self._keep(found)

    def _keep(self, found: Row | Torn) -> _Run | None:
        """A row goes to its run; the beginning of one waits for the rest, and begins no test by itself."""
        if isinstance(found, Torn):
            self.torn = found
            return None
        self.torn = None
        run = self._run_for(found)
        run.rows.append(found)
        return run

    def flush(self) -> _Run | None:
        """Keeps what there is of a torn row once it is clear that no more of it will come."""
        torn, self.torn = self.torn, None
        row = first_half(torn, self._open[0].units if self._open else Units()) if torn else None
        return self._keep(row) if row else None

    def _run_for(self, row: Row) -> _Run:
        """Sizes rise within a test; of two that print into each other, the one goes on that the size continues."""
        alone = len(self._open) == 1
        for run in self._open:
            last = run.rows[-1].size if run.rows else -1
            if row.size > last or (alone and row.size == last):
                return run
        return self._open[0] if self._open else self._new()

    # comments

    def _words(self, text: str) -> _Run | None:
        for pattern, what in _ANNOUNCED:
            if found := pattern.search(text):
                return self._announce(what, next((each for each in found.groups() if each), ""))
        if found := _RANK.search(text):
            return self._rank(int(found.group(1)))
        if found := _HEADER.match(text):
            return self._header(Units(found.group(1) == "bytes", found.group(2) in {"error", "res"}))
        if "#" in text or "bandwidth" in text or "bounds" in text:
            return self._footer(text)
        if found := _COMMAND.search(text):
            self._command = found.group(1)
        return None

    def _announce(self, what: str, value: str) -> _Run:
        """Two processes announce themselves before either prints its columns; later, a new test has begun."""
        run = next((each for each in self._open if not each.headed and what not in each.said and not each.rows), None)
        if run is None:
            if any(each.headed or each.rows for each in self._open):
                self.flush()
                self._last, self._open = self._open[-1], []
            run = self._new()
        run.said[what] = value
        return run

    def _rank(self, number_: int) -> _Run:
        waiting = [each for each in self._open if not each.rows]
        run = next((each for each in waiting if number_ not in each.ranks), None) or (waiting or [self._new()])[-1]
        run.ranks.add(number_)
        return run

    def _header(self, units: Units) -> _Run | None:
        run = next((each for each in self._open if not each.headed and not each.rows), None)
        if run is None and self._open:
            return None
        run = run or self._new()
        run.headed, run.units = True, units
        return run

    def _footer(self, text: str) -> _Run | None:
        if found := _BOUNDS.search(text):
            self.flush()
            run = self._ending(lambda each: each.bounds is None)
            run.bounds, run.failed = int(found.group(1)), run.failed or found.group(2) == "FAILED"
            return run
        if found := _AVERAGE.search(text):
            self.flush()
            run = self._ending(lambda each: each.bounds is not None)
            run.average, run.failed = number(found.group(1)), run.failed or found.group(2) == "FAILED"
            return self._finish(run)
        if found := _ENDED.search(text):
            return self._conclude(found.group(1))
        if (found := _ERROR.match(text)) and (run_ := self._open[0] if self._open else self._last):
            run_.error = run_.error or found.group(1)
            return run_
        return None

    def _ending(self, fits: Callable[[_Run], bool]) -> _Run:
        """The run whose footer this is: the first that has rows and lacks it."""
        printed = [each for each in self._open if each.rows] or self._open
        return next((each for each in printed if fits(each)), None) or (printed or [self._new()])[0]

    def _finish(self, run: _Run) -> _Run:
        run.finished = True
        if run in self._open:
            self._open.remove(run)
        self._last, self.torn = run, None
        return run

    def _conclude(self, program: str | None) -> _Run | None:
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


class NcclParser:
    """Reads the output of any number of tests, a piece at a time."""

    def __init__(self) -> None:
        self._runs: list[_Run] = []
        self._streams: dict[str, _Stream] = {}
        self._blocks = Blocks(LONGEST)
        self._look = 0

    @property
    def tests(self) -> tuple[NcclTest, ...]:
        """All tests so far, in the order they began."""
        return tuple(run.test() for run in self._runs)

    def feed(self, data: bytes) -> list[NcclTest]:
        """Reads on; the tests that changed by it. A line counts once its end has come."""
        block, changed = self._blocks.add(data), []
        while block:
            begun = bool(self._runs)
            for start, end in spans_with(MORE_WORDS if begun else WORDS, block, lambda: self._look > 0):
                if run := self._line(block[start : min(end, start + LONGEST)]):
                    changed.append(run)
                if self._runs and not begun:
                    block = block[end + 1 :]
                    break
            else:
                break
        return self._told(changed)

    def close(self) -> list[NcclTest]:
        """Reads what is left without a line end; the tests that changed by it."""
        changed = [self._line(self._blocks.end()), *(stream.flush() for stream in self._streams.values())]
        return self._told([run for run in changed if run])

    def _told(self, changed: list[_Run]) -> list[NcclTest]:
        return [run.test() for run in self._runs if run in changed]

    def _line(self, raw: bytes) -> _Run | None:
        self._look -= self._look > 0
        label, text = label_of(raw.decode("utf-8", "replace").rstrip("\r"))
        if not text.strip():
            return None
        stream = self._streams.get(label)
        if stream is None:
            stream = self._streams[label] = _Stream(self._start)
        if not stream.busy and _FAILURE.search(text):
            stream = next((each for each in self._streams.values() if each.busy), stream)
        was = stream.torn
        run = stream.line(text)
        if stream.torn is not was:
            self._look = _REST_WITHIN if any(each.torn for each in self._streams.values()) else 0
        return run

    def _start(self) -> _Run:
        run = _Run()
        self._runs.append(run)
        return run


def parse_nccl(data: bytes) -> tuple[NcclTest, ...]:
    """The tests in a whole log."""
    parser = NcclParser()
    parser.feed(data)
    parser.close()
    return parser.tests
