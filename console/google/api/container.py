"""GKE's own API; it alone imports google.cloud.container, which takes 0.7 s, so load it in a thread when needed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

from google.cloud import container_v1 as api

from console.errors import ApiDisabled
from console.google.api.calls import GoogleSession, name_of, seconds_of, translate_errors, translate_errors_within
from console.google.clusters import ClusterList, GkeCluster, GkeOperation, GkePool
from console.kube.objects.node import format_maintenance_exclusion, format_maintenance_window

GKE_TIMEOUT = 30.0  # seconds for one call, retries of the library within
MAX_ENTRIES = 10_000  # of a list: a cluster takes half a millisecond
ParsedT = TypeVar("ParsedT")
_ADDON_ENABLED: dict[str, Callable[[api.Cluster], bool]] = {
    "gcsFuse": lambda c: c.addons_config.gcs_fuse_csi_driver_config.enabled,
    "filestore": lambda c: c.addons_config.gcp_filestore_csi_driver_config.enabled,
    "lustre": lambda c: c.addons_config.lustre_csi_driver_config.enabled,
    "lustreLegacyPort": lambda c: c.addons_config.lustre_csi_driver_config.enable_legacy_lustre_port,
    "dcgm": lambda c: "DCGM" in {each.name for each in c.monitoring_config.component_config.enable_components},
    "multiNetworking": lambda c: c.network_config.enable_multi_networking,
    "dataplaneV2": lambda c: c.network_config.datapath_provider == api.DatapathProvider.ADVANCED_DATAPATH,
}


class Gke:
    def __init__(self, session: GoogleSession) -> None:
        self._client = session.client(api.ClusterManagerAsyncClient)

    async def list_clusters(self, project: str) -> ClusterList:
        try:
            async with translate_errors_within(doing := f"list the clusters of {project}", GKE_TIMEOUT):
                answer = await self._client.list_clusters(parent=f"projects/{project}/locations/-", timeout=GKE_TIMEOUT)
            with translate_errors(doing):  # half a millisecond each: thousands of them would hold up the keys
                found = await asyncio.to_thread(_parse_all, answer.clusters, partial(parse_cluster, project))
        except ApiDisabled as error:  # a project of its own: preflight looks only at the cluster's
            enable = f"Enable it: a4 clusters enable {project}"
            raise ApiDisabled(error.message, enable, service=error.service) from error
        return ClusterList(tuple(sorted(found, key=lambda each: each.path)), (), tuple(answer.missing_zones))

    async def read_cluster(self, project: str, location: str, name: str) -> GkeCluster:
        async with translate_errors_within(f"read cluster {name}", GKE_TIMEOUT):
            path = cluster_path(project, location, name)
            return parse_cluster(project, await self._client.get_cluster(name=path, timeout=GKE_TIMEOUT))

    async def list_operations(self, project: str, location: str) -> tuple[GkeOperation, ...]:
        """A location's running and recently ended operations, latest first."""
        async with translate_errors_within(f"list the operations in {location}", GKE_TIMEOUT):
            parent = f"projects/{project}/locations/{location}"
            answer = await self._client.list_operations(parent=parent, timeout=GKE_TIMEOUT)
            found = await asyncio.to_thread(_parse_all, answer.operations, partial(parse_operation, project))
        return tuple(sorted(found, key=lambda operation: -operation.started))

    async def read_operation(self, project: str, location: str, name: str) -> GkeOperation:
        async with translate_errors_within(f"read operation {name}", GKE_TIMEOUT):
            path = f"projects/{project}/locations/{location}/operations/{name}"
            return parse_operation(project, await self._client.get_operation(name=path, timeout=GKE_TIMEOUT))

    async def resize(self, cluster: GkeCluster, pool: str, nodes: int) -> GkeOperation:
        """Set the number of nodes per zone of a node pool; returns the operation."""
        request = api.SetNodePoolSizeRequest(name=pool_path(cluster, pool), node_count=nodes)
        async with translate_errors_within(f"resize node pool {pool}", GKE_TIMEOUT):
            return parse_operation(cluster.project, await self._client.set_node_pool_size(request, timeout=GKE_TIMEOUT))

    async def scale_between(self, cluster: GkeCluster, pool: str, min_nodes: int, most: int) -> GkeOperation:
        """Set the autoscaler's limits of a node pool, over all zones; 0 and 0 disable it. Returns the operation."""
        limits = api.NodePoolAutoscaling(enabled=most > 0, total_min_node_count=min_nodes, total_max_node_count=most)
        request = api.SetNodePoolAutoscalingRequest(name=pool_path(cluster, pool), autoscaling=limits)
        async with translate_errors_within(f"set the limits of node pool {pool}", GKE_TIMEOUT):
            answer = await self._client.set_node_pool_autoscaling(request, timeout=GKE_TIMEOUT)
            return parse_operation(cluster.project, answer)

    async def enable_addon(self, cluster: GkeCluster, addon: str) -> GkeOperation:
        """Enable an add-on by its name in `GkeCluster.addons`; "lustreLegacyPort" enables both of Lustre's."""
        update = api.ClusterUpdate(desired_addons_config=_enabled_addon_config(addon))
        path = cluster_path(cluster.project, cluster.location, cluster.name)
        async with translate_errors_within(f"enable {addon} in cluster {cluster.name}", GKE_TIMEOUT):
            answer = await self._client.update_cluster(name=path, update=update, timeout=GKE_TIMEOUT)
            return parse_operation(cluster.project, answer)


