"""Kueue: who is admitted, where, and what the others are told, word for word."""

import datetime

import pytest

from tests.contract.client import MERGE_PATCH, Object
from tests.contract.cluster import BATCH, CORE, JOBSETS, KUEUE, eventually, soon
from tests.contract.space import BLOCK, GPU, SUBBLOCK, Space, condition

LOWER = {"withinClusterQueue": "LowerPriority"}
SHORT = "couldn't assign flavors to pod set workers: insufficient unused quota for nvidia.com/gpu in flavor a4, "


def words_of(found: Object, space: Space) -> tuple[str, str, str]:
    """Status, reason and message of a condition."""
    return found["status"], found["reason"], space.plain(found["message"])


async def three_jobs(space: Space) -> None:
    """64 GPUs; two jobs take 48 of them, the third needs 32."""
    await space.queue("team", 64, preemption=LOWER)
    await space.jobset("one", "team", 2)
    await space.pods("one", 2)
    await second_after(await space.admission("one", "QuotaReserved"))
    await space.jobset("two", "team", 4)
    await space.pods("two", 4)
    await space.jobset("three", "team", 4)
    await space.admission("three", "QuotaReserved", "False")


async def second_after(condition: Object) -> None:
    """Until a time written now is later: times in the API are whole seconds, and the newest is found by them."""
    over = datetime.datetime.fromisoformat(condition["lastTransitionTime"]) + datetime.timedelta(seconds=1)
    await soon(lambda: datetime.datetime.now(datetime.UTC) > over, "a second has passed")


@pytest.mark.slow(reason="runs jobs on a whole cluster")
async def test_three_jobs_and_a_quota_for_two(space: Space) -> None:
    await three_jobs(space)
    for job in ("one", "two"):
        reserved = await space.admission(job, "QuotaReserved")
        assert words_of(reserved, space) == ("True", "QuotaReserved", "Quota reserved in ClusterQueue team")
        admitted = await space.admission(job, "Admitted")
        assert words_of(admitted, space) == ("True", "Admitted", "The workload is admitted")
    waiting = await space.admission("three", "QuotaReserved", "False")
    assert words_of(waiting, space) == ("False", "Pending", f"{SHORT}16 more needed")
    workload = (await space.api.get(space.path(KUEUE, "workloads", await space.workload("three")))).made
    assert [each["type"] for each in workload["status"]["conditions"]] == ["QuotaReserved"]
    assert workload["status"]["resourceRequests"] == [{"name": "workers", "resources": {GPU: "32"}}]
    assert await space.items(CORE, "pods", labelSelector="jobset.sigs.k8s.io/jobset-name=three") == []


@pytest.mark.slow(reason="runs jobs on a whole cluster")
async def test_a_job_says_whether_it_is_held(space: Space) -> None:
    await three_jobs(space)
    held = await space.condition(JOBSETS, "jobsets", "three", "Suspended")
    assert words_of(held, space) == ("True", "SuspendedJobs", "jobset is suspended")
    spec = (await space.api.get(space.path(JOBSETS, "jobsets", "three"))).made["spec"]
    assert spec["suspend"] is True


@pytest.mark.slow(reason="runs jobs on a whole cluster")
async def test_the_queues_count_what_they_hold(space: Space) -> None:
    await three_jobs(space)
    path = f"{KUEUE}/clusterqueues/{space.name}-team"

    async def counted() -> bool:
        status = (await space.api.get(path)).made["status"]
        return (status["pendingWorkloads"], status["admittedWorkloads"]) == (1, 2)

    await eventually(counted, "one waits, two are admitted")
    status = (await space.api.get(path)).made["status"]
    used = [{"name": f"{space.name}-a4", "resources": [{"borrowed": "0", "name": GPU, "total": "48"}]}]
    assert (status["flavorsUsage"], status["flavorsReservation"], status["reservingWorkloads"]) == (used, used, 2)
    assert words_of(condition({"status": status}, "Active"), space) == ("True", "Ready", "Can admit new workloads")
    local = await space.wait(KUEUE, "localqueues", "team", lambda queue: queue["status"].get("pendingWorkloads") == 1)
    assert local["status"]["flavorsUsage"] == [
        {"name": f"{space.name}-a4", "resources": [{"name": GPU, "total": "48"}]}
    ]
    assert words_of(condition(local, "Active"), space) == ("True", "Ready", "Can submit new workloads to localQueue")


