"""A job's measurements from its log: signs of life, tests, training steps; for lists from the end of the log."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict, deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager, suppress
from math import inf
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from msgspec.structs import replace

from console.errors import ConsoleError
from console.kube.arrivals import CLOCK
from console.kube.objects.jobset import JobSet, JobState
from console.kube.objects.pod import Pod
from console.kube.snapshot import Fleet
from console.logs.line import LogLine, RankLine
from console.logs.log_end import (
    END_WORDS,
    LogEnd,
    combine_ends,
    find_log_end,
    is_begin_line,
    is_end_line,
    read_end,
)
from console.metrics.job_progress import (
    JobProgress,
    compare_with_earlier,
    keep_previous_verdict,
    progress_of_measures,
)
from console.metrics.measured_log import read_lines
from console.metrics.nccl_history import MeasuredTest, NcclHistory
from console.metrics.own_formats import load_own_formats
from console.metrics.seen_time import Span, SpanKind, TableRecorder, end_spans, list_seen
from console.metrics.start_phase import LAUNCHER_STAGE, PULL, StartPhase, StartRecorder, longest_phases, pull_phase
from console.metrics.step_cadence import cadence_of_rows
from console.metrics.training_run import TrainingRun
from console.scheduling.ranks import Rank, first_failure, ranks
from trainlog import RunPosition, UnparsedLines, parse_step

if TYPE_CHECKING:
    from console.config import Thresholds
    from console.kube.watched_cluster import WatchedCluster
    from console.metrics.gpu_metrics import RankGpus
    from console.scheduling.failure import RankFailure

    Key = tuple[str, str]

    ReadTail = Callable[[Pod, int], Awaitable[list[LogLine]]]

    Listener = Callable[[float, str, float], None]  # told when a line was read, its text, and its node's time


class RankProgress:
    """For each rank the time of its last line, and its last step."""

    def __init__(self) -> None:
        self._own = load_own_formats()
        self.heard: dict[int, float] = {}
        self.steps: dict[int, int] = {}
        self.advances: Counter[int] = Counter()  # how often each rank told of another step
        self._totals: dict[int, int] = {}  # steps of each rank's longest bar: that of training

    def add_line(self, rank: int, moment: float, text: str) -> None:
        """Take a line, or a frame of a progress bar."""
        self.heard[rank] = max(moment, self.heard.get(rank, 0.0))
        if "step " in text and LAUNCHER_STAGE.search(text):
            return
        found = parse_step(text, self._own)
        if found is None:
            return
        step, total = found
        if total and total < self._totals.get(rank, 0):
            return
        self._totals[rank] = max(total, self._totals.get(rank, 0))
        self.advances[rank] += self.steps.get(rank) != step
        self.steps[rank] = step

    def steps_behind(self, rank: int) -> int:
        """How many steps a rank is behind the foremost; 0 if unknown or at most one."""
        step = self.steps.get(rank)
        lag = max(self.steps.values()) - step if step is not None else 0
        return lag if lag > 1 else 0


CATCH_UP_SECONDS = 1.0  # seconds within which the next lines of a log come that is read up to now
MAX_REPLAY_SPEED = 100  # seconds of printing read in a second while it goes on; practice clusters run 20 times as fast
MAX_LINE = 1000  # characters of a line that are kept for later listeners
MAX_REPLAYED_LINES = 1000  # latest lines that a new listener gets


class JobMeasures:
    """Tests and training runs of a job, updated while its log is read; `changes` announces updates."""

    def __init__(self, key: tuple[str, str]) -> None:
        self.key = key
        self.uid = ""
        self.recipe = ""
        self.accelerator = ""  # label of the GPUs on the nodes of its ranks; empty: not known
        self.tests: tuple[MeasuredTest, ...] = ()  # in the order they began, those of the first rank before the others'
        self.tables = TableRecorder()  # when the tables of the tests of one rank were printed
        self.tracks: tuple[TrainingRun, ...] = ()  # in the order they began; one goes on over restarts
        self.gpus: Sequence[RankGpus] = ()  # the last reading of its GPUs, where anybody reads them
        self.unreadable: dict[str, tuple[int, UnparsedLines]] = {}  # by "nccl", "training": rank, lines
        self.unread: list[ConsoleError] = []  # why logs were not read, or not to their end, once it is over
        self.over = False  # whether nothing more will come
        self.ends: dict[int, LogEnd] = {}  # by pod, how its program ended
        self.trouble: ConsoleError | None = None  # what keeps the log from being read
        self.endings_seen: tuple[str, int, int] = ("", 0, -1)
        self.ranks = RankProgress()
        self.complete_until: Callable[[Collection[int]], float] = lambda _: inf  # see `JobLog.complete_until`
        self.earlier_phases: Mapping[str, float] = {}  # how long those of its start took at most in earlier runs
        self._starts: dict[int, StartRecorder] = {}  # by pod
        self.started: dict[int, float] = {}  # when the container of each pod did
        self._read_to: tuple[float, float] | None = None  # when the newest line was printed, and read
        self._reads_until = 0.0
        self._listeners: list[Listener] = []
        self._latest: deque[tuple[float, str, float]] = deque(maxlen=MAX_REPLAYED_LINES)
        self._endings: dict[tuple[int, int, str], RankFailure] = {}
        self._nodes: dict[int, str] = {}
        self._woken: set[asyncio.Event] = set()

    @property
    def missing_seconds(self) -> float:
        """Seconds up to now of which lines of the ranks that tell of steps may not have come yet."""
        return max(0.0, time.monotonic() - self.complete_until(self.ranks.advances.keys()))

    @property
    def track(self) -> TrainingRun | None:
        return self.tracks[-1] if self.tracks else None

    @property
    def end(self) -> LogEnd | None:
        """How its program ended; None: it goes on, or its log does not tell."""
        return combine_ends(self.ends.values())

    def list_spans(self, until: float, limits: Thresholds) -> list[Span]:
        """What its log told of its time; `until`: up to when the log is known to have no more, 0.0: to its last line.

        The next step or row is late from when the alarms say so.
        """
        track, end = self.track, self.end
        if end is not None and end.kept:
            spans = list_seen([self.tables, *(each.seen for each in self.tracks)], end.time)
            return end_spans(spans, end.time, max(until, end.time), end.code)
        rhythm = track.cadence() if track else cadence_of_rows(self.tests[-1].test) if self.tests else None
        late_after = rhythm.late_after(limits) if rhythm is not None else limits.warm_up
        if track is not None and track.seen.is_pausing:
            late_after = max(late_after, limits.pause)
        return list_seen([self.tables, *(each.seen for each in self.tracks)], until, late_after)

    @property
    def needs_nan_search(self) -> bool:
        """Whether the loss is NaN, but the step where that began is unknown and was not searched yet."""
        track = self.track
        if track is None or not track.nan or track.earlier is not None:
            return False
        return track.position().nan_from is None

    @property
    def is_reading_old_lines(self) -> bool:
        """Whether the log of before is still being read: later steps than those known wait in it."""
        return CLOCK.now() < self._reads_until and not self.over

    def begin_reading(self) -> None:
        self._read_to, self._reads_until = None, inf

    def on_connected(self) -> None:
        """All connections were opened, so that the first line comes at once, if there is one."""
        if self._read_to is None:
            self.end_batch()

    def begin_batch(self, lines: Sequence[RankLine]) -> None:
        """Detect whether a batch is old output read at once: its times advance faster than the clock."""
        times, now = [line.time for line in lines], CLOCK.now()
        printed, at = self._read_to or (min(times), now)
        newest = max(printed, *times)
        if newest - printed > MAX_REPLAY_SPEED * (now - at) + CATCH_UP_SECONDS:
            self._reads_until = inf
        self._read_to = newest, now

    def end_batch(self) -> None:
        if self._reads_until == inf:
            self._reads_until = CLOCK.now() + CATCH_UP_SECONDS

    def notify(self) -> None:
        for event in self._woken:
            event.set()

    async def follow_changes(self) -> AsyncGenerator[JobMeasures, None]:
        """Yield these measures at once and after each change; at the end raises `trouble`, if there was any."""
        event = asyncio.Event()
        self._woken.add(event)
        try:
            while True:
                yield self
                if self.over:
                    break
                with suppress(TimeoutError):
                    async with asyncio.timeout(1.0):
                        await event.wait()
                event.clear()
        finally:
            self._woken.discard(event)
        if self.trouble is not None:
            raise self.trouble

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

    def feed_line(self, rank: int, printed: float, text: str) -> None:
        """Take a line; `printed` is 0.0 for a frame of a progress bar."""
        now = CLOCK.now()
        self.ranks.add_line(rank, printed or now, text)
        self.store_line(now, printed, text, rank)
        for listener in self._listeners:
            listener(now, text, printed)

    @property
    def first_step_at(self) -> float:
        """When its first step was made, or its first table began; 0.0: not yet."""
        if (track := next((each for each in self.tracks if len(each)), None)) is not None:
            return track.times[0]
        return next((span.start for span in self.tables.list_spans() if span.kind is SpanKind.ROWS), 0.0)

    @property
    def phases(self) -> dict[str, float]:
        """How long each phase before its first step took at most in any pod; empty until that is seen.

        A log that shows no step does not tell a start from the work.
        """
        return {} if not self.first_step_at else longest_phases(each.took for each in self._starts.values())

    @property
    def start(self) -> StartPhase | None:
        """What it does by its log before its first step; None once that is made, and where nothing was printed."""
        read = [each for each in self._starts.values() if each.printed]
        if not read or self.first_step_at or any(each.test.rows for each in self.tests):
            return None
        slowest = min(read, key=lambda each: each.since if each.name else inf)
        last = max(read, key=lambda each: each.printed)
        longest = self.earlier_phases.get(slowest.name, 0.0)
        return StartPhase(slowest.name, slowest.since, last.printed, last.line, longest)

    def feed_start(self, rank: int, printed: float, text: str) -> None:
        """Take a line of a pod for what it does before its first step."""
        if "pod " in text and is_begin_line(text):
            self._starts.pop(rank, None)
        began, recorder = self.first_step_at, self._starts.setdefault(rank, StartRecorder())
        if not began or printed < began:
            recorder.feed(printed, text, self.started.get(rank, 0.0))
        elif recorder.name:
            recorder.end(began)

    def last_lines(self, number: int) -> list[str]:
        """The last lines, oldest first, without progress bars."""
        return [text for _, text, printed in self._latest if printed][-number:] if number > 0 else []

    def store_line(self, now: float, printed: float, text: str, rank: int) -> None:
        """Store a line of a pod for later listeners and for `last_lines`; it may tell that its program has ended."""
        self._latest.append((now, text[:MAX_LINE], printed))
        if printed:
            self.feed_start(rank, printed, text)
        if END_WORDS in text and is_end_line(text):
            lines = [LogLine(printed, text) for _, text, printed in self._latest if printed]
            if (end := find_log_end(lines, rank)) is not None:
                self.ends[rank] = end
        elif self.ends and is_begin_line(text):
            self.ends.pop(rank, None)

    def reset(self) -> None:
        """Drop all measurements, because another job of the same name begins."""
        self.tests, self.tracks, self.tables, self.unreadable = (), (), TableRecorder(), {}
        self._endings, self._nodes, self.endings_seen, self.ends = {}, {}, ("", 0, -1), {}
        self.ranks, self._starts = RankProgress(), {}

    async def find_nan_onset(self, beginnings: NanOnsetFinder, uid: str, pods: Sequence[Pod]) -> None:
        """Search older log lines for the step since which the loss is NaN, if it is still unknown."""
        if self.needs_nan_search and self.track is not None:
            self.track.earlier = await beginnings.find_onset(uid, pods, self.track.position())

    def set_job_facts(self, jobset: JobSet, fleet: Fleet) -> None:
        self.recipe = jobset.recipe
        every = ranks(jobset, fleet)
        self._nodes |= {rank.number: rank.node for rank in every if rank.node}
        self.started = {each.number: each.pod.main.started for each in every if each.pod and each.pod.main}
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

    def record_failures(self, failures: Sequence[RankFailure]) -> bool:
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


POLL_SECONDS = 8.0  # seconds after which a running job is looked at again
MAX_FAILURES = 5  # refused looks at a finished job after which it is not looked at again; each waits twice as long
MAX_CONCURRENT_READS = 4  # logs that are read at once
MAX_JOBS = 32  # jobs that are looked at, those on the screen
READ_TIMEOUT = 6.0  # seconds that reading the end of a log may take
STEP_LINES, TABLE_LINES = 60, 600  # last lines of a log for training steps, and for the table of a test or the pace
LOOK_AGAIN_SECONDS, MAX_PODS_LOOKED_AT = 30.0, 64  # between two looks at the logs of all pods, and pods of one look
END_LINES = 400  # last lines of the log of a pod that failed, which name the reason
NAN_SEARCH_LINES = 20_000  # lines at the end of the log of a run that has diverged, read once: since when


def _shown(progress: JobProgress) -> tuple[object, ...]:
    return replace(progress, at=0.0, printed=0.0), progress.eta, progress.late


def find_end(lines: Sequence[LogLine], pod: int, failed: Rank | None) -> LogEnd | None:
    """How the program of a pod ended by the end of its log; `failed`: the pod that failed first, of a job that did."""
    if failed is None or failed.number != pod:
        return find_log_end(lines, pod, CLOCK.now())
    when = failed.ended.finished if failed.ended else 0.0
    return read_end([line.text for line in lines], failed.exit_code or 1, when, pod, kept=False)


class NanOnsetFinder:
    """Finds the step at which the loss became NaN by reading the log back, once for all readers."""

    def __init__(self, read_tail: ReadTail) -> None:
        self._read_tail = read_tail
        self._known: dict[str, RunPosition] = {}  # by the uid of the JobSet
        self._searched: set[str] = set()  # whose logs were read back to where the loss was lost, or as far as that goes
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    def reset(self) -> None:
        self._known, self._searched = {}, set()

    async def find_onset(self, uid: str, pods: Sequence[Pod], where: RunPosition) -> RunPosition:
        """The position including the step where the loss became NaN, if one of these pods' logs still has it."""
        async with self._locks[uid]:
            if uid in self._known:
                where = where.with_nan_onset(self._known[uid])
            if where.nan and where.nan_from is None and uid not in self._searched:
                for pod in pods:
                    if (earlier := await self._read_earlier_position(uid, pod)) is not None:
                        where = where.with_nan_onset(earlier)
                        break
            self._known[uid] = where
        return where

    async def _read_earlier_position(self, uid: str, pod: Pod) -> RunPosition | None:
        with suppress(ConsoleError, TimeoutError):  # then it says that it is not known
            async with asyncio.timeout(READ_TIMEOUT):
                lines = await self._read_tail(pod, NAN_SEARCH_LINES)
            _, tracks, _ = await asyncio.to_thread(read_lines, lines)
            if tracks:
                self._searched.add(uid)
                return tracks[-1].position()
        return None


