"""Checks of the machines (pools, placement, free GPUs, taints) and of the network between them (P04 to P08, P13, P26 to
P29).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from urllib.parse import quote

from console.errors import ConsoleError, NotFound, Refused
from console.google.builds import ImageReference
from console.google.clusters import CloudNat, FirewallRule, GkePool, Reservation, is_port_open
from console.kube.nested_values import get_path as value_at
from console.kube.objects import unwatched_kinds
from console.kube.objects.meta import ObjectSchema
from console.kube.objects.node import Node, Provisioning
from console.kube.watched_kinds import ListSchema
from console.preflight.check import (
    KUBERNETES,
    CheckContext,
    CheckVerdict,
    Needed,
    Result,
    combine_all,
    combine_verdicts,
    combined_check,
    fail,
    missing_verdict,
    ok,
    skip,
    verdict_of,
    warn,
)
from console.scheduling.topology import MACHINE_GPUS

MACHINE_TYPE, ACCELERATOR = "a4-highgpu-8g", "nvidia-b200"
_FLEX_PROVISIONING = (Provisioning.FLEX_START, Provisioning.QUEUED)
_TEMPORARY_TAINTS = (
    "node.kubernetes.io/",
    "cloud.google.com/maintenance-window-started",
    "node.cloudprovider.kubernetes.io/",
)
"""Prefixes of taints that come and go with a machine's state, which check P06 reports."""
_METADATA_LABEL = "iam.gke.io/gke-metadata-server-enabled"


def _is_a4(node: Node) -> bool:
    return node.machine_type.startswith(MACHINE_TYPE) or node.accelerator == ACCELERATOR


def _a4_pools(pools: Sequence[GkePool]) -> list[GkePool]:
    return [pool for pool in pools if pool.machine_type.startswith(MACHINE_TYPE) or pool.accelerator == ACCELERATOR]


async def _list_a4_nodes(context: CheckContext) -> list[Node]:
    return [node for node in (await context.wait_for_kinds("nodes")).nodes.values() if _is_a4(node)]


async def _list_node_names(context: CheckContext, selector: str) -> tuple[str, ...]:
    return await context.list_names("/api/v1/nodes", "nodes", 50, labelSelector=selector)


