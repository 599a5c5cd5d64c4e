"""The opening scene: all of it at once, nothing in it contradicts, and the same seed gives the same."""

from collections import Counter
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from console.kube.objects.jobset import JobSetSchema, parse_jobset
from console.kube.watched_cluster import WatchedCluster
from console.launch.install import ChartCatalog, Launcher
from console.launch.releases import Releases
from practice.clock import parse_timestamp
from practice.controllers.objects import find_condition, is_true, labels_of
from practice.controllers.quantity import pod_requests
from practice.objects.resources import CLUSTERQUEUES, EVENTS, JOBS, JOBSETS, NODES, PODS, WORKLOADS
from practice.scene.machines import RESERVED_POOL, SPOT_POOL, SYSTEM_POOL
from tests.practice.world import GPU, World
from trainlog import NcclResult, judge_test, parse_nccl

POOL = "cloud.google.com/gke-nodepool"


@pytest.fixture(scope="module")
def scene() -> World:
    return World(scene=True)


def jobset(scene: World, name: str, namespace: str = "default") -> dict[str, Any]:
    return scene.storage.get(JOBSETS, namespace, name)


def lines(scene: World, name: str, rank: int, namespace: str = "default") -> list[str]:
    pods = [pod for pod in scene.storage.list(PODS, namespace) if pod["metadata"]["name"].startswith(f"{name}-w")]
    found = next(pod for pod in pods if labels_of(pod)["batch.kubernetes.io/job-completion-index"] == str(rank))
    log = scene.cluster.kubelets.find_log(namespace, found["metadata"]["name"], "workload", False)
    return [line.decode() for _, line in log.lines]


def test_three_pools(scene: World) -> None:
    pools = Counter(labels_of(node)[POOL] for node in scene.storage.list(NODES))
    assert pools == {RESERVED_POOL: 16, SPOT_POOL: 4, SYSTEM_POOL: 3}


def test_some_machines_have_a_fault(scene: World) -> None:
    nodes = scene.storage.list(NODES)
    maintained = [node for node in nodes if "cloud.google.com/scheduled-maintenance-time" in labels_of(node)]
    (moment,) = [int(labels_of(node)["cloud.google.com/scheduled-maintenance-time"]) for node in maintained]
    assert moment - scene.cluster.clock.now() == pytest.approx(6 * 3600, abs=60)
    assert sum(bool(node["spec"].get("unschedulable")) for node in nodes) == 1
    assert sum(not is_true(node, "Ready") for node in nodes) == 1
    assert any("aiinfra/nccl-healthcheck-bandwidth" in labels_of(node) for node in nodes)


def test_every_state_a_job_can_be_in(scene: World) -> None:
    running = {item["metadata"]["name"] for item in scene.storage.list(JOBSETS) if not item["spec"]["suspend"]}
    done = {name for name in running if is_true(_any(scene, name), "Completed")}
    failed = {name for name in running if is_true(_any(scene, name), "Failed")}
    assert running - done - failed == {"llama-70b", "nccl-0412", "dpo-a3b", "rag-eval"}
    assert done == {"nccl-0411", "ddp-smoke-3", "ddp-ablation"}
    assert failed == {"sft-a3b"}
    assert jobset(scene, "dpo-a3b")["status"]["restarts"] == 1


@pytest.mark.parametrize(
    ("name", "recipe", "values"),
    [
        ("nccl-0412", "nccl-all-reduce", {"queue": "a4", "priorityClass": "medium"}),
        ("grpo-32", "qwen3-30b-pretrain", {"queue": "research", "priorityClass": "low"}),
        ("dpo-a3b", "qwen3-30b-pretrain", {"queue": "a4", "priorityClass": "medium", "gpus": 16, "restarts": 3}),
    ],
)
def test_a_job_tells_what_would_launch_it_again(
    scene: World, name: str, recipe: str, values: dict[str, object]
) -> None:
    found = parse_jobset(msgspec.convert(jobset(scene, name), JobSetSchema))
    launcher = cast("Launcher", SimpleNamespace(chart_catalog=ChartCatalog.from_chart()))
    plan = Releases(cast("WatchedCluster", None), lambda: launcher).plan_of_job(found)
    assert (plan.recipe, plan.name, plan.namespace) == (recipe, name, "default")
    assert dict(plan.values) == values
    assert launcher.chart_catalog.plan_problems(plan) == ()


def _any(scene: World, name: str) -> dict[str, Any]:
    return next(item for item in scene.storage.list(JOBSETS) if item["metadata"]["name"] == name)


def test_those_who_wait_say_why(scene: World) -> None:
    assert "8 more needed" in scene.waits_for("dpo-b")
    assert "8 more needed" in scene.waits_for("eval-32")
    assert "in flavor a4-spot, 8 more needed" in scene.waits_for("grpo-32"), "after a4, which has no block for it"
    sweep = scene.workload("sweep-7")
    assert is_true(sweep, "Preempted")
    assert "insufficient unused quota for nvidia.com/gpu in flavor a4" in scene.waits_for("sweep-7")


def test_no_machine_has_more_pods_than_gpus(scene: World) -> None:
    used: Counter[str] = Counter()
    for pod in scene.storage.list(PODS):
        if pod["status"]["phase"] in ("Pending", "Running") and pod["spec"].get("nodeName"):
            used[pod["spec"]["nodeName"]] += pod_requests(pod["spec"]).get(GPU, 0) // 1000
    assert max(used.values()) == 8
    assert sum(used.values()) == 64 + 16 + 16 + 8


