"""Pods: placed, pulled, run, restarted, ended; and what the scheduler and the kubelet say on the way."""

import pytest

from practice.controllers.job_pods import TRACKING, format_indexes, parse_indexes
from practice.controllers.objects import find_condition
from practice.objects.api_error import ApiError
from practice.objects.resources import CONFIGMAPS, JOBS, NODES, PERSISTENTVOLUMECLAIMS, PERSISTENTVOLUMES, PODS, SECRETS
from tests.practice.world import Object, World, container, phases, why


def pod(world: World, name: str = "a", command: str = "sleep infinity", seconds: float = 30, **spec: object) -> Object:
    body = {"metadata": {"name": name}, "spec": {"containers": [container(command)], **spec}}
    world.add(PODS, body)
    world.play(seconds)
    return world.get(PODS, name)


def log(world: World, name: str, *, previous: bool = False, container: str = "") -> list[str]:
    found = world.cluster.kubelets.find_log("default", name, container, previous)
    return [line.decode() for _, line in found.lines]


def state(found: Object) -> Object:
    status: Object = found["status"]["containerStatuses"][0]
    return status


def test_a_pod_comes_up_step_by_step(world: World) -> None:
    early = pod(world, seconds=0.5)
    assert state(early)["state"] == {"waiting": {"reason": "ContainerCreating"}}
    scheduled = find_condition(early, "PodScheduled")
    assert scheduled is not None
    assert scheduled["status"] == "True"
    world.play(30)
    later = world.get(PODS, "a")
    assert later["status"]["phase"] == "Running"
    assert "startedAt" in state(later)["state"]["running"]
    assert later["status"]["podIP"]
    reasons = [world.events("a", reason) for reason in ("Scheduled", "Pulling", "Pulled", "Created", "Started")]
    assert [len(found) for found in reasons] == [1, 1, 1, 1, 1]
    assert reasons[3:] == [["Container created"], ["Container started"]]


def test_what_it_prints_is_its_log(world: World) -> None:
    pod(world, command="echo one; sleep 5; echo two", restartPolicy="Never")
    assert log(world, "a") == ["one", "two"]
    assert world.cluster.kubelets.find_log("default", "a", "main", False).ended


def test_lines_are_stamped_when_they_are_printed(world: World) -> None:
    pod(world, command="echo one; sleep 5; echo two", restartPolicy="Never")
    found = world.cluster.kubelets.find_log("default", "a", "main", False)
    (first, _), (second, _) = found.lines[:2]
    assert second - first == pytest.approx(5)


def test_an_exit_code_ends_it(world: World) -> None:
    ended = pod(world, command="exit 3", restartPolicy="Never")
    assert ended["status"]["phase"] == "Failed"
    assert (state(ended)["state"]["terminated"]["exitCode"], state(ended)["state"]["terminated"]["reason"]) == (
        3,
        "Error",
    )


def test_it_is_started_again_and_again(world: World) -> None:
    found = pod(world, command="echo try; exit 1", seconds=60, restartPolicy="Always")
    assert state(found)["restartCount"] >= 2
    assert state(found)["lastState"]["terminated"]["exitCode"] == 1
    assert log(world, "a", previous=True) == ["try"]
    assert world.events("a", "BackOff")[0].startswith("Back-off restarting failed container main in pod a_default(")


def test_a_crashing_container_waits_longer_each_time(world: World) -> None:
    found = pod(world, command="exit 1", seconds=12, restartPolicy="Always")
    waiting = state(found)["state"]["waiting"]
    assert waiting["reason"] == "CrashLoopBackOff"
    assert waiting["message"].startswith("back-off 10s restarting failed container=main pod=a_default(")


def test_init_containers_run_first(world: World) -> None:
    first = {"name": "prepare", "image": "busybox:1", "command": ["true"]}
    early = pod(world, seconds=2, initContainers=[first])
    assert state(early)["state"]["waiting"]["reason"] == "PodInitializing"
    world.play(30)
    later = world.get(PODS, "a")
    assert later["status"]["initContainerStatuses"][0]["state"]["terminated"]["reason"] == "Completed"
    assert later["status"]["phase"] == "Running"


