"""Inside a pod: its log, commands, ports; and what it takes of its node."""

import asyncio
import datetime

import pytest

from tests.contract.client import MERGE_PATCH, Api
from tests.contract.cluster import CORE, eventually
from tests.contract.space import GPU, Space, container
from tests.contract.streams import Run, conversation, forward, run

LINES = [f"line {number}" for number in range(1, 6)]


async def log(space: Space, pod: str, **query: str | int) -> str:
    answer = await space.api.get(space.path(CORE, f"pods/{pod}/log"), **query)
    assert answer.status == 200, answer.body
    return str(answer.body)


async def printed(space: Space, pod: str, lines: list[str]) -> None:
    """Make a pod print, and wait until the log shows the last line."""
    await space.cluster.append_log(space.api, space.name, pod, "main", lines)

    async def shown() -> bool:
        answer = await space.api.get(space.path(CORE, f"pods/{pod}/log"))
        return answer.status == 200 and str(answer.body).endswith(f"{lines[-1]}\n")

    await eventually(shown, f"{pod} has printed {lines[-1]!r}")


@pytest.mark.slow(reason="runs jobs on a whole cluster")
async def test_a_log_is_what_was_printed(space: Space) -> None:
    await space.pod("a")
    await printed(space, "a", LINES)
    assert await log(space, "a") == "".join(f"{line}\n" for line in LINES)
    assert await log(space, "a", container="main") == await log(space, "a")


async def test_the_end_of_a_log(space: Space) -> None:
    await space.pod("a")
    await printed(space, "a", LINES)
    assert await log(space, "a", tailLines=2) == "line 4\nline 5\n"
    assert await log(space, "a", tailLines=0) == ""
    assert await log(space, "a", limitBytes=10) == "line 1\nlin"


