"""A job's measurements from its log: ranks' progress, NCCL tests, training steps.

The first rank prints the tables of nccl-tests; the first, the last, or all ranks print training steps. Of jobs with
many ranks only the first and last are parsed. Steps that several ranks print are separated by rank.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import AsyncGenerator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from itertools import groupby
from math import inf
from operator import itemgetter
from threading import RLock
from typing import TYPE_CHECKING

from msgspec.structs import replace

import trainlog
from console.errors import ConsoleError
from console.kube.objects.jobset import JobSet
from console.kube.snapshot import Fleet
from console.kube.stream_completeness import SERVER_CLOCK
from console.logs.log_end import END_LINE_WORDS, LogEnd, combine_ends, find_log_end, is_begin_line, is_end_line
from console.logs.log_line import LogLine, PodLine
from console.metrics.nccl_history import MeasuredTest
from console.metrics.start_phase import LAUNCHER_STAGE, StartPhase, StartRecorder, longest_phases
from console.metrics.step_cadence import cadence_of_rows
from console.metrics.time_spans import SpanKind, TableRecorder, TimeSpan, end_spans, list_seen
from console.metrics.training_run import TrainingRun
from console.scheduling.pod_slots import pod_slots
from console.settings_file import own_log_formats
from trainlog import UnparsedLines, parse_step

if TYPE_CHECKING:
    from console.alarm_thresholds import Thresholds
    from console.metrics.gpu_metrics import PodGpus
    from console.scheduling.pod_failure import PodFailure
    from trainlog import LineLayout, NcclTest, OwnFormat

    Listener = Callable[[float, str, float], None]  # called with when a line was read, its text, and its node's time


class RankProgress:
    """The time of the last line and the last step of each rank."""

    def __init__(self) -> None:
        self._own_formats = own_log_formats()
        self.last_line_at: dict[int, float] = {}
        self.steps: dict[int, int] = {}
        self.advances: Counter[int] = Counter()  # how often each rank printed another step
        self._totals: dict[int, int] = {}  # steps of each rank's longest bar: that of training

    def add_line(self, rank: int, moment: float, text: str) -> None:
        """Use a line, or a frame of a progress bar, printed at `moment` (epoch seconds), to find the rank's step."""
        self.last_line_at[rank] = max(moment, self.last_line_at.get(rank, 0.0))
        if "step " in text and LAUNCHER_STAGE.search(text):
            return
        found = parse_step(text, self._own_formats)
        if found is None:
            return
        step, total = found
        if total and total < self._totals.get(rank, 0):
            return
        self._totals[rank] = max(total, self._totals.get(rank, 0))
        self.advances[rank] += self.steps.get(rank) != step
        self.steps[rank] = step

    def steps_behind(self, rank: int) -> int:
        """The steps by which a rank is behind the foremost; 0 if unknown or at most one."""
        step = self.steps.get(rank)
        lag = max(self.steps.values()) - step if step is not None else 0
        return lag if lag > 1 else 0


NEXT_LINES_SECONDS = 1.0  # seconds within which the next lines of a log come that is read up to now
MAX_REPLAY_SPEED = 100  # seconds of printing read in a second while it goes on; practice clusters run 20 times as fast
MAX_STORED_CHARACTERS = 1000  # characters of a line that are kept for later listeners
MAX_REPLAYED_LINES = 1000  # latest lines that a new listener gets
MAX_DISORDER_SECONDS = 60.0  # by which a line may come late; an older one is of a log that is read from its start


class CatchUp:
    """Detects that old lines of a log are still being read: their times advance faster than the clock."""

    def __init__(self) -> None:
        self._read_to: tuple[float, float] | None = None  # when the newest line was printed, and read
        self._until = 0.0

    @property
    def goes_on(self) -> bool:
        return SERVER_CLOCK.now() < self._until

    def begin(self) -> None:
        self._read_to, self._until = None, inf

    def on_connected(self) -> None:
        """End the catch-up if all connections are open and no line has come: there are no old lines then."""
        if self._read_to is None:
            self.end_batch()

    def begin_batch(self, lines: Sequence[PodLine]) -> None:
        times, now = [line.time for line in lines], SERVER_CLOCK.now()
        printed, at = self._read_to or (min(times), now)
        newest = max(printed, *times)
        if newest - printed > MAX_REPLAY_SPEED * (now - at) + NEXT_LINES_SECONDS:
            self._until = inf
        self._read_to = newest, now

    def end_batch(self) -> None:
        if self._until == inf:
            self._until = SERVER_CLOCK.now() + NEXT_LINES_SECONDS


