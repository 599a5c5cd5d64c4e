"""Removes things from the practice cluster so that checks named in A4_PRACTICE_HARM ("P08,P27") fail."""

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
    from practice.objects.refusal import Object
    from practice.objects.resources import Resource
    from practice.objects.storage import Storage

VARIABLE = "A4_PRACTICE_HARM"
TAKEN = "taken"  # the name that belongs to somebody else's job when P34 is named
_SYSTEM = "kube-system"


def _gone(resource: Resource, namespace: str, name: str) -> Callable[[Storage], None]:
    def remove(storage: Storage) -> None:
        storage.remove(resource, namespace, name)

    return remove


def _nodes(change: Callable[[Object], object], subresource: str = "") -> Callable[[Storage], None]:
    def changed(draft: Object) -> None:
        change(draft)

    def harm(storage: Storage) -> None:
        for node in storage.list(NODES):
            if node["status"]["capacity"].get("nvidia.com/gpu"):
                storage.modify(NODES, "", node["metadata"]["name"], changed, subresource=subresource)

    return harm


def _without(label: str) -> Callable[[Storage], None]:
    return _nodes(lambda node: node["metadata"]["labels"].pop(label, None))


def _wall(storage: Storage) -> None:
    meta = {"name": "deny-all", "namespace": "default"}
    storage.create(NETWORKPOLICIES, {"metadata": meta, "spec": {"podSelector": {}, "policyTypes": ["Ingress"]}})


def _old_kubelet(node: Object) -> None:
    node["status"]["nodeInfo"]["kubeletVersion"] = "v1.31.6-gke.1064001"


def _other_machine(node: Object) -> None:
    node["metadata"]["labels"] |= {
        "node.kubernetes.io/instance-type": "a3-megagpu-8g",
        "cloud.google.com/gke-accelerator": "nvidia-h100-mega-80gb",
    }


def _old_fuse(storage: Storage) -> None:
    def change(agent: Object) -> None:
        agent["spec"]["template"]["spec"]["containers"][0]["image"] = "gke.gcr.io/gcs-fuse-csi-driver:v1.15.0-gke.1"

    storage.modify(DAEMONSETS, _SYSTEM, "gcsfusecsi-node", change)


def _no_quota(storage: Storage) -> None:
    def change(queue: Object) -> None:
        for group in queue["spec"]["resourceGroups"]:
            for resource in (each for flavor in group["flavors"] for each in flavor["resources"]):
                resource["nominalQuota"] = "0"

    for queue in storage.list(CLUSTERQUEUES):
        storage.modify(CLUSTERQUEUES, "", queue["metadata"]["name"], change)


def _no_topology(storage: Storage) -> None:
    def change(flavor: Object) -> None:
        flavor["spec"].pop("topologyName", None)

    for flavor in storage.list(RESOURCEFLAVORS):
        storage.modify(RESOURCEFLAVORS, "", flavor["metadata"]["name"], change)
    for each in storage.list(TOPOLOGIES):
        storage.remove(TOPOLOGIES, "", each["metadata"]["name"])


def _taken(storage: Storage) -> None:
    pods = {"template": {"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}}}
    job = {"name": "w", "replicas": 1, "template": {"spec": {"suspend": True, **pods}}}
    meta = {"name": TAKEN, "namespace": "default"}
    storage.create(JOBSETS, {"metadata": meta, "spec": {"suspend": True, "replicatedJobs": [job]}})


_CLUSTER: dict[str, Callable[[Storage], None]] = {
    "P02": _nodes(_old_kubelet, "status"),
    "P04": _nodes(_other_machine),
    "P05": _without("cloud.google.com/gce-topology-host"),
    "P06": _nodes(lambda node: node["spec"].update(unschedulable=True)),
    "P07": _nodes(lambda node: node["spec"]["taints"].append({"key": "team", "value": "b", "effect": "NoSchedule"})),
    "P08": _gone(DAEMONSETS, _SYSTEM, "gke-metadata-server"),
    "P09": _gone(CSIDRIVERS, "", "gcsfuse.csi.storage.gke.io"),
    "P10": _old_fuse,
    "P13": _gone(DAEMONSETS, "gke-managed-system", "dcgm-exporter"),
    "P14": _gone(DEPLOYMENTS, "jobset-system", "jobset-controller-manager"),
    "P15": _gone(DEPLOYMENTS, "kueue-system", "kueue-controller-manager"),
    "P16": _gone(LOCALQUEUES, "default", "a4"),
    "P17": _no_quota,
    "P18": _no_topology,
    "P21": _gone(CSIDRIVERS, "", "lustre.csi.storage.gke.io"),
    "P27": _gone(NETWORKS, "", "rdma-3"),
    "P28": _wall,
    "P29": _without("cloud.google.com/gke-ephemeral-storage-local-ssd"),
    "P34": _taken,
    "P36": _gone(WORKLOADPRIORITYCLASSES, "", "high"),
}
BY_ITSELF = frozenset({"P20"})
"""Missing from the start: the Filestore CSI driver is an add-on that the practice cluster does not have."""


def asked() -> list[str]:
    """Ids of the checks that are to fail, in capitals."""
    return [each.strip().upper() for each in os.environ.get(VARIABLE, "").split(",") if each.strip()]


def harm_cluster(storage: Storage, account: Account, registries: Registries) -> None:
    """Remove the objects, permissions and images of the named checks; running jobs continue."""
    for name in asked():
        if name in _CLUSTER:
            _CLUSTER[name](storage)
    if "P33" in asked():
        account.lacking.add(("create", "jobsets.jobset.x-k8s.io"))
    if "P23" in asked():
        registries.lost |= PUBLIC.keys() - {GIB}
    if "P24" in asked():
        registries.old = "12.4.1"
    if "P25" in asked():
        registries.lost.add(GIB)
