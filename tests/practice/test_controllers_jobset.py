"""JobSets: their Jobs and pods, how they end, and how they start again."""

import pytest

from practice.controllers.objects import annotations_of, find_condition, labels_of
from practice.objects.api_error import ApiError
from practice.objects.resources import JOBS, JOBSETS, PODS, SERVICES, WORKLOADS
from tests.practice.world import World, jobset, phases, why

PREFIX = "jobset.sigs.k8s.io/"


def test_labels_are_annotations_as_well(world: World) -> None:
    world.jobset("train")
    pod = world.pods("train")[1]
    marks = {key: value for key, value in labels_of(pod).items() if key.startswith(PREFIX) and "priority" not in key}
    assert marks == {key: value for key, value in annotations_of(pod).items() if key.startswith(PREFIX)}
    wanted = {"jobset-name": "train", "replicatedjob-name": "w", "restart-attempt": "0", "job-index": "0",
              "global-replicas": "1", "job-global-index": "0", "group-name": "default"}  # fmt: skip
    assert {key: marks[PREFIX + key] for key in wanted} == wanted
    assert labels_of(pod)["batch.kubernetes.io/job-completion-index"] == "1"


def test_restarts_count_and_mark_the_pods(world: World) -> None:
    world.jobset("train", restarts=2)
    first = {pod["metadata"]["uid"] for pod in world.pods("train")}
    world.end(world.pods("train")[0], 1)
    world.play()
    pods = world.pods("train")
    assert phases(pods) == ["Running", "Running"]
    assert first.isdisjoint(pod["metadata"]["uid"] for pod in pods)
    assert {labels_of(pod)[PREFIX + "restart-attempt"] for pod in pods} == {"1"}
    status = world.get(JOBSETS, "train")["status"]
    assert (status["restarts"], status["restartsCountTowardsMax"]) == (1, 1)
    assert why(world.get(JOBSETS, "train"), "RestartingJobSet")[:2] == ("False", "JobsReady")
    text = "applying RestartJobSet failure policy action (first failed job: train-w-0)"
    assert world.events("train", "RestartJobSetFailurePolicyAction") == [text]


def test_a_rule_may_fail_it_at_once(world: World) -> None:
    rules = [{"action": "FailJobSet", "onJobFailureReasons": ["BackoffLimitExceeded"]}]
    failed = world.jobset("train", command="exit 1", restarts=5, rules=rules)
    assert why(failed, "Failed")[1] == "FailJobSetFailurePolicyAction"
    assert failed["spec"]["failurePolicy"]["rules"][0]["name"] == "failurePolicyRule0"


def test_suspending_takes_the_pods_away(world: World) -> None:
    world.jobset("train", queue="", topology=None)
    world.storage.modify(JOBSETS, "default", "train", lambda draft: draft["spec"].update(suspend=True))
    world.play()
    assert world.pods("train") == []
    assert why(world.get(JOBSETS, "train"), "Suspended") == ("True", "SuspendedJobs", "jobset is suspended")
    assert world.get(JOBS, "train-w-0")["status"].get("failed", 0) == 0


def test_the_second_waits_for_the_first(world: World) -> None:
    first, second = (jobset("x", 1, queue="", topology=None)["spec"]["replicatedJobs"][0] for _ in range(2))
    first["template"]["spec"]["template"]["spec"]["containers"][0]["command"] = ["sleep", "60"]
    second |= {"name": "after", "dependsOn": [{"name": "w", "status": "Complete"}]}
    made = jobset("chain", queue="", topology=None)
    made["spec"]["replicatedJobs"] = [first, second]
    world.add(JOBSETS, made)
    world.play(30)
    assert [job["metadata"]["name"] for job in world.jobs("chain")] == ["chain-w-0"]
    world.play(60)
    assert [job["metadata"]["name"] for job in world.jobs("chain")] == ["chain-after-0", "chain-w-0"]


def test_in_order_startup_says_so(world: World) -> None:
    made = jobset("order", 1, queue="", topology=None, startupPolicy={"startupPolicyOrder": "InOrder"})
    world.add(JOBSETS, made)
    world.play(60)
    found = why(world.get(JOBSETS, "order"), "StartupPolicyCompleted")
    assert found == ("True", "InOrderStartupPolicyCompleted", "in order startup policy has completed")


def test_it_goes_when_its_time_is_over(world: World) -> None:
    world.jobset("train", command="sleep 1", ttlSecondsAfterFinished=60)
    assert why(world.get(JOBSETS, "train"), "Completed")[0] == "True"
    world.play(120)
    for resource in (JOBSETS, JOBS, PODS, WORKLOADS, SERVICES):
        assert world.storage.list(resource, "default") == []


def test_the_template_may_change_only_while_suspended(world: World) -> None:
    world.jobset("train")

    def change(obj: dict[str, object]) -> None:
        obj["spec"]["replicatedJobs"][0]["template"]["spec"]["parallelism"] = 9  # type: ignore[index]

    with pytest.raises(ApiError, match="field is immutable"):
        world.storage.modify(JOBSETS, "default", "train", change)


def test_a_job_set_without_queue_starts_at_once(world: World) -> None:
    world.jobset("train", queue="", topology=None)
    assert phases(world.pods("train")) == ["Running", "Running"]
    assert world.storage.list(WORKLOADS) == []
    assert find_condition(world.get(JOBSETS, "train"), "Suspended") is None
