"""Tunnels to ranks: who is found, bytes both ways in both protocols, and what goes wrong."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from console.attach.tunnel.local_forward import LocalForward, PortForwarder
from console.attach.tunnel.relay import load_login
from console.errors import BadInput, ConsoleError, NotFound, Unreachable
from console.kube import port_forward
from console.kube.pod_address import PodAddress, PortPair
from console.kube.port_forward import JobEnded
from tests.apiserver import listening
from tests.contract.client import Object
from tests.contract.cluster import CORE, JOBSETS, Cluster, eventually
from tests.contract.space import Space, container

PORT = 9999
GROUPS = (("driver", 1, 1), ("workers", 2, 2), ("eval", 1, 1))
BULK = bytes(range(256)) * 8192
"""2 MiB."""


@pytest.fixture
def reach(cluster: Cluster) -> PortForwarder:
    return PortForwarder(load_login(cluster.kubeconfig, ""), limit=20)


@asynccontextmanager
async def echo() -> AsyncIterator[int]:
    """A server of this machine that gives back what it gets, until it has got all."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()
        except asyncio.CancelledError:  # kwok keeps its end of a connection after the client has gone
            writer.transport.abort()

    async with listening(serve) as port:
        yield port


async def listen(space: Space, port: int) -> dict[str, str]:
    """Have port 9999 of the space's pods lead to a port of this machine; annotations that the pods need for it."""
    if space.cluster.programs:
        return {f"a4-lab/port-{PORT}": str(port)}
    forwards = [{"ports": [PORT], "target": {"address": "127.0.0.1", "port": port}}]
    body = {
        "apiVersion": "kwok.x-k8s.io/v1alpha1", "kind": "ClusterPortForward", "metadata": {"name": space.name},
        "spec": {"selector": {"matchNamespaces": [space.name]}, "forwards": forwards},
    }  # fmt: skip
    path = "/apis/kwok.x-k8s.io/v1alpha1/clusterportforwards"
    assert (await space.api.create(path, body)).status == 201
    space.queued.append(f"{path}/{space.name}")
    return {}


async def job(space: Space, notes: dict[str, str], groups: tuple[tuple[str, int, int], ...] = GROUPS) -> None:
    """A job of several replicated jobs whose pods run."""

    def group(name: str, replicas: int, pods: int) -> Object:
        spec = {"containers": [container("main")], "restartPolicy": "Never", "terminationGracePeriodSeconds": 0}
        made = {"parallelism": pods, "completions": pods, "backoffLimit": 6,
                "template": {"metadata": {"annotations": notes}, "spec": spec}}  # fmt: skip
        return {"name": name, "replicas": replicas, "template": {"spec": made}}

    body = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "train"},
        "spec": {"replicatedJobs": [group(*each) for each in groups], "failurePolicy": {"maxRestarts": 3}},
    }  # fmt: skip
    assert (await space.api.create(space.path(JOBSETS, "jobsets"), body)).status == 201
    await space.pods("train", sum(replicas * pods for _, replicas, pods in groups))


