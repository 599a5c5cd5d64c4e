"""Converts a cluster snapshot to the input of the Kueue rules, for GPUs: quota, its holders, and topology.

Only GPUs are counted; all other resources are assumed to suffice.

Kueue sorts a ClusterQueue by priority, then by a timestamp (creation, but the eviction for workloads that lost their
quota to a readiness timeout or to an admission check), then by uid. With BestEffortFIFO a workload that does not fit
lets those behind it pass, so a position is the order of trying, not of starting.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from msgspec import Struct

from console.kube.objects.meta import GPU, condition
from console.kube.objects.node import Node as ClusterNode
from console.kube.objects.queue import ClusterQueue, LocalQueue, Quota as QueueQuota, ResourceFlavor
from console.kube.objects.workload import Workload, WorkloadState
from console.kube.snapshot import Fleet, per_snapshot
from console.scheduling.topology import label_of
from kueue_rules import (
    BACK_OF_QUEUE,
    DEFAULT_STRATEGIES,
    UNLIMITED_PODS,
    CohortQuota,
    Flavor,
    FlavorQuota,
    FlavorResource,
    KueueRelease,
    QueueNode,
    ResourceGroup,
    Snapshot,
    SnapshotNode,
    SnapshotPodSet,
    SnapshotWorkload as KueueWorkload,
    Toleration,
    TopologyRequest,
    TopologyTree,
    queue_order_key,
)

_QUOTA_HOLDING_STATES = {WorkloadState.RESERVED, WorkloadState.ADMITTED}


class QueueOrder(Struct, frozen=True):
    """The workloads of a ClusterQueue: those pending in Kueue's order, and those admitted, longest first."""

    pending: tuple[Workload, ...] = ()
    running: tuple[Workload, ...] = ()


def queue_timestamp(workload: Workload) -> float:
    """The time (epoch seconds) by which Kueue sorts workloads of equal priority."""
    evicted = condition(workload.conditions, "Evicted")
    if evicted and evicted.is_true and evicted.reason in BACK_OF_QUEUE:
        return evicted.since
    return workload.created


def _held_since(workload: Workload) -> float:
    reserved = condition(workload.conditions, "QuotaReserved")
    return reserved.since if reserved else workload.created


def job_name(workload: Workload) -> str:
    """Name of the JobSet, Job or Pod that owns the workload, or of the group of pods."""
    return workload.owner_name or workload.name


def cluster_queue_name(workload: Workload, fleet: Fleet) -> str:
    """The ClusterQueue that admitted a workload or that it waits for; empty if unknown."""
    if workload.cluster_queue:
        return workload.cluster_queue
    door = fleet.local_queues.get((workload.namespace, workload.queue))
    return door.cluster_queue if door else ""


def closed_reason(queue: LocalQueue | ClusterQueue) -> str:
    """The reason why a queue admits nothing; empty if it is open."""
    if queue.stop_policy != "None":
        drained = " and drained" if queue.stop_policy == "HoldAndDrain" else ""
        return f"queue {queue.name} is stopped{drained} (stop policy {queue.stop_policy}) and admits nothing"
    return f"queue {queue.name} is not active: {queue.inactive_reason}" if queue.inactive_reason else ""


@per_snapshot
def _queue_orders(fleet: Fleet) -> dict[str, QueueOrder]:
    waiting: dict[str, list[Workload]] = defaultdict(list)
    holding: dict[str, list[Workload]] = defaultdict(list)
    for workload in fleet.workloads.values():
        if workload.is_waiting:
            waiting[cluster_queue_name(workload, fleet)].append(workload)
        elif workload.state in _QUOTA_HOLDING_STATES:
            holding[cluster_queue_name(workload, fleet)].append(workload)
    for listed in waiting.values():
        listed.sort(key=lambda each: queue_order_key(each.priority, queue_timestamp(each), each.uid))
    return {
        name: QueueOrder(tuple(waiting[name]), tuple(sorted(holding[name], key=_held_since)))
        for name in {*waiting, *holding}
    }


@per_snapshot
def _queue_positions(fleet: Fleet) -> dict[tuple[str, str], int]:
    return {each.key: at for order in _queue_orders(fleet).values() for at, each in enumerate(order.pending, start=1)}


