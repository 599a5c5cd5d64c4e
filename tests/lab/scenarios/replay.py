"""Replays a recorded scenario on our library and names where it decides otherwise than the real Kueue did.

Kueue runs its cycles every few milliseconds, whether anything happened or not, and a workload that stays in front of
its queue tries another flavor in each: the head of a StrictFIFO queue, one with several pod sets, one that waits for
its victims. Which flavor's turn it is when a workload ends or arrives, when those set aside come back a second later,
or when victims are gone, depends on how many cycles had passed, and nothing that is recorded says how many. It begins
with the first flavor again once the message that Kueue wrote to the workload has come back from the API server, which
may be before the next cycle or after it. A difference that is gone once ours lets some idle cycles pass there, or some
messages come back late, is named as such; it counts as one all the same.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from itertools import combinations, cycle, groupby, pairwise, product, repeat, takewhile
from pathlib import Path

from msgspec import structs

from kueue_rules import (
    CycleVerdict,
    FlavorChoice,
    Move,
    Snapshot,
    SnapshotWorkload,
    TriedFlavorMemory,
    VirtualCluster,
    admission_cycle,
)
from practice.controllers.kueue.info import read_workload
from practice.controllers.kueue.snapshot import read_snapshot
from practice.controllers.objects import is_true
from practice.objects.resources import ADMISSIONCHECKS, CLUSTERQUEUES, COHORTS, NODES, RESOURCEFLAVORS, TOPOLOGIES
from practice.objects.storage import Storage
from tests.lab.machines import Object
from tests.lab.scenarios.real import ENDLESS, Record, Step

_RESOURCES = {
    "Node": NODES, "Topology": TOPOLOGIES, "ResourceFlavor": RESOURCEFLAVORS, "Cohort": COHORTS,
    "ClusterQueue": CLUSTERQUEUES, "AdmissionCheck": ADMISSIONCHECKS,
}  # fmt: skip


MOST_WORDS = 12  # moves in words
MOST_IDLE = 6  # so many flavors and pod sets does no workload go through before it begins anew
WAITS = 3
MOST_LATE = 4

Waits = tuple[int, ...]
"""How many cycles pass before the event of a step, and then, in turn, each time that ours has come to rest in it."""


@dataclass(frozen=True, slots=True)
class Timing:
    """What a step leaves to chance: cycles that pass, and workloads whose messages come back after the next cycle."""

    waits: Waits = (0,) * WAITS
    late: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Difference:
    """Where ours first decides otherwise in a step."""

    seed: int
    what: str  # order, victims or domains
    step: int
    words: str
    by_turn: bool = False
    """Whether ours decides the same in that step with other timing."""


@dataclass(slots=True)
class Comparison:
    """How far a scenario went alike."""

    seed: int
    admitted: int = 0
    evicted: int = 0
    placed: int = 0  # admissions with a topology assignment
    replaced: int = 0  # workloads that got another node for one that failed
    lost: int = 0  # those for which there was none, among the evictions
    endless: bool = False  # both evict in turn for ever, so that it ends there
    differences: list[Difference] = field(default_factory=list)

    def same(self, what: str, *, whatever_the_clock: bool = False) -> bool:
        """Whether nothing differs, or nothing but what depends on how many cycles Kueue had time for."""
        return not any(each.what == what and not (whatever_the_clock and each.by_turn) for each in self.differences)


def save(record: Record, path: Path) -> None:
    path.write_text(json.dumps(asdict(record)))


def load(path: Path) -> Record:
    return read_record(json.loads(path.read_text()))


def read_record(found: Object) -> Record:
    steps = [Step(**each) for each in found["steps"]]
    for before, step in pairwise(steps):
        late = _before_its_event(step)
        before.moves, step.moves = before.moves + late, step.moves[len(late) :]
        for name, *by in late:
            if by:
                before.holding.pop(name, None)
            elif name in step.holding:
                before.holding[name] = step.holding[name]
    for step in steps:
        for name in _refused(step):
            kept = [[name]] if name in step.holding else []
            step.moves = [each for each in step.moves if each != [name]] + kept
    return Record(**{**found, "steps": steps})


def _refused(step: Step) -> set[str]:
    """Those that Kueue admits again and again, because the API server refuses what it writes."""
    own = {name: [each for each in step.moves if each[0] == name] for name, *_ in step.moves}
    return {name for name, moves in own.items() if any(one == other == [name] for one, other in pairwise(moves))}


def _before_its_event(step: Step) -> list[list[str]]:
    """Moves that are of the step before, by Kueue's log: it had not come to rest, only to the same heads."""
    event = [step.job, {"arrives": "created", "ends": "finished"}.get(step.event, "")]
    log = [what for count, what in step.cycles if not count]
    return [each for each in log[: log.index(event)] if each in step.moves] if event in log else []


