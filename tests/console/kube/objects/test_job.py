import pytest

from console.kube.objects.jobset import JobState
from tests.console.kube.objects.recorded import read, recorded


def test_a_recorded_jobset_that_runs() -> None:
    found = recorded("jobsets")["default", "train"]
    assert (found.queue, found.recipe, found.owner, found.release) == ("a4", "nccl-all-reduce", "anna", "train")
    assert (found.gpus, found.ranks, found.max_restarts, found.restarts) == (16, 2, 2, 0)
    assert found.state is JobState.RUNNING


def test_a_recorded_jobset_that_waits() -> None:
    found = recorded("jobsets")["default", "big"]
    assert (found.gpus, found.suspended, found.state) == (320, True, JobState.PENDING)


def test_the_recorded_jobs_belong_to_their_jobsets() -> None:
    jobs, jobsets = recorded("jobs"), recorded("jobsets")
    job = jobs["default", "train-workload-0"]
    assert job.jobset_uid == jobsets["default", "train"].uid


def test_the_release_is_reported_by_helms_annotation_or_labels() -> None:
    labels = {"app.kubernetes.io/managed-by": "Helm", "app.kubernetes.io/instance": "mine"}
    assert read("jobsets", metadata={"labels": labels}).release == "mine"
    assert read("jobsets", metadata={"labels": {"app.kubernetes.io/instance": "mine"}}).release == ""
    assert (
        read("jobsets", metadata={"annotations": {"meta.helm.sh/release-name": "r"}, "labels": labels}).release == "r"
    )


def test_a_failed_jobset_says_why() -> None:
    condition = {
        "type": "Failed",
        "status": "True",
        "reason": "ReachedMaxRestarts",
        "message": "jobset failed due to reaching max",
        "lastTransitionTime": "2026-11-21T07:00:00Z",
    }
    status = {
        "terminalState": "Failed",
        "restarts": 3,
        "conditions": [{"type": "Suspended", "status": "False"}, condition],
    }
    found = read("jobsets", status=status)
    assert (found.state, found.failure, found.finished_at) == (JobState.FAILED, condition["message"], 1795244400.0)


def test_groups_count_their_own_jobs() -> None:
    spec = {
        "replicatedJobs": [
            {"name": "driver"},
            {"name": "workers", "replicas": 4, "template": {"spec": {"parallelism": 2}}},
        ]
    }
    told = [{"name": "workers", "ready": 3, "succeeded": 1}, {"name": "gone", "ready": 9}]
    driver, workers = read("jobsets", spec=spec, status={"replicatedJobsStatus": told}).groups
    assert (driver.pods, driver.ready) == (1, 0)
    assert (workers.pods, workers.ready, workers.succeeded) == (8, 3, 1)


def test_jobsets_and_jobs_with_nothing_but_a_name() -> None:
    assert read("jobsets").state is JobState.STARTING
    assert (read("jobs").limit_seconds, read("jobs", spec={"activeDeadlineSeconds": 60}).limit_seconds) == (None, 60)


@pytest.mark.parametrize(("jobs", "pods"), [(1, 2**31 - 1), (2**31 - 1, 1), (2**31 - 1, 0), (10_001, 2)])
def test_a_jobset_of_more_pods_than_any_cluster_is_not_made(jobs: int, pods: int) -> None:
    """Whoever may create one JobSet would fill the memory of everybody's console: each of its ranks is listed."""
    group = {"name": "workers", "replicas": jobs, "template": {"spec": {"parallelism": pods}}}
    with pytest.raises(AssertionError, match="more than 20,000 pods"):
        read("jobsets", spec={"replicatedJobs": [group]})
