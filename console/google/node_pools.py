"""Node pools as Google's API reports them, with the cluster's nodes: read, resized, and faulty hosts reported."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec import structs

from console.decoding import DECODING_ERRORS
from console.errors import BadInput, Conflict, ConsoleError, NotFound, Unreadable
from console.google.clusters import GkeCluster, GkeOperation, GkePool
from console.kube.find_job import require_listed
from console.kube.objects.meta import parse_time
from console.kube.objects.node import Node, Provisioning
from console.kube.snapshot import Fleet
from console.kube.stream_completeness import SERVER_CLOCK
from console.scheduling.topology import Pool

if TYPE_CHECKING:
    from console.google.account import GoogleAccount
    from console.google.api.container import Gke
    from console.kube.client import Client
    from console.kube.watched_cluster import WatchedCluster


HEALTHY_STATES = frozenset({"RUNNING"})
FAILED_STATES = frozenset({"ERROR", "RUNNING_WITH_ERROR"})
FAILURE_SHOWN_SECONDS = 7 * 86400.0  # seconds for which an operation that failed is still shown
_OPERATION_WORDS = {
    "CREATE_NODE_POOL": "is being created",
    "DELETE_NODE_POOL": "is being deleted",
    "SET_NODE_POOL_SIZE": "is being resized",
    "SET_NODE_POOL_MANAGEMENT": "is being reconfigured",
    "UPDATE_CLUSTER": "is being reconfigured",
    "UPGRADE_MASTER": "the control plane is being upgraded",
    "REPAIR_CLUSTER": "the control plane is being repaired",
}
_POOL_STATE_WORDS = {"PROVISIONING": "is being created", "STOPPING": "is being deleted"}
_NODE_OPERATION_WORDS = {
    "UPGRADE_NODES": "being upgraded",
    "AUTO_UPGRADE_NODES": "being upgraded",
    "AUTO_REPAIR_NODES": "being repaired",
}


@dataclass(frozen=True, slots=True)
class InstanceGroup:
    """The machines of a pool in one zone (a managed instance group), as Compute Engine counts them."""

    target_size: int  # machines that it should have
    creating: int = 0  # machines that are being created
    repairing: int = 0  # machines that are being recreated, restarted, refreshed or verified


@dataclass(frozen=True, slots=True)
class PoolStatus:
    """A node pool: its target size, its nodes, and operations under way."""

    pool: GkePool
    target_size: int | None  # machines that it should have; None where nobody may tell
    nodes: int  # number of its nodes in the cluster
    ready: int  # number of ready nodes
    creating: int  # machines that are being created
    repairing: int  # machines that are being recreated, restarted, refreshed or verified
    operations: tuple[GkeOperation, ...]  # under way, latest first
    failed: GkeOperation | None  # the last operation on it, if that failed

    @property
    def state(self) -> str:
        """The pool's state in one word: "ok", "busy" or "bad"."""
        if self.pool.status in FAILED_STATES or (self.failed and not self.operations):
            return "bad"
        busy = self.operations or self.pool.status not in HEALTHY_STATES or self.missing_nodes
        return "busy" if busy else "ok"

    @property
    def missing_nodes(self) -> int:
        """The number of nodes of the target size that are missing or not ready."""
        return max(0, (self.target_size or 0) - self.ready)

    @property
    def sentences(self) -> tuple[str, ...]:
        """The faults and operations of the pool, the most urgent first; empty if all is well."""
        found = (
            [self.pool.message.strip().rstrip(".")] if self.pool.status in FAILED_STATES and self.pool.message else []
        )
        found += [format_operation(each, self.nodes) for each in self.operations]
        if not found and self.pool.status in _POOL_STATE_WORDS:
            found.append(_POOL_STATE_WORDS[self.pool.status])
        repaired = any("REPAIR" in each.kind for each in self.operations)
        if self.repairing and not repaired:
            found.append(f"{self.repairing} of {_format_nodes(self.nodes)} {_is_or_are(self.repairing)} being repaired")
        if self.creating:
            found.append(f"{self.creating} more {_is_or_are(self.creating)} being created")
        if self.missing_nodes and not (found or self.pool.autoscaling):
            found.append(f"{self.ready} of {_format_nodes(self.target_size or 0)} {_is_or_are(self.ready)} ready")
        if self.failed and not found:
            found.append(f"{format_operation_kind(self.failed.kind)} failed: {self.failed.error.rstrip('.')}")
        return tuple(found)

    def resize_losses(self, nodes: int) -> tuple[str, ...]:
        """The consequences of a resize to `nodes`, a sentence each; the person confirms them first."""
        less = self.nodes - nodes
        words = (
            f"{_format_nodes(less)} {'goes' if less == 1 else 'go'} with the pods on {'it' if less == 1 else 'them'}."
        )
        return (words,) if less > 0 else ()

    @property
    def provisioning(self) -> str:
        """The provisioning of the pool's nodes, such as "DWS flex-start", "spot" or "reservation NAME"."""
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