class JobMeasures:
    """The tests and training runs of a job, updated while its log is read; `changes` announces updates."""

    def __init__(self, key: tuple[str, str]) -> None:
        self.key = key
        self.uid = ""
        self.recipe = ""
        self.accelerator = ""  # label of the GPUs on the nodes of its ranks; empty: not known
        self.tests: tuple[MeasuredTest, ...] = ()  # in the order they began, those of the first rank before the others'
        self.tables = TableRecorder()  # when the tables of the tests of one rank were printed
        self.tracks: tuple[TrainingRun, ...] = ()  # in the order they began; one goes on over restarts
        self.gpus: Sequence[PodGpus] = ()  # the last reading of its GPUs, where anybody reads them
        self.unreadable: dict[str, tuple[int, UnparsedLines]] = {}  # by "nccl", "training": rank, lines
        self.unread: list[ConsoleError] = []  # why logs were not read, or not to their end, once it is over
        self.is_over = False  # whether nothing more will come
        self.pod_ends: dict[int, LogEnd] = {}  # by pod, how its program ended
        self.error: ConsoleError | None = None  # what keeps the log from being read
        self.endings_seen: tuple[str, int, int] = ("", 0, -1)
        self.ranks = RankProgress()
        self.complete_until: Callable[[Collection[int]], float] = lambda _: inf  # see `JobLog.complete_until`
        self.earlier_phases: Mapping[str, float] = {}  # how long those of its start took at most in earlier runs
        self._starts: dict[int, StartRecorder] = {}  # by pod
        self.container_started_at: dict[int, float] = {}  # when the container of each pod did
        self.catch_up = CatchUp()
        self._listeners: list[Listener] = []
        self._latest: deque[tuple[float, str, float]] = deque(maxlen=MAX_REPLAYED_LINES)
        self._newest = 0.0  # when the last line was printed
        self._endings: dict[tuple[int, int, str], PodFailure] = {}
        self._nodes: dict[int, str] = {}
        self._subscribers: set[asyncio.Event] = set()

    @property
    def missing_seconds(self) -> float:
        """The number of seconds up to now for which lines of ranks that print steps may be missing."""
        return max(0.0, time.monotonic() - self.complete_until(self.ranks.advances.keys()))

    @property
    def track(self) -> TrainingRun | None:
        return self.tracks[-1] if self.tracks else None

    @property
    def end(self) -> LogEnd | None:
        """The end of the job's program; None if it runs or its log does not show an end."""
        return combine_ends(self.pod_ends.values())

    def list_spans(self, until: float, limits: Thresholds) -> list[TimeSpan]:
        """The use of the job's time as spans, by its log, which is complete up to `until` (0.0: to its last line)."""
        track, end = self.track, self.end
        if end is not None and end.kept:
            spans = list_seen([self.tables, *(each.time_recorder for each in self.tracks)], end.time)
            return end_spans(spans, end.time, max(until, end.time), end.code)
        rhythm = track.cadence() if track else cadence_of_rows(self.tests[-1].test) if self.tests else None
        late_after = rhythm.late_after(limits) if rhythm is not None else limits.warm_up
        if track is not None and track.time_recorder.is_pausing:
            late_after = max(late_after, limits.pause)
        return list_seen([self.tables, *(each.time_recorder for each in self.tracks)], until, late_after)

    @property
    def needs_nan_search(self) -> bool:
        """Whether the loss is NaN, but the step where that began is unknown and was not searched yet."""
        track = self.track
        if track is None or not track.nan or track.earlier is not None:
            return False
        return track.position().nan_from is None

    @property
    def is_reading_old_lines(self) -> bool:
        """Whether earlier lines of the log are still being read, so that later steps may be unread."""
        return self.catch_up.goes_on and not self.is_over

    def notify(self) -> None:
        for event in self._subscribers:
            event.set()

    async def follow_changes(self) -> AsyncGenerator[JobMeasures, None]:
        """Yield these measures at once and after each change; at the end raises `error`, if there was any."""
        event = asyncio.Event()
        self._subscribers.add(event)
        try:
            while True:
                yield self
                if self.is_over:
                    break
                with suppress(TimeoutError):
                    async with asyncio.timeout(1.0):
                        await event.wait()
                event.clear()
        finally:
            self._subscribers.discard(event)
        if self.error is not None:
            raise self.error

    @contextmanager
    def subscribe_lines(self, listener: Listener) -> Iterator[None]:
        """Call the listener with the latest lines, and with each new line while the block runs."""
        for each in self._latest:
            listener(*each)
        self._listeners.append(listener)
        try:
            yield
        finally:
            self._listeners.remove(listener)

    def feed_line(self, rank: int, printed_at: float, text: str) -> None:
        """Pass a line to ranks, listeners and stored lines; `printed_at` is 0.0 for a frame of a progress bar."""
        now = SERVER_CLOCK.now()
        self.ranks.add_line(rank, printed_at or now, text)
        self.store_line(now, printed_at, text, rank)
        for listener in self._listeners:
            listener(now, text, printed_at)

    @property
    def first_step_at(self) -> float:
        """Time of the first step, or of the start of the first table (epoch seconds); 0.0 before it."""
        if (track := next((each for each in self.tracks if len(each)), None)) is not None:
            return track.times[0]
        return next((span.start for span in self.tables.list_spans() if span.kind is SpanKind.ROWS), 0.0)

    @property
    def has_begun(self) -> bool:
        """Whether the job has made a training step, or measured a row of an NCCL test."""
        return bool(self.first_step_at) or any(each.test.rows for each in self.tests)

    @property
    def phases(self) -> dict[str, float]:
        """The longest duration (seconds) of each start phase over all pods; empty before the first step."""
        return {} if not self.first_step_at else longest_phases(each.phase_seconds for each in self._starts.values())

    @property
    def start(self) -> StartPhase | None:
        """The present phase before the first step; None after that step and before the first line."""
        read = [each for each in self._starts.values() if each.printed]
        if not read or self.has_begun:
            return None
        slowest = min(read, key=lambda each: each.since if each.name else inf)
        last = max(read, key=lambda each: each.printed)
        longest = self.earlier_phases.get(slowest.name, 0.0)
        return StartPhase(slowest.name, slowest.since, last.printed, last.line, longest)

    def feed_start(self, rank: int, printed_at: float, text: str) -> None:
        """Use a line of a pod to find the phase before the job's first step."""
        if "pod " in text and is_begin_line(text):
            self._starts.pop(rank, None)
        began, recorder = self.first_step_at, self._starts.setdefault(rank, StartRecorder())
        if not began or printed_at < began:
            recorder.feed(printed_at, text, self.container_started_at.get(rank, 0.0))
        elif recorder.name:
            recorder.end(began)

    def last_lines(self, line_count: int) -> list[str]:
        """The last lines by the time of their printing, oldest first, without progress bars."""
        kept = dict.fromkeys((printed, text) for _, text, printed in self._latest if printed)
        return [text for _, text in sorted(kept, key=itemgetter(0))[-line_count:]] if line_count > 0 else []

    def store_line(self, now: float, printed_at: float, text: str, rank: int) -> None:
        """Store a pod's line for later listeners and `last_lines`, and check whether its program has ended."""
        if not printed_at or printed_at > self._newest - MAX_DISORDER_SECONDS or len(self._latest) < MAX_REPLAYED_LINES:
            self._latest.append((now, text[:MAX_STORED_CHARACTERS], printed_at))
        self._newest = max(self._newest, printed_at)
        if printed_at:
            self.feed_start(rank, printed_at, text)
        if END_LINE_WORDS in text and is_end_line(text):
            lines = [LogLine(printed, text) for _, text, printed in self._latest if printed]
            if (end := find_log_end(lines, rank)) is not None:
                self.pod_ends[rank] = end
        elif self.pod_ends and is_begin_line(text):
            self.pod_ends.pop(rank, None)

    def reset(self) -> None:
        """Drop all measurements, because another job of the same name begins."""
        self.tests, self.tracks, self.tables, self.unreadable = (), (), TableRecorder(), {}
        self._endings, self._nodes, self.endings_seen, self.pod_ends = {}, {}, ("", 0, -1), {}
        self.ranks, self._starts = RankProgress(), {}

    def set_job_facts(self, jobset: JobSet, fleet: Fleet) -> None:
        self.recipe = jobset.recipe
        every = pod_slots(jobset, fleet)
        self._nodes |= {rank.number: rank.node for rank in every if rank.node}
        self.container_started_at = {each.number: each.pod.main.started for each in every if each.pod and each.pod.main}
        labels = {fleet.nodes[("", node)].accelerator for node in self._nodes.values() if ("", node) in fleet.nodes}
        if len(labels) == 1:
            self.accelerator = labels.pop()
        self.tests = tuple(self._with_job_facts(each) for each in self.tests)

    def _with_job_facts(self, test: MeasuredTest) -> MeasuredTest:
        namespace, job = self.key
        return replace(
            test,
            namespace=namespace,
            job=job,
            uid=self.uid,
            accelerator=self.accelerator,
            nodes=test.nodes or tuple(dict.fromkeys(self._nodes[each] for each in sorted(self._nodes))),
        )

    def record_failures(self, failures: Sequence[PodFailure]) -> bool:
        """Record failed ranks, also as events of the training run; returns whether any is new."""
        before = len(self._endings)
        self._endings |= {(each.attempt, each.rank, each.pod): each for each in failures}
        if self.track is not None:
            self.track.add_failures(self._endings.values())
        return len(self._endings) != before

    def add_known_failures(self) -> None:
        """Add the failed ranks known so far to a training run that has just begun."""
        if self.track is not None and self._endings:
            self.track.add_failures(self._endings.values())