def test_quota_counts_what_runs(scene: World) -> None:
    for queue in scene.storage.list(CLUSTERQUEUES):
        name = queue["metadata"]["name"]
        admitted = [
            item for item in scene.storage.list(WORKLOADS)
            if is_true(item, "Admitted") and not is_true(item, "Finished")
            and item["status"]["admission"]["clusterQueue"] == name
        ]  # fmt: skip
        total = sum(int(item["status"]["admission"]["podSetAssignments"][0]["resourceUsage"][GPU]) for item in admitted)
        used = [int(row["resources"][0]["total"]) for row in queue["status"]["flavorsUsage"]]
        assert sum(used) == total
        assert queue["status"]["admittedWorkloads"] == len(admitted)


def test_jobs_and_pods_agree(scene: World) -> None:
    for job in scene.storage.list(JOBS):
        uid = job["metadata"]["uid"]
        mine = [pod for pod in scene.storage.list(PODS) if labels_of(pod).get("controller-uid") == uid]
        active = [pod for pod in mine if pod["status"]["phase"] in ("Pending", "Running")]
        assert job["status"].get("active", 0) == len(active)


def test_nothing_is_in_the_future(scene: World) -> None:
    now = scene.cluster.clock.now()
    for resource in (NODES, PODS, JOBS, JOBSETS, WORKLOADS, EVENTS):
        for item in scene.storage.list(resource):
            assert parse_timestamp(item["metadata"]["creationTimestamp"]) <= now
            for found in item.get("status", {}).get("conditions") or ():
                assert parse_timestamp(found["lastTransitionTime"]) <= now


def test_events_are_of_the_last_hour(scene: World) -> None:
    ages = [
        scene.cluster.clock.now() - parse_timestamp(event["metadata"]["creationTimestamp"])
        for event in scene.storage.list(EVENTS)
    ]
    assert ages
    assert max(ages) <= 3600 + 1


def test_the_training_is_hours_old_and_had_a_spike(scene: World) -> None:
    found = [line for line in lines(scene, "llama-70b", 7) if "] iteration " in line]
    assert 3800 < len(found) < 4300
    losses = [float(line.split("lm loss: ")[1].split()[0]) for line in found]
    assert losses[3979] > losses[3978] + 2
    assert losses[-1] < losses[0]


def test_a_training_lost_its_loss(scene: World) -> None:
    found = [line for line in lines(scene, "dpo-a3b", 1) if "] iteration " in line]
    assert "lm loss" not in found[-1]


def test_a_job_hangs(scene: World) -> None:
    name = next(pod["metadata"]["name"] for pod in scene.storage.list(PODS, "team-b"))
    log = scene.cluster.kubelets.find_log("team-b", name, "workload", False)
    assert scene.cluster.clock.now() - log.lines[-1][0] > 300


def test_a_pod_was_replaced(scene: World) -> None:
    (job,) = [item for item in scene.storage.list(JOBS, "team-b") if item["metadata"]["name"].startswith("rag-eval")]
    assert job["status"]["failed"] == 1
    assert job["status"]["active"] == 1


def test_the_nccl_test_is_under_way(scene: World) -> None:
    found = lines(scene, "nccl-0412", 0)
    rows = [line for line in found if " float " in line]
    assert 2 <= len(rows) < 14
    assert sum(line.startswith("#  Rank ") for line in found) == 16


def test_the_earlier_nccl_tests_say_what_is_usual(scene: World) -> None:
    tests = parse_nccl("\n".join(lines(scene, "nccl-0411", 0)).encode())
    assert [judge_test(test, accelerator="nvidia-b200").passing for test in tests] == [NcclResult.PASSED] * 3


def test_every_job_has_a_recipe_that_can_be_launched(scene: World) -> None:
    known = {recipe.id for recipe in ChartCatalog.from_chart().recipes()}
    found = {item["metadata"]["labels"]["a4.console/recipe"] for item in scene.storage.list(JOBSETS)}
    assert len(found) >= 5
    assert found <= known


def test_the_own_script_of_the_scene_trains(scene: World) -> None:
    found = lines(scene, "ddp-ablation", 3)
    assert any("script: run" in line for line in found)
    assert any("step 126/126" in line for line in found)


def test_the_failed_job_ran_out_of_memory(scene: World) -> None:
    failed = find_condition(jobset(scene, "sft-a3b"), "Failed")
    assert failed is not None
    assert failed["reason"] == "ReachedMaxRestarts"
    pods = [pod for pod in scene.storage.list(PODS) if pod["metadata"]["name"].startswith("sft-a3b")]
    reasons = {pod["status"]["containerStatuses"][0]["state"]["terminated"]["reason"] for pod in pods}
    assert "OOMKilled" in reasons


@pytest.mark.slow(reason="a practice cluster runs a job")
def test_the_same_seed_gives_the_same_scene(scene: World) -> None:
    def names(world: World) -> list[list[str]]:
        return [
            [item["metadata"]["name"] + item["metadata"]["uid"] for item in world.storage.list(resource)]
            for resource in (PODS, JOBS, JOBSETS, WORKLOADS)
        ]

    assert names(World(scene=True)) == names(World(scene=True))
    assert names(World(scene=True, seed=1)) != names(scene)


@pytest.mark.slow(reason="a practice cluster runs a job")
def test_life_goes_on(scene: World) -> None:
    world = World(scene=True)
    world.play(4 * 3600)
    assert is_true(jobset(world, "nccl-0412"), "Completed")
    assert is_true(world.workload("dpo-b"), "Admitted")