class JobProgressReader:
    """The last known progress of each job, for lists of jobs."""

    def __init__(
        self,
        cluster: WatchedCluster,
        kept: Callable[[], NcclHistory],
        pass_line: Callable[[], float],
        read_tail: ReadTail | None = None,
        live: Callable[[Key], JobMeasures | None] = lambda _: None,
        earlier: Callable[[JobSet, str], Awaitable[Sequence[float]]] | None = None,
        earlier_phases: Callable[[JobSet], Awaitable[Mapping[str, float]]] | None = None,
    ) -> None:
        """`live`: returns the measures of a job whose log is being followed, so that its log need not be read.

        `earlier`: TFLOP/s of one GPU in earlier runs of a job's recipe on as many GPUs; `earlier_phases`: how long
        the phases of their start took at most.
        """
        self._earlier, self._earlier_phases = earlier, earlier_phases
        self._cluster, self._kept, self._pass_line, self._live = cluster, kept, pass_line, live
        self._read_tail = read_tail or self._read_tail_of_log
        self.beginnings = NanOnsetFinder(self._read_tail)
        self.known: dict[str, JobProgress] = {}  # by the uid of the JobSet
        self._asked: dict[str, float] = {}
        self._printing: dict[str, int] = {}  # which rank of a job prints, once it is known
        self._over: set[str] = set()
        self._looked: dict[str, float] = {}  # when the logs of all pods of a job were looked at for an end
        self._ends: dict[str, LogEnd | None] = {}  # what that found
        self._believed = WeakValueDictionary[str, JobMeasures]()  # of followed logs those read up to what was known
        self._failed: Counter[str] = Counter()  # how often the log of a finished job could not be read

    def reset(self) -> None:
        """Drop everything, because the cluster has changed."""
        self.known, self._asked, self._printing, self._over, self._failed = {}, {}, {}, set(), Counter()
        self._looked, self._ends = {}, {}
        self._believed.clear()
        self.beginnings.reset()

    def progress_of(self, uid: str) -> JobProgress | None:
        return self.known.get(uid)

    async def update(self, keys: Sequence[Key]) -> bool:
        """Update those of these jobs that are due, by measures or the logs' ends; returns whether anything changed."""
        now, gate = time.monotonic(), asyncio.Semaphore(MAX_CONCURRENT_READS)
        jobsets = [jobset for key in keys if (jobset := self._cluster.fleet.jobsets.get(key))]
        live = {each.uid: measures for each in jobsets if (measures := self._live(each.key)) is not None}
        progress = (
            (uid, progress_of_measures(measures, CLOCK.now() - measures.missing_seconds, self._pass_line()))
            for uid, measures in live.items()
            if not measures.is_reading_old_lines
        )
        followed = {
            uid: found for uid, found in progress if found is not None and self._has_caught_up(uid, live[uid], found)
        }
        by_uid = {each.uid: each for each in jobsets}
        for uid, found in followed.items():
            if found.start is not None and self._earlier_phases is not None:
                live[uid].earlier_phases = await self._earlier_phases(by_uid[uid])
        changed = [
            self._store_progress(
                uid, await self._find_end(by_uid[uid], await self._compare(by_uid[uid], found, live[uid].accelerator))
            )
            for uid, found in followed.items()
        ]
        soon = {uid for uid, measures in live.items() if measures.is_reading_old_lines and uid in self.known}
        due = [each for each in jobsets[:MAX_JOBS] if each.uid not in {*followed, *soon} and self._is_due(each, now)]

        async def update_job(jobset: JobSet) -> bool:
            async with gate:
                return await self._read_progress(jobset)

        return any([*changed, *await asyncio.gather(*(update_job(jobset) for jobset in due))])

    async def _find_end(self, jobset: JobSet, found: JobProgress) -> JobProgress:
        """The progress with the end of any pod's program, where the pod that tells steps tells no more of them."""
        if not found.late or found.nan or jobset.finished:
            return found
        uid, now = jobset.uid, time.monotonic()
        if now > self._looked.get(uid, -LOOK_AGAIN_SECONDS) + LOOK_AGAIN_SECONDS:
            every = [(rank.number, rank.pod) for rank in ranks(jobset, self._cluster.fleet) if rank.pod]
            gate = asyncio.Semaphore(MAX_CONCURRENT_READS)

            async def read_end(number: int, pod: Pod) -> LogEnd | None:
                with suppress(ConsoleError, TimeoutError):  # then it is not known to have ended
                    async with gate, asyncio.timeout(READ_TIMEOUT):
                        return find_log_end(await self._read_tail(pod, STEP_LINES), number, CLOCK.now())
                return None

            ends = await asyncio.gather(*(read_end(*each) for each in every[:MAX_PODS_LOOKED_AT]))
            self._looked[uid], self._ends[uid] = now, combine_ends(filter(None, ends))
        return replace(found, end=self._ends[uid])

    async def _compare(self, jobset: JobSet, found: JobProgress, accelerator: str) -> JobProgress:
        if self._earlier is None or found.speed is None:
            return found
        return compare_with_earlier(found, await self._earlier(jobset, found.speed_metric), accelerator)

    def _has_caught_up(self, uid: str, measures: JobMeasures, found: JobProgress) -> bool:
        """Whether a log that somebody began to follow has been read up to what is known; from then on it is believed.

        A busy machine reads the lines of before with pauses in which nothing tells that more of them are to come.
        """
        if self._believed.get(uid) is not measures and found.is_older_than(self.known.get(uid)):
            return False
        self._believed[uid] = measures
        return True

    def _store_progress(self, uid: str, found: JobProgress) -> bool:
        """Store the progress of a job; returns whether it changed."""
        before = self.known.get(uid)
        self.known[uid] = found = keep_previous_verdict(before, found)
        return before is None or _shown(before) != _shown(found)

    def _is_due(self, jobset: JobSet, now: float) -> bool:
        if jobset.state in {JobState.PENDING, JobState.STOPPING} or jobset.uid in self._over:
            return False
        again = POLL_SECONDS * 2.0 ** min(self._failed[jobset.uid], MAX_FAILURES)
        if now < self._asked.get(jobset.uid, -again) + again:
            return False
        self._asked[jobset.uid] = now
        return True

    async def _read_progress(self, jobset: JobSet) -> bool:
        pods = [(rank.number, rank.pod) for rank in ranks(jobset, self._cluster.fleet) if rank.pod]
        known = self._printing.get(jobset.uid)
        likely = [each for each in pods if each[0] == known] or list(dict.fromkeys([*pods[:1], *pods[-1:]]))
        over, failed, in_time = jobset.finished, False, True
        first = first_failure(jobset, self._cluster.fleet) if jobset.state is JobState.FAILED else None
        likely = list(
            dict.fromkeys([*((number, pod) for number, pod in pods if first and first.number == number), *likely])
        )
        number_of_lines = STEP_LINES if over and not jobset.recipe.startswith("nccl") else TABLE_LINES
        ends: list[LogEnd] = []
        about = JobMeasures(jobset.key)
        about.set_job_facts(jobset, self._cluster.fleet)
        for number, pod in likely:
            assert pod is not None
            if pod.main is None or pod.main.state == "waiting":
                continue
            try:
                async with asyncio.timeout(READ_TIMEOUT):
                    lines = await self._read_tail(pod, max(number_of_lines, END_LINES) if first else number_of_lines)
            except (ConsoleError, TimeoutError) as error:
                failed = True  # the list stays as it was; the job's page says why its log cannot be read
                in_time = in_time and not isinstance(error, TimeoutError)
                continue
            ends += filter(None, [find_end(lines, number, first)])
            for line in lines:
                about.feed_start(number, line.time, line.text)
            if await self._read_rank(jobset, number, pod, lines, combine_ends(ends)):
                if over:
                    self._over.add(jobset.uid)
                return True
        changed = bool(ends) and self._store_progress(
            jobset.uid, JobProgress(end=combine_ends(ends), at=CLOCK.now(), printed=max(each.time for each in ends))
        )
        if not ends and not over and not failed:
            changed = await self._store_start(jobset, about.start)
        self._failed[jobset.uid] += over and failed
        if over and (not failed or (in_time and self._failed[jobset.uid] >= MAX_FAILURES)):
            self._over.add(jobset.uid)
        return changed

    async def _store_start(self, jobset: JobSet, start: StartPhase | None) -> bool:
        """Store what a job does of which no step is known yet; returns whether that changed."""
        known = self.known.get(jobset.uid)
        if known is not None and known.start is None:
            return False
        usual = await self._earlier_phases(jobset) if self._earlier_phases is not None else {}
        start = pull_phase(ranks(jobset, self._cluster.fleet), usual.get(PULL, 0.0)) or start
        if start is None:
            return False
        start = replace(start, longest=usual.get(start.name, 0.0))
        return self._store_progress(jobset.uid, JobProgress(start=start, at=CLOCK.now(), printed=start.printed))

    async def _read_rank(
        self, jobset: JobSet, rank: int, pod: Pod, lines: Sequence[LogLine], end: LogEnd | None
    ) -> bool:
        now = CLOCK.now()
        last = lines[-1].time if lines else now
        tests, tracks, printed = read_lines(lines)
        about = JobMeasures(jobset.key)
        about.uid = jobset.uid
        about.tests = tuple(
            MeasuredTest(test, attempt=jobset.restarts, rank=rank, index=at, at=printed.get(at, last))
            for at, test in enumerate(tests)
        )
        about.tracks = tuple(tracks)
        about.set_job_facts(jobset, self._cluster.fleet)
        found = progress_of_measures(about, now, self._pass_line())
        if found is None:
            return False
        self._printing[jobset.uid] = rank
        ended = [each for each in about.tests if each.test.finished and each.test.rows]
        if ended:
            names = {each.name: each for each in self._kept().tests}
            await self._kept().store(each for each in ended if each.name not in names)
        where = await self.beginnings.find_onset(jobset.uid, [pod], found.where)
        found = replace(found, where=where, nan_words=where.nan_words, loss=where.loss, end=end)
        found = await self._find_end(jobset, await self._compare(jobset, found, about.accelerator))
        return self._store_progress(jobset.uid, found)

    async def _read_tail_of_log(self, pod: Pod, lines: int) -> list[LogLine]:
        from console.logs import container_log

        wanted = container_log.LogRequest(
            pod.namespace, pod.name, pod.main.name if pod.main else "", lines, follow=False
        )
        async with aclosing(container_log.follow_log(self._cluster.current_connection.client, wanted)) as printed:
            return [line async for line in printed]