def _format_names(names: Sequence[str]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


async def check_a4_pool(context: CheckContext) -> CheckVerdict:
    wanted = context.wish.demand.pods
    if not wanted:
        return skip("The recipe asks for no GPU.")
    here = await verdict_of(_check_a4_nodes(context, wanted))
    there = await verdict_of(_check_a4_pool_at_google(context, wanted))
    if here.result is Result.FAIL and there.result is Result.OK:
        words = f"{here.evidence} {there.evidence}"  # an autoscaled pool has its nodes when somebody asks for them
        return warn(words, "Nodes come when the job asks for them.", "Wait for the nodes.")
    return combine_verdicts(here, there)


async def _check_a4_nodes(context: CheckContext, node_count: int) -> CheckVerdict:
    nodes = await _list_a4_nodes(context)
    pools = sorted({node.pool or "no pool" for node in nodes})
    words = (
        f"{len(nodes)} nodes {MACHINE_TYPE} in {_format_names(pools)}; {node_count} wanted."
        if nodes
        else f"No node is {MACHINE_TYPE}."
    )
    return ok(words) if len(nodes) >= node_count else fail(words, f"{node_count} nodes with 8 GPUs are needed.")


async def _check_a4_pool_at_google(context: CheckContext, nodes: int) -> CheckVerdict:
    pools = _a4_pools((await context.gke()).pools)
    if not pools:
        return fail(f"Google: no node pool has {MACHINE_TYPE}.", "The recipes are for A4 machines.")
    can_have = sum(pool.most if pool.autoscaling else pool.initial_size for pool in pools)
    words = f"Google: node pools {_format_names([pool.name for pool in pools])} of up to {can_have} nodes."
    if bad := [pool for pool in pools if pool.status in {"ERROR", "RUNNING_WITH_ERROR", "STOPPING"}]:
        return warn(words, "; ".join(f"{pool.name} is {pool.status} {pool.message}".strip() for pool in bad) + ".")
    return ok(words) if can_have >= nodes else warn(words, f"{nodes} nodes are wanted.", "Raise the pool's limit.")


async def _check_node_topology(context: CheckContext) -> CheckVerdict:
    nodes = await _list_a4_nodes(context)
    if not nodes:
        return warn(f"There is no node {MACHINE_TYPE} to look at.")
    without = sorted(node.name for node in nodes if not (node.block and node.subblock and node.host))
    blocks = {node.block for node in nodes if node.block}
    text = f"{len(nodes) - len(without)} of {len(nodes)} A4 nodes name block, subblock and host ({len(blocks)} blocks)."
    if not without:
        return ok(text)
    reason = f"Without topology labels pods cannot be placed close together: {_format_names(without)}."
    return (fail if context.wish.demand.topology == "required" else warn)(text, reason)


async def _check_reservations(context: CheckContext) -> CheckVerdict:
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
    words = f"Google: {'; '.join(f'{pool.name}: {_provisioning_text(pool)}' for pool in pools)}."
    if any(pool.placement == "COMPACT" for pool in pools):
        return ok(words)
    return warn(words, "No pool takes its machines from a reservation: they may stand apart.")


check_dense_reservation = combined_check(_check_node_topology, _check_reservations)


async def _judge_reservation(context: CheckContext, project: str, pool: str, zone: str, name: str) -> CheckVerdict:
    try:
        found: Reservation = await context.call_google(
            f"compute: reservation {name} in {zone}",
            "compute",
            lambda api, login: api.read_reservation(login, project, zone, name),
        )
    except NotFound:
        words = f"Google: {pool} takes from reservation {name}, which does not exist in {zone}."
        return warn(words, "The pool gets no more machines from it.")
    kind = "dense" if found.is_dense else "not dense"
    words = f"Google: {pool} takes from reservation {found.name} ({kind}, {found.used} of {found.count} machines used)."
    if found.is_dense and found.status in {"READY", ""}:
        return ok(words)
    reason = "Its machines may stand apart." if not found.is_dense else f"The reservation is {found.status}."
    return (fail if context.wish.demand.topology == "required" else warn)(words, reason)


def _provisioning_text(pool: GkePool) -> str:
    return f"reservation {pool.reservation}" if pool.reservation else pool.provisioning or "no reservation"


async def check_free_gpus(context: CheckContext) -> CheckVerdict:
    wanted = context.wish.demand.gpus
    if not wanted:
        return skip("The recipe asks for no GPU.")
    return await combine_all(_check_free_in_cluster(context, wanted), _check_pool_status(context))


async def _check_free_in_cluster(context: CheckContext, gpus: int) -> CheckVerdict:
    fleet = await context.wait_for_kinds("nodes", "pods")
    nodes = [node for node in fleet.nodes.values() if _is_a4(node)]
    ready = [node for node in nodes if node.ready]
    short = sorted(node.name for node in ready if node.gpus < MACHINE_GPUS)
    free = sum(fleet.gpus_free(node) for node in nodes)
    usable = sum(node.gpus for node in nodes if node.takes_pods)
    words = f"{len(ready)} of {len(nodes)} A4 nodes are ready; {free} of {usable} GPUs are free, {gpus} wanted."
    if usable < gpus:
        return fail(words, "The machines that take pods have fewer GPUs than the job wants.", "Repair or add nodes.")
    if short:
        reason = f"Fewer than 8 GPUs are allocatable on {_format_names(short)}."
        return warn(words, reason, "See whether the driver is installed.")
    if free < gpus:
        return warn(words, "The job waits until others end.", "Wait, or take fewer GPUs.")
    if len(ready) < len(nodes) and not context.wish.recipe:
        return warn(words, f"Not ready: {_format_names(sorted(node.name for node in nodes if not node.ready))}.")
    return ok(words)


async def _check_pool_status(context: CheckContext) -> CheckVerdict:
    pools = _a4_pools((await context.gke()).pools)
    words = "Google: " + ", ".join(f"{pool.name} {pool.status}" for pool in pools) + "."
    if any(pool.status not in {"RUNNING", "RECONCILING"} for pool in pools):
        return warn(words, "; ".join(pool.message for pool in pools if pool.message) or "A node pool has a problem.")
    return ok(words) if pools else warn("Google: there is no A4 node pool.")


async def check_taints(context: CheckContext) -> CheckVerdict:
    """Check that the launch tolerates the taints of nodes, and of pools without nodes at present."""
    flex, nodes = context.wish.flag("placement.flexStart"), await _list_a4_nodes(context)
    taints = [node.taints for node in nodes if not flex or node.provisioning in _FLEX_PROVISIONING]
    with suppress(ConsoleError):  # without Google the nodes that exist are judged
        there = {node.pool for node in nodes}
        empty = [pool for pool in _a4_pools((await context.gke()).pools) if pool.name not in there]
        taints += [pool.taints for pool in empty if (pool.flex_start or pool.queued) is flex]
    mine = context.wish.demand.tolerations
    keeping = {taint for each in taints for taint in each if taint.endswith(("NoSchedule", "NoExecute"))}
    refused = {
        taint
        for taint in keeping
        if not taint.startswith(_TEMPORARY_TAINTS) and not any(each.tolerates(taint) for each in mine)
    }
    tolerated = ", ".join(sorted(each.key or "every taint" for each in mine))
    words = f"Taints of the A4 nodes: {_taint_keys(keeping) or 'none'}; pods tolerate {tolerated}."
    if not refused:
        return ok(words)
    strange = _taint_keys(refused)
    add = f"Add a toleration for {strange} under placement.tolerations."
    if taints and all(refused & {*each} for each in taints):
        return fail(words, f"No pod of this launch may go where {strange} is set.", add)
    return warn(words, f"Some nodes take no pod of this launch: {strange}.", add)


def _taint_keys(taints: Iterable[str]) -> str:
    return ", ".join(sorted({taint.partition(":")[0].partition("=")[0] for taint in taints}))


async def _check_metadata_server(context: CheckContext) -> CheckVerdict:
    path = "/apis/apps/v1/namespaces/kube-system/daemonsets/gke-metadata-server"
    agent = await context.find(path, unwatched_kinds.WorkloadControllerSchema)
    if agent is None:
        return fail("There is no DaemonSet gke-metadata-server.", "Pods then act as the node's account.")
    return await _check_agent_ready(
        context, agent, lambda _: True, "Pods on the others have no account of their own yet."
    )


async def _check_agent_ready(
    context: CheckContext, agent: unwatched_kinds.WorkloadControllerSchema, is_wanted: Callable[[Node], bool], lack: str
) -> CheckVerdict:
    """Whether an agent is ready on all nodes that need it; nodes that are not ready fail another check."""
    words = f"{agent.name} is ready on {agent.ready} of {agent.wanted} nodes"
    if agent.ready >= agent.wanted:
        return ok(f"{words}.")
    nodes = (await context.wait_for_kinds("nodes")).nodes.values()
    if agent.ready + sum(is_wanted(node) and not node.ready for node in nodes) >= agent.wanted:
        return ok(f"{words}; the others are not ready themselves.")
    return warn(f"{words}.", lack)


async def _check_metadata_label(context: CheckContext) -> CheckVerdict:
    names = await _list_node_names(context, f"cloud.google.com/gke-accelerator,{_METADATA_LABEL}!=true")
    if not names:
        return ok(f"All GPU nodes carry {_METADATA_LABEL}=true.")
    return fail(f"{_format_names(names)} lack {_METADATA_LABEL}=true.", "Their pool hands out the node's account.")


async def _check_pool_identity(context: CheckContext) -> CheckVerdict:
    cluster = await context.gke()
    if not cluster.workload_pool:
        return fail("Google: the cluster has no workload pool.", "Workload Identity Federation is off.")
    words = f"Google: workload pool {cluster.workload_pool}."
    wrong = [pool.name for pool in _a4_pools(cluster.pools) if pool.workload_metadata != "GKE_METADATA"]
    return fail(words, f"Node pools without GKE_METADATA: {', '.join(wrong)}.") if wrong else ok(words)


check_workload_identity = combined_check(_check_metadata_server, _check_metadata_label, _check_pool_identity)


async def _check_dcgm_in_cluster(context: CheckContext) -> CheckVerdict:
    where = "gke-managed-system"
    agents = (
        await context.get(
            f"/apis/apps/v1/namespaces/{where}/daemonsets", ListSchema[unwatched_kinds.WorkloadControllerSchema]
        )
    ).items or []
    found = next((each for each in agents if "dcgm" in each.name), None)
    if found is None:
        return warn(f"No DCGM runs in {where}.", "GPU metrics are missing from Google's monitoring; training works.")
    return await _check_agent_ready(context, found, _is_a4, "Metrics of the others are missing.")


async def _check_dcgm_at_google(context: CheckContext) -> CheckVerdict:
    if "dcgm" in (await context.gke()).addons:
        return ok("Google: DCGM metrics are on.")
    return warn("Google: DCGM metrics are off.", "GPU metrics are missing from Google's monitoring; training works.")


check_dcgm = combined_check(_check_dcgm_in_cluster, _check_dcgm_at_google)


async def check_local_ssd(context: CheckContext) -> CheckVerdict:
    needed = context.wish.needed(bool(context.wish.text("storage.ssd")))
    if needed is Needed.NO:
        return skip("The launch mounts no local SSD.")
    return await combine_all(_check_ssd_in_cluster(context, needed), _check_ssd_at_google(context, needed))


async def _check_ssd_in_cluster(context: CheckContext, needed: Needed) -> CheckVerdict:
    if not await _list_a4_nodes(context):
        raise NotFound(f"There is no node {MACHINE_TYPE} to look at.", status=404)
    label = "cloud.google.com/gke-ephemeral-storage-local-ssd"
    names = await _list_node_names(context, f"cloud.google.com/gke-accelerator={ACCELERATOR},{label}!=true")
    if not names:
        return ok("All A4 nodes have local SSDs for ephemeral storage.")
    words = f"No local SSD for ephemeral storage on {_format_names(names)}."
    return missing_verdict(needed, words, "The folder of the node is missing.")


async def _check_ssd_at_google(context: CheckContext, needed: Needed) -> CheckVerdict:
    pools = _a4_pools((await context.gke()).pools)
    without = [pool.name for pool in pools if not pool.local_ssds]
    if pools and not without:
        return ok(f"Google: {', '.join(f'{pool.name} {pool.local_ssds} local SSDs' for pool in pools)}.")
    return missing_verdict(
        needed, f"Google: no local SSDs in {', '.join(without) or 'any A4 pool'}.", "Nothing can be mounted there."
    )


DEFAULT_NETWORKS = ("default", *(f"rdma-{index}" for index in range(8)))  # of an A4 pod's interfaces, unless named
_POD_RANGES = ("0.0.0.0/0", "10.0.0.0/8")  # ranges of addresses that hold those of every pod
_NAMESPACE_LABEL = "kubernetes.io/metadata.name"  # the label by which a namespace is named
_PULLED_IMAGE = "Successfully pulled image "
_MAX_LOGS_READ, _LOG_LINES = 3, "400"
_NO_INTERNET = re.compile(
    r"Could not resolve host|Temporary failure in name resolution|Temporary failure resolving|Network is unreachable"
    r"|Failed to connect to \S+ port|Max retries exceeded with url|Connection timed out|Connection refused.*https?://"
)
_REACHED_INTERNET = re.compile(
    r"^Get:\d+ https?://|^Successfully installed |^Cloning into |Receiving objects: 100%|^Fetched .* in "
)
_CHART_LABELS = frozenset(
    {"jobset.sigs.k8s.io/jobset-name", "app.kubernetes.io/name", "a4.console/recipe"}
)  # on all pods


async def _check_egress_in_logs(context: CheckContext) -> CheckVerdict:
    """Check egress by connection tests in recent logs of the namespace's pods. Raises NotFound if no log has one."""
    every = (await context.wait_for_kinds("pods")).pods.values()
    mine = (each for each in every if each.namespace == context.wish.namespace and each.jobset)
    pods = [each for each in mine if each.phase != "Pending"]
    for pod in sorted(pods, key=lambda each: -each.created)[:_MAX_LOGS_READ]:
        where = f"/api/v1/namespaces/{quote(pod.namespace, safe='')}/pods/{quote(pod.name, safe='')}/log"

        async def question(where: str = where) -> str:
            params = {"tailLines": _LOG_LINES, "container": "workload"}
            body = await context.cluster.watch.current_connection.client.request(
                "GET", where, params=params, action="read a pod's log"
            )
            return body.decode(errors="replace")

        try:
            text = await context.send_request(KUBERNETES, f"log of {pod.name}, last {_LOG_LINES} lines", question)
        except Refused:
            continue  # its container is another one, or prints nothing yet
        if lost := [line.strip() for line in text.splitlines() if _NO_INTERNET.search(line)]:
            reason = "Egress is blocked, or the other side is down."
            return warn(f"Pod {pod.name} recently printed: {lost[-1][:160]}", reason)
        if come := [line.strip() for line in text.splitlines() if _REACHED_INTERNET.search(line)]:
            return ok(f"Pod {pod.name} recently reached the internet: {come[-1][:100]}")
    raise NotFound("No pod log shows a connection to the internet.", status=404)


async def _check_external_pulls(context: CheckContext) -> CheckVerdict:
    """Check egress by images that nodes pulled from outside Google. Raises NotFound if no event shows a pull."""
    fleet = await context.wait_for_kinds("events")
    for event in fleet.events.values():
        text = event.message
        if event.reason == "Pulled" and text.startswith(_PULLED_IMAGE):
            image = text.removeprefix(_PULLED_IMAGE).split()[0].strip('"')
            if not ImageReference.of(image).google:
                return ok(f"A node recently pulled {image}, from outside Google.")
    raise NotFound("No node recently pulled an image from outside Google.", status=404)


async def _check_nat(context: CheckContext) -> CheckVerdict:
    cluster = await context.gke()
    region = cluster.location if cluster.regional else cluster.location.rpartition("-")[0]
    network, subnet = (each.rpartition("/")[2] for each in (cluster.network, cluster.subnetwork))
    found: tuple[CloudNat, ...] = await context.call_google(
        f"compute: Cloud NATs in {region}", "compute", lambda api, login: api.list_nats(login, cluster.project, region)
    )
    mine = [each for each in found if each.network == network and (not each.subnets or subnet in each.subnets)]
    if mine:
        return ok(f"Google: Cloud NAT {mine[0].name} serves subnet {subnet}.")
    reason = "Nodes without an address of their own cannot reach pip, git, model hubs or the data sets."
    return warn(f"Google: no Cloud NAT serves subnet {subnet} of {network}.", reason)


check_egress = combined_check(_check_external_pulls, _check_egress_in_logs, _check_nat)


async def check_interfaces(context: CheckContext) -> CheckVerdict:
    host = context.wish.flag("network.hostNetwork")
    claims = context.wish.flag("network.dranet")
    asked = claims or context.wish.flag("network.interfaces")
    needed = context.wish.needed(not host and asked and context.wish.demand.gpus >= 8)
    if needed is Needed.NO:
        return skip("The pods take the host's network." if host else "No interface is asked for.")
    if claims:
        return await _check_dranet(context, needed)
    found = await combine_all(_check_networks_in_cluster(context, needed), _check_networks_at_google(context, needed))
    if found.result in {Result.FAIL, Result.WARN}:
        other = await verdict_of(_check_dranet(context, needed))
        if other.result is Result.OK:
            fix = "Launch with network.dranet=true: these nodes have managed DRANET in place of Network objects."
            return replace(found, evidence=f"{found.evidence} {other.evidence}", fix=fix)
    return found


RDMA_DEVICE_CLASS = "mrdma.google.com"  # the DeviceClass of the RDMA cards where GKE's managed DRANET is
_DRANET_LABEL = "cloud.google.com/gke-networking-dra-driver"


async def _check_dranet(context: CheckContext, needed: Needed) -> CheckVerdict:
    """Whether network cards can be claimed: the DeviceClass exists, and nodes have the driver."""
    fix = "Take a node pool with managed DRANET, or launch with network.dranet=false."
    if await context.find(f"/apis/resource.k8s.io/v1/deviceclasses/{RDMA_DEVICE_CLASS}", ObjectSchema) is None:
        evidence = f"There is no DeviceClass {RDMA_DEVICE_CLASS}."
        return missing_verdict(needed, evidence, "GKE makes it from version 1.34.1-gke.1829001.", fix)
    names = await _list_node_names(context, f"{_DRANET_LABEL}=true,cloud.google.com/gke-accelerator={ACCELERATOR}")
    evidence = f"DeviceClass {RDMA_DEVICE_CLASS} is there; {len(names)} A4 nodes have managed DRANET."
    if names:
        return ok(evidence)
    if not await _list_a4_nodes(context):
        return warn(evidence, "No A4 node is there to look at.", fix)
    reason = f"No A4 node has the label {_DRANET_LABEL}=true: no card can be claimed."
    return missing_verdict(needed, evidence, reason, fix)


async def _check_networks_in_cluster(context: CheckContext, needed: Needed) -> CheckVerdict:
    found = await context.find("/apis/networking.gke.io/v1/networks", ListSchema[ObjectSchema])
    if found is None:
        words = "The cluster does not serve networks.networking.gke.io."
        return missing_verdict(needed, words, "Multi-networking is off.")
    there = {each.metadata.name for each in found.items or ()}
    wanted = _required_networks(context)
    missing = [each for each in wanted if each not in there]
    words = f"{len(wanted) - len(missing)} of the {len(wanted)} Network objects are there."
    return missing_verdict(needed, words, f"Missing: {', '.join(missing)}.") if missing else ok(words)


def _required_networks(context: CheckContext) -> tuple[str, ...]:
    named = value_at(context.wish.values, "network.subnetworks")
    return tuple(map(str, named)) if isinstance(named, list | tuple) and named else DEFAULT_NETWORKS


async def _check_networks_at_google(context: CheckContext, needed: Needed) -> CheckVerdict:
    cluster = await context.gke()
    off = [
        words
        for key, words in (("multiNetworking", "multi-networking"), ("dataplaneV2", "Dataplane V2"))
        if key not in cluster.addons
    ]
    pools = [pool for pool in cluster.pools if pool.machine_type.startswith("a4-")]
    wanted = len(_required_networks(context)) - 1
    few = [f"{pool.name} has {pool.networks}" for pool in pools if pool.networks < wanted]
    if off:
        return missing_verdict(needed, f"Google: {' and '.join(off)} off.", "Only a new cluster can have it on.")
    counted = ", ".join(f"{pool.name} has {pool.networks} networks more" for pool in pools)
    text = f"Google: multi-networking and Dataplane V2 are on; {counted or 'there is no A4 pool'}."
    if few:
        return missing_verdict(needed, text, f"{wanted} networks beside the default one are needed: {', '.join(few)}.")
    return ok(text)


async def check_network_policies(context: CheckContext) -> CheckVerdict:
    if context.wish.flag("network.hostNetwork"):
        shared = ok("The pods share the host's network, to which NetworkPolicies do not apply.")
        return combine_verdicts(await verdict_of(_check_firewall(context)), shared, all_required=True)
    namespace, ports = context.wish.namespace, context.wish.ports
    path = f"/apis/networking.k8s.io/v1/namespaces/{quote(namespace, safe='')}/networkpolicies"
    found = (await context.get(path, ListSchema[unwatched_kinds.NetworkPolicySchema])).items or []
    words = " and ".join(map(str, ports))
    about = [each for each in found if _selects_launch(each)]
    if not about:
        return ok(f"No NetworkPolicy of {namespace} is about the pods of a launch: ports {words} are open.")
    names = ", ".join(each.metadata.name or "" for each in about)
    ways = {way: [str(port) for port in ports if not _is_port_open(about, port, way)] for way in ("into", "out of")}
    shut = [f"{way} the pods on {' and '.join(closed)}" for way, closed in ways.items() if closed]
    text = f"NetworkPolicies of {namespace} about its pods: {names}."
    if not shut:
        return ok(f"{text} Ports {words} are open between pods of the namespace.")
    return fail(text, f"They block traffic {', '.join(shut)}: pods cannot meet.")


def _selects_launch(policy: unwatched_kinds.NetworkPolicySchema) -> bool:
    """Whether a policy selects the pods of a launch; an unclear selector counts as yes."""
    selector = policy.spec.pod_selector if policy.spec else None
    labels = (selector.match_labels if selector else None) or {}
    expressions = (selector.match_expressions if selector else None) or []
    return not labels or bool(expressions) or any(key in _CHART_LABELS for key in labels)


def _is_port_open(policies: list[unwatched_kinds.NetworkPolicySchema], port: int, way: str) -> bool:
    """Whether a port is open between pods of the namespace; policies are additive."""
    kind = "Ingress" if way == "into" else "Egress"
    about = [each.spec for each in policies if each.spec and kind in (each.spec.policy_types or ["Ingress"])]
    if not about:
        return True
    rules = [rule for spec in about for rule in (spec.ingress if kind == "Ingress" else spec.egress) or ()]
    return any(_allows_port(rule, port, kind, policies[0].metadata.namespace or "") for rule in rules)


def _allows_port(rule: unwatched_kinds.PolicyRuleSchema, port: int, kind: str, namespace: str) -> bool:
    peers = rule.from_ if kind == "Ingress" else rule.to
    if peers and not any(_includes_namespace(each, namespace) for each in peers):
        return False
    tcp = [each for each in rule.ports or () if (each.protocol or "TCP") == "TCP"]
    return not rule.ports or any(
        each.port is None or (isinstance(each.port, int) and each.port <= port <= (each.end_port or each.port))
        for each in tcp
    )


def _includes_namespace(peer: unwatched_kinds.PolicyPeerSchema, namespace: str) -> bool:
    if peer.ip_block is not None:
        return peer.ip_block.get("cidr") in _POD_RANGES and not peer.ip_block.get("except")
    spaces = peer.namespace_selector
    named = (spaces.match_labels if spaces else None) or {}
    here = all(key == _NAMESPACE_LABEL and value == namespace for key, value in named.items())
    pods = peer.pod_selector
    ours = all(key in _CHART_LABELS for key in (pods.match_labels if pods else None) or {})
    return here and ours


async def _check_firewall(context: CheckContext) -> CheckVerdict:
    cluster = await context.gke()
    network = cluster.network.rpartition("/")[2]
    what = f"compute: firewall rules of {network}"
    rules: tuple[FirewallRule, ...] = await context.call_google(
        what, "compute", lambda api, login: api.list_firewalls(login, cluster.project, network)
    )
    shut = [str(port) for port in context.wish.ports if not is_port_open(rules, port)]
    words = f"Google: {len(rules)} firewall rules of network {network}."
    if not shut:
        return ok(f"{words} TCP {', '.join(map(str, context.wish.ports))} are open inside it.")
    reason = f"None opens TCP {', '.join(shut)} for private addresses."
    return warn(words, reason, "Pods share the host's network: open them.")
