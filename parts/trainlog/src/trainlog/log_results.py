"""Parses all known program output in a log: nccl-tests, training steps, failures, lm-eval scores, py-spy stacks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from trainlog.collector_formats import CollectorUnwrapper
from trainlog.failure_kinds import LogFailure
from trainlog.failure_parser import FailureParser
from trainlog.lines import MAX_LINE_BYTES, LineBlocks, UnparsedLines, WordSearch, iter_spans_with, strip_terminal_codes
from trainlog.nccl.parser import GrowingTest, NcclParser
from trainlog.nccl.row_formats import parse_nccl_json
from trainlog.nccl.test_results import NcclTest
from trainlog.pyspy import ProcessStacks, PySpyParser, parse_pyspy
from trainlog.training.formats.unknown_programs import OwnFormat
from trainlog.training.parser import TrainingParser
from trainlog.training.run_reader import RunReader
from trainlog.training.values import parse_count, parse_number


@dataclass(frozen=True, slots=True)
class EvalScore:
    """One row of a result table of lm-eval."""

    task: str  # subtasks keep the name alone; how deep they stand is `depth`
    metric: str
    value: float | None  # None where it could not be computed
    error: float | None = None  # standard error
    shots: int | None = None  # examples shown before each question
    filter: str = ""
    version: str = ""
    depth: int = 0  # levels below its group
    group: bool = False  # a row of the table that sums up groups
    better: str = ""  # "higher" or "lower", where the table says it


_TABLE_TITLE = WordSearch(b"Metric")  # stands in the titles of every table
_FIRST_COLUMNS = {"task": False, "tasks": False, "group": True, "groups": True}  # first column -> whether it sums up
_BETTER_DIRECTION = {"↑": "higher", "↓": "lower"}


class LmEvalParser:
    """Parses the scores in any number of result tables, fed in pieces."""

    def __init__(self) -> None:
        self._line_blocks = LineBlocks(MAX_LINE_BYTES, returns=True)
        self._columns: dict[str, int] = {}
        self._group = False
        self._task, self._version, self._depth, self._padding = "", "", 0, 0
        self.scores: list[EvalScore] = []

    def feed(self, data: bytes) -> list[EvalScore]:
        before, block = len(self.scores), self._line_blocks.feed(data)
        for start, end in iter_spans_with(_TABLE_TITLE, block, lambda: bool(self._columns)):
            self._parse_line(strip_terminal_codes(block[start : min(end, start + MAX_LINE_BYTES)]))
        return self.scores[before:]

    def close(self) -> list[EvalScore]:
        before = len(self.scores)
        self._parse_line(strip_terminal_codes(self._line_blocks.flush()))
        return self.scores[before:]

    def _parse_line(self, line: str) -> None:
        start, end = line.find("|"), line.rfind("|")
        if start < 0 or start == end or line[end + 1 :].strip():
            self._columns = {}
            return
        cells = line[start + 1 : end].split("|")
        titles = [cell.strip().lower() for cell in cells]
        if titles[0] in _FIRST_COLUMNS and "metric" in titles and "value" in titles:
            self._columns = {title: at for at, title in enumerate(titles) if title}
            self._group, self._task, self._padding = _FIRST_COLUMNS[titles[0]], "", 0
        elif self._columns and not all(set(cell.strip()) <= set("-:") and cell.strip() for cell in cells[:1]):
            self._parse_row(cells)

    def _parse_row(self, cells: list[str]) -> None:
        metric, value = self._cell_at(cells, "metric").strip(), self._cell_at(cells, "value")
        if not metric or len(cells) < len(self._columns):
            return
        if name := cells[0].strip():
            self._task, self._version = name.lstrip("- ").strip(), self._cell_at(cells, "version").strip()
            blanks = len(cells[0]) - len(cells[0].lstrip(" "))
            if name.startswith("-"):  # a blank for each level
                self._depth = max(1, blanks - self._padding)
            else:
                self._depth, self._padding = 0, blanks
        beside = self._columns["metric"] + 1
        arrow = cells[beside].strip() if beside < len(cells) else ""
        self.scores.append(
            EvalScore(
                task=self._task,
                metric=metric,
                value=parse_number(value),
                error=parse_number(self._cell_at(cells, "stderr")),
                shots=parse_count(self._cell_at(cells, "n-shot")),
                filter=self._cell_at(cells, "filter").strip(),
                version=self._version,
                depth=self._depth,
                group=self._group,
                better=_BETTER_DIRECTION.get(arrow, ""),
            )
        )

    def _cell_at(self, cells: list[str], title: str) -> str:
        at = self._columns.get(title)
        return cells[at] if at is not None and at < len(cells) else ""


def parse_lm_eval(data: bytes) -> tuple[EvalScore, ...]:
    """The scores in a whole log."""
    parser = LmEvalParser()
    parser.feed(data)
    parser.close()
    return tuple(parser.scores)


_STACK_WORDS = WordSearch(
    b"Thread 0x", b"Stack dump for", b"Python v", b"== pid "
)  # in every dump of py-spy, below its process
_PROCESS_WORD = WordSearch(b"Process ")


_MAX_JSON_BYTES = 32 << 20  # bytes of a file of JSON that are kept until its end
_JSON_HEAD = re.compile(rb"\s*(?:\{\s*[\"}]|\[\s*[\[{])|\s*[\[{]?\s*$")  # how one begins: an object or an array of some


class LogResults:
    """Parses one log as its lines come: NCCL tests, training steps and other results."""

    def __init__(self, formats: tuple[OwnFormat, ...] = ()) -> None:
        self._collected = CollectorUnwrapper()
        self._nccl, self._training = NcclParser(), TrainingParser(formats)
        self._failures, self._scores = FailureParser(), LmEvalParser()
        self._stacks, self._line_blocks = PySpyParser(), LineBlocks(MAX_LINE_BYTES)
        self._above = b""  # the last line so far that is not empty
        self._json: bytearray | None = bytearray()  # all of it, as long as it may be one JSON object
        self.from_json: NcclTest | None = None  # the test, if the log is nccl-tests' JSON output
        self._of_json: tuple[ProcessStacks, ...] = ()

    @property
    def nccl(self) -> tuple[NcclTest, ...]:
        """Tests so far, in the order of their beginning."""
        return (self.from_json,) if self.from_json else self._nccl.tests

    @property
    def growing_tests(self) -> Sequence[GrowingTest]:
        """The tests so far as the parser's own objects, which grow; no copy is made, for frequent callers."""
        return () if self.from_json else self._nccl.growing

    @property
    def training(self) -> Sequence[RunReader]:
        """Training runs so far, in the order of their beginning."""
        return self._training.runs

    @property
    def unreadable(self) -> dict[str, UnparsedLines]:
        """Counts of lines that look like a row ("nccl") or a step ("training") but could not be parsed."""
        counts = {"nccl": self._nccl.unreadable, "training": self._training.unreadable}
        return {what: each for what, each in counts.items() if each is not None}

    @property
    def failures(self) -> tuple[LogFailure, ...]:
        return self._failures.failures

    @property
    def more_failures(self) -> int:
        """Number of failures beyond those that are kept."""
        return self._failures.more

    @property
    def scores(self) -> Sequence[EvalScore]:
        return self._scores.scores

    @property
    def stacks(self) -> tuple[ProcessStacks, ...]:
        """Processes whose stacks py-spy has printed so far."""
        of_text = (each for each in self._stacks.processes if each.threads or (each.error and each.pid is not None))
        return self._of_json or tuple(of_text)

    @property
    def ended(self) -> str:
        """The launcher's or scheduler's sentence on how the job ended; usually empty."""
        return self._failures.ended

    @property
    def is_well(self) -> bool:
        """Whether the log names no failure, and every test in it passed."""
        return not self.failures and all(test.ok is not False for test in self.nccl)

    @property
    def has_results(self) -> bool:
        return bool(
            self.from_json
            or self._nccl.growing
            or self._training.runs
            or self.failures
            or self.unreadable
            or self.scores
            or self.stacks
        )

    def feed(self, data: bytes) -> bool:
        """Parse more bytes, up to the last line end; returns whether anything changed."""
        return self._feed_data(self._collected.feed(data))

    def _feed_data(self, data: bytes) -> bool:
        if not data:
            return False
        if self._json is not None:
            self._json += data if self._json else data.lstrip()
            if not _JSON_HEAD.match(self._json) or len(self._json) > _MAX_JSON_BYTES:
                self._json = None
        changed = (
            self._nccl.read(data),
            self._training.feed(data),
            self._failures.feed(data),
            self._scores.feed(data),
            self._feed_stacks(data),
        )
        return any(changed)

    def close(self) -> bool:
        """Parse an unterminated last line; returns whether anything changed."""
        rest = self._feed_data(self._collected.close())
        if self._json:
            self.from_json = parse_nccl_json(bytes(self._json))
            if self._json[:1] == b"[":
                self._of_json = tuple(each for each in parse_pyspy(bytes(self._json)) if each.threads)
        self._stacks.feed(self._line_blocks.flush())
        self._stacks.close()
        changed = self._nccl.close(), self._training.close(), self._failures.close(), self._scores.close()
        return rest or any(changed) or self.from_json is not None

    def _feed_stacks(self, data: bytes) -> bool:
        block, dumps = self._line_blocks.feed(data), False
        for start, end in iter_spans_with(_STACK_WORDS, block, lambda: self._stacks.open):
            dumps = True
            if not self._stacks.open:  # its process is named above it
                above = _last_complete_line(block[max(0, start - MAX_LINE_BYTES) : start]) or self._above
                self._stacks.feed(above + b"\n" if _PROCESS_WORD.occurs_in(above) else b"")
            self._stacks.feed(block[start:end] + b"\n")
        self._above = _last_complete_line(block[-MAX_LINE_BYTES:]) or self._above
        return dumps


def _last_complete_line(data: bytes) -> bytes:
    return data.rstrip().rpartition(b"\n")[2]
