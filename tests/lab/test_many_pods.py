"""A hang of 1,024 ranks in pods of the real control plane, which carries no more than 32 commands at a time."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from aiohttp import ClientWSTimeout, WSMsgType, web

from console.attach.fan_out import MAX_CONCURRENT_PODS
from console.hang.inspector import JobInspector
from console.session import Session
from practice.api.exec_channels import EXEC_PROTOCOLS
from rankscope import HangReport
from tests.apiserver import ApiServer
from tests.bench.many_pods import STUCK, Cluster, Pods, Streams, address
from tests.contract.client import MERGE_PATCH, Api
from tests.contract.cluster import CORE, JOBSETS, eventually, real_cluster
from tests.contract.space import Space, jobset, open_session, open_space, public_folder
from tests.lab.control_plane import Lab
from tests.programs import find

pytestmark = [pytest.mark.lab, pytest.mark.programs("sshd", "ssh")]
NUMBER = 128
"""Pods, of eight ranks each."""
EXECS = "/apis/kwok.x-k8s.io/v1alpha1"


class Relay(Streams):
    """Streams to the lab's own API server, 32 at a time."""

    def __init__(self, api: Api) -> None:
        super().__init__()
        self.api = api

    async def carry(self, request: web.Request, opened: web.WebSocketResponse) -> None:
        there = self.api.http.ws_connect(
            request.path_qs, protocols=EXEC_PROTOCOLS, max_msg_size=0, timeout=ClientWSTimeout(ws_close=5)
        )
        async with there as lab:

            async def send() -> None:
                async for message in opened:
                    if message.type is WSMsgType.BINARY:
                        await lab.send_bytes(message.data)

            sending = asyncio.create_task(send())
            async for message in lab:
                if message.type is WSMsgType.BINARY:
                    await opened.send_bytes(message.data)
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)


@pytest.fixture
def folder() -> Iterator[Path]:
    with public_folder() as made:
        yield made


@pytest.fixture
async def space(lab: Lab) -> AsyncIterator[Space]:
    async with Api.open(lab.kubeconfig) as api, open_space(api, real_cluster(lab), "lab-many-pods") as made:
        yield made


@pytest.fixture
async def session(lab: Lab, space: Space) -> AsyncIterator[Session]:
    async with open_session(lab.kubeconfig, space, "jobsets", "pods") as opened:
        yield opened


async def furnish(space: Space, session: Session, folder: Path) -> Pods:
    """A job whose pods have an address and a folder of this machine each, and processes that hang."""
    body = jobset("hung", "", NUMBER, topology="")
    del body["metadata"]["labels"]
    spec = body["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    del spec["containers"][0]["resources"]  # more pods than the lab has machines with GPUs
    spec["tolerations"] = [{"operator": "Exists"}]
    assert (await space.api.create(space.path(JOBSETS, "jobsets"), body)).status == 201
    for at, pod in enumerate(await space.pods("hung", NUMBER)):
        change = {"status": {"podIP": address(at), "podIPs": [{"ip": address(at)}]}}
        path = f"{space.path(CORE, 'pods', pod['metadata']['name'])}/status"
        answer = await space.api.send("PATCH", path, change, MERGE_PATCH)
        assert answer.status == 200, answer.body
    wanted = [address(at) for at in range(NUMBER)]

    async def known() -> bool:
        mine = [pod for key, pod in session.fleet.pods.items() if key[0] == space.name]
        mine.sort(key=lambda pod: pod.completion_index or 0)
        return [pod.ip for pod in mine] == wanted and all(pod.phase == "Running" for pod in mine)

    await eventually(known, "all pods have their addresses")
    mine = [pod for key, pod in session.fleet.pods.items() if key[0] == space.name]
    pods = await asyncio.to_thread(Pods, folder, sorted(mine, key=lambda pod: pod.completion_index or 0))
    for each in pods.pods:
        envs = [{"name": name, "value": value} for name, value in pods.env[each.name].items()]
        local = {"workDir": str(folder / each.name), "envs": envs}
        made = {"apiVersion": "kwok.x-k8s.io/v1alpha1", "kind": "Exec", "metadata": {"name": each.name},
                "spec": {"execs": [{"local": local}]}}  # fmt: skip
        assert (await space.api.create(space.path(EXECS, "execs"), made)).status == 201
    return pods


async def ask(space: Space, session: Session, pods: Pods) -> tuple[HangReport, Relay]:
    """The report of the job, and the streams that it took."""
    streams = Relay(space.api)
    async with ApiServer(secure=True) as server, server.client() as client:
        for pod in pods.pods:
            server.handlers[f"{space.path(CORE, 'pods', pod.name)}/exec"] = streams.answer
        began = time.monotonic()
        report = await JobInspector(cast("Any", Cluster(session.fleet, client))).inspect_job(space.name, "hung")
        print(  # noqa: T201
            f"{len(report.processes):,} ranks: {time.monotonic() - began:.1f} s, {streams.every} streams, "
            f"{streams.most} at a time; {report.asked}"
        )
    return report, streams


async def test_a_hang_of_1024_ranks_is_asked_through_one_pod_and_else_few_at_a_time(
    space: Space, session: Session, folder: Path
) -> None:
    pods = await furnish(space, session, folder)
    report, streams = await ask(space, session, pods)
    hung = f"Rank {8 * STUCK + 1} (pod {STUCK}, GPU 1) is in the data loader while {8 * NUMBER - 1} others wait."
    assert (report.short, len(report.processes)) == (hung, 8 * NUMBER)
    assert (streams.refused, streams.most) == (0, MAX_CONCURRENT_PODS)
    assert report.asked == (
        f"{NUMBER} of {NUMBER} answered, each in a stream of its own (there is no ssh, or no key of the release, in "
        "this pod)"
    )
    await asyncio.to_thread(pods.make_keys)
    sshd = find("sshd")
    assert sshd is not None
    async with pods.listening(sshd):
        report, streams = await ask(space, session, pods)
    assert (report.short, len(report.processes)) == (hung, 8 * NUMBER)
    assert report.asked == f"{NUMBER} of {NUMBER} answered, {NUMBER} of them through pod 0 (ssh)"
    assert (streams.refused, streams.every <= 4) == (0, True), streams.every
