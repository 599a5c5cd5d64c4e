"""What a pod prints without end, or an account that may run nothing: every question ends in words.

The whole table of commands and floods, with seconds and memory, is `python -m tests.bench floods`.
"""

from __future__ import annotations

import asyncio
import functools
from collections import Counter
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, cast

import pytest

from console.attach.container_facts import FactState
from console.attach.exec_many import Inside, QuickTest
from console.attach.files.pod_files import PodFolders
from console.errors import ConsoleError, NotAllowed, ProgramFailed, Unreachable, Unreadable
from console.hang.xray import Xray
from console.kube import exec as executing
from console.kube.client import REST
from console.kube.watch import HttpSource
from console.logs.container_log import Wanted, follow_log
from console.metrics.gpus import Gpus
from console.scheduling.ranks import ranks
from tests.apiserver import ApiServer, eventually
from tests.fakes import fleet_of
from tests.hostile.lying_api import FLOODS
from tests.screens.scene import jobset, rank

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from console.kube.client import Client
    from console.kube.objects.pod import Pod
    from console.scheduling.ranks import Rank

JOB = jobset("train", 2)
LIMIT = 0.5
"""Seconds that the person allows, where it is the person who says it."""


class Cluster:
    """A watched cluster whose pods all do what the flood says."""

    read_only = False

    def __init__(self, client: Client) -> None:
        self.pods = [rank(JOB, number, f"node-{number}") for number in range(JOB.ranks)]
        self.fleet = fleet_of(JOB, *self.pods)
        self.client = client
        self.connected = self
        self.limit = 30.0

    def changing(self, _: str) -> Cluster:
        return self

    @property
    def ranks(self) -> tuple[Rank, ...]:
        return ranks(JOB, self.fleet)