def test_a_missing_secret_is_waited_for(world: World) -> None:
    env = [{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "token"}}}]
    waiting = pod(world, containers=[container("echo $TOKEN; sleep 60", env=env)])
    assert state(waiting)["state"]["waiting"] == {
        "reason": "CreateContainerConfigError",
        "message": 'secret "keys" not found',
    }
    world.add(SECRETS, {"metadata": {"name": "keys"}, "data": {"token": "aHVzaA=="}})
    world.play(10)
    assert log(world, "a") == ["hush"]


def test_a_missing_volume_is_reported(world: World) -> None:
    pod(world, volumes=[{"name": "scripts", "configMap": {"name": "none"}}])
    text = 'MountVolume.SetUp failed for volume "scripts" : configmap "none" not found'
    assert world.events("a", "FailedMount") == [text]
    world.add(CONFIGMAPS, {"metadata": {"name": "none"}, "data": {}})
    world.play(30)
    assert world.get(PODS, "a")["status"]["phase"] == "Running"


def test_a_deleted_pod_stops_and_goes(world: World) -> None:
    pod(world)
    world.storage.delete(PODS, "default", "a")
    world.play(0.1)
    assert world.get(PODS, "a")["metadata"]["deletionGracePeriodSeconds"] == 30
    world.play(1.2)
    ended = world.get(PODS, "a")
    assert ended["status"]["phase"] == "Failed"
    assert (state(ended)["state"]["terminated"]["exitCode"], state(ended)["state"]["terminated"]["reason"]) == (
        143,
        "Error",
    )
    world.play(5)
    assert world.storage.find(PODS, "default", "a") is None
    assert world.events("a", "Killing") == ["Stopping container main"]


def test_a_log_that_is_not_there_is_explained(world: World) -> None:
    pod(world, seconds=0.5)
    with pytest.raises(ApiError) as refused:
        log(world, "a")
    assert refused.value.message == 'container "main" in pod "a" is waiting to start: ContainerCreating'
    world.play(30)
    with pytest.raises(ApiError, match='previous terminated container "main" in pod "a" not found'):
        log(world, "a", previous=True)
    with pytest.raises(ApiError, match="container other is not valid for pod a"):
        log(world, "a", container="other")


def test_no_node_is_explained_in_the_schedulers_words(world: World) -> None:
    waiting = pod(world, containers=[container("true", 8)], nodeSelector={"nowhere": "x"})
    text = (
        "0/23 nodes are available: 23 node(s) didn't match Pod's node affinity/selector. no new claims to deallocate, "
        "preemption: 0/23 nodes are available: 23 Preemption is not helpful for scheduling."
    )
    assert why(waiting, "PodScheduled") == ("False", "Unschedulable", text)
    assert world.events("a", "FailedScheduling") == [text]


