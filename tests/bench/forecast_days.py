"""Simulated days of a cluster whose jobs run for as long as they happen to, and what came of the windows told there.

Jobs arrive at random, more by day; Kueue's rules decide on a virtual clock; a job runs for as long as its recipe does,
with noise, or fails early. Windows are told to each job that has to wait when it arrives, and to all that wait every
few hours, from what a console would know then: the objects of the cluster, the record of the runs that have ended and,
where run times are known, how far each job is. Each that was told at an arrival is kept, and corrects those after it.
"""

import math
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from random import Random
from statistics import median
from time import process_time

from msgspec import structs

from console.kube.objects.jobset import JobSet, ReplicatedJob
from console.kube.objects.meta import GPU, Condition
from console.kube.objects.node import Node
from console.kube.objects.queue import ClusterQueue, LocalQueue, Preemption, Quota, ResourceFlavor, Topology, Usage
from console.kube.objects.workload import PodSet, TopologyDomain, Workload
from console.kube.snapshot import Fleet
from console.scheduling.forecast_record import RecordedWindow, compare, correct_windows
from console.scheduling.job_arrivals import SeenWorkload, add_seen_workloads, expected_arrivals
from console.scheduling.kueue_snapshot import kueue_workload
from console.scheduling.run_times import PastRun, PastTimes, run_times
from console.scheduling.start_simulation import virtual_cluster_of
from console.scheduling.start_windows import StartWindow, start_windows
from kueue_rules import SnapshotWorkload as KueueWorkload
from tests.bench.rows import Bound
from tests.screens.scene import a4

DAYS = 500
DAY, HOUR = 86_400.0, 3600.0
FIRST = 1_790_000_000.0  # seconds since the epoch
WARM_UP = 5  # days that teach run times and widths, and are not counted
NODES = 16
EVERY = 6 * HOUR  # between two forecasts for all that wait
RUNS_KEPT = 1000  # that the record of runs knows
BUDGET = 60.0  # seconds of processor time: all rollouts fit in it
ROLLOUTS = 60  # of each forecast; a console makes up to 200
SPREAD = 0.1  # of the logarithm of the run times of one recipe
FAIL = 0.03  # of all runs, early
SEGMENTS = 24  # of a run, each with a speed of its own
BLOCK = "cloud.google.com/gce-topology-block"


@dataclass(frozen=True)
class Recipe:
    """What somebody runs again and again."""

    name: str
    owner: str
    queue: str
    gpus: int
    hours: float
    a_day: float
    priority: int = 0
    resumes: bool = True
    topology: str = ""


RECIPES = (
    Recipe("pretrain", "anna", "research", 64, 9.0, 1.7),
    Recipe("tune", "li", "research", 32, 3.0, 3.3),
    Recipe("eval", "anna", "research", 8, 0.7, 9.0, resumes=False),
    Recipe("dpo", "mira", "product", 32, 4.0, 2.3, topology=BLOCK),
    Recipe("distill", "tom", "product", 48, 5.0, 1.3),
    Recipe("release", "mira", "product", 16, 2.0, 2.0, priority=100),
    Recipe("sweep", "tom", "product", 16, 1.5, 5.0, resumes=False),
)


@dataclass(eq=False)
class Run:
    """A job and what it is going to do."""

    job: JobSet
    workload: Workload
    recipe: Recipe
    speeds: list[float]  # seconds of each segment
    fails_at: float | None  # share of its run
    held: KueueWorkload | None = None  # once it is admitted
    since: float = 0.0
    done: float = 0.0  # share before, from its checkpoints

    @property
    def whole(self) -> float:
        return sum(self.speeds)

    def seconds_left(self) -> float:
        """From its start, or its resumption, to its end."""
        return self.whole * ((1.0 if self.fails_at is None else max(self.done, self.fails_at)) - self.done)


@dataclass
class Told:
    """A window that was told."""

    made: float
    window: StartWindow
    at_arrival: bool


@dataclass
class Figures:
    """What came of the windows."""

    errors: list[float] = field(default_factory=list)  # shares of the wait
    sides: list[int] = field(default_factory=list)  # -1: started before the window, 1 after it, 0 within

    def share(self) -> float:
        """Of the starts within their windows."""
        return self.sides.count(0) / len(self.sides)


def main(say: Callable[[str], None], bound: Bound) -> bool:
    """Figures of 500 days; true when every bound is kept."""
    good = True
    for known, most, words in ((True, 0.1, "progress is known"), (False, 0.3, "history alone tells run times")):
        days, began = Days(known=known), process_time()
        days.simulate(DAYS)
        say(f"{DAYS} days, {words}: {days.jobs:,} jobs, {days.waited:,} waited, {days.preempted:,} preemptions")
        say(f"  {days.windows:,} windows, {days.windowless} times none, {process_time() - began:.0f} s of CPU")
        for when, each in (("at the arrival", days.arrived), ("later", days.later)):
            early = each.sides.count(-1) / len(each.sides)
            say(f"  told {when}: {len(each.sides):,}; {each.share():.1%} held, {early:.1%} started before the window; "
                f"median error {median(each.errors):.1%} of the wait")  # fmt: skip
        both = Figures(days.arrived.errors + days.later.errors, sides=days.arrived.sides + days.later.sides)
        good &= bound("  share held, distance to 80 %", abs(both.share() - 0.8), 0.05)
        good &= bound("  median error, of the wait", median(both.errors), most)
    return good


