"""Predicts time windows in which waiting workloads start, from many simulations with varying run times.

The run time of a job comes from its progress, else from earlier runs of its recipe (without a JobSet: of its name); a
job without either runs on, up to its time limit if it has one. Other jobs arrive at the rate of the last days. A window
holds the middle 80 % of the simulated starts.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Mapping
from heapq import heapify, heappop, heappush
from itertools import count
from random import Random
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from console.kube.snapshot import Fleet
from console.scheduling.expected_start import ExpectedStart
from console.scheduling.kueue_snapshot import queue_order
from console.scheduling.run_times import RunTime
from console.scheduling.start_simulation import NO_OPEN_ENDS, all_gpu_flavors, time_limit, virtual_cluster_of
from console.work_slices import WorkSlices
from kueue_rules import Move, SnapshotWorkload as KueueWorkload, VirtualCluster

if TYPE_CHECKING:
    Key = tuple[str, str]

MAX_ROLLOUTS = 200
MIN_ROLLOUTS = 20  # rollouts that a window stands on
BUDGET_SECONDS = 1.5  # seconds of one core
TARGET_ROLLOUTS = 320  # that the budget has to be enough for: where there is much to do, they look less far ahead
ROLLOUTS_WITH_ARRIVALS = 80  # where others come meanwhile, so that each goes its own way
MAX_ROLLOUT_FACTOR = 4  # as much time as the first rollout may take any other
WARM_UP_SHARE = 0.05  # of the budget, to learn which requests fail at which usage before a rollout is timed
WINDOW_SHARE = 0.8  # of the rollouts within a window
PROGRESS_SPREAD = 0.1  # of the logarithm of the time left, where progress tells of it
_MAX_TRIES = 20
MAX_KNOWN_SITUATIONS = 2_000  # situations of which it is kept what Kueue does in them


class RecurringJob(Struct, frozen=True):
    """A job that is submitted again and again: one of them, and the mean time between two."""

    sample: KueueWorkload  # one of them
    interval_seconds: float  # between two, on average
    time: RunTime


class ExpectedArrivals(Struct, frozen=True):
    """The recurring jobs, and for each hour of the day (UTC) a factor to their average rate."""

    kinds: tuple[RecurringJob, ...] = ()
    by_hour: tuple[float, ...] = (1.0,) * 24

    def next_after(self, time: float, kind: RecurringJob, dice: Random) -> float:
        peak = max(self.by_hour)
        while True:
            time += dice.expovariate(peak / kind.interval_seconds)
            if dice.random() * peak < self.by_hour[int(time // 3600) % 24]:
                return time


class StartWindow(Struct, frozen=True):
    """The earliest and latest start of a workload, in seconds since the epoch."""

    start: float
    middle: float
    end: float
    latest: bool = False  # whether it may start sooner, as nobody knows how long some jobs run


class StartWindows(Struct, frozen=True):
    by_key: dict[tuple[str, str], StartWindow]
    rollouts: int


NO_ARRIVALS = ExpectedArrivals()


def start_windows(
    fleet: Fleet,
    seconds_left: Mapping[str, float],
    times: Mapping[str, RunTime],
    *,
    seed: int = 0,
    budget: float = BUDGET_SECONDS,
    rollouts: int = MAX_ROLLOUTS,
    arrivals: ExpectedArrivals = NO_ARRIVALS,
    open_ends: Mapping[str, str] = NO_OPEN_ENDS,
    cluster: VirtualCluster | None = None,
) -> StartWindows:
    """The windows of workloads whose start can be known, by simulating for `budget` seconds. Blocking.

    `seconds_left`, `times` and `open_ends` (see `expected_starts`) are by uid of the JobSet. `cluster` is the copy of
    `fleet` that is simulated, made here if it is None, and is changed.
    """
    cluster = cluster or virtual_cluster_of(fleet, all_gpu_flavors(fleet))
    return _Simulations(fleet, seconds_left, times, arrivals, seed, open_ends, cluster).run(budget, rollouts)


def with_windows(expected_starts: Mapping[Key, ExpectedStart], windows: StartWindows) -> dict[Key, ExpectedStart]:
    """The expected starts with their windows; only the latest time where a job before has an unknown run time."""
    found = dict(expected_starts)
    for key in expected_starts.keys() & windows.by_key.keys():
        window = windows.by_key[key]
        if window.latest:
            if expected_starts[key].at:
                continue  # as every list says it
            found[key] = structs.replace(expected_starts[key], at=window.end, latest=True, unknown="")
        else:
            bounds = window.start, window.end
            found[key] = structs.replace(
                expected_starts[key], at=window.middle, latest=False, unknown="", window=bounds, earliest=0.0, sooner=()
            )
    return found


class _KnownMoves(Struct):
    """Kueue's moves (starts, preemptions) after certain workloads ended and arrived in a certain order."""

    moves: list[Move]
    after: dict[tuple[Key | None, bool], _KnownMoves] = {}
    """The next moves by (workload that ends or arrives, whether it arrives); key None: before the first event."""


