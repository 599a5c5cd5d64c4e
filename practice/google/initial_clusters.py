"""The initial clusters and node pools of the Google imitation."""

from __future__ import annotations

import base64

from google.cloud import container_v1 as api

from practice.api.discovery import VERSION as SERVER_VERSION
from practice.clock import format_timestamp
from practice.controllers.machines import nodes_of
from practice.google.cloud import CLUSTER, PROJECT, REGION, SHARED, ZONE, PracticeGoogle
from practice.objects.resources import NODES
from practice.scene.machines import FLEX_POOL, RESERVED_POOL, SPOT_POOL, SYSTEM_POOL, VERSION as NODE_VERSION

VERSION = NODE_VERSION.removeprefix("v")
MASTER = SERVER_VERSION["gitVersion"].removeprefix("v")
_DAY = 86400.0
_B200 = api.AcceleratorConfig(accelerator_type="nvidia-b200", accelerator_count=8)
_GPU_TAINT = api.NodeTaint(key="nvidia.com/gpu", value="present", effect=api.NodeTaint.Effect.NO_SCHEDULE)
_QUEUED_TAINT = api.NodeTaint(key="cloud.google.com/gke-queued", value="true", effect=api.NodeTaint.Effect.NO_SCHEDULE)


def all_clusters(google: PracticeGoogle) -> dict[tuple[str, str, str], api.Cluster]:
    """The clusters by (project, location, name)."""
    found = [
        (PROJECT, _practice_cluster(google)),
        (SHARED, _private_cluster(google)),
        (SHARED, _broken_cluster(google)),
    ]
    return {(project, each.location, each.name): each for project, each in found}


def _practice_cluster(google: PracticeGoogle) -> api.Cluster:
    address = google.server.removeprefix("https://")
    return api.Cluster(
        **_common_fields(CLUSTER, REGION, google.opening - 41 * _DAY),
        status=api.Cluster.Status.RUNNING,
        endpoint=address,
        current_node_count=len(google.storage.list(NODES)),
        master_auth=api.MasterAuth(cluster_ca_certificate=base64.b64encode(google.authority).decode()),
        network="practice-net",
        subnetwork="practice-sub",
        network_config=api.NetworkConfig(
            network=f"projects/{PROJECT}/global/networks/practice-net",
            subnetwork=f"projects/{PROJECT}/regions/{REGION}/subnetworks/practice-sub",
            enable_multi_networking=True,
            datapath_provider=api.DatapathProvider.ADVANCED_DATAPATH,
        ),
        workload_identity_config=api.WorkloadIdentityConfig(workload_pool=f"{PROJECT}.svc.id.goog"),
        addons_config=api.AddonsConfig(
            gcs_fuse_csi_driver_config=api.GcsFuseCsiDriverConfig(enabled=True),
            gcp_filestore_csi_driver_config=api.GcpFilestoreCsiDriverConfig(enabled=False),
            lustre_csi_driver_config=api.LustreCsiDriverConfig(enabled=True),
        ),
        monitoring_config=api.MonitoringConfig(
            component_config=api.MonitoringComponentConfig(
                enable_components=[
                    api.MonitoringComponentConfig.Component.SYSTEM_COMPONENTS,
                    api.MonitoringComponentConfig.Component.DCGM,
                ]
            )
        ),
        maintenance_policy=_maintenance_policy(google.opening),
        node_pools=[_reserved_pool(google), _spot_pool(google), _flex_pool(), _system_pool(google)],
    )


def _common_fields(name: str, location: str, created: float) -> dict[str, object]:
    return {
        "name": name,
        "location": location,
        "create_time": format_timestamp(created),
        "current_master_version": MASTER,
        "release_channel": api.ReleaseChannel(channel=api.ReleaseChannel.Channel.REGULAR),
        "self_link": f"https://container.googleapis.com/v1/projects/-/locations/{location}/clusters/{name}",
    }


def _maintenance_policy(opening_time: float) -> api.MaintenancePolicy:
    midnight = opening_time - opening_time % _DAY
    weekend = api.RecurringTimeWindow(
        window=api.TimeWindow(
            start_time=format_timestamp(midnight + 2 * 3600), end_time=format_timestamp(midnight + 8 * 3600)
        ),
        recurrence="FREQ=WEEKLY;BYDAY=SA,SU",
    )
    frozen = api.TimeWindow(
        start_time=format_timestamp(opening_time + 5 * _DAY),
        end_time=format_timestamp(opening_time + 12 * _DAY),
        maintenance_exclusion_options=api.MaintenanceExclusionOptions(
            scope=api.MaintenanceExclusionOptions.Scope.NO_MINOR_OR_NODE_UPGRADES
        ),
    )
    return api.MaintenancePolicy(
        window=api.MaintenanceWindow(recurring_window=weekend, maintenance_exclusions={"big-run": frozen})
    )


