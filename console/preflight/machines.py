"""Checks of machines: A4 node pools, placement, readiness, free GPUs, taints (P04 to P08, P13, P29)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from console.errors import NotFound
from console.google.clusters import GkePool
from console.kube.nested_values import get_path as value_at
from console.kube.objects.node import Node
from console.kube.objects.on_demand import WorkloadControllersWire, WorkloadControllerWire
from console.preflight.check import (
    Need,
    Result,
    Verdict,
    combine_verdicts,
    combined_check,
    fail,
    missing_verdict,
    ok,
    skip,
    verdict_of,
    warn,
)
from console.preflight.context import CheckContext, read_reservation
from console.scheduling.topology import MACHINE_GPUS

MACHINE, GPU_NAME = "a4-highgpu-8g", "nvidia-b200"
_TOLERATED_TAINTS = ("nvidia.com/gpu", "cloud.google.com/impending-node-termination")  # by the chart's pods
_TEMPORARY_TAINTS = (
    "node.kubernetes.io/",
    "cloud.google.com/maintenance-window-started",
    "node.cloudprovider.kubernetes.io/",
)
"""Taints that come and go with a machine's state; P06 tells of that."""
_METADATA_LABEL = "iam.gke.io/gke-metadata-server-enabled"


def _is_a4(node: Node) -> bool:
    return node.machine_type.startswith(MACHINE) or node.accelerator == GPU_NAME


def _a4_pools(pools: Sequence[GkePool]) -> list[GkePool]:
    return [pool for pool in pools if pool.machine_type.startswith(MACHINE) or pool.accelerator == GPU_NAME]


async def _list_a4_nodes(context: CheckContext) -> list[Node]:
    return [node for node in (await context.wait_for_kinds("nodes")).nodes.values() if _is_a4(node)]


async def _list_node_names(context: CheckContext, selector: str) -> list[str]:
    found = await context.list_metadata("/api/v1/nodes", "nodes", labelSelector=selector, limit="50")
    return [each.metadata.name or "" for each in found]


def _format_names(names: Sequence[str], most: int = 4) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


async def check_a4_pool(context: CheckContext) -> Verdict:
    wanted = context.wish.demand.pods
    if not wanted:
        return skip("The recipe asks for no GPU.")
    here, there = (
        await verdict_of(_check_a4_nodes(context, wanted)),
        await verdict_of(_check_a4_pool_at_google(context, wanted)),
    )
    if here.result is Result.FAIL and there.result is Result.OK:
        told = f"{here.evidence} {there.evidence}"  # an autoscaled pool has its nodes when somebody asks for them
        return warn(told, "Nodes come when the job asks for them.", "Wait for the nodes.")
    return combine_verdicts(here, there)


async def _check_a4_nodes(context: CheckContext, wanted: int) -> Verdict:
    nodes = await _list_a4_nodes(context)
    pools = sorted({node.pool or "no pool" for node in nodes})
    told = (
        f"{len(nodes)} nodes {MACHINE} in {_format_names(pools)}; {wanted} wanted."
        if nodes
        else f"No node is {MACHINE}."
    )
    return ok(told) if len(nodes) >= wanted else fail(told, f"{wanted} nodes with 8 GPUs are needed.")


async def _check_a4_pool_at_google(context: CheckContext, wanted: int) -> Verdict:
    pools = _a4_pools((await context.gke()).pools)
    if not pools:
        return fail(f"Google: no node pool has {MACHINE}.", "The recipes are for A4 machines.")
    can_have = sum(pool.most if pool.autoscaling else pool.initial_size for pool in pools)
    told = f"Google: node pools {_format_names([pool.name for pool in pools])} of up to {can_have} nodes."
    if bad := [pool for pool in pools if pool.status in {"ERROR", "RUNNING_WITH_ERROR", "STOPPING"}]:
        return warn(told, "; ".join(f"{pool.name} is {pool.status} {pool.message}".strip() for pool in bad) + ".")
    return ok(told) if can_have >= wanted else warn(told, f"{wanted} nodes are wanted.", "Raise the pool's limit.")


async def _check_node_topology(context: CheckContext) -> Verdict:
    nodes = await _list_a4_nodes(context)
    if not nodes:
        return warn(f"There is no node {MACHINE} to look at.")
    without = sorted(node.name for node in nodes if not (node.block and node.subblock and node.host))
    blocks = {node.block for node in nodes if node.block}
    told = f"{len(nodes) - len(without)} of {len(nodes)} A4 nodes name block, subblock and host ({len(blocks)} blocks)."
    if not without:
        return ok(told)
    reason = f"Without topology labels pods cannot be placed close together: {_format_names(without)}."
    return (fail if context.wish.demand.topology == "required" else warn)(told, reason)