@pytest.mark.slow(reason="runs jobs on a whole cluster")
async def test_the_order_of_those_who_wait(space: Space) -> None:
    await three_jobs(space)
    urgent = await space.priority("urgent", 1000)
    await space.jobset("four", "team", 16, priority=urgent, topology="")
    await space.admission("four", "QuotaReserved", "False")
    path = f"/apis/visibility.kueue.x-k8s.io/v1beta2/clusterqueues/{space.name}-team/pendingworkloads"

    async def both() -> list[Object]:
        items: list[Object] = (await space.api.get(path)).made["items"] or []
        return items if len(items) == 2 else []

    items = await eventually(both, "two wait in the queue")
    order = [(space.plain(item["metadata"]["name"]), item["positionInClusterQueue"]) for item in items]
    assert order == [("jobset-four-<hash>", 0), ("jobset-three-<hash>", 1)]
    assert [(item["priority"], item["localQueueName"]) for item in items] == [(1000, "team"), (0, "team")]


async def test_what_can_never_fit_is_reported(space: Space) -> None:
    await space.queue("team", 64)
    await space.jobset("huge", "team", 9, topology="")
    found = await space.admission("huge", "QuotaReserved", "False")
    assert words_of(found, space) == (
        "False",
        "Pending",
        "couldn't assign flavors to pod set workers: insufficient quota for nvidia.com/gpu in flavor a4, "
        "previously considered podsets requests (0) + current podset request (72) > maximum capacity (64)",
    )


@pytest.mark.slow(reason="runs jobs on a whole cluster")
async def test_a_quota_below_what_is_in_use_counts_as_used_up(space: Space) -> None:
    await space.queue("team", 32)
    await space.jobset("running", "team", 4)
    await space.pods("running", 4)
    path = f"{KUEUE}/clusterqueues/{space.name}-team"
    groups = (await space.api.get(path)).made["spec"]["resourceGroups"]
    groups[0]["flavors"][0]["resources"][0]["nominalQuota"] = "16"
    answer = await space.api.send("PATCH", path, {"spec": {"resourceGroups": groups}}, MERGE_PATCH)
    assert answer.status == 200, answer.body
    await space.jobset("next", "team", 2)
    waiting = await space.admission("next", "QuotaReserved", "False")
    assert words_of(waiting, space) == ("False", "Pending", f"{SHORT}16 more needed")


async def test_quota_without_a_place_for_it(space: Space) -> None:
    """Eight machines are free of quota, but a subblock has four."""
    await space.queue("team", 128)
    await space.jobset("wide", "team", 5)
    found = await space.admission("wide", "QuotaReserved", "False")
    assert words_of(found, space) == (
        "False",
        "Pending",
        'couldn\'t assign flavors to pod set workers: topology "gke-default" allows to fit only 4 out of 5 pod(s)',
    )


async def test_without_a_place_in_the_first_flavor_the_next_is_tried(space: Space) -> None:
    """Quota is free in both flavors, and only the second has machines."""
    flavors = [await space.flavor("first", "no-such-pool"), await space.flavor()]
    quota = [{"name": GPU, "nominalQuota": 32}]
    group = {"coveredResources": [GPU], "flavors": [{"name": name, "resources": quota} for name in flavors]}
    await space.queue("team", 0, resourceGroups=[group])
    await space.jobset("one", "team", 2)
    await space.admission("one", "Admitted")
    workload = (await space.api.get(space.path(KUEUE, "workloads", await space.workload("one")))).made
    (podset,) = workload["status"]["admission"]["podSetAssignments"]
    assert podset["flavors"] == {GPU: flavors[1]}
    await space.pods("one", 2)


