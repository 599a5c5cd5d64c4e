"""Replays a recorded scenario on our library and names where it decides otherwise than the real Kueue did."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from itertools import groupby
from pathlib import Path

from console.scheduling.kueue.state import Workload
from console.scheduling.virtual_cluster import VirtualCluster
from practice.controllers.kueue.info import read_workload
from practice.controllers.kueue.snapshot import read_snapshot
from practice.objects.resources import CLUSTERQUEUES, COHORTS, NODES, RESOURCEFLAVORS, TOPOLOGIES
from practice.objects.storage import Storage
from tests.lab.machines import Object
from tests.lab.scenarios.real import ENDLESS, Record, Step

_RESOURCES = {
    "Node": NODES, "Topology": TOPOLOGIES, "ResourceFlavor": RESOURCEFLAVORS, "Cohort": COHORTS,
    "ClusterQueue": CLUSTERQUEUES,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Difference:
    """Where ours first decides otherwise in a step."""

    seed: int
    what: str  # order, victims or domains
    step: int
    words: str


@dataclass(slots=True)
class Comparison:
    """How far a scenario went alike."""

    seed: int
    admitted: int = 0
    evicted: int = 0
    placed: int = 0  # admissions with a topology assignment
    endless: bool = False  # both evict in turn for ever, so that it ends there
    differences: list[Difference] = field(default_factory=list)

    def same(self, what: str) -> bool:
        return not any(each.what == what for each in self.differences)


def save(record: Record, path: Path) -> None:
    path.write_text(json.dumps(asdict(record)))


def load(path: Path) -> Record:
    return read_record(json.loads(path.read_text()))


def read_record(found: Object) -> Record:
    return Record(**{**found, "steps": [Step(**each) for each in found["steps"]]})


def compare(record: Record) -> Comparison:
    """Ours goes the way of the record: its clock, its domains where they differ; it ends where order or victims do."""
    return _Replay(record).run()


class _Replay:
    def __init__(self, record: Record) -> None:
        self._record, self._found = record, Comparison(record.seed)
        self._real: dict[str, Workload] = {}  # those that hold quota after a step
        storage = Storage()
        for each in record.objects:
            if each["kind"] in _RESOURCES:
                storage.create(_RESOURCES[each["kind"]], each, keep_status=True)
        queues = [each for each in record.objects if each["kind"] == "ClusterQueue"]
        strict = [each["metadata"]["name"] for each in queues if each["spec"]["queueingStrategy"] == "StrictFIFO"]
        self._cluster = VirtualCluster(read_snapshot(storage, places=True), strict)
        doors = {each["metadata"]["name"]: each["spec"]["clusterQueue"] for each in record.objects
                 if each["kind"] == "LocalQueue"}  # fmt: skip
        self._jobs = {
            each["metadata"]["name"]: read_workload(each, doors[each["spec"]["queueName"]]) for each in record.jobs
        }

    def run(self) -> Comparison:
        for at, step in enumerate(self._record.steps):
            self._real = {name: read_workload(stored) for name, stored in step.holding.items()}
            if not self._same_decisions(at, step):
                break
            self._same_domains(at, step)
        return self._found

    def _held(self, name: str) -> Workload:
        job = self._jobs[name]
        return self._cluster.snapshot.queues[job.cluster_queue].workloads[job.key]

    def _same_decisions(self, at: int, step: Step) -> bool:
        if step.event == "arrives":
            self._cluster.submit(self._jobs[step.job])
        else:
            self._cluster.end(self._held(step.job))
        ours = [
            [move.workload.key[1], *([] if move.preempted_by is None else [move.preempted_by.key[1]])]
            for move in self._cluster.admit(max((each.reserved for each in self._real.values()), default=0.0))
        ]
        self._found.admitted += sum(len(each) == 1 for each in step.moves)
        self._found.evicted += sum(len(each) == 2 for each in step.moves)
        if len(step.moves) >= ENDLESS and len(ours) >= ENDLESS:
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
                replace(one, flavors=dict(other.flavors), places=other.places)
                for one, other in zip(ours.pod_sets, real.pod_sets, strict=True)
            ]
            self._cluster.snapshot.remove_workload(ours)
            self._cluster.snapshot.add_workload(replace(ours, pod_sets=pod_sets, reserved=real.reserved))

    def _compare_places(self, at: int, name: str, real: Workload, ours: Workload) -> None:
        for one, other in zip(ours.pod_sets, real.pod_sets, strict=True):
            self._found.placed += bool(other.places)
            if dict(one.flavors) != dict(other.flavors):
                self._differ("domains", at, f"{name}/{one.name}: flavors {other.flavors}, ours {one.flavors}")
            elif sorted(one.places) != sorted(other.places):
                self._differ("domains", at, f"{name}/{one.name}: Kueue places {list(other.places)}, ours "
                                            f"{list(one.places)} ({one.topology})")  # fmt: skip

    def _differ(self, what: str, at: int, words: str) -> None:
        self._found.differences.append(Difference(self._record.seed, what, at, words))


def _evictions(moves: Iterable[list[str]]) -> list[list[str]]:
    return sorted(each for each in moves if len(each) == 2)


def _decisions(moves: Iterable[list[str]]) -> list[list[list[str]]]:
    """Each admission, and all victims of one preemption together: they are evicted at the same time."""
    grouped = groupby(moves, key=lambda each: each[1:])
    return [sorted(each) if by else list(each) for by, each in grouped]


def _words(moves: Iterable[list[str]]) -> str:
    listed = [f"{name} out for {by[0]}" if by else name for name, *by in moves]
    return ", ".join(listed) or "nothing"