async def _check_reservations(context: CheckContext) -> Verdict:
    """Whether each pool's machines come from a reservation."""
    cluster = await context.gke()
    pools = _a4_pools(cluster.pools)
    if not pools:
        return warn("Google: there is no A4 node pool.")
    named = [pool for pool in pools if pool.reservation and pool.reservation != "any"]
    if named:
        halves = [
            await verdict_of(_judge_reservation(context, cluster.project, pool.name, zone, name))
            for pool in named
            for name in pool.reservation.split(",")
            for zone in pool.zones[:1]
        ]
        others = [f"{pool.name}: {_provisioning_text(pool)}" for pool in pools if pool not in named]
        return combine_verdicts(*halves, *([ok(f"Others: {'; '.join(others)}.")] if others else []))
    told = f"Google: {'; '.join(f'{pool.name}: {_provisioning_text(pool)}' for pool in pools)}."
    if any(pool.placement == "COMPACT" for pool in pools):
        return ok(told)
    return warn(told, "No pool takes its machines from a reservation: they may stand apart.")


check_dense_reservation = combined_check(_check_node_topology, _check_reservations)


async def _judge_reservation(context: CheckContext, project: str, pool: str, zone: str, name: str) -> Verdict:
    try:
        found = await read_reservation(context, project, zone, name)
    except NotFound:
        told = f"Google: {pool} takes from reservation {name}, which does not exist in {zone}."
        return warn(told, "The pool gets no more machines from it.")
    kind = "dense" if found.dense else "not dense"
    told = f"Google: {pool} takes from reservation {found.name} ({kind}, {found.used} of {found.count} machines used)."
    if found.dense and found.status in {"READY", ""}:
        return ok(told)
    reason = "Its machines may stand apart." if not found.dense else f"The reservation is {found.status}."
    return (fail if context.wish.demand.topology == "required" else warn)(told, reason)


def _provisioning_text(pool: GkePool) -> str:
    return f"reservation {pool.reservation}" if pool.reservation else pool.dynamic or "no reservation"


async def check_free_gpus(context: CheckContext) -> Verdict:
    wanted = context.wish.demand.gpus
    if not wanted:
        return skip("The recipe asks for no GPU.")
    return combine_verdicts(
        await verdict_of(_check_free_in_cluster(context, wanted)), await verdict_of(_check_pool_status(context))
    )


async def _check_free_in_cluster(context: CheckContext, wanted: int) -> Verdict:
    fleet = await context.wait_for_kinds("nodes", "pods")
    nodes = [node for node in fleet.nodes.values() if _is_a4(node)]
    ready = [node for node in nodes if node.ready]
    short = sorted(node.name for node in ready if node.gpus < MACHINE_GPUS)
    free = sum(fleet.gpus_free(node) for node in nodes)
    usable = sum(node.gpus for node in nodes if node.takes_pods)
    told = f"{len(ready)} of {len(nodes)} A4 nodes are ready; {free} of {usable} GPUs are free, {wanted} wanted."
    if usable < wanted:
        return fail(told, "The machines that take pods have fewer GPUs than the job wants.", "Repair or add nodes.")
    if short:
        reason = f"Fewer than 8 GPUs are allocatable on {_format_names(short)}."
        return warn(told, reason, "See whether the driver is installed.")
    if free < wanted:
        return warn(told, "The job waits until others end.", "Wait, or take fewer GPUs.")
    if len(ready) < len(nodes) and not context.wish.recipe:
        return warn(told, f"Not ready: {_format_names(sorted(node.name for node in nodes if not node.ready))}.")
    return ok(told)


async def _check_pool_status(context: CheckContext) -> Verdict:
    pools = _a4_pools((await context.gke()).pools)
    told = "Google: " + ", ".join(f"{pool.name} {pool.status}" for pool in pools) + "."
    if any(pool.status not in {"RUNNING", "RECONCILING"} for pool in pools):
        return warn(told, "; ".join(pool.message for pool in pools if pool.message) or "A node pool has a problem.")
    return ok(told) if pools else warn("Google: there is no A4 node pool.")


async def check_taints(context: CheckContext) -> Verdict:
    nodes = await _list_a4_nodes(context)
    keeping = [taint for node in nodes for taint in node.taints if taint.endswith(("NoSchedule", "NoExecute"))]
    keys = sorted(set(map(_taint_key, keeping)))
    rows = value_at(context.wish.values, "placement.tolerations")
    own = {str(row.get("key", "")) for row in (rows if isinstance(rows, list | tuple) else ()) if isinstance(row, dict)}
    mine = {*_TOLERATED_TAINTS, *own}
    strange = [key for key in keys if key not in mine and not key.startswith(_TEMPORARY_TAINTS)]
    told = f"Taints of the A4 nodes: {', '.join(keys) or 'none'}; pods tolerate {', '.join(sorted(mine))}."
    if not strange:
        return ok(told)
    add = f"Add a toleration for {', '.join(strange)} under placement.tolerations."
    if all(any(_taint_key(taint) in strange for taint in node.taints) for node in nodes):
        return fail(told, f"No pod of this launch may go where {', '.join(strange)} is set.", add)
    return warn(told, f"Some nodes take no pod of this launch: {', '.join(strange)}.", add)


