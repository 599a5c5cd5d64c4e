"""Simulates a scenario: jobs arrive, are admitted and preempted by Kueue's rules, and end.

The same scenario and seed give the same result. Admission checks, pods that take time to start and machines that fail
are left out: a job runs from the moment it is admitted.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from heapq import heappop, heappush
from itertools import pairwise
from random import Random

from msgspec import Struct, field

from kueue_rules.fair_sharing import DEFAULT_STRATEGIES
from kueue_rules.quota_tree import CohortQuota, FlavorQuota
from kueue_rules.scenario import NODE_GPUS, FlavorPlan, JobPlan, QueuePlan, Scenario, job_names
from kueue_rules.snapshot import (
    UNLIMITED_PODS,
    Flavor,
    QueueNode,
    ResourceGroup,
    Snapshot,
    SnapshotNode,
    SnapshotPodSet,
    SnapshotWorkload,
    TopologyRequest,
)
from kueue_rules.topology_assignment import HOSTNAME, TopologyTree
from kueue_rules.virtual_cluster import VirtualCluster

GPU = "nvidia.com/gpu"
BLOCK_LABEL = "cloud.google.com/gce-topology-block"
TIME_SLICES = 48  # of the time, for the picture


class QueueResult(Struct, frozen=True):
    """The results of one queue's jobs. The wait of a job is all its time in the queue, also after preemptions."""

    queue: str
    quota: int  # GPUs, of all flavors together
    arrived: int
    started: int
    finished: int
    wait_median: float | None  # None: so many wait at the end that it is not known
    wait_p90: float | None
    wait_longest: float | None
    waiting: int  # at the end
    waiting_longest: float | None  # of these, until the end; None: there are none
    preempted: int  # times that its jobs were
    gpu_hours: float
    lost_gpu_hours: float  # of these, work that was done again after a preemption
    utilization: float | None  # of its quota; above 1 where it borrows; None: it has no quota


class JobEvent(Struct, frozen=True):
    at: float
    what: str  # starts, ends or preempted
    job: str
    queue: str
    gpus: int
    flavor: str
    by: str = ""  # for which job it is preempted


class SimulationResult(Struct, frozen=True):
    seed: int
    span: float  # seconds that were simulated
    gpus: int
    utilization: float | None  # of all GPUs, over the whole time
    flavors: Mapping[str, float]  # utilization of each
    busy: tuple[float, ...]  # utilization in equal slices of the time
    queues: tuple[QueueResult, ...]
    events: tuple[JobEvent, ...]
    never: tuple[str, ...]  # jobs that had not started by the end, in the order of their arrival


class _SimulatedJob(Struct, eq=False):
    name: str
    plan: JobPlan
    arrival: float
    left: float  # seconds it has yet to run
    workload: SnapshotWorkload
    since: float  # it waits or runs
    runs: bool = False
    waited: float = 0.0  # before
    attempt: int = 0
    gpu_hours: float = 0.0
    lost: float = 0.0
    preempted: int = 0
    finished: bool = False


def simulate_scenario(scenario: Scenario, seed: int = 0) -> SimulationResult:
    return _Simulation(scenario, seed).run()


class _GpuUsage(Struct, eq=False):
    """The GPUs of a flavor that are in use, as a function of time."""

    gpus: int = 0
    changes: list[tuple[float, int]] = field(default_factory=list)

    def add(self, now: float, gpus: int) -> None:
        self.gpus += gpus
        self.changes.append((now, self.gpus))

    def seconds(self, start_time: float, end_time: float) -> float:
        """GPU seconds used between two times, in seconds of the virtual clock."""
        total, at, used = 0.0, start_time, 0
        for moment, gpus in self.changes:
            if moment >= end_time:
                break
            if moment > at:
                total, at = total + used * (moment - at), moment
            used = gpus
        return total + used * (end_time - at)