def compare(record: Record) -> Comparison:
    """Ours goes the way of the record: its clock, its domains where they differ; it ends where order or victims do."""
    timings: dict[int, Timing] = {}
    by_turn: list[Difference] = []
    while (found := _Replay(record, timings).run()).differences:
        first = found.differences[0].step
        for timing in _possible_timings(record.steps[first]):
            again = _Replay(record, {**timings, first: timing}).run()
            if all(each.step > first for each in again.differences):
                timings[first] = timing
                by_turn += [replace(each, by_turn=True) for each in found.differences if each.step == first]
                break
        else:
            break
    found.differences[:0] = by_turn
    if record.restless:
        found.differences.append(Difference(record.seed, "order", len(record.steps), record.restless))
    return found


def _possible_timings(step: Step) -> Iterator[Timing]:
    heads = sorted({name for count, names in step.cycles if count for name in names})[:MOST_LATE]
    for number in range(len(heads) + 1):
        for late in map(frozenset, combinations(heads, number)):
            for waits in product(range(MOST_IDLE if not late else MOST_IDLE // 2), repeat=WAITS):
                yield Timing(waits, late)


class _LateTurns(TriedFlavorMemory):
    """Messages of some workloads come back too late for the next try to begin with the first flavor."""

    late: frozenset[str] = frozenset()

    def note(self, workload: SnapshotWorkload, message: str, choice: FlavorChoice | None = None) -> None:
        if workload.key[1] in self.late:
            self._messages[workload.key] = message
        super().note(workload, message, choice)


class _IdlingCluster(VirtualCluster):
    """Goes on with its cycles for a while each time that nothing is left to decide."""

    def __init__(self, snapshot: Snapshot, strict: Iterable[str]) -> None:
        super().__init__(snapshot, strict)
        self._waits: Iterator[int] = repeat(0)
        self._turns: _LateTurns = _LateTurns()
        self.at_once: frozenset[str] = frozenset()  # after the end of these, all are tried again before the next cycle

    def begin_step(self, timing: Timing) -> None:
        """Let cycles pass before its event."""
        first, *rest = timing.waits
        self._waits, self._turns.late = cycle(rest), timing.late
        for _ in range(first):
            super()._run_cycle([], 0.0)

    def _run_cycle(self, moves: list[Move], now: float) -> bool:
        if super()._run_cycle(moves, now):
            return True
        changed = [super(_IdlingCluster, self)._run_cycle(moves, now) for _ in range(next(self._waits))]
        return any(changed)

    def end(self, workload: SnapshotWorkload) -> None:
        super().end(workload)
        if workload.key[1] in self.at_once:
            self._try_all_again()

    def try_again(self, roots: Collection[str]) -> None:
        self._freed |= {queue.root for queue in self.snapshot.queues.values() if queue.root.name in roots}

    def lose_node(self, node: str, snapshot: Snapshot, holders: Iterable[SnapshotWorkload]) -> list[list[str]]:
        """Go on with a snapshot without that node; the decisions on the workloads that it held, in that order."""
        for queue in self.snapshot.queues.values():
            for each in queue.workloads.values():
                snapshot.add_workload(each)
        self.snapshot, snapshot.failures = snapshot, {}
        self._freed |= {queue.root for queue in snapshot.queues.values()}  # all are tried again
        found = []
        for held in holders:
            used = [dict(of.used) for of in snapshot.nodes]
            head = structs.replace(held, second_pass=True, failed_nodes=(node,))
            (decision,) = admission_cycle([head], snapshot)
            for of, before in zip(snapshot.nodes, used, strict=True):
                of.used = before  # it keeps the quota that it has
            listed = snapshot.queues[held.cluster_queue].workloads
            if decision.verdict is CycleVerdict.ADMIT:
                listed[held.key] = structs.replace(listed[held.key], second_pass=False, failed_nodes=())
                found.append([held.key[1]])
            elif decision.verdict is CycleVerdict.EVICT:
                held.evicted = True
                self._leaving.append(held)
                found.append([held.key[1], node])
        return found


class _Replay:
    def __init__(self, record: Record, timings: Mapping[int, Timing]) -> None:
        self._record, self._timings, self._found = record, timings, Comparison(record.seed)
        self._real: dict[str, SnapshotWorkload] = {}  # those that hold quota after a step
        self._storage = storage = Storage()
        for each in record.objects:
            if each["kind"] in _RESOURCES:
                storage.create(_RESOURCES[each["kind"]], each, keep_status=True)
        queues = [each for each in record.objects if each["kind"] == "ClusterQueue"]
        strict = [each["metadata"]["name"] for each in queues if each["spec"]["queueingStrategy"] == "StrictFIFO"]
        self._cluster = _IdlingCluster(read_snapshot(storage, with_topology=True), strict)
        doors = {each["metadata"]["name"]: each["spec"]["clusterQueue"] for each in record.objects
                 if each["kind"] == "LocalQueue"}  # fmt: skip
        self._jobs = {
            each["metadata"]["name"]: read_workload(each, doors[each["spec"]["queueName"]]) for each in record.jobs
        }

    def run(self) -> Comparison:
        for at, step in enumerate(self._record.steps):
            self._real = {name: read_workload(stored) for name, stored in step.holding.items()}
            before = self._record.steps[at - 1].holding if at else {}
            if not self._same_decisions(at, step, before):
                break
            self._same_domains(at, step)
        return self._found

    def _held(self, name: str) -> SnapshotWorkload:
        job = self._jobs[name]
        return self._cluster.snapshot.queues[job.cluster_queue].workloads[job.key]

    def _lose_node(self, step: Step, before: Mapping[str, Object]) -> list[list[str]]:
        """In the order of Kueue, which is of chance where several workloads were on the node: that of a Go map."""
        if step.job:
            self._storage.delete(NODES, "", step.job)
        turns = [name for name, *by in step.moves if not by or by == [step.job]]
        admitted = [name for name, stored in before.items() if is_true(stored, "Admitted")]
        holders = [held for name in sorted(admitted, key=lambda name: (name not in turns, [*turns, name].index(name)))
                   for held in [self._held(name)]
                   if any(values[-1] == step.job for one in held.pod_sets for values, _ in one.places)]  # fmt: skip
        found = self._cluster.lose_node(step.job, read_snapshot(self._storage, with_topology=True), holders)
        self._found.replaced += sum(len(each) == 1 for each in found)
        self._found.lost += sum(len(each) == 2 for each in found)
        return found

    def _admitted(self) -> list[list[str]]:
        return [
            [move.workload.key[1], *([] if move.preempted_by is None else [move.preempted_by.key[1]])]
            for move in self._cluster.admit(max((each.reserved for each in self._real.values()), default=0.0))
        ]

    def _same_decisions(self, at: int, step: Step, before: Mapping[str, Object]) -> bool:
        self._cluster.begin_step(self._timings.get(at, Timing()))
        self._cluster.at_once = frozenset(_tried_again_at_once(step))
        ours = []
        if step.event == "arrives":
            self._cluster.submit(self._jobs[step.job])
        elif step.event == "ends":
            self._cluster.end(self._held(step.job))
        else:
            ours = self._lose_node(step, before)
        ours += self._admitted()
        if step.event not in ("arrives", "ends"):
            self._cluster.try_again(_tried_again(step))
            ours += self._admitted()
        self._found.admitted += sum(len(each) == 1 for each in step.moves)
        self._found.evicted += sum(len(each) == 2 for each in step.moves)
        if self._record.endless and step is self._record.steps[-1] and len(ours) >= ENDLESS:
            self._found.endless = True
            return False
        if _decisions(ours) == _decisions(step.moves):
            return True
        what = "victims" if _evictions(ours) != _evictions(step.moves) else "order"
        self._differ(what, at, f"{step.job} {step.event}: Kueue {_words(step.moves)}; ours {_words(ours)}")
        return False

    def _same_domains(self, at: int, step: Step) -> None:
        for name, real in self._real.items():
            ours = self._held(name)
            if [name] in step.moves:
                self._compare_places(at, name, real, ours)
            pod_sets = [
                structs.replace(one, flavors=dict(other.flavors), places=other.places)
                for one, other in zip(ours.pod_sets, real.pod_sets, strict=True)
            ]
            self._cluster.snapshot.remove_workload(ours)
            self._cluster.snapshot.add_workload(structs.replace(ours, pod_sets=pod_sets, reserved=real.reserved))

    def _compare_places(self, at: int, name: str, real: SnapshotWorkload, ours: SnapshotWorkload) -> None:
        for one, other in zip(ours.pod_sets, real.pod_sets, strict=True):
            self._found.placed += bool(other.places)
            if dict(one.flavors) != dict(other.flavors):
                self._differ("domains", at, f"{name}/{one.name}: flavors {other.flavors}, ours {one.flavors}")
            elif one.count != other.count:
                self._differ("domains", at, f"{name}/{one.name}: {other.count} pods, ours {one.count}")
            elif sorted(one.places) != sorted(other.places):
                self._differ("domains", at, f"{name}/{one.name}: Kueue places {list(other.places)}, ours "
                                            f"{list(one.places)} ({one.topology})")  # fmt: skip

    def _differ(self, what: str, at: int, words: str) -> None:
        self._found.differences.append(Difference(self._record.seed, what, at, words))


def _tried_again(step: Step) -> set[str]:
    """Where Kueue tried all again after workloads had given back what they held: for the node of another scenario."""
    between = [what for count, what in step.cycles if not count]
    last = max((at for at, what in enumerate(between) if what[-1] == "pending"), default=len(between))
    return {cohort[0] for kind, *cohort in between[last:] if kind == "move" and cohort}


def _tried_again_at_once(step: Step) -> Iterator[str]:
    """Those after whose end Kueue tried all again before its next cycle, not in one of those that follow."""
    for at, (_, what) in enumerate(step.cycles):
        if what and what[-1] in ("finished", "pending"):
            between = takewhile(lambda each: not each[0], step.cycles[at:])
            if any(each[1][0] == "move" for each in between):
                yield what[0]


def _evictions(moves: Iterable[list[str]]) -> list[list[str]]:
    return sorted(each for each in moves if len(each) == 2)


def _decisions(moves: Iterable[list[str]]) -> list[list[list[str]]]:
    """Each admission, and all victims of one preemption together: they are evicted at the same time."""
    grouped = groupby(moves, key=lambda each: each[1:])
    return [sorted(each) if by else list(each) for by, each in grouped]


def _words(moves: Iterable[list[str]]) -> str:
    listed = [f"{name} out for {by[0]}" if by else name for name, *by in moves]
    return ", ".join(listed[:MOST_WORDS] + ["and so on"] * (len(listed) > MOST_WORDS)) or "nothing"