async def test_timestamps_and_the_log_since_one(space: Space) -> None:
    await space.pod("a")
    await printed(space, "a", LINES[:2])
    stamped = [line.split(" ", 1) for line in (await log(space, "a", timestamps="true")).splitlines()]
    assert [text for _, text in stamped] == LINES[:2]
    last = datetime.datetime.fromisoformat(stamped[-1][0])
    assert abs(datetime.datetime.now(datetime.UTC) - last) < datetime.timedelta(minutes=1)
    future = (last + datetime.timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    past = (last - datetime.timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert await log(space, "a", sinceTime=future) == ""
    assert await log(space, "a", sinceTime=past) == "line 1\nline 2\n"
    assert await log(space, "a", sinceSeconds=3600) == "line 1\nline 2\n"


async def test_following_a_log(space: Space) -> None:
    await space.pod("a")
    await printed(space, "a", LINES[:2])
    path = space.path(CORE, "pods/a/log")
    async with asyncio.timeout(60), space.api.follow(path, follow="true", tailLines=1) as response:
        assert response.status == 200
        assert await response.content.readline() == b"line 2\n"
        await space.cluster.append_log(space.api, space.name, "a", "main", LINES[2:4])
        assert await response.content.readline() == b"line 3\n"
        assert await response.content.readline() == b"line 4\n"


async def test_a_followed_log_ends_with_its_container(space: Space) -> None:
    await space.pod("a")
    await printed(space, "a", LINES[:1])
    async with asyncio.timeout(60), space.api.follow(space.path(CORE, "pods/a/log"), follow="true") as response:
        assert await response.content.readline() == b"line 1\n"
        await space.end("a")
        assert await response.content.read() == b""


async def test_the_log_of_a_container_that_is_not_there(space: Space) -> None:
    await space.pod("a")
    answer = await space.api.get(space.path(CORE, "pods/a/log"), container="nope")
    assert answer.refused(400, "BadRequest") == "container nope is not valid for pod a"


async def test_with_two_containers_one_must_be_named(space: Space) -> None:
    await space.pod("a", containers=[container("main"), container("side")])
    message = (await space.api.get(space.path(CORE, "pods/a/log"))).refused(400, "BadRequest")
    assert message == "a container name must be specified for pod a, choose one of: [main side]"


@pytest.mark.parametrize("protocol", ["v4.channel.k8s.io", "v5.channel.k8s.io"])
async def test_a_command_and_both_of_its_outputs(space: Space, protocol: str) -> None:
    await space.pod("a")
    done = await run(space, "a", "sh", "-c", "echo out; echo err >&2", protocol=protocol)
    assert done == Run(out="out\n", err="err\n", code=0)


async def test_the_exit_code_of_a_command(space: Space) -> None:
    await space.pod("a")
    assert (await run(space, "a", "sh", "-c", "echo out; exit 3")).code == 3


async def test_input_reaches_a_command(space: Space) -> None:
    await space.pod("a")
    async with conversation(space, "a", "cat") as (say, hear):
        await say(b"one\n")
        assert await hear() == b"one\n"
        await say(b"two\n")
        assert await hear() == b"two\n"


async def test_a_command_learns_that_its_input_has_ended(space: Space) -> None:
    await space.pod("a")
    assert await run(space, "a", "cat", stdin=b"one\ntwo\n") == Run(out="one\ntwo\n", err="", code=0)


async def test_a_terminal_has_one_output_and_echoes_its_input(space: Space) -> None:
    await space.pod("a")
    async with conversation(space, "a", "cat", tty=True) as (say, hear):
        await say(b"one\n")
        heard = b""
        while heard.count(b"\n") < 2:
            heard += await hear()
    assert heard == b"one\r\none\r\n"


async def test_a_command_in_a_pod_that_is_not_there(space: Space) -> None:
    answer = await space.api.get(space.path(CORE, "pods/nope/exec"), command="true", stdout="true")
    assert answer.refused(404, "NotFound") == 'pods "nope" not found'


async def test_a_port_leads_to_sshd(space: Space) -> None:
    await space.pod("a")
    async with forward(space, "a", 2222) as (send, receive):
        assert (await receive()).startswith(b"SSH-2.0-")
        await send(b"SSH-2.0-contract\r\n")
        assert len(await receive()) > 100


async def free_gpus(api: Api, node: str) -> int:
    """As every client has to count them: what the node offers, less what its unfinished pods ask for."""
    offered = int((await api.get(f"{CORE}/nodes/{node}")).made["status"]["allocatable"][GPU])
    pods = (await api.get(f"{CORE}/pods", fieldSelector=f"spec.nodeName={node}")).made["items"]
    asked = [
        int(each["resources"].get("requests", {}).get(GPU, 0))
        for pod in pods
        if pod["status"]["phase"] not in ("Succeeded", "Failed")
        for each in pod["spec"]["containers"]
    ]
    return offered - sum(asked)


@pytest.mark.slow(reason="runs jobs on a whole cluster")
async def test_gpus_of_a_node_are_taken_and_given_back(space: Space) -> None:
    pod = await space.pod("a", containers=[container("main", 5)])
    node = pod["spec"]["nodeName"]
    assert await free_gpus(space.api, node) == 3
    await space.end("a")
    await space.wait(CORE, "pods", "a", lambda pod: pod["status"]["phase"] == "Succeeded")
    assert await free_gpus(space.api, node) == 8


@pytest.mark.slow(reason="runs jobs on a whole cluster")
async def test_limits_of_gpus_become_requests(space: Space) -> None:
    pod = await space.pod("a", containers=[container("main", 2)])
    assert pod["spec"]["containers"][0]["resources"] == {"limits": {GPU: "2"}, "requests": {GPU: "2"}}
    assert {"key": GPU, "operator": "Exists", "effect": "NoSchedule"} in pod["spec"]["tolerations"]


async def test_a_pod_too_large_for_any_node_says_why_it_waits(space: Space) -> None:
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a"},
        "spec": {"containers": [container("main", 9)], "restartPolicy": "Never"},
    }

    async def accepted() -> bool:
        return (await space.api.create(space.path(CORE, "pods"), body)).status in (201, 409)

    await eventually(accepted, "the pod is accepted")
    why = await space.condition(CORE, "pods", "a", "PodScheduled", "False")
    assert why["reason"] == "Unschedulable"
    assert "Insufficient nvidia.com/gpu" in why["message"]
    assert why["message"].startswith("0/")


async def test_a_running_pod_says_where_and_since_when(space: Space) -> None:
    status = (await space.pod("a"))["status"]
    assert status["startTime"]
    assert status["podIP"]
    assert status["hostIP"]
    (only,) = status["containerStatuses"]
    assert (only["name"], only["ready"], only["restartCount"]) == ("main", True, 0)
    assert only["state"]["running"]["startedAt"]
    kinds = {each["type"]: each["status"] for each in status["conditions"]}
    assert {kinds[kind] for kind in ("Initialized", "Ready", "ContainersReady", "PodScheduled")} == {"True"}


async def test_a_failed_pod_says_how(space: Space) -> None:
    await space.pod("a")
    await space.end("a", "Failed", 137, "OOMKilled")
    pod = await space.wait(CORE, "pods", "a", lambda pod: pod["status"]["phase"] == "Failed")
    ended = pod["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (137, "OOMKilled")
    assert ended["startedAt"] <= ended["finishedAt"]


async def test_a_pod_with_a_finalizer_waits_for_it(space: Space) -> None:
    await space.pod("a")
    path = space.path(CORE, "pods", "a")
    await space.api.send("PATCH", path, {"metadata": {"finalizers": ["example.com/hold"]}}, MERGE_PATCH)
    await space.api.delete(path, gracePeriodSeconds=0)
    held = await space.wait(CORE, "pods", "a", lambda pod: "deletionTimestamp" in pod["metadata"])
    assert held["metadata"]["finalizers"] == ["example.com/hold"]
    await space.api.send("PATCH", path, {"metadata": {"finalizers": None}}, MERGE_PATCH)
    await space.gone(path)