class GooglePool(Pool, frozen=True, kw_only=True):
    """A node pool seen from the cluster's nodes, together with its state at Google."""

    status: PoolStatus
    requests: int = 0  # requests to DWS that wait for machines of such a pool

    @property
    def nodes_total(self) -> int:
        """Number of nodes, including those that Google is still creating."""
        return max(len(self.nodes), self.status.target_size or 0)


@dataclass(frozen=True, slots=True)
class PoolsSnapshot:
    cluster: GkeCluster
    pools: tuple[PoolStatus, ...]
    operations: tuple[GkeOperation, ...]  # of this cluster, latest first
    requests: tuple[ProvisioningRequest, ...]
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
    """Combine Google's pools with the snapshot's nodes; `groups`: machines by pool, None if unknown."""
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
    target_size = group.target_size if group else None if pool.autoscaling else pool.initial_size
    states = Counter(node.ready for node in nodes)
    return PoolStatus(
        pool=pool,
        target_size=target_size,
        nodes=len(nodes),
        ready=states[True],
        creating=group.creating if group else 0,
        repairing=group.repairing if group else 0,
        operations=tuple(each for each in mine if not each.over),
        failed=last if last and last.error and now - last.started < FAILURE_SHOWN_SECONDS else None,
    )


def format_operation(operation: GkeOperation, nodes: int = 0) -> str:
    """An operation and its progress in words: "3 of 16 nodes are being repaired"."""
    done, total = operation.done, operation.total
    if doing := _NODE_OPERATION_WORDS.get(operation.kind):
        if total is None:
            return f"nodes are {doing}"
        if "REPAIR" in operation.kind:
            left = total - (done or 0)
            return f"{left} of {_format_nodes(max(nodes, total))} {_is_or_are(left)} {doing}"
        return f"{done or 0} of {_format_nodes(total)} upgraded, the rest {_is_or_are(total - (done or 0))} {doing}"
    words = _OPERATION_WORDS.get(operation.kind, format_operation_kind(operation.kind).lower())
    return f"{words}: {done or 0} of {_format_nodes(total)} done" if total else words


def format_operation_of(operation: GkeOperation, owner: str, nodes: int = 0) -> str:
    """An operation and its pool: "a4-spot is being resized", "a4-spot: 1 of 4 nodes is being repaired"."""
    words = format_operation(operation, nodes)
    return f"{owner} {words}" if words.startswith(("is ", "gets ")) else f"{owner}: {words}"


def format_operation_kind(kind: str) -> str:
    """An operation type in readable form: "Set node pool size"."""
    return kind.replace("_", " ").capitalize()


def _format_nodes(count: int) -> str:
    return f"{count} node" if count == 1 else f"{count} nodes"


def _is_or_are(count: int) -> str:
    return "is" if count == 1 else "are"


