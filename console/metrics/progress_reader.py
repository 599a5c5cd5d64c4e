"""The progress of each job of a list, read from the ends of logs."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakValueDictionary

from msgspec import Struct, field, msgpack
from msgspec.structs import replace

from console.errors import ConsoleError
from console.kube.objects.jobset import JobSet, JobState, RecipeKind, recipe_kind
from console.kube.objects.pod import Pod
from console.kube.snapshot import Fleet
from console.kube.stream_completeness import SERVER_CLOCK
from console.logs.log_end import LogEnd, combine_ends, find_log_end, read_end
from console.logs.log_line import LogLine
from console.metrics.health import job_health, why_end_unknown
from console.metrics.job_measures import JobMeasures, read_lines
from console.metrics.job_progress import JobProgress, compare_with_earlier, keep_previous_verdict, progress_of_measures
from console.metrics.log_result_cache import EndedJob, LogResultCache
from console.metrics.nccl_history import MeasuredTest, NcclHistory
from console.metrics.start_phase import PULL_PHASE, StartPhase, pull_phase
from console.scheduling.pod_slots import PodSlot, first_failure, pod_slots
from trainlog import RunPosition

if TYPE_CHECKING:
    from console.kube.watched_cluster import WatchedCluster

ReadTail = Callable[[Pod, int], Awaitable[list[LogLine]]]
Tails = Mapping[int, Sequence[LogLine]]  # by the number of the pod
JOB_POLL_SECONDS = 8.0  # seconds after which a running job is looked at again
PHASE_SECONDS = 4 * JOB_POLL_SECONDS  # seconds after which what a job does before its first step is not known any more
MAX_REFUSED_READS = 5  # refused looks at a finished job after which it is not looked at again; each waits twice as long
MAX_CONCURRENT_READS = 4  # logs that are read at once
MAX_WATCHED_JOBS = 32  # jobs that are looked at, those on the screen
LOG_TAIL_TIMEOUT = 6.0  # seconds that reading the end of a log may take
STEP_TAIL_LINES, TABLE_TAIL_LINES = 60, 600  # for training steps, and for the table of a test or the pace of steps
LOOK_AGAIN_SECONDS, MAX_PODS_LOOKED_AT = 30.0, 64  # between two looks at the logs of all pods, and pods of one look
SETTLED_SECONDS = 120.0  # seconds after the last line of a job that is over in which its log may still tell more
FAILURE_TAIL_LINES = 400  # last lines of the log of a pod that failed, which name the reason
NAN_SEARCH_LINES = 20_000  # lines at the end of the log of a run that has diverged, read once: since when


def _visible_state(progress: JobProgress) -> tuple[object, ...]:
    return replace(progress, at=0.0, printed=0.0), progress.eta, progress.late_text


def find_end(lines: Sequence[LogLine], pod: int, failed_pod: PodSlot | None) -> LogEnd | None:
    """The end of a pod's program by its log, None if it shows none; `failed_pod`: a failed job's first failed pod."""
    if failed_pod is None or failed_pod.number != pod:
        return find_log_end(lines, pod, SERVER_CLOCK.now())
    when = failed_pod.ended.finished_at if failed_pod.ended else 0.0
    return read_end([line.text for line in lines], failed_pod.exit_code or 1, when, pod, is_pod_kept=False)


def _keep_only(uids: Collection[str], *kept: dict[str, Any]) -> None:
    for each in kept:
        for uid in [uid for uid in each if uid not in uids]:
            del each[uid]


class NanOnsetFinder:
    """Finds the step at which a loss became NaN by reading the log backwards, once for all callers."""

    def __init__(self, read_tail: ReadTail, log_cache: Callable[[], LogResultCache] = LogResultCache) -> None:
        self._read_tail, self._log_cache = read_tail, log_cache
        self._positions: dict[str, RunPosition] = {}  # by the uid of the JobSet
        self._searched: set[str] = set()  # whose logs were read back to where the loss was lost, or as far as that goes
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    def reset(self) -> None:
        self._positions, self._searched = {}, set()

    def keep_only(self, uids: Collection[str]) -> None:
        _keep_only(uids, self._positions, self._locks)
        self._searched.intersection_update(uids)

    async def add_onset(self, measures: JobMeasures, uid: str, pods: Sequence[Pod]) -> None:
        """Add to the measures the step at which the loss became NaN, searched in older lines if still unknown."""
        if measures.needs_nan_search and measures.track is not None:
            measures.track.earlier = await self.find_onset(uid, pods, measures.track.position())

    async def find_onset(self, uid: str, pods: Sequence[Pod], position: RunPosition, since: float = 0.0) -> RunPosition:
        """`position` with the step at which the loss became NaN, if the log of one of these pods still has it."""
        async with self._locks[uid]:
            if uid in self._positions:
                position = position.with_nan_onset(self._positions[uid])
            if position.nan and position.nan_from is None and uid not in self._searched:
                learned, by, last = self._log_cache(), position.nan_by or 0, position.step or 0
                if (earlier := learned.diverged(uid, position)) is not None:
                    position = position.with_nan_onset(earlier)
                else:
                    for pod in pods:
                        if (found := await self._read_earlier_position(uid, pod, position, since)) is not None:
                            position = position.with_nan_onset(found)
                            break
                if uid in self._searched or (earlier is not None and (earlier.step or 0) < (by + last) / 2):
                    learned.keep(uid, diverged=position)
            self._positions[uid] = position
        return position

    async def _read_earlier_position(self, uid: str, pod: Pod, where: RunPosition, since: float) -> RunPosition | None:
        with suppress(ConsoleError, TimeoutError):  # then it says that it is not known
            async with asyncio.timeout(LOG_TAIL_TIMEOUT):
                lines = await self._read_tail(pod, NAN_SEARCH_LINES)
            for some in ([line for line in lines if line.time <= since], lines):
                _, tracks, _ = await asyncio.to_thread(read_lines, some)
                position = tracks[-1].position() if tracks else RunPosition()
                if tracks and (some is lines or (position.nan and position.step == where.nan_by)):
                    self._searched.add(uid)
                    return position
        return None


class _ReadLogs(Struct):
    """The results of reading the last lines of a job's logs."""

    progress: JobProgress | None = None
    by_steps: bool = False  # whether one of them shows steps or rows; else all were read
    tails: dict[int, Sequence[LogLine]] = field(default_factory=dict)
    errors: list[Exception] = field(default_factory=list)  # why others could not be read

    @property
    def newest(self) -> float:
        """The print time (epoch seconds) of the latest line; 0.0 if there is none."""
        return max((lines[-1].time for lines in self.tails.values() if lines), default=0.0)