class _SharedCluster:
    """The simulated cluster that all rollouts share: equal sequences of ends run Kueue's cycles only once."""

    def __init__(self, cluster: VirtualCluster) -> None:
        self._cluster, self._restore = cluster, cluster.checkpoint()
        self._first, self._known = _KnownMoves([]), 0
        self.restart()

    def restart(self) -> None:
        self._current_moves, self._restored = self._first, False
        self._pending_events: list[tuple[float, KueueWorkload | None, bool]] = []
        """Ends and arrivals, as (time, workload, whether it arrives), not yet applied to the simulated cluster."""

    def admit_after(self, ended: KueueWorkload | None, time: float) -> list[Move]:
        """The starts and preemptions that follow the end of a running workload at `time`; None: before any end."""
        return self.moves_after(ended.key if ended is not None else None, ended, time, comes=False)

    def moves_after(self, key: Key | None, workload: KueueWorkload | None, time: float, *, comes: bool) -> list[Move]:
        self._pending_events.append((time, workload, comes))
        found = self._current_moves.after.get((key, comes))
        if found is None:
            found = _KnownMoves(self._catch_up())
            if self._known < MAX_KNOWN_SITUATIONS:
                self._current_moves.after[key, comes] = found
                self._known += 1
        self._current_moves = found
        return found.moves

    def _catch_up(self) -> list[Move]:
        if not self._restored:
            self._restore()
            self._restored = True
        moves: list[Move] = []
        for at, changed, comes in self._pending_events:
            if changed is not None and comes:
                self._cluster.submit(changed)
            elif changed is not None:
                self._cluster.end(self._cluster.snapshot.queues[changed.cluster_queue].workloads[changed.key])
            moves = self._cluster.admit(at)
        self._pending_events.clear()
        return moves


class _Simulations:
    def __init__(
        self,
        fleet: Fleet,
        left: Mapping[str, float],
        times: Mapping[str, RunTime],
        arrivals: ExpectedArrivals,
        seed: int,
        open_ends: Mapping[str, str],
        cluster: VirtualCluster,
    ) -> None:
        self.fleet, self._left, self.times, self.arrivals, self.random = fleet, left, times, arrivals, Random(seed)
        self._seed, self._random_by_job = seed, dict[str, Random]()
        self.waiting = {each.key for alike in cluster.waiting.values() for each in alike}
        self.cluster = _SharedCluster(cluster)
        self._endless = False
        self._limits: dict[str, float] = {}  # seconds that those run at most of which no more is known
        self.after_endless: set[Key] = set()  # those that started after one whose run time nobody knows
        self.run_seconds: dict[Key, float] = {}  # of those that were interrupted and go on where they stopped
        for each in fleet.workloads.values():
            if each.ran_before and (known := times.get(each.job_uid)) and known.resumes:
                self.run_seconds[each.key] = each.ran_before
        self.running: list[tuple[KueueWorkload, str]] = []  # with the uid of its owner
        for queue in fleet.cluster_queues.values():
            for each in queue_order(fleet, queue.name).running:
                held = cluster.snapshot.queues[queue.name].workloads.get(each.key)
                if held is None or not held.pod_sets:
                    continue
                self._endless |= each.job_uid in open_ends
                if each.job_uid not in left and (each.job_uid not in times or each.job_uid in open_ends):
                    self._endless, limit = True, time_limit(each, fleet)
                    if limit is None:
                        continue
                    self._limits[each.job_uid] = limit
                self.running.append((held, each.job_uid))

    def run(self, budget: float, limit: int) -> StartWindows:
        began, slices = time.thread_time(), WorkSlices()
        _Rollout(self).run(math.inf, began + WARM_UP_SHARE * budget)
        if time.thread_time() - began >= budget:
            return StartWindows({}, 0)
        seconds = budget / (ROLLOUTS_WITH_ARRIVALS if self.arrivals.kinds else TARGET_ROLLOUTS)
        found, until = _Rollout(self).run(math.inf, time.thread_time() + seconds)  # says how far all can go
        rollouts = [found]
        while len(rollouts) < limit and time.thread_time() - began < budget:
            stop = time.thread_time() + MAX_ROLLOUT_FACTOR * seconds  # in some one waits for ever while others come
            found, reached = _Rollout(self).run(until, stop)
            until = min(until, reached)
            rollouts.append(found)
            slices.pause_thread()
        starts: dict[Key, list[float]] = defaultdict(list)
        for found in rollouts:
            for key, at in found.items():
                if at <= until:
                    starts[key].append(at)
        low, middle, high = (
            math.ceil(share * len(rollouts)) - 1 for share in ((1 - WINDOW_SHARE) / 2, 0.5, (1 + WINDOW_SHARE) / 2)
        )
        windows = {
            key: StartWindow(times[low], times[middle], times[high], self._endless or key in self.after_endless)
            for key, times in ((key, sorted(times)) for key, times in starts.items())
            if len(times) > high and times[0] > self.fleet.at and self.fleet.workloads[key].is_waiting
        }
        return StartWindows(windows if len(rollouts) >= MIN_ROLLOUTS else {}, len(rollouts))

    def seconds_left(self, uid: str, ran_seconds: float) -> float:
        if uid in self._left:
            return self._sample_duration(self._left[uid], PROGRESS_SPREAD, uid)
        if uid in self._limits:
            return max(0.0, self._limits[uid] - ran_seconds)
        return self.draw_remaining(self.times[uid], ran_seconds, uid)

    def draw_remaining(self, elapsed: RunTime, ran_seconds: float, uid: str = "") -> float:
        """Draw a random remaining run time (seconds) of a job that has run for `ran_seconds`."""
        for _ in range(_MAX_TRIES):
            if (whole := self._sample_duration(elapsed.median, elapsed.spread, uid)) > ran_seconds:
                return whole - ran_seconds
        return self._sample_duration(
            elapsed.median * elapsed.spread, elapsed.spread, uid
        )  # it runs longer than any run before it

    def _sample_duration(self, middle: float, spread: float, uid: str) -> float:
        """Draw a duration (seconds; `spread`: of its logarithm) by the job's own generator, unaffected by others."""
        dice = self._random_by_job.get(uid) or self._random_by_job.setdefault(uid, Random(f"{self._seed} {uid}"))
        return middle * math.exp(dice.gauss(0.0, spread))


