"""The launches whose manifests are kept in golden/, one file each, and a launcher without a cluster to render them."""

from console.kube.client import Client
from console.kube.kubeconfig import Cluster, Target, User
from console.kube.login import Login
from console.launch.helm import Helm
from console.launch.install import ChartCatalog, Launcher
from console.launch.recipes import LaunchPlan

OF_EVERY_POD = {"run.sh", "pods.sh", "prepare.sh", "steps.sh", "ending.sh", "checkpoints.sh"}
"""Launchers that the pods of each recipe get."""
CATALOGUE = ChartCatalog.from_chart()


def offline() -> Launcher:
    """Renders; whatever it would ask a cluster fails."""
    nowhere = Target("none", "none", "default", Cluster(server="https://127.0.0.1:9"), User())
    return Launcher(CATALOGUE, Helm(), Client(Login(nowhere)))


def plain(recipe: str) -> LaunchPlan:
    """A recipe with nothing but a queue."""
    return LaunchPlan(recipe, f"anna-{CATALOGUE.find_recipe(recipe).suffix}", "team", {"queue": "a4"})


PLANS = {
    **{recipe.id: plain(recipe.id) for recipe in CATALOGUE.recipes()},
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
    "qwen3-storage": LaunchPlan(
        "qwen3-30b-pretrain",
        "anna-storage",
        "team",
        {
            "gpus": 64,
            "queue": "a4",
            "env": {"NCCL_IB_TC": "53"},
            "network": {"hostNetwork": True, "nccl": {"preset": "explicit"}},
            "resources": {"rdma/hca_shared_devices_a": "1"},
            "storage": {
                "nfs": {"server": "10.0.0.2", "instance": "my-filestore", "location": "us-central1-a"},
                "lustre": {
                    "claim": "lustre-pvc",
                    "server": "172.27.48.5",
                    "instance": "my-lustre",
                    "project": "my-project",
                    "location": "us-central1-a",
                },
                "gcs": {"team.logs": "/gcs:implicit-dirs", "cloud-samples-data": "/artifacts"},
                "host": {"/dev/infiniband": "/dev/infiniband"},
                "ssd": "/ssd",
            },
            "recipe": {
                "workspace": "/lustre/anna",
                "skip": {"environment": True, "clone": True},
                "train": {"virtualStage": 6, "firstStage": 22, "output": "/gcs/logs/run-1"},
            },
        },
    ),
    "plain-nfs": LaunchPlan(
        "qwen3-download", "anna-nfs", "team", {"storage": {"nfs": {"server": "10.0.0.2", "path": "/mnt"}}}
    ),
    "own-script-everything": LaunchPlan(
        "own-script",
        "anna-own",
        "team",
        {
            "recipe": {
                "script": {
                    "text": 'python train.py "$@"\n',
                    "before": "pip list",
                    "arguments": ["--steps", "100", "true"],
                    "config": "steps: 100\n",
                    "configFile": "nemo-config.yaml",
                }
            }
        },
    ),
}
