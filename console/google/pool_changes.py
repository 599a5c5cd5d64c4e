"""Reads and resizes the cluster's node pools, and reports faulty hosts; with ProvisioningRequests."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from console.errors import BadInput, Conflict, ConsoleError, NotFound, Unreadable
from console.google.node_pools import InstanceGroup, PoolsSnapshot, ProvisioningRequest, join_pool_data
from console.kube.find_job import require_listed
from console.kube.objects.meta import UNREADABLE, parse_time
from console.kube.objects.node import Node

if TYPE_CHECKING:
    from console.google.account import Cloud
    from console.google.api.container import Gke
    from console.google.clusters import GkeCluster, GkeOperation, GkePool
    from console.kube.client import Client
    from console.kube.watched_cluster import WatchedCluster


T = TypeVar("T")
ACTIVE_POLL_SECONDS = 3.0  # seconds between two looks while something is under way
POLL_SECONDS = 20.0
MAX_POLL_SECONDS = 120.0  # seconds between two looks otherwise, and after many that failed
MAX_NODES = 5000  # no pool of GKE's has more
FAULTS = {  # what a host may be reported for
    "PERFORMANCE": "slow: GPUs or network below what they should reach",
    "SDC": "silent data corruption: wrong results without an error",
    "XID": "the driver reports an XID error",
    "unspecified": "something else",
}


class NodePools:
    """The node pools of the cluster; Google is only asked by its methods."""

    def __init__(self, watched: WatchedCluster, cloud: Cloud) -> None:
        self._watched = watched
        self._cloud = cloud

    async def read_snapshot(self) -> PoolsSnapshot:
        """Read all pools; what may not be read is listed in the result. Raises if the cluster cannot be read."""
        gke, cluster = await self._cloud.connected_cluster()
        unread: dict[str, str] = {}
        nothing_done: tuple[GkeOperation, ...] = ()
        nothing_asked: tuple[ProvisioningRequest, ...] = ()
        client = self._watched.current_connection.client
        counts = (
            _answer_or_default(None, unread, "target sizes", partial(self._read_group, pool.groups))
            for pool in cluster.pools
        )
        operations, found, counted = await asyncio.gather(
            _answer_or_default(
                nothing_done, unread, "operations", lambda: gke.list_operations(cluster.project, cluster.location)
            ),
            _answer_or_default(
                nothing_asked, unread, "provisioning requests", lambda: list_provisioning_requests(client)
            ),
            asyncio.gather(*counts),
        )
        groups = {pool.name: group for pool, group in zip(cluster.pools, counted, strict=True)}
        now = time.time()
        pools = join_pool_data(cluster, operations, groups, self._watched.fleet, now)
        mine = tuple(each for each in operations if each.cluster == cluster.name)
        picture = PoolsSnapshot(cluster, pools, mine, found, now, tuple(sorted(unread.items())))
        self._cloud.pools_seen[self._watched.context] = picture
        return picture

    @property
    def last_snapshot(self) -> PoolsSnapshot | None:
        """The last result of `read_snapshot` for this cluster; None if there is none."""
        return self._cloud.pools_seen.get(self._watched.context)

    async def _read_group(self, addresses: Sequence[str]) -> InstanceGroup | None:
        return await self._cloud.call("compute", lambda api, login: api.read_instance_groups(login, addresses))

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
                pause = ACTIVE_POLL_SECONDS if picture.busy else POLL_SECONDS
            await asyncio.sleep(pause)

    def with_current_nodes(self, picture: PoolsSnapshot) -> PoolsSnapshot:
        """The same snapshot combined with the current nodes."""
        groups: dict[str, InstanceGroup | None] = {
            each.pool.name: InstanceGroup(each.target, each.creating, each.repairing)
            if each.target is not None
            else None
            for each in picture.pools
        }
        pools = join_pool_data(picture.cluster, picture.operations, groups, self._watched.fleet, time.time())
        return replace(picture, pools=pools)

    async def resize(self, pool: str, nodes: int) -> GkeOperation:
        """Set the number of nodes per zone; returns the operation."""
        self._cloud.require_writable(f"resize node pool {pool}")
        if not 0 <= nodes <= MAX_NODES:
            raise BadInput(f"A node pool cannot have {nodes} nodes.", f"Give a number from 0 to {MAX_NODES:,}.")
        gke, cluster, facts = await self._find_pool(pool)
        if facts.queued or facts.flex_start:
            words = f"Node pool {pool} gets its machines from DWS, one request at a time; it cannot be resized."
            raise BadInput(words, "Launch a job into its queue.")
        return await gke.resize(cluster, pool, nodes)

    async def scale_between(self, pool: str, least: int, most: int) -> GkeOperation:
        """Set the autoscaling limits of a pool; 0 and 0 disable it. Returns the operation."""
        self._cloud.require_writable(f"set the limits of node pool {pool}")
        if not 0 <= least <= most <= MAX_NODES:
            hint = f"Give two numbers from 0 to {MAX_NODES:,}, the smaller first."
            raise BadInput(f"{least} to {most} nodes are not valid limits.", hint)
        gke, cluster, _ = await self._find_pool(pool)
        return await gke.scale_between(cluster, pool, least, most)

    async def _find_pool(self, pool: str) -> tuple[Gke, GkeCluster, GkePool]:
        gke, cluster = await self._cloud.connected_cluster()
        facts = next((each for each in cluster.pools if each.name == pool), None)
        if facts is None:
            listed = ", ".join(each.name for each in cluster.pools)
            raise NotFound(f"Cluster {cluster.name} has no node pool {pool}.", f"It has: {listed or 'none'}.")
        return gke, cluster, facts

    async def follow_operation(self, operation: GkeOperation) -> AsyncGenerator[GkeOperation, None]:
        """Yield the operation as it progresses, until it has ended."""
        gke = await self._cloud.gke()
        yield operation
        while not operation.over:
            await asyncio.sleep(ACTIVE_POLL_SECONDS if not self._cloud.practice else 0.5)
            operation = await gke.read_operation(operation.project, operation.location, operation.name)
            yield operation

    def why_not_reportable(self, node: Node) -> str:
        """Why Google would not accept a fault report about this node; empty if it would."""
        if node.fault:
            return f"It has been reported: {node.fault}{f', {node.repair}' if node.repair else ''}."
        if not node.reservation:
            return "Only machines of a reservation can be reported."
        if not node.machine_type.startswith(("a3-", "a4-", "a4x-")):
            return f"Machines of type {node.machine_type or 'unknown'} cannot be reported."
        return ""

    def require_reportable(self, node: str, fault: str) -> None:
        """Raise BadInput, NotFound or Conflict if Google would not accept this report."""
        if fault not in FAULTS:
            raise BadInput(f"The fault is not known: {fault!r}.", f"Give one of {', '.join(FAULTS)}.")
        found = self._watched.fleet.nodes.get(("", node))
        if found is None:
            require_listed(self._watched.fleet, "nodes", f"Whether there is a node {node}")
            raise NotFound(f"There is no node {node}.", "`a4 nodes` lists them.")
        if why := self.why_not_reportable(found):
            raise Conflict(f"Node {node} cannot be reported. {why}", "See `a4 nodes` for its state.")

    async def wait_until_replaced(self, node: str) -> str:
        """Wait until Google has handled a reported host; returns the last status, "replaced" once the node is gone."""
        async for fleet in self._watched.snapshots():
            found = fleet.nodes.get(("", node))
            if found is None:
                return "replaced"
            if found.repair.lower() in {"operationdone", "error"}:
                return found.repair
        return "not known"

    async def report_fault(self, node: str, fault: str) -> None:
        """Report the host of a node as faulty: Google evicts its pods, wipes it and replaces it."""
        from console.kube import actions

        connection = self._watched.connection_for_change(f"report node {node}")
        self.require_reportable(node, fault)
        await actions.set_node_labels(connection.client, node, {"cloud.google.com/fault-behavior": fault})


async def _answer_or_default(instead: T, unread: dict[str, str], what: str, ask: Callable[[], Awaitable[T]]) -> T:
    """The answer, or on an error `instead`, with the reason recorded in `unread`.

    It asks itself: what is cancelled before its turn has not begun to ask.
    """
    try:
        return await ask()
    except ConsoleError as error:
        unread[what] = str(error)
        return instead


_PATH = "/apis/autoscaling.x-k8s.io/v1/provisioningrequests"
_STATES = (  # conditions, the one that tells most first
    ("Failed", "failed"),
    ("CapacityRevoked", "revoked"),
    ("BookingExpired", "expired"),
    ("Provisioned", "provisioned"),
    ("Accepted", "accepted"),
)
_MAX_REQUESTS = "500"


async def list_provisioning_requests(client: Client) -> tuple[ProvisioningRequest, ...]:
    """ProvisioningRequests of all namespaces, latest first; empty if the cluster has no DWS."""
    try:
        body = await client.request("GET", _PATH, params={"limit": _MAX_REQUESTS}, doing="list ProvisioningRequests")
    except NotFound:
        return ()
    try:
        items = msgspec.json.decode(body).get("items") or []
        found = [_parse_request(each) for each in items]
    except (*UNREADABLE, AttributeError, KeyError, TypeError) as error:
        raise Unreadable(f"The ProvisioningRequests cannot be read: {error}.") from error
    return tuple(sorted(found, key=lambda each: -each.created))


def _parse_request(item: dict[str, Any]) -> ProvisioningRequest:
    meta, spec = item["metadata"], item.get("spec") or {}
    conditions = {each["type"]: each for each in (item.get("status") or {}).get("conditions") or ()}
    state, about = next(
        ((word, conditions[kind]) for kind, word in _STATES if conditions.get(kind, {}).get("status") == "True"),
        ("pending", conditions.get("Provisioned") or conditions.get("Accepted") or {}),
    )
    waiting = conditions.get("Provisioned") or {}
    told = waiting if state == "accepted" and waiting.get("message") else about
    owners = meta.get("ownerReferences") or ()
    parameters = spec.get("parameters") or {}
    seconds = str(parameters.get("maxRunDurationSeconds", ""))
    return ProvisioningRequest(
        namespace=meta.get("namespace", ""),
        name=meta["name"],
        state=state,
        why=told.get("message", ""),
        pods=sum(int(each.get("count") or 0) for each in spec.get("podSets") or ()),
        kind=spec.get("provisioningClassName", ""),
        created=parse_time(meta.get("creationTimestamp", "")),
        seconds=float(seconds) if seconds.isdecimal() else None,
        owner=next((each["name"] for each in owners if each.get("kind") == "Workload"), ""),
    )