async def test_a_queue_that_does_not_exist(space: Space) -> None:
    await space.jobset("lost", "nowhere", 1)
    found = await space.admission("lost", "QuotaReserved", "False")
    assert words_of(found, space) == ("False", "Inadmissible", "LocalQueue nowhere doesn't exist")


async def test_a_stopped_queue_admits_nobody(space: Space) -> None:
    await space.queue("team", 64, stopPolicy="Hold")
    await space.jobset("one", "team", 1)
    found = await space.admission("one", "QuotaReserved", "False")
    assert words_of(found, space) == ("False", "Inadmissible", "ClusterQueue team is inactive")
    path = f"{KUEUE}/clusterqueues/{space.name}-team"
    await space.api.send("PATCH", path, {"spec": {"stopPolicy": "None"}}, MERGE_PATCH)
    await space.pods("one", 1)


@pytest.mark.slow(reason="runs jobs on a whole cluster")
async def test_when_one_ends_the_next_begins(space: Space) -> None:
    await three_jobs(space)
    await space.condition(JOBSETS, "jobsets", "three", "Suspended")
    for pod in await space.pods("one", 2):
        await space.end(pod["metadata"]["name"])
    await space.admission("one", "Finished")
    await space.admission("three", "Admitted")
    await space.pods("three", 4)
    # Only of a job that was seen waiting: one admitted at once is never said to be resumed.
    running = await space.condition(JOBSETS, "jobsets", "three", "Suspended", "False")
    assert words_of(running, space) == ("False", "ResumeJobs", "jobset is resumed")


async def places(space: Space, job: str, count: int, level: str) -> set[str]:
    """Where the pods of a job run, at one level of the topology."""
    found = set()
    for pod in await space.pods(job, count):
        node = (await space.api.get(f"{CORE}/nodes/{pod['spec']['nodeName']}")).made
        found.add(node["metadata"]["labels"][level])
    return found


async def test_a_job_stays_on_one_subblock(space: Space) -> None:
    await space.queue("team", 128)
    await space.jobset("four", "team", 4)
    assert len(await places(space, "four", 4, SUBBLOCK)) == 1
    assert len(await places(space, "four", 4, "kubernetes.io/hostname")) == 4


async def test_a_job_stays_on_one_block(space: Space) -> None:
    await space.queue("team", 128)
    await space.jobset("eight", "team", 8, topology=BLOCK)
    assert len(await places(space, "eight", 8, BLOCK)) == 1
    assert len(await places(space, "eight", 8, SUBBLOCK)) == 2


@pytest.mark.slow(reason="runs jobs on a whole cluster")
async def test_small_jobs_share_a_subblock_before_they_open_another(space: Space) -> None:
    """Two machines here, four there: the second pair fills the gap of the first."""
    await space.queue("team", 128)
    for job, nodes in (("pair", 2), ("four", 4), ("other", 2)):
        await space.jobset(job, "team", nodes)
        await space.pods(job, nodes)
    assert await places(space, "pair", 2, SUBBLOCK) == await places(space, "other", 2, SUBBLOCK)


async def test_the_assignment_lists_the_hosts_the_pods_run_on(space: Space) -> None:
    await space.queue("team", 128)
    await space.jobset("four", "team", 4)
    hosts = {pod["spec"]["nodeName"] for pod in await space.pods("four", 4)}
    workload = (await space.api.get(space.path(KUEUE, "workloads", await space.workload("four")))).made
    (podset,) = workload["status"]["admission"]["podSetAssignments"]
    assert workload["status"]["admission"]["clusterQueue"] == f"{space.name}-team"
    assert (podset["name"], podset["count"], podset["resourceUsage"]) == ("workers", 4, {GPU: "32"})
    assert podset["flavors"] == {GPU: f"{space.name}-a4"}
    assert podset["topologyAssignment"]["levels"] == ["kubernetes.io/hostname"]
    assert assigned(podset["topologyAssignment"]) == hosts


