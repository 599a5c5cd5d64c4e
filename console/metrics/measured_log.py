"""Parses what programs measure in one log, or in the merged log of a job: NCCL tests and training steps.

The first rank prints the tables of nccl-tests; steps of training are printed by the first, the last, or all ranks. Of
jobs with many ranks only those two are read. Steps that several ranks print are kept apart by rank.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import groupby
from threading import RLock

from console.config import own_log_formats
from console.logs.line import LogLine, PodLine
from console.metrics.job_measures import JobMeasures
from console.metrics.nccl_history import MeasuredTest
from console.metrics.seen_time import TableRecorder
from console.metrics.training_run import TrainingRun
from trainlog import LineLayout, NcclParser, NcclTest, OwnFormat, TrainingParser

SHORT_LOG_LINES = 250  # lines; to learn a layout costs as much as to parse 300
_WITHOUT_NUMBERS = str.maketrans("", "", "0123456789.eE+-, ")
_LINES_PER_LAYOUT = 32  # lines that are read at once if they differ from a step line in numbers only


def read_lines(lines: Sequence[LogLine]) -> tuple[tuple[NcclTest, ...], list[TrainingRun], dict[int, float]]:
    """Parse the lines of one log: its tests, its training runs, and when the last line of each test came."""
    printed, tracks = dict[int, float](), list[TrainingRun]()

    def begin_run(program: str) -> TrainingRun:
        tracks.append(TrainingRun(program))
        return tracks[-1]

    own, is_short = own_log_formats(), len(lines) < SHORT_LOG_LINES
    nccl, training = NcclParser(), TrainingParser(own, begin_run, is_short=is_short, layouts=_known_layouts(own))

    for _, group in groupby(lines, lambda line: line.text.translate(_WITHOUT_NUMBERS)):
        alike, at, size = list(group), 0, 1
        while batch := alike[at : at + size]:
            at, before, were_steps = at + size, _count_steps(tracks), False
            data = "".join([f"{line.text}\n" for line in batch]).encode()
            nccl.read(data)
            if training.feed(data):
                after = _count_steps(tracks)
                were_steps = after[0] - before[0] == len(batch) or after[1] > before[1]
                for track in tracks:
                    track.sync(batch[-1].time, [line.time for line in batch] if were_steps else ())
            printed[len(nccl.growing) - 1] = batch[-1].time
            size = _LINES_PER_LAYOUT if were_steps else 1
    nccl.close()
    training.close()
    for track in tracks:
        track.sync(lines[-1].time)
    return nccl.tests, tracks, printed


@lru_cache(maxsize=1)
def _known_layouts(_own: tuple[OwnFormat, ...]) -> list[LineLayout]:
    """Those of lines in all logs that were read: many jobs run the same program."""
    return []


def _count_steps(tracks: Sequence[TrainingRun]) -> tuple[int, int]:
    """The number of steps and of rollbacks in all runs."""
    return sum(len(each.steps) for each in tracks), sum(len(each.rewinds) for each in tracks)


MAX_RANKS_ALL_READ = 16  # ranks up to which all are read
_LINES_PER_TIME = 16  # lines after which it is noted when they were printed
_SECONDS_PER_TIME = 0.5  # the same, between two of them


def choose_ranks(number: int) -> set[int] | None:
    """The ranks whose lines are parsed; None for all."""
    return None if number <= MAX_RANKS_ALL_READ else {0, number - 1}


def _split_by_time(lines: Sequence[PodLine]) -> Iterator[Sequence[PodLine]]:
    """Split the lines into short batches that were printed about the same time."""
    start = 0
    for at in range(1, len(lines) + 1):
        if at == len(lines) or at - start == _LINES_PER_TIME or lines[at].time - lines[at - 1].time > _SECONDS_PER_TIME:
            yield lines[start:at]
            start = at


class _NcclTables:
    """Parses the tests in the log of one rank."""

    def __init__(self, begun: float) -> None:
        """`begun`: when the first line that was read was printed."""
        self.done: list[MeasuredTest] = []
        self.recorder = TableRecorder(begun)
        self.parser = NcclParser()
        self._of: tuple[int, str, str] | None = None
        self._tests: list[MeasuredTest] = []

    def feed_lines(self, of: tuple[int, str, str], rank: int, lines: Sequence[PodLine]) -> bool:
        """Parse lines of one run of its container; returns whether anything was found."""
        if of != self._of:
            self.done += self._tests
            self.parser, self._of, self._tests = NcclParser(), of, []
        found = self.parser.feed("\n".join([*(line.text for line in lines), ""]).encode())
        changed = self._store_tests(found, of[0], rank, lines[-1].time)
        for each in self._tests if changed else ():
            test = each.test
            ended = test.finished or test.error is not None
            self.recorder.feed_table(each.index, len(test.rows), lines[0].time, lines[-1].time, ended=ended)
        return changed

    def _store_tests(self, changed: Sequence[NcclTest], attempt: int, rank: int, time: float) -> bool:
        if not changed:
            return False
        known = {each.index: each for each in self._tests}
        self._tests = []
        for at, test in enumerate(self.parser.tests):
            old = known.get(at)
            fresh = MeasuredTest(test, attempt=attempt, rank=rank, index=len(self.done) + at, at=time)
            self._tests.append(old if old is not None and old.test == test else fresh)
        return True

    def close(self, rank: int) -> bool:
        last = self._tests[-1].at if self._tests else 0.0
        return self._store_tests(self.parser.close(), self._of[0] if self._of else 0, rank, last)

    @property
    def tests(self) -> list[MeasuredTest]:
        return [*self.done, *self._tests]


class LogReader:
    """Parses the log of one job; `take` may run in a thread."""

    def __init__(self, measures: JobMeasures, number: int) -> None:
        self._measures = measures
        self._several = number > 1
        self._tables: dict[int, _NcclTables] = {}
        self._training = TrainingParser(own_log_formats(), self._begin_run)
        self._tracks: list[TrainingRun] = []
        self._lock = RLock()  # of the runs, whose steps the parser changes
        self._lines: dict[tuple[int, int, str, str], int] = {}  # lines of each container so far
        self._time = self._begun = 0.0  # when the last line was printed, and the first

    def feed_lines(self, lines: Sequence[PodLine]) -> bool:
        """Parse the next lines in order of time; returns whether anything changed."""
        self._begun = self._begun or (lines[0].time if lines else 0.0)
        changed = self._feed_tables(lines)
        for line in lines:
            name = line.rank, line.attempt, line.pod, line.container
            number = self._lines[name] = self._lines.get(name, 0) + 1
            if self._training.may_be_relevant(line.text):
                changed |= self._feed_line(line, number)
            if self._tracks:
                changed |= self._tracks[-1].feed_phase_line(line.text, line.time)
        return changed

    def close(self) -> None:
        for rank, tables in self._tables.items():
            tables.close(rank)
        with self._lock:
            self._training.close()
            self._sync_runs(self._time)
        self._publish_tests()

    def _feed_tables(self, lines: Sequence[PodLine]) -> bool:
        groups: dict[tuple[int, int, str, str], list[PodLine]] = {}
        for line in lines:
            groups.setdefault((line.rank, line.attempt, line.pod, line.container), []).append(line)
        changed = False
        for name, group in groups.items():
            rank = name[0]
            tables = self._tables.setdefault(rank, _NcclTables(self._begun))
            for some in _split_by_time(group):
                changed |= tables.feed_lines(name[1:], rank, some)
            if (unread := tables.parser.unreadable) is not None:
                self._measures.unreadable["nccl"] = rank, unread
        if changed:
            self._publish_tests()
        return changed

    def _publish_tests(self) -> None:
        every = [test for rank in sorted(self._tables) for test in self._tables[rank].tests]
        # A test that another rank printed too, or of which another rank tells only that it failed.
        whole = [each for each in every if each.test.rows] or every
        self._measures.tests = tuple(whole)
        if every:
            self._measures.tables = self._tables[(whole or every)[0].rank].recorder

    def _feed_line(self, line: PodLine, number: int) -> bool:
        before = self._training.unreadable
        with self._lock:
            changed = self._training.read_line(line.text, number, line.rank if self._several else None)
            if (unread := self._training.unreadable) is not before and unread is not None:
                self._measures.unreadable["training"] = line.rank, unread
                changed = True
            self._time = line.time
            if changed:
                self._sync_runs(line.time)
        return changed

    def _begin_run(self, program: str) -> TrainingRun:
        self._tracks.append(TrainingRun(program, 0.0 if self._tracks else self._begun, self._lock))
        self._measures.tracks = tuple(self._tracks)
        self._measures.add_known_failures()
        return self._tracks[-1]

    def _sync_runs(self, time: float) -> None:
        for track in self._tracks[-2:]:
            track.sync(time)
