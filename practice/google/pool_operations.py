"""Operations on practice node pools, during which nodes come and go one by one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import grpc
from google.cloud import container_v1 as api

from practice.clock import format_timestamp
from practice.controllers.machines import add_machine, delete_pods_of_node, nodes_of
from practice.controllers.objects import is_true
from practice.google.cloud import CLUSTER, PROJECT, REGION, PracticeGoogle, not_found_error
from practice.google.initial_clusters import VERSION, all_clusters
from practice.google.serving import RefusalError
from practice.objects.resources import NODES, PODS
from practice.scene.gke import FILESTORE, install_driver
from practice.scene.machines import RESERVED_POOL, SPOT_POOL, SYSTEM_POOL

# Google's stubs call the members of a nested enumeration numbers.
_DONE: Any = api.Operation.Status.DONE
_RUNNING: Any = api.NodePool.Status.RUNNING
_RECONCILING: Any = api.NodePool.Status.RECONCILING
_WITH_ERROR: Any = api.NodePool.Status.RUNNING_WITH_ERROR
_STEP_SECONDS = 8.0  # practice seconds between one machine and the next
_START_SECONDS = 40.0  # practice seconds until a new machine is ready
_QUICK_SECONDS = 12.0  # practice seconds of an operation that touches no machine
_CAPACITY = {
    RESERVED_POOL: (16, "Reservation practice-a4 does not have sufficient capacity for the requested resources."),
    SPOT_POOL: (8, "GCE_STOCKOUT: The zone us-central1-b does not have enough resources available."),
}
"""By pool: (maximum number of its machines, Google's error for one more)."""
_DAY = 86400.0
_UPGRADE = 240.0  # practice seconds in which one machine is upgraded


@dataclass(slots=True)
class _RunningResize:
    """A resize of a node pool that is under way."""

    cluster: api.Cluster
    pool: api.NodePool
    target_size: int
    done: int = 0
    total: int = 0


class PoolWork:
    """The clusters, node pools and operations of practice Google; their machines are nodes of the practice cluster."""

    def __init__(self, google: PracticeGoogle) -> None:
        self.world = google
        self.clusters = all_clusters(google)
        self.operations: dict[tuple[str, str], api.Operation] = {}
        self._add_past_operations()
        google.count_group = self.count_group

    def count_group(self, pool: str) -> tuple[int, int, int] | None:
        """(target size, repairing, creating) of a pool's machines; None if there is no such pool."""
        own = self.find_cluster(PROJECT, REGION, CLUSTER)
        found = next((each for each in own.node_pools if each.name == pool), None)
        if found is None:
            return None
        names = nodes_of(self.world.storage, pool)
        away = sum(not self._is_ready(name) for name in names)
        repairs = "REPAIR" in "".join(
            each.operation_type.name
            for each in self.operations.values()
            if each.status != _DONE and each.target_link.endswith(f"/{pool}")
        )
        made = max(0, found.initial_node_count - len(names)) if found.status == _RECONCILING else 0
        return found.initial_node_count, away if repairs else 0, made + (0 if repairs else away)

    def find_cluster(self, project: str, location: str, name: str) -> api.Cluster:
        """One cluster. Raises RefusalError if it does not exist."""
        try:
            return self.clusters[project, location, name]
        except KeyError:
            raise not_found_error(f"projects/{project}/locations/{location}/clusters/{name}") from None

    @staticmethod
    def find_pool(cluster: api.Cluster, name: str) -> api.NodePool:
        """One pool of a cluster. Raises RefusalError if it does not exist."""
        found = next((each for each in cluster.node_pools if each.name == name), None)
        if found is None:
            raise not_found_error(f"node pool {name} of cluster {cluster.name}")
        return found

    def check_idle(self, project: str, cluster: api.Cluster) -> None:
        """Raise RefusalError while another requested operation is running."""
        for (owner, name), each in self.operations.items():
            mine = owner == project and f"/clusters/{cluster.name}" in each.target_link
            if mine and each.status != _DONE and "AUTO" not in each.operation_type.name:
                words = f"Cluster is running incompatible operation {name}."
                raise RefusalError(grpc.StatusCode.FAILED_PRECONDITION, words)

    # operations

    def start_operation(
        self, project: str, cluster: api.Cluster, kind: str, pool: str = "", *, total: int | None = None, ago: float = 0
    ) -> api.Operation:
        target = f"https://container.googleapis.com/v1/projects/{project}/locations/{cluster.location}"
        target += f"/clusters/{cluster.name}" + (f"/nodePools/{pool}" if pool else "")
        name = f"operation-{int(self.world.clock.now() * 1000)}-{self.world.next_number():08x}"
        begun = api.Operation(
            name=name,
            location=cluster.location,
            operation_type=getattr(api.Operation.Type, kind),
            status=api.Operation.Status.RUNNING,
            target_link=target,
            start_time=format_timestamp(self.world.clock.now() - ago),
        )
        if total is not None:
            self.set_progress(begun, 0, total)
        self.operations[project, name] = begun
        return begun

    @staticmethod
    def set_progress(operation: api.Operation, completed: int, total: int) -> None:
        """Update the progress of an operation: `completed` of `total` nodes."""
        counted = {"NODES_DONE": completed, "NODES_TOTAL": total}
        metrics = [api.OperationProgress.Metric(name=name, int_value=value) for name, value in counted.items()]
        operation.progress = api.OperationProgress(metrics=metrics)

    def end_operation(self, operation: api.Operation, error: str = "") -> None:
        """End an operation, with an error or without."""
        operation.status = _DONE
        operation.end_time = format_timestamp(self.world.clock.now())
        if error:
            operation.status_message = error
            operation.error = {"code": grpc.StatusCode.RESOURCE_EXHAUSTED.value[0], "message": error}

    def start_resize(self, project: str, cluster: api.Cluster, pool: api.NodePool, target_size: int) -> api.Operation:
        """Resize a pool node by node; ends early if there is no capacity."""
        now = len(nodes_of(self.world.storage, pool.name))
        doing = _RunningResize(cluster, pool, target_size, 0, abs(target_size - now))
        operation = self.start_operation(project, cluster, "SET_NODE_POOL_SIZE", pool.name, total=doing.total)
        pool.initial_node_count = target_size
        pool.status, pool.status_message = _RECONCILING, ""
        self.world.clock.call_later(_STEP_SECONDS, lambda: self._resize_step(operation, doing))
        return operation

    def _resize_step(self, operation: api.Operation, doing: _RunningResize) -> None:
        pool = doing.pool
        names = nodes_of(self.world.storage, pool.name)
        most, words = _CAPACITY.get(pool.name, (1000, ""))
        failing = self.world.failing.get("SET_NODE_POOL_SIZE", "")
        if failing and doing.done * 2 >= doing.total:
            most, words = len(names), failing
        if len(names) == doing.target_size:
            pool.status = _RUNNING
            self.end_operation(operation)
            return
        if len(names) < doing.target_size and len(names) >= most:
            pool.status, pool.status_message = _WITH_ERROR, words
            self.end_operation(operation, words)
            return
        if len(names) < doing.target_size:
            add_machine(self.world.storage, self.world.clock, pool.name, _START_SECONDS)
        else:
            self._remove_nodes(names)
        doing.done += 1
        doing.cluster.current_node_count = len(self.world.storage.list(NODES))
        self.set_progress(operation, doing.done, doing.total)
        self.world.clock.call_later(_STEP_SECONDS, lambda: self._resize_step(operation, doing))

    def start_scaling(
        self, project: str, cluster: api.Cluster, pool: api.NodePool, autoscaling: api.NodePoolAutoscaling
    ) -> api.Operation:
        """Set the limits of autoscaling."""

        def done() -> None:
            pool.autoscaling = autoscaling

        return self._start_quick_operation(project, cluster, "UPDATE_CLUSTER", pool.name, done)

    def start_update(self, project: str, cluster: api.Cluster, update: api.ClusterUpdate) -> api.Operation:
        def done() -> None:
            given = api.AddonsConfig.pb(update.desired_addons_config)
            api.AddonsConfig.pb(cluster.addons_config).MergeFrom(given)
            if cluster.addons_config.gcp_filestore_csi_driver_config.enabled:
                install_driver(self.world.storage, FILESTORE)

        return self._start_quick_operation(project, cluster, "UPDATE_CLUSTER", "", done)

    def _start_quick_operation(
        self, project: str, cluster: api.Cluster, kind: str, pool: str, on_done: Callable[[], None]
    ) -> api.Operation:
        operation = self.start_operation(project, cluster, kind, pool)

        def end() -> None:
            error = self.world.failing.get(kind, "")
            if not error:
                on_done()
            self.end_operation(operation, error)

        self.world.clock.call_later(_QUICK_SECONDS, end)
        return operation

    # machines

    def _remove_nodes(self, names: list[str]) -> None:
        """Remove one of these nodes: an idle one, else the last one with its pods."""
        storage = self.world.storage
        busy = {
            pod["spec"].get("nodeName")
            for pod in storage.list(PODS)
            if pod["status"].get("phase") in ("Pending", "Running")
        }
        name = max(names, key=lambda each: (each not in busy, each))
        delete_pods_of_node(storage, name)
        storage.delete(NODES, "", name)

    # before the opening

    def _add_past_operations(self) -> None:
        """Add the operations from before the scene's opening, and the running repair."""
        own = self.find_cluster(PROJECT, REGION, CLUSTER)
        for kind, pool, ago, lasted, error in (
            ("UPGRADE_MASTER", "", 2 * _DAY, 1500.0, ""),
            ("UPGRADE_NODES", RESERVED_POOL, 1.9 * _DAY, 9000.0, ""),
            ("SET_NODE_POOL_SIZE", SPOT_POOL, 0.8 * _DAY, 700.0, _CAPACITY[SPOT_POOL][1]),
        ):
            old = self.start_operation(PROJECT, own, kind, pool, ago=ago)
            self.end_operation(old, error)
            old.end_time = format_timestamp(self.world.clock.now() - ago + lasted)
        starting = [name for name in nodes_of(self.world.storage, SPOT_POOL) if not self._is_ready(name)]
        if starting:
            repair = self.start_operation(PROJECT, own, "AUTO_REPAIR_NODES", SPOT_POOL, total=len(starting), ago=100)
            self._end_repair_when_ready(repair, starting)

        system = self.find_pool(own, SYSTEM_POOL)
        names = nodes_of(self.world.storage, SYSTEM_POOL)
        if system.version != VERSION and len(names) > 1:
            upgrade = self.start_operation(
                PROJECT, own, "AUTO_UPGRADE_NODES", SYSTEM_POOL, total=len(names), ago=_UPGRADE
            )
            system.status = _RECONCILING
            self._upgrade_step(upgrade, system, 1)

    def _upgrade_step(self, upgrade: api.Operation, pool: api.NodePool, completed: int) -> None:
        """Upgrade one node after the other."""
        total = len(nodes_of(self.world.storage, pool.name))
        self.set_progress(upgrade, min(completed, total), total)
        if completed >= total:
            pool.version, pool.status = VERSION, _RUNNING
            self.end_operation(upgrade)
        else:
            self.world.clock.call_later(_UPGRADE, lambda: self._upgrade_step(upgrade, pool, completed + 1))

    def _end_repair_when_ready(self, repair: api.Operation, names: list[str]) -> None:
        """End a repair when its nodes are ready."""
        done = sum(self._is_ready(name) for name in names)
        self.set_progress(repair, done, len(names))
        if done == len(names):
            self.end_operation(repair)
        else:
            self.world.clock.call_later(_STEP_SECONDS, lambda: self._end_repair_when_ready(repair, names))

    def _is_ready(self, name: str) -> bool:
        node = self.world.storage.find(NODES, "", name)
        return node is None or is_true(node, "Ready")