def assigned(assignment: Object) -> set[str]:
    """The hosts of a compressed topology assignment."""
    hosts = set()
    for part in assignment["slices"]:
        (values,) = part["valuesPerLevel"]
        if "universal" in values:
            hosts.add(values["universal"])
        else:
            each = values["individual"]
            hosts |= {each.get("prefix", "") + root + each.get("suffix", "") for root in each["roots"]}
    return hosts


async def test_what_a_workload_asks(space: Space) -> None:
    await space.queue("team", 64)
    urgent = await space.priority("urgent", 1000)
    await space.jobset("one", "team", 2, priority=urgent)
    name = await space.workload("one")
    workload = (await space.api.get(space.path(KUEUE, "workloads", name))).made
    spec, jobset = workload["spec"], (await space.api.get(space.path(JOBSETS, "jobsets", "one"))).made
    assert workload["metadata"]["labels"]["kueue.x-k8s.io/job-uid"] == jobset["metadata"]["uid"]
    assert (spec["queueName"], spec["priority"], spec["active"]) == ("team", 1000, True)
    assert spec["priorityClassRef"] == {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": urgent}
    (podset,) = spec["podSets"]
    assert (podset["name"], podset["count"]) == ("workers", 2)
    assert podset["topologyRequest"]["required"] == SUBBLOCK
    (owner,) = workload["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("JobSet", "one", True)


@pytest.mark.slow(reason="runs jobs on a whole cluster")
async def test_the_more_urgent_job_takes_the_place_of_the_newest(space: Space) -> None:
    await three_jobs(space)
    await space.jobset("urgent", "team", 4, priority=await space.priority("urgent", 1000))
    await space.pods("urgent", 4)
    evicted = "two"
    story = (
        "Preempted to accommodate a workload (UID: <uid>, JobUID: <uid>) due to prioritization in the ClusterQueue; "
        "preemptor path: /team; preemptee path: /team"
    )
    assert words_of(await space.admission(evicted, "Evicted"), space) == ("True", "Preempted", story)
    assert words_of(await space.admission(evicted, "Preempted"), space) == ("True", "InClusterQueue", story)
    assert words_of(await space.admission(evicted, "Requeued"), space) == ("True", "Preempted", story)
    assert words_of(await space.admission(evicted, "Admitted", "False"), space) == (
        "False",
        "NoReservation",
        "The workload has no reservation",
    )
    status = (await workload_of(space, evicted))["status"]
    assert status["schedulingStats"]["evictions"] == [{"count": 1, "reason": "Preempted", "underlyingCause": ""}]
    held = await space.condition(JOBSETS, "jobsets", evicted, "Suspended")
    assert words_of(held, space) == ("True", "SuspendedJobs", "jobset is suspended")
    assert not condition(await workload_of(space, "one"), "Evicted")


async def workload_of(space: Space, job: str) -> Object:
    return (await space.api.get(space.path(KUEUE, "workloads", await space.workload(job)))).made


@pytest.mark.slow(reason="runs jobs on a whole cluster")
async def test_a_team_borrows_and_gives_back(space: Space) -> None:
    cohort = {"cohortName": f"{space.name}-all", "preemption": {**LOWER, "reclaimWithinCohort": "Any"}}
    await space.queue("red", 64, **cohort)
    await space.queue("blue", 64, **cohort)
    await space.jobset("guest", "red", 12, topology="")
    await space.pods("guest", 12)
    path = f"{KUEUE}/clusterqueues/{space.name}-red"

    async def borrowed() -> str:
        usage = (await space.api.get(path)).made["status"].get("flavorsUsage") or [{"resources": [{}]}]
        return str(usage[0]["resources"][0].get("borrowed", "0")).removeprefix("0")

    assert await eventually(borrowed, "the red queue borrows") == "32"
    await space.jobset("owner", "blue", 8, topology="")
    await space.pods("owner", 8)
    evicted = await space.admission("guest", "Preempted")
    assert words_of(evicted, space) == (
        "True",
        "InCohortReclamation",
        "Preempted to accommodate a workload (UID: <uid>, JobUID: <uid>) due to reclamation within the cohort; "
        "preemptor path: /all/blue; preemptee path: /all/red",
    )


STORY = {
    ("Warning", "Pending", f"{SHORT}16 more needed"),
    ("Normal", "CreatedWorkload", "Created Workload: <namespace>/jobset-one-<hash>"),
    ("Normal", "Started", "Admitted by clusterQueue team"),
    ("Normal", "Admitted", "Admitted by ClusterQueue team, wait time since reservation was <seconds>"),
    ("Normal", "SuspendedJobs", "jobset is suspended"),
}


@pytest.mark.slow(reason="runs jobs on a whole cluster")
async def test_events_tell_the_same_story(space: Space) -> None:
    await three_jobs(space)

    async def has_all_events() -> bool:
        events = await space.items(CORE, "events")
        return {(each["type"], each["reason"], space.plain(each["message"])) for each in events} >= STORY

    await eventually(has_all_events, f"the events {sorted(STORY)}")


async def checks(space: Space, job: str, count: int) -> list[tuple[str, str, str]]:
    """Name, state and message of the admission checks of a job, once it has so many."""
    path = await space.workload(job)
    found = await space.wait(
        KUEUE, "workloads", path, lambda item: len(item.get("status", {}).get("admissionChecks") or ()) == count
    )
    listed = found["status"]["admissionChecks"]
    return [(space.plain(each["name"]), each["state"], each.get("message", "")) for each in listed]


async def test_a_job_waits_for_its_admission_checks(space: Space) -> None:
    names = [await space.check(name) for name in ("budget", "capacity")]
    asked = [{"name": name} for name in names]
    await space.queue("team", 64, admissionChecksStrategy={"admissionChecks": asked})
    await space.jobset("one", "team", 2)
    await space.admission("one", "QuotaReserved")
    assert await checks(space, "one", 2) == [("budget", "Pending", ""), ("capacity", "Pending", "")]
    await space.answer_checks("one", budget={"state": "Ready"})
    workload = (await space.api.get(space.path(KUEUE, "workloads", await space.workload("one")))).made
    assert not condition(workload, "Admitted")
    assert await space.items(CORE, "pods") == []
    await space.answer_checks("one", capacity={"state": "Ready"})
    assert words_of(await space.admission("one", "Admitted"), space) == ("True", "Admitted", "The workload is admitted")
    await space.pods("one", 2)


async def test_a_job_that_an_admission_check_rejects_is_deactivated(space: Space) -> None:
    name = await space.check("capacity")
    await space.queue("team", 64, admissionChecksStrategy={"admissionChecks": [{"name": name}]})
    await space.jobset("one", "team", 2)
    await space.admission("one", "QuotaReserved")
    await checks(space, "one", 1)
    await space.answer_checks("one", capacity={"state": "Rejected", "message": "no machines"})
    assert words_of(await space.admission("one", "Evicted"), space) == (
        "True", "DeactivatedDueToAdmissionCheck",
        'The workload is deactivated due to AdmissionCheck in Rejected state: "capacity" (no machines)',
    )  # fmt: skip
    await space.admission("one", "QuotaReserved", "False")
    workload = (await space.api.get(space.path(KUEUE, "workloads", await space.workload("one")))).made
    assert workload["spec"]["active"] is False
    found = await checks(space, "one", 1)
    assert found == [("capacity", "Pending", "Reset to Pending after eviction. Previously: Rejected")]


@pytest.mark.slow(reason="runs jobs on a whole cluster")
@pytest.mark.parametrize("seconds", [None, 3])
async def test_a_job_that_an_admission_check_wants_to_see_again_gives_its_quota_back(
    space: Space, seconds: int | None
) -> None:
    """With a time to wait, Kueue takes the quota away only when that is over."""
    name = await space.check("capacity")
    await space.queue("team", 64, admissionChecksStrategy={"admissionChecks": [{"name": name}]})
    await space.jobset("one", "team", 2)
    await space.admission("one", "QuotaReserved")
    await checks(space, "one", 1)
    again = {"state": "Retry", "message": "try later"}
    await space.answer_checks("one", capacity=again if seconds is None else {**again, "requeueAfterSeconds": seconds})
    answered = datetime.datetime.now(datetime.UTC)
    reset = await space.wait(
        KUEUE, "workloads", await space.workload("one"),
        lambda item: condition(item, "Evicted").get("status") == "False",
    )  # fmt: skip
    assert words_of(condition(reset, "Evicted"), space) == (
        "False", "QuotaReserved",
        'Previously: Evicted due to AdmissionCheck in Retry state: "capacity" (try later)',
    )  # fmt: skip
    back = words_of(condition(reset, "Requeued"), space)
    assert back == ("True", "BackoffFinished", "The workload backoff was finished")
    if seconds is not None:
        waited = datetime.datetime.fromisoformat(condition(reset, "Evicted")["lastTransitionTime"]) - answered
        assert waited > datetime.timedelta(seconds=seconds - 2)
    assert reset["spec"].get("active", True)
    assert "requeueAt" not in reset["status"].get("requeueState", {})
    (check,) = reset["status"]["admissionChecks"]
    assert (check["state"], check["message"], check["retryCount"]) == (
        "Pending", "Reset to Pending after eviction. Previously: Retry", 1,
    )  # fmt: skip
    evictions = [{"count": 1, "reason": "AdmissionCheck", "underlyingCause": ""}]
    assert reset["status"]["schedulingStats"]["evictions"] == evictions


def single_job(least: str) -> Object:
    limits = {"limits": {GPU: "8"}, "requests": {GPU: "8"}}
    pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox:1", "resources": limits,
           "command": ["sh", "-c", "sleep 3600"]}]}  # fmt: skip
    meta = {"name": "single", "labels": {"kueue.x-k8s.io/queue-name": "team"},
            "annotations": {"kueue.x-k8s.io/job-min-parallelism": least}}  # fmt: skip
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta,
            "spec": {"suspend": True, "parallelism": 6, "completions": 6, "template": {"spec": pod}}}  # fmt: skip