SHORT_LOG_LINES = 250  # lines; to learn a layout costs as much as to parse 300
_NUMBERS = b"0123456789.eE+-, "  # what numbers consist of
_MAX_SIMILAR_LINES = 512  # lines that are read at once if they differ from a step line in numbers only


def read_lines(lines: Sequence[LogLine]) -> tuple[tuple[NcclTest, ...], list[TrainingRun], dict[int, float]]:
    """Parse the lines of one log: its tests, its training runs, and the time of each test's last line by index."""
    text = "".join([f"{line.text}\n" for line in lines])
    tests, printed = _read_tests(lines, text)
    return tests, _read_runs(lines, text), printed


def _read_tests(lines: Sequence[LogLine], text: str) -> tuple[tuple[NcclTest, ...], dict[int, float]]:
    """(tests of a log, by index the print time of each one's last line); rows are parsed in bulk."""
    nccl, printed = trainlog.NcclParser(), dict[int, float]()
    comments = groupby(lines, lambda line: line.text[:7] if "#" in line.text else "")
    for begin, group in comments if nccl.may_be_relevant(text) else ():
        for batch in [[*group]] if begin in {"", "#  Rank"} else ([each] for each in group):
            nccl.read("".join([f"{line.text}\n" for line in batch]).encode())
            printed[len(nccl.growing) - 1] = batch[-1].time
    nccl.close()
    return nccl.tests, printed


