"""The small cluster with queues: two ClusterQueues in a cohort, workloads that run and wait, jobs in every state."""

from typing import Any

from msgspec import structs

from console.kube.objects.event import Event
from console.kube.objects.jobset import JobSet, ReplicatedJob
from console.kube.objects.meta import GPU, Condition
from console.kube.objects.pod import Container, Pod
from console.kube.objects.queue import ClusterQueue, LocalQueue, Quota, ResourceFlavor, Usage
from console.kube.objects.workload import PodSet, Workload
from console.kube.snapshot import Fleet
from console.launch.recipes import Field, FieldKind, Manifest, Recipe
from tests.fakes import fleet_of
from tests.screens.scene import DISKS, NOW, a4, rank
from trainlog import NcclHalf, NcclRow, NcclTest

RECIPE = Recipe(
    "nccl-all-reduce", "NCCL all-reduce", "W03", "Measures all-reduce.", "2 nodes", "a table", "4 minutes", "nccl-test"
)
OTHER = Recipe("ddp-smoke", "DDP smoke test", "W05", "Adds up.", "any", "PASSED", "1 minute", "ddp-test")
FIELDS = (
    Field("gpus", "GPUs", "All GPUs of the job.", FieldKind.INTEGER, 16, unit="GPUs", group="Job",
          rule="must be 1 to 8, or a multiple of 8", examples=("8", "16")),
    Field("queue", "Queue", "LocalQueue.", FieldKind.TEXT, "", choices_from="localqueues", group="Job"),
    Field("keepAlive", "Keep the pods", "Keeps them.", FieldKind.BOOLEAN, False, group="Job"),
    Field("topology.request", "Topology", "How near.", FieldKind.CHOICE, "preferred",
          choices=("preferred", "required", "none"), group="Placement"),
    Field("env", "Environment", "Variables.", FieldKind.MAP, {"A": "1"}, group="Environment", advanced=True),
    Field("hub.token", "Token", "A secret.", FieldKind.TEXT, "", secret=True, group="Environment", advanced=True),
)  # fmt: skip
MANIFESTS = (Manifest("JobSet", "me-nccl", "kind: JobSet\nmetadata:\n  name: me-nccl\n"),)


def job(name: str, ranks: int, **more: object) -> JobSet:
    about: dict[str, Any] = {"ready": more.pop("ready", 1), "mounts": more.pop("mounts", DISKS)}
    group = ReplicatedJob("workload", pods_per_job=ranks, gpus_per_pod=8, **about)
    known = {"queue": "a4", "release": name, "recipe": "nccl-all-reduce", "owner": "you", "created": NOW - 600}
    return JobSet("default", name, f"uid-{name}", groups=(group,), **{**known, **more})  # type: ignore[arg-type]


def claim(owner: JobSet, *, waits: str = "", queue: str = "a4") -> Workload:
    """The Workload of that job: running, or waiting with Kueue's message."""
    pods = (PodSet("workload", owner.ranks, ((GPU, 8),), flavors=() if waits else ((GPU, "a4"),)),)
    conditions = (
        (Condition("QuotaReserved", "False", "Pending", waits, NOW - 400),)
        if waits
        else (Condition("QuotaReserved", "True", since=NOW - 500), Condition("Admitted", "True", since=NOW - 500))
    )
    return Workload(
        owner.namespace, f"jobset-{owner.name}", f"wl-{owner.name}", NOW - 600, queue, "" if waits else "a4",
        owner_kind="JobSet", owner_name=owner.name, owner_uid=owner.uid, pod_sets=pods, conditions=conditions,
    )  # fmt: skip


def cluster_queue(name: str, used: int, **more: object) -> ClusterQueue:
    quotas = (Quota("a4", GPU, 64),)
    usage = (Usage("a4", GPU, used),)
    return ClusterQueue(name, quotas=quotas, reserved=usage, **more)  # type: ignore[arg-type]


