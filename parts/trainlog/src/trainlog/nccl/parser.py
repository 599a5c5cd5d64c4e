"""Parses the output of nccl-tests while it is printed; takes bytes in pieces of any size.

A log may hold several tests, one after another or interleaved: they are told apart by the label of their process, by
their headers, and by message sizes that get smaller. A test without its footer is not finished; a test that printed why
it failed has that text as its error.

Cost: searching for the words takes half a nanosecond a byte; consecutive rows cost a microsecond each, every other line
of a table 5 to 20.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from msgspec import Struct, field

from trainlog.lines import LineBlocks, UnparsedCounter, UnparsedLines, iter_spans_with, split_label
from trainlog.nccl.row_formats import (
    ROW_SEARCH,
    TABLE_SEARCH,
    ColumnUnits,
    PartialRow,
    complete_row,
    parse_number,
    parse_row,
    row_without_in_place,
)
from trainlog.nccl.test_results import NcclRow, NcclTest, PackedRows, Rows, parse_rows_at
from trainlog.regex import lazy_pattern

_MAX_OPEN_TESTS = 64  # heads of tests without a table that may belong to tables which follow
_COMMAND = lazy_pattern(
    r"\b((?:all_reduce|all_gather|reduce_scatter|alltoallv?|sendrecv|broadcast|reduce|gather|scatter|hypercube)_perf\w*)"
)
_RANK_LINE = lazy_pattern(  # the second way: its "#" was taken for a heading by whoever kept the log
    r"#\s+(?:Rank|Device)\s+(\d+)\s+(?:Group|Pid|on|->)\s|^\s*Rank\s+(\d+)\s+(?:Group\s+\d+\s+)?Pid\s+\d+\s+on\s"
)
_LINE_FORMS = (  # what stands in such a line, which is found ten times as fast; how it says what
    ("-tests", lazy_pattern(r"nccl-tests version ([\w.+-]+)|rccl-tests: Version ([\w.+-]+)"), "version"),
    ("Collective", lazy_pattern(r"Collective test starting: *([\w.-]+)"), "program"),
    ("nThread", lazy_pattern(r"(?:#|^) *nThread\s+\d+\s+nGpus\s+(\d+)"), "settings"),
    ("Rank", _RANK_LINE, "rank"),
    ("Device", _RANK_LINE, "rank"),
    ("type", lazy_pattern(r"^#?\s*(size|bytes)\s+(?:count|N)\s+type\b"), "table"),
    ("Out of", lazy_pattern(r"Out of bounds values\s*:\s*(\d+)\s*(OK|FAILED)?"), "bounds"),
    (
        "Avg",
        lazy_pattern(r"Avg bus bandwidth\s*:\s*([+-]?[\d.]+(?:e[+-]?\d+)?|\S*)\s*(?:GB/s)?\s*(FAILED)?"),
        "average",
    ),
    ("concluded", lazy_pattern(r"#\s*Collective test concluded(?:: *([\w.-]+))?"), "ended"),
    ("error", lazy_pattern(r"^\s*# error: *(\S.*?)\s*$"), "error"),
    ("_perf", _COMMAND, "command"),
)
_ERROR_COLUMNS = ("error", "res")  # with one of these as its last column
_MAX_COMMENTS = 64  # comments, by their bytes
_Words = tuple[str, str, tuple[str | None, ...], str]  # what a line says, the word that tells it, all such, the line
_UNIQUE_WORDS = ("Avg", "failure", "Test timeout", "\x1b")
_UNKNOWN_COMMENT: _Words = ("", "", (), "")  # of a comment that is not remembered
_CURRENT_UNITS = ColumnUnits()


@lru_cache(maxsize=256)  # tests of one job print the same
def _parse_comment(text: str) -> _Words | None:
    """The header, footer or failure that a comment line announces; None for other lines."""
    for word, pattern, what in _LINE_FORMS:
        if word in text and (found := pattern.search(text)):
            groups = found.groups()
            word = next((each for each in groups if each), "")
            return None if what == "command" and "#" in text else (what, word, groups, text)
    return None


def _is_cacheable(comment: str) -> bool:
    """Whether the parsed line may be cached, as other tests print the same line with the same meaning."""
    if comment.lstrip("# \t")[:1].isdigit() or any(map(comment.__contains__, _UNIQUE_WORDS)):
        return False
    return (words := _parse_comment(comment)) is None or words[0] in {
        "version",
        "program",
        "settings",
        "table",
        "bounds",
    }


class GrowingTest(Struct, eq=False):
    said: dict[str, str] = field(default_factory=dict)  # what was announced: version, program, settings
    command: str | None = None  # program named by a line before it
    ranks: set[int] = field(default_factory=set)
    units: ColumnUnits = field(default_factory=ColumnUnits)
    headed: bool = False
    rows: Rows = field(default_factory=Rows)
    average: float | None = None
    bounds: int | None = None
    failed: bool = False
    finished: bool = False
    concluded: bool = False
    error: str | None = None
    wrong: bool = False  # whether a row has wrong elements
    unread: bool = False  # whether a row of it could not be read
    place: int = 0  # how many tests of the log began before it

    def to_test(self, *, with_rows: bool = True) -> NcclTest:
        """The test as known so far; without its rows the cost does not depend on their number."""
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


class ProcessParser:
    """Parses the lines of one process, or of several that cannot be told apart."""

    def __init__(self, tests: list[GrowingTest]) -> None:
        """`tests`: the tests of the whole log, to which new ones are appended."""
        self._tests = tests
        self.open: list[GrowingTest] = []  # those that have begun here and not ended
        self._last: GrowingTest | None = None
        self._command: str | None = None
        self.torn: PartialRow | None = None
        self.rows = 0

    def parse_line(self, text: str, failure: re.Match[str] | None) -> GrowingTest | None:
        """Parse a line; returns the changed test, if any. `failure`: a match of a failure message in it."""
        if failure:
            return self.add_failure(failure.group().strip())
        if text[:1] == "#" and self.torn is None and not text.lstrip("# \t")[:1].isdigit():
            return self.add_words(_parse_comment(text))
        return self._parse_table_line(text) or self.add_words(_parse_comment(text))

    def add_failure(self, text: str) -> GrowingTest:
        """Record a failure for the current test, else the last one, else a new one without rows; returns the test."""
        run = self.open[-1] if self.open else self._last or self._new_test()
        self.open = [each for each in self.open if each is not run]
        if run.error is None or ("'" in text and "'" not in run.error):
            run.error = text
        self._last, self.torn = run, None
        return run

    @property
    def is_blank(self) -> bool:
        """Whether nothing has been parsed yet."""
        return self._last is None and self._command is None and self.torn is None and not self.open

    def _new_test(self) -> GrowingTest:
        run = GrowingTest(command=self._command, place=len(self._tests))
        self._command = None
        self._tests.append(run)
        self.open.append(run)
        return run

    def _parse_table_line(self, text: str) -> GrowingTest | None:
        units = self.open[0].units if self.open else _CURRENT_UNITS
        found = parse_row(text, units)
        if found is None:
            whole = complete_row(self.torn, text, units) if self.torn else None
            return self._add_row(whole) if whole else None
        self.flush()
        return self._add_row(found)

    def _add_row(self, row: NcclRow | PartialRow) -> GrowingTest | None:
        """Add a row to its test, which is returned; a partial row waits for the rest, and begins no test (None)."""
        if isinstance(row, PartialRow):
            self.torn = row
            return None
        self.torn = None
        run = self._test_for_row(row)
        run.rows.append(row)
        run.wrong = run.wrong or any(half is not None and half.wrong for half in (row.out_of_place, row.in_place))
        self.rows += 1
        return run

    @property
    def only_running_test(self) -> GrowingTest | None:
        """The only test to which the next plain row can belong; None if there are several."""
        only = self.open[0] if len(self.open) == 1 else None
        return only if only and self.torn is None and only.units == _CURRENT_UNITS else None

    def add_rows(self, run: GrowingTest, rows: PackedRows) -> None:
        run.rows.extend(rows)
        run.wrong = run.wrong or rows.wrong
        self.rows += len(rows)

    def flush(self) -> GrowingTest | None:
        """Add a partial row whose rest will not come to its test; returns the test, None without such a row."""
        torn, self.torn = self.torn, None
        row = row_without_in_place(torn, self.open[0].units if self.open else _CURRENT_UNITS) if torn else None
        return self._add_row(row) if row else None

    def _test_for_row(self, row: NcclRow) -> GrowingTest:
        """The test that a row belongs to: sizes rise within a test, so a larger one continues it."""
        alone = len(self.open) == 1
        for run in self.open:
            last = run.rows[-1].size if run.rows else -1
            if row.size > last or (alone and row.size == last):
                return run
        return self.open[0] if self.open else self._new_test()

    def add_words(self, words: _Words | None) -> GrowingTest | None:
        """Apply a header, footer or failure line to its test; returns the changed test, None if none changed."""
        if words is None:
            return None
        what, word, found, text = words
        match what:
            case "version" | "program" | "settings":
                return self._set_announced(what, word)
            case "rank":
                return self._add_rank(int(word))
            case "table":
                return self._begin_table(ColumnUnits(word == "bytes", text.rstrip().endswith(_ERROR_COLUMNS)))
            case "bounds" | "average":
                return self._parse_footer(what, word, has_failed=found[1] == "FAILED")
            case "ended":
                return self._conclude_test(found[0])
            case "error" if run := self.open[0] if self.open else self._last:
                run.error = run.error or word
                return run
            case "command":
                self._command = word
        return None

    def _set_announced(self, label: str, value: str) -> GrowingTest:
        """Set what a header line announces; a value already set begins another test. Returns the test."""
        run = next((each for each in self.open if not each.headed and label not in each.said and not each.rows), None)
        if run is None and (len(self.open) >= _MAX_OPEN_TESTS or any(each.headed or each.rows for each in self.open)):
            self._abort_test()
        run = run or self._new_test()
        run.said[label] = value
        return run

    def _abort_test(self) -> None:
        """End the current tests without a footer."""
        self.flush()
        self._last, self.open = self.open[-1] if self.open else self._last, []

    def _add_rank(self, number_: int) -> GrowingTest:
        waiting = [each for each in self.open if not each.rows]
        run = next((each for each in waiting if number_ not in each.ranks), None) or (waiting or [self._new_test()])[-1]
        run.ranks.add(number_)
        return run

    def _begin_table(self, units: ColumnUnits) -> GrowingTest | None:
        run = next((each for each in self.open if not each.headed and not each.rows), None)
        if run is None and any(not each.rows for each in self.open):
            return None
        if run is None:
            self._abort_test()
            run = self._new_test()
        run.headed, run.units = True, units
        return run

    def _parse_footer(self, label: str, value: str, *, has_failed: bool) -> GrowingTest:
        self.flush()
        run = self._test_for_footer(lambda each: (each.bounds is None) is (label == "bounds"))
        run.failed = run.failed or has_failed
        if label == "bounds":
            run.bounds = int(value)
            return run
        run.average = parse_number(value)
        return self._finish_test(run)

    def _test_for_footer(self, is_fitting: Callable[[GrowingTest], bool]) -> GrowingTest:
        """The open test that a footer ends: the only one, else the first with `is_fitting` true, else the first."""
        if len(self.open) == 1:
            return self.open[0]
        printed = [each for each in self.open if each.rows] or self.open
        return next((each for each in printed if is_fitting(each)), None) or (printed or [self._new_test()])[0]

    def _finish_test(self, run: GrowingTest) -> GrowingTest:
        run.finished = True
        if run in self.open:
            self.open.remove(run)
        self._last, self.torn = run, None
        return run

    def _conclude_test(self, program: str | None) -> GrowingTest | None:
        half_done = next((each for each in self.open if each.bounds is not None), None)
        if half_done is None and self._last and not self._last.concluded:
            run = self._last
        elif self.open:
            run = self._finish_test(half_done or self.open[0])
        else:
            return None
        run.concluded = True
        if program:
            run.said.setdefault("program", program)
        return run


MAX_LINE_BYTES = 1 << 12  # bytes of a line that are kept; the rest of a longer one is dropped
_MAX_LINES_OF_TORN_ROW = 4096  # lines after a torn row among which the rest of it is looked for
_MIN_SEARCH_BYTES, _MAX_SEARCH_BYTES = 1 << 8, 1 << 15  # that are searched at once: few where a table begins or ends
_MAX_ROWS_BETWEEN_TRIES = 64  # after which it is tried again to parse several rows at once
_COMMENT_MARK = ord("#")  # it begins a line that is no row: tables have many of these, one after another
_WIDTH = 12  # words of a whole row
_ROW_LIKE = lazy_pattern(r"\s*\d+\s+\d+\s+[a-z]\w{2,}(?:\s+\S+){0,3}(?:\s+[\d.+-]\S*){4,}\s*$")  # with a type


def _is_row(text: str, *, is_torn: bool) -> bool:
    """Whether the line looks like a row; right after a partial row only if it looks complete."""
    if not is_torn:
        return _ROW_LIKE.match(text) is not None
    words = text.split()
    return len(words) >= _WIDTH and words[0].isdigit() and words[1].isdigit() and "NCCL" not in text and ":" not in text


class NcclParser:
    """Parses the output of any number of tests, fed in pieces."""

    def __init__(self) -> None:
        self.growing: list[GrowingTest] = []  # the tests without a copy of their rows, for frequent callers
        self._streams: dict[str, ProcessParser] = {}
        self._line_blocks = LineBlocks(MAX_LINE_BYTES)
        self._look = 0  # lines among which the rest of a row is still looked for
        self._busy = False  # whether a table is open
        self._reach, self._patience = _MIN_SEARCH_BYTES, 1
        self._comments: dict[bytes, _Words | None] = {}  # what those say that are the same in many tests
        self._puzzle = UnparsedCounter()

    @property
    def unreadable(self) -> UnparsedLines | None:
        """Lines that look like table rows but could not be parsed; None if there are none."""
        return self._puzzle.unparsed_lines

    @property
    def tests(self) -> tuple[NcclTest, ...]:
        return tuple(run.to_test() for run in self.growing)

    @staticmethod
    def may_be_relevant(text: str) -> bool:
        """Whether these lines may be about a test, even without any line before them."""
        return TABLE_SEARCH.occurs_in(text.encode())

    def feed(self, data: bytes, line: int | None = None) -> list[NcclTest]:
        """Parse bytes up to the last line end; returns the changed tests. `line`: number of the first line."""
        return [run.to_test() for run in self.read(data, line)]

    def read(self, data: bytes, line: int | None = None) -> list[GrowingTest]:
        """Parse more bytes; returns the changed tests without a copy of rows. `line`: number of the first line."""
        block, at = self._line_blocks.feed(data), 0
        self._puzzle.begin_block(block, line)
        changed: dict[GrowingTest, None] = {}
        while at < len(block):
            if block[at] == _COMMENT_MARK:
                at = self._parse_comments(block, at, changed)
                continue
            if self._busy and (taken := self._parse_rows(block, at, changed)):
                at = taken
                continue
            end = block.find(b"\n", at + self._reach) + 1 or len(block)
            self._reach = min(2 * self._reach, _MAX_SEARCH_BYTES)
            at += self._parse_row_window(block[at:end], at, changed)
        self._puzzle.end_block()
        return sorted(changed, key=lambda run: run.place)

    def close(self) -> list[NcclTest]:
        """Parse an unterminated last line; returns the changed tests."""
        changed = [self._parse_line(self._line_blocks.flush()), *(stream.flush() for stream in self._streams.values())]
        found = dict.fromkeys(run for run in changed if run)
        return [run.to_test() for run in sorted(found, key=lambda run: run.place)]

    def _parse_rows(self, block: bytes, offset: int, changed_tests: dict[GrowingTest, None]) -> int:
        """Parse rows at `offset` if only one test runs, so that rank labels are not needed; returns their end or 0."""
        stream = self._streams.get("") if len(self._streams) == 1 else None
        run = stream.only_running_test if stream and not self._look else None
        if stream is None or run is None:
            return 0
        end, rows = parse_rows_at(block, offset)
        self._patience = 1 if rows else min(2 * self._patience, _MAX_ROWS_BETWEEN_TRIES)
        if rows is None:
            return 0
        stream.add_rows(run, rows)
        self._puzzle.add_parsed()
        changed_tests[run] = None
        return end

    def _parse_row_window(self, block: bytes, offset: int, changed_tests: dict[GrowingTest, None]) -> int:
        """Parse lines until a table begins, ends or continues with rows; returns the number of bytes."""
        busy, rows = self._busy, 0
        for start, end in iter_spans_with(ROW_SEARCH if busy else TABLE_SEARCH, block, lambda: self._look > 0):
            if not busy and not self._look and block.find(b"%|", start, end) >= 0:
                continue  # a progress bar, drawn in signs of comments
            self._puzzle.set_offset(offset + start)
            if run := self._parse_line(block[start : min(end, start + MAX_LINE_BYTES)]):
                changed_tests[run] = None
                rows += 1
                self._busy = any(stream.open for stream in self._streams.values())
            if self._busy is not busy or (busy and rows == self._patience):
                self._reach = _MIN_SEARCH_BYTES
                return end + 1
        return len(block)

    def _parse_comments(self, block: bytes, offset: int, changed_tests: dict[GrowingTest, None]) -> int:
        """Parse the consecutive comment lines (starting with `#`) at `offset`; returns their end."""
        is_changed, size = False, len(block)
        while offset < size and block[offset] == _COMMENT_MARK:
            start, end = offset, block.index(b"\n", offset)
            raw, offset = block[offset:end][:MAX_LINE_BYTES], end + 1
            words = self._comments.get(raw, _UNKNOWN_COMMENT) if not self._look else _UNKNOWN_COMMENT
            if words is None:
                continue
            if words is not _UNKNOWN_COMMENT and (stream := self._streams.get("")) and stream.torn is None:
                run = stream.add_words(words)
            else:
                self._puzzle.set_offset(start)
                run = self._parse_line(raw)
                if len(self._comments) < _MAX_COMMENTS and _is_cacheable(text := raw.decode("utf-8", "replace")):
                    self._comments[raw] = _parse_comment(text.rstrip("\r"))
            if run:
                changed_tests[run] = None
                is_changed = True
        if is_changed:
            self._busy = any(stream.open for stream in self._streams.values())
            self._reach = _MIN_SEARCH_BYTES
        return offset

    def _parse_line(self, line: bytes) -> GrowingTest | None:
        self._look -= self._look > 0
        label, text = split_label(line.decode("utf-8", "replace").rstrip("\r"))
        if not text.strip():
            return None
        known = self._streams.get(label)
        own = stream = known or ProcessParser(self.growing)
        failure = _find_failure(text) if "failure" in text or "Test timeout" in text else None
        if failure and not stream.open:
            stream = next((each for each in self._streams.values() if each.open), stream)
        was = stream.torn
        rows = stream.rows
        run = stream.parse_line(text, failure)
        if stream.rows == rows and text[0] != "#" and stream.open and _is_row(text, is_torn=stream.torn is not None):
            self._puzzle.add_unparsed(text)
            stream.open[0].unread = True
        elif stream.rows > rows:
            self._puzzle.add_parsed()
        if known is None and not own.is_blank:
            self._streams[label] = own
        if stream.torn is not was:
            self._look = _MAX_LINES_OF_TORN_ROW if any(each.torn for each in self._streams.values()) else 0
        return run


def parse_nccl(data: bytes) -> tuple[NcclTest, ...]:
    """The tests in a whole log."""
    parser = NcclParser()
    parser.feed(data)
    parser.close()
    return parser.tests


def _find_failure(text: str) -> re.Match[str] | None:
    from trainlog.failure_kinds import TEST_FAILURE  # 1 ms, and most tests do not fail

    return TEST_FAILURE.search(text)
