"""The console's own way to a cluster: what it sees, what it says, and its main job from launch to stop."""

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path

import pytest

from console.connection_settings import Settings
from console.errors import NotAllowed
from console.kube.objects.jobset import JobState
from console.kube.pod_address import PodAddress
from console.kube.snapshot import Fleet
from console.launch.recipes import LaunchPlan
from console.logs.container_log import LogRequest
from console.scheduling.topology import build_pools
from console.scheduling.why import Category
from console.scheduling.why_workload import why_workload
from console.session import Session
from tests.contract.cluster import CORE, JOBSETS, KUEUE, Cluster, eventually
from tests.contract.space import Space, container
from trainlog import NcclTest

RECORDING = Path(__file__).parents[2] / "practice" / "data" / "nccl_all_reduce_h200x4.txt"


async def seen(session: Session, true: Callable[[Fleet], bool], what: str) -> Fleet:
    """The first picture in which something is so."""
    try:
        async with asyncio.timeout(60):
            async for fleet in session.watch.snapshots():
                if true(fleet):
                    return fleet
    except TimeoutError:
        raise AssertionError(f"not within 20 s: {what}") from None
    raise AssertionError("the pictures have ended")


async def test_pools_and_their_machines(session: Session) -> None:
    found = build_pools(await session.wait_until_listed("nodes", "pods"))
    shape = [(pool.machine_type, pool.provisioning.value, pool.nodes_total, pool.floor.total) for pool in found]
    assert sorted(shape, key=lambda pool: -pool[3])[0][2:] == (16, 128)
    assert sorted(pool[2:] for pool in shape) == [(3, 0), (4, 32), (16, 128)]
    blocks = [[len(block.subblocks) for block in pool.floor.blocks] for pool in found if pool.nodes_total == 16]
    assert blocks == [[2, 2]]


@pytest.mark.slow(reason="runs jobs on a whole cluster")
async def test_gpus_of_a_pod_are_counted(session: Session, space: Space) -> None:
    pod = await space.pod("a", containers=[container("main", 8)])
    node = pod["spec"]["nodeName"]
    fleet = await seen(session, lambda fleet: any(pod.phase == "Running" for pod in fleet.pods_by_node.get(node, [])),
                       "the pod is on its node")  # fmt: skip
    (pool,) = (pool for pool in build_pools(fleet) if any(each.name == node for each in pool.nodes))
    assert pool.floor.used == 8
    assert pool.floor.free == pool.floor.total - 8


async def test_why_a_job_waits(session: Session, space: Space) -> None:
    await space.queue("team", 64)
    await space.jobset("one", "team", 2)
    await space.jobset("two", "team", 4)
    await space.pods("two", 4)
    await space.pods("one", 2)
    await space.jobset("three", "team", 4)
    await space.admission("three", "QuotaReserved", "False")
    key = (space.name, await space.workload("three"))

    def answered(fleet: Fleet) -> bool:
        states = [fleet.jobsets[space.name, job].state for job in ("one", "two") if (space.name, job) in fleet.jobsets]
        waits = key in fleet.workloads and why_workload(fleet.workloads[key], fleet).category is Category.QUOTA
        return waits and states == [JobState.RUNNING, JobState.RUNNING]

    fleet = await seen(session, answered, "two jobs run and the third waits for quota")
    answer = why_workload(fleet.workloads[key], fleet)
    assert (answer.need, answer.short_by) == (32, 16)
    assert "32 GPUs" in answer.sentence
    assert "16" in answer.sentence
    assert {held.name for held in answer.holders} == {"one", "two"}
    assert fleet.jobsets[space.name, "three"].state is JobState.PENDING


