"""What stands in the lab's API beside nodes: rewritten controller manifests, configurations, Kueue's queues."""

import base64
from collections.abc import Iterator
from typing import Any

import yaml

from tests.lab.machines import GKE, Object

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
KEPT = frozenset(("Namespace", "CustomResourceDefinition", "Service", "APIService",
                  "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"))  # fmt: skip
FIRST = frozenset(("Namespace", "CustomResourceDefinition", "Service"))
PRIORITIES = {"very-low": 100, "low": 250, "medium": 500, "high": 750, "very-high": 1000}


def dump(objects: list[Object]) -> str:
    return str(yaml.dump_all(objects, Dumper=DUMPER))


def controller_objects(text: str, authority: bytes, hook_port: int, visibility_port: int) -> Iterator[Object]:
    """A controller's manifests for a controller that runs as a process of this host.

    Deployments and their accounts go; webhooks point at the process; what has no address form of its own (the
    aggregated API) goes through a Service of type ExternalName.
    """
    bundle = base64.b64encode(authority).decode()

    def redirect(client: Object) -> None:
        service = client.pop("service")
        client["url"] = f"https://127.0.0.1:{hook_port}{service.get('path', '/')}"
        client["caBundle"] = bundle

    for item in yaml.load_all(text, Loader=LOADER):
        if not item or item["kind"] not in KEPT:
            continue
        for webhook in item.get("webhooks", []):
            redirect(webhook["clientConfig"])
        if item["kind"] == "CustomResourceDefinition" and "conversion" in item["spec"]:
            redirect(item["spec"]["conversion"]["webhook"]["clientConfig"])
        if item["kind"] == "Service":
            item["spec"] = {"type": "ExternalName", "externalName": "localhost"}
        if item["kind"] == "APIService":
            item["spec"]["service"]["port"] = visibility_port
        yield item


def kueue_configuration(hook_port: int, health_port: int, visibility_port: int, certificates: str) -> Object:
    return {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "namespace": "kueue-system",
        "health": {"healthProbeBindAddress": f"127.0.0.1:{health_port}"},
        "metrics": {"bindAddress": "0"},
        "webhook": {"host": "127.0.0.1", "port": hook_port, "certDir": certificates},
        "visibilityServer": {"bindAddress": "127.0.0.1", "bindPort": visibility_port},
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "clientConnection": {"qps": 300, "burst": 500},
        "integrations": {"frameworks": ["batch/job", "jobset.x-k8s.io/jobset", "pod"]},
    }


def jobset_configuration(hook_port: int, health_port: int, certificates: str) -> Object:
    return {
        "apiVersion": "config.jobset.x-k8s.io/v1alpha1",
        "kind": "Configuration",
        "health": {"healthProbeBindAddress": f"127.0.0.1:{health_port}"},
        "metrics": {"bindAddress": "0"},
        "webhook": {"host": "127.0.0.1", "port": hook_port, "certDir": certificates},
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "clientConnection": {"qps": 300, "burst": 500},
    }


def _kueue(kind: str, name: str, spec: Object, namespace: str = "") -> Object:
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": metadata, "spec": spec}


def _cluster_queue(name: str, flavors: dict[str, int]) -> Object:
    quotas = [
        {"name": flavor, "resources": [{"name": "nvidia.com/gpu", "nominalQuota": gpus}]}
        for flavor, gpus in flavors.items()
    ]
    return _kueue("ClusterQueue", name, {
        "cohortName": "a4",
        "namespaceSelector": {},
        "queueingStrategy": "BestEffortFIFO",
        "preemption": {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Any"},
        "resourceGroups": [{"coveredResources": ["nvidia.com/gpu"], "flavors": quotas}],
    })  # fmt: skip


def _flavor(name: str, pool: str, taints: tuple[str, ...]) -> Object:
    return _kueue("ResourceFlavor", name, {
        "nodeLabels": {f"{GKE}/gke-nodepool": pool},
        "topologyName": "gke-default",
        "tolerations": [{"key": taint, "operator": "Exists"} for taint in taints],
    })  # fmt: skip


def queues() -> list[Object]:
    """The queues of the toolkit's A4 blueprint (topology, flavor, priorities), and a second team in the cohort."""
    levels = [f"{GKE}/gce-topology-{level}" for level in ("block", "subblock", "host")] + ["kubernetes.io/hostname"]
    objects: list[dict[str, Any]] = [
        _kueue("Topology", "gke-default", {"levels": [{"nodeLabel": level} for level in levels]}),
        _flavor("a4", "a4-reserved", ("nvidia.com/gpu",)),
        _flavor("a4-spot", "a4-spot", ("nvidia.com/gpu", f"{GKE}/gke-spot")),
        _cluster_queue("a4", {"a4": 96, "a4-spot": 32}),
        _cluster_queue("research", {"a4": 32}),
        _kueue("LocalQueue", "a4", {"clusterQueue": "a4"}, "default"),
        _kueue("LocalQueue", "research", {"clusterQueue": "research"}, "default"),
    ]
    for name, value in PRIORITIES.items():
        described = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "WorkloadPriorityClass"}
        objects.append({**described, "metadata": {"name": name}, "value": value, "description": f"{name} priority"})
        objects.append({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name},
                        "value": value})  # fmt: skip
    return objects


def reader() -> list[Object]:
    """What the second account may: look at pods and their logs, nodes, jobs and events."""
    looks = {"verbs": ["get", "list", "watch"]}
    rbac = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "reader"}}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reader"}
    user = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "reader"}
    rules = [
        {**looks, "apiGroups": [""], "resources": ["pods", "pods/log", "nodes", "events"]},
        {**looks, "apiGroups": ["batch"], "resources": ["jobs"]},
        {**looks, "apiGroups": ["jobset.x-k8s.io"], "resources": ["jobsets"]},
    ]
    return [
        {**rbac, "kind": "ClusterRole", "rules": rules},
        {**rbac, "kind": "ClusterRoleBinding", "roleRef": role, "subjects": [user]},
    ]
