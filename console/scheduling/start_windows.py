"""Predicts time windows in which waiting workloads start, from many simulations with varying run times.

How long a job runs comes from its progress, else from earlier runs of its recipe, or of its name where it is no JobSet;
a job of which neither is known runs on, up to its time limit if it has one. Nobody comes meanwhile. A window holds the
middle 80 % of the rollouts.
"""

from __future__ import annotations

import math
import re
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from heapq import heappop, heappush
from itertools import count
from random import Random
from statistics import median, pstdev
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from console.kube.objects.meta import GPU, condition
from console.kube.objects.workload import Workload
from console.kube.snapshot import Fleet
from console.scheduling.expected_starts import ExpectedStart, all_gpu_flavors, cluster_of, time_limit
from console.scheduling.kueue.state import Workload as KueueWorkload
from console.scheduling.kueue_snapshot import queue_order
from console.scheduling.quota_accounts import job_name
from console.scheduling.virtual_cluster import Move, VirtualCluster
from console.yielding import WorkSlices

if TYPE_CHECKING:
    Key = tuple[str, str]

ROLLOUTS = 200
FEWEST = 20  # rollouts that a window stands on
BUDGET = 1.5  # seconds of one core
AIMED_AT = 320  # rollouts that the budget has to be enough for: where there is much to do, they look less far ahead
WARM_UP = 0.05  # of the budget, to learn which requests fail at which usage before a rollout is timed
SHARE = 0.8  # of the rollouts within a window
PROGRESS_SPREAD = 0.1  # of the logarithm of the time left, where progress tells of it
LEAST_SPREAD = 0.1  # of run times of which few are known
LEAST_RUNS = 3  # earlier runs that say how long a job runs
_TRIES = 20
_NUMBERS = re.compile(r"(-[0-9a-z]*[0-9][0-9a-z]*)+$")
MAX_KNOWN = 2_000  # situations of which it is kept what Kueue does in them


class PastRun(Struct, frozen=True):
    """A run that ended by itself."""

    recipe: str
    owner: str
    gpus: int
    seconds: float  # that it ran in all
    before: float = 0.0  # of these, until it had to wait again for the last time


class RunTime(Struct, frozen=True):
    """The expected run time of a job: the median, and the deviation of its logarithm."""

    median: float
    spread: float
    resumes: bool = False  # whether a job that was evicted goes on where it stopped, as far as earlier ones say


class StartWindow(Struct, frozen=True):
    """Earliest and latest start, in seconds since the epoch."""

    start: float
    middle: float
    end: float
    latest: bool = False  # whether it may start sooner, as nobody knows how long some jobs run


class StartWindows(Struct, frozen=True):
    by_key: dict[tuple[str, str], StartWindow]
    rollouts: int


def run_times(fleet: Fleet, past: Iterable[PastRun]) -> dict[str, RunTime]:
    """Expected run times by uid of the job: from runs of the same recipe, owner and size, else recipe and size.

    Of what is no JobSet, from those of the same name, queue and size that Kueue has seen finish.
    """
    known: dict[tuple[object, ...], list[float]] = defaultdict(list)
    interrupted: dict[tuple[str, int], list[PastRun]] = defaultdict(list)
    for run in past:
        if run.recipe and run.before > 0:
            interrupted[run.recipe, run.gpus].append(run)
        elif run.recipe and run.seconds > 0:
            known[run.recipe, run.gpus, run.owner].append(run.seconds)
            known[run.recipe, run.gpus].append(run.seconds)
    for done in fleet.workloads.values():
        finished = condition(done.conditions, "Finished")
        since = condition(done.conditions, "QuotaReserved")
        if finished and finished.is_true and finished.reason == "Succeeded" and since and since.is_true:
            known[_likeness(done)].append(max(1.0, finished.since - since.since))
    found = {}
    for workload in fleet.workloads.values():
        alike = known.get(_likeness(workload), [])
        if workload.owner_kind != "JobSet" and len(alike) >= LEAST_RUNS:
            found[workload.job_uid] = RunTime(median(alike), max(LEAST_SPREAD, pstdev(map(math.log, alike))))
    for job in fleet.jobsets.values():
        like = ((job.recipe, job.gpus, job.owner), (job.recipe, job.gpus))
        times = next((known[each] for each in like if len(known.get(each, ())) >= LEAST_RUNS), None)
        if times:
            spread, middle = pstdev(map(math.log, times)), median(times)
            resumes = _resumes(interrupted[job.recipe, job.gpus], middle)
            found[job.uid] = RunTime(middle, max(LEAST_SPREAD, spread), resumes)
    return found