def test_a_claim_is_bound_to_what_its_class_makes(world: World) -> None:
    waiting = pod(world, volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "scratch"}}])
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Ti"}},
        "storageClassName": "standard-rwo",
    }
    meta = {"name": "scratch", "namespace": "default"}
    kind = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
    world.add(PERSISTENTVOLUMECLAIMS, {**kind, "metadata": meta, "spec": spec})
    world.play()
    claim = world.get(PERSISTENTVOLUMECLAIMS, "scratch")
    assert claim["status"] == {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Ti"}}
    volume = world.storage.get(PERSISTENTVOLUMES, "", claim["spec"]["volumeName"])
    assert (volume["status"]["phase"], volume["spec"]["claimRef"]["uid"]) == ("Bound", claim["metadata"]["uid"])
    assert world.get(PODS, waiting["metadata"]["name"])["status"]["phase"] == "Running"
    world.storage.delete(PERSISTENTVOLUMECLAIMS, "default", "scratch")
    world.play()


def test_the_claims_of_the_recipes_are_there(world: World) -> None:
    for name in ("nfs-pvc", "lustre-pvc"):
        assert world.get(PERSISTENTVOLUMECLAIMS, name)["status"]["phase"] == "Bound"


def test_a_pod_waits_for_a_cordon_to_end(world: World) -> None:
    names = [node["metadata"]["name"] for node in world.storage.list(NODES)]
    for name in names:
        world.storage.modify(NODES, "", name, lambda draft: draft["spec"].update(unschedulable=True))
    assert "system" in names[-1]
    waiting = pod(world)
    assert "23 node(s) were unschedulable" in why(waiting, "PodScheduled")[2]
    world.storage.modify(NODES, "", names[-1], lambda draft: draft["spec"].pop("unschedulable"))
    world.play(30)
    assert world.get(PODS, "a")["spec"]["nodeName"] == names[-1]


def test_a_taint_that_evicts_takes_pods_away(world: World) -> None:
    node = pod(world)["spec"]["nodeName"]
    taint = {"key": "gone", "effect": "NoExecute"}
    world.storage.modify(
        NODES, "", node, lambda draft: draft["spec"].update(taints=[*(draft["spec"].get("taints") or ()), taint])
    )
    world.play(10)
    assert world.storage.find(PODS, "default", "a") is None
    assert world.events("a", "TaintManagerEviction") == ["Marking for deletion Pod default/a"]


def job(world: World, command: str, seconds: float = 30, **spec: object) -> Object:
    template = {"spec": {"restartPolicy": "Never", "containers": [container(command)]}}
    world.add(JOBS, {"metadata": {"name": "j"}, "spec": {"template": template, **spec}})
    world.play(seconds)
    return world.get(JOBS, "j")


def test_a_job_completes(world: World) -> None:
    done = job(world, "true", completions=3, parallelism=2)
    assert why(done, "Complete") == ("True", "CompletionsReached", "Reached expected number of succeeded pods")
    assert done["status"]["succeeded"] == 3
    assert "active" not in done["status"]


def test_a_failed_pod_is_replaced_after_a_while(world: World) -> None:
    running = job(world, "exit 1", seconds=12, backoffLimit=2)
    assert running["status"]["failed"] == 1
    world.play(120)
    assert why(world.get(JOBS, "j"), "Failed")[1] == "BackoffLimitExceeded"
    assert len(world.storage.list(PODS, "default")) == 3


def test_a_deleted_pod_counts_as_failed_and_is_replaced(world: World) -> None:
    job(world, "sleep 600", backoffLimit=3)
    (first,) = world.storage.list(PODS, "default")
    world.storage.delete(PODS, "default", first["metadata"]["name"])
    world.play(60)
    (second,) = world.storage.list(PODS, "default")
    assert second["metadata"]["uid"] != first["metadata"]["uid"]
    assert world.get(JOBS, "j")["status"]["failed"] == 1


def test_with_a_failure_policy_a_deleted_pod_counts_once_it_has_ended(world: World) -> None:
    policy = {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [143]}}]}
    job(world, "sleep 600", backoffLimit=6, podFailurePolicy=policy)
    (first,) = world.storage.list(PODS, "default")
    world.storage.delete(PODS, "default", first["metadata"]["name"])
    world.play(0.2)
    held = world.get(PODS, first["metadata"]["name"])
    assert (held["status"]["phase"], held["metadata"]["finalizers"]) == ("Running", [TRACKING])
    world.play(60)
    assert why(world.get(JOBS, "j"), "Failed")[1] == "PodFailurePolicy"
    assert world.storage.list(PODS, "default") == []


def test_a_failure_policy_may_fail_it_at_once(world: World) -> None:
    policy = {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}]}
    failed = job(world, "exit 42", backoffLimit=6, podFailurePolicy=policy)
    (ended,) = world.storage.list(PODS, "default")
    text = f"Container main for pod default/{ended['metadata']['name']} failed with exit code 42 "
    assert why(failed, "Failed") == ("True", "PodFailurePolicy", text + "matching FailJob rule at index 0")


def test_a_deadline_ends_it(world: World) -> None:
    failed = job(world, "sleep 600", seconds=60, activeDeadlineSeconds=20)
    assert why(failed, "Failed") == ("True", "DeadlineExceeded", "Job was active longer than specified deadline")
    assert world.storage.list(PODS, "default") == []


def test_a_pod_killed_for_memory_says_so(world: World) -> None:
    world.jobset("train")
    world.end(world.pods("train")[1], 137, "OOMKilled")
    failed = next(found for found in world.pods("train") if found["status"]["phase"] == "Failed")
    assert state(failed)["state"]["terminated"]["reason"] == "OOMKilled"
    assert "Running" not in phases(world.pods("train"))


@pytest.mark.parametrize(("numbers", "text"), [({0}, "0"), ({0, 1}, "0,1"), ({0, 1, 2, 5}, "0-2,5"), (set(), "")])
def test_indexes_are_written_as_the_api_does(numbers: set[int], text: str) -> None:
    assert format_indexes(numbers) == text
    assert parse_indexes(text) == numbers
