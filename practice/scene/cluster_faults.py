"""Removes objects from the practice cluster so that checks named in A4_PRACTICE_HARM ("P08,P27") fail."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from practice.node.registries import GIB, PUBLIC
from practice.objects.resources import (
    CLUSTERQUEUES,
    CSIDRIVERS,
    DAEMONSETS,
    DEPLOYMENTS,
    JOBSETS,
    LOCALQUEUES,
    NETWORKPOLICIES,
    NETWORKS,
    NODES,
    RESOURCEFLAVORS,
    TOPOLOGIES,
    WORKLOADPRIORITYCLASSES,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from practice.api.authn import Account
    from practice.node.registries import Registries
    from practice.objects.api_error import Object
    from practice.objects.resources import Resource
    from practice.objects.storage import Storage

VARIABLE = "A4_PRACTICE_HARM"
TAKEN_NAME = "taken"  # the name that belongs to somebody else's job when P34 is named
_SYSTEM = "kube-system"


def _make_remover(resource: Resource, namespace: str, name: str) -> Callable[[Storage], None]:
    def remove(storage: Storage) -> None:
        storage.remove(resource, namespace, name)

    return remove


def _gpu_node_changer(modify: Callable[[Object], object], subresource: str = "") -> Callable[[Storage], None]:
    def changed(obj: Object) -> None:
        modify(obj)

    def harm(storage: Storage) -> None:
        for node in storage.list(NODES):
            if node["status"]["capacity"].get("nvidia.com/gpu"):
                storage.modify(NODES, "", node["metadata"]["name"], changed, subresource=subresource)

    return harm


def _label_remover(label: str) -> Callable[[Storage], None]:
    return _gpu_node_changer(lambda node: node["metadata"]["labels"].pop(label, None))


def _deny_all_traffic(storage: Storage) -> None:
    meta = {"name": "deny-all", "namespace": "default"}
    storage.create(NETWORKPOLICIES, {"metadata": meta, "spec": {"podSelector": {}, "policyTypes": ["Ingress"]}})


def _set_old_kubelet(node: Object) -> None:
    node["status"]["nodeInfo"]["kubeletVersion"] = "v1.31.6-gke.1064001"


def _set_other_machine_type(node: Object) -> None:
    node["metadata"]["labels"] |= {
        "node.kubernetes.io/instance-type": "a3-megagpu-8g",
        "cloud.google.com/gke-accelerator": "nvidia-h100-mega-80gb",
    }


def _set_old_fuse_driver(storage: Storage) -> None:
    def set_old_image(agent: Object) -> None:
        agent["spec"]["template"]["spec"]["containers"][0]["image"] = "gke.gcr.io/gcs-fuse-csi-driver:v1.15.0-gke.1"

    storage.modify(DAEMONSETS, _SYSTEM, "gcsfusecsi-node", set_old_image)


def _remove_quota(storage: Storage) -> None:
    def set_no_quota(queue: Object) -> None:
        for group in queue["spec"]["resourceGroups"]:
            for resource in (each for flavor in group["flavors"] for each in flavor["resources"]):
                resource["nominalQuota"] = "0"

    for queue in storage.list(CLUSTERQUEUES):
        storage.modify(CLUSTERQUEUES, "", queue["metadata"]["name"], set_no_quota)


def _remove_topology(storage: Storage) -> None:
    def remove_topology_name(flavor: Object) -> None:
        flavor["spec"].pop("topologyName", None)

    for flavor in storage.list(RESOURCEFLAVORS):
        storage.modify(RESOURCEFLAVORS, "", flavor["metadata"]["name"], remove_topology_name)
    for each in storage.list(TOPOLOGIES):
        storage.remove(TOPOLOGIES, "", each["metadata"]["name"])


def _create_name_conflict(storage: Storage) -> None:
    pods = {"template": {"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}}}
    job = {"name": "w", "replicas": 1, "template": {"spec": {"suspend": True, **pods}}}
    meta = {"name": TAKEN_NAME, "namespace": "default"}
    storage.create(JOBSETS, {"metadata": meta, "spec": {"suspend": True, "replicatedJobs": [job]}})


_CLUSTER_FAULTS: dict[str, Callable[[Storage], None]] = {
    "P02": _gpu_node_changer(_set_old_kubelet, "status"),
    "P04": _gpu_node_changer(_set_other_machine_type),
    "P05": _label_remover("cloud.google.com/gce-topology-host"),
    "P06": _gpu_node_changer(lambda node: node["spec"].update(unschedulable=True)),
    "P07": _gpu_node_changer(
        lambda node: node["spec"]["taints"].append({"key": "team", "value": "b", "effect": "NoSchedule"})
    ),
    "P08": _make_remover(DAEMONSETS, _SYSTEM, "gke-metadata-server"),
    "P09": _make_remover(CSIDRIVERS, "", "gcsfuse.csi.storage.gke.io"),
    "P10": _set_old_fuse_driver,
    "P13": _make_remover(DAEMONSETS, "gke-managed-system", "dcgm-exporter"),
    "P14": _make_remover(DEPLOYMENTS, "jobset-system", "jobset-controller-manager"),
    "P15": _make_remover(DEPLOYMENTS, "kueue-system", "kueue-controller-manager"),
    "P16": _make_remover(LOCALQUEUES, "default", "a4"),
    "P17": _remove_quota,
    "P18": _remove_topology,
    "P21": _make_remover(CSIDRIVERS, "", "lustre.csi.storage.gke.io"),
    "P27": _make_remover(NETWORKS, "", "rdma-3"),
    "P28": _deny_all_traffic,
    "P29": _label_remover("cloud.google.com/gke-ephemeral-storage-local-ssd"),
    "P34": _create_name_conflict,
    "P36": _make_remover(WORKLOADPRIORITYCLASSES, "", "high"),
}


def requested_check_ids() -> list[str]:
    """Ids of the checks that are to fail, in capitals."""
    return [each.strip().upper() for each in os.environ.get(VARIABLE, "").split(",") if each.strip()]


def apply_cluster_faults(storage: Storage, account: Account, registries: Registries) -> None:
    """Remove the objects, permissions and images whose lack the requested checks report; jobs go on."""
    for name in requested_check_ids():
        if name in _CLUSTER_FAULTS:
            _CLUSTER_FAULTS[name](storage)
    if "P33" in requested_check_ids():
        account.denied.add(("create", "jobsets.jobset.x-k8s.io"))
    if "P23" in requested_check_ids():
        registries.lost |= PUBLIC.keys() - {GIB}
    if "P24" in requested_check_ids():
        registries.old = "12.4.1"
    if "P25" in requested_check_ids():
        registries.lost.add(GIB)
