"""The status of ClusterQueues, LocalQueues and cohorts: active, used, borrowed, pending."""

from __future__ import annotations

from typing import TYPE_CHECKING

from practice.controllers.base import Controller
from practice.controllers.kueue.info import local_queue_of
from practice.controllers.kueue.snapshot import read_snapshot
from practice.controllers.objects import is_being_deleted, is_true, key_of, set_condition
from practice.controllers.quantity import format_quantity, parse_milli
from practice.objects.resources import (
    ADMISSIONCHECKS,
    CLUSTERQUEUES,
    LOCALQUEUES,
    RESOURCEFLAVORS,
    TOPOLOGIES,
    WORKLOADS,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kueue_rules import Quantities, SnapshotWorkload
    from practice.controllers.base import ControlPlane
    from practice.controllers.kueue.queues import WaitingQueues
    from practice.controllers.objects import Key, Object
    from practice.objects.resources import Resource

    _Holder = tuple[Object, SnapshotWorkload]  # a Workload that holds quota, and as the rules see it

_ALL: Key = ("", "queues")


class QueueStatus(Controller):
    """Writes the status of all queues anew whenever a Workload or a queue changes."""

    def __init__(self, plane: ControlPlane, queues: WaitingQueues) -> None:
        super().__init__(plane)
        self._queues = queues

    def watches(self) -> dict[Resource, Callable[[Object], Iterable[Key]]]:
        """Return one common key for Workloads, queues, and the objects that queues refer to."""
        followed = (WORKLOADS, CLUSTERQUEUES, LOCALQUEUES, RESOURCEFLAVORS, TOPOLOGIES, ADMISSIONCHECKS)
        return {resource: lambda _: [_ALL] for resource in followed}

    def reconcile(self, key: Key) -> None:
        snapshot = read_snapshot(self.storage, with_topology=False)
        for name, node in snapshot.queues.items():
            obj = self.storage.get(CLUSTERQUEUES, "", name)
            holding = [(self.storage.get(WORKLOADS, *each.key), each) for each in node.workloads.values()]
            waiting = self._queues.pending_workloads(name)
            share = node.fair_share().rounded if snapshot.fair_sharing else None
            self._cluster_queue(obj, node.used, holding, len(waiting), share)
            for queue in self.storage.list(LOCALQUEUES):
                if queue["spec"].get("clusterQueue") == name:
                    self._local_queue(queue, obj, holding, waiting)
        for queue in self.storage.list(LOCALQUEUES):
            if queue["spec"].get("clusterQueue") not in snapshot.queues:
                self._local_queue(queue, None, [], [])

    def _cluster_queue(
        self, queue: Object, used: Quantities, holders: list[_Holder], waiting_count: int, share: int | None
    ) -> None:
        admitted = [item for item in holders if is_true(item[0], "Admitted")]
        active, reason, text = self._active_condition(queue)
        now = self.clock.now()

        def change(obj: Object) -> None:
            status = obj.setdefault("status", {})
            status["flavorsReservation"] = _format_usage(queue, used, is_borrowed=True)
            status["flavorsUsage"] = _format_usage(queue, _total_usage(admitted), is_borrowed=True)
            status["pendingWorkloads"] = waiting_count
            status["reservingWorkloads"] = len(holders)
            status["admittedWorkloads"] = len(admitted)
            status.pop("fairSharing", None)
            if share is not None:
                status["fairSharing"] = {"weightedShare": share}
            generation = obj["metadata"].get("generation")
            set_condition(obj, "Active", active, reason, text, now, generation=generation)

        self.storage.modify_status(CLUSTERQUEUES, *key_of(queue), change)

    def _local_queue(
        self, queue: Object, cluster: Object | None, holders: list[_Holder], waiting_workloads: list[Object]
    ) -> None:
        namespace, name = key_of(queue)
        mine = [item for item in holders if _is_in_local_queue(item[0], namespace, name)]
        admitted = [item for item in mine if is_true(item[0], "Admitted")]
        stopped = queue["spec"].get("stopPolicy", "None") != "None"
        now = self.clock.now()
        active, reason, text = True, "Ready", "Can submit new workloads to localQueue"
        if stopped:
            active, reason, text = False, "Stopped", "LocalQueue is stopped"
        elif cluster is None:
            active, reason, text = False, "ClusterQueueDoesNotExist", "Can't submit new workloads to clusterQueue"
        elif not is_true(self.storage.get(CLUSTERQUEUES, *key_of(cluster)), "Active"):
            active, reason, text = False, "ClusterQueueIsInactive", "Can't submit new workloads to clusterQueue"

        def change(obj: Object) -> None:
            status = obj.setdefault("status", {})
            status["pendingWorkloads"] = (
                0 if stopped else sum(_is_in_local_queue(item, namespace, name) for item in waiting_workloads)
            )
            status["reservingWorkloads"] = len(mine)
            status["admittedWorkloads"] = len(admitted)
            status["flavorsReservation"] = _format_usage(cluster, _total_usage(mine), is_borrowed=False)
            status["flavorsUsage"] = _format_usage(cluster, _total_usage(admitted), is_borrowed=False)
            generation = obj["metadata"].get("generation")
            set_condition(obj, "Active", active, reason, text, now, generation=generation)

        self.storage.modify_status(LOCALQUEUES, namespace, name, change)

    def _check_active(self, name: str) -> bool:
        return is_true(self.storage.get(ADMISSIONCHECKS, "", name), "Active")

    def _active_condition(self, queue: Object) -> tuple[bool, str, str]:
        """Return (whether a ClusterQueue admits, reason, message)."""
        if is_being_deleted(queue):
            return False, "Terminating", "Can't admit new workloads; clusterQueue is terminating"
        spec = queue["spec"]
        flavors = [flavor["name"] for group in spec.get("resourceGroups") or () for flavor in group["flavors"]]
        checks = [item["name"] for item in (spec.get("admissionChecksStrategy") or {}).get("admissionChecks") or ()]
        faults: list[tuple[str, str]] = []
        if spec.get("stopPolicy", "None") != "None":
            faults.append(("Stopped", "is stopped"))
        missing = [name for name in flavors if self.storage.find(RESOURCEFLAVORS, "", name) is None]
        if missing:
            faults.append(("FlavorNotFound", f"references missing ResourceFlavor(s): {','.join(missing)}"))
        absent = [name for name in checks if self.storage.find(ADMISSIONCHECKS, "", name) is None]
        if absent:
            faults.append(("AdmissionCheckNotFound", f"references missing AdmissionCheck(s): {','.join(absent)}"))
        idle = [name for name in checks if name not in absent and not self._check_active(name)]
        if idle:
            faults.append(("AdmissionCheckInactive", f"references inactive AdmissionCheck(s): {','.join(idle)}"))
        for name in flavors:
            flavor = self.storage.find(RESOURCEFLAVORS, "", name)
            topology = (flavor.get("spec") or {}).get("topologyName") if flavor is not None else None
            if topology and self.storage.find(TOPOLOGIES, "", topology) is None:
                faults.append(("TopologyNotFound", f'there is no Topology "{topology}" for TAS flavor "{name}"'))
        if faults:
            return False, faults[0][0], f"Can't admit new workloads: {', '.join(text for _, text in faults)}."
        return True, "Ready", "Can admit new workloads"


def _is_in_local_queue(workload: Object, namespace: str, queue: str) -> bool:
    return key_of(workload)[0] == namespace and local_queue_of(workload) == queue


def _total_usage(holders: list[_Holder]) -> Quantities:
    total: Quantities = {}
    for _, workload in holders:
        for at, value in workload.usage().items():
            total[at] = total.get(at, 0) + value
    return total


def _format_usage(queue: Object | None, used: Quantities, *, is_borrowed: bool) -> list[Object]:
    found = []
    for group in (queue["spec"].get("resourceGroups") or ()) if queue is not None else ():
        for flavor in group["flavors"]:
            nominal = {item["name"]: item["nominalQuota"] for item in flavor["resources"]}
            rows = []
            for name in sorted(group["coveredResources"]):
                total = used.get((flavor["name"], name), 0)
                row = {"name": name, "total": format_quantity(total)}
                if is_borrowed:
                    above = (
                        total - parse_milli(str(nominal.get(name, 0)))
                        if queue and queue["spec"].get("cohortName")
                        else 0
                    )
                    row["borrowed"] = format_quantity(max(above, 0))
                rows.append(row)
            found.append({"name": flavor["name"], "resources": rows})
    return found