def queue_scene() -> Fleet:
    """llama holds 48 of 64, dpo-b waits for 32, sweep has failed, old is done, big has 40 ranks that start."""
    llama, waits = (
        job("llama", 6, owner="mira", recipe="qwen3-30b-pretrain"),
        job("dpo-b", 4, suspended=True, owner="li"),
    )
    failed = job("sweep", 2, conditions=(Condition("Failed", "True", "FailedJobs", "jobset failed", NOW - 30),))
    done = job("old", 2, conditions=(Condition("Completed", "True", since=NOW - 60),))
    big = job("big", 40, ready=0, queue="research", restarts=1, max_restarts=3)
    nodes = [a4(number) for number in range(16)]
    oom = Container("main", "terminated", "OOMKilled", exit_code=137, started=NOW - 90, finished_at=NOW - 40)
    pods = [
        *(rank(llama, number, nodes[number].name) for number in range(6)),
        rank(failed, 0, nodes[8].name),
        rank(failed, 1, nodes[9].name, phase="Failed", ready=False, containers=(oom,)),
    ]
    events = [
        Event("default", "ev1", kind="JobSet", object_name="llama", object_uid=llama.uid, reason="Started",
              message="Admitted by clusterQueue a4", last=NOW - 500),
        Event("default", "ev2", kind="Pod", object_name=pods[0].name, object_uid=pods[0].uid, type="Warning",
              reason="BackOff", message="Back-off [restarting]", last=NOW - 5, count=3),
    ]  # fmt: skip
    kueue = "couldn't assign flavors to pod set workload: insufficient unused quota"
    queues = [
        cluster_queue("a4", 48, admitted=1, pending=1),
        cluster_queue("research", 0, stop_policy="Hold"),
        LocalQueue("default", "a4", cluster_queue="a4"),
        LocalQueue("default", "research", cluster_queue="research"),
        ResourceFlavor("a4", node_labels=(("cloud.google.com/gke-nodepool", "a4-highgpu-8g-a4-pool"),)),
    ]
    return fleet_of(
        *nodes, *pods, *events, *queues, llama, waits, failed, done, big, claim(llama), claim(waits, waits=kueue)
    )


def replaced(pod: Pod) -> Pod:
    """Another pod in the same place, as a Job makes it after one was lost."""
    return structs.replace(pod, name=f"{pod.name}-again", uid=f"{pod.uid}-again")


def table(*busbw: float, finished: bool = False, wrong: int = 0) -> tuple[NcclTest, ...]:
    """A test with rows from 512 MiB on, one for each bandwidth."""
    rows = tuple(
        NcclRow(
            512 << 20 << number,
            1,
            "float",
            "sum",
            -1,
            NcclHalf(10.0, value / 2, value, wrong),
            NcclHalf(11.0, 1, value - 1, 0),
        )
        for number, value in enumerate(busbw)
    )
    average = sum(busbw) / len(busbw) if finished and busbw else None
    return (NcclTest("all_reduce_perf", "2.19.6", 16, rows, average, 0 if finished else None, True, finished),)


def table_text(*busbw: float, finished: bool = False, wrong: int = 0, ranks: int = 16) -> list[str]:
    """The same test as it is printed."""
    lines = [
        "# nccl-tests version 2.19.6 nccl-headers=22900 nccl-library=22900",
        "# Collective test starting: all_reduce_perf",
        "# Using devices",
        *(f"#  Rank {rank:2} Group  0 Pid 1 on host device {rank} [00] NVIDIA B200" for rank in range(ranks)),
        "#  size  count  type  redop  root  time  algbw  busbw  #wrong  time  algbw  busbw  #wrong",
    ]
    for at, value in enumerate(busbw):
        halves = f"10.00 {value / 2:.2f} {value:.2f} {wrong} 11.00 1.00 {value - 1:.2f} 0"
        lines.append(f"  {512 << 20 << at} 1 float sum -1 {halves}")
    if finished:
        lines += [f"# Out of bounds values : {wrong} {'FAILED' if wrong else 'OK'}",
                  f"# Avg bus bandwidth    : {sum(busbw) / len(busbw):.4f}"]  # fmt: skip
    return lines
