"""The launches whose manifests are kept in golden/, one file each, and a launcher without a cluster to render them."""

from __future__ import annotations

from console.cluster.client import Client
from console.cluster.kubeconfig import Cluster, Target, User
from console.cluster.login import Login
from console.helm import Helm
from console.launch import Catalogue, Launcher
from console.models.launch import LaunchPlan

CATALOGUE = Catalogue.load()


def offline() -> Launcher:
    """Renders; whatever it would ask a cluster fails."""
    nowhere = Target("none", "none", "none", "default", Cluster(server="https://127.0.0.1:9"), User())
    return Launcher(CATALOGUE, Helm(), Client(Login(nowhere)))


PLANS = {
    "nccl-all-reduce": LaunchPlan("nccl-all-reduce", "anna-nccl-test", "team", {"queue": "a4"}),
    "nccl-all-reduce-two-gpus": LaunchPlan(
        "nccl-all-reduce",
        "anna-small",
        "team",
        {
            "gpus": 2,
            "recipe": {"nccl": {"begin": "8", "end": "1G", "iterations": 20}},
            "network": {"interfaces": False},
        },
    ),
    "ddp-smoke": LaunchPlan("ddp-smoke", "anna-ddp-test", "team", {"queue": "a4", "gpus": 8}),
    "interactive-everything": LaunchPlan(
        "interactive",
        "anna-testbed",
        "team",
        {
            "gpus": 32,
            "queue": "a4-high",
            "image": "registry.example/team/testbed:1",
            "env": {"NCCL_IB_QPS_PER_CONNECTION": "4", "GLOO_SOCKET_IFNAME": "eth1"},
            "secrets": {"HF_TOKEN": "hub/token"},
            "imagePullSecrets": ["registry-login"],
            "topology": {"request": "required", "level": "cloud.google.com/gce-topology-subblock"},
            "placement": {
                "accelerator": "nvidia-b200",
                "targetNodes": ["node-1", "node-2", "node-3", "node-4"],
                "avoidNodes": ["node-7"],
                "nodeSelector": {"cloud.google.com/gke-nodepool": "a4-pool"},
                "tolerations": [{"key": "dedicated", "operator": "Equal", "value": "mine", "effect": "NoSchedule"}],
            },
            "network": {"hostNetwork": True, "masterPort": 29500, "nccl": {"debug": "INFO"}},
            "storage": {"shm": "64Gi", "ssd": "/ssd", "pvc": {"nfs-pvc": "/mnt"}},
            "ssh": {"publicKey": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIabc anna@laptop"},
            "security": {"capabilities": ["IPC_LOCK", "SYS_PTRACE"]},
            "serviceAccount": "trainer",
            "priorityClass": "high",
            "restarts": 3,
            "maxRunDuration": 3600,
            "ttl": 600,
        },
    ),
}