def _read_runs(lines: Sequence[LogLine], text: str) -> list[TrainingRun]:
    tracks = list[TrainingRun]()

    def begin_run(program: str) -> TrainingRun:
        tracks.append(TrainingRun(program, keeps_events=False))
        return tracks[-1]

    own, is_short = own_log_formats(), len(lines) < SHORT_LOG_LINES
    training = trainlog.TrainingParser(own, begin_run, is_short=is_short, layouts=known_layouts(own))
    if not own and not training.may_be_relevant(text):
        return tracks
    for _, group in groupby(lines, lambda line: line.text.encode().translate(None, _NUMBERS)):
        alike, at, size = list(group), 0, 1
        if not any(training.may_be_relevant(line.text) for line in alike):
            continue
        while batch := alike[at : at + size]:
            at, before, were_steps = at + size, _count_steps(tracks), False
            if training.feed("".join([f"{line.text}\n" for line in batch]).encode()):
                after = _count_steps(tracks)
                were_steps = after[0] - before[0] == len(batch) or after[1] > before[1]
                for track in tracks:
                    track.sync(batch[-1].time, [line.time for line in batch] if were_steps else ())
            size = min(8 * size, _MAX_SIMILAR_LINES) if were_steps else 1
    training.close()
    for track in tracks:
        track.sync(lines[-1].time)
    return tracks


@lru_cache(maxsize=1)
def known_layouts(_own: tuple[OwnFormat, ...]) -> list[LineLayout]:
    """The layouts of step lines found so far; all logs share them, since many jobs run one program."""
    return []


def _count_steps(runs: Sequence[TrainingRun]) -> tuple[int, int]:
    """The number of steps and of rollbacks in all runs."""
    return sum(len(each.steps) for each in runs), sum(len(each.rewinds) for each in runs)


MAX_RANKS_ALL_READ = 16  # ranks up to which all are read
_LINES_PER_TIME = 16  # lines after which it is noted when they were printed
_SECONDS_PER_TIME = 0.5  # the same, between two of them


def choose_ranks(rank_count: int) -> set[int] | None:
    """The ranks whose lines are parsed; None for all."""
    return None if rank_count <= MAX_RANKS_ALL_READ else {0, rank_count - 1}


def _split_by_time(lines: Sequence[PodLine]) -> Iterator[Sequence[PodLine]]:
    """Split the lines into short batches that were printed about the same time."""
    start = 0
    for at in range(1, len(lines) + 1):
        if at == len(lines) or at - start == _LINES_PER_TIME or lines[at].time - lines[at - 1].time > _SECONDS_PER_TIME:
            yield lines[start:at]
            start = at


