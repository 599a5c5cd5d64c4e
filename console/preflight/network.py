"""Checks of the network: egress, the networks of an A4, policies and firewalls (P26 to P28)."""

from __future__ import annotations

import re
from urllib.parse import quote

from console.errors import NotFound, Refused
from console.google.builds import ImageReference
from console.google.clusters import Firewall, Nat, is_port_open
from console.kube.nested_values import get_path as value_at
from console.kube.objects.on_demand import NamesWire, PeerWire, PoliciesWire, PolicyWire, RuleWire
from console.preflight.check import (
    Need,
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
from console.preflight.context import KUBERNETES, CheckContext

NETWORKS = ("default", *(f"rdma-{index}" for index in range(8)))  # of an A4 pod's interfaces, unless named
_ALL_PODS = ("0.0.0.0/0", "10.0.0.0/8")  # ranges of addresses that hold those of every pod
_ADDRESS_SPACE = "kubernetes.io/metadata.name"  # the label by which a namespace is named
_PULLED_IMAGE = "Successfully pulled image "
_PODS_READ, _LINES = 3, "400"
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


async def _check_egress_in_logs(context: CheckContext) -> Verdict:
    """Egress, judged by connection tests that pods of the namespace recently printed."""
    pods = [
        each
        for each in (await context.wait_for_kinds("pods")).pods.values()
        if each.namespace == context.wish.namespace and each.jobset and each.phase != "Pending"
    ]
    for pod in sorted(pods, key=lambda each: -each.created)[:_PODS_READ]:
        where = f"/api/v1/namespaces/{quote(pod.namespace, safe='')}/pods/{quote(pod.name, safe='')}/log"

        async def question(where: str = where) -> str:
            params = {"tailLines": _LINES, "container": "workload"}
            body = await context.cluster.watch.current_connection.client.request(
                "GET", where, params=params, doing="read a pod's log"
            )
            return body.decode(errors="replace")

        try:
            text = await context.send_request(KUBERNETES, f"log of {pod.name}, last {_LINES} lines", question)
        except Refused:
            continue  # its container is another one, or prints nothing yet
        if lost := [line.strip() for line in text.splitlines() if _NO_INTERNET.search(line)]:
            reason = "Egress is blocked, or the other side is down."
            return warn(f"Pod {pod.name} recently printed: {lost[-1][:160]}", reason)
        if come := [line.strip() for line in text.splitlines() if _REACHED_INTERNET.search(line)]:
            return ok(f"Pod {pod.name} recently reached the internet: {come[-1][:100]}")
    raise NotFound("No pod log shows a connection to the internet.", status=404)


async def _check_external_pulls(context: CheckContext) -> Verdict:
    """Egress, judged by a pulled image from a registry outside Google."""
    fleet = await context.wait_for_kinds("events")
    for event in fleet.events.values():
        text = event.message
        if event.reason == "Pulled" and text.startswith(_PULLED_IMAGE):
            image = text.removeprefix(_PULLED_IMAGE).split()[0].strip('"')
            if not ImageReference.of(image).google:
                return ok(f"A node recently pulled {image}, from outside Google.")
    raise NotFound("No node recently pulled an image from outside Google.", status=404)


async def _check_nat(context: CheckContext) -> Verdict:
    cluster = await context.gke()
    region = cluster.location if cluster.regional else cluster.location.rpartition("-")[0]
    network, subnet = (each.rpartition("/")[2] for each in (cluster.network, cluster.subnetwork))
    found: tuple[Nat, ...] = await context.call_google(
        f"compute: Cloud NATs in {region}", "compute", lambda api, login: api.list_nats(login, cluster.project, region)
    )
    mine = [each for each in found if each.network == network and (not each.subnets or subnet in each.subnets)]
    if mine:
        return ok(f"Google: Cloud NAT {mine[0].name} serves subnet {subnet}.")
    reason = "Nodes without an address of their own cannot reach pip, git, model hubs or the data sets."
    return warn(f"Google: no Cloud NAT serves subnet {subnet} of {network}.", reason)


check_egress = combined_check(_check_external_pulls, _check_egress_in_logs, _check_nat)


async def check_interfaces(context: CheckContext) -> Verdict:
    host = context.wish.flag("network.hostNetwork")
    need = context.wish.need(not host and context.wish.flag("network.interfaces") and context.wish.demand.gpus >= 8)
    if need is Need.NO:
        return skip("The pods take the host's network." if host else "No interface is asked for.")
    return combine_verdicts(
        await verdict_of(_check_networks_in_cluster(context, need)),
        await verdict_of(_check_networks_at_google(context, need)),
    )


async def _check_networks_in_cluster(context: CheckContext, need: Need) -> Verdict:
    found = await context.find("/apis/networking.gke.io/v1/networks", NamesWire)
    if found is None:
        told = "The cluster does not serve networks.networking.gke.io."
        return missing_verdict(need, told, "Multi-networking is off.")
    there = {each.metadata.name for each in found.items or ()}
    wanted = _required_networks(context)
    missing = [each for each in wanted if each not in there]
    told = f"{len(wanted) - len(missing)} of the {len(wanted)} Network objects are there."
    return missing_verdict(need, told, f"Missing: {', '.join(missing)}.") if missing else ok(told)


def _required_networks(context: CheckContext) -> tuple[str, ...]:
    named = value_at(context.wish.values, "network.subnetworks")
    return tuple(map(str, named)) if isinstance(named, list | tuple) and named else NETWORKS


async def _check_networks_at_google(context: CheckContext, need: Need) -> Verdict:
    cluster = await context.gke()
    off = [words for key, words in (("multiNetworking", "multi-networking"), ("dataplaneV2", "Dataplane V2"))
           if key not in cluster.addons]  # fmt: skip
    pools = [pool for pool in cluster.pools if pool.machine_type.startswith("a4-")]
    wanted = len(_required_networks(context)) - 1
    few = [f"{pool.name} has {pool.networks}" for pool in pools if pool.networks < wanted]
    if off:
        return missing_verdict(need, f"Google: {' and '.join(off)} off.", "Only a new cluster can have it on.")
    counted = ", ".join(f"{pool.name} has {pool.networks} networks more" for pool in pools)
    told = f"Google: multi-networking and Dataplane V2 are on; {counted or 'there is no A4 pool'}."
    if few:
        return missing_verdict(need, told, f"{wanted} networks beside the default one are needed: {', '.join(few)}.")
    return ok(told)


async def check_network_policies(context: CheckContext) -> Verdict:
    if context.wish.flag("network.hostNetwork"):
        shared = ok("The pods share the host's network, to which NetworkPolicies do not apply.")
        return combine_verdicts(await verdict_of(_check_firewall(context)), shared, all_required=True)
    namespace, ports = context.wish.namespace, context.wish.ports
    path = f"/apis/networking.k8s.io/v1/namespaces/{quote(namespace, safe='')}/networkpolicies"
    found = (await context.get(path, PoliciesWire)).items or []
    words = " and ".join(map(str, ports))
    about = [each for each in found if _selects_launch(each)]
    if not about:
        return ok(f"No NetworkPolicy of {namespace} is about the pods of a launch: ports {words} are open.")
    names = ", ".join(each.metadata.name or "" for each in about)
    ways = {way: [str(port) for port in ports if not _is_port_open(about, port, way)] for way in ("into", "out of")}
    shut = [f"{way} the pods on {' and '.join(closed)}" for way, closed in ways.items() if closed]
    told = f"NetworkPolicies of {namespace} about its pods: {names}."
    if not shut:
        return ok(f"{told} Ports {words} are open between pods of the namespace.")
    return fail(told, f"They block traffic {', '.join(shut)}: pods cannot meet.")


def _selects_launch(policy: PolicyWire) -> bool:
    """Whether a policy selects the pods of a launch; an unclear selector counts as yes."""
    selector = policy.spec.pod_selector if policy.spec else None
    labels = (selector.match_labels if selector else None) or {}
    expressions = (selector.match_expressions if selector else None) or []
    return not labels or bool(expressions) or any(key in _CHART_LABELS for key in labels)


def _is_port_open(policies: list[PolicyWire], port: int, way: str) -> bool:
    """Whether a port is open between pods of the namespace; policies are additive."""
    kind = "Ingress" if way == "into" else "Egress"
    about = [each.spec for each in policies if each.spec and kind in (each.spec.policy_types or ["Ingress"])]
    if not about:
        return True
    rules = [rule for spec in about for rule in (spec.ingress if kind == "Ingress" else spec.egress) or ()]
    return any(_allows_port(rule, port, kind, policies[0].metadata.namespace or "") for rule in rules)


def _allows_port(rule: RuleWire, port: int, kind: str, namespace: str) -> bool:
    peers = rule.from_ if kind == "Ingress" else rule.to
    if peers and not any(_includes_namespace(each, namespace) for each in peers):
        return False
    tcp = [each for each in rule.ports or () if (each.protocol or "TCP") == "TCP"]
    return not rule.ports or any(
        each.port is None or (isinstance(each.port, int) and each.port <= port <= (each.end_port or each.port))
        for each in tcp
    )


def _includes_namespace(peer: PeerWire, namespace: str) -> bool:
    """Whether the peer includes the launch's pods in that namespace."""
    if peer.ip_block is not None:
        return peer.ip_block.get("cidr") in _ALL_PODS and not peer.ip_block.get("except")
    spaces = peer.namespace_selector
    named = (spaces.match_labels if spaces else None) or {}
    here = all(key == _ADDRESS_SPACE and value == namespace for key, value in named.items())
    pods = peer.pod_selector
    ours = all(key in _CHART_LABELS for key in (pods.match_labels if pods else None) or {})
    return here and ours


async def _check_firewall(context: CheckContext) -> Verdict:
    cluster = await context.gke()
    network = cluster.network.rpartition("/")[2]
    what = f"compute: firewall rules of {network}"
    rules: tuple[Firewall, ...] = await context.call_google(
        what, "compute", lambda api, login: api.list_firewalls(login, cluster.project, network)
    )
    shut = [str(port) for port in context.wish.ports if not is_port_open(rules, port)]
    told = f"Google: {len(rules)} firewall rules of network {network}."
    if not shut:
        return ok(f"{told} TCP {', '.join(map(str, context.wish.ports))} are open inside it.")
    reason = f"None opens TCP {', '.join(shut)} for private addresses."
    return warn(told, reason, "Pods share the host's network: open them.")