def _taint_key(taint: str) -> str:
    return taint.partition(":")[0].partition("=")[0]


async def _check_metadata_server(context: CheckContext) -> Verdict:
    path = "/apis/apps/v1/namespaces/kube-system/daemonsets/gke-metadata-server"
    agent = await context.find(path, WorkloadControllerWire)
    if agent is None:
        return fail("There is no DaemonSet gke-metadata-server.", "Pods then act as the node's account.")
    return await _check_agent_ready(
        context, agent, lambda _: True, "Pods on the others have no account of their own yet."
    )


async def _check_agent_ready(
    context: CheckContext, agent: WorkloadControllerWire, wanted: Callable[[Node], bool], lack: str
) -> Verdict:
    """Whether an agent is ready on all nodes that should run it; nodes that are not ready belong to P06."""
    told = f"{agent.name} is ready on {agent.ready} of {agent.wanted} nodes"
    if agent.ready >= agent.wanted:
        return ok(f"{told}.")
    nodes = (await context.wait_for_kinds("nodes")).nodes.values()
    if agent.ready + sum(wanted(node) and not node.ready for node in nodes) >= agent.wanted:
        return ok(f"{told}; the others are not ready themselves.")
    return warn(f"{told}.", lack)


async def _check_metadata_label(context: CheckContext) -> Verdict:
    names = await _list_node_names(context, f"cloud.google.com/gke-accelerator,{_METADATA_LABEL}!=true")
    if not names:
        return ok(f"All GPU nodes carry {_METADATA_LABEL}=true.")
    return fail(f"{_format_names(names)} lack {_METADATA_LABEL}=true.", "Their pool hands out the node's account.")


async def _check_pool_identity(context: CheckContext) -> Verdict:
    cluster = await context.gke()
    if not cluster.workload_pool:
        return fail("Google: the cluster has no workload pool.", "Workload Identity Federation is off.")
    told = f"Google: workload pool {cluster.workload_pool}."
    wrong = [pool.name for pool in _a4_pools(cluster.pools) if pool.workload_metadata != "GKE_METADATA"]
    return fail(told, f"Node pools without GKE_METADATA: {', '.join(wrong)}.") if wrong else ok(told)


check_workload_identity = combined_check(_check_metadata_server, _check_metadata_label, _check_pool_identity)


async def _check_dcgm_in_cluster(context: CheckContext) -> Verdict:
    where = "gke-managed-system"
    agents = (await context.get(f"/apis/apps/v1/namespaces/{where}/daemonsets", WorkloadControllersWire)).items or []
    found = next((each for each in agents if "dcgm" in each.name), None)
    if found is None:
        return warn(f"No DCGM runs in {where}.", "GPU metrics are missing from Google's monitoring; training works.")
    return await _check_agent_ready(context, found, _is_a4, "Metrics of the others are missing.")


async def _check_dcgm_at_google(context: CheckContext) -> Verdict:
    if "dcgm" in (await context.gke()).addons:
        return ok("Google: DCGM metrics are on.")
    return warn("Google: DCGM metrics are off.", "GPU metrics are missing from Google's monitoring; training works.")


check_dcgm = combined_check(_check_dcgm_in_cluster, _check_dcgm_at_google)


async def check_local_ssd(context: CheckContext) -> Verdict:
    need = context.wish.need(bool(context.wish.text("storage.ssd")))
    if need is Need.NO:
        return skip("The launch mounts no local SSD.")
    return combine_verdicts(
        await verdict_of(_check_ssd_in_cluster(context, need)), await verdict_of(_check_ssd_at_google(context, need))
    )


async def _check_ssd_in_cluster(context: CheckContext, need: Need) -> Verdict:
    if not await _list_a4_nodes(context):
        raise NotFound(f"There is no node {MACHINE} to look at.", status=404)
    label = "cloud.google.com/gke-ephemeral-storage-local-ssd"
    names = await _list_node_names(context, f"cloud.google.com/gke-accelerator={GPU_NAME},{label}!=true")
    if not names:
        return ok("All A4 nodes have local SSDs for ephemeral storage.")
    told = f"No local SSD for ephemeral storage on {_format_names(names)}."
    return missing_verdict(need, told, "The folder of the node is missing.")


async def _check_ssd_at_google(context: CheckContext, need: Need) -> Verdict:
    pools = _a4_pools((await context.gke()).pools)
    without = [pool.name for pool in pools if not pool.local_ssds]
    if pools and not without:
        return ok(f"Google: {', '.join(f'{pool.name} {pool.local_ssds} local SSDs' for pool in pools)}.")
    return missing_verdict(
        need, f"Google: no local SSDs in {', '.join(without) or 'any A4 pool'}.", "Nothing can be mounted there."
    )
