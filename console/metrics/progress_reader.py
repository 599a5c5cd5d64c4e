"""How far each job of a list is, read from the ends of logs."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakValueDictionary

from msgspec.structs import replace

from console.errors import ConsoleError
from console.kube.arrivals import SERVER_CLOCK
from console.kube.objects.jobset import JobSet, JobState, RecipeKind, recipe_kind
from console.kube.objects.pod import Pod
from console.kube.snapshot import Fleet
from console.logs.line import LogLine
from console.logs.log_end import LogEnd, combine_ends, find_log_end, read_end
from console.metrics.health import foreseen_ends
from console.metrics.job_measures import JobMeasures, read_lines
from console.metrics.job_progress import JobProgress, compare_with_earlier, keep_previous_verdict, progress_of_measures
from console.metrics.nccl_history import MeasuredTest, NcclHistory
from console.metrics.start_phase import PULL_PHASE, StartPhase, pull_phase
from console.scheduling.pod_slots import PodSlot, first_failure, pod_slots
from trainlog import RunPosition

if TYPE_CHECKING:
    from console.kube.watched_cluster import WatchedCluster

ReadTail = Callable[[Pod, int], Awaitable[list[LogLine]]]
POLL_SECONDS = 8.0  # seconds after which a running job is looked at again
PHASE_SECONDS = 4 * POLL_SECONDS  # seconds after which what a job does before its first step is not known any more
MAX_FAILURES = 5  # refused looks at a finished job after which it is not looked at again; each waits twice as long
MAX_CONCURRENT_READS = 4  # logs that are read at once
MAX_JOBS = 32  # jobs that are looked at, those on the screen
READ_TIMEOUT = 6.0  # seconds that reading the end of a log may take
STEP_TAIL_LINES, TABLE_TAIL_LINES = 60, 600  # for training steps, and for the table of a test or the pace of steps
LOOK_AGAIN_SECONDS, MAX_PODS_LOOKED_AT = 30.0, 64  # between two looks at the logs of all pods, and pods of one look
FAILURE_TAIL_LINES = 400  # last lines of the log of a pod that failed, which name the reason
NAN_SEARCH_LINES = 20_000  # lines at the end of the log of a run that has diverged, read once: since when


def _shown(progress: JobProgress) -> tuple[object, ...]:
    return replace(progress, at=0.0, printed=0.0), progress.eta, progress.late


def find_end(lines: Sequence[LogLine], pod: int, failed: PodSlot | None) -> LogEnd | None:
    """How a pod's program ended, by the end of its log; `failed`: the first failed pod of a failed job."""
    if failed is None or failed.number != pod:
        return find_log_end(lines, pod, SERVER_CLOCK.now())
    when = failed.ended.finished if failed.ended else 0.0
    return read_end([line.text for line in lines], failed.exit_code or 1, when, pod, kept=False)


def _keep_only(uids: Collection[str], *kept: dict[str, Any]) -> None:
    for each in kept:
        for uid in [uid for uid in each if uid not in uids]:
            del each[uid]


class NanOnsetFinder:
    """Finds the step at which the loss became NaN by reading the log back, once for all readers."""

    def __init__(self, read_tail: ReadTail) -> None:
        self._read_tail = read_tail
        self._known: dict[str, RunPosition] = {}  # by the uid of the JobSet
        self._searched: set[str] = set()  # whose logs were read back to where the loss was lost, or as far as that goes
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    def reset(self) -> None:
        self._known, self._searched = {}, set()

    def keep_only(self, uids: Collection[str]) -> None:
        _keep_only(uids, self._known, self._locks)
        self._searched.intersection_update(uids)

    async def complete(self, measures: JobMeasures, uid: str, pods: Sequence[Pod]) -> None:
        """Search older log lines for the step since which the loss is NaN, if it is still unknown."""
        if measures.needs_nan_search and measures.track is not None:
            measures.track.earlier = await self.find_onset(uid, pods, measures.track.position())

    async def find_onset(self, uid: str, pods: Sequence[Pod], where: RunPosition, since: float = 0.0) -> RunPosition:
        """`where`, with the step at which the loss became NaN added if the log of one of these pods still has it.

        `since`: when the oldest step read, whose loss is NaN already, was printed, in epoch seconds; 0.0: not known.
        """
        async with self._locks[uid]:
            if uid in self._known:
                where = where.with_nan_onset(self._known[uid])
            if where.nan and where.nan_from is None and uid not in self._searched:
                for pod in pods:
                    if (earlier := await self._read_earlier_position(uid, pod, where, since)) is not None:
                        where = where.with_nan_onset(earlier)
                        break
            self._known[uid] = where
        return where

    async def _read_earlier_position(self, uid: str, pod: Pod, where: RunPosition, since: float) -> RunPosition | None:
        with suppress(ConsoleError, TimeoutError):  # then it says that it is not known
            async with asyncio.timeout(READ_TIMEOUT):
                lines = await self._read_tail(pod, NAN_SEARCH_LINES)
            for some in ([line for line in lines if line.time <= since], lines):
                _, tracks, _ = await asyncio.to_thread(read_lines, some)
                position = tracks[-1].position() if tracks else RunPosition()
                if tracks and (some is lines or (position.nan and position.step == where.nan_by)):
                    self._searched.add(uid)
                    return position
        return None