def _likeness(workload: Workload) -> tuple[object, ...]:
    """What workloads share that run alike: all but the numbers at the end of the names of their jobs."""
    stem = _NUMBERS.sub("", job_name(workload))
    return workload.namespace, workload.owner_kind, stem, workload.queue, workload.total(GPU)


def _resumes(interrupted: Sequence[PastRun], whole: float) -> bool:
    """Whether most of them ran as long in all as others do at a stretch, and not so long after they had begun anew."""
    nearer = [abs(run.seconds - whole) < abs(run.seconds - run.before - whole) for run in interrupted]
    return 2 * sum(nearer) > len(nearer)


def start_windows(
    fleet: Fleet,
    left: Mapping[str, float],
    times: Mapping[str, RunTime],
    *,
    seed: int = 0,
    budget: float = BUDGET,
    rollouts: int = ROLLOUTS,
) -> StartWindows:
    """Of those whose start can be known; `left` and `times` by uid of the JobSet. Blocking: as long as the budget."""
    return _Rollouts(fleet, left, times, seed).run(budget, rollouts)


def with_windows(starts: Mapping[Key, ExpectedStart], windows: StartWindows) -> dict[Key, ExpectedStart]:
    """The starts with their windows; where the run time of a job before it is unknown only with a latest time."""
    found = dict(starts)
    for key in starts.keys() & windows.by_key.keys():
        window = windows.by_key[key]
        if window.latest:
            if starts[key].at:
                continue  # as every list says it
            found[key] = structs.replace(starts[key], at=window.end, latest=True, unknown="")
        else:
            bounds = window.start, window.end
            found[key] = structs.replace(starts[key], at=window.middle, latest=False, unknown="", window=bounds)
    return found


class _Situation(Struct):
    """What Kueue does after certain workloads have ended in a certain order."""

    moves: list[Move]
    has_waiting: bool
    after: dict[Key | None, _Situation] = {}  # by the workload that ends next; None: nothing has ended yet


class _SharedCluster:
    """The cluster of all rollouts: where the same workloads end in the same order, Kueue's cycles run only once."""

    def __init__(self, cluster: VirtualCluster) -> None:
        self._cluster, self._restore = cluster, cluster.checkpoint()
        self._first, self._known = _Situation([], has_waiting=True), 0
        self.restart()

    def restart(self) -> None:
        self._situation, self._restored = self._first, False
        self._behind: list[tuple[float, KueueWorkload | None]] = []  # steps that the cluster itself has not taken yet

    @property
    def has_waiting(self) -> bool:
        return self._situation.has_waiting

    def admit_after(self, ended: KueueWorkload | None, at: float) -> list[Move]:
        """What starts and what is preempted once this one, which still runs, has ended."""
        self._behind.append((at, ended))
        key = ended.key if ended is not None else None
        found = self._situation.after.get(key)
        if found is None:
            found = _Situation(self._catch_up(), self._cluster.has_waiting)
            if self._known < MAX_KNOWN:
                self._situation.after[key] = found
                self._known += 1
        self._situation = found
        return found.moves

    def _catch_up(self) -> list[Move]:
        if not self._restored:
            self._restore()
            self._restored = True
        moves: list[Move] = []
        for at, ended in self._behind:
            if ended is not None:
                queue = self._cluster.snapshot.queues[ended.cluster_queue]
                self._cluster.end(queue.workloads[ended.key])
            moves = self._cluster.admit(at)
        self._behind.clear()
        return moves