def _parse_all(messages: Sequence[Any], parse: Callable[[Any], ParsedT]) -> list[ParsedT]:
    if len(messages) > MAX_ENTRIES:
        raise ValueError(f"it has more than {MAX_ENTRIES:,} entries")
    return [parse(each) for each in messages]


def cluster_path(project: str, location: str, name: str) -> str:
    return f"projects/{project}/locations/{location}/clusters/{name}"


def pool_path(cluster: GkeCluster, pool: str) -> str:
    return f"{cluster_path(cluster.project, cluster.location, cluster.name)}/nodePools/{pool}"


def _enabled_addon_config(addon: str) -> api.AddonsConfig:
    match addon:
        case "gcsFuse":
            return api.AddonsConfig(gcs_fuse_csi_driver_config=api.GcsFuseCsiDriverConfig(enabled=True))
        case "filestore":
            return api.AddonsConfig(gcp_filestore_csi_driver_config=api.GcpFilestoreCsiDriverConfig(enabled=True))
        case "lustre" | "lustreLegacyPort":
            legacy = addon == "lustreLegacyPort"
            both = api.LustreCsiDriverConfig(enabled=True, enable_legacy_lustre_port=legacy)
            return api.AddonsConfig(lustre_csi_driver_config=both)
    raise ValueError(addon)


def parse_cluster(project: str, message: api.Cluster) -> GkeCluster:
    ends = message.control_plane_endpoints_config
    dns, ip = ends.dns_endpoint_config, ends.ip_endpoints_config
    has_ip_endpoints = "ip_endpoints_config" in ends  # older clusters say it only in their private_cluster_config
    return GkeCluster(
        project=project,
        location=message.location,
        name=message.name,
        status=name_of(message.status),
        message=message.status_message or "; ".join(each.message for each in message.conditions if each.message),
        version=message.current_master_version,
        endpoint=message.endpoint if ip.enabled or not has_ip_endpoints else "",
        private=message.private_cluster_config.enable_private_endpoint
        or (has_ip_endpoints and ip.enabled and not ip.enable_public_endpoint),
        dns_endpoint=dns.endpoint if dns.allow_external_traffic else "",
        authority=message.master_auth.cluster_ca_certificate,
        regional=message.location.count("-") == 1,
        autopilot=message.autopilot.enabled,
        nodes=message.current_node_count,
        network=message.network_config.network or message.network,
        subnetwork=message.network_config.subnetwork or message.subnetwork,
        created=_parse_time(message.create_time),
        workload_pool=message.workload_identity_config.workload_pool,
        addons=frozenset(name for name, is_on in _ADDON_ENABLED.items() if is_on(message)),
        maintenance=_format_maintenance(message.maintenance_policy.window),
        pools=tuple(parse_pool(each) for each in message.node_pools),
    )


