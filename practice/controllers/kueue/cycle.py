"""Kueue's scheduling cycle: after each change, the heads of all queues are tried on one snapshot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kueue_rules import (
    HUMAN_REASONS,
    CycleVerdict,
    Decision,
    FlavorChoice,
    PreemptionTarget,
    Snapshot,
    SnapshotWorkload,
    admission_cycle,
    required_checks,
)
from practice.controllers.base import Controller
from practice.controllers.kueue import admission_status as status
from practice.controllers.kueue.assignment import encode_assignment
from practice.controllers.kueue.info import has_quota
from practice.controllers.kueue.label_names import JOB_UID
from practice.controllers.kueue.queues import WaitingQueues
from practice.controllers.kueue.snapshot import read_release, read_snapshot
from practice.controllers.objects import is_true, key_of, labels_of
from practice.controllers.quantity import format_quantity
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
    from practice.controllers.objects import Key, Object
    from practice.objects.history import Event
    from practice.objects.resources import Resource

_ANY_KEY: Key = ("", "cycle")
_WIDE = (CLUSTERQUEUES, LOCALQUEUES, RESOURCEFLAVORS, TOPOLOGIES, COHORTS, NAMESPACES)


class AdmissionController(Controller):
    """Runs admission cycles by the library of Kueue's rules, and records their decisions."""

    source = "kueue-admission"

    def __init__(self, plane: ControlPlane) -> None:
        super().__init__(plane)
        self.queues = WaitingQueues(self.storage, self.clock)
        self.storage.subscribe(self._on_event)

    def watches(self) -> dict[Resource, Callable[[Object], Iterable[Key]]]:
        """Return no keys for any kind: one cycle handles everything."""
        return {}

    def reconcile(self, key: Key) -> None:
        heads = self.queues.heads()
        if not heads:
            return
        snapshot = read_snapshot(self.storage, with_topology=True)
        decisions = admission_cycle(heads, snapshot)
        moved = [self._apply_decision(each, snapshot) for each in decisions]
        for each in decisions:
            if each.verdict is CycleVerdict.SKIP and not each.workload.second_pass:
                self._record_reason(each)
                if not any(moved):  # trying again at once would find the same
                    self._set_aside(each, is_hopeless=False)
        self.requeue(_ANY_KEY)

    def _on_event(self, event: Event) -> None:
        if event.resource is WORKLOADS:
            self._on_workload_event(event)
            return
        room = event.resource is PODS and event.type == "DELETED"
        node = event.resource is NODES and _node_changed(event)
        if room or node or (event.resource in _WIDE and _spec_changed(event)):
            self.queues.retry_all()
            self.requeue(_ANY_KEY)

    def _on_workload_event(self, event: Event) -> None:
        had = event.previous is not None and has_quota(event.previous) and not is_true(event.previous, "Finished")
        gone = event.type == "DELETED" or is_true(event.object, "Finished") or not has_quota(event.object)
        if event.type == "DELETED":
            self.queues.remove(key_of(event.object))
        if event.previous is not None and had and gone:
            self.queues.turns.written(event.previous["status"]["admission"]["clusterQueue"])
            self.queues.retry_all()
        if event.type == "ADDED" or _spec_changed(event):
            self.queues.unblock(self.queues.cluster_queue(event.object))
        self.requeue(_ANY_KEY)

    def _apply_decision(self, decision: Decision, snapshot: Snapshot) -> bool:
        """Apply a decision; return whether it admitted or evicted a Workload."""
        if decision.workload.second_pass and decision.verdict is not CycleVerdict.ADMIT:
            return self._evict_or_wait_without_nodes(decision)
        left = decision.verdict is CycleVerdict.HOPELESS and decision.choice.flavors_left
        self.queues.turns.note(decision.workload, decision.message, decision.choice if left else None)
        again = left and self.queues.turns.meet_anew([decision.workload])
        match decision.verdict:
            case CycleVerdict.ADMIT:
                self._apply_admission(decision, snapshot)
                self.queues.turns.admitted(decision.workload)
                return True
            case CycleVerdict.PREEMPT:
                return self._evict_targets(decision, snapshot)
            case CycleVerdict.WAIT | CycleVerdict.HOPELESS:
                self._record_reason(decision)
                if not again:
                    self._set_aside(decision, is_hopeless=decision.verdict is CycleVerdict.HOPELESS and not left)
        return False

    def _evict_or_wait_without_nodes(self, decision: Decision) -> bool:
        """Evict a workload with quota but no nodes if a node failed (returns True), or set it aside until a change."""
        workload = decision.workload
        obj = self.storage.get(WORKLOADS, *workload.key)
        if decision.verdict is not CycleVerdict.EVICT:
            self.queues.set_aside(obj, workload.cluster_queue, is_strict=False, is_hopeless=False)
            return False
        now, text = self.clock.now(), decision.message
        self.storage.modify_status(
            WORKLOADS, *workload.key, lambda draft: status.mark_evicted(draft, "NodeFailures", text, now)
        )
        self.record_event(obj, "EvictedDueToNodeFailures", text)
        return True

    def _apply_admission(self, decision: Decision, snapshot: Snapshot) -> None:
        now, key, name = self.clock.now(), decision.workload.key, decision.workload.cluster_queue
        waited = status.queued_seconds(self.storage.get(WORKLOADS, *key), now)
        admission = {"clusterQueue": name, "podSetAssignments": _pod_set_assignments(decision.choice, snapshot)}
        flavors = {flavor for flavor, _ in decision.choice.usage()}
        required = required_checks(snapshot.queues[name], flavors)
        obj = self.storage.modify_status(
            WORKLOADS, *key, lambda draft: status.reserve_quota(draft, admission, required, now, snapshot.release)
        )
        self.queues.remove(key)
        text = f"Quota reserved in ClusterQueue {name}, wait time since queued was {waited:.0f}s"
        considered = decision.choice.describe_attempts()
        if not decision.workload.second_pass:
            self.record_event(
                obj, "QuotaReserved", text + (f"; Flavors considered: {considered}" if considered else "")
            )
        if is_true(obj, "Admitted"):
            self.record_event(obj, "Admitted", f"Admitted by ClusterQueue {name}, wait time since reservation was 0s")

    def _evict_targets(self, decision: Decision, snapshot: Snapshot) -> bool:
        targets = [target for target in decision.targets if not target.workload.evicted]
        for target in targets:
            self._evict_target(decision.workload, target, snapshot)
            self.queues.turns.written(target.workload.cluster_queue)
        self._record_reason(decision)
        self.queues.hold_head(decision.workload.key, decision.workload.cluster_queue)
        return bool(targets)

    def _evict_target(self, preemptor: SnapshotWorkload, target: PreemptionTarget, snapshot: Snapshot) -> None:
        now, victim = self.clock.now(), target.workload
        preempting, leaving = (self.storage.get(WORKLOADS, *each.key) for each in (preemptor, victim))
        paths = [snapshot.queues[item.cluster_queue].path() for item in (preemptor, victim)]
        text = (
            f"Preempted to accommodate a workload (UID: {preemptor.uid}, JobUID: "
            f"{labels_of(preempting).get(JOB_UID, 'UNKNOWN')}) due to {HUMAN_REASONS[target.reason]}; "
            f"preemptor path: {paths[0]}; preemptee path: {paths[1]}"
        )

        def change(obj: Object) -> None:
            status.set_workload_condition(obj, "Preempted", True, target.reason, text, now)
            status.mark_evicted(obj, "Preempted", text, now)

        self.storage.modify_status(WORKLOADS, *victim.key, change)
        priorities = (
            f"; preemptor effective priority: {preemptor.priority} (base: {preemptor.priority}, boost: 0); "
            f"preemptee effective priority: {victim.priority} (base: {victim.priority}, boost: 0)"
        )
        self.record_event(leaving, "EvictedDueToPreempted", text)
        self.record_event(leaving, "Preempted", text + priorities)
        message = f"Preempted workload {'/'.join(victim.key)} (UID: {victim.uid}) in ClusterQueue "
        self.record_event(preempting, "PreemptedWorkload", f"{message}{victim.cluster_queue}{priorities}")

    def _set_aside(self, decision: Decision, *, is_hopeless: bool) -> None:
        name = decision.workload.cluster_queue
        strict = self.storage.get(CLUSTERQUEUES, "", name)["spec"].get("queueingStrategy") == "StrictFIFO"
        obj = self.storage.get(WORKLOADS, *decision.workload.key)
        self.queues.set_aside(obj, name, is_strict=strict, is_hopeless=is_hopeless)

    def _record_reason(self, decision: Decision) -> None:
        """Record in its status why a Workload waits."""
        now, release = self.clock.now(), read_release(self.storage)

        def change(obj: Object) -> None:
            status.release_quota(obj, decision.reason(release), decision.message, now, release)
            status.record_requests(obj, decision.workload)

        obj = self.storage.modify_status(WORKLOADS, *decision.workload.key, change)
        self.record_event(obj, "Pending", decision.message, "Warning")


def _pod_set_assignments(choice: FlavorChoice, snapshot: Snapshot) -> list[Object]:
    found = []
    for one in choice.pod_sets:
        usage = {name: format_quantity(one.pod_set.requests[name]) for name in sorted(one.flavors)}
        item: Object = {
            "name": one.pod_set.name,
            "flavors": dict(sorted(one.flavors.items())),
            "resourceUsage": usage,
            "count": one.pod_set.count,
        }
        if one.places:
            tree = next(snapshot.trees[name] for name in one.flavors.values() if name in snapshot.trees)
            item["topologyAssignment"] = encode_assignment(tree.assigned_levels, one.places)
        if one.delayed or (choice.holds_quota and one.tree):
            item["delayedTopologyRequest"] = "Pending" if one.delayed else "Ready"
        found.append(item)
    return found


def _spec_changed(event: Event) -> bool:
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