@pytest.mark.parametrize(
    ("least", "why"),
    [
        ("6", "6: should be between 0 and 5"),
        ("0", "0: should be between 0 and 5"),
        ("few", '"few": strconv.Atoi: parsing "few": invalid syntax'),
    ],
)
async def test_a_job_cannot_be_smaller_than_nothing_or_than_it_is(space: Space, least: str, why: str) -> None:
    answer = await space.api.create(space.path(BATCH, "jobs"), single_job(least))
    assert answer.status == 403
    assert answer.body["message"] == (
        'admission webhook "vjob.kb.io" denied the request: '
        f"metadata.annotations[kueue.x-k8s.io/job-min-parallelism]: Invalid value: {why}"
    )


async def test_a_job_that_may_be_smaller_gets_the_pods_that_there_is_quota_for(space: Space) -> None:
    await space.queue("team", 32)
    answer = await space.api.create(space.path(BATCH, "jobs"), single_job("2"))
    assert answer.status == 201, answer.body
    await space.admission("single", "Admitted")
    workload = (await space.api.get(space.path(KUEUE, "workloads", await space.workload("single")))).made
    (asked,), (given,) = workload["spec"]["podSets"], workload["status"]["admission"]["podSetAssignments"]
    assert (asked["count"], asked["minCount"]) == (6, 2)
    assert (given["count"], given["resourceUsage"]) == (4, {GPU: "32"})
    job = await space.wait(BATCH, "jobs", "single", lambda item: not item["spec"].get("suspend"))
    assert job["spec"]["parallelism"] == 4
    await space.api.delete(space.path(BATCH, "jobs"), propagationPolicy="Background")
