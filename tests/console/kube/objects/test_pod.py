from typing import Any

import pytest

from console.kube.objects.pod import Pod
from tests.console.kube.objects.recorded import read, recorded


def pod(**fields: Any) -> Pod:
    found = read("pods", **fields)
    assert isinstance(found, Pod)
    return found


def gpus(amount: Any, key: str = "requests") -> dict[str, Any]:
    return {"resources": {key: {"nvidia.com/gpu": amount}}}


def test_a_recorded_rank() -> None:
    found = next(each for each in recorded("pods").values() if each.completion_index == 1)
    assert (found.node, found.gpus, found.phase, found.ready) == ("gke-lab-a4-reserved-0001", 8, "Running", True)
    assert (found.jobset, found.replicated_job, found.job_index) == ("train", "workload", 0)
    assert found.jobset_uid == recorded("jobsets")["default", "train"].uid
    assert found.main is not None
    assert (found.main.name, found.main.state, found.status) == ("workload", "running", "Running")


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"containers": [gpus("8")]}, 8),
        ({"containers": [gpus("8", "limits")]}, 8),
        ({"containers": [gpus(4), gpus("2", "limits")]}, 6),
        ({"containers": [gpus("2")], "initContainers": [gpus("8")]}, 8),
        ({"containers": [gpus("8")], "initContainers": [gpus("2")]}, 8),
        ({"containers": [gpus("2")], "initContainers": [{**gpus("1"), "restartPolicy": "Always"}]}, 3),
        ({"containers": [gpus("1")], "initContainers": [{**gpus("2"), "restartPolicy": "Always"}, gpus("4")]}, 6),
        ({"containers": [{"name": "cpu only"}]}, 0),
        ({"containers": None}, 0),
    ],
)
def test_gpus_asked_for(spec: dict[str, Any], expected: int) -> None:
    assert pod(spec=spec).gpus == expected


def test_a_container_that_came_back_after_a_crash() -> None:
    found = pod(
        spec={"containers": [{"name": "main"}], "initContainers": [{"name": "wait"}]},
        status={
            "phase": "Running",
            "initContainerStatuses": [
                {"name": "wait", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}
            ],
            "containerStatuses": [
                {
                    "name": "main",
                    "restartCount": 3,
                    "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}},
                    "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}},
                }
            ],
        },
    )
    assert found.main is not None
    assert (found.main.last_exit_code, found.main.last_reason, found.restarts) == (137, "OOMKilled", 3)
    assert found.status == "CrashLoopBackOff"
    assert [(each.name, each.init, each.exit_code) for each in found.containers] == [
        ("wait", True, 0),
        ("main", False, None),
    ]


def test_why_it_is_not_placed() -> None:
    refused = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/20 nodes are available",
    }
    assert pod(status={"conditions": [refused]}).unschedulable == "0/20 nodes are available"
    gated = pod(
        spec={"schedulingGates": [{"name": "kueue.x-k8s.io/topology"}]},
        status={"conditions": [{**refused, "reason": "SchedulingGated"}]},
    )
    assert (gated.gated, gated.unschedulable, gated.status) == (("kueue.x-k8s.io/topology",), "", "SchedulingGated")


def test_the_completion_index_may_be_an_annotation() -> None:
    name = "batch.kubernetes.io/job-completion-index"
    assert pod(metadata={"annotations": {name: "5"}}).completion_index == 5
    assert pod(metadata={"labels": {name: "6"}, "annotations": {name: "5"}}).completion_index == 6


@pytest.mark.parametrize(
    "status", [None, {}, {"containerStatuses": None}, {"containerStatuses": [{}]}, {"conditions": [{}]}]
)
def test_missing_fields(status: Any) -> None:
    found = pod(status=status)
    assert (found.phase, found.node, found.completion_index) == ("Pending", "", -1)


def test_brackets_and_emoji_pass_through() -> None:
    found = pod(metadata={"name": "[red]rank🚀[/]", "namespace": "team"}, status={"message": "exit [1] 💥"})
    assert (found.key, found.message) == (("team", "[red]rank🚀[/]"), "exit [1] 💥")
