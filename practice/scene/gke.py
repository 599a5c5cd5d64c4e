"""The objects that GKE adds to a cluster: drivers, agents, networks of an A4, operators' Deployments."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from practice.controllers.objects import is_true
from practice.objects.api_error import Object
from practice.objects.resources import (
    CSIDRIVERS,
    DAEMONSETS,
    DEPLOYMENTS,
    GKENETWORKPARAMSETS,
    NAMESPACES,
    NETWORKS,
    NODES,
    PODS,
    SERVICEACCOUNTS,
    Resource,
)
from practice.objects.storage import Storage
from practice.scene.machines import FABRIC, RDMA

FILESTORE = "filestore.csi.storage.gke.io"  # a driver that is not there at first
MANAGED, EXPORTER = "gke-managed-system", "dcgm-exporter"
_DRIVERS = {
    "pd.csi.storage.gke.io": ("Persistent",),
    "gcsfuse.csi.storage.gke.io": ("Persistent", "Ephemeral"),
    "lustre.csi.storage.gke.io": ("Persistent",),
}
_GPU = "nvidia.com/gpu"
_AGENTS = (
    ("kube-system", "gke-metadata-server", "gke.gcr.io/gke-metadata-server:gke_metadata_server_20251104.00", ""),
    ("kube-system", "gcsfusecsi-node", "gke.gcr.io/gcs-fuse-csi-driver:v1.21.6-gke.2", ""),
    ("kube-system", "lustre-csi-node", "gke.gcr.io/lustre-csi-driver:v0.9.2-gke.1", ""),
    ("kube-system", "nvidia-gpu-device-plugin", "gke.gcr.io/nvidia-gpu-device-plugin:v1.0.24-gke.11", _GPU),
    (MANAGED, EXPORTER, "gke.gcr.io/dcgm-exporter:4.4.1-4.6.0-gke.17", _GPU),
)
"""(namespace, name, image, resource that its nodes have, empty for all nodes) of each DaemonSet."""


def gke_objects(system: tuple[tuple[str, str, str], ...]) -> Iterator[tuple[Resource, Object]]:
    """Yield drivers, agents, networks, and a Deployment per operator (namespace, name, image)."""
    yield NAMESPACES, {"metadata": {"name": MANAGED}, "spec": {"finalizers": ["kubernetes"]}}
    yield SERVICEACCOUNTS, {"metadata": {"name": "default", "namespace": MANAGED}}
    for name, modes in _DRIVERS.items():
        yield CSIDRIVERS, _new_driver(name, *modes)
    for namespace, name, image, _ in _AGENTS:
        yield DAEMONSETS, _new_daemonset(namespace, name, image)
    for namespace, name, image in system:
        yield DEPLOYMENTS, _new_deployment(namespace, name, image)
    yield from _network_objects()


def exporter_pods(storage: Storage) -> Iterator[Object]:
    """Yield DCGM exporter pods for ready GPU nodes without one, if the cluster has the exporter."""
    owner = storage.find(DAEMONSETS, MANAGED, EXPORTER)
    if owner is None:
        return
    reference = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "name": EXPORTER,
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    image = owner["spec"]["template"]["spec"]["containers"][0]["image"]
    ports = [{"name": "metrics", "containerPort": 9400}]
    meta = {
        "generateName": f"{EXPORTER}-",
        "namespace": MANAGED,
        "ownerReferences": [reference],
        "labels": {"app.kubernetes.io/name": "gke-managed-dcgm-exporter"},
    }
    there = {
        pod["spec"].get("nodeName")
        for pod in storage.list(PODS, MANAGED)
        if pod["metadata"]["generateName"] == meta["generateName"]
    }
    for node in storage.list(NODES):
        new = node["metadata"]["name"] not in there and is_true(node, "Ready")
        if new and node["status"]["capacity"].get("nvidia.com/gpu"):
            spec = {
                "containers": [{"name": EXPORTER, "image": image, "command": ["sleep", "infinity"], "ports": ports}],
                "nodeName": node["metadata"]["name"],
                "tolerations": [{"operator": "Exists"}],
                "priorityClassName": "system-node-critical",
            }
            yield {"metadata": meta, "spec": spec}


def start_exporters(storage: Storage) -> None:
    """Create missing exporter pods, as a DaemonSet does."""
    for pod in list(exporter_pods(storage)):
        storage.create(PODS, pod)


def update_agent_status(storage: Storage) -> None:
    """Update each DaemonSet's status: desired nodes and ready ones."""
    nodes = storage.list(NODES)
    for namespace, name, _, resource in _AGENTS:
        agent = storage.find(DAEMONSETS, namespace, name)
        theirs = [node for node in nodes if not resource or node["status"]["capacity"].get(resource)]
        counts = _daemonset_status(len(theirs), sum(is_true(node, "Ready") for node in theirs))
        if agent is not None and agent.get("status") != counts:
            storage.modify_status(DAEMONSETS, namespace, name, partial(_set_status, counts))