class _Rollouts:
    def __init__(self, fleet: Fleet, left: Mapping[str, float], times: Mapping[str, RunTime], seed: int) -> None:
        self._fleet, self._left, self._times, self._dice = fleet, left, times, Random(seed)
        cluster = cluster_of(fleet, all_gpu_flavors(fleet))
        self._cluster = _SharedCluster(cluster)
        self._number = count()
        self._endless = False
        self._limits: dict[str, float] = {}  # seconds that those run at most of which no more is known
        self._after_endless: set[Key] = set()  # those that started after one whose run time nobody knows
        self._ran: dict[Key, float] = {}  # of those that were interrupted and go on where they stopped
        for each in fleet.workloads.values():
            if each.ran_before and (known := times.get(each.job_uid)) and known.resumes:
                self._ran[each.key] = each.ran_before
        self._running: list[tuple[KueueWorkload, str, float]] = []  # the uid of its owner, and since when it runs
        for queue in fleet.cluster_queues.values():
            for each in queue_order(fleet, queue.name).running:
                held = cluster.snapshot.queues[queue.name].workloads.get(each.key)
                if held is None or not held.pod_sets:
                    continue
                if each.job_uid not in left and each.job_uid not in times:
                    self._endless, limit = True, time_limit(each, fleet)
                    if limit is None:
                        continue
                    self._limits[each.job_uid] = limit
                self._running.append((held, each.job_uid, held.reserved))

    def run(self, budget: float, most: int) -> StartWindows:
        began, slices = time.thread_time(), WorkSlices()
        rollouts: list[dict[Key, float]] = []
        self._rollout(math.inf, began + WARM_UP * budget)
        until = math.inf  # the first rollout says how far all can go
        while len(rollouts) < most and time.thread_time() - began < budget:
            stop = math.inf if rollouts else time.thread_time() + budget / AIMED_AT
            found, reached = self._rollout(until, stop)
            until = min(until, reached)
            rollouts.append(found)
            slices.pause_thread()
        starts: dict[Key, list[float]] = defaultdict(list)
        for found in rollouts:
            for key, at in found.items():
                if at <= until:
                    starts[key].append(at)
        low, middle, high = (math.ceil(share * len(rollouts)) - 1 for share in ((1 - SHARE) / 2, 0.5, (1 + SHARE) / 2))
        windows = {
            key: StartWindow(times[low], times[middle], times[high], self._endless or key in self._after_endless)
            for key, times in ((key, sorted(times)) for key, times in starts.items())
            if len(times) > high and times[0] > self._fleet.at and self._fleet.workloads[key].is_waiting
        }
        return StartWindows(windows if len(rollouts) >= FEWEST else {}, len(rollouts))

    def _rollout(self, until: float, stop: float) -> tuple[dict[Key, float], float]:
        """Simulate once: the starts, and until when they are known; `stop` limits this thread's CPU time."""
        now = self._fleet.at
        found: dict[Key, float] = {}
        ends: list[tuple[float, int, KueueWorkload]] = []
        held: dict[Key, KueueWorkload] = {}
        began: dict[Key, float] = {}  # when each would have begun if it had not been interrupted
        ran, endless_since = dict(self._ran), math.inf
        self._cluster.restart()
        for workload, uid, since in self._running:
            held[workload.key] = workload
            began[workload.key] = since - ran.get(workload.key, 0.0)
            self._end(ends, now + self._seconds_left(uid, now - began[workload.key]), workload)
        ended: KueueWorkload | None = None
        while True:
            for started, preempted_by in self._cluster.admit_after(ended, now):
                if preempted_by is not None:
                    held.pop(started.key, None)
                    ran[started.key] = now - began.get(started.key, now)
                    continue
                held[started.key] = started
                found.setdefault(started.key, now)
                known = self._times.get(self._fleet.workloads[started.key].job_uid)
                before = ran.get(started.key, 0.0) if known and known.resumes else 0.0
                began[started.key] = now - before
                if now > endless_since:
                    self._after_endless.add(started.key)
                if known:
                    self._end(ends, now + self._rest(known, before), started)
                else:
                    endless_since = min(endless_since, now)
            while ends and held.get(ends[0][2].key) is not ends[0][2]:
                heappop(ends)  # it was preempted meanwhile
            if not (ends and ends[0][0] <= until and self._cluster.has_waiting):
                return found, until
            if time.thread_time() > stop:
                return found, now
            now, _, ended = heappop(ends)
            del held[ended.key]

    def _end(self, ends: list[tuple[float, int, KueueWorkload]], at: float, workload: KueueWorkload) -> None:
        heappush(ends, (at, next(self._number), workload))

    def _seconds_left(self, uid: str, ran: float) -> float:
        if uid in self._left:
            return self._sample_duration(self._left[uid], PROGRESS_SPREAD)
        if uid in self._limits:
            return max(0.0, self._limits[uid] - ran)
        return self._rest(self._times[uid], ran)

    def _rest(self, known: RunTime, ran: float) -> float:
        """Of a job that has run for so long."""
        for _ in range(_TRIES):
            if (whole := self._sample_duration(known.median, known.spread)) > ran:
                return whole - ran
        return self._sample_duration(known.median * known.spread, known.spread)  # it runs longer than any run before it

    def _sample_duration(self, middle: float, spread: float) -> float:
        return middle * math.exp(self._dice.gauss(0.0, spread))
