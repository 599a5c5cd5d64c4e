"""JobSets: their jobs and pods, how they end, how they start again, and what is left of them."""

import pytest

from tests.contract.client import Object
from tests.contract.cluster import BATCH, CORE, JOBSETS, KUEUE, eventually
from tests.contract.space import Space, condition

PREFIX = "jobset.sigs.k8s.io/"


async def started(space: Space, nodes: int = 2, **options: object) -> list[Object]:
    """One running job set, `train`; its pods by rank."""
    await space.queue("team", 64)
    await space.jobset("train", "team", nodes, **options)
    return await space.pods("train", nodes)


async def jobset(space: Space) -> Object:
    return (await space.api.get(space.path(JOBSETS, "jobsets", "train"))).made


async def test_what_the_webhook_fills_in(space: Space) -> None:
    await started(space)
    spec = (await jobset(space))["spec"]
    assert spec["successPolicy"] == {"operator": "All"}
    assert spec["startupPolicy"] == {"startupPolicyOrder": "AnyOrder"}
    assert spec["network"] == {"enableDNSHostnames": True, "publishNotReadyAddresses": True}
    assert spec["failurePolicy"] == {"maxRestarts": 0, "restartStrategy": "Recreate"}
    assert spec["replicatedJobs"][0]["template"]["spec"]["completionMode"] == "Indexed"
    assert spec["suspend"] is False


async def test_names_labels_and_owners(space: Space) -> None:
    pods = await started(space)
    whole = await jobset(space)
    (job,) = await space.jobs("train")
    assert job["metadata"]["name"] == "train-workers-0"
    for rank, pod in enumerate(pods):
        metadata, labels = pod["metadata"], pod["metadata"]["labels"]
        assert metadata["name"].startswith(f"train-workers-0-{rank}-")
        assert metadata["ownerReferences"][0]["name"] == "train-workers-0"
        assert labels["batch.kubernetes.io/job-name"] == "train-workers-0"
        assert labels["batch.kubernetes.io/job-completion-index"] == str(rank)
        assert labels["batch.kubernetes.io/controller-uid"] == job["metadata"]["uid"]
        expected = {"jobset-name": "train", "jobset-uid": whole["metadata"]["uid"], "replicatedjob-name": "workers",
                    "replicatedjob-replicas": "1", "job-index": "0", "restart-attempt": "0", "job-global-index": "0",
                    "global-replicas": "1"}  # fmt: skip
        assert {key: labels[PREFIX + key] for key in expected} == expected
        assert metadata["annotations"][PREFIX + "jobset-name"] == "train"
        assert metadata["annotations"]["kueue.x-k8s.io/workload"] == await space.workload("train")
        assert labels["kueue.x-k8s.io/local-queue-name"] == "team"
        assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == (f"train-workers-0-{rank}", "train")


async def test_ranks_find_each_other_by_a_headless_service(space: Space) -> None:
    await started(space)
    service = (await space.api.get(space.path(CORE, "services", "train"))).made
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["selector"] == {PREFIX + "jobset-name": "train"}
    assert service["spec"]["publishNotReadyAddresses"] is True


async def test_status_counts_jobs(space: Space) -> None:
    await started(space)

    def ready(item: Object) -> bool:
        counted = item.get("status", {}).get("replicatedJobsStatus") or [{}]
        return bool(counted[0].get("ready") == 1)

    status = (await space.wait(JOBSETS, "jobsets", "train", ready))["status"]
    zero = {"failed": 0, "succeeded": 0, "suspended": 0}
    assert status["replicatedJobsStatus"] == [{"name": "workers", "active": 1, "ready": 1, **zero}]
    assert status["restarts"] == 0
    assert "terminalState" not in status


async def test_the_job_counts_its_pods(space: Space) -> None:
    await started(space)
    job = await space.wait(BATCH, "jobs", "train-workers-0", lambda job: job["status"].get("ready") == 2)
    assert job["status"]["active"] == 2
    assert (job["spec"]["parallelism"], job["spec"]["completions"], job["spec"]["suspend"]) == (2, 2, False)


async def test_when_every_rank_succeeds(space: Space) -> None:
    for pod in await started(space):
        await space.end(pod["metadata"]["name"])
    done = await space.condition(JOBSETS, "jobsets", "train", "Completed")
    assert (done["reason"], done["message"]) == ("AllJobsCompleted", "jobset completed successfully")
    assert (await jobset(space))["status"]["terminalState"] == "Completed"
    finished = await space.admission("train", "Finished")
    assert (finished["reason"], finished["message"]) == ("Succeeded", "jobset completed successfully")
    job = await space.wait(BATCH, "jobs", "train-workers-0", lambda job: bool(condition(job, "Complete")))
    assert job["status"]["succeeded"] == 2
    assert job["status"]["completedIndexes"] == "0,1"
    assert len(await space.pods("train", 2, "Succeeded")) == 2


async def test_one_failed_rank_ends_the_job(space: Space) -> None:
    pods = await started(space)
    await space.end(pods[1]["metadata"]["name"], "Failed", 1, "Error")
    failed = await space.condition(JOBSETS, "jobsets", "train", "Failed")
    assert (failed["reason"], failed["message"]) == (
        "ReachedMaxRestarts",
        "jobset failed due to reaching max number of restarts (first failed job: train-workers-0)",
    )
    status = (await jobset(space))["status"]
    assert (status["terminalState"], status["restarts"]) == ("Failed", 0)
    finished = await space.admission("train", "Finished")
    assert (finished["reason"], finished["message"]) == ("Failed", failed["message"])
    job = await space.wait(BATCH, "jobs", "train-workers-0", lambda job: bool(condition(job, "Failed")))
    why = condition(job, "Failed")
    assert (why["reason"], why["message"]) == (
        "BackoffLimitExceeded",
        "Job has reached the specified backoff limit",
    )


