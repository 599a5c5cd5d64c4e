"""Node pools as reported by Google's API combined with the cluster's nodes, including empty pools."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from msgspec import structs

from console.google.clusters import GkeCluster, GkeOperation, GkePool
from console.kube.objects.node import Node, Provisioning
from console.kube.snapshot import Fleet
from console.scheduling.topology import Pool

HEALTHY_STATES = frozenset({"RUNNING"})
FAILED_STATES = frozenset({"ERROR", "RUNNING_WITH_ERROR"})
FAILURE_SHOWN_SECONDS = 7 * 86400.0  # seconds for which an operation that failed is still told of
_WORDS = {
    "CREATE_NODE_POOL": "is being created",
    "DELETE_NODE_POOL": "is being deleted",
    "SET_NODE_POOL_SIZE": "is being resized",
    "SET_NODE_POOL_MANAGEMENT": "is being reconfigured",
    "UPDATE_CLUSTER": "is being reconfigured",
    "UPGRADE_MASTER": "the control plane is being upgraded",
    "REPAIR_CLUSTER": "the control plane is being repaired",
}
_STATES = {"PROVISIONING": "is being created", "STOPPING": "is being deleted"}  # where no operation tells more
_NODES = {
    "UPGRADE_NODES": "being upgraded",
    "AUTO_UPGRADE_NODES": "being upgraded",
    "AUTO_REPAIR_NODES": "being repaired",
}


@dataclass(frozen=True, slots=True)
class InstanceGroup:
    """The machines of a pool in one zone (a managed instance group), as Compute Engine counts them."""

    target: int
    creating: int = 0
    repairing: int = 0
    deleting: int = 0


@dataclass(frozen=True, slots=True)
class PoolStatus:
    """A node pool: its target size, its nodes, and operations under way."""

    pool: GkePool
    target: int | None  # machines that it should have; None where nobody may tell
    nodes: int
    ready: int
    creating: int
    repairing: int
    operations: tuple[GkeOperation, ...]  # under way, latest first
    failed: GkeOperation | None  # the last operation on it, if that failed

    @property
    def state(self) -> str:
        """One word: "ok", "busy" or "bad"."""
        if self.pool.status in FAILED_STATES:
            return "bad"
        busy = self.operations or self.pool.status not in HEALTHY_STATES or self.short
        return "busy" if busy else "ok"

    @property
    def short(self) -> int:
        """Number of nodes missing or not ready, compared with the target size."""
        return max(0, (self.target or 0) - self.ready)

    @property
    def sentences(self) -> tuple[str, ...]:
        """Statements about the pool, the most urgent first; empty if all is well."""
        said = (
            [self.pool.message.strip().rstrip(".")] if self.pool.status in FAILED_STATES and self.pool.message else []
        )
        said += [format_operation(each, self.nodes) for each in self.operations]
        if not said and self.pool.status in _STATES:
            said.append(_STATES[self.pool.status])
        repaired = any("REPAIR" in each.kind for each in self.operations)
        if self.repairing and not repaired:
            said.append(f"{self.repairing} of {_format_nodes(self.nodes)} {_is_or_are(self.repairing)} being repaired")
        if self.creating:
            said.append(f"{self.creating} more {_is_or_are(self.creating)} being created")
        if self.short and not (said or self.pool.autoscaling):
            said.append(f"{self.ready} of {_format_nodes(self.target or 0)} {_is_or_are(self.ready)} ready")
        if self.failed and not said:
            said.append(f"{format_operation_kind(self.failed.kind)} failed: {self.failed.error.rstrip('.')}")
        return tuple(said)

    def resize_losses(self, nodes: int) -> tuple[str, ...]:
        """What resizing to `nodes` would remove, to be confirmed first."""
        less = self.nodes - nodes
        words = (
            f"{_format_nodes(less)} {'goes' if less == 1 else 'go'} with the pods on {'it' if less == 1 else 'them'}."
        )
        return (words,) if less > 0 else ()

    @property
    def how(self) -> str:
        """How its nodes are provisioned, such as "DWS flex-start"."""
        pool = self.pool
        if pool.queued:
            return "DWS, queued"
        if pool.flex_start:
            return "DWS flex-start"
        if pool.spot:
            return "spot"
        return f"reservation {pool.reservation}" if pool.reservation not in {"", "any"} else "on demand"

    @property
    def limits(self) -> str:
        return f"{self.pool.least} to {self.pool.most}" if self.pool.autoscaling else ""


@dataclass(frozen=True, slots=True)
class PoolsSnapshot:
    cluster: GkeCluster
    pools: tuple[PoolStatus, ...]
    operations: tuple[GkeOperation, ...]  # of this cluster, latest first
    requests: tuple[ProvisioningRequest, ...]
    at: float
    unread: tuple[tuple[str, str], ...] = ()  # what could not be read -> why

    @property
    def busy(self) -> bool:
        return any(not each.over for each in self.operations)

    def find_pool(self, name: str) -> PoolStatus | None:
        return next((each for each in self.pools if each.pool.name == name), None)


@dataclass(frozen=True, slots=True)
class ProvisioningRequest:
    """A ProvisioningRequest: nodes that DWS (flex-start) is to provide all at once."""

    namespace: str
    name: str
    state: str  # pending, accepted, provisioned, failed, revoked or expired
    why: str
    pods: int  # pods that it asks machines for
    kind: str  # its class: "queued-provisioning.gke.io"
    created: float
    seconds: float | None  # how long the machines stay; None: as Google has it
    owner: str  # the Workload that asks; empty: somebody else


def join_pool_data(
    cluster: GkeCluster,
    operations: Iterable[GkeOperation],
    groups: dict[str, InstanceGroup | None],
    fleet: Fleet,
    now: float,
) -> tuple[PoolStatus, ...]:
    """Combine Google's pools with the snapshot's nodes; `groups` by pool, None if unknown."""
    nodes: dict[str, list[Node]] = {}
    for node in fleet.nodes.values():
        nodes.setdefault(node.pool, []).append(node)
    mine = [each for each in operations if each.cluster == cluster.name]
    return tuple(
        _pool_status(pool, groups.get(pool.name), nodes.get(pool.name, []), mine, now) for pool in cluster.pools
    )


def _pool_status(
    pool: GkePool, group: InstanceGroup | None, nodes: list[Node], operations: list[GkeOperation], now: float
) -> PoolStatus:
    mine = [each for each in operations if each.pool == pool.name]
    last = next((each for each in mine if each.over), None)
    target = group.target if group else None if pool.autoscaling else pool.initial_size
    states = Counter(node.ready for node in nodes)
    return PoolStatus(
        pool=pool,
        target=target,
        nodes=len(nodes),
        ready=states[True],
        creating=group.creating if group else 0,
        repairing=group.repairing if group else 0,
        operations=tuple(each for each in mine if not each.over),
        failed=last if last and last.error and now - last.started < FAILURE_SHOWN_SECONDS else None,
    )


def format_operation(operation: GkeOperation, nodes: int = 0) -> str:
    """What an operation does and its progress: "3 of 16 nodes are being repaired"."""
    done, total = operation.done, operation.total
    if doing := _NODES.get(operation.kind):
        if total is None:
            return f"nodes are {doing}"
        if "REPAIR" in operation.kind:
            left = total - (done or 0)
            return f"{left} of {_format_nodes(max(nodes, total))} {_is_or_are(left)} {doing}"
        return f"{done or 0} of {_format_nodes(total)} upgraded, the rest {_is_or_are(total - (done or 0))} {doing}"
    words = _WORDS.get(operation.kind, format_operation_kind(operation.kind).lower())
    return f"{words}: {done or 0} of {_format_nodes(total)} done" if total else words


def format_operation_of(operation: GkeOperation, whose: str, nodes: int = 0) -> str:
    """`format_operation` as a sentence: "a4-spot is being resized", "a4-spot: 1 of 4 nodes is being repaired"."""
    words = format_operation(operation, nodes)
    return f"{whose} {words}" if words.startswith(("is ", "gets ")) else f"{whose}: {words}"


def format_operation_kind(kind: str) -> str:
    """An operation type in readable form: "Set node pool size"."""
    return kind.replace("_", " ").capitalize()


def _format_nodes(number: int) -> str:
    return f"{number} node" if number == 1 else f"{number} nodes"


def _is_or_are(number: int) -> str:
    return "is" if number == 1 else "are"


def merge_google_pools(found: Iterable[Pool], picture: PoolsSnapshot | None) -> tuple[Pool, ...]:
    """Pools of the nodes with Google's data, followed by Google's pools without nodes."""
    pools = tuple(found)
    if picture is None:
        return pools
    facts = {each.pool.name: each for each in picture.pools}
    here = {pool.name for pool in pools if pool.labelled}
    asked = sum(each.state in {"pending", "accepted"} for each in picture.requests)
    more = [
        Pool(
            name=name,
            machine_type=each.pool.machine_type,
            zones=each.pool.zones,
            provisioning=provisioning_of(each.pool),
            reservation=each.pool.reservation,
            accelerator=each.pool.accelerator,
            facts=each,
            requests=asked if each.pool.queued or each.pool.flex_start else 0,
        )
        for name, each in facts.items()
        if name not in here
    ]
    more.sort(key=lambda pool: (not pool.accelerator, pool.name))
    known = [
        structs.replace(pool, facts=facts[pool.name]) if pool.labelled and pool.name in facts else pool
        for pool in pools
    ]
    return (*known, *more)


def provisioning_of(pool: GkePool) -> Provisioning:
    if pool.queued:
        return Provisioning.QUEUED
    if pool.flex_start:
        return Provisioning.FLEX_START
    if pool.spot:
        return Provisioning.SPOT
    return Provisioning.RESERVATION if pool.reservation not in {"", "any"} else Provisioning.ON_DEMAND
