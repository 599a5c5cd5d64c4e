"""Reads and resizes the cluster's node pools, and reports faulty hosts; with ProvisioningRequests."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from console.errors import BadInput, Conflict, ConsoleError, NotFound, Unreadable
from console.google.node_pools import Group, PoolsSnapshot, ProvisioningRequest, join_pools
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
SOON = 3.0  # seconds between two looks while something is under way
USUAL = 20.0
LONGEST = 120.0  # seconds between two looks otherwise, and after many that failed
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

    async def look(self) -> PoolsSnapshot:
        """Read all pools; what may not be read is listed in the result. Raises if the cluster cannot be read."""
        gke, cluster = await self._cloud.connected()
        unread: dict[str, str] = {}
        client = self._watched.current_connection.client
        counts = (_or_else(None, unread, "target sizes", self._group(pool.groups)) for pool in cluster.pools)
        operations, found, counted = await asyncio.gather(
            _or_else((), unread, "operations", gke.operations(cluster.project, cluster.location)),
            _or_else((), unread, "provisioning requests", requests(client)),
            asyncio.gather(*counts),
        )
        groups = {pool.name: group for pool, group in zip(cluster.pools, counted, strict=True)}
        now = time.time()
        pools = join_pools(cluster, operations, groups, self._watched.fleet, now)
        mine = tuple(each for each in operations if each.cluster == cluster.name)
        picture = PoolsSnapshot(cluster, pools, mine, found, now, tuple(sorted(unread.items())))
        self._cloud.pools_seen[self._watched.context] = picture
        return picture

    @property
    def seen(self) -> PoolsSnapshot | None:
        """The last result of `look` for this cluster; None if there is none."""
        return self._cloud.pools_seen.get(self._watched.context)

    async def _group(self, addresses: Sequence[str]) -> Group | None:
        return await self._cloud.ask("compute", lambda api, login: api.group(login, addresses))

    async def follow(self) -> AsyncGenerator[PoolsSnapshot | ConsoleError, None]:
        """Yield `look` or its error at intervals, which shrink during operations and grow after errors."""
        pause = SOON
        while True:
            try:
                picture = await self.look()
            except ConsoleError as error:
                yield error
                pause = min(LONGEST, pause * 2)
            else:
                yield picture
                pause = SOON if picture.busy else USUAL
            await asyncio.sleep(pause)

    def again(self, picture: PoolsSnapshot) -> PoolsSnapshot:
        """The same snapshot combined with the current nodes."""
        groups: dict[str, Group | None] = {
            each.pool.name: Group(each.target, each.creating, each.repairing) if each.target is not None else None
            for each in picture.pools
        }
        pools = join_pools(picture.cluster, picture.operations, groups, self._watched.fleet, time.time())
        return replace(picture, pools=pools)

    async def resize(self, pool: str, nodes: int) -> GkeOperation:
        """Set the number of nodes per zone; returns the operation."""
        self._cloud.check_may(f"resize node pool {pool}")
        if not 0 <= nodes <= MAX_NODES:
            raise BadInput(f"A node pool cannot have {nodes} nodes.", f"Give a number from 0 to {MAX_NODES:,}.")
        gke, cluster, facts = await self._find_pool(pool)
        if facts.queued or facts.flex_start:
            words = f"Node pool {pool} gets its machines from DWS, one request at a time; it cannot be resized."
            raise BadInput(words, "Launch a job into its queue.")
        return await gke.resize(cluster, pool, nodes)

    async def scale_between(self, pool: str, least: int, most: int) -> GkeOperation:
        """Set the autoscaling limits of a pool; 0 and 0 disable it. Returns the operation."""
        self._cloud.check_may(f"set the limits of node pool {pool}")
        if not 0 <= least <= most <= MAX_NODES:
            hint = f"Give two numbers from 0 to {MAX_NODES:,}, the smaller first."
            raise BadInput(f"{least} to {most} nodes are not valid limits.", hint)
        gke, cluster, _ = await self._find_pool(pool)
        return await gke.scale_between(cluster, pool, least, most)

    async def _find_pool(self, pool: str) -> tuple[Gke, GkeCluster, GkePool]:
        gke, cluster = await self._cloud.connected()
        facts = next((each for each in cluster.pools if each.name == pool), None)
        if facts is None:
            listed = ", ".join(each.name for each in cluster.pools)
            raise NotFound(f"Cluster {cluster.name} has no node pool {pool}.", f"It has: {listed or 'none'}.")
        return gke, cluster, facts

    async def until_over(self, operation: GkeOperation) -> AsyncGenerator[GkeOperation, None]:
        """Yield the operation as it progresses, until it has ended."""
        gke = await self._cloud.gke()
        yield operation
        while not operation.over:
            await asyncio.sleep(SOON if not self._cloud.practice else 0.5)
            operation = await gke.operation(operation.project, operation.location, operation.name)
            yield operation

    def why_not_report(self, node: Node) -> str:
        """Why Google would not accept a fault report about this node; empty if it would."""
        if node.fault:
            return f"It has been reported: {node.fault}{f', {node.repair}' if node.repair else ''}."
        if not node.reservation:
            return "Only machines of a reservation can be reported."
        if not node.machine_type.startswith(("a3-", "a4-", "a4x-")):
            return f"Machines of type {node.machine_type or 'unknown'} cannot be reported."
        return ""

    def reportable(self, node: str, fault: str) -> None:
        """Raise BadInput, NotFound or Conflict if Google would not accept this report."""
        if fault not in FAULTS:
            raise BadInput(f"The fault is not known: {fault!r}.", f"Give one of {', '.join(FAULTS)}.")
        found = self._watched.fleet.nodes.get(("", node))
        if found is None:
            require_listed(self._watched.fleet, "nodes", f"Whether there is a node {node}")
            raise NotFound(f"There is no node {node}.", "`a4 nodes` lists them.")
        if why := self.why_not_report(found):
            raise Conflict(f"Node {node} cannot be reported. {why}", "See `a4 nodes` for its state.")

    async def until_replaced(self, node: str) -> str:
        """Wait until Google has handled a reported host; returns the last status, "replaced" once the node is gone."""
        async for fleet in self._watched.snapshots():
            found = fleet.nodes.get(("", node))
            if found is None:
                return "replaced"
            if found.repair.lower() in {"operationdone", "error"}:
                return found.repair
        return "not known"

    async def report(self, node: str, fault: str) -> None:
        """Report the host of a node as faulty: Google evicts its pods, wipes it and replaces it."""
        from console.kube import actions

        connection = self._watched.connection_for_change(f"report node {node}")
        self.reportable(node, fault)
        await actions.set_node_labels(connection.client, node, {"cloud.google.com/fault-behavior": fault})


async def _or_else(instead: T, unread: dict[str, str], what: str, answer: Awaitable[T]) -> T:
    """The awaited answer, or on an error `instead`, with the reason recorded in `unread`."""
    try:
        return await answer
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
_MOST = "500"


async def requests(client: Client) -> tuple[ProvisioningRequest, ...]:
    """ProvisioningRequests of all namespaces, latest first; empty if the cluster has no DWS."""
    try:
        body = await client.request("GET", _PATH, params={"limit": _MOST}, doing="list ProvisioningRequests")
    except NotFound:
        return ()
    try:
        items = msgspec.json.decode(body).get("items") or []
        found = [_read(each) for each in items]
    except (*UNREADABLE, AttributeError, KeyError, TypeError) as error:
        raise Unreadable(f"The ProvisioningRequests cannot be read: {error}.") from error
    return tuple(sorted(found, key=lambda each: -each.created))


def _read(item: dict[str, Any]) -> ProvisioningRequest:
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