def new_pool(name: str, machine: str, size: int, **fields: object) -> api.NodePool:
    """A node pool in one zone; `fields` are further fields of the message."""
    config = fields.pop("config", None) or api.NodeConfig()
    assert isinstance(config, api.NodeConfig)
    config.machine_type = machine
    config.workload_metadata_config = api.WorkloadMetadataConfig(mode=api.WorkloadMetadataConfig.Mode.GKE_METADATA)
    group = f"https://www.googleapis.com/compute/v1/projects/{PROJECT}/zones/{ZONE}/instanceGroupManagers"
    return api.NodePool(
        name=name,
        config=config,
        initial_node_count=size,
        locations=[ZONE],
        version=VERSION,
        status=api.NodePool.Status.RUNNING,
        instance_group_urls=[f"{group}/gke-{CLUSTER}-{name}-grp"],
        upgrade_settings=api.NodePool.UpgradeSettings(max_surge=0, max_unavailable=1),
        **fields,
    )


def _network_config() -> api.NodeNetworkConfig:
    names = ["gvnic-1", *(f"rdma-{at}" for at in range(8))]
    return api.NodeNetworkConfig(
        additional_node_network_configs=[
            api.AdditionalNodeNetworkConfig(network=f"practice-{name}", subnetwork=f"practice-{name}-sub")
            for name in names
        ]
    )


def _a4_node_config(reservation: str = "", **more: object) -> api.NodeConfig:
    kinds = api.ReservationAffinity.Type
    key = "compute.googleapis.com/reservation-name"
    affinity = (
        api.ReservationAffinity(consume_reservation_type=kinds.SPECIFIC_RESERVATION, key=key, values=[reservation])
        if reservation
        else api.ReservationAffinity(consume_reservation_type=kinds.NO_RESERVATION)
    )
    ssd = api.EphemeralStorageLocalSsdConfig(local_ssd_count=32)
    fields = {"taints": [_GPU_TAINT], **more}
    return api.NodeConfig(
        accelerators=[_B200], reservation_affinity=affinity, ephemeral_storage_local_ssd_config=ssd, **fields
    )


def _reserved_pool(google: PracticeGoogle) -> api.NodePool:
    return new_pool(
        RESERVED_POOL,
        "a4-highgpu-8g",
        len(nodes_of(google.storage, RESERVED_POOL)),
        config=_a4_node_config("practice-a4"),
        network_config=_network_config(),
        management=api.NodeManagement(auto_repair=True, auto_upgrade=True),
        placement_policy=api.NodePool.PlacementPolicy(type_=api.NodePool.PlacementPolicy.Type.COMPACT),
    )


def _spot_pool(google: PracticeGoogle) -> api.NodePool:
    return new_pool(
        SPOT_POOL,
        "a4-highgpu-8g",
        len(nodes_of(google.storage, SPOT_POOL)),
        config=_a4_node_config(spot=True),
        network_config=_network_config(),
        management=api.NodeManagement(auto_repair=True, auto_upgrade=True),
        autoscaling=api.NodePoolAutoscaling(enabled=True, total_min_node_count=2, total_max_node_count=8),
    )


def _flex_pool() -> api.NodePool:
    return new_pool(
        FLEX_POOL,
        "a4-highgpu-8g",
        0,
        config=_a4_node_config(flex_start=True, taints=[_GPU_TAINT, _QUEUED_TAINT]),
        network_config=_network_config(),
        management=api.NodeManagement(auto_repair=False, auto_upgrade=True),
        autoscaling=api.NodePoolAutoscaling(enabled=True, total_min_node_count=0, total_max_node_count=8),
        queued_provisioning=api.NodePool.QueuedProvisioning(enabled=True),
    )


def _system_pool(google: PracticeGoogle) -> api.NodePool:
    return new_pool(
        SYSTEM_POOL,
        "e2-standard-8",
        len(nodes_of(google.storage, SYSTEM_POOL)),
        management=api.NodeManagement(auto_repair=True, auto_upgrade=True),
        status_message="",
    )


def _private_cluster(google: PracticeGoogle) -> api.Cluster:
    ends = api.ControlPlaneEndpointsConfig(
        ip_endpoints_config=api.ControlPlaneEndpointsConfig.IPEndpointsConfig(
            enabled=True, enable_public_endpoint=False, private_endpoint="127.128.0.2"
        )
    )
    return api.Cluster(
        **_common_fields("research-private", "europe-west4", google.opening - 200 * _DAY),
        status=api.Cluster.Status.RECONCILING,
        endpoint="127.128.0.2",  # nobody answers there, in nobody's network
        current_node_count=12,
        private_cluster_config=api.PrivateClusterConfig(enable_private_nodes=True, enable_private_endpoint=True),
        control_plane_endpoints_config=ends,
        master_auth=api.MasterAuth(cluster_ca_certificate=base64.b64encode(google.authority).decode()),
    )


def _broken_cluster(google: PracticeGoogle) -> api.Cluster:
    words = "Retry budget exhausted: the service account of the nodes does not exist any more."
    return api.Cluster(
        **_common_fields("sandbox", "us-east5-a", google.opening - 3 * _DAY),
        status=api.Cluster.Status.ERROR,
        conditions=[api.StatusCondition(message=words, canonical_code=9)],
    )
