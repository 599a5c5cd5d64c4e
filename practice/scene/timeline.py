"""The story of the scene: the starts of jobs with owner and time, replayed by the controllers."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

from practice.clock import Clock, format_timestamp
from practice.objects.api_error import ApiError, Object
from practice.objects.resources import JOBSETS, NODES, PODS, PROVISIONINGREQUESTS
from practice.objects.storage import Storage
from practice.programs.launcher_stages import SCRIPT, TRAINS
from practice.scene.gke import gke_objects
from practice.scene.jobs import SceneJob, build_jobset
from practice.scene.machines import SYSTEM_POOL, all_machines, build_node, make_ready
from practice.scene.queues import SUBBLOCK, SYSTEM_PODS, base_objects, queue_objects
from practice.scene.volumes import volume_objects

HISTORY_SECONDS = 8 * 3600.0  # how far back the story begins
_MINUTE = 60.0
_READY_AFTER = 3 * _MINUTE  # when the machine that starts is ready, after the opening
_BLOCK = "cloud.google.com/gce-topology-block"
_TRAINS = {SCRIPT: TRAINS}
_SPOT = {"cloud.google.com/gke-provisioning": "spot"}

# minutes before the opening, and the job that someone started then
_JOBS: tuple[tuple[float, SceneJob], ...] = (
    (465, SceneJob("nccl-0411", "nccl-all-reduce", 16, "a4", "medium", "you", notes={"a4-practice/tests": "3"})),
    (430, SceneJob("ddp-smoke-3", "ddp-smoke", 16, "a4", "medium", "li")),
    (
        340,
        SceneJob(
            "sweep-7", "qwen3-30b-pretrain", 64, "research", "low", "you",
            env={"A4_TRAIN_ITERATIONS": "40000"}, notes={"a4-practice/pace": "60"},
        ),
    ),
    (
        250,
        SceneJob(
            "sft-a3b", "qwen3-sft", 16, "a4", "medium", "li", restarts=1,
            env={"A4_TRAIN_ITERATIONS": "4000"},
            notes={"a4-practice/fault": "oom:28:1", "a4-practice/pace": "20"},
        ),
    ),
    (
        192,
        SceneJob(
            "llama-70b", "qwen3-30b-pretrain", 64, "a4", "high", "mira", topology=("required", _BLOCK),
            env={"A4_TRAIN_ITERATIONS": "10000", "TORCH_NCCL_DEBUG_INFO_PIPE_FILE": "/tmp/a4-recorder-"},
            notes={"a4-practice/fault": "spike:3980,slow:4060,slowrank:41:26%:gpu", "a4-practice/pace": "2.0424"},
        ),
    ),
    (
        64,
        SceneJob(
            "dpo-a3b", "qwen3-30b-pretrain", 16, "a4", "medium", "li", restarts=3,
            env={"A4_TRAIN_ITERATIONS": "1200"},
            notes={"a4-practice/fault": "oom:70:0@0,nan:118@1", "a4-practice/pace": "18"},
        ),
    ),
    (
        52,
        SceneJob(
            "rag-eval", "own-script", 8, "research", "medium", "jo", namespace="team-b", node_selector=_SPOT,
            env={"A4_TRAIN_ITERATIONS": "9000"},
            notes={"a4-practice/pace": "4", "a4-practice/fault": "hang:290", **_TRAINS}, backoff=3,
        ),
    ),
    (
        45,
        SceneJob(
            "ddp-ablation", "own-script", 32, "a4", "medium", "you",
            env={"A4_TRAIN_ITERATIONS": "126"}, notes={"a4-practice/pace": "20", **_TRAINS},
        ),
    ),
    (23, SceneJob("grpo-32", "qwen3-30b-pretrain", 32, "research", "low", "sam", topology=("required", _BLOCK))),
    (
        9,
        SceneJob(
            "nccl-0412", "nccl-all-reduce", 16, "a4", "medium", "you", topology=("required", SUBBLOCK),
            notes={"a4-practice/pace": "16", "a4-practice/tests": "60"},
        ),
    ),
    (7.5, SceneJob("dpo-b", "qwen3-30b-pretrain", 32, "a4", "medium", "li")),
    (4, SceneJob("eval-32", "own-script", 32, "a4", "low", "you", notes=_TRAINS)),
)  # fmt: skip


def create_seed_objects(storage: Storage, *, opening_time: float, seed: int, faults: bool) -> None:
    """Create the objects that precede the story: namespaces, queues and nodes, with or without faults."""
    for resource, obj in (*base_objects(), *gke_objects(SYSTEM_PODS), *queue_objects(), *volume_objects()):
        storage.create(resource, _with_creation_time(obj, opening_time), keep_status=True)
    for machine in all_machines():
        storage.create(NODES, build_node(machine, opening_time, seed, faults=faults), keep_status=True)


def schedule_story(storage: Storage, clock: Clock, opening_time: float) -> None:
    """Schedule the story: the start of each job, and each failure."""
    for minutes, job in _JOBS:
        clock.call_at(opening_time - minutes * _MINUTE, partial(storage.create, JOBSETS, build_jobset(job)))
    clock.call_at(opening_time - 31 * _MINUTE, lambda: _delete_one_pod(storage, "team-b", "rag-eval"))
    clock.call_later(1, lambda: _start_system(storage))
    clock.call_at(opening_time - 6 * _MINUTE, lambda: _ask_for_machines(storage))
    clock.call_at(opening_time + _READY_AFTER, lambda: _finish_start(storage, clock))


def _ask_for_machines(storage: Storage) -> None:
    """Request two nodes from DWS, which has none for half an hour."""
    parameters = {"maxRunDurationSeconds": "86400"}
    spec = {
        "provisioningClassName": "queued-provisioning.gke.io",
        "parameters": parameters,
        "podSets": [{"count": 2, "podTemplateRef": {"name": "ppt-flex-sft-dws-prov-1-main"}}],
    }
    notes = {"a4-practice/waits": "2160"}
    meta = {"name": "flex-sft-dws-prov-1", "namespace": "team-b", "annotations": notes}
    storage.create(PROVISIONINGREQUESTS, {"metadata": meta, "spec": spec})


def _start_system(storage: Storage) -> None:
    """Start the controllers that run as pods."""
    for namespace, name, image in SYSTEM_PODS:
        app = name.removesuffix("-controller-manager")
        labels = {"app.kubernetes.io/name": app, "control-plane": "controller-manager"}
        spec = {
            "containers": [{"name": "manager", "image": image, "command": ["sleep", "infinity"]}],
            "nodeSelector": {"cloud.google.com/gke-nodepool": SYSTEM_POOL},
            "priorityClassName": "system-cluster-critical",
        }
        meta = {"generateName": f"{name}-7d9c5b6f4-", "namespace": namespace, "labels": labels}
        storage.create(PODS, {"metadata": meta, "spec": spec})


def _finish_start(storage: Storage, clock: Clock) -> None:
    for node in storage.list(NODES):
        if any(item["type"] == "Ready" and item["status"] == "False" for item in node["status"]["conditions"]):
            storage.modify_status(NODES, "", node["metadata"]["name"], lambda draft: make_ready(draft, clock.now()))


def _delete_one_pod(storage: Storage, namespace: str, jobset: str) -> None:
    """Delete a pod as if its spot node had been preempted; its Job replaces it."""
    for pod in storage.list(PODS, namespace):
        if pod["metadata"]["labels"].get("jobset.sigs.k8s.io/jobset-name") == jobset:
            with suppress(ApiError):  # gone in the meantime
                storage.delete(PODS, namespace, pod["metadata"]["name"])


def _with_creation_time(obj: Object, opening_time: float) -> Object:
    return {**obj, "metadata": {**obj["metadata"], "creationTimestamp": format_timestamp(opening_time - 41 * 86400)}}