@asynccontextmanager
async def flooded(flood: str) -> AsyncIterator[Any]:
    async with ApiServer(secure=True) as server, server.client() as client:
        cluster = Cluster(client)
        for pod in cluster.pods:
            server.handlers[f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/exec"] = FLOODS[flood].answer
        yield cast("Any", cluster)


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is waited for seconds elsewhere."""
    for name in ("hang.xray", "metrics.gpus"):
        monkeypatch.setattr(f"console.{name}.FLOW", 0.2)
    monkeypatch.setattr("console.attach.files.pod_files.FLOW", 0.2)
    monkeypatch.setattr("console.attach.files.pod_files.LISTING", 0.5)
    monkeypatch.setitem(cast("Any", executing.bounded).__wrapped__.__kwdefaults__, "flow", 0.2)


async def ask_facts(cluster: Any, pod: Pod) -> None:
    """The failure of the first question, as an error."""
    found = await Inside(cluster).facts(pod)
    assert {fact.state for fact in found.facts} == {FactState.FAILED}
    raise Unreadable(found.facts[0].words)


async def ask_stacks(cluster: Any, _: Pod) -> None:
    report = await Xray(cluster).job("default", "train")
    assert not report.groups
    raise Unreadable(report.pods[0].failure)


async def ask_gpus(cluster: Any, _: Pod) -> None:
    board = await Gpus(cluster).once("default", "train", source="nvidia-smi")
    assert not board.every
    raise Unreadable(board.ranks[0].problem)


async def ask_nccl(cluster: Any, pod: Pod) -> None:
    await Inside(cluster).quick_nccl(pod, QuickTest(), limit=cluster.limit)


async def ask_many(cluster: Any, _: Pod) -> None:
    outputs = await Inside(cluster).everywhere(cluster.ranks, ("true",), limit=cluster.limit)
    assert all(each.code for each in outputs)
    raise Unreadable(outputs[0].failure)


async def ask_folder(cluster: Any, pod: Pod) -> None:
    start = functools.partial(executing.started, cluster.client, pod.namespace, pod.name)
    await PodFolders(start, "pod 0").listed("/")


async def ask_path(cluster: Any, pod: Pod) -> None:
    start = functools.partial(executing.started, cluster.client, pod.namespace, pod.name)
    await PodFolders(start, "pod 0").look("/")


QUESTIONS = {
    "ls": ask_folder,
    "the first look of cp": ask_path,
    "facts": ask_facts,
    "hang": ask_stacks,
    "gpus": ask_gpus,
    "nccl-quick": ask_nccl,
    "exec --all": ask_many,
}


@pytest.mark.parametrize("flood", ["exec: lines without end", "exec: errors without end"])
@pytest.mark.parametrize("question", QUESTIONS)
async def test_what_is_printed_without_end_is_ended_by_its_size(question: str, flood: str) -> None:
    async with flooded(flood) as cluster:
        with pytest.raises(ConsoleError, match=r"(printed|longer) (more )?than \d+ [MK]iB"):
            await QUESTIONS[question](cluster, cluster.pods[0])


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("question", QUESTIONS)
async def test_what_drips_without_end_is_ended_by_its_time(question: str) -> None:
    async with flooded("exec: a drip without end") as cluster:
        cluster.limit = LIMIT
        with pytest.raises(ConsoleError, match=r"0\.[25] s"):
            await QUESTIONS[question](cluster, cluster.pods[0])


async def test_a_silent_pod_is_given_up_in_words() -> None:
    async with flooded("exec: silence") as cluster:
        with pytest.raises(Unreachable, match=r"did not answer within 0\.2 s"):
            await executing.answer(cluster.client, "default", cluster.pods[0].name, ["true"], limit=0.2)


@pytest.mark.parametrize("question", [name for name in QUESTIONS if name != "exec --all"])
async def test_whoever_may_run_nothing_is_told_so(question: str) -> None:
    async with flooded("exec: refused") as cluster:
        with pytest.raises(NotAllowed, match=r"may not|not allowed|forbidden|permission") as told:
            await QUESTIONS[question](cluster, cluster.pods[0])
        assert told.value.exit_code == 3
        assert len(told.value.message) < 300


async def test_a_command_in_many_pods_that_is_refused_has_the_code_of_a_refusal() -> None:
    async with flooded("exec: refused") as cluster:
        outputs = await Inside(cluster).everywhere(cluster.ranks, ("true",))
        assert [each.code for each in outputs] == [3, 3]


async def test_an_answer_that_ends_is_whole() -> None:
    """A pod may print much, as long as somebody uses it: limits begin anew after `clear`."""
    async with executing.bounded("p", most=10, flow=None) as said:
        for _ in range(3):
            said.take(executing.STDOUT, b"12345678")
            assert bytes(said.output) == b"12345678"
            said.clear()
    with pytest.raises(ProgramFailed):
        async with executing.bounded("p", most=10):
            raise ProgramFailed("its own failure passes")


async def test_a_key_is_answered_before_a_log_and_a_watch_that_have_no_end() -> None:
    """Nothing of either is passed on while a key is answered; afterwards both go on."""
    async with ApiServer(secure=True) as server, server.client() as client:
        log, pods = "/api/v1/namespaces/n/pods/p/log", "/api/v1/pods"
        server.handlers[log] = FLOODS["log: lines without end"].answer
        server.handlers[pods] = FLOODS["watch: changes without end"].answer
        came = Counter[str]()

        async def follow_log() -> None:
            async with client.follow(log, doing="read it", params={}, silence=5) as answer:
                await answer.pour(lambda _: came.update(["log"]))

        async def follow_pods() -> None:
            async with HttpSource(client, pods, "pods").watch("1") as lines:
                async for _ in lines:
                    came.update(["watch"])

        following = [asyncio.create_task(follow_log()), asyncio.create_task(follow_pods())]
        await eventually(lambda: came["log"] and came["watch"])
        client.yield_to_key()
        await asyncio.sleep(REST / 10)
        before = came.copy()
        await asyncio.sleep(REST / 2)
        assert came == before
        await eventually(lambda: came["log"] > before["log"] and came["watch"] > before["watch"])
        for task in following:
            task.cancel()
        await asyncio.gather(*following, return_exceptions=True)


async def test_the_last_lines_of_a_log_that_have_no_end_are_given_up() -> None:
    """Every running job is looked at in this way, every few seconds."""

    number = 0

    async def read(client: Client) -> None:
        nonlocal number
        async for _ in follow_log(client, Wanted("n", "p", tail=10, follow=False)):
            number += 1

    async with ApiServer(secure=True) as server, server.client() as client:
        server.handlers["/api/v1/namespaces/n/pods/p/log"] = FLOODS["log: lines without end"].answer
        with pytest.raises(Unreadable, match="more than 1 MiB for the last 10 lines"):
            await read(client)
    assert number < 50_000