def queue_order(fleet: Fleet, cluster_queue: str) -> QueueOrder:
    """The order of that ClusterQueue; empty if it has no workloads."""
    return _queue_orders(fleet).get(cluster_queue, QueueOrder())


def queue_position(workload: Workload, fleet: Fleet) -> int:
    """The workload's position in its ClusterQueue: 1 is tried first; 0 if it does not wait."""
    return _queue_positions(fleet).get(workload.key, 0)


ANY_TAINT = (Toleration("", "Exists", "", ""),)  # which taints the pods of a Workload tolerate is not kept
UNLABELLED_DOMAIN = "-"  # the place of a node that carries no label of a level; Kueue has no such place


def gpu_flavors(queue: ClusterQueue | None) -> list[str]:
    """The flavors in which a queue has GPU quota, in the order of trying; empty without a queue."""
    return list(dict.fromkeys(quota.flavor for quota in queue.quotas if quota.resource == GPU)) if queue else []


def flavor_of(fleet: Fleet, name: str, topology: str = "") -> Flavor:
    known = fleet.flavors.get(("", name)) or ResourceFlavor(name)
    return Flavor(name, dict(known.node_labels), known.taints, known.tolerations, topology)


def kueue_snapshot(fleet: Fleet, flavors: Iterable[str], *, with_topology: bool = False) -> Snapshot:
    """The GPU quota of these flavors in all queues and cohorts, as a snapshot; `with_topology` adds the nodes."""
    names = tuple(flavors)
    trees = _topology_trees(fleet, names) if with_topology else {}
    queues = [_queue_node(each, names) for each in fleet.cluster_queues.values()]
    cohorts = (
        CohortQuota(each.name, each.parent, _quotas(each.quotas, names), each.weight) for each in fleet.cohorts.values()
    )
    holding = (
        kueue_workload(each, fleet, names, holds=True)
        for _, name in fleet.cluster_queues
        for each in queue_order(fleet, name).running
    )
    # The strategies stand in Kueue's configuration, which few may read: those of its documentation.
    fair = DEFAULT_STRATEGIES if any(each.shares_fairly for each in fleet.cluster_queues.values()) else ()
    known = [flavor_of(fleet, name, trees[name].name if name in trees else "") for name in names]
    snapshot = Snapshot(queues, cohorts, known, trees, holding, fair, KueueRelease(fleet.kueue_version.rules_minor))
    for queue in fleet.cluster_queues.values():  # workloads that may not be listed hold quota too
        node = snapshot.queues[queue.name]
        for at in ((name, GPU) for name in names):
            used = sum(usage.total for usage in queue.reserved if (usage.flavor, usage.resource) == at)
            before = node.used.get(at, 0)
            node.add_usage(at, max(0, used - before))
            node.remove_usage(at, max(0, before - used))
    return snapshot


def _queue_node(queue: ClusterQueue, flavors: tuple[str, ...]) -> QueueNode:
    rules = queue.preemption
    threshold = -1 if rules.borrow_threshold is None else rules.borrow_threshold
    return QueueNode(
        queue.name,
        weight=queue.weight,
        quotas=_quotas(queue.quotas, flavors),
        cohort=queue.cohort,
        groups=(ResourceGroup((GPU,), tuple(each for each in gpu_flavors(queue) if each in flavors)),),
        within_queue=rules.within_queue,
        reclaim=rules.reclaim_within_cohort,
        borrow_within=threshold if rules.borrow_within_cohort != "Never" else None,
        next_if_preempting=queue.next_if_preempting,
        next_if_borrowing=queue.next_if_borrowing,
        preempts_before_borrowing=queue.preempts_before_borrowing,
        provisioned=frozenset(flavors) if queue.checks else frozenset(),  # which of the checks brings nodes is not kept
    )


def _quotas(quotas: Iterable[QueueQuota], flavors: tuple[str, ...]) -> dict[FlavorResource, FlavorQuota]:
    return {
        (each.flavor, each.resource): FlavorQuota(each.nominal, each.borrowing_limit, each.lending_limit)
        for each in quotas
        if each.resource == GPU and each.flavor in flavors
    }