def merge_google_pools(found: Iterable[Pool], snapshot: PoolsSnapshot | None) -> tuple[Pool, ...]:
    """The pools that nodes show, joined with Google's data if known; then Google's pools that have no nodes."""
    pools = tuple(found)
    if snapshot is None:
        return pools
    facts = {each.pool.name: each for each in snapshot.pools}
    here = {pool.name for pool in pools if pool.is_labelled}
    asked = sum(each.state in {"pending", "accepted"} for each in snapshot.requests)
    more = [
        GooglePool(
            name=name,
            machine_type=each.pool.machine_type,
            zones=each.pool.zones,
            provisioning=provisioning_of(each.pool),
            reservation=each.pool.reservation,
            accelerator=each.pool.accelerator,
            status=each,
            requests=asked if each.pool.queued or each.pool.flex_start else 0,
        )
        for name, each in facts.items()
        if name not in here
    ]
    more.sort(key=lambda pool: (not pool.accelerator, pool.name))
    known = [
        GooglePool(**structs.asdict(pool), status=facts[pool.name]) if pool.is_labelled and pool.name in facts else pool
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


T = TypeVar("T")
ACTIVE_POLL_SECONDS = 3.0  # seconds between two looks while something is under way
OPERATION_POLL_SECONDS = 20.0
MAX_POLL_SECONDS = 120.0  # seconds between two looks otherwise, and after many that failed
MAX_NODES = 5000  # no pool of GKE's has more
HOST_FAULTS = {  # what a host may be reported for
    "PERFORMANCE": "slow: GPUs or network below what they should reach",
    "SDC": "silent data corruption: wrong results without an error",
    "XID": "the driver reports an XID error",
    "unspecified": "something else",
}


class NodePools:
    """The connected cluster's node pools; Google is asked only when a method is called."""

    def __init__(self, cluster: WatchedCluster, account: GoogleAccount) -> None:
        self._cluster = cluster
        self._account = account
        self._snapshots: dict[str, PoolsSnapshot] = {}  # by context: what was last seen of the pools of its cluster

    async def read_snapshot(self) -> PoolsSnapshot:
        """Read all pools; what may not be read is listed in the result. Raises if the cluster cannot be read."""
        gke, cluster = await self._account.connected_cluster()
        unread: dict[str, str] = {}
        nothing_done: tuple[GkeOperation, ...] = ()
        nothing_asked: tuple[ProvisioningRequest, ...] = ()
        client = self._cluster.current_connection.client
        counts = (
            _request_or_default(None, unread, "target sizes", partial(self._read_group, pool.groups))
            for pool in cluster.pools
        )
        operations, found, counted = await asyncio.gather(
            _request_or_default(
                nothing_done, unread, "operations", lambda: gke.list_operations(cluster.project, cluster.location)
            ),
            _request_or_default(
                nothing_asked, unread, "provisioning requests", lambda: list_provisioning_requests(client)
            ),
            asyncio.gather(*counts),
        )
        groups = {pool.name: group for pool, group in zip(cluster.pools, counted, strict=True)}
        pools = join_pool_data(cluster, operations, groups, self._cluster.fleet, SERVER_CLOCK.now())
        mine = tuple(each for each in operations if each.cluster == cluster.name)
        picture = PoolsSnapshot(cluster, pools, mine, found, tuple(sorted(unread.items())))
        self._snapshots[self._cluster.context] = picture
        return picture

    @property
    def last_snapshot(self) -> PoolsSnapshot | None:
        """The last result of `read_snapshot` for this cluster; None if there is none."""
        return self._snapshots.get(self._cluster.context)

    async def _read_group(self, addresses: Sequence[str]) -> InstanceGroup | None:
        return await self._account.call("compute", lambda api, login: api.read_instance_groups(login, addresses))

    async def follow_snapshots(self) -> AsyncGenerator[PoolsSnapshot | ConsoleError, None]:
        """Yield snapshots or errors at intervals, which shrink during operations and grow after errors."""
        pause = ACTIVE_POLL_SECONDS
        while True:
            try:
                picture = await self.read_snapshot()
            except ConsoleError as error:
                yield error
                pause = min(MAX_POLL_SECONDS, pause * 2)
            else:
                yield picture
                pause = ACTIVE_POLL_SECONDS if picture.busy else OPERATION_POLL_SECONDS
            await asyncio.sleep(pause)

    def with_current_nodes(self, snapshot: PoolsSnapshot) -> PoolsSnapshot:
        groups: dict[str, InstanceGroup | None] = {
            each.pool.name: InstanceGroup(each.target_size, each.creating, each.repairing)
            if each.target_size is not None
            else None
            for each in snapshot.pools
        }
        pools = join_pool_data(snapshot.cluster, snapshot.operations, groups, self._cluster.fleet, SERVER_CLOCK.now())
        return replace(snapshot, pools=pools)

    async def resize(self, pool: str, nodes: int) -> GkeOperation:
        """Set the nodes per zone. Raises BadInput for a number out of range or a pool of DWS; NotFound, NotAllowed."""
        self._account.require_writable(f"resize node pool {pool}")
        if not 0 <= nodes <= MAX_NODES:
            raise BadInput(f"A node pool cannot have {nodes} nodes.", f"Give a number from 0 to {MAX_NODES:,}.")
        gke, cluster, facts = await self._find_pool(pool)
        if facts.queued or facts.flex_start:
            words = f"Node pool {pool} gets its machines from DWS, one request at a time; it cannot be resized."
            raise BadInput(words, "Launch a job into its queue.")
        return await gke.resize(cluster, pool, nodes)

    async def scale_between(self, pool: str, min_nodes: int, max_nodes: int) -> GkeOperation:
        """Set a pool's autoscaling limits over all zones (0 and 0: none). Raises BadInput, NotFound, NotAllowed."""
        self._account.require_writable(f"set the limits of node pool {pool}")
        if not 0 <= min_nodes <= max_nodes <= MAX_NODES:
            hint = f"Give two numbers from 0 to {MAX_NODES:,}, the smaller first."
            raise BadInput(f"{min_nodes} to {max_nodes} nodes are not valid limits.", hint)
        gke, cluster, _ = await self._find_pool(pool)
        return await gke.scale_between(cluster, pool, min_nodes, max_nodes)

    async def _find_pool(self, pool: str) -> tuple[Gke, GkeCluster, GkePool]:
        gke, cluster = await self._account.connected_cluster()
        facts = next((each for each in cluster.pools if each.name == pool), None)
        if facts is None:
            listed = ", ".join(each.name for each in cluster.pools)
            raise NotFound(f"Cluster {cluster.name} has no node pool {pool}.", f"It has: {listed or 'none'}.")
        return gke, cluster, facts

    async def follow_operation(self, operation: GkeOperation) -> AsyncGenerator[GkeOperation, None]:
        """Yield the operation as it progresses, until it has ended."""
        gke = await self._account.gke()
        yield operation
        while not operation.over:
            await asyncio.sleep(ACTIVE_POLL_SECONDS if not self._account.practice else 0.5)
            operation = await gke.read_operation(operation.project, operation.location, operation.name)
            yield operation

    def why_not_reportable(self, node: Node) -> str:
        """The reason why Google would not accept a fault report about this node; empty if it would."""
        if node.fault:
            return f"It has been reported: {node.fault}{f', {node.repair}' if node.repair else ''}."
        if not node.reservation:
            return "Only machines of a reservation can be reported."
        if not node.machine_type.startswith(("a3-", "a4-", "a4x-")):
            return f"Machines of type {node.machine_type or 'unknown'} cannot be reported."
        return ""

    def require_reportable(self, node: str, fault: str) -> None:
        """Raise BadInput, NotFound or Conflict if Google would not accept this report."""
        if fault not in HOST_FAULTS:
            raise BadInput(f"The fault is not known: {fault!r}.", f"Give one of {', '.join(HOST_FAULTS)}.")
        found = self._cluster.fleet.nodes.get(("", node))
        if found is None:
            require_listed(self._cluster.fleet, "nodes", f"Whether there is a node {node}")
            raise NotFound(f"There is no node {node}.", "`a4 nodes` lists them.")
        if why := self.why_not_reportable(found):
            raise Conflict(f"Node {node} cannot be reported. {why}", "See `a4 nodes` for its state.")

    async def wait_until_replaced(self, node: str) -> str:
        """Wait until Google has handled a reported host; returns the last status, "replaced" once the node is gone."""
        async for fleet in self._cluster.snapshots():
            found = fleet.nodes.get(("", node))
            if found is None:
                return "replaced"
            if found.repair.lower() in {"operationdone", "error"}:
                return found.repair
        return "not known"

    async def report_fault(self, node: str, fault: str) -> None:
        """Report the host of a node as faulty: Google evicts its pods, wipes it and replaces it."""
        from console.kube import actions

        connection = self._cluster.connection_for_change(f"report node {node}")
        self.require_reportable(node, fault)
        await actions.set_node_labels(connection.client, node, {"cloud.google.com/fault-behavior": fault})


async def _request_or_default(default: T, unread: dict[str, str], what: str, request: Callable[[], Awaitable[T]]) -> T:
    """The answer to a request, or `default` if it fails, with the reason added to `unread`."""
    try:
        return await request()
    except ConsoleError as error:
        unread[what] = str(error)
        return default


_PROVISIONING_REQUESTS = "/apis/autoscaling.x-k8s.io/v1/provisioningrequests"
_REQUEST_CONDITIONS = (  # conditions, the one that tells most first
    ("Failed", "failed"),
    ("CapacityRevoked", "revoked"),
    ("BookingExpired", "expired"),
    ("Provisioned", "provisioned"),
    ("Accepted", "accepted"),
)
_REQUESTS_LIMIT = "500"


async def list_provisioning_requests(client: Client) -> tuple[ProvisioningRequest, ...]:
    """ProvisioningRequests of all namespaces, latest first; empty without DWS. Raises Unreadable, and Refused."""
    try:
        body = await client.request(
            "GET", _PROVISIONING_REQUESTS, params={"limit": _REQUESTS_LIMIT}, action="list ProvisioningRequests"
        )
    except NotFound:
        return ()
    try:
        items = msgspec.json.decode(body).get("items") or []
        found = [_parse_request(each) for each in items]
    except (*DECODING_ERRORS, AttributeError, KeyError, TypeError) as error:
        raise Unreadable(f"The ProvisioningRequests cannot be read: {error}.") from error
    return tuple(sorted(found, key=lambda each: -each.created))


def _parse_request(item: dict[str, Any]) -> ProvisioningRequest:
    meta, spec = item["metadata"], item.get("spec") or {}
    conditions = {each["type"]: each for each in (item.get("status") or {}).get("conditions") or ()}
    state, about = next(
        (
            (word, conditions[kind])
            for kind, word in _REQUEST_CONDITIONS
            if conditions.get(kind, {}).get("status") == "True"
        ),
        ("pending", conditions.get("Provisioned") or conditions.get("Accepted") or {}),
    )
    waiting = conditions.get("Provisioned") or {}
    condition = waiting if state == "accepted" and waiting.get("message") else about
    owners = meta.get("ownerReferences") or ()
    parameters = spec.get("parameters") or {}
    seconds = str(parameters.get("maxRunDurationSeconds", ""))
    return ProvisioningRequest(
        namespace=meta.get("namespace", ""),
        name=meta["name"],
        state=state,
        why=condition.get("message", ""),
        pods=sum(int(each.get("count") or 0) for each in spec.get("podSets") or ()),
        kind=spec.get("provisioningClassName", ""),
        created=parse_time(meta.get("creationTimestamp", "")),
        seconds=float(seconds) if seconds.isdecimal() else None,
        owner=next((each["name"] for each in owners if each.get("kind") == "Workload"), ""),
    )
