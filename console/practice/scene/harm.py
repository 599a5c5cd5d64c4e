"""What is missing in the practice cluster when A4_PRACTICE_HARM names checks of the preflight: "P08,P27,P28"."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from console.practice.objects.resources import (
    CSIDRIVERS,
    DAEMONSETS,
    DEPLOYMENTS,
    LOCALQUEUES,
    NETWORKPOLICIES,
    NETWORKS,
    NODES,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from console.practice.google.cloud import PracticeGoogle
    from console.practice.objects.refusal import Object
    from console.practice.objects.resources import Resource
    from console.practice.objects.storage import Storage

VARIABLE = "A4_PRACTICE_HARM"
_SYSTEM = "kube-system"


def _gone(resource: Resource, namespace: str, name: str) -> Callable[[Storage], None]:
    def remove(storage: Storage) -> None:
        storage.remove(resource, namespace, name)

    return remove


def _nodes(change: Callable[[Object], object]) -> Callable[[Storage], None]:
    """Change every GPU node."""

    def changed(draft: Object) -> None:
        change(draft)

    def harm(storage: Storage) -> None:
        for node in storage.list(NODES):
            if node["status"]["capacity"].get("nvidia.com/gpu"):
                storage.modify(NODES, "", node["metadata"]["name"], changed)

    return harm


def _without(label: str) -> Callable[[Storage], None]:
    return _nodes(lambda node: node["metadata"]["labels"].pop(label, None))


def _wall(storage: Storage) -> None:
    meta = {"name": "deny-all", "namespace": "default"}
    storage.create(NETWORKPOLICIES, {"metadata": meta, "spec": {"podSelector": {}, "policyTypes": ["Ingress"]}})


_CLUSTER: dict[str, Callable[[Storage], None]] = {
    "P05": _without("cloud.google.com/gce-topology-host"),
    "P07": _nodes(lambda node: node["spec"]["taints"].append({"key": "team", "value": "b", "effect": "NoSchedule"})),
    "P08": _gone(DAEMONSETS, _SYSTEM, "gke-metadata-server"),
    "P09": _gone(CSIDRIVERS, "", "gcsfuse.csi.storage.gke.io"),
    "P13": _gone(DAEMONSETS, "gke-managed-system", "dcgm-exporter"),
    "P14": _gone(DEPLOYMENTS, "jobset-system", "jobset-controller-manager"),
    "P15": _gone(DEPLOYMENTS, "kueue-system", "kueue-controller-manager"),
    "P16": _gone(LOCALQUEUES, "default", "a4"),
    "P27": _gone(NETWORKS, "", "rdma-3"),
    "P28": _wall,
    "P29": _without("cloud.google.com/gke-ephemeral-storage-local-ssd"),
}
_SERVICES = {"P11": "storage", "P19": "file", "P22": "lustre", "P30": "cloudbuild", "P31": "artifactregistry"}
"""Checks that go wrong when a service of Google's is not enabled."""


def _asked() -> list[str]:
    return [each.strip().upper() for each in os.environ.get(VARIABLE, "").split(",") if each.strip()]


def harm_cluster(storage: Storage) -> None:
    """Take away what was named; what runs already goes on."""
    for name in _asked():
        if name in _CLUSTER:
            _CLUSTER[name](storage)


def harm_google(world: PracticeGoogle) -> None:
    """The same at Google; for P03 it never answers about the cluster, for P32 a right is missing."""
    asked = _asked()
    project = world.projects["practice"]
    project.enabled -= {f"{_SERVICES[name]}.googleapis.com" for name in asked if name in _SERVICES}
    if "P32" in asked:
        project.lacking |= {"cloudbuild.builds.create"}
    if "P26" in asked:
        from console.practice.google.networks import Fabric

        world.part(Fabric).routers.clear()
    if "P03" in asked:
        import grpc

        from console.practice.google.cloud import Fault

        world.faults.append(Fault("GetCluster", grpc.StatusCode.INTERNAL, "asked for by A4_PRACTICE_HARM", times=10**9))
