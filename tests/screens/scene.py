"""A small cluster for screen tests: two A4 pools and one without GPUs, jobs in every state, every kind of fault."""

import time
from typing import Any

from console.kube.objects.event import Event
from console.kube.objects.jobset import JobSet, Mount, ReplicatedJob
from console.kube.objects.meta import Condition
from console.kube.objects.node import Node, Provisioning
from console.kube.objects.pod import Container, Pod
from tests.fakes import fleet_of

NOW = time.time()


def a4(number: int, **more: Any) -> Node:
    return Node(
        name=f"gke-train-a4-pool-{number:04d}", uid=f"node-{number}", created=NOW - 86400 * 3,
        pool="a4-highgpu-8g-a4-pool", machine_type="a4-highgpu-8g", zone="us-central1-b", accelerator="nvidia-b200",
        provisioning=Provisioning.RESERVATION, reservation="train-res", block=f"blk-{number // 8}",
        subblock=f"sub-{number // 4}", host=f"host-{number:04d}", version="v1.36.4",
        internal_ip=f"10.0.0.{number}",
        **{"gpus": 8, "gpu_capacity": 8, "ready": True, "last_busbw": 590.0 + number, "scan_result": "pass", **more},
    )  # fmt: skip


def spot(number: int, **more: Any) -> Node:
    return Node(
        name=f"gke-train-spot-{number:04d}", uid=f"spot-{number}", created=NOW - 7200, pool="a4-spot",
        machine_type="a4-highgpu-8g", zone="us-central1-b", provisioning=Provisioning.SPOT, block="blk-9",
        subblock="sub-9", host=f"spot-{number}", **{"gpus": 8, "gpu_capacity": 8, "ready": True, **more},
    )  # fmt: skip


DISKS = Mount("/out", stays=True), Mount("/mnt", stays=True)  # that outlive the pods


def jobset(name: str, ranks: int, **more: Any) -> JobSet:
    return JobSet(
        namespace="default", name=name, uid=f"uid-{name}", created=NOW - 4000, queue="a4", release=name,
        groups=(ReplicatedJob("workload", replicas=1, pods_per_job=ranks, gpus_per_pod=8, ready=1, mounts=DISKS),),
        **more,
    )  # fmt: skip


def rank(job: JobSet, number: int, node: str, **more: Any) -> Pod:
    base: dict[str, Any] = {
        "phase": "Running", "ready": True, "node": node, "started": NOW - 3900,
        "containers": (Container("main", "running", ready=True, started=NOW - 3900),),
    }  # fmt: skip
    return Pod(
        namespace="default", name=f"{job.name}-workload-0-{number}-x7k{number}", uid=f"pod-{job.name}-{number}",
        created=NOW - 4000, gpus=8, jobset=job.name, jobset_uid=job.uid, replicated_job="workload", job_index=0,
        completion_index=number, owner_kind="Job", owner_name=f"{job.name}-workload-0", ip=f"10.8.0.{number}",
        **{**base, **more},
    )  # fmt: skip


def scene() -> Any:
    """The picture."""
    llama, nccl, dpo = (
        jobset("llama-70b", 8, owner="mira"),
        jobset("nccl-0412", 2, owner="you"),
        jobset("dpo-[b]", 2, owner="li"),
    )
    nodes = [a4(number) for number in range(16)]
    nodes[10] = a4(10, maintenance_at=NOW + 6 * 3600 + 60)
    nodes[13] = a4(13, ready=False, not_ready_reason="NodeStatusUnknown: Kubelet stopped posting node status.")
    nodes[14] = a4(14, cordoned=True, taints=("node.kubernetes.io/unschedulable:NoSchedule",))
    cpu = [Node(f"gke-train-system-{n}", uid=f"cpu-{n}", pool="system", machine_type="e2-standard-8",
                zone="us-central1-b", ready=True, created=NOW - 86400 * 40) for n in range(3)]  # fmt: skip
    spots = [spot(n) for n in range(3)] + [spot(3, ready=False, not_ready_reason="NodeNotReady")]
    pods = [
        *(rank(llama, n, nodes[n + (1 if n > 1 else 0)].name) for n in range(8)),
        *(rank(nccl, n, nodes[9 + n].name) for n in range(2)),
        rank(dpo, 0, spots[0].name),
        rank(dpo, 1, spots[1].name, phase="Pending", ready=False,
             containers=(Container("main", "waiting", "CrashLoopBackOff", "back-off 40s restarting failed container",
                                   restarts=3, last_exit_code=137, last_reason="OOMKilled"),)),
        Pod("kube-system", "kube-dns-7d9f-abcde", uid="dns", created=NOW - 90000, phase="Running", ready=True,
            node=cpu[0].name, containers=(Container("dns", "running", ready=True),), owner_kind="ReplicaSet",
            owner_name="kube-dns-7d9f"),
        Pod("default", "wait-0", uid="wait", created=NOW - 30, gpus=8, gated=("kueue.x-k8s.io/admission",)),
        Pod("default", "emoji-🚀-[red]x[/]", uid="emoji", created=NOW - 45, phase="Succeeded"),
    ]  # fmt: skip
    events = [
        Event("default", "e1", kind="Pod", object_name=pods[11].name, object_uid=pods[11].uid, type="Warning",
              reason="BackOff", message="Back-off restarting failed container main in pod", count=12, first=NOW - 600,
              last=NOW - 20),
        Event("default", "e2", kind="Node", object_name=nodes[13].name, object_uid=nodes[13].uid, type="Normal",
              reason="NodeNotReady", message="Node status is now: NodeNotReady", last=NOW - 60),
    ]  # fmt: skip
    failed = jobset("sweep-7", 2, conditions=(Condition("Failed", "True", "FailedJobs", "jobset failed"),))
    return fleet_of(*nodes, *cpu, *spots, *pods, *events, llama, nccl, dpo, failed)