def _set_status(status_counts: Object, agent: Object) -> None:
    agent["status"] = status_counts


def install_driver(storage: Storage, driver: str) -> None:
    """Add a driver to the cluster, as GKE does when its add-on is enabled."""
    if storage.find(CSIDRIVERS, "", driver) is None:
        storage.create(CSIDRIVERS, _new_driver(driver, "Persistent"))


def _new_driver(name: str, *modes: str) -> Object:
    spec = {"attachRequired": name.startswith("pd."), "podInfoOnMount": True, "volumeLifecycleModes": list(modes)}
    return {"metadata": {"name": name}, "spec": spec}


def _new_daemonset(namespace: str, name: str, image: str) -> Object:
    labels = {"app.kubernetes.io/name": name.removesuffix("-controller-manager")}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "manager", "image": image}]}}
    meta = {"name": name, "namespace": namespace, "labels": labels}
    return {"metadata": meta, "spec": {"selector": {"matchLabels": labels}, "template": template}}


def _daemonset_status(nodes: int, ready_count: int) -> Object:
    """The status of a DaemonSet on these nodes."""
    return {
        "observedGeneration": 1,
        "desiredNumberScheduled": nodes,
        "currentNumberScheduled": nodes,
        "updatedNumberScheduled": nodes,
        "numberReady": ready_count,
        "numberAvailable": ready_count,
        "numberMisscheduled": 0,
    }


def _new_deployment(namespace: str, name: str, image: str) -> Object:
    made = _new_daemonset(namespace, name, image)
    made["spec"]["replicas"] = 1
    counts = dict.fromkeys(("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"), 1)
    available = {
        "type": "Available",
        "status": "True",
        "reason": "MinimumReplicasAvailable",
        "message": "Deployment has minimum availability.",
    }
    return {**made, "status": {"observedGeneration": 1, **counts, "conditions": [available]}}


def _network_objects() -> Iterator[tuple[Resource, Object]]:
    ready = {"type": "Ready", "status": "True", "reason": "GNPParamsReady", "message": ""}
    yield NETWORKS, {"metadata": {"name": "default"}, "spec": {"type": "L3"}, "status": {"conditions": [ready]}}
    for name in FABRIC:
        reference = {"group": "networking.gke.io", "kind": "GKENetworkParamSet", "name": name}
        yield (
            NETWORKS,
            {
                "metadata": {"name": name},
                "spec": {"type": "Device", "parametersRef": reference},
                "status": {"conditions": [ready]},
            },
        )
        mode = "RDMA" if name in RDMA else "NetDevice"
        yield (
            GKENETWORKPARAMSETS,
            {
                "metadata": {"name": name},
                "spec": {"vpc": f"practice-{name}", "vpcSubnet": f"practice-{name}", "deviceMode": mode},
                "status": {"conditions": [ready], "networkName": name},
            },
        )
