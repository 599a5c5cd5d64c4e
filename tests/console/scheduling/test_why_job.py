from typing import Any

import pytest
from msgspec.structs import replace

from console.kube.objects.event import Event
from console.kube.objects.jobset import JobSet, ReplicatedJob
from console.kube.objects.meta import GPU, Condition
from console.kube.objects.pod import Container, Pod
from console.kube.objects.queue import ClusterQueue, LocalQueue, Quota
from console.kube.objects.workload import PodSet, Workload
from console.kube.snapshot import WatchState, WatchStatus
from console.scheduling.why import Category
from console.scheduling.why_job import why_job
from tests.fakes import fleet_of

JOB = JobSet("default", "train", "u1", queue="team", groups=(ReplicatedJob("worker", 1, 4, 8),), max_restarts=3)


def pod(index: int, *containers: Container, **given_: object) -> Pod:
    facts = {"jobset": "train", "jobset_uid": "u1", "phase": "Pending", "node": f"n{index}"}
    return Pod(
        "default", f"train-worker-0-{index}", replicated_job="worker", job_index=0, completion_index=index,
        containers=containers,
        **{**facts, **given_},  # type: ignore[arg-type]
    )  # fmt: skip


def ready(index: int) -> Pod:
    return pod(index, Container("main", "running", ready=True), phase="Running", ready=True)


def ended(code: int, at: float, reason: str = "Error") -> Container:
    return Container("main", "terminated", reason, exit_code=code, finished_at=at)


def waiting(reason: str, message: str = "", **given_: object) -> Container:
    return Container("main", "waiting", reason, message, **given_)  # type: ignore[arg-type]


def three_and(last: Pod) -> list[Pod]:
    return [ready(0), ready(1), ready(2), last]


def test_a_queue_on_a_cluster_without_kueue() -> None:
    link = WatchStatus("workloads", WatchState.ABSENT, why="the server has no kueue.x-k8s.io")
    found = why_job(replace(JOB, suspended=True), fleet_of(workloads=link))
    assert (found.category, found.api_text) == (Category.NO_QUEUE, "the server has no kueue.x-k8s.io")


def test_a_pending_job_has_the_reason_of_its_workload() -> None:
    waits = Workload("default", "w", queue="team", owner_uid="u1", pod_sets=(PodSet("worker", 4, ((GPU, 8),)),))
    queue = ClusterQueue("a4", quotas=(Quota("a4", GPU, 16),))
    found = why_job(
        replace(JOB, suspended=True), fleet_of(waits, queue, LocalQueue("default", "team", cluster_queue="a4"))
    )
    assert found.category is Category.EXCEEDS
    assert found.sentence == "needs 32 GPUs of flavor a4, but its queue can have at most 16"


@pytest.mark.parametrize(
    ("last", "category", "sentence"),
    [
        (pod(3, waiting("ImagePullBackOff", 'Back-off pulling image "x"')), Category.IMAGE,
         "1 of 4 pods cannot get its image: x could not be pulled"),
        (pod(3, waiting("ErrImagePull", 'code = NotFound desc = failed to pull image "a/b:1": a/b:1: not found')),
         Category.IMAGE, "1 of 4 pods cannot get its image: the image a/b:1 does not exist"),
        (pod(3, waiting("ErrImagePull", 'failed to pull image "a/b:1": failed to authorize: 403 Forbidden')),
         Category.IMAGE, "1 of 4 pods cannot get its image: "
         "the nodes have no permission to pull a/b:1, or it does not exist"),
        (pod(3, node="", unschedulable="0/20 nodes are available"), Category.UNSCHEDULABLE,
         "1 of 4 pods cannot be scheduled: 0/20 nodes are available"),
        (pod(3, node="", gated=("kueue.x-k8s.io/topology",)), Category.GATED,
         "1 of 4 pods is held back by a scheduling gate: kueue.x-k8s.io/topology"),
        (pod(3, waiting("ContainerCreating")), Category.STARTING, "1 of 4 pods is starting: ContainerCreating"),
        (pod(3, waiting("CreateContainerConfigError", 'secret "keys" not found')), Category.STARTING,
         '1 of 4 pods cannot start: CreateContainerConfigError: secret "keys" not found'),
        (pod(3, Container("main", "running"), phase="Running"), Category.STARTING,
         "1 of 4 pods is starting: running, not ready yet"),
        (pod(3, ended(137, 9.0, "OOMKilled"), phase="Failed"), Category.RESTARTING,
         "pod 3 ended first with exit code 137 (OOMKilled) on n3"),
        (pod(3, waiting("CrashLoopBackOff", "wait", last_exit_code=1, last_reason="Error")), Category.RESTARTING,
         "pod 3 keeps ending with exit code 1 on n3"),
    ],
)  # fmt: skip
def test_what_keeps_a_rank_from_running(last: Pod, category: Category, sentence: str) -> None:
    found = why_job(JOB, fleet_of(JOB, *three_and(last)))
    assert (found.category, found.sentence) == (category, sentence)