class _NcclTables:
    """Parses the tables of NCCL tests in one rank's log."""

    def __init__(self, began_at: float) -> None:
        """`began_at`: print time of the first line that was read."""
        self.ended_tests: list[MeasuredTest] = []
        self.recorder = TableRecorder(began_at)
        self.parser = trainlog.NcclParser()
        self._of: tuple[int, str, str] | None = None
        self._tests: list[MeasuredTest] = []

    def feed_table_lines(self, run_key: tuple[int, str, str], rank: int, lines: Sequence[PodLine]) -> bool:
        """Parse lines of the container run `run_key` (attempt, pod, container); returns whether a test changed."""
        if run_key != self._of:
            self.ended_tests += self._tests
            self.parser, self._of, self._tests = trainlog.NcclParser(), run_key, []
        found = self.parser.feed("\n".join([*(line.text for line in lines), ""]).encode())
        changed = self._store_tests(found, run_key[0], rank, lines[-1].time)
        for each in self._tests if changed else ():
            test = each.test
            ended = test.finished or test.error is not None
            self.recorder.feed_table(each.index, len(test.rows), lines[0].time, lines[-1].time, has_ended=ended)
        return changed

    def _store_tests(self, changed_tests: Sequence[NcclTest], attempt: int, rank: int, time: float) -> bool:
        if not changed_tests:
            return False
        known = {each.index: each for each in self._tests}
        self._tests = []
        for at, test in enumerate(self.parser.tests):
            old = known.get(at)
            fresh = MeasuredTest(test, attempt=attempt, rank=rank, index=len(self.ended_tests) + at, at=time)
            self._tests.append(old if old is not None and old.test == test else fresh)
        return True

    def close(self, rank: int) -> bool:  # whether a test changed
        last = self._tests[-1].at if self._tests else 0.0
        return self._store_tests(self.parser.close(), self._of[0] if self._of else 0, rank, last)

    @property
    def tests(self) -> list[MeasuredTest]:
        return [*self.ended_tests, *self._tests]


class LogReader:
    """Parses the log of one job; `feed_lines` may run in a thread."""

    def __init__(self, measures: JobMeasures, rank_count: int) -> None:
        self._measures = measures
        self._has_several_ranks = rank_count > 1
        self._tables: dict[int, _NcclTables] = {}
        self._training = trainlog.TrainingParser(own_log_formats(), self._begin_run)
        self._tracks: list[TrainingRun] = []
        self._lock = RLock()  # of the runs, whose steps the parser changes
        self._line_counts: dict[tuple[int, int, str, str], int] = {}  # lines of each container so far
        self._time = self._began_at = 0.0  # when the last line was printed, and the first

    def feed_lines(self, lines: Sequence[PodLine]) -> bool:  # whether a measure changed
        """Parse the next lines in order of time; returns whether anything changed."""
        self._began_at = self._began_at or (lines[0].time if lines else 0.0)
        changed = self._feed_tables(lines)
        for line in lines:
            name = line.rank, line.attempt, line.pod, line.container
            number = self._line_counts[name] = self._line_counts.get(name, 0) + 1
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

    def _feed_tables(self, lines: Sequence[PodLine]) -> bool:  # whether a test changed
        groups: dict[tuple[int, int, str, str], list[PodLine]] = {}
        for line in lines:
            groups.setdefault((line.rank, line.attempt, line.pod, line.container), []).append(line)
        changed = False
        for name, group in groups.items():
            rank = name[0]
            tables = self._tables.setdefault(rank, _NcclTables(self._began_at))
            for some in _split_by_time(group):
                changed |= tables.feed_table_lines(name[1:], rank, some)
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

    def _feed_line(self, line: PodLine, line_number: int) -> bool:  # whether a run changed
        before = self._training.unreadable
        with self._lock:
            changed = self._training.read_line(line.text, line_number, line.rank if self._has_several_ranks else None)
            if (unread := self._training.unreadable) is not before and unread is not None:
                self._measures.unreadable["training"] = line.rank, unread
                changed = True
            self._time = line.time
            if changed:
                self._sync_runs(line.time)
        return changed

    def _begin_run(self, program: str) -> TrainingRun:
        self._tracks.append(TrainingRun(program, 0.0 if self._tracks else self._began_at, self._lock))
        self._measures.tracks = tuple(self._tracks)
        self._measures.add_known_failures()
        return self._tracks[-1]

    def _sync_runs(self, time: float) -> None:
        for track in self._tracks[-2:]:
            track.sync(time)