@pytest.mark.slow(reason="runs jobs on a whole cluster")
async def test_the_main_job_from_launch_to_stop(session: Session, space: Space) -> None:
    await space.queue("team", 64)
    plan = LaunchPlan("nccl-all-reduce", "bandwidth", space.name, {"queue": "team", "gpus": 16, "keepAlive": True})
    assert session.launch.catalogue.plan_problems(plan) == ()
    assert await session.launch.install(plan) == "bandwidth"
    pods = await space.pods("bandwidth", 2)
    key = (space.name, "bandwidth")
    fleet = await seen(session, lambda fleet: key in fleet.jobsets and fleet.jobsets[key].state is JobState.RUNNING,
                       "the job runs")  # fmt: skip
    assert fleet.jobsets[key].recipe == "nccl-all-reduce"
    assert fleet.jobsets[key].release == "bandwidth"
    if not space.cluster.programs:
        lines = RECORDING.read_text().splitlines()
        await space.cluster.append_log(space.api, space.name, pods[0]["metadata"]["name"], "workload", lines)
    test = await finished(session, space)
    assert test.program == "all_reduce_perf"
    assert len(test.rows) == 14
    assert all(row.out_of_place and row.out_of_place.busbw and row.out_of_place.busbw > 10 for row in test.rows)
    assert test.avg_busbw
    report = await session.launch.stop(space.name, "bandwidth")
    assert report.release == "bandwidth"

    async def nothing() -> bool:
        kinds = ((JOBSETS, "jobsets"), (CORE, "pods"), (CORE, "secrets"), (KUEUE, "workloads"))
        return not any([await space.items(base, kind) for base, kind in kinds])

    await eventually(nothing, "nothing is left", limit=40)


async def finished(session: Session, space: Space) -> NcclTest:
    """The first test of the job, once its table has ended."""
    async with asyncio.timeout(60), session.measures.open_job(space.name, "bandwidth") as job:
        async for now in job.follow_changes():
            if now.tests and now.tests[0].test.avg_busbw is not None:
                return now.tests[0].test
    raise AssertionError("the log has ended without a table")


async def test_a_log_is_followed(session: Session, space: Space) -> None:
    await space.pod("a")
    await space.cluster.append_log(space.api, space.name, "a", "main", ["one", "two"])
    heard: list[str] = []
    async with asyncio.timeout(60), aclosing(session.logs.follow_pod(LogRequest(space.name, "a"))) as log:
        async for lines in log:
            heard += [line.text for line in lines]
            if len(heard) == 2:
                await space.cluster.append_log(space.api, space.name, "a", "main", ["three"])
            if len(heard) == 3:
                break
    assert heard == ["one", "two", "three"]


async def test_a_command_runs_in_a_pod(session: Session, space: Space) -> None:
    await space.pod("a")
    heard: dict[int, bytes] = {1: b"", 2: b""}

    def keep(channel: int, data: bytes) -> None:
        heard[channel] += data

    code = await session.watch.exec(space.name, "a", ["sh", "-c", "echo out; echo err >&2"], on_output=keep)
    assert (code, heard) == (0, {1: b"out\n", 2: b"err\n"})


async def test_a_port_of_a_pod_becomes_one_of_ours(session: Session, space: Space) -> None:
    await space.pod("a")
    async with asyncio.timeout(60):
        tunnel, _ = await session.tunnels.open_tunnel(PodAddress.parse(space.name, "pod/a"), ["2222"])
        reader, writer = await asyncio.open_connection("127.0.0.1", tunnel.listeners[0].local)
        assert (await reader.readline()).startswith(b"SSH-2.0-")
        writer.close()
        await writer.wait_closed()


async def test_a_node_is_cordoned(session: Session, space: Space) -> None:
    node = (await space.api.get(f"{CORE}/nodes", limit=1)).made["items"][0]["metadata"]["name"]
    await session.watch.cordon(node)
    assert (await space.api.get(f"{CORE}/nodes/{node}")).made["spec"]["unschedulable"] is True
    await session.watch.cordon(node, is_cordoned=False)
    assert "unschedulable" not in (await space.api.get(f"{CORE}/nodes/{node}")).made["spec"]


async def test_a_reader_sees_what_it_may_and_learns_what_it_may_not(cluster: Cluster, space: Space) -> None:
    opened = await Session.open(Settings(kubeconfig=cluster.reader_kubeconfig, namespace=space.name))
    try:
        fleet = await opened.wait_until_listed()
        assert len(fleet.nodes) == 23
        assert fleet.links["clusterqueues"].state.value == "forbidden"
        assert fleet.links["clusterqueues"].hint == "Ask for `list clusterqueues.kueue.x-k8s.io`."
        assert await opened.watch.is_allowed("create", "pods", namespace=space.name) is False
        with pytest.raises(NotAllowed):
            await opened.watch.cordon(next(iter(fleet.nodes))[1])
    finally:
        await opened.close()