class Days:
    """One cluster over many days."""

    def __init__(self, *, known: bool, seed: int = 0, spread: float = SPREAD, rollouts: int = ROLLOUTS) -> None:
        """`known`: it is known how far each running job is; else only the record of runs says how long they run."""
        self.dice, self.known, self.spread, self.rollouts = Random(seed), known, spread, rollouts
        self.nodes: dict[tuple[str, str], Node] = {("", each.name): each for each in map(a4, range(NODES))}
        reclaims = {"research": "LowerPriority", "product": "Any"}
        self.queues = {
            name: ClusterQueue(name, cohort="lab", quotas=(Quota("a4", GPU, 8 * NODES // 2),),
                               preemption=Preemption("LowerPriority", reclaim))
            for name, reclaim in reclaims.items()
        }  # fmt: skip
        self.doors = {("default", name): LocalQueue("default", name, cluster_queue=name) for name in self.queues}
        self.flavors = {("", "a4"): ResourceFlavor("a4", topology="machines")}
        self.topologies = {("", "machines"): Topology("machines", levels=(BLOCK, "kubernetes.io/hostname"))}
        self.runs: dict[str, Run] = {}  # by uid of the Workload
        self.past: deque[PastRun] = deque(maxlen=RUNS_KEPT)
        self.seen: list[SeenWorkload] = []
        self.promises: list[RecordedWindow] = []
        self.told: dict[str, list[Told]] = defaultdict(list)
        self.arrived, self.later = Figures(), Figures()  # of windows told at the arrival, and later
        self.jobs = self.waited = self.preempted = self.windows = self.windowless = self.forecasts = 0
        self.now = self.counted = FIRST
        self.cluster = virtual_cluster_of(self.fleet(), ("a4",))

    def fleet(self) -> Fleet:
        queues = {}
        for name, queue in self.queues.items():
            used = sum(run.recipe.gpus for run in self.runs.values() if run.held and run.recipe.queue == name)
            reserved = (Usage("a4", GPU, used),)
            queues["", name] = structs.replace(queue, reserved=reserved)
        return Fleet(
            at=self.now,
            nodes=self.nodes,
            jobsets={("default", run.job.name): run.job for run in self.runs.values()},
            workloads={run.workload.key: run.workload for run in self.runs.values()},
            cluster_queues=queues,
            local_queues=self.doors,
            flavors=self.flavors,
            topologies=self.topologies,
        )

    def simulate(self, days: int, warm_up: int = WARM_UP) -> None:
        agenda: list[tuple[float, int, str, KueueWorkload | None]] = []
        self.counted = FIRST + warm_up * DAY
        end, number = self.counted + days * DAY, 0
        for at, recipe in self._arrivals(end):
            heappush(agenda, (at, number := number + 1, recipe, None))
        at = FIRST
        while (at := at + EVERY) < end:
            heappush(agenda, (at, number := number + 1, "", None))
        recipes = {each.name: each for each in RECIPES}
        while agenda and agenda[0][0] < end:
            self.now, _, what, held = heappop(agenda)
            arrived = None
            if held is not None:
                if not self.cluster.is_running(held):
                    continue  # it was preempted meanwhile
                self._end(what)
            elif what:
                arrived = self._arrive(recipes[what])
            for started in self._admit():
                heappush(agenda, (self.now + started.seconds_left(), number := number + 1, started.workload.uid,
                                  started.held))  # fmt: skip
            waits = arrived is not None and arrived.held is None
            self.waited += waits
            if waits or not what:
                self._forecast(arrived)

    def _arrivals(self, end: float) -> list[tuple[float, str]]:
        """More by day than at night."""
        found = []
        for recipe in RECIPES:
            at = FIRST
            while (at := at + self.dice.expovariate(2 * recipe.a_day / DAY)) < end:
                if self.dice.random() < 0.5 + 0.4 * math.sin(2 * math.pi * (at - FIRST) / DAY):
                    found.append((at, recipe.name))
        return found

    def _arrive(self, recipe: Recipe) -> Run:
        self.jobs += 1
        name = f"{recipe.name}-{self.jobs}"
        group = ReplicatedJob("workload", pods_per_job=recipe.gpus // 8, gpus_per_pod=8, ready=0)
        job = JobSet("default", name, f"uid-{name}", groups=(group,), queue=recipe.queue, release=name,
                     recipe=recipe.name, owner=recipe.owner, created=self.now)  # fmt: skip
        pods = PodSet("workload", recipe.gpus // 8, ((GPU, 8),), required_topology=recipe.topology)
        waits = Condition("QuotaReserved", "False", "Pending", "waits", self.now)
        workload = Workload("default", f"jobset-{name}", f"wl-{name}", self.now, recipe.queue, "", recipe.priority,
                            owner_kind="JobSet", owner_name=name, owner_uid=job.uid, pod_sets=(pods,),
                            conditions=(waits,))  # fmt: skip
        whole = recipe.hours * HOUR * math.exp(self.dice.gauss(0.0, self.spread))
        speeds = [whole / SEGMENTS * math.exp(self.dice.gauss(0.0, 0.1)) for _ in range(SEGMENTS)]
        fails_at = self.dice.random() if self.dice.random() < FAIL else None
        run = self.runs[workload.uid] = Run(job, workload, recipe, speeds, fails_at)
        fleet = self.fleet()
        self.cluster.submit(kueue_workload(workload, fleet, ("a4",), holds=False))
        self.seen = add_seen_workloads(self.seen, fleet, "s")
        return run

    def _admit(self) -> list[Run]:
        by_key = {run.workload.key: run for run in self.runs.values()}
        started = {}
        for held, preempted_by in self.cluster.admit(self.now):
            run = by_key[held.key]
            if preempted_by is None:
                pods = structs.replace(
                    run.workload.pod_sets[0],
                    flavors=((GPU, "a4"),),
                    domains=tuple(TopologyDomain(values, pods) for values, pods in held.pod_sets[0].places),
                )
                reserved = Condition("QuotaReserved", "True", since=self.now)
                admitted = structs.replace(reserved, type="Admitted")
                run.workload = structs.replace(
                    run.workload, pod_sets=(pods,), cluster_queue=run.recipe.queue, conditions=(reserved, admitted)
                )
                run.held, run.since = held, self.now
                started[held.key] = run
                self._judge(run)
            else:
                self.preempted += 1
                started.pop(held.key, None)
                if run.recipe.resumes:
                    run.done = min(0.99, run.done + (self.now - run.since) / run.whole)
                run.held = None
                pods = structs.replace(run.workload.pod_sets[0], flavors=(), domains=())
                evicted = Condition("Evicted", "True", "Preempted", "", self.now)
                waits = Condition("QuotaReserved", "False", "Pending", "", self.now)
                run.workload = structs.replace(
                    run.workload,
                    pod_sets=(pods,),
                    cluster_queue="",
                    conditions=(evicted, waits),
                    ran_before=run.workload.ran_before + self.now - run.since,
                )
                self._compare({})  # the record saw that it had started
        return list(started.values())

    def _end(self, uid: str) -> None:
        run = self.runs[uid]
        self._compare({})
        del self.runs[uid]
        assert run.held is not None
        self.cluster.end(run.held)
        if run.fails_at is None:
            recipe, before = run.recipe, run.workload.ran_before
            self.past.append(PastRun(recipe.name, recipe.owner, recipe.gpus, before + self.now - run.since, before))

    def _progress(self) -> dict[str, float]:
        """Seconds left of running jobs by the steps that are left and the time of recent ones."""
        found = {}
        for run in self.runs.values():
            if run.held is not None and self.known:
                share = run.done + (self.now - run.since) / run.whole
                recent = run.speeds[: max(1, math.ceil(share * SEGMENTS))][-4:]
                found[run.job.uid] = max(0.0, 1 - share) * SEGMENTS * sum(recent) / len(recent)
        return found

    def _forecast(self, arrived: Run | None) -> None:
        if all(run.held for run in self.runs.values()):
            return
        self.forecasts += 1
        fleet = self.fleet()
        times = PastTimes(fleet, self.past)
        raw = start_windows(
            fleet,
            self._progress(),
            run_times(fleet, times),
            seed=self.forecasts,
            budget=BUDGET,
            rollouts=self.rollouts,
            arrivals=expected_arrivals(fleet, self.seen, "s", times),
        )
        windows = {key: each for key, each in raw.by_key.items() if not each.latest}
        told = correct_windows(windows, self.promises, "s", self.now)
        for run in self.runs.values():
            if run.held is None and (arrived is None or run is arrived) and self.now > self.counted:
                if run.workload.key in told:
                    self.windows += 1
                    self.told[run.workload.uid].append(Told(self.now, told[run.workload.key], arrived is not None))
                else:
                    self.windowless += 1
        self._compare(windows)

    def _compare(self, windows: dict[tuple[str, str], StartWindow]) -> None:
        self.promises = compare(self.promises, self.fleet(), "s", windows)

    def _judge(self, run: Run) -> None:
        for each in self.told.pop(run.workload.uid, []):
            figures, wait = self.arrived if each.at_arrival else self.later, self.now - each.made
            side = (self.now > each.window.end) - (self.now < each.window.start)
            figures.sides.append(side)
            figures.errors.append(abs(self.now - each.window.middle) / wait)