class ProgressSource(Protocol):
    """Where `JobProgressReader` gets test history, earlier runs and measures of followed jobs."""

    @property
    def pass_line(self) -> float: ...
    @property
    def test_history(self) -> NcclHistory: ...
    def find_followed(self, key: tuple[str, str]) -> JobMeasures | None: ...
    async def earlier_phases(self, jobset: JobSet) -> Mapping[str, float]: ...
    async def earlier_speeds(self, jobset: JobSet, metric: str) -> Sequence[float]: ...


class JobProgressReader:
    """The last known progress of each job, for lists of jobs."""

    def __init__(
        self,
        cluster: WatchedCluster,
        service: ProgressSource,
        read_tail: ReadTail | None = None,
    ) -> None:
        self._cluster, self._service = cluster, service
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

    def _forget_gone(self) -> None:
        """Drop what is known of jobs that are not in the cluster any more."""
        there = {each.uid for each in self._cluster.fleet.jobsets.values()}
        _keep_only(there, self.known, self._asked, self._printing, self._looked, self._ends, self._failed)
        self._over.intersection_update(there)
        self.beginnings.keep_only(there)

    def progress_of(self, uid: str) -> JobProgress | None:
        """The last known progress of a job; None where it may be past what it did before its first step by now."""
        found = self.known.get(uid)
        if found is None or found.start is None or found.end is not None:
            return found
        fleet = self._cluster.fleet
        jobset = fleet.jobset_by_uid.get(uid)
        live = self._service.find_followed(jobset.key) if jobset is not None else None
        past = (live is not None and live.has_begun) or (
            SERVER_CLOCK.now() - found.at > PHASE_SECONDS and not found.late
        )
        if not past and jobset is not None and found.start.name == PULL_PHASE:
            past = pull_phase(pod_slots(jobset, fleet), 0.0) is None
        return None if past else found

    def foresee_ends(self, fleet: Fleet) -> tuple[dict[str, float], dict[str, str]]:
        """See `foreseen_ends`; may run in a thread."""
        return foreseen_ends(fleet, dict(self.known))

    async def update(self, keys: Sequence[tuple[str, str]]) -> bool:
        """Update those of these jobs that are due, by measures or the logs' ends; returns whether anything changed."""
        now, gate = time.monotonic(), asyncio.Semaphore(MAX_CONCURRENT_READS)
        self._forget_gone()
        changed, due = False, list[JobSet]()
        for place, jobset in enumerate(filter(None, map(self._cluster.fleet.jobsets.get, keys))):
            live = self._service.find_followed(jobset.key)
            if live is not None and live.is_reading_old_lines and jobset.uid in self.known:
                continue
            found = self._progress_of_followed(jobset, live) if live is not None else None
            if live is None or found is None:
                due += [jobset] if place < MAX_JOBS and self._is_due(jobset, now) else []
                continue
            if found.start is not None:
                live.earlier_phases = await self._service.earlier_phases(jobset)
            changed |= await self._complete(jobset, found, live.accelerator)

        async def update_job(jobset: JobSet) -> bool:
            async with gate:
                return await self._read_progress(jobset)

        return any(await asyncio.gather(*(update_job(jobset) for jobset in due))) or changed

    def _progress_of_followed(self, jobset: JobSet, live: JobMeasures) -> JobProgress | None:
        if live.is_reading_old_lines:
            return None
        found = progress_of_measures(live, SERVER_CLOCK.now() - live.missing_seconds, self._service.pass_line)
        return found if found is not None and self._has_caught_up(jobset.uid, live, found) else None

    async def _complete(self, jobset: JobSet, found: JobProgress, accelerator: str) -> bool:
        """Store the progress, compared with earlier runs; returns whether it changed."""
        if found.speed is not None:
            earlier = await self._service.earlier_speeds(jobset, found.speed_metric)
            found = compare_with_earlier(found, earlier, accelerator)
        return self._store_progress(jobset.uid, await self._find_end(jobset, found))

    async def _find_end(self, jobset: JobSet, found: JobProgress) -> JobProgress:
        """The progress with how the program ended, searched in all pods once the reporting pod prints no more steps."""
        if not found.late or found.nan or jobset.finished:
            return found
        uid, now = jobset.uid, time.monotonic()
        if now > self._looked.get(uid, -LOOK_AGAIN_SECONDS) + LOOK_AGAIN_SECONDS:
            every = [(slot.number, slot.pod) for slot in pod_slots(jobset, self._cluster.fleet) if slot.pod]
            gate = asyncio.Semaphore(MAX_CONCURRENT_READS)

            async def read_end(number: int, pod: Pod) -> LogEnd | None:
                with suppress(ConsoleError, TimeoutError):  # then it is not known to have ended
                    async with gate, asyncio.timeout(READ_TIMEOUT):
                        return find_log_end(await self._read_tail(pod, STEP_TAIL_LINES), number, SERVER_CLOCK.now())
                return None

            ends = await asyncio.gather(*(read_end(*each) for each in every[:MAX_PODS_LOOKED_AT]))
            self._looked[uid], self._ends[uid] = now, combine_ends(filter(None, ends))
        return replace(found, end=self._ends[uid])

    def _has_caught_up(self, uid: str, measures: JobMeasures, found: JobProgress) -> bool:
        """Whether a newly followed log has reached the known progress, after which the log is used instead.

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
        pods = [(slot.number, slot.pod) for slot in pod_slots(jobset, self._cluster.fleet) if slot.pod]
        known = self._printing.get(jobset.uid)
        likely = [each for each in pods if each[0] == known] or list(dict.fromkeys([*pods[:1], *pods[-1:]]))
        over, failed, in_time = jobset.finished, False, True
        first = first_failure(jobset, self._cluster.fleet) if jobset.state is JobState.FAILED else None
        likely = list(
            dict.fromkeys([*((number, pod) for number, pod in pods if first and first.number == number), *likely])
        )
        number_of_lines = (
            TABLE_TAIL_LINES if not over or recipe_kind(jobset.recipe) is RecipeKind.NCCL else STEP_TAIL_LINES
        )
        ends: list[LogEnd] = []
        about = JobMeasures(jobset.key)
        about.set_job_facts(jobset, self._cluster.fleet)
        for number, pod in likely:
            assert pod is not None
            if pod.main is None or pod.main.state == "waiting":
                continue
            try:
                async with asyncio.timeout(READ_TIMEOUT):
                    lines = await self._read_tail(
                        pod, max(number_of_lines, FAILURE_TAIL_LINES) if first else number_of_lines
                    )
            except (ConsoleError, TimeoutError) as error:
                failed = True  # the list stays as it was; the job's page says why its log cannot be read
                in_time = in_time and not isinstance(error, TimeoutError)
                continue
            ends += filter(None, [find_end(lines, number, first)])
            if await self._read_rank(jobset, number, pod, lines, combine_ends(ends)):
                if over:
                    self._over.add(jobset.uid)
                return True
            for line in lines:
                about.feed_start(number, line.time, line.text)
        changed = bool(ends) and self._store_progress(
            jobset.uid,
            JobProgress(end=combine_ends(ends), at=SERVER_CLOCK.now(), printed=max(each.time for each in ends)),
        )
        if not ends and not over and not failed:
            changed = await self._store_start(jobset, about.start)
        self._failed[jobset.uid] += over and failed
        if over and (not failed or (in_time and self._failed[jobset.uid] >= MAX_FAILURES)):
            self._over.add(jobset.uid)
        return changed

    async def _store_start(self, jobset: JobSet, start: StartPhase | None) -> bool:
        """Store the start phase of a job without steps; returns whether it changed."""
        known = self.known.get(jobset.uid)
        if known is not None and known.start is None:
            return False
        usual = await self._service.earlier_phases(jobset)
        start = pull_phase(pod_slots(jobset, self._cluster.fleet), usual.get(PULL_PHASE, 0.0)) or start
        if start is None:
            return False
        start = replace(start, longest=usual.get(start.name, 0.0))
        return self._store_progress(jobset.uid, JobProgress(start=start, at=SERVER_CLOCK.now(), printed=start.printed))

    async def _read_rank(
        self, jobset: JobSet, rank: int, pod: Pod, lines: Sequence[LogLine], end: LogEnd | None
    ) -> bool:
        now = SERVER_CLOCK.now()
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
        found = progress_of_measures(about, now, self._service.pass_line)
        if found is None:
            return False
        self._printing[jobset.uid] = rank
        ended = [each for each in about.tests if each.test.finished and each.test.rows]
        if ended:
            kept = self._service.test_history
            await kept.store([each for each in ended if each.name not in kept.stored])
        since = tracks[-1].times[0] if tracks and len(tracks[-1]) and not tracks[-1].rewinds else 0.0
        where = await self.beginnings.find_onset(jobset.uid, [pod], found.where, since)
        found = replace(found, where=where, nan_words=where.nan_words, loss=where.loss, end=end)
        return await self._complete(jobset, found, about.accelerator)

    async def _read_tail_of_log(self, pod: Pod, lines: int) -> list[LogLine]:
        from console.logs.container_log import read_tail

        return await read_tail(self._cluster.current_connection.client, pod, lines)
