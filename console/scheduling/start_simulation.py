"""Predicts when waiting workloads start, by simulating Kueue's rules while running jobs end one by one.

It counts only GPUs and topology domains, and ignores later arrivals: a forecast, not a promise. A workload that starts
in the simulation runs on, since nobody knows for how long.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Set
from contextlib import ExitStack
from typing import TYPE_CHECKING

from msgspec.structs import replace

from console.kube.objects.workload import Workload as ClusterWorkload
from console.kube.snapshot import Fleet
from console.scheduling.expected_start import ExpectedStart
from console.scheduling.kueue_messages import lasting_reason
from console.scheduling.kueue_snapshot import (
    closed_reason,
    gpu_flavors,
    job_name,
    kueue_snapshot,
    kueue_workload,
    queue_order,
)
from console.scheduling.why_workload import why_workload
from kueue_rules import FlavorAssigner, Mode, SnapshotWorkload, VirtualCluster

if TYPE_CHECKING:
    Key = tuple[str, str]

MAX_FORECAST_WORKLOADS = 200  # of all queues; those further behind in their queues are not forecast
MAX_ENDS = 200  # ends of running jobs that are looked at
MAX_OPEN_ENDED_JOBS = 24  # jobs of no known end of which it is looked at what would start at once if each of them ended
_MAX_NAMED_JOBS = 3
NO_OPEN_ENDS: Mapping[str, str] = {}


def all_gpu_flavors(fleet: Fleet) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for queue in fleet.cluster_queues.values() for name in gpu_flavors(queue)))


def first_waiting(fleet: Fleet) -> dict[str, tuple[ClusterWorkload, ...]]:
    """The workloads to simulate, by open queue: equal shares of MAX_FORECAST_WORKLOADS; unused shares go to others."""
    open_queues = [each.name for each in fleet.cluster_queues.values() if not closed_reason(each)]
    by_length = sorted(
        ((name, queue_order(fleet, name).pending) for name in open_queues), key=lambda each: len(each[1])
    )
    room, tried = MAX_FORECAST_WORKLOADS, {}
    for at, (name, pending) in enumerate(by_length):
        tried[name] = pending[: max(1, room // (len(by_length) - at))]
        room -= len(tried[name])
    return tried


def virtual_cluster_of(fleet: Fleet, flavors: tuple[str, ...]) -> VirtualCluster:
    """A copy of the cluster for simulations, with the workloads at the head of its open queues."""
    strict = (queue.name for queue in fleet.cluster_queues.values() if queue.strategy == "StrictFIFO")
    cluster = VirtualCluster(kueue_snapshot(fleet, flavors, with_topology=True), strict)
    for pending in first_waiting(fleet).values():
        for workload in (kueue_workload(each, fleet, flavors, holds=False) for each in pending):
            if workload.pod_sets:
                cluster.submit(workload)
    return cluster


def time_limit(workload: ClusterWorkload, fleet: Fleet) -> float | None:
    """The seconds after admission at which Kueue, or a deadline of its Job or pods, ends a workload; None if never."""
    job = fleet.jobs.get((workload.namespace, workload.owner_name)) if workload.owner_kind == "Job" else None
    of_pods = [each.time_limit for each in workload.pod_sets] if workload.owner_kind in {"", "Pod"} else [None]
    known = [
        workload.time_limit - workload.ran_before if workload.time_limit is not None else None,
        job.limit_seconds if job is not None and job.uid == workload.owner_uid else None,
        max((each for each in of_pods if each is not None), default=None) if None not in of_pods else None,
    ]
    return min((each for each in known if each is not None), default=None)


def expected_starts(
    fleet: Fleet,
    seconds_left: Mapping[str, float],
    open_ends: Mapping[str, str] = NO_OPEN_ENDS,
    cluster: VirtualCluster | None = None,
) -> dict[Key, ExpectedStart]:
    """Expected starts by workload key.

    `seconds_left`: of running jobs, `open_ends`: verdicts on those that may be stopped at any time, such as
    "stalled"; both by JobSet uid. `cluster` as of `start_windows`.
    """
    cluster = cluster or virtual_cluster_of(fleet, all_gpu_flavors(fleet))
    found = _StartSimulation(fleet, seconds_left, open_ends, cluster).run()
    for key, start in found.items():
        queue = fleet.cluster_queue_of(fleet.workloads[key])
        if queue is not None and queue.checks:
            found[key] = replace(start, checks=queue.checks)
    return found


class _StartSimulation:
    def __init__(
        self, fleet: Fleet, left: Mapping[str, float], open_ends: Mapping[str, str], cluster: VirtualCluster
    ) -> None:
        self._fleet, self._open_ends, self._cluster = fleet, open_ends, cluster
        self._flavors = all_gpu_flavors(fleet)
        self._starts: dict[Key, ExpectedStart] = {}
        self._ends: list[tuple[float, SnapshotWorkload]] = []
        self._time_limited: list[SnapshotWorkload] = []  # of which only the latest end is known
        self._endless: list[SnapshotWorkload] = []
        self._blocking_cache: dict[tuple[str, str], frozenset[str]] = {}  # by queue and shape of a workload
        for queue in fleet.cluster_queues.values():
            for each in queue_order(fleet, queue.name).running:
                seconds = left.get(each.job_uid)
                held = self._cluster.snapshot.queues[queue.name].workloads.get(each.key)
                if held is None or not held.pod_sets:
                    continue
                is_limited = seconds is None or each.job_uid in open_ends
                if seconds is None and (limit := time_limit(each, fleet)) is not None:
                    seconds = max(0.0, held.reserved + limit - fleet.at)
                if seconds is None:
                    self._endless.append(held)
                else:
                    self._ends.append((fleet.at + seconds, held))
                    self._time_limited += [held] * is_limited
        self._ends.sort(key=lambda end: end[0])
        self._restore = self._cluster.checkpoint()

    def run(self) -> dict[Key, ExpectedStart]:
        for workload in self._admit_next():
            reason = lasting_reason(self._fleet.workloads[workload.key])
            unknown = "by quota and places it could start now, but Kueue has not admitted it"
            self._starts[workload.key] = ExpectedStart(
                unknown=f"Kueue does not admit it: {reason}" if reason else unknown
            )
        settled = set(self._starts)
        for at, workload in self._ends[:MAX_ENDS]:
            if not self._cluster.is_running(workload):
                continue  # it was preempted meanwhile
            self._cluster.end(workload)
            name = job_name(self._fleet.workloads[workload.key])
            latest = bool(self._endless or self._time_limited) or any(found.at for found in self._starts.values())
            for started in self._admit_next():
                self._starts.setdefault(started.key, ExpectedStart(at, name, latest=latest))
        first = [key for key, found in self._starts.items() if found.at]
        for waiting in self._cluster.waiting.values():
            for workload in waiting:
                self._starts.setdefault(workload.key, ExpectedStart(unknown=self._why_unknown(workload, first)))
        self._add_bounds(settled)
        self._starts.update(self._not_tried())
        return self._starts

    def _add_bounds(self, settled_keys: Set[Key]) -> None:
        """For workloads without a certain start, add the earliest time and the endless jobs that they wait for."""
        open_ended = {key for key, found in self._starts.items() if found.latest or not found.at} - settled_keys
        if not open_ended:
            return
        earliest = self._earliest_starts()
        sooner: dict[Key, list[str]] = defaultdict(list)
        for each in (*self._endless, *self._time_limited)[:MAX_OPEN_ENDED_JOBS]:
            self._restore()
            self._cluster.end(each)
            for started in self._cluster.admit(self._fleet.at):
                if started.preempted_by is None:
                    sooner[started.workload.key].append(job_name(self._fleet.workloads[each.key]))
        for key in open_ended:
            bound, after = earliest.get(key, (0.0, ""))
            self._starts[key] = replace(
                self._starts[key],
                earliest=bound if bound > self._fleet.at else 0.0,
                earliest_after=after if bound > self._fleet.at else "",
                sooner=tuple(sooner[key][:_MAX_NAMED_JOBS]) if bound <= self._fleet.at else (),
            )

    def _earliest_starts(self) -> dict[Key, tuple[float, str]]:
        """(earliest start, job that it follows) by workload, as if all jobs of unknown end ended now."""
        self._restore()
        found: dict[Key, tuple[float, str]] = {}
        for each in (*self._endless, *self._time_limited):
            self._cluster.end(each)
        for at, ended in [(self._fleet.at, None), *self._ends[:MAX_ENDS]]:
            if ended is not None and not self._cluster.is_running(ended):
                continue
            if ended is not None:
                self._cluster.end(ended)
            while started := [each.workload for each in self._cluster.admit(self._fleet.at) if not each.preempted_by]:
                for workload in started:
                    after = job_name(self._fleet.workloads[ended.key]) if ended is not None else ""
                    found.setdefault(workload.key, (at, after))
                    if self._cluster.is_running(workload):
                        self._cluster.end(workload)
        return found

    def _not_tried(self) -> Iterator[tuple[Key, ExpectedStart]]:
        """Yield the starts of workloads that are not simulated: in closed queues, or too far behind in open ones."""
        tried = first_waiting(self._fleet)
        for queue in self._fleet.cluster_queues.values():
            first = len(tried.get(queue.name, ()))
            words = closed_reason(queue) or f"only the first {first} that wait in queue {queue.name} are forecast"
            for each in queue_order(self._fleet, queue.name).pending[first:]:
                yield each.key, ExpectedStart(unknown=words)

    def _why_unknown(self, workload: SnapshotWorkload, first_keys: list[Key]) -> str:
        if endless := self._endless_before(workload):
            unblocks = {each.name for each in why_workload(self._fleet.workloads[workload.key], self._fleet).unblocks}
            endless.sort(key=lambda each: job_name(each) not in unblocks)  # whom its reason names comes first
            verdicts = [self._open_ends.get(each.job_uid, "") for each in endless]
            named = [
                job_name(each) + f" ({verdict})" * bool(verdict)
                for each, verdict in zip(endless, verdicts, strict=True)
            ]
            more = f" and {len(endless) - _MAX_NAMED_JOBS} more" if len(endless) > _MAX_NAMED_JOBS else ""
            who, one = f"{', '.join(named[:_MAX_NAMED_JOBS])}{more}", len(endless) == 1
            if any(verdicts):  # what is stalled or kept does not run
                return f"when {who} {'ends' if one else 'end'} is not known"
            return f"how long {who} still {'runs' if one else 'run'} is not known"
        if first_keys:
            names = ", ".join(job_name(self._fleet.workloads[key]) for key in first_keys[:_MAX_NAMED_JOBS])
            return f"others start before it ({names}), and how long they will run is not known"
        if self._blocking_flavors(workload):  # nodes are shared with queues that have no cohort in common
            return "nothing ends in its own cohort, by which Kueue would try it again, and when it does is not known"
        return "it has no room even when all that runs has ended"

    def _endless_before(self, workload: SnapshotWorkload) -> list[ClusterWorkload]:
        """Running jobs of no known end whose quota or nodes the workload waits for."""
        missing, queues = self._blocking_flavors(workload), self._cluster.snapshot.queues
        trees, root, found = self._cluster.snapshot.trees.keys(), queues[workload.cluster_queue].root, []
        for each in self._endless:
            held = _flavors_of(each) & missing
            if held and (queues[each.cluster_queue].root is root or held & trees):
                found.append(self._fleet.workloads[each.key])
        return found

    def _blocking_flavors(self, workload: SnapshotWorkload) -> frozenset[str]:
        """Flavors that alone, with no quota in use, let a workload start; else all if they do together; else none."""
        kind = workload.cluster_queue, workload.shape()
        if kind not in self._blocking_cache:
            found = frozenset(each for each in self._flavors if self._fits_without(workload, {each}))
            every = frozenset(self._flavors)
            self._blocking_cache[kind] = found or (every if self._fits_without(workload, every) else frozenset())
        return self._blocking_cache[kind]

    def _fits_without(self, workload: SnapshotWorkload, flavors: Set[str]) -> bool:
        """Whether Kueue would admit the workload if no quota of these flavors were in use."""
        snapshot = self._cluster.snapshot
        holding = [each for queue in snapshot.queues.values() for each in queue.workloads.values()]
        with ExitStack() as gone:
            gone.enter_context(snapshot.without_workloads(each for each in holding if _flavors_of(each) & flavors))
            for queue in snapshot.queues.values():  # workloads that may not be listed hold quota too
                left = {at: -used for at, used in queue.used.items() if at[0] in flavors}
                gone.enter_context(queue.with_usage(left))
            tried, queue = replace(workload, tried=()), snapshot.queues[workload.cluster_queue]
            return (
                FlavorAssigner(tried, queue, snapshot, lambda _at, _total: (Mode.NO_FIT, 0)).assign().mode is Mode.FIT
            )

    def _admit_next(self) -> list[SnapshotWorkload]:
        moves = self._cluster.admit(self._fleet.at)
        for move in moves:
            if move.preempted_by is not None:
                self._starts.setdefault(move.workload.key, ExpectedStart(unknown="it would be preempted first"))
        return [move.workload for move in moves if move.preempted_by is None]


def _flavors_of(workload: SnapshotWorkload) -> frozenset[str]:
    return frozenset(flavor for group in workload.pod_sets for flavor in group.flavors.values())