async def test_without_a_failure_policy_the_words_differ(space: Space) -> None:
    pods = await started(space, restarts=None)
    await space.end(pods[0]["metadata"]["name"], "Failed", 1, "Error")
    failed = await space.condition(JOBSETS, "jobsets", "train", "Failed")
    assert (failed["reason"], failed["message"]) == (
        "FailedJobs",
        "jobset failed due to one or more job failures (first failed job: train-workers-0)",
    )


@pytest.mark.slow(reason="runs jobs on a whole cluster")
async def test_a_failed_rank_restarts_all(space: Space) -> None:
    first = await started(space, restarts=2)
    await space.end(first[0]["metadata"]["name"], "Failed", 1, "Error")

    async def again() -> list[Object]:
        found = await space.items(CORE, "pods", labelSelector=f"{PREFIX}jobset-name=train,{PREFIX}restart-attempt=1")
        return found if sum(pod["status"].get("phase") == "Running" for pod in found) == 2 else []

    second = await eventually(again, "both pods run again")
    assert {pod["metadata"]["uid"] for pod in first}.isdisjoint(pod["metadata"]["uid"] for pod in second)
    status = (await jobset(space))["status"]
    assert (status["restarts"], status.get("restartsCountTowardsMax")) == (1, 1)
    assert condition(await jobset(space), "Failed") == {}
    (job,) = await space.jobs("train")
    assert job["metadata"]["labels"][f"{PREFIX}restart-attempt"] == "1"


@pytest.mark.slow(reason="runs jobs on a whole cluster")
async def test_the_last_restart_is_the_last(space: Space) -> None:
    first = await started(space, restarts=1)
    await space.end(first[0]["metadata"]["name"], "Failed", 1, "Error")
    await space.wait(JOBSETS, "jobsets", "train", lambda item: item["status"].get("restarts") == 1)

    async def second() -> list[Object]:
        found = await space.items(CORE, "pods", labelSelector=f"{PREFIX}jobset-name=train,{PREFIX}restart-attempt=1")
        return [pod for pod in found if pod["status"].get("phase") == "Running"]

    again = await eventually(second, "a pod runs again")
    await space.end(again[0]["metadata"]["name"], "Failed", 1, "Error")
    failed = await space.condition(JOBSETS, "jobsets", "train", "Failed")
    assert failed["reason"] == "ReachedMaxRestarts"


async def test_a_deleted_rank_counts_as_a_failed_one(space: Space) -> None:
    pods = await started(space)
    await space.api.delete(space.path(CORE, "pods", pods[1]["metadata"]["name"]))
    failed = await space.condition(JOBSETS, "jobsets", "train", "Failed")
    assert failed["reason"] == "ReachedMaxRestarts"


@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
async def test_a_deleted_job_set_leaves_nothing(space: Space, propagation: str) -> None:
    await started(space)
    answer = await space.api.delete(space.path(JOBSETS, "jobsets", "train"), propagationPolicy=propagation)
    assert answer.status == 200

    async def nothing() -> bool:
        kinds = ((JOBSETS, "jobsets"), (BATCH, "jobs"), (CORE, "pods"), (CORE, "services"), (KUEUE, "workloads"))
        return not any([await space.items(base, kind) for base, kind in kinds])

    await eventually(nothing, "job set, jobs, pods, service and workload are gone")


async def test_orphans_stay(space: Space) -> None:
    await started(space)
    options = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Orphan"}
    await space.api.delete(space.path(JOBSETS, "jobsets", "train"), options)
    await space.gone(space.path(JOBSETS, "jobsets", "train"))
    (job,) = await space.jobs("train")
    assert "ownerReferences" not in job["metadata"]
    await space.api.delete(space.path(BATCH, "jobs", "train-workers-0"), propagationPolicy="Background")
    await space.api.delete(space.path(KUEUE, "workloads"))


async def test_a_deletion_answers_with_what_it_deleted(space: Space) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    made = (await space.api.create(space.path(CORE, "configmaps"), body)).made["metadata"]
    path = space.path(CORE, "configmaps", "a")
    other = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": "x"}}
    message = (await space.api.delete(path, other)).refused(409, "Conflict")
    assert message == (
        f'Operation cannot be fulfilled on ConfigMap "a": the UID in the precondition (x) does not match the UID in '
        f"record ({made['uid']}). The object might have been deleted and then recreated"
    )
    gone = (await space.api.delete(path)).made
    assert (gone["kind"], gone["status"]) == ("Status", "Success")
    assert gone["details"] == {"name": "a", "kind": "configmaps", "uid": made["uid"]}
    assert (await space.api.delete(path)).refused(404, "NotFound") == 'configmaps "a" not found'


async def test_a_collection_is_deleted_by_its_labels(space: Space) -> None:
    for name, team in (("a", "red"), ("b", "blue")):
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"team": team}}}
        await space.api.create(space.path(CORE, "configmaps"), body)
    await space.api.delete(space.path(CORE, "configmaps"), labelSelector="team=red")
    left = await space.items(CORE, "configmaps", labelSelector="team")
    assert [item["metadata"]["name"] for item in left] == ["b"]


async def test_a_namespace_takes_all_with_it(space: Space) -> None:
    await started(space)
    assert (await space.api.delete(f"{CORE}/namespaces/{space.name}")).status == 200
    await space.gone(f"{CORE}/namespaces/{space.name}", limit=40)
    assert await space.items(CORE, "pods") == []