class _Simulation:
    def __init__(self, scenario: Scenario, seed: int) -> None:
        self._scenario, self._seed = scenario, seed
        self._cluster = VirtualCluster(
            _make_snapshot(scenario), (each.name for each in scenario.queues if each.strategy == "StrictFIFO")
        )
        self._jobs = {job.name: job for plan in scenario.jobs for job in _iter_arrivals(plan, seed)}
        self._usage = {each.name: _GpuUsage() for each in scenario.flavors}
        self._agenda: list[tuple[float, int, str, int]] = []  # moment, 0 an end or 1 an arrival, job, attempt
        self._events: list[JobEvent] = []

    def run(self) -> SimulationResult:
        end, now = self._scenario.until or math.inf, 0.0
        for job in self._jobs.values():
            heappush(self._agenda, (job.arrival, 1, job.name, 0))
        while self._agenda and self._agenda[0][0] <= end:
            now = self._agenda[0][0]
            while self._agenda and self._agenda[0][0] == now:
                self._process_event(*heappop(self._agenda))
            self._run_admission(now)
        span = end if math.isfinite(end) else now
        for job in self._jobs.values():
            if job.runs:
                job.gpu_hours += (span - job.since) * job.plan.gpus / 3600
        return self._make_result(span)

    def _process_event(self, now: float, kind: int, name: str, attempt: int) -> None:
        job = self._jobs[name]
        if kind:
            self._cluster.submit(job.workload)
        elif job.attempt == attempt and self._cluster.is_running(job.workload):
            self._cluster.end(job.workload)
            job.finished = True
            self._end_job(job, now)
            self._record_event(now, "ends", job)

    def _run_admission(self, now: float) -> None:
        for workload, by in self._cluster.admit(now):
            job = self._jobs[workload.key[1]]
            if by is not None:
                ran, kept = now - job.since, 0.0
                if every := job.plan.checkpoint_every:
                    kept = min(ran, ran // every * every)
                job.left -= kept
                job.lost += (ran - kept) * job.plan.gpus / 3600
                job.preempted += 1
                self._end_job(job, now)
                self._record_event(now, "preempted", job, by.key[1])
                continue
            job.waited += now - job.since
            job.workload, job.since, job.runs, job.attempt = workload, now, True, job.attempt + 1
            self._record_usage(job, now, job.plan.gpus)
            heappush(self._agenda, (now + job.left, 0, job.name, job.attempt))
            self._record_event(now, "starts", job)

    def _end_job(self, job: _SimulatedJob, now: float) -> None:
        job.gpu_hours += (now - job.since) * job.plan.gpus / 3600
        job.since, job.runs = now, False
        self._record_usage(job, now, -job.plan.gpus)

    def _record_usage(self, job: _SimulatedJob, now: float, gpus: int) -> None:
        self._usage[_flavor_of(job.workload)].add(now, gpus)

    def _record_event(self, now: float, subject: str, job: _SimulatedJob, by: str = "") -> None:
        plan = job.plan
        self._events.append(JobEvent(now, subject, job.name, plan.queue, plan.gpus, _flavor_of(job.workload), by))

    def _make_result(self, span: float) -> SimulationResult:
        gpus = {each.name: each.nodes * NODE_GPUS for each in self._scenario.flavors}
        total = sum(gpus.values())

        def share(start: float, end: float) -> float:
            return sum(each.seconds(start, end) for each in self._usage.values()) / (total * (end - start))

        edges = [span * at / TIME_SLICES for at in range(TIME_SLICES + 1)]
        mine: dict[str, list[_SimulatedJob]] = defaultdict(list)
        for job in self._jobs.values():
            if job.arrival <= span:
                mine[job.plan.queue].append(job)
        never = sorted((job.arrival, job.name) for jobs in mine.values() for job in jobs if not job.attempt)
        return SimulationResult(
            self._seed,
            span,
            total,
            share(0, span) if span else None,
            {name: self._usage[name].seconds(0, span) / (amount * span) for name, amount in gpus.items() if span},
            tuple(share(*each) for each in pairwise(edges)) if span else (),
            tuple(_queue_result(each, mine[each.name], span) for each in self._scenario.queues),
            tuple(self._events),
            tuple(name for _, name in never),
        )


def _queue_result(plan: QueuePlan, jobs: Sequence[_SimulatedJob], span: float) -> QueueResult:
    waits = sorted(job.waited for job in jobs if job.runs or job.finished)
    waiting = [job.waited + span - job.since for job in jobs if not (job.runs or job.finished)]
    quota, hours = sum(plan.quota.values()), sum(job.gpu_hours for job in jobs)
    return QueueResult(
        plan.name,
        quota,
        arrived=len(jobs),
        started=sum(job.attempt > 0 for job in jobs),
        finished=sum(job.finished for job in jobs),
        wait_median=_wait_percentile(waits, len(jobs), 0.5),
        wait_p90=_wait_percentile(waits, len(jobs), 0.9),
        wait_longest=_wait_percentile(waits, len(jobs), 1.0),
        waiting=len(waiting),
        waiting_longest=max(waiting, default=None),
        preempted=sum(job.preempted for job in jobs),
        gpu_hours=hours,
        lost_gpu_hours=sum(job.lost for job in jobs),
        utilization=hours * 3600 / (quota * span) if quota and span else None,
    )


def _wait_percentile(waits: Sequence[float], arrived: int, share: float) -> float | None:
    """The wait that `share` (0 to 1) of the jobs do not exceed, by sorted waits; None if one of these never started."""
    at = max(1, math.ceil(share * arrived)) - 1
    return waits[at] if at < len(waits) else None


def _iter_arrivals(plan: JobPlan, seed: int) -> Iterator[_SimulatedJob]:
    """Yield the jobs; each plan has its own random generator, so that other lines do not affect it."""
    dice, at = Random(f"{seed} {plan.name}"), plan.at
    for number, name in enumerate(job_names(plan.name, plan.count)):
        if number:
            at += dice.expovariate(1 / plan.every) if plan.random else plan.every
        runs = plan.runs * math.exp(dice.gauss(0.0, plan.spread)) if plan.spread else plan.runs
        yield _SimulatedJob(name, plan, at, runs, _make_workload(plan, name, at), since=at)


def _make_workload(plan: JobPlan, name: str, time: float) -> SnapshotWorkload:
    pods, gpus = max(1, plan.gpus // NODE_GPUS), min(plan.gpus, NODE_GPUS)
    topology = {
        "none": TopologyRequest(unconstrained=True),
        "preferred": TopologyRequest(preferred=BLOCK_LABEL),
        "required": TopologyRequest(required=BLOCK_LABEL),
    }[plan.topology]
    group = SnapshotPodSet("main", pods, {GPU: plan.gpus}, {GPU: gpus}, topology=topology)
    return SnapshotWorkload(("", name), name, plan.queue, plan.priority, time, [group])


def _flavor_of(workload: SnapshotWorkload) -> str:
    return workload.pod_sets[0].flavors[GPU]


def _make_snapshot(scenario: Scenario) -> Snapshot:
    flavors = [Flavor(each.name, topology="machines") for each in scenario.flavors]
    trees = {
        flavor.name: TopologyTree("machines", (BLOCK_LABEL, HOSTNAME), flavor, _make_nodes(plan), {})
        for flavor, plan in zip(flavors, scenario.flavors, strict=True)
    }
    queues = [
        QueueNode(
            each.name,
            weight=each.weight,
            quotas={
                (name, GPU): FlavorQuota(gpus, each.borrowing_limit.get(name), each.lending_limit.get(name))
                for name, gpus in each.quota.items()
            },
            cohort=each.cohort,
            groups=(ResourceGroup((GPU,), tuple(each.quota)),),
            within_queue=each.within_queue,
            reclaim=each.reclaim,
            borrow_within=-1 if each.borrow_within != "Never" else None,
        )
        for each in scenario.queues
    ]
    cohorts = [
        CohortQuota(each.name, each.parent, {(name, GPU): FlavorQuota(gpus) for name, gpus in each.quota.items()})
        for each in scenario.cohorts
    ]
    fair = DEFAULT_STRATEGIES if scenario.fair_sharing else ()
    return Snapshot(queues, cohorts, flavors, trees, fair_sharing=fair)


def _make_nodes(plan: FlavorPlan) -> Iterator[SnapshotNode]:
    for number in range(plan.nodes):
        labels = {BLOCK_LABEL: f"block-{number // plan.nodes_per_block}", HOSTNAME: f"{plan.name}-{number}"}
        yield SnapshotNode(labels[HOSTNAME], labels, (), {GPU: NODE_GPUS, "pods": UNLIMITED_PODS})