def test_the_first_failure_explains_a_failed_job() -> None:
    told = Condition("Failed", "True", "FailedJobs", "jobset failed due to one or more job failures")
    failed = replace(JOB, restarts=3, conditions=(told,))
    pods = [
        pod(0, ended(1, 20.0), phase="Failed", attempt=3),
        pod(1, ended(137, 10.0, "OOMKilled"), phase="Failed", attempt=3),
    ]
    found = why_job(failed, fleet_of(failed, *pods))
    assert found.sentence == "failed after 3 restarts: pod 1 ended first with exit code 137 (OOMKilled) on n1"
    assert (found.category, found.api_text) == (Category.FAILED, told.message)


def test_a_volume_that_cannot_be_mounted_is_why_until_the_pod_goes_on() -> None:
    stuck = pod(3, waiting("PodInitializing"), uid="p3", reason="")
    said = 'MountVolume.SetUp failed for volume "data" : rpc error: code = NotFound'
    failed = Event("default", "e1", object_uid="p3", type="Warning", reason="FailedMount", message=said, last=20.0)
    found = why_job(JOB, fleet_of(*three_and(stuck), failed))
    assert found.sentence == f"1 of 4 pods cannot start: FailedMount: {said}"
    pulls = Event("default", "e2", object_uid="p3", reason="Pulling", message="Pulling image", last=30.0)
    assert "is starting" in why_job(JOB, fleet_of(*three_and(stuck), failed, pulls)).sentence


SUSPENDED, FAILED = replace(JOB, suspended=True), replace(JOB, conditions=(Condition("Failed", "True"),))
AGAIN, DONE = replace(JOB, restarts=2), replace(JOB, conditions=(Condition("Completed", "True"),))
GONE = replace(JOB, conditions=(Condition("Failed", "True", "FailedJobs", "no more restarts"),))
ADMITTED = Workload("default", "w", owner_uid="u1", conditions=(Condition("Admitted", "True"),))
CREATING = waiting("ContainerCreating")
REASONS: dict[str, tuple[JobSet, list[Any], Category, str | None]] = {
    "suspended without a queue": (
        replace(SUSPENDED, queue=""), [], Category.NO_QUEUE,
        "is suspended and has no queue, so no controller starts it",
    ),
    "not seen by Kueue": (SUSPENDED, [], Category.NOT_EVALUATED, None),
    "admitted and not started yet": (SUSPENDED, [ADMITTED], Category.STARTING, None),
    "ranks without a pod": (JOB, [ready(0)], Category.STARTING, "3 of 4 pods are pending: not created yet"),
    "the most telling of several troubles": (
        JOB, [pod(0, CREATING), pod(1, waiting("ErrImagePull", "denied")), pod(2, ended(1, 5.0))], Category.RESTARTING,
        "pod 2 ended first with exit code 1 on n2",
    ),
    "a restart": (
        AGAIN, [pod(at, CREATING, attempt=2) for at in range(4)], Category.RESTARTING,
        "4 of 4 pods are starting: ContainerCreating; restart 2 of 3",
    ),
    "failed, its pods are gone": (GONE, [], Category.FAILED, "failed: no more restarts"),
    "an evicted pod": (
        FAILED, [pod(2, phase="Failed", reason="Evicted")], Category.FAILED,
        "failed: pod 2 failed first (Evicted) on n2",
    ),
    "done": (DONE, [], Category.FINISHED, ""),
    "running": (JOB, [ready(at) for at in range(4)], Category.RUNNING, ""),
    "stopped before all else": (replace(SUSPENDED, deletion_asked_at=1.0), [], Category.STOPPING, None),
}  # fmt: skip


@pytest.mark.parametrize("what", REASONS)
def test_why_a_job_does_not_run(what: str) -> None:
    job, objects, category, sentence = REASONS[what]
    found = why_job(job, fleet_of(*([job] if objects else []), *objects))
    assert found.category is category
    assert sentence is None or found.sentence == sentence