class _Rollout:
    """One simulated future, with random ends of jobs and random arrivals."""

    def __init__(self, simulations: _Simulations) -> None:
        self._simulations, self._now = simulations, simulations.fleet.at
        self._found: dict[Key, float] = {}  # when each started first
        self._ends: list[tuple[float, int, KueueWorkload]] = []
        self._held: dict[Key, KueueWorkload] = {}
        self._began: dict[Key, float] = {}  # when each would have begun if it had not been interrupted
        self._ran, self._endless_since = dict(simulations.run_seconds), math.inf
        self._number = count()
        self._arrived: dict[Key, RunTime] = {}
        self._next_arrivals = [
            (simulations.arrivals.next_after(self._now, each, simulations.random), number, each)
            for number, each in enumerate(simulations.arrivals.kinds)
        ]
        heapify(self._next_arrivals)
        for workload, uid in simulations.running:
            self._held[workload.key] = workload
            self._began[workload.key] = workload.reserved - self._ran.get(workload.key, 0.0)
            seconds = simulations.seconds_left(uid, self._now - self._began[workload.key])
            self._end_at(self._now + seconds, workload)

    def run(self, until: float, stop: float) -> tuple[dict[Key, float], float]:
        """(first starts of all that wait, time until which they are known); `stop` limits this thread's CPU time."""
        cluster, waiting = self._simulations.cluster, len(self._simulations.waiting)
        cluster.restart()
        moves = cluster.admit_after(None, self._now)
        while True:
            for started, preempted_by in moves:
                if preempted_by is None:
                    self._record_start(started)
                else:
                    self._held.pop(started.key, None)
                    self._ran[started.key] = self._now - self._began.get(started.key, self._now)
            while self._ends and self._held.get(self._ends[0][2].key) is not self._ends[0][2]:
                heappop(self._ends)  # it was preempted meanwhile
            if not (self._ends and self._ends[0][0] <= until and len(self._found) < waiting):
                return self._found, until
            if time.thread_time() > stop:
                return self._found, self._now
            if self._next_arrivals and self._next_arrivals[0][0] < self._ends[0][0]:
                comes = self._next_arrival()
                moves = cluster.moves_after(comes.key, comes, self._now, comes=True)
            else:
                self._now, _, ended = heappop(self._ends)
                del self._held[ended.key]
                moves = cluster.admit_after(ended, self._now)

    def _record_start(self, started_workload: KueueWorkload) -> None:
        self._held[started_workload.key] = started_workload
        known, uid = self._arrived.get(started_workload.key), ""
        if known is None:
            if started_workload.key in self._simulations.waiting:
                self._found.setdefault(started_workload.key, self._now)
            uid = self._simulations.fleet.workloads[started_workload.key].job_uid
            known = self._simulations.times.get(uid)
        before = self._ran.get(started_workload.key, 0.0) if known and known.resumes else 0.0
        self._began[started_workload.key] = self._now - before
        if self._now > self._endless_since:
            self._simulations.after_endless.add(started_workload.key)
        if known:
            self._end_at(self._now + self._simulations.draw_remaining(known, before, uid), started_workload)
        else:
            self._endless_since = min(self._endless_since, self._now)

    def _next_arrival(self) -> KueueWorkload:
        self._now, number, kind = heappop(self._next_arrivals)
        key = "", f"{number}"
        self._arrived[key] = kind.time
        again = self._simulations.arrivals.next_after(self._now, kind, self._simulations.random)
        heappush(self._next_arrivals, (again, number + len(self._simulations.arrivals.kinds), kind))
        return structs.replace(kind.sample, key=key, uid=key[1], queued=self._now)

    def _end_at(self, time: float, workload: KueueWorkload) -> None:
        heappush(self._ends, (time, next(self._number), workload))
