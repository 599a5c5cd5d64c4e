"""The kinds of object the practice cluster serves: their groups, versions, names and scope."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class Resource:
    """One API kind; ``version`` is the stored one, ``versions`` are all served ones."""

    group: str
    version: str
    versions: tuple[str, ...]
    plural: str
    kind: str
    namespaced: bool
    short_names: tuple[str, ...] = ()
    status: bool = False
    is_custom: bool = False
    """Whether a CustomResourceDefinition defines it: no strategic merge patch, only the definition's table columns."""
    generation: bool = False  # whether metadata.generation counts changes of the wish
    categories: tuple[str, ...] = ()

    @property
    def api_version(self) -> str:
        return self.api_version_for(self.version)

    def api_version_for(self, version: str) -> str:
        """Return the apiVersion for a served version: ``v1``, ``batch/v1``."""
        return f"{self.group}/{version}" if self.group else version

    @property
    def qualified(self) -> str:
        """The name in error texts: ``pods``, ``jobs.batch``."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def singular(self) -> str:
        """The lower-case kind, which kubectl takes as a name."""
        return self.kind.lower()

    def __repr__(self) -> str:
        return f"Resource({self.qualified})"


def _core_resource(plural: str, kind: str, *short: str, namespaced: bool = True, status: bool = False) -> Resource:
    groups = ("all",) if plural in ("pods", "services") else ()
    counted = plural == "pods"
    return Resource(
        "", "v1", ("v1",), plural, kind, namespaced, short, status=status, generation=counted, categories=groups
    )


def _kueue_resource(plural: str, kind: str, *short: str, namespaced: bool = False, status: bool = True) -> Resource:
    return Resource(
        "kueue.x-k8s.io",
        "v1beta2",
        ("v1beta2", "v1beta1"),
        plural,
        kind,
        namespaced,
        short,
        status=status,
        is_custom=True,
        generation=True,
    )


def _group_resource(
    group: str, plural: str, kind: str, *short: str, namespaced: bool = True, status: bool = False, version: str = "v1"
) -> Resource:
    return Resource(group, version, (version,), plural, kind, namespaced, short, status=status)


def _generated_resource(group: str, version: str, plural: str, kind: str, *short: str, custom: bool = True) -> Resource:
    return Resource(
        group, version, (version,), plural, kind, True, short, status=True, is_custom=custom, generation=True
    )


def _network_resource(plural: str, kind: str, *short: str) -> Resource:
    return Resource(
        "networking.gke.io", "v1", ("v1",), plural, kind, False, short, status=True, is_custom=True, generation=True
    )


NODES = _core_resource("nodes", "Node", "no", namespaced=False, status=True)
PODS = _core_resource("pods", "Pod", "po", status=True)
EVENTS = _core_resource("events", "Event", "ev")
NAMESPACES = _core_resource("namespaces", "Namespace", "ns", namespaced=False, status=True)
SERVICES = _core_resource("services", "Service", "svc", status=True)
ENDPOINTS = _core_resource("endpoints", "Endpoints", "ep")
CONFIGMAPS = _core_resource("configmaps", "ConfigMap", "cm")
SECRETS = _core_resource("secrets", "Secret")
SERVICEACCOUNTS = _core_resource("serviceaccounts", "ServiceAccount", "sa")
PERSISTENTVOLUMES = _core_resource("persistentvolumes", "PersistentVolume", "pv", namespaced=False, status=True)
PERSISTENTVOLUMECLAIMS = _core_resource("persistentvolumeclaims", "PersistentVolumeClaim", "pvc", status=True)
LIMITRANGES = _core_resource("limitranges", "LimitRange", "limits")
RESOURCEQUOTAS = _core_resource("resourcequotas", "ResourceQuota", "quota", status=True)

JOBS = _generated_resource("batch", "v1", "jobs", "Job", custom=False)
JOBSETS = _generated_resource("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet")
PROVISIONINGREQUESTS = _generated_resource(
    "autoscaling.x-k8s.io", "v1", "provisioningrequests", "ProvisioningRequest", "provreq", "provreqs"
)

CLUSTERQUEUES = _kueue_resource("clusterqueues", "ClusterQueue", "cq")
LOCALQUEUES = _kueue_resource("localqueues", "LocalQueue", "queue", "queues", "lq", namespaced=True)
WORKLOADS = _kueue_resource("workloads", "Workload", "kwl", "kueueworkload", "kueueworkloads", namespaced=True)
RESOURCEFLAVORS = _kueue_resource("resourceflavors", "ResourceFlavor", "flavor", "flavors", "rf", status=False)
TOPOLOGIES = _kueue_resource("topologies", "Topology", "topo", status=False)
COHORTS = _kueue_resource("cohorts", "Cohort", "co")
ADMISSIONCHECKS = _kueue_resource("admissionchecks", "AdmissionCheck", "ac")
WORKLOADPRIORITYCLASSES = _kueue_resource("workloadpriorityclasses", "WorkloadPriorityClass", "wpc", status=False)
PROVISIONINGREQUESTCONFIGS = _kueue_resource(
    "provisioningrequestconfigs", "ProvisioningRequestConfig", "prc", status=False
)

PRIORITYCLASSES = _group_resource("scheduling.k8s.io", "priorityclasses", "PriorityClass", "pc", namespaced=False)
DEPLOYMENTS = _generated_resource("apps", "v1", "deployments", "Deployment", "deploy", custom=False)
DAEMONSETS = _generated_resource("apps", "v1", "daemonsets", "DaemonSet", "ds", custom=False)
CSIDRIVERS = _group_resource("storage.k8s.io", "csidrivers", "CSIDriver", namespaced=False)
STORAGECLASSES = _group_resource("storage.k8s.io", "storageclasses", "StorageClass", "sc", namespaced=False)
DEVICECLASSES = _group_resource("resource.k8s.io", "deviceclasses", "DeviceClass", namespaced=False)
RESOURCECLAIMTEMPLATES = _group_resource("resource.k8s.io", "resourceclaimtemplates", "ResourceClaimTemplate")
LEASES = _group_resource("coordination.k8s.io", "leases", "Lease")
ROLES = _group_resource("rbac.authorization.k8s.io", "roles", "Role")
ROLEBINDINGS = _group_resource("rbac.authorization.k8s.io", "rolebindings", "RoleBinding")
CLUSTERROLES = _group_resource("rbac.authorization.k8s.io", "clusterroles", "ClusterRole", namespaced=False)
CLUSTERROLEBINDINGS = _group_resource(
    "rbac.authorization.k8s.io", "clusterrolebindings", "ClusterRoleBinding", namespaced=False
)
NETWORKPOLICIES = _group_resource("networking.k8s.io", "networkpolicies", "NetworkPolicy", "netpol")
NETWORKS = _network_resource("networks", "Network")
GKENETWORKPARAMSETS = _network_resource("gkenetworkparamsets", "GKENetworkParamSet", "gnp")
ENDPOINTSLICES = _group_resource("discovery.k8s.io", "endpointslices", "EndpointSlice")
CUSTOMRESOURCEDEFINITIONS = _group_resource(
    "apiextensions.k8s.io",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    "crd",
    "crds",
    namespaced=False,
    status=True,
)

RESOURCES: tuple[Resource, ...] = (
    NODES,
    PODS,
    EVENTS,
    NAMESPACES,
    SERVICES,
    ENDPOINTS,
    CONFIGMAPS,
    SECRETS,
    SERVICEACCOUNTS,
    PERSISTENTVOLUMES,
    PERSISTENTVOLUMECLAIMS,
    RESOURCEQUOTAS,
    JOBS,
    JOBSETS,
    PROVISIONINGREQUESTS,
    CLUSTERQUEUES,
    LOCALQUEUES,
    WORKLOADS,
    RESOURCEFLAVORS,
    TOPOLOGIES,
    COHORTS,
    ADMISSIONCHECKS,
    WORKLOADPRIORITYCLASSES,
    PROVISIONINGREQUESTCONFIGS,
    PRIORITYCLASSES,
    DEPLOYMENTS,
    DAEMONSETS,
    CSIDRIVERS,
    NETWORKS,
    GKENETWORKPARAMSETS,
    STORAGECLASSES,
    DEVICECLASSES,
    RESOURCECLAIMTEMPLATES,
    LEASES,
    ROLES,
    ROLEBINDINGS,
    CLUSTERROLES,
    CLUSTERROLEBINDINGS,
    NETWORKPOLICIES,
    ENDPOINTSLICES,
    CUSTOMRESOURCEDEFINITIONS,
)

BY_KIND: dict[tuple[str, str], Resource] = {(resource.group, resource.kind): resource for resource in RESOURCES}
"""(group, kind) -> resource, for owner references and manifests."""
