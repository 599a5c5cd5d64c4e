"""Measurements of jobs (NCCL tests and training), read from each log once for all readers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from console.detached_tasks import start_task
from console.errors import ConsoleError
from console.folders import state_folder
from console.kube.objects.jobset import JobSet, JobState
from console.kube.objects.pod import Pod
from console.logs.log_line import LogLine, PodLine
from console.metrics.job_measures import JobMeasures, LogReader, choose_ranks
from console.metrics.log_result_cache import LogResultCache
from console.metrics.nccl_history import MeasuredTest, NcclHistory, NodeBandwidth, default_path
from console.metrics.progress_reader import JobProgressReader
from console.metrics.training_run import TrainingRun
from console.scheduling.pod_failure import PodFailure, rank_failures
from console.scheduling.pod_slots import pod_slots
from console.settings_file import current_config
from console.work_slices import WorkSlices

if TYPE_CHECKING:
    from console.kube.watched_cluster import WatchedCluster
    from console.logs.job_log import JobLog
    from console.logs.log_segment import LogSegment
    from console.logs.log_service import LogService
    from trainlog import NcclTest, RunPosition

    Key = tuple[str, str]

PUBLISH_SECONDS = 0.1  # seconds between two tellings while lines stream in
BAR_POLL_SECONDS = 1.0  # seconds between two looks at progress bars
RECORD_SECONDS = 10.0  # seconds between two notes of the last loss in the memory of runs
MAX_FIRST_LINES, MIN_FIRST_LINES_PER_RANK = 2_000_000, 2_000  # that are fetched at first, of all ranks and of one
MAX_LINES_OF_BROKEN_LOG = 4000  # lines that are looked at of a log that is read once and was not read to its end
BATCH_LINES = 32  # lines that are read before others get their turn
HISTORY_REFRESH_SECONDS = 15.0  # seconds after which tests that other consoles keep are looked for
READ_LOG_CACHE_SECONDS = 30.0  # seconds for which a log that was read to its end is not read again
MAX_EARLIER_RUNS = 3  # earlier runs that are laid under a curve at most


class UsualFigures(Protocol):
    async def speeds(self, recipe: str, gpus: int, metric: str) -> Sequence[float]: ...
    async def phases(self, job: JobSet) -> Mapping[str, float]: ...


class UsedRunHistory(Protocol):
    """The part of the run history that measurements use: they read earlier_runs runs and record figures."""

    @property
    def earlier_runs(self) -> UsualFigures: ...
    async def record_tests(self, namespace: str, name: str, tests: tuple[NcclTest, ...]) -> None: ...
    async def record_training(
        self, namespace: str, name: str, position: RunPosition, speeds: Mapping[str, float]
    ) -> None: ...


def _feed_reader(reader: LogReader, batch: Sequence[PodLine]) -> bool:
    changed, slices = False, WorkSlices()
    for start in range(0, len(batch), BATCH_LINES):
        changed |= reader.feed_lines(batch[start : start + BATCH_LINES])
        slices.pause_thread()
    return changed


async def _read_batch(measures: JobMeasures, batch: Sequence[PodLine]) -> None:
    slices = WorkSlices()
    for number, line in enumerate(batch):
        if number % BATCH_LINES == BATCH_LINES - 1:
            await slices.pause()
        measures.feed_line(line.rank, line.time, line.text)


@asynccontextmanager
async def _cancelled_after(task: asyncio.Task[None]) -> AsyncIterator[None]:
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


class StoredLog(Struct, frozen=True):
    measures: JobMeasures
    parts: list[LogSegment]  # its lines, one for each container


class _SharedMeasures(Struct):
    measures: JobMeasures
    task: asyncio.Task[None]
    readers: int = 0


class MeasureService:
    def __init__(
        self,
        cluster: WatchedCluster,
        logs: Callable[[], LogService],
        run_history: Callable[[], UsedRunHistory],
        find_monitored: Callable[[Key], JobMeasures | None] = lambda _: None,
        *,
        path: Path | None = None,
        read_tail: Callable[[Pod, int], Awaitable[list[LogLine]]] | None = None,
    ) -> None:
        """`path` is the file of stored tests; `read_tail` reads the end of a log instead of the cluster."""
        self._cluster, self._logs, self._run_history = cluster, logs, run_history
        self._path = path
        self._open_measures: dict[Key, _SharedMeasures] = {}
        self._histories: dict[Path, NcclHistory] = {}
        self._reading: asyncio.Task[tuple[MeasuredTest, ...]] | None = None
        self._read_again = 0.0
        self._read_last: tuple[Key, float, JobMeasures] | None = None  # the log that was read to its end last, and when
        self.find_monitored = find_monitored  # the measures of a job of which a log or two are followed
        self._result_caches: dict[Path, LogResultCache] = {}
        self.progress_reader = JobProgressReader(cluster, self, read_tail, None if read_tail else self._log_results)

    @property
    def pass_line(self) -> float:
        """The bus bandwidth (GB/s) that a test has to reach."""
        return current_config().config.alarms.pass_line

    @property
    def test_history(self) -> NcclHistory:
        """All stored tests; each practice cluster has its own."""
        folder = None if self._path else self._cluster.current_connection.target.cluster.practice_folder
        place = self._path or (folder / "nccl-tests.jsonl" if folder else default_path())
        if place not in self._histories:
            self._histories[place] = NcclHistory(place)
        return self._histories[place]

    def _log_results(self) -> LogResultCache:
        """The cache of log results for this cluster."""
        folder = self._cluster.current_connection.target.cluster.practice_folder or state_folder()
        return self._result_caches.setdefault(folder, LogResultCache(folder / "logs-learned.msgpack"))

    def bandwidth_by_node(self) -> dict[str, NodeBandwidth]:
        """Each node's bandwidth in its latest tests, as last read; other consoles' tests appear with a delay."""
        try:
            kept = self.test_history
        except ConsoleError:
            return {}  # there is no cluster now, and nothing is shown of its nodes
        now = asyncio.get_running_loop().time()
        if now >= self._read_again and (self._reading is None or self._reading.done()):
            self._read_again = now + HISTORY_REFRESH_SECONDS
            self._reading = asyncio.create_task(kept.load(), name="measures:kept")
        return kept.nodes

    async def earlier_phases(self, jobset: JobSet) -> Mapping[str, float]:
        """The longest duration (seconds) of each start phase in earlier runs."""
        return await self._run_history().earlier_runs.phases(jobset)

    async def earlier_speeds(self, jobset: JobSet, metric: str) -> Sequence[float]:
        """The usual speed in earlier runs of the recipe on as many GPUs."""
        return await self._run_history().earlier_runs.speeds(jobset.recipe, jobset.gpus, metric)

    def find_followed(self, key: Key) -> JobMeasures | None:
        """The measures of a job whose log is being followed; None for others."""
        return self._open_measures[key].measures if key in self._open_measures else self.find_monitored(key)

    async def read_log(self, namespace: str, name: str) -> JobMeasures:
        """A job's measures up to now, from the followed log or by reading it to its end."""
        key = namespace, name
        followed = self.find_followed(key)
        if followed is not None and (any(followed.tracks) or followed.tests) and not followed.is_reading_old_lines:
            return followed
        last = self._read_last
        if last is None or last[0] != key or time.monotonic() > last[1] + READ_LOG_CACHE_SECONDS:
            measures = await self.read_job(*key)
            last = self._read_last = key, time.monotonic(), measures
        return last[2]

    async def read_job(self, namespace: str, name: str) -> JobMeasures:
        """A job's measures as of now, by its log that is read to its end."""
        measures = JobMeasures((namespace, name))
        await self._follow_job(measures, once=True)
        measures.is_over = True
        return measures

    @asynccontextmanager
    async def open_job(self, namespace: str, name: str) -> AsyncIterator[JobMeasures]:
        """A job's measures, shared and kept up to date until its last reader leaves."""
        key = namespace, name
        shared = self._open_measures.get(key)
        if shared is None:
            measures = JobMeasures(key)
            measures.catch_up.begin()
            following = start_task(self._follow_shared(measures), f"measures:{name}")
            shared = self._open_measures[key] = _SharedMeasures(measures, following)
        shared.readers += 1
        try:
            yield shared.measures
        finally:
            shared.readers -= 1
            if not shared.readers:
                if self._open_measures.get(key) is shared:
                    del self._open_measures[key]
                shared.task.cancel()
                await asyncio.wait([shared.task])
                if not shared.task.cancelled() and (mistake := shared.task.exception()) is not None:
                    raise mistake

    async def _follow_shared(self, measures: JobMeasures) -> None:
        try:
            await self._follow_job(measures)
        except ConsoleError as error:
            measures.error = error
        finally:
            measures.is_over = True
            measures.notify()

    async def _follow_job(self, measures: JobMeasures, *, once: bool = False) -> None:
        namespace, name = measures.key
        jobset = self._cluster.fleet.jobsets.get(measures.key)
        tail = max(MIN_FIRST_LINES_PER_RANK, MAX_FIRST_LINES // max(1, jobset.ranks if jobset else 1))
        await self.test_history.load()
        chosen = choose_ranks if once else lambda _: None
        async with self._logs().open_job_log(namespace, name, tail=tail, once=once, chosen=chosen) as log:
            await log.ready.wait()
            measures.complete_until = log.complete_until
            reader, uid, noted, read = LogReader(measures, log.ranks), log.uid, 0.0, 0
            measured = choose_ranks(log.ranks)
            bars = asyncio.create_task(self._update_progress_bars(measures, log), name=f"bars:{name}")
            async with aclosing(log.iter_lines(measured if once else None)) as batches, _cancelled_after(bars):
                async for batch in batches:
                    if log.uid != uid:
                        measures.reset()
                        reader, uid = LogReader(measures, log.ranks), log.uid
                    measures.catch_up.begin_batch(batch)
                    mine = batch if measured is None else [line for line in batch if line.rank in measured]
                    changed = await asyncio.to_thread(_feed_reader, reader, mine)
                    if not once:
                        await _read_batch(measures, batch)
                    changed |= await self._record_rank_failures(measures, log)
                    await self._find_log_beginning(measures)
                    measures.catch_up.end_batch()
                    read += len(batch)
                    if once and log.errors and read > MAX_LINES_OF_BROKEN_LOG:
                        break
                    if changed and not once:
                        await self._publish_change(measures, log)
                        if (now := asyncio.get_running_loop().time()) > noted + RECORD_SECONDS:
                            noted = now
                            await self._record_results(measures)
                        await asyncio.sleep(PUBLISH_SECONDS)
            await asyncio.to_thread(reader.close)
            measures.unread = log.errors
            await self._record_rank_failures(measures, log)
            await self._publish_change(measures, log)
            await self._record_results(measures)

    async def _update_progress_bars(self, measures: JobMeasures, log: JobLog) -> None:
        """Feed the progress bars that have changed, as a sign that their ranks are alive."""
        before: dict[int, str] = {}
        while True:
            drawn = log.progress_bars()
            for rank, bar in drawn.items():
                if bar != before.get(rank):
                    measures.feed_line(rank, 0.0, bar)
            before = drawn
            if not log.is_connecting:
                measures.catch_up.on_connected()
            await asyncio.sleep(BAR_POLL_SECONDS)

    async def _find_log_beginning(self, measures: JobMeasures) -> None:
        """Find the step at which the loss became NaN, if only the end of the log was read."""
        jobset = self._cluster.fleet.jobsets.get(measures.key)
        if jobset is not None and measures.track is not None and measures.track.nan:
            pods = [slot.pod for slot in pod_slots(jobset, self._cluster.fleet) if slot.pod]
            await self.progress_reader.nan_finder.add_onset(measures, jobset.uid, [*pods[-1:], *pods[:1]])

    async def _publish_change(self, measures: JobMeasures, log: JobLog) -> None:
        """Notify all readers of a change, and store finished tests."""
        self._store_tests(measures, log)
        await self.test_history.store(each for each in measures.tests if each.test.finished or each.test.error)
        measures.notify()

    def _store_tests(self, measures: JobMeasures, log: JobLog) -> None:
        fleet = self._cluster.fleet
        jobset = fleet.jobsets.get(measures.key)
        measures.uid = log.uid or (log.folder.metadata.uid if log.folder.metadata else "")
        if jobset is not None:
            measures.set_job_facts(jobset, fleet)
        elif log.folder.metadata is not None:
            measures.recipe = log.folder.metadata.recipe

    async def _record_results(self, measures: JobMeasures) -> None:
        """Store the latest figures in the run history."""
        namespace, name = measures.key
        runs = self._run_history()
        if measures.tests:
            await runs.record_tests(namespace, name, tuple(each.test for each in measures.tests))
        track = measures.track
        if track is not None and track.last is not None:
            await runs.record_training(namespace, name, track.position(), track.recent_speeds())

    async def _record_rank_failures(self, measures: JobMeasures, log: JobLog) -> bool:
        """Add failed ranks to the training run; returns whether any is new."""
        jobset = self._cluster.fleet.jobsets.get(measures.key)
        if measures.track is not None:
            measures.track.goes_on = jobset is not None and jobset.state in {JobState.STARTING, JobState.RUNNING}
        seen: list[PodFailure] = rank_failures(jobset, self._cluster.fleet) if jobset else []
        about = (measures.uid, len(seen), jobset.restarts if jobset else -1)
        if about == measures.endings_seen:
            return False
        measures.endings_seen = about
        return measures.record_failures([*await log.folder.read_failures(), *seen])

    async def read_earlier_runs(self, measures: JobMeasures) -> list[tuple[str, TrainingRun]]:
        """Earlier runs of the same recipe with available logs, newest first: (name, run)."""
        from console.logs.log_folder import stored_jobs

        follow = self._logs()
        names = [
            (jobset.created, jobset.key)
            for jobset in self._cluster.fleet.jobsets.values()
            if jobset.recipe == measures.recipe and jobset.uid != measures.uid
        ]
        names += [
            (stored.metadata.created, (stored.metadata.namespace, stored.metadata.name))
            for stored in await asyncio.to_thread(stored_jobs, follow.folder)
            if stored.metadata.recipe == measures.recipe and stored.metadata.uid != measures.uid
        ]
        found: list[tuple[str, TrainingRun]] = []
        for key in dict.fromkeys(key for _, key in sorted(names, key=lambda each: -each[0]) if key != measures.key):
            if len(found) == MAX_EARLIER_RUNS:
                break
            if (track := (await self.read_job(*key)).track) is not None:
                found.append((key[1], track))
        return found

    async def read_stored_log(self, namespace: str, name: str, uid: str) -> StoredLog | None:
        """The measurements and lines in a JobSet's stored log; None if nothing is stored."""
        from console.logs.log_cursor import ChangeSubscription, LogCursor
        from console.logs.log_folder import find_stored_job

        folder = self._logs().folder
        stored = await asyncio.to_thread(find_stored_job, folder, "", namespace, name, uid) if uid else None
        if stored is None:
            return None
        parts = await asyncio.to_thread(stored.load_segments)
        measures = JobMeasures((namespace, name))
        measures.uid, measures.recipe = uid, stored.metadata.recipe
        reader, news = LogReader(measures, stored.metadata.ranks), ChangeSubscription(parts)
        try:
            lines = LogCursor(news, choose_ranks(stored.metadata.ranks))
            while batch := await asyncio.to_thread(lines.next_page):
                await asyncio.to_thread(_feed_reader, reader, batch)
        finally:
            news.close()
        await asyncio.to_thread(reader.close)
        measures.record_failures(await asyncio.to_thread(stored.read_failures))
        await self.test_history.load()
        kept = tuple(each for each in self.test_history.tests if each.uid == uid)
        measures.tests = max(kept, measures.tests, key=len)
        return StoredLog(measures, parts)

    def on_context_changed(self) -> None:
        self.progress_reader.reset()
        if self._reading is not None:
            self._reading.cancel()
        self._read_again, self._read_last = 0.0, None
        for shared in self._open_measures.values():
            shared.task.cancel()
        self._open_measures.clear()