async def exchange(port: int, data: bytes) -> bytes:
    """Send it all to a local port, while reading what comes back."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    got = await reader.readexactly(len(data))
    writer.close()
    return got


async def test_ranks_of_a_job_with_three_replicated_jobs(space: Space, reach: PortForwarder) -> None:
    await job(space, {})
    found = [await reach.wait_for_pod(PodAddress.parse(space.name, "train", str(rank))) for rank in range(6)]
    places = ["driver-0-0", "workers-0-0", "workers-0-1", "workers-1-0", "workers-1-1", "eval-0-0"]
    assert [each.name.removeprefix("train-")[:-6] for each in found] == places
    within = [await reach.wait_for_pod(PodAddress.parse(space.name, "train", f"workers/{index}")) for index in range(4)]
    assert within == found[1:5]
    assert [each.number for each in found] == list(range(6))
    assert (await reach.wait_for_pod(PodAddress.parse(space.name, f"pod/{found[5].name}"))).uid == found[5].uid


async def test_ranks_and_jobs_that_are_not_there(space: Space, reach: PortForwarder) -> None:
    await job(space, {}, GROUPS[:1])
    with pytest.raises(BadInput, match=r"train has no pod 1\. Its pods are 0 to 0\."):
        await reach.wait_for_pod(PodAddress.parse(space.name, "train", "1"))
    with pytest.raises(BadInput, match=r"train has no replicated job workers\. It has driver\."):
        await reach.wait_for_pod(PodAddress.parse(space.name, "train", "workers/0"))
    with pytest.raises(JobEnded, match=f"There is no job nope in namespace {space.name}"):
        await reach.wait_for_pod(PodAddress.parse(space.name, "nope"))
    with pytest.raises(JobEnded, match="There is no pod nope"):
        await reach.wait_for_pod(PodAddress.parse(space.name, "pod/nope"))


async def test_bytes_both_ways(space: Space, reach: PortForwarder) -> None:
    async with echo() as port, asyncio.timeout(30):
        await job(space, await listen(space, port), GROUPS[:1])
        forwarding = LocalForward(reach, PodAddress.parse(space.name, "train"), [PortPair(PORT)], name="x", context="")
        await forwarding.open()
        local = forwarding.tunnel.listeners[0].local
        try:

            async def carried() -> bool:
                # kwok hears of the port a moment after it was named.
                try:
                    return await exchange(local, b"hello") == b"hello"
                except (asyncio.IncompleteReadError, ConnectionError):
                    return False

            await eventually(carried, "the port answers")
            before = forwarding.tunnel.listeners[0]
            assert await asyncio.gather(*(exchange(local, BULK) for _ in range(4))) == [BULK] * 4
            after = forwarding.tunnel.listeners[0]
        finally:
            await forwarding.close()
    assert after.connections - before.connections == 4
    assert (after.sent - before.sent, after.received - before.received) == (4 * len(BULK), 4 * len(BULK))
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", local)


async def test_a_port_that_nobody_listens_on(space: Space, reach: PortForwarder) -> None:
    await space.pod("a")
    async with reach.open_stream(PodAddress.parse(space.name, "pod/a"), 9) as pipe:
        with pytest.raises(Unreachable, match=r"Nothing listens on port 9 of pod a|Could not reach port 9 of pod a: "):
            await pipe.receive()


async def test_a_server_that_does_not_know_the_protocol_is_reported(
    space: Space, reach: PortForwarder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(port_forward, "PROTOCOL", "v9.channel.k8s.io")
    await space.pod("a")
    with pytest.raises(
        Unreachable, match=r"^Could not reach port 2222 of pod a: the API server does not take the protocol v9"
    ):
        async with reach.open_stream(PodAddress.parse(space.name, "pod/a"), 2222):
            pass


@pytest.mark.slow(reason="runs jobs on a whole cluster")
async def test_a_tunnel_follows_its_rank_to_the_next_pod(space: Space, reach: PortForwarder) -> None:
    await job(space, {}, GROUPS[:1])
    forwarding = LocalForward(reach, PodAddress.parse(space.name, "train"), [PortPair(2222)], name="x", context="")
    await forwarding.open()
    first, local = forwarding.tunnel.pod, forwarding.tunnel.listeners[0].local
    try:
        assert await banner(local) == b"SSH-2.0-"
        assert (await space.api.delete(space.path(CORE, "pods", first))).status == 200

        async def replaced() -> bool:
            # Until its pod is marked as going, the rank is still that pod.
            return await banner(local) == b"SSH-2.0-" and forwarding.tunnel.pod != first

        await eventually(replaced, "the pod is another pod")
        tunnel = forwarding.tunnel
    finally:
        await forwarding.close()
    assert (tunnel.state, tunnel.reconnections, tunnel.listeners[0].local) == ("ready", 1, local)
    assert first in tunnel.last_end


async def banner(port: int) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        return (await reader.read(64))[:8]
    except ConnectionError:
        return b""
    finally:
        writer.close()


async def test_a_tunnel_ends_when_its_job_is_gone(space: Space, reach: PortForwarder) -> None:
    await job(space, {}, GROUPS[:1])
    forwarding = LocalForward(reach, PodAddress.parse(space.name, "train"), [PortPair(2222)], name="x", context="")
    await forwarding.open()
    try:
        await space.api.delete(space.path(JOBSETS, "jobsets", "train"), propagationPolicy="Background")

        async def over() -> bool:
            await banner(forwarding.tunnel.listeners[0].local)  # whoever connects brings the next look forward
            return forwarding.ended.is_set()

        await eventually(over, "the tunnel has ended")
    finally:
        await forwarding.close()
    assert forwarding.tunnel.state == "ended"
    assert forwarding.tunnel.words == f"There is no job train in namespace {space.name}."


@pytest.mark.slow(reason="runs jobs on a whole cluster")
async def test_a_rank_that_does_not_come_is_waited_for_with_words(space: Space, reach: PortForwarder) -> None:
    await job(space, {}, GROUPS[:1])
    pod = (await reach.wait_for_pod(PodAddress.parse(space.name, "train"))).name
    suspend = {"spec": {"suspend": True}}
    answer = await space.api.send(
        "PATCH", space.path(JOBSETS, "jobsets", "train"), suspend, "application/merge-patch+json"
    )
    assert answer.status == 200
    await space.gone(space.path(CORE, "pods", pod))
    said: list[str] = []
    with pytest.raises(Unreachable, match="train pod 0 cannot be reached: the job waits for quota"):
        await reach.wait_for_pod(PodAddress.parse(space.name, "train"), limit=0.3, report=said.append)
    assert said == ["Waiting for train pod 0: the job waits for quota."]


async def test_who_may_not_is_reported(space: Space, cluster: Cluster) -> None:
    await space.pod("a")
    reader = PortForwarder(load_login(cluster.reader_kubeconfig, ""), limit=5)
    with pytest.raises(ConsoleError, match="portforward") as error:
        await reader.open_pipe(PodAddress.parse(space.name, "pod/a"), 2222)
    assert error.value.exit_code == 3
    assert not isinstance(error.value, NotFound)
