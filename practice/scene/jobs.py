"""The JobSets of the scene, shaped like those of the console's chart."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from getpass import getuser

from practice.objects.api_error import Object

_IMAGE = "us-central1-docker.pkg.dev/practice/images/pytorch-gpu-nemo-nccl:nemo25.04-gib1.0.6-A4"
_QUEUE = "kueue.x-k8s.io/"
_ANNOTATION_PREFIX = "a4.console/"
OWN_USER = "you"  # owner of the jobs that belong to whoever practises
_ALREADY_THERE = {
    "SKIP_ENV_SETUP": "true",
    "SKIP_CLONE_REPO": "true",
    "SKIP_DOWNLOAD_DATA": "true",
    "SKIP_DATA_BUILD": "true",
    "SKIP_CHECKPOINT_CONVERSION": "true",
    "SKIP_TRAINING": "false",
    "A4_GLOBAL_BATCH_SIZE": "1024",
}
"""Variables of launchers that find code, data and converted weights of earlier jobs in the shared storage."""
_FOLDERS: tuple[tuple[str, str, dict[str, str]], ...] = (
    ("shm", "/dev/shm", {"medium": "Memory", "sizeLimit": "250Gi"}),  # a path in pods
    ("gib", "/usr/local/gib", {}),
    ("third-party", "/third_party", {}),
)
"""(volume, mount path, emptyDir options) of each folder that the chart gives to every pod beside its storage."""


@dataclass(frozen=True)
class SceneJob:
    """One job of the full opening scene."""

    name: str
    recipe: str
    gpus: int
    queue: str
    priority: str
    owner: str
    namespace: str = "default"
    topology: tuple[str, str] = ("preferred", "cloud.google.com/gce-topology-block")
    """("preferred" or "required", level) of the job's topology request."""
    restarts: int = 0
    env: dict[str, str] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    node_selector: dict[str, str] = field(default_factory=dict)
    backoff: int = 0


def _valid_label(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name)[:63].strip("-._")


def build_jobset(job: SceneJob) -> Object:
    """Return the JobSet, as the chart would render it without Helm's own marks."""
    nodes, gpus = max(1, job.gpus // 8), min(8, job.gpus)
    marks = {
        "app.kubernetes.io/name": "a4",
        "app.kubernetes.io/instance": job.name,
        "app.kubernetes.io/component": "workload",
        f"{_ANNOTATION_PREFIX}recipe": job.recipe,
        f"{_ANNOTATION_PREFIX}owner": _valid_label(getuser()) if job.owner == OWN_USER else job.owner,
    }
    kind, level = job.topology
    notes = {
        "kubectl.kubernetes.io/default-container": "workload",
        f"{_QUEUE}podset-{kind}-topology": level,
        **job.notes,
    }
    spec = {
        "parallelism": nodes,
        "completions": nodes,
        "completionMode": "Indexed",
        "backoffLimit": job.backoff,
        "template": {"metadata": {"labels": marks, "annotations": notes}, "spec": _pod_template(job, nodes, gpus)},
    }
    labels = {**marks, f"{_QUEUE}queue-name": job.queue, f"{_QUEUE}priority-class": job.priority}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": job.name, "namespace": job.namespace, "labels": labels},
        "spec": {
            "failurePolicy": {"maxRestarts": job.restarts},
            "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True},
            "ttlSecondsAfterFinished": 43200,
            "replicatedJobs": [{"name": "workload", "replicas": 1, "template": {"spec": spec}}],
        },
    }


def _pod_template(job: SceneJob, nodes: int, gpus: int) -> Object:
    pod: Object = {
        "restartPolicy": "Never",
        "tolerations": [
            {"key": "nvidia.com/gpu", "operator": "Exists"},
            {"key": "cloud.google.com/impending-node-termination", "operator": "Exists"},
        ],
        "containers": [
            {
                "name": "workload",
                "image": _IMAGE,
                "imagePullPolicy": "Always",
                "command": ["bash", "/a4/launchers/run.sh"],
                "ports": [{"name": "ssh", "containerPort": 2222}],
                "env": _job_environment(job, nodes, gpus),
                "resources": {"limits": {"nvidia.com/gpu": str(gpus)}},
                "volumeMounts": [{"name": name, "mountPath": path} for name, path, _ in _FOLDERS],
            }
        ],
        "volumes": [{"name": name, "emptyDir": dict(source)} for name, _, source in _FOLDERS],
    }
    if job.node_selector:
        pod["nodeSelector"] = dict(job.node_selector)
    return pod


def _nccl_env(*, small: bool) -> dict[str, str]:
    """Return the chart's default NCCL variables."""
    gib = "/usr/local/gib"
    values = {"NCCL_DEBUG": "WARN", "NCCL_SOCKET_IFNAME": "eth0,eth1", "NCCL_PLUGIN_PATH": f"{gib}/lib64"}
    values["NCCL_RAS_ENABLE"] = "1"
    if small:
        return {**values, "NCCL_NET": "Socket"}
    tuner = f"{gib}/configs/tuner_config_a4.txtpb"
    script = f"{gib}/scripts/set_nccl_env.sh"
    return {**values, "NCCL_NET": "gIB", "NCCL_INIT_SCRIPT": script, "NCCL_TUNER_CONFIG_PATH": tuner}


def _job_environment(job: SceneJob, nodes: int, gpus: int) -> list[Object]:
    domain = f"{job.name}.{job.namespace}.svc.cluster.local"
    values = {
        "A4_RECIPE": job.recipe,
        "JOB_ID": job.name,
        "JOB_ORCHESTRATOR": "gke",
        "HOSTNAME_PREFIX": f"{job.name}-workload-",
        "DOMAIN_NAME": domain,
        "RANK_0_FQDN": f"{job.name}-workload-0-0.{domain}",
        "MASTER_ADDR": f"{job.name}-workload-0-0.{domain}",
        "MASTER_PORT": "6002",
        "WORLD_SIZE": str(job.gpus),
        "NNODES": str(nodes),
        "GPUS_PER_NODE": str(gpus),
        "SLEEP_INFINITY": "false",
        **_nccl_env(small=job.gpus < 8),
        **(_ALREADY_THERE if job.recipe.startswith("qwen3") else {}),
        **job.env,
    }
    return [{"name": name, "value": value} for name, value in values.items()]
