"""Kueue's scheduling cycle: the head of every queue is tried on one snapshot; it is admitted, preempts or waits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from practice.controllers.base import Controller
from practice.controllers.kueue import admission_status as status
from practice.controllers.kueue.assignment import encode
from practice.controllers.kueue.choice import Choice, Mode
from practice.controllers.kueue.flavors import FlavorAssigner
from practice.controllers.kueue.info import has_quota, queue_time, read_workload
from practice.controllers.kueue.preemption import HUMAN_REASONS, Preemption, Target
from practice.controllers.kueue.queues import Queues
from practice.controllers.kueue.snapshot import Snapshot
from practice.controllers.kueue.topology import TopologySnapshot
from practice.controllers.kueue.words import JOB_UID
from practice.controllers.matching import selector_holds
from practice.controllers.objects import is_true, key_of, labels_of
from practice.controllers.quantity import words
from practice.objects.resources import (
    CLUSTERQUEUES,
    COHORTS,
    LOCALQUEUES,
    NAMESPACES,
    NODES,
    PODS,
    RESOURCEFLAVORS,
    TOPOLOGIES,
    WORKLOADS,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from practice.controllers.base import ControlPlane
    from practice.controllers.kueue.info import WorkloadInfo
    from practice.controllers.objects import Key, Object
    from practice.objects.history import Event
    from practice.objects.resources import Resource

_ANY: Key = ("", "cycle")
_WIDE = (CLUSTERQUEUES, LOCALQUEUES, RESOURCEFLAVORS, TOPOLOGIES, COHORTS, NAMESPACES)


@dataclass
class _Entry:
    """A head of a queue, while one cycle lasts."""

    workload: WorkloadInfo
    choice: Choice = field(default_factory=Choice)
    targets: list[Target] = field(default_factory=list)
    message: str = ""


class Admission(Controller):
    """Ports the scheduler of Kueue 0.18 (no fair sharing): best effort or strict FIFO, preemption, topology."""

    def __init__(self, plane: ControlPlane) -> None:
        super().__init__(plane)
        self.queues = Queues(self.storage, self.clock)
        self._moved = False  # whether this cycle admitted or evicted anybody
        self.storage.subscribe(self._notice)

    def watches(self) -> dict[Resource, Callable[[Object], Iterable[Key]]]:
        """Follow nothing by key: one cycle looks at everything."""
        return {}

    def reconcile(self, key: Key) -> None:
        heads = self.queues.heads()
        if not heads:
            return
        snapshot = Snapshot(self.storage, TopologySnapshot(self.storage))
        entries = [entry for head in heads if (entry := self._nominate(head, snapshot)) is not None]
        entries.sort(key=lambda item: (item.choice.borrowing, -item.workload.priority, queue_time(item.workload.obj)))
        preempted: list[WorkloadInfo] = []
        self._moved = False
        skipped = [entry for entry in entries if not self._process(entry, snapshot, preempted)]
        for entry in skipped:
            self._note(entry)
            if not self._moved:  # trying again at once would find the same
                self._rest(entry, hopeless=False)
        self.look_again(_ANY)

    def _notice(self, event: Event) -> None:
        if event.resource is WORKLOADS:
            self._notice_workload(event)
            return
        room = event.resource is PODS and event.type == "DELETED"
        node = event.resource is NODES and _node_changed(event)
        if room or node or (event.resource in _WIDE and _wish_changed(event)):
            self.queues.wake()
            self.look_again(_ANY)

    def _notice_workload(self, event: Event) -> None:
        had = event.previous is not None and has_quota(event.previous) and not is_true(event.previous, "Finished")
        gone = event.type == "DELETED" or is_true(event.object, "Finished") or not has_quota(event.object)
        if event.type == "DELETED":
            self.queues.forget(key_of(event.object))
        if had and gone:
            self.queues.wake()
        if event.type == "ADDED" or _wish_changed(event):
            self.queues.unblock(self.queues.cluster_queue(event.object))
        self.look_again(_ANY)

    def _nominate(self, workload: WorkloadInfo, snapshot: Snapshot) -> _Entry | None:
        queue = snapshot.queues[workload.cluster_queue]
        namespace = self.storage.find(NAMESPACES, "", workload.obj["metadata"]["namespace"])
        marks = labels_of(namespace) if namespace is not None else {}
        entry = _Entry(workload)
        if not selector_holds(queue.obj["spec"].get("namespaceSelector"), marks):
            entry.message = "Workload namespace doesn't match ClusterQueue selector"
            self._wait(entry, hopeless=False)
            return None
        self._assign(entry, snapshot)
        return entry

    def _assign(self, entry: _Entry, snapshot: Snapshot) -> None:
        preemption = Preemption(snapshot, entry.workload)
        queue = snapshot.queues[entry.workload.cluster_queue]
        entry.choice = FlavorAssigner(entry.workload, queue, snapshot, preemption.simulate).assign()
        entry.message = entry.choice.message()
        entry.targets = []
        if Mode.NO_FIT < entry.choice.mode < Mode.FIT:
            entry.targets = preemption.targets(entry.choice)

    def _process(self, entry: _Entry, snapshot: Snapshot, preempted: list[WorkloadInfo]) -> bool:
        """Deal with one head; return whether it was dealt with, and is not only skipped in this cycle."""
        gone = [*preempted, *(target.workload for target in entry.targets)]
        with snapshot.without(gone):
            fits = self._places_free(entry, snapshot)
        if not fits:
            self._assign(entry, snapshot)
            gone = [*preempted, *(target.workload for target in entry.targets)]
        queue = snapshot.queues[entry.workload.cluster_queue]
        if entry.choice.mode is Mode.NO_FIT:
            self._wait(entry, hopeless=True)
            return True
        if entry.choice.mode is not Mode.FIT and not entry.targets:
            self._hold_back(entry, snapshot)
            self._wait(entry, hopeless=True)
            return True
        if any(target.workload in preempted for target in entry.targets):
            entry.message = "Workload has overlapping preemption targets with another workload"
            return False
        with snapshot.without(gone):
            fits = all(value <= queue.available(at) for at, value in entry.choice.usage().items())
        if not fits:
            entry.message = "Workload no longer fits after processing another workload"
            return False
        if entry.choice.mode is Mode.FIT:
            self._admit(entry, snapshot)
            return True
        preempted += [target.workload for target in entry.targets]
        for at, value in entry.choice.usage().items():
            queue.add(at, value)
        self._preempt(entry, snapshot)
        return True

    def _places_free(self, entry: _Entry, snapshot: Snapshot) -> bool:
        """Whether the places chosen at the nomination are still free."""
        if snapshot.topology is None or entry.choice.mode is not Mode.FIT:
            return True
        for one in entry.choice.pod_sets:
            for values, pods in one.places:
                leaf = snapshot.topology.trees[one.tree].find(values)
                single = {**one.pod_set.single, "pods": 1000}
                if leaf is None or any(
                    value * pods > leaf.free.get(name, 0) - leaf.used.get(name, 0) for name, value in single.items()
                ):
                    return False
        return True

    def _hold_back(self, entry: _Entry, snapshot: Snapshot) -> None:
        """Keep quota for a Workload that waits and could not get it back by reclaiming."""
        queue = snapshot.queues[entry.workload.cluster_queue]
        if queue.policy("reclaimWithinCohort") == "Any":
            return
        for at, value in entry.choice.usage().items():
            quota, used = queue.quotas.get(at), queue.used.get(at, 0)
            nominal = quota.nominal if quota is not None else 0
            kept = max(0, min(value, nominal - used))
            if entry.choice.borrowing:
                limit = quota.borrowing if quota is not None else None
                kept = value if limit is None else max(0, min(value, nominal + limit - used))
            queue.add(at, kept)

    def _admit(self, entry: _Entry, snapshot: Snapshot) -> None:
        self._moved = True
        now, before = self.clock.now(), entry.workload.obj
        name = entry.workload.cluster_queue
        admission = {"clusterQueue": name, "podSetAssignments": _assignments(entry.choice, snapshot)}
        obj = self.storage.modify(
            WORKLOADS, *entry.workload.key, lambda draft: status.reserve(draft, admission, now), subresource="status"
        )
        self.queues.forget(entry.workload.key)
        snapshot.hold(read_workload(obj))
        text = f"Quota reserved in ClusterQueue {name}, wait time since queued was "
        text += f"{status.queued_seconds(before, now):.0f}s"
        considered = entry.choice.considered()
        self._say(obj, "Normal", "QuotaReserved", text + (f"; Flavors considered: {considered}" if considered else ""))
        self._say(obj, "Normal", "Admitted", f"Admitted by ClusterQueue {name}, wait time since reservation was 0s")

    def _preempt(self, entry: _Entry, snapshot: Snapshot) -> None:
        for target in entry.targets:
            if not is_true(target.workload.obj, "Evicted"):
                self._evict(entry, target, snapshot)
        entry.message += f". Pending the preemption of {len(entry.targets)} workload(s)"
        self._note(entry)
        self.queues.rest(entry.workload, strict=False, hopeless=False, preempting=True)

    def _evict(self, entry: _Entry, target: Target, snapshot: Snapshot) -> None:
        self._moved = True
        now, preemptor, victim = self.clock.now(), entry.workload, target.workload
        paths = [snapshot.queues[item.cluster_queue].path() for item in (preemptor, victim)]
        text = (
            f"Preempted to accommodate a workload (UID: {preemptor.obj['metadata']['uid']}, JobUID: "
            f"{labels_of(preemptor.obj).get(JOB_UID, 'UNKNOWN')}) due to {HUMAN_REASONS[target.reason]}; "
            f"preemptor path: {paths[0]}; preemptee path: {paths[1]}"
        )

        def change(draft: Object) -> None:
            status.mark(draft, "Preempted", True, target.reason, text, now)
            status.evict(draft, "Preempted", text, now)

        self.storage.modify(WORKLOADS, *victim.key, change, subresource="status")
        priorities = (
            f"; preemptor effective priority: {preemptor.priority} (base: {preemptor.priority}, boost: 0); "
            f"preemptee effective priority: {victim.priority} (base: {victim.priority}, boost: 0)"
        )
        self._say(victim.obj, "Normal", "EvictedDueToPreempted", text)
        self._say(victim.obj, "Normal", "Preempted", text + priorities)
        told = f"Preempted workload {'/'.join(victim.key)} (UID: {victim.obj['metadata']['uid']}) in ClusterQueue "
        self._say(preemptor.obj, "Normal", "PreemptedWorkload", f"{told}{victim.cluster_queue}{priorities}")

    def _wait(self, entry: _Entry, *, hopeless: bool) -> None:
        """Let a Workload wait, and say why."""
        self._note(entry)
        self._rest(entry, hopeless=hopeless)

    def _rest(self, entry: _Entry, *, hopeless: bool) -> None:
        queue = self.storage.get(CLUSTERQUEUES, "", entry.workload.cluster_queue)
        strict = queue["spec"].get("queueingStrategy") == "StrictFIFO"
        obj = self.storage.get(WORKLOADS, *entry.workload.key)
        self.queues.rest(
            read_workload(obj, entry.workload.cluster_queue), strict=strict, hopeless=hopeless, preempting=False
        )

    def _note(self, entry: _Entry) -> None:
        now = self.clock.now()

        def change(draft: Object) -> None:
            status.unreserve(draft, "Pending", entry.message, now)
            status.keep_requests(draft, entry.workload)

        self.storage.modify(WORKLOADS, *entry.workload.key, change, subresource="status")
        self._say(entry.workload.obj, "Warning", "Pending", entry.message)

    def _say(self, workload: Object, kind: str, reason: str, message: str) -> None:
        self.record(workload, kind, reason, message, source="kueue-admission", action=reason)


def _assignments(choice: Choice, snapshot: Snapshot) -> list[Object]:
    found = []
    for one in choice.pod_sets:
        usage = {name: words(one.pod_set.requests[name]) for name in sorted(one.flavors)}
        item: Object = {
            "name": one.pod_set.name,
            "flavors": dict(sorted(one.flavors.items())),
            "resourceUsage": usage,
            "count": one.pod_set.count,
        }
        if one.places and snapshot.topology is not None:
            tree = snapshot.topology.trees[one.tree]
            levels = tree.levels[-1:] if tree.of_nodes else tree.levels
            item["topologyAssignment"] = encode(levels, one.places)
        found.append(item)
    return found


def _wish_changed(event: Event) -> bool:
    if event.type != "MODIFIED" or event.previous is None:
        return True
    active = is_true(event.object, "Active") != is_true(event.previous, "Active")
    return active or event.object.get("spec") != event.previous.get("spec")


def _node_changed(event: Event) -> bool:
    if event.type != "MODIFIED" or event.previous is None:
        return True
    new, old = event.object, event.previous
    if new.get("spec") != old.get("spec") or labels_of(new) != labels_of(old):
        return True
    ready = is_true(new, "Ready") != is_true(old, "Ready")
    return ready or new["status"].get("allocatable") != old["status"].get("allocatable")