def kueue_workload(workload: Workload, fleet: Fleet, flavors: tuple[str, ...], *, holds: bool) -> KueueWorkload:
    """The workload with its pod sets that need GPUs; if it `holds` quota, those in these flavors with their places."""
    evicted, since = condition(workload.conditions, "Evicted"), condition(workload.conditions, "QuotaReserved")
    pod_sets = []
    for group in workload.pod_sets:
        only = flavors[0] if holds and not group.flavors and len(flavors) == 1 else ""
        held, gpus = dict(group.flavors).get(GPU, only), dict(group.requests).get(GPU, 0)
        if gpus and (held in flavors or not holds):
            pod_sets.append(
                SnapshotPodSet(
                    group.name,
                    group.count,
                    {GPU: group.total(GPU)},
                    {GPU: gpus},
                    topology=TopologyRequest(
                        required=group.required_topology,
                        slice_level=group.slices[0],
                        slice_size=group.slices[1],
                        group=group.group,
                    ),
                    tolerations=ANY_TAINT,
                    flavors={GPU: held} if held else {},
                    places=tuple((each.values, each.count) for each in group.domains),
                )
            )
    return KueueWorkload(
        workload.key,
        workload.uid,
        cluster_queue_name(workload, fleet),
        workload.priority,
        queue_timestamp(workload),
        pod_sets,
        reserved=since.since if since else 0.0,
        evicted=evicted is not None and evicted.is_true,
    )


def _topology_trees(fleet: Fleet, flavors: tuple[str, ...]) -> dict[str, TopologyTree]:
    others = {name: {GPU: used} for name, used in _used_by_others(fleet).items()}
    found = {}
    for name in flavors:
        known = fleet.flavors.get(("", name))
        topology = fleet.topologies.get(("", known.topology)) if known and known.topology else None
        if topology is not None:
            flavor = flavor_of(fleet, name, topology.name)
            nodes = (node_of(each, topology.levels, flavor.labels) for each in fleet.nodes.values() if each.takes_pods)
            found[name] = TopologyTree(topology.name, topology.levels, flavor, nodes, others)
    return found


def node_of(node: ClusterNode, levels: Iterable[str], labels: Mapping[str, str] | None = None) -> SnapshotNode:
    """A node with the labels of these levels; labels that are not stored count as matching."""
    own = {level: label_of(node, level) or UNLABELLED_DOMAIN for level in levels}
    for key, value in (labels or {}).items():
        known = label_of(node, key)
        own[key] = value if known is None else known
    return SnapshotNode(node.name, own, (), {GPU: max(node.gpus, node.gpu_capacity), "pods": UNLIMITED_PODS})


@per_snapshot
def gpus_assigned(fleet: Fleet) -> Counter[str]:
    """GPUs per node assigned to admitted workloads, whether their pods exist yet or not."""
    found: Counter[str] = Counter()
    for group in (one for each in _queue_orders(fleet).values() for held in each.running for one in held.pod_sets):
        for domain in group.domains:
            found[domain.values[-1]] += domain.count * dict(group.requests).get(GPU, 0)
    return found


def _used_by_others(fleet: Fleet) -> dict[str, int]:
    """GPUs per node that are broken or used by pods without a topology assignment."""
    used: dict[str, int] = {}
    for node in fleet.nodes.values():
        used[node.name] = max(0, node.gpu_capacity - node.gpus)
        for pod in fleet.pods_by_node.get(node.name, ()):
            jobset = fleet.jobset_by_uid.get(pod.jobset_uid)
            workload = fleet.workload_of(jobset) if jobset else None
            if workload is None or not any(group.domains for group in workload.pod_sets):
                used[node.name] += pod.holds_gpus
    return used


def workload_of_job(fleet: Fleet, namespace: str, name: str) -> Workload | None:
    """The latest workload of a job of that name, of whatever kind; None if there is none."""
    found = (each for each in fleet.workloads.values() if (each.namespace, job_name(each)) == (namespace, name))
    return max(found, key=lambda each: each.created, default=None)