def parse_pool(message: api.NodePool) -> GkePool:
    config, limits = message.config, message.autoscaling
    chips = config.accelerators[0] if config.accelerators else api.AcceleratorConfig()
    zones, kinds, affinity = tuple(message.locations), api.ReservationAffinity.Type, config.reservation_affinity
    specific = affinity.consume_reservation_type == kinds.SPECIFIC_RESERVATION
    reservation = ",".join(affinity.values) if specific else ""
    if affinity.consume_reservation_type == kinds.ANY_RESERVATION:
        reservation = "any"
    return GkePool(
        name=message.name,
        status=name_of(message.status),
        message=message.status_message or "; ".join(each.message for each in message.conditions if each.message),
        version=message.version,
        machine_type=config.machine_type,
        accelerator=chips.accelerator_type,
        accelerators=chips.accelerator_count,
        initial_size=message.initial_node_count * max(1, len(zones)),
        zones=zones,
        autoscaling=limits.enabled,
        least=limits.total_min_node_count or limits.min_node_count * len(zones),
        most=limits.total_max_node_count or limits.max_node_count * len(zones),
        spot=config.spot,
        flex_start=config.flex_start,
        queued=message.queued_provisioning.enabled,
        reservation=reservation,
        placement=name_of(message.placement_policy.type_) if message.placement_policy.type_ else "",
        auto_repair=message.management.auto_repair,
        auto_upgrade=message.management.auto_upgrade,
        surge=message.upgrade_settings.max_surge,
        unavailable=message.upgrade_settings.max_unavailable,
        account=config.service_account,
        workload_metadata=name_of(config.workload_metadata_config.mode) if config.workload_metadata_config.mode else "",
        networks=len(message.network_config.additional_node_network_configs),
        local_ssds=config.ephemeral_storage_local_ssd_config.local_ssd_count or config.local_ssd_count,
        groups=tuple(message.instance_group_urls),
        taints=tuple(
            f"{each.key}={each.value}:{name_of(each.effect).title().replace('_', '')}" for each in config.taints
        ),
    )


def parse_operation(project: str, message: api.Operation) -> GkeOperation:
    target = message.target_link.partition("/clusters/")[2]
    cluster, _, pool = target.partition("/nodePools/")
    counted = {each.name: each.int_value for each in message.progress.metrics}
    return GkeOperation(
        name=message.name,
        kind=name_of(message.operation_type),
        status=name_of(message.status),
        project=project,
        location=message.location or message.zone,
        cluster=cluster,
        pool=pool,
        detail=message.detail or message.status_message,
        error=message.error.message or (message.status_message if message.error.code else ""),
        started=_parse_time(message.start_time),
        ended=_parse_time(message.end_time),
        done=counted.get("NODES_DONE"),
        total=counted.get("NODES_TOTAL"),
    )


def _format_maintenance(window: Any) -> str:
    parts = []
    if window.daily_maintenance_window.start_time:
        parts.append(f"daily from {window.daily_maintenance_window.start_time} UTC")
    if window.recurring_window.recurrence:
        inside = window.recurring_window.window
        parts.append(
            format_maintenance_window(
                window.recurring_window.recurrence, seconds_of(inside.start_time), seconds_of(inside.end_time)
            )
        )
    parts += [
        format_maintenance_exclusion(name, seconds_of(each.start_time), seconds_of(each.end_time))
        for name, each in sorted(window.maintenance_exclusions.items())
    ]
    return "; ".join(parts)


def _parse_time(text: str) -> float:
    return datetime.fromisoformat(text).timestamp() if text else 0.0
