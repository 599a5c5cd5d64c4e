"""All checks as data: what each is called, where it belongs, what mends it, and the function that looks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from console.preflight import access, cluster, images, machines, network, queues, storage
from console.preflight import cluster as named
from console.preflight.check import name_of

if TYPE_CHECKING:
    from console.preflight.check import Verdict
    from console.preflight.context import Looking

Function = Callable[["Looking"], Awaitable["Verdict"]]


@dataclass(frozen=True, slots=True)
class Spec:
    """One check."""

    id: str
    title: str
    area: str
    look: Function
    fix: str  # what mends it, where the check itself knows nothing better
    command: str = ""


STOPS_A_LAUNCH = frozenset({
    "P07", "P08", "P09", "P10", "P11", "P12", "P14", "P15", "P16", "P17", "P18", "P19", "P20", "P21", "P22", "P23",
    "P24", "P25", "P27", "P28", "P36",
})  # fmt: skip
"""Checks whose failure means that the pods of a launch would not come to work. The others tell of the cluster as a
whole, of what comes with time, or of what the API server refuses by itself."""

_CLUSTER, _MACHINES, _STORAGE, _QUEUES = "cluster", "machines", "storage", "queues"
_IMAGES, _NETWORK, _PROJECT, _RELEASE = "images", "network", "project", "release"


def _release(name: str, version: str) -> str:
    """The command that installs an operator."""
    place = f"https://github.com/kubernetes-sigs/{name}/releases/download/{version}/manifests.yaml"
    return f"kubectl apply --server-side -f {place}"


CHECKS: tuple[Spec, ...] = (
    Spec("P01", "Cluster reachable", _CLUSTER, cluster.reached, "Connect to it: `a4 clusters` lists them, C switches."),
    Spec("P02", "GKE version", _CLUSTER, cluster.version, "Upgrade the control plane, then the node pools."),
    Spec("P03", "Regional Standard cluster", _CLUSTER, cluster.regional, "Make another cluster."),
    Spec("P04", "A4 node pool", _MACHINES, machines.a4_pool, "Add a node pool of a4-highgpu-8g, or nodes to it."),
    Spec("P05", "Dense deployment", _MACHINES, machines.dense, "Take the machines from a dense reservation."),
    Spec(
        "P06",
        "GPUs ready and free",
        _MACHINES,
        machines.free_gpus,
        "Wait for machines; see `a4 nodes` for what is wrong.",
    ),
    Spec("P07", "GPU taint tolerated", _MACHINES, machines.taints, "Add a toleration under placement.tolerations."),
    Spec(
        "P08",
        "Workload Identity Federation",
        _MACHINES,
        machines.workload_identity,
        "Set the cluster's workload pool and GKE_METADATA on its node pools.",
    ),
    Spec(
        "P09",
        "GCS FUSE CSI driver",
        _STORAGE,
        storage.fuse,
        "Enable the add-on.",
        "gcloud container clusters update NAME --update-addons=GcsFuseCsiDriver=ENABLED",
    ),
    Spec(
        "P10",
        "GCS FUSE in the host network",
        _STORAGE,
        storage.fuse_on_host,
        "Upgrade the cluster, or launch without the host's network.",
    ),
    Spec(
        "P11",
        "Bucket in the same region",
        _STORAGE,
        storage.bucket_near,
        "Use or make a bucket in the cluster's region.",
    ),
    Spec(
        "P12",
        "Bucket access of the pods",
        _STORAGE,
        access.bucket_access,
        "Give the pods' account Storage Object Admin and Legacy Bucket Reader on it.",
    ),
    Spec(
        "P13",
        "DCGM metrics",
        _MACHINES,
        machines.dcgm,
        "Switch on DCGM in the cluster's monitoring.",
        "gcloud container clusters update NAME --monitoring=SYSTEM,DCGM",
    ),
    Spec("P14", "JobSet", _QUEUES, queues.jobset, "Install JobSet.", _release("jobset", "v0.12.0")),
    Spec("P15", "Kueue", _QUEUES, queues.kueue, "Install Kueue.", _release("kueue", "v0.18.4")),
    Spec("P16", "LocalQueue", _QUEUES, queues.local_queue, "Create the LocalQueue, or choose one that is there."),
    Spec("P17", "Quota", _QUEUES, queues.quota, "Raise the ClusterQueue's nominalQuota, or take fewer GPUs."),
    Spec(
        "P18",
        "Topology-aware scheduling",
        _QUEUES,
        queues.topology,
        "Create a Topology and name it in the ResourceFlavor; or ask for no topology.",
    ),
    Spec("P19", "Filestore", _STORAGE, storage.nfs, "Make the instance or the claim, in the cluster's network."),
    Spec(
        "P20",
        "Filestore CSI driver",
        _STORAGE,
        storage.nfs_driver,
        "Enable the add-on.",
        "gcloud container clusters update NAME --update-addons=GcpFilestoreCsiDriver=ENABLED",
    ),
    Spec(
        "P21",
        "Lustre CSI driver, legacy port",
        _STORAGE,
        storage.lustre_driver,
        "Enable the add-on with the legacy port.",
        "gcloud container clusters update NAME --enable-lustre-csi-driver --enable-legacy-lustre-port",
    ),
    Spec(
        "P22", "Lustre instance", _STORAGE, storage.lustre, "Make an instance in the cluster's network, or choose one."
    ),
    Spec(
        "P23", "Image", _IMAGES, images.image_there, "Build it, name another, or give the nodes the right to read it."
    ),
    Spec("P24", "Image fits B200", _IMAGES, images.fits_b200, "Take an image with CUDA 12.8 or newer, and sshd."),
    Spec("P25", "gIB image", _IMAGES, images.gib, "Name another tag of gIB."),
    Spec("P26", "Egress", _NETWORK, network.egress, "Set up Cloud NAT, or take an image that has all it needs."),
    Spec(
        "P27",
        "Multi-network",
        _NETWORK,
        network.interfaces,
        "Create the Network objects, or launch with the host's network.",
    ),
    Spec("P28", "Ports between pods", _NETWORK, network.policies, "Allow these ports between pods of the namespace."),
    Spec("P29", "Local SSD", _MACHINES, machines.local_ssd, "Use a pool with local SSDs, or drop the mount."),
    Spec("P30", "Google services enabled", _PROJECT, images.services, "Enable them."),
    Spec("P31", "Image repository", _PROJECT, images.repository, "Create the repository."),
    Spec(
        "P32",
        "Rights to build images",
        _PROJECT,
        images.build_rights,
        "Ask for Cloud Build Editor and Artifact Registry Writer.",
    ),
    Spec("P33", "Rights in the namespace", _CLUSTER, cluster.rights, "Ask for the role Kubernetes Engine Developer."),
    Spec("P34", "Name is free", _RELEASE, cluster.name_free, "Launch under another name, or stop what has this one."),
    Spec(
        "P35",
        "Rights to create clusters",
        _PROJECT,
        cluster.builder_roles,
        "Ask for Kubernetes Engine Admin, Project IAM Admin and Service Account Admin.",
    ),
    Spec("P36", "Objects it names", _RELEASE, named.named, "Create it, or name one that is there."),
)

BY_NAME = {name_of(each.title): each for each in CHECKS} | {each.id.lower(): each for each in CHECKS}
"""By the name that people type ("lustre-instance"), and by id."""
