"""Kueue: who is admitted, who waits and why, who has to go for whom."""

from typing import Any

import pytest

from practice.controllers.objects import find_condition
from practice.objects.api_error import ApiError
from practice.objects.resources import (
    ADMISSIONCHECKS,
    CLUSTERQUEUES,
    CONFIGMAPS,
    DEPLOYMENTS,
    JOBS,
    JOBSETS,
    LOCALQUEUES,
    RESOURCEFLAVORS,
    WORKLOADS,
)
from tests.practice.world import GPU, QUEUE, World, jobset, phases, why

_FAILED = "couldn't assign flavors to pod set w"


def queue(world: World, name: str) -> dict[str, object]:
    found: dict[str, object] = world.storage.get(CLUSTERQUEUES, "", name)["status"]
    return found


def test_a_resource_without_quota_is_named(world: World) -> None:
    made = jobset("cpu")
    pod = made["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    pod["containers"][0]["resources"]["limits"]["cpu"] = "4"
    world.add(JOBSETS, made)
    world.play()
    assert world.waits_for("cpu") == "couldn't assign flavors to pod set w: resource cpu unavailable in ClusterQueue"


def test_a_small_job_overtakes_in_best_effort(world: World) -> None:
    world.jobset("big", 8)
    world.jobset("more", 8)
    world.jobset("small", 1)
    assert phases(world.pods("small")) == ["Running"]


def test_nobody_overtakes_in_strict_fifo(world: World) -> None:
    world.storage.modify(CLUSTERQUEUES, "", "a4", lambda draft: draft["spec"].update(queueingStrategy="StrictFIFO"))
    world.jobset("big", 8)
    world.jobset("more", 8)
    world.jobset("small", 1)
    assert world.pods("small") == []
    assert find_condition(world.workload("small"), "QuotaReserved") is None
    world.storage.delete(JOBSETS, "default", "more")
    world.play(60)
    assert phases(world.pods("small")) == ["Running"]


def test_a_job_of_the_same_shape_is_not_even_tried(world: World) -> None:
    world.jobset("big", 8)
    world.jobset("more", 8)
    world.jobset("same", 8)
    assert world.workload("same").get("status", {}).get("conditions") is None


def test_a_queue_borrows_what_its_cohort_lends(world: World) -> None:
    world.jobset("lent", 6, queue="research")
    row = {"name": GPU, "total": "48", "borrowed": "32"}
    usage = queue(world, "research")["flavorsUsage"]
    assert isinstance(usage, list)
    assert usage[0] == {"name": "a4", "resources": [row]}
    name = world.workload("lent")["metadata"]["name"]
    (text,) = world.events(name, "QuotaReserved")
    assert text.startswith("Quota reserved in ClusterQueue research, wait time since queued was ")
    assert text.endswith("s; Flavors considered: w: a4(Fit;borrow=1)")


def test_the_more_urgent_takes_the_place_of_the_less(world: World) -> None:
    world.jobset("idle", 12, topology=("preferred", "cloud.google.com/gce-topology-block"), priority="low")
    world.jobset("urgent", 4, priority="high")
    assert phases(world.pods("urgent")) == ["Running"] * 4
    assert why(world.workload("idle"), "Preempted")[1] == "InClusterQueue"
    name = world.workload("urgent")["metadata"]["name"]
    pending = world.events(name, "Pending")
    assert pending[0].endswith("more needed. Pending the preemption of 1 workload(s)")
    (told,) = world.events(name, "PreemptedWorkload")
    assert told.endswith(
        "in ClusterQueue a4; preemptor effective priority: 750 (base: 750, boost: 0); "
        "preemptee effective priority: 250 (base: 250, boost: 0)"
    )


def test_an_evicted_job_comes_back(world: World) -> None:
    world.jobset("idle", 12, topology=("preferred", "cloud.google.com/gce-topology-block"), priority="low")
    world.jobset("urgent", 4, priority="high", command="sleep 120")
    world.play(300)
    idle = world.workload("idle")
    assert phases(world.pods("idle")) == ["Running"] * 12
    status, reason, text = why(idle, "Evicted")
    assert (status, reason) == ("False", "QuotaReserved")
    assert text.startswith("Previously: Preempted to accommodate")
    assert idle["status"]["accumulatedPastExecutionTimeSeconds"] >= 25


def test_equals_do_not_preempt(world: World) -> None:
    world.jobset("first", 12, topology=("preferred", "cloud.google.com/gce-topology-block"))
    world.jobset("second", 4)
    assert world.pods("second") == []


@pytest.mark.parametrize(
    ("policy", "running", "text"),
    [("Hold", 2, "ClusterQueue a4 is inactive"), ("HoldAndDrain", 0, "ClusterQueue a4 is inactive")],
)
def test_a_stopped_cluster_queue(world: World, policy: str, running: int, text: str) -> None:
    world.jobset("before")
    world.storage.modify(CLUSTERQUEUES, "", "a4", lambda draft: draft["spec"].update(stopPolicy=policy))
    world.jobset("after")
    assert len(world.pods("before")) == running
    assert world.waits_for("after") == text
    found = why(world.storage.get(CLUSTERQUEUES, "", "a4"), "Active")
    assert found == ("False", "Stopped", "Can't admit new workloads: is stopped.")
    local = why(world.storage.get(LOCALQUEUES, "default", "a4"), "Active")
    assert local == ("False", "ClusterQueueIsInactive", "Can't submit new workloads to clusterQueue")
    world.storage.modify(CLUSTERQUEUES, "", "a4", lambda draft: draft["spec"].update(stopPolicy="None"))
    world.play(60)
    assert phases(world.pods("before") + world.pods("after")) == ["Running"] * 4


def test_a_drained_local_queue(world: World) -> None:
    world.jobset("before")
    world.storage.modify(LOCALQUEUES, "default", "a4", lambda draft: draft["spec"].update(stopPolicy="HoldAndDrain"))
    world.play()
    assert why(world.workload("before"), "Evicted") == ("True", "LocalQueueStopped", "The LocalQueue is stopped")
    assert world.waits_for("before") == "LocalQueue a4 is inactive"
    world.storage.modify(LOCALQUEUES, "default", "a4", lambda draft: draft["spec"].update(stopPolicy="None"))
    world.play(60)
    assert phases(world.pods("before")) == ["Running"] * 2
    again = why(world.workload("before"), "Requeued")
    assert again == ("True", "LocalQueueRestarted", "The LocalQueue was restarted after being stopped")


def test_a_deactivated_workload_stops_and_comes_back(world: World) -> None:
    world.jobset("train")
    name = world.workload("train")["metadata"]["name"]
    world.storage.modify(WORKLOADS, "default", name, lambda draft: draft["spec"].update(active=False))
    world.play(60)
    assert why(world.workload("train"), "Evicted") == ("True", "Deactivated", "The workload is deactivated")
    assert world.pods("train") == []
    world.storage.modify(WORKLOADS, "default", name, lambda draft: draft["spec"].update(active=True))
    world.play(60)
    assert phases(world.pods("train")) == ["Running"] * 2
    assert why(world.workload("train"), "Requeued") == ("True", "Reactivated", "The workload was reactivated")


def test_a_job_that_takes_too_long_is_deactivated(world: World) -> None:
    made = jobset("slow")
    made["metadata"]["labels"]["kueue.x-k8s.io/max-exec-time-seconds"] = "60"
    world.add(JOBSETS, made)
    world.play(120)
    text = "The workload is deactivated due to exceeding the maximum execution time"
    found = why(world.workload("slow"), "Evicted")
    assert found == ("True", "DeactivatedDueToMaximumExecutionTimeExceeded", text)


def test_a_missing_flavor_stops_a_queue(world: World) -> None:
    world.storage.delete(RESOURCEFLAVORS, "", "a4")
    world.play(1)
    found = why(world.storage.get(CLUSTERQUEUES, "", "a4"), "Active")
    assert found == ("False", "FlavorNotFound", "Can't admit new workloads: references missing ResourceFlavor(s): a4.")


def test_the_queue_of_a_running_job_may_not_change(world: World) -> None:
    world.jobset("train")
    with pytest.raises(ApiError) as refused:
        world.storage.modify(
            JOBSETS, "default", "train", lambda draft: draft["metadata"]["labels"].update({QUEUE: "research"})
        )
    assert refused.value.status == 403
    assert refused.value.message == (
        'admission webhook "vjobset.kb.io" denied the request: metadata.labels[kueue.x-k8s.io/queue-name]: '
        'Invalid value: "research": field is immutable'
    )


def test_a_waiting_job_may_change_its_queue(world: World) -> None:
    world.jobset("big", 12, topology=("preferred", "cloud.google.com/gce-topology-block"))
    world.jobset("other", 4)
    world.storage.modify(
        JOBSETS, "default", "other", lambda draft: draft["metadata"]["labels"].update({QUEUE: "research"})
    )
    world.play(60)
    assert phases(world.pods("other")) == ["Running"] * 4


def test_a_finished_workload_frees_its_quota(world: World) -> None:
    world.jobset("short", command="sleep 5")
    found = why(world.workload("short"), "Finished")
    assert found == ("True", "Succeeded", "jobset completed successfully")
    assert queue(world, "a4")["reservingWorkloads"] == 0
    assert "finalizers" not in world.workload("short")["metadata"]


def test_a_plain_job_has_a_workload_too(world: World) -> None:
    from practice.objects.resources import PODS

    template = jobset("x")["spec"]["replicatedJobs"][0]["template"]["spec"]
    job = {"metadata": {"name": "single", "labels": {QUEUE: "a4"}}, "spec": template}
    world.add(JOBS, job)
    world.play(60)
    (workload,) = world.storage.list(WORKLOADS)
    assert workload["metadata"]["name"].startswith("job-single-")
    assert workload["spec"]["podSets"][0]["name"] == "main"
    assert phases(world.storage.list(PODS, "default")) == ["Running"] * 2


def checked(world: World) -> None:
    """The queue a4 admits what two checks agree to, one of them of machines of the flavor a4."""
    active = {"type": "Active", "status": "True", "reason": "Active", "message": ""}
    for name in ("budget", "capacity"):
        world.add(ADMISSIONCHECKS, {"metadata": {"name": name}, "spec": {"controllerName": "example.com/hand"}})
        world.storage.modify(
            ADMISSIONCHECKS, "", name,
            lambda draft: draft.setdefault("status", {}).update(conditions=[active]), subresource="status",
        )  # fmt: skip
    asked = [{"name": "capacity", "onFlavors": ["a4"]}, {"name": "budget"}]
    world.storage.modify(
        CLUSTERQUEUES, "", "a4", lambda draft: draft["spec"].update(admissionChecksStrategy={"admissionChecks": asked})
    )
    world.play()


def answer(world: World, job: str, seconds: float = 60, **states: dict[str, object]) -> None:
    def change(obj: dict[str, Any]) -> None:
        for each in obj["status"]["admissionChecks"]:
            each |= states.get(each["name"], {})

    world.storage.modify(WORKLOADS, "default", world.workload(job)["metadata"]["name"], change, subresource="status")
    world.play(seconds)


def kueue(world: World, version: str, gates: str = "") -> None:
    """As an administrator changes it: the image of its manager, and its ConfigMap."""
    container = {"name": "manager", "image": f"registry.k8s.io/kueue/kueue:{version}"}
    meta = {"name": "kueue-controller-manager", "namespace": "kueue-system"}
    if world.storage.find(DEPLOYMENTS, "kueue-system", meta["name"]) is not None:
        world.storage.delete(DEPLOYMENTS, "kueue-system", meta["name"])
    world.add(DEPLOYMENTS, {"metadata": meta, "spec": {"template": {"spec": {"containers": [container]}}}})
    if gates:
        text = {"controller_manager_config.yaml": f"featureGates: {{{gates}}}"}
        world.add(CONFIGMAPS, {"metadata": {"name": "kueue-manager-config", "namespace": "kueue-system"}, "data": text})


@pytest.mark.parametrize(
    ("version", "gates", "words", "reason"),
    [
        ("v0.17.1", "", "Admission check(s): capacity, were rejected", "NoReservationUnsatisfiedChecks"),
        ("v0.19.2", "", 'AdmissionCheck in Rejected state: "capacity" (no machines)', "NoReservationUnsatisfiedChecks"),
        ("v0.19.2", "UnadmittedWorkloadsObservability: true",
         'AdmissionCheck in Rejected state: "capacity" (no machines)', "NoReservation"),
    ],
)  # fmt: skip
def test_it_speaks_as_the_version_that_its_image_names(
    world: World, version: str, gates: str, words: str, reason: str
) -> None:
    kueue(world, version, gates)
    checked(world)
    world.jobset("one")
    answer(world, "one", budget={"state": "Ready"}, capacity={"state": "Ready"})
    answer(world, "one", capacity={"state": "Rejected", "message": "no machines"})
    assert why(world.workload("one"), "Evicted")[2] == f"The workload is deactivated due to {words}"
    assert why(world.workload("one"), "Admitted")[:2] == ("False", reason)
    world.jobset("huge", 100)
    token = "ExceedsMaxQuota" if gates else "Pending"
    assert why(world.workload("huge"), "QuotaReserved")[:2] == ("False", token)


def test_a_job_that_may_be_smaller_starts_with_the_pods_that_there_is_quota_for(world: World) -> None:
    world.jobset("before", 6)
    template = jobset("x")["spec"]["replicatedJobs"][0]["template"]["spec"] | {"parallelism": 64, "completions": 64}
    template["template"]["metadata"] = {}  # its pods may be in several blocks
    notes = {"kueue.x-k8s.io/job-min-parallelism": "2"}
    world.add(JOBS, {"metadata": {"name": "single", "labels": {QUEUE: "a4"}, "annotations": notes}, "spec": template})
    world.play(60)
    (workload,) = [each for each in world.storage.list(WORKLOADS) if "job-single" in each["metadata"]["name"]]
    (pod_set,) = workload["spec"]["podSets"]
    (assigned,) = workload["status"]["admission"]["podSetAssignments"]
    nominal = queue(world, "a4")["flavorsReservation"][0]["resources"][0]["total"]  # type: ignore[index]
    assert (pod_set["count"], pod_set["minCount"]) == (64, 2)
    assert 2 <= assigned["count"] < 64
    assert int(nominal) == 8 * (6 + assigned["count"])
    assert assigned["resourceUsage"][GPU] == str(8 * assigned["count"])
    assert world.get(JOBS, "single")["spec"]["parallelism"] == assigned["count"]
    key = ("default", workload["metadata"]["name"])
    world.storage.modify(WORKLOADS, *key, lambda draft: draft["spec"].update(active=False))
    world.play(60)
    job = world.get(JOBS, "single")
    assert (job["spec"]["suspend"], job["spec"]["parallelism"]) == (True, 64)


def test_what_a_check_adds_is_on_the_pods(world: World) -> None:
    checked(world)
    world.jobset("one")
    update = {"name": "w", "nodeSelector": {"kubernetes.io/os": "linux"}, "labels": {"asked": "yes"}}
    answer(world, "one", budget={"state": "Ready"}, capacity={"state": "Ready", "podSetUpdates": [update]})
    pods = world.pods("one")
    assert phases(pods) == ["Running"] * 2
    assert {pod["metadata"]["labels"]["asked"] for pod in pods} == {"yes"}