class ProgressSource(Protocol):
    """The sources of `JobProgressReader` besides logs: test history, earlier runs, measurements of followed jobs."""

    @property
    def pass_line(self) -> float: ...
    @property
    def test_history(self) -> NcclHistory: ...
    def find_followed(self, key: tuple[str, str]) -> JobMeasures | None: ...
    async def earlier_phases(self, jobset: JobSet) -> Mapping[str, float]: ...
    async def earlier_speeds(self, jobset: JobSet, metric: str) -> Sequence[float]: ...


class JobProgressReader:
    """Finds the progress of each job from the ends of its logs, for lists of jobs; the last result is kept."""

    def __init__(
        self,
        cluster: WatchedCluster,
        service: ProgressSource,
        read_tail: ReadTail | None = None,
        log_cache: Callable[[], LogResultCache] | None = None,
    ) -> None:
        self._cluster, self._service = cluster, service
        self._read_tail = read_tail or self._read_tail_of_log
        self._unstored = LogResultCache()
        self._log_cache = log_cache or (lambda: self._unstored)
        self.nan_finder = NanOnsetFinder(self._read_tail, self._log_cache)
        self.known: dict[str, JobProgress] = {}  # by the uid of the JobSet
        self._read_at: dict[str, float] = {}
        self._ended_uids: set[str] = set()
        self._read: set[str] = set()  # jobs whose logs were read at least once, though they may have shown nothing
        self._ends_read_at: dict[str, float] = {}  # when the logs of all pods of a job were looked at for an end
        self._ends: dict[str, LogEnd | None] = {}  # what that found
        self._trusted = WeakValueDictionary[str, JobMeasures]()  # of followed logs those read up to what was known
        self._failed_reads: Counter[str] = Counter()  # how often the log of a finished job could not be read

    def reset(self) -> None:
        """Drop everything, because the cluster has changed."""
        self.known, self._read_at, self._ended_uids, self._failed_reads, self._read = {}, {}, set(), Counter(), set()
        self._ends_read_at, self._ends, self._unstored = {}, {}, LogResultCache()
        self._trusted.clear()
        self.nan_finder.reset()

    def _forget_gone(self) -> None:
        """Drop the state of jobs that are no longer in the cluster."""
        there = {each.uid for each in self._cluster.fleet.jobsets.values()}
        _keep_only(there, self.known, self._read_at, self._ends_read_at, self._ends, self._failed_reads)
        self._ended_uids.intersection_update(there)
        self._read.intersection_update(there)
        self.nan_finder.keep_only(there)

    def progress_of(self, uid: str) -> JobProgress | None:
        """The last known progress of a job; None if that was before its first step and may be out of date."""
        found = self.known.get(uid)
        if found is None or found.start is None or found.end is not None:
            return found
        fleet = self._cluster.fleet
        jobset = fleet.jobset_by_uid.get(uid)
        live = self._service.find_followed(jobset.key) if jobset is not None else None
        past = (live is not None and live.has_begun) or (
            SERVER_CLOCK.now() - found.at > PHASE_SECONDS and not found.late_text
        )
        if not past and jobset is not None and found.start.name == PULL_PHASE:
            past = pull_phase(pod_slots(jobset, fleet), 0.0) is None
        return None if past else found

    def is_unread(self, jobset: JobSet) -> bool:
        """Whether the job's progress is unknown because none of its logs has been read yet."""
        was_read = jobset.uid in self.known or jobset.uid in self._read
        return not was_read and self._service.find_followed(jobset.key) is None

    def foresee_ends(self, fleet: Fleet) -> tuple[dict[str, float], dict[str, str]]:
        """By JobSet uid: seconds until jobs end, and verdicts that make the end unknown. May run in a thread."""
        left, open_ends = {}, {}
        for uid, each in dict(self.known).items():
            if (jobset := fleet.jobset_by_uid.get(uid)) is None:
                continue
            if (seconds := each.seconds_left) is not None:
                left[uid] = max(0.0, each.at + seconds - fleet.at)
            if words := why_end_unknown(job_health(jobset, fleet, job_progress=each)):
                open_ends[uid] = words
        return left, open_ends

    async def update(self, keys: Sequence[tuple[str, str]]) -> bool:
        """Update the jobs that are due, by measures or the ends of their logs; returns whether anything changed."""
        now, gate = time.monotonic(), asyncio.Semaphore(MAX_CONCURRENT_READS)
        self._forget_gone()
        changed, due = False, list[JobSet]()
        for place, jobset in enumerate(filter(None, map(self._cluster.fleet.jobsets.get, keys))):
            live = self._service.find_followed(jobset.key)
            if live is not None and live.is_reading_old_lines and jobset.uid in self.known:
                continue
            found = self._progress_of_followed(jobset, live) if live is not None else None
            if live is None or found is None:
                due += [jobset] if place < MAX_WATCHED_JOBS and self._is_due(jobset, now) else []
                continue
            if found.start is not None:
                live.earlier_phases = await self._service.earlier_phases(jobset)
            changed |= await self._store_compared(jobset, found, live.accelerator)

        async def update_job(jobset: JobSet) -> bool:
            async with gate:
                changed, first = await self._read_progress(jobset), jobset.uid not in self._read
                self._read.add(jobset.uid)
                return changed or first

        if not due:
            return changed
        learned = self._log_cache()
        await asyncio.to_thread(learned.load)
        changed |= any(await asyncio.gather(*(update_job(jobset) for jobset in due)))
        if learned.has_news:
            await asyncio.to_thread(learned.store)
        return changed

    def _progress_of_followed(self, jobset: JobSet, measures: JobMeasures) -> JobProgress | None:
        if measures.is_reading_old_lines:
            return None
        found = progress_of_measures(measures, SERVER_CLOCK.now() - measures.missing_seconds, self._service.pass_line)
        return found if found is not None and self._has_caught_up(jobset.uid, measures, found) else None

    async def _store_compared(
        self, jobset: JobSet, progress: JobProgress, accelerator: str, tails: Tails = MappingProxyType({})
    ) -> bool:
        """Store the progress, compared with earlier runs; returns whether it changed."""
        if progress.speed is not None:
            earlier = await self._service.earlier_speeds(jobset, progress.speed_metric)
            progress = compare_with_earlier(progress, earlier, accelerator)
        return self._store_progress(jobset.uid, await self._find_end(jobset, progress, tails))

    async def _find_end(self, jobset: JobSet, progress: JobProgress, tails: Tails) -> JobProgress:
        """The progress with the program's end, searched in the logs of all pods; those in `tails` were just read."""
        if not progress.late_text or progress.nan or jobset.finished:
            return progress
        uid, now = jobset.uid, time.monotonic()
        if now > self._ends_read_at.get(uid, -LOOK_AGAIN_SECONDS) + LOOK_AGAIN_SECONDS:
            every = [(slot.number, slot.pod) for slot in pod_slots(jobset, self._cluster.fleet) if slot.pod]
            gate = asyncio.Semaphore(MAX_CONCURRENT_READS)

            async def read_end(number: int, pod: Pod) -> LogEnd | None:
                with suppress(ConsoleError, TimeoutError):  # then it is not known to have ended
                    async with gate, asyncio.timeout(LOG_TAIL_TIMEOUT):
                        lines = tails.get(number) or await self._read_tail(pod, STEP_TAIL_LINES)
                    return find_log_end(lines[-STEP_TAIL_LINES:], number, SERVER_CLOCK.now())
                return None

            ends = await asyncio.gather(*(read_end(*each) for each in every[:MAX_PODS_LOOKED_AT]))
            self._ends_read_at[uid], self._ends[uid] = now, combine_ends(filter(None, ends))
        return replace(progress, end=self._ends[uid])

    def _has_caught_up(self, uid: str, measures: JobMeasures, progress: JobProgress) -> bool:
        """Whether a newly followed log has reached the known progress, after which the log is used instead.

        On a busy machine old lines are read with pauses, and a pause does not show that more of them follow.
        """
        if self._trusted.get(uid) is not measures and progress.is_older_than(self.known.get(uid)):
            return False
        self._trusted[uid] = measures
        return True

    def _store_progress(self, uid: str, progress: JobProgress) -> bool:
        """Store the progress of a job; returns whether it changed."""
        before = self.known.get(uid)
        self.known[uid] = progress = keep_previous_verdict(before, progress)
        return before is None or _visible_state(before) != _visible_state(progress)

    def _is_due(self, jobset: JobSet, now: float) -> bool:
        if jobset.state in {JobState.PENDING, JobState.STOPPING} or jobset.uid in self._ended_uids:
            return False
        again = JOB_POLL_SECONDS * 2.0 ** min(self._failed_reads[jobset.uid], MAX_REFUSED_READS)
        if now < self._read_at.get(jobset.uid, -again) + again:
            return False
        self._read_at[jobset.uid] = now
        return True

    async def _read_progress(self, jobset: JobSet) -> bool:
        failed = first_failure(jobset, self._cluster.fleet) if jobset.state is JobState.FAILED else None
        likely = self._likely_pods(jobset, failed)
        about = JobMeasures(jobset.key)
        about.set_job_facts(jobset, self._cluster.fleet)
        depends = jobset.restarts, jobset.state, about.accelerator, self._service.pass_line
        of = msgpack.encode([depends, sorted((number, pod.uid, pod.containers) for number, pod in likely)])
        ended = self._log_cache().ended(jobset.uid, of) if jobset.finished else None
        if ended is not None:
            self._ended_uids.add(jobset.uid)
            found = replace(ended.progress, at=SERVER_CLOCK.now()) if ended.progress is not None else None
            return found is not None and await self._store_compared(jobset, found, about.accelerator)
        read = await self._read_pods(jobset, likely, failed, about)
        changed, missing = False, bool(read.errors) and not read.by_steps
        if read.progress is not None:
            changed = await self._store_compared(jobset, read.progress, about.accelerator, read.tails)
        elif not jobset.finished and not missing:
            changed = await self._store_start(jobset, about.start)
        if jobset.finished:
            self._failed_reads[jobset.uid] += missing
            in_time = not any(isinstance(each, TimeoutError) for each in read.errors)
            if not missing or (in_time and self._failed_reads[jobset.uid] >= MAX_REFUSED_READS):
                self._ended_uids.add(jobset.uid)
            if not read.errors and SERVER_CLOCK.now() - read.newest > SETTLED_SECONDS:
                self._log_cache().keep(jobset.uid, ended=EndedJob(of, read.progress))
        return changed

    def _likely_pods(self, jobset: JobSet, failed_pod: PodSlot | None) -> list[tuple[int, Pod]]:
        """The pods, with their numbers, that may print the progress or the reason of the end; `failed_pod` first."""
        pods = [(slot.number, slot.pod) for slot in pod_slots(jobset, self._cluster.fleet) if slot.pod]
        first = failed_pod.number if failed_pod else None, self._log_cache().printing(jobset.uid)
        likely = [*(each for number in first for each in pods if each[0] == number), *pods[:1], *pods[-1:]]
        return list(dict.fromkeys(likely))

    async def _read_pods(
        self, jobset: JobSet, likely_pods: Sequence[tuple[int, Pod]], failed_pod: PodSlot | None, measures: JobMeasures
    ) -> _ReadLogs:
        """Read the ends of these pods' logs up to the first that shows progress; more lines if a pod failed."""
        is_test = recipe_kind(jobset.recipe) is RecipeKind.NCCL
        number_of_lines = STEP_TAIL_LINES if jobset.finished and not is_test else TABLE_TAIL_LINES
        number_of_lines = max(number_of_lines, FAILURE_TAIL_LINES if failed_pod else 0)
        ends, read = list[LogEnd](), _ReadLogs()
        for number, pod in likely_pods:
            if pod.main is None or pod.main.state == "waiting":
                continue
            try:
                async with asyncio.timeout(LOG_TAIL_TIMEOUT):
                    lines = read.tails[number] = await self._read_tail(pod, number_of_lines)
            except (ConsoleError, TimeoutError) as error:
                read.errors.append(error)  # the list stays as it was; the job's page says why it cannot be read
                continue
            ends += filter(None, [find_end(lines, number, failed_pod)])
            read.progress = await self._read_rank(jobset, number, pod, lines, combine_ends(ends))
            if read.progress is not None:
                read.by_steps = True
                return read
            for line in lines:
                measures.feed_start(number, line.time, line.text)
        if ends:
            printed = max(each.time for each in ends)
            read.progress = JobProgress(end=combine_ends(ends), at=SERVER_CLOCK.now(), printed=printed)
        return read

    async def _store_start(self, jobset: JobSet, phase: StartPhase | None) -> bool:
        """Store the start phase of a job without steps; returns whether it changed."""
        known = self.known.get(jobset.uid)
        if known is not None and known.start is None:
            return False
        usual = await self._service.earlier_phases(jobset)
        phase = pull_phase(pod_slots(jobset, self._cluster.fleet), usual.get(PULL_PHASE, 0.0)) or phase
        if phase is None:
            return False
        phase = replace(phase, longest=usual.get(phase.name, 0.0))
        return self._store_progress(jobset.uid, JobProgress(start=phase, at=SERVER_CLOCK.now(), printed=phase.printed))

    async def _read_rank(
        self, jobset: JobSet, rank: int, pod: Pod, lines: Sequence[LogLine], end: LogEnd | None
    ) -> JobProgress | None:
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
            return None
        self._log_cache().keep(jobset.uid, printing=rank)
        kept, learned = self._service.test_history, self._log_cache()
        ended = [
            each
            for each in about.tests
            if each.test.finished
            and each.test.rows
            and each.name not in kept.stored_rows
            and each.at > learned.tested(jobset.uid)
        ]
        if ended:
            await kept.store(ended)
            learned.keep(jobset.uid, tested=max(each.at for each in ended))
        since = tracks[-1].times[0] if tracks and len(tracks[-1]) and not tracks[-1].rewinds else 0.0
        where = await self.nan_finder.find_onset(jobset.uid, [pod], found.where, since)
        return replace(found, where=where, nan_words=where.nan_words, loss=where.loss, end=end)

    async def _read_tail_of_log(self, pod: Pod, lines: int) -> list[LogLine]:
        from console.logs.container_log import read_tail

        return await read_tail(self._cluster.current_connection.client, pod, lines)
