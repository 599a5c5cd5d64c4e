"""The objects that exist before any job: namespaces, priority classes, flavors, queues."""

from __future__ import annotations

from collections.abc import Iterator

from practice.objects.api_error import Object
from practice.objects.resources import (
    CLUSTERQUEUES,
    LOCALQUEUES,
    NAMESPACES,
    PRIORITYCLASSES,
    RESOURCEFLAVORS,
    SERVICEACCOUNTS,
    STORAGECLASSES,
    TOPOLOGIES,
    WORKLOADPRIORITYCLASSES,
    Resource,
)

BLOCK, SUBBLOCK, HOST = (f"cloud.google.com/gce-topology-{level}" for level in ("block", "subblock", "host"))
GPU = "nvidia.com/gpu"
NAMESPACE_NAMES = (
    "default",
    "team-b",
    "kube-system",
    "kube-public",
    "kube-node-lease",
    "kueue-system",
    "jobset-system",
)
_PRIORITIES = {"very-low": 100, "low": 250, "medium": 500, "high": 750, "very-high": 1000}
SYSTEM_PODS = (
    ("kueue-system", "kueue-controller-manager", "registry.k8s.io/kueue/kueue:v0.18.4"),
    ("jobset-system", "jobset-controller-manager", "registry.k8s.io/jobset/jobset:v0.12.0"),
    ("kube-system", "metrics-server", "registry.k8s.io/metrics-server/metrics-server:v0.8.0"),
)
_TOPOLOGY = "gke-default"


def base_objects() -> Iterator[tuple[Resource, Object]]:
    """Yield the objects that every cluster has, even an empty one."""
    for name in NAMESPACE_NAMES:
        yield NAMESPACES, {"metadata": {"name": name}, "spec": {"finalizers": ["kubernetes"]}}
        yield SERVICEACCOUNTS, {"metadata": {"name": "default", "namespace": name}}
    for name, value in (("system-cluster-critical", 2000000000), ("system-node-critical", 2000001000)):
        yield PRIORITYCLASSES, {"metadata": {"name": name}, "value": value, "preemptionPolicy": "PreemptLowerPriority"}


def queue_objects() -> Iterator[tuple[Resource, Object]]:
    """Yield priorities, flavors and queues of the scene."""
    for name, value in _PRIORITIES.items():
        yield PRIORITYCLASSES, {"metadata": {"name": name}, "value": value, "preemptionPolicy": "PreemptLowerPriority"}
        yield WORKLOADPRIORITYCLASSES, {"metadata": {"name": name}, "value": value, "description": f"{name} priority"}
    yield STORAGECLASSES, {"metadata": {"name": "standard-rwo"}, "provisioner": "pd.csi.storage.gke.io"}
    levels = [{"nodeLabel": label} for label in (BLOCK, SUBBLOCK, HOST, "kubernetes.io/hostname")]
    yield TOPOLOGIES, {"metadata": {"name": _TOPOLOGY}, "spec": {"levels": levels}}
    yield _new_flavor("a4", "standard")
    yield _new_flavor("a4-spot", "spot")
    reclaim = {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"}
    yield _new_queues("a4", reclaim, [("a4", 112, 8)])
    # What a person launches here stays: only the queue a4 takes back what it has lent.
    yield _new_queues("research", {"withinClusterQueue": "Never"}, [("a4", 16, None), ("a4-spot", 32, None)])
    for namespace, name in (("default", "a4"), ("default", "research"), ("team-b", "research")):
        meta = {"name": name, "namespace": namespace}
        yield LOCALQUEUES, {"metadata": meta, "spec": {"clusterQueue": name}}


def _new_flavor(name: str, provisioning: str) -> tuple[Resource, Object]:
    labels = {"cloud.google.com/gke-accelerator": "nvidia-b200", "cloud.google.com/gke-provisioning": provisioning}
    tolerations = [{"key": GPU, "operator": "Exists", "effect": "NoSchedule"}]
    spec = {"nodeLabels": labels, "topologyName": _TOPOLOGY, "tolerations": tolerations}
    return RESOURCEFLAVORS, {"metadata": {"name": name}, "spec": spec}


def _new_queues(name: str, preemption: Object, quotas: list[tuple[str, int, int | None]]) -> tuple[Resource, Object]:
    flavors = []
    for flavor, nominal, borrowing in quotas:
        row: Object = {"name": GPU, "nominalQuota": str(nominal)}
        if borrowing is not None:
            row["borrowingLimit"] = str(borrowing)
        flavors.append({"name": flavor, "resources": [row]})
    spec = {
        "cohortName": "lab",
        "namespaceSelector": {},
        "preemption": preemption,
        "resourceGroups": [{"coveredResources": [GPU], "flavors": flavors}],
    }
    return CLUSTERQUEUES, {"metadata": {"name": name}, "spec": spec}
