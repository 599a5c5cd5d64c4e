"""Pods that print without end, and accounts that may run nothing: every question ends in words."""

from __future__ import annotations

import asyncio
import functools
import gc
import json
import math
import sys
import time
import tracemalloc
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiohttp import web

from console import work_slices
from console.alarm_thresholds import Thresholds
from console.attach.exec_many import ContainerExec, FactState, QuickNcclTest
from console.attach.files.pod_files import PodFiles
from console.attach.ssh import client as ssh_client
from console.errors import ConsoleError, NotAllowed, ProgramFailed, Unreachable, Unreadable
from console.hang.inspector import JobInspector
from console.kube import exec as executing
from console.kube.client import Client
from console.kube.objects.pod import Pod
from console.kube.port_forward import LivePod
from console.kube.watch import HttpSource
from console.logs.container_log import LogRequest, LogStream, follow_log
from console.logs.log_line import LineSplitter
from console.metrics.alarm import AlarmKind
from console.metrics.alarm_service import AlarmService
from console.metrics.gpu_reader import GpuReader
from console.metrics.job_monitor import MonitorSources
from console.scheduling.pod_slots import PodSlot, pod_slots
from screens.__main__ import GC_THRESHOLDS
from tests.apiserver import ApiServer, eventually
from tests.fakes import fleet_of
from tests.hostile.lying_api import FLOODS, change
from tests.hostile.test_api_server import body, bomb
from tests.screens.scene import jobset, rank
from tests.screens.test_one_verdict import Case, printed

JOB = jobset("train", 2)
LIMIT = 0.5
"""Seconds that the person allows, where it is the person who says it."""
LOG, PODS = "/api/v1/namespaces/n/pods/p/log", "/api/v1/pods"
SLOW = pytest.mark.slow(reason="waits until something that never ends is given up")


class Cluster:
    """A watched cluster whose pods all do what the flood says."""

    read_only = False

    def __init__(self, client: Client) -> None:
        self.pods = [rank(JOB, number, f"node-{number}") for number in range(JOB.ranks)]
        self.fleet = fleet_of(JOB, *self.pods)
        self.client = client
        self.current_connection = self
        self.limit = 30.0

    def connection_for_change(self, _: str) -> Cluster:
        return self

    def missing_seconds(self, *_: str) -> float:
        return 0.0

    @property
    def ranks(self) -> tuple[PodSlot, ...]:
        return pod_slots(JOB, self.fleet)


@asynccontextmanager
async def served(path: str, answer: Any) -> AsyncIterator[Client]:
    """A client of an API server that answers so at this path."""
    async with ApiServer(secure=True) as server, server.client() as client:
        server.handlers[path] = answer
        yield client


@asynccontextmanager
async def flooded(flood: str) -> AsyncIterator[Any]:
    async with ApiServer(secure=True) as server, server.client() as client:
        cluster = Cluster(client)
        for pod in cluster.pods:
            for what in ("exec", "portforward", "log"):
                server.handlers[f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/{what}"] = FLOODS[flood].answer
        yield cast("Any", cluster)


def _alarms_of(cluster: Any) -> AlarmService:
    reader = SimpleNamespace(progress_of=lambda _: None)
    measures = SimpleNamespace(pass_line=250.0, light={}, progress_reader=reader, earlier_phases=_no_phases)
    gpus = SimpleNamespace(exporter_of=lambda *_: "")
    return AlarmService(MonitorSources(cluster, lambda: cast("Any", measures), lambda: cast("Any", gpus)), Thresholds())


async def _no_phases(_: object) -> dict[str, float]:
    return {}


@SLOW
@pytest.mark.parametrize(
    ("flood", "unread"),
    [
        ("log: lines without end", "its log comes faster than it is read"),
        ("log: a drip without end", "no whole line of its log came in 1 s"),
        ("log: silence", "no whole line of its log came in 1 s"),
    ],
)
async def test_what_is_wrong_with_a_job_is_answered_soon_and_says_what_was_not_read(flood: str, unread: str) -> None:
    async with flooded(flood) as cluster:
        alarms = _alarms_of(cluster)
        begun = time.monotonic()
        report = await alarms.check_job("default", "train", 1.0)
        assert time.monotonic() - begun < 8
        assert (report.alarms, report.late_message, report.refused, report.progress) == ((), "", "", None)
        assert report.unread_reason == unread


@pytest.mark.slow(reason="hears a log until it was read up to now")
async def test_an_alarm_is_answered_once_the_log_was_read_up_to_now() -> None:
    over = asyncio.Event()
    lines, _ = printed(Case("fail:5", "swift-dpo", "failed", kept=True, quiet=900))

    async def log(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        for each in lines:
            stamp = datetime.fromtimestamp(each.time, UTC).isoformat().replace("+00:00", "Z")
            await answer.write(f"{stamp} {each.text}\n".encode())
        await over.wait()
        return answer

    async with ApiServer(secure=True) as server, server.client() as client:
        cluster = Cluster(client)
        for pod in cluster.pods:
            server.handlers[f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/log"] = log
        alarms = _alarms_of(cluster)
        report = await alarms.check_job("default", "train", 3.0)
        over.set()
    assert [each.kind for each in report.alarms] == [AlarmKind.KEPT]
    assert report.progress is not None
    assert report.progress.end is not None, "why names the alarm as well as the end"


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is waited for seconds elsewhere."""
    monkeypatch.setattr("console.hang.inspector.ANSWER_FLOW_SECONDS", 0.2)
    monkeypatch.setattr("console.metrics.gpu_reader.REPORT_FLOW_SECONDS", 0.2)
    monkeypatch.setattr("console.attach.files.pod_files.FLOW_SECONDS", 0.2)
    monkeypatch.setattr("console.attach.files.pod_files.LIST_TIMEOUT", 0.5)
    monkeypatch.setitem(cast("Any", executing.limit_output).__wrapped__.__kwdefaults__, "flow", 0.2)


async def ask_facts(cluster: Any, pod: Pod) -> None:
    """The failure of the first question, as an error."""
    found = await ContainerExec(cluster).read_facts(pod)
    assert {fact.state for fact in found.facts} == {FactState.FAILED}
    raise Unreadable(found.facts[0].words)


async def ask_stacks(cluster: Any, _: Pod) -> None:
    report = await JobInspector(cluster).inspect_job("default", "train")
    assert not report.groups
    raise Unreadable(report.pods[0].failure)


async def ask_gpus(cluster: Any, _: Pod) -> None:
    board = await GpuReader(cluster).read_once("default", "train", source="nvidia-smi")
    assert not board.all_gpus
    raise Unreadable(board.ranks[0].problem)


async def ask_nccl(cluster: Any, pod: Pod) -> None:
    await ContainerExec(cluster).run_quick_nccl_test(pod, QuickNcclTest(), limit_seconds=cluster.limit)


async def ask_many(cluster: Any, _: Pod) -> None:
    outputs = await ContainerExec(cluster).run_in_ranks(cluster.ranks, ("true",), limit=cluster.limit)
    assert all(each.code for each in outputs)
    raise Unreadable(outputs[0].failure)


def files_of(cluster: Any, pod: Pod) -> PodFiles:
    return PodFiles(functools.partial(executing.start_process, cluster.client, pod.namespace, pod.name), "pod 0")


QUESTIONS: dict[str, Callable[[Any, Pod], Awaitable[object]]] = {
    "ls": lambda cluster, pod: files_of(cluster, pod).list_folder("/"),
    "the first look of cp": lambda cluster, pod: files_of(cluster, pod).stat("/"),
    "facts": ask_facts,
    "hang": ask_stacks,
    "slow": lambda cluster, _: JobInspector(cluster).find_slow_ranks("default", "train", seconds=1.0),
    "gpus": ask_gpus,
    "nccl-quick": ask_nccl,
    "exec --all": ask_many,
}


BY_ITSELF = [name for name in QUESTIONS if name not in {"exec --all", "nccl-quick"}]
"""Those for which nobody says how long they may take."""
FILES = "console.attach.files.pod_files"
SIZE = r"(printed|longer) (more )?than \d+ [MK]iB"


@pytest.mark.parametrize(
    ("question", "flood", "seconds", "words"),
    [
        *(pytest.param(each, "lines without end", {}, SIZE, marks=SLOW) for each in QUESTIONS),
        *(pytest.param(each, "errors without end", {}, SIZE, marks=SLOW) for each in QUESTIONS),
        *(pytest.param(each, "silence", {"console.kube.exec.START_TIMEOUT": 0.3}, r"within 0\.3 s", marks=SLOW)
          for each in BY_ITSELF),
        ("gpus", "readings of GPUs without end", {}, r"without a pause|more than 256 KiB"),
        ("ls", "a folder of 800,000 entries", {}, "more than 300,000 entries"),
        ("ls", "a drip without end", {f"{FILES}.FLOW_SECONDS": 0.3}, r"did not end, or go on, within 0\.3 s"),
        ("ls", "bytes one by one", {f"{FILES}.FLOW_SECONDS": 30.0, f"{FILES}.LIST_TIMEOUT": 60.0},
         "pieces of a few bytes, without an end"),
    ],
)  # fmt: skip
async def test_what_a_pod_prints_without_end_or_not_at_all_is_given_up_in_words(
    question: str, flood: str, seconds: dict[str, float], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place, limit in seconds.items():
        monkeypatch.setattr(place, limit)
    async with flooded(f"exec: {flood}") as cluster:
        with pytest.raises(ConsoleError, match=words):
            await QUESTIONS[question](cluster, cluster.pods[0])


@SLOW
@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("question", QUESTIONS)
async def test_what_drips_without_end_is_ended_by_its_time(question: str) -> None:
    async with flooded("exec: a drip without end") as cluster:
        cluster.limit = LIMIT
        with pytest.raises(ConsoleError, match=r"0\.[25] s"):
            await QUESTIONS[question](cluster, cluster.pods[0])


@SLOW
@pytest.mark.parametrize("flood", [name for name in FLOODS if name.startswith("port:")])
async def test_what_listens_at_the_port_of_sshd_and_never_speaks_ssh_is_given_up(
    flood: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("console.attach.ssh.client.HANDSHAKE_TIMEOUT", 0.5)
    async with flooded(flood) as cluster:
        where = LivePod("default", cluster.pods[0].name)
        with pytest.raises(Unreachable, match="The SSH connection failed"):
            async with ssh_client.open_connection(cluster.client.login, where, ()):
                pass


async def test_a_silent_pod_is_given_up_in_words() -> None:
    async with flooded("exec: silence") as cluster:
        with pytest.raises(Unreachable, match=r"did not answer within 0\.2 s"):
            await executing.run_and_collect(cluster.client, "default", cluster.pods[0].name, ["true"], limit=0.2)


@SLOW
@pytest.mark.parametrize("question", [name for name in QUESTIONS if name != "exec --all"])
async def test_whoever_may_run_nothing_is_reported_so(question: str) -> None:
    async with flooded("exec: refused") as cluster:
        with pytest.raises(NotAllowed, match=r"may not|not allowed|forbidden|permission") as told:
            await QUESTIONS[question](cluster, cluster.pods[0])
        assert told.value.exit_code == 3
        assert len(told.value.message) < 300


async def test_a_command_in_many_pods_that_is_refused_has_the_code_of_a_refusal() -> None:
    async with flooded("exec: refused") as cluster:
        outputs = await ContainerExec(cluster).run_in_ranks(cluster.ranks, ("true",))
        assert [each.code for each in outputs] == [3, 3]


async def test_an_answer_that_ends_is_whole() -> None:
    """A pod may print much, as long as somebody uses it: limits begin anew after `reset`."""
    async with executing.limit_output("p", max_bytes=10, flow=None) as said:
        for _ in range(3):
            said.add(executing.STDOUT, b"12345678")
            assert bytes(said.output) == b"12345678"
            said.reset()
    with pytest.raises(ProgramFailed):
        async with executing.limit_output("p", max_bytes=10):
            raise ProgramFailed("its own failure passes")


@SLOW
async def test_a_key_is_answered_before_a_log_and_a_watch_that_have_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of either is passed on while a key is answered; afterwards both go on."""
    rest = 3.0  # long enough for a busy machine to see that they rest
    monkeypatch.setattr("console.kube.client.KEYPRESS_REST_SECONDS", rest)
    async with ApiServer(secure=True) as server, server.client() as client:
        server.handlers[LOG] = FLOODS["log: lines without end"].answer
        server.handlers[PODS] = FLOODS["watch: changes without end"].answer
        came = Counter[str]()

        async def follow_log() -> None:
            async with client.follow(LOG, action="read it", params={}, silence=30) as answer:
                await answer.stream_to(lambda _: came.update(["log"]))

        async def follow_pods() -> None:
            async with HttpSource(client, PODS, "pods").watch("1") as lines:
                async for _ in lines:
                    came.update(["watch"])

        following = [asyncio.create_task(follow_log()), asyncio.create_task(follow_pods())]
        await eventually(lambda: came["log"] and came["watch"])
        client.pause_for_keypress()
        pressed, before = time.monotonic(), Counter[str]()
        while came != before:  # what had come by the key is still passed on
            before = came.copy()
            await asyncio.sleep(0.2)
        assert time.monotonic() - pressed < rest
        await eventually(lambda: came["log"] > before["log"] and came["watch"] > before["watch"])
        for task in following:
            task.cancel()
        await asyncio.gather(*following, return_exceptions=True)


async def test_others_get_their_turn_between_the_changes_that_come_in_one_piece(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("console.work_slices.SLICE_SECONDS", -1.0)  # every change uses it up
    many = b"".join(json.dumps(change(number, 1000)).encode() + b"\n" for number in range(500))
    async with served(PODS, body(many)) as client:
        turns, seen = 0, []

        async def others() -> None:
            nonlocal turns
            while True:
                await asyncio.sleep(0)
                turns += 1

        beside = asyncio.create_task(others())
        async with HttpSource(client, PODS, "pods").watch("1") as lines:
            async for _ in lines:
                seen.append(turns)
        beside.cancel()
    assert len(seen) == len(set(seen)) == 500


@pytest.mark.parametrize(("burst", "times"), [(math.inf, 3), (0.0, 9)])
async def test_a_watch_rests_longer_than_what_is_only_read_and_longer_still_where_it_has_no_end(
    burst: float, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its changes are drawn, too."""
    rests: list[float] = []

    def turn(worked: float, times: float = 1.0, *, keys_likely: bool = False) -> float:
        rests.append(round(work_slices.rest_seconds(worked, times, keys_likely=keys_likely) / worked))
        return 0.0

    monkeypatch.setattr("console.work_slices.SLICE_SECONDS", -1.0)
    monkeypatch.setattr("console.work_slices._last_key_press", time.monotonic() - 60)
    monkeypatch.setattr("console.work_slices.MAX_REST_SECONDS", math.inf)
    monkeypatch.setattr("console.work_slices._seconds_until_turn", turn)
    monkeypatch.setattr("console.kube.watch.MAX_BURST_SECONDS", burst)
    lines = [json.dumps(change(number, 1)).encode() + b"\n" for number in range(20)]
    async with served(PODS, body(b"".join(lines))) as client, HttpSource(client, PODS, "pods").watch("1") as came:
        async for _ in came:
            until = time.monotonic() + 0.001
            while time.monotonic() < until:  # what is done with a change
                pass
    assert len(rests) >= 20
    assert set(rests) == {times}


@SLOW
@pytest.mark.skipif(sys.version_info >= (3, 14), reason="from 3.14 on Python looks through a part at a time")
def test_python_looks_through_few_objects_at_once_while_many_come() -> None:
    """Keys wait meanwhile."""
    looked, before = [], gc.get_threshold()

    def looks(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            looked.append(sum(len(gc.get_objects(generation=each)) for each in range(info["generation"] + 1)))

    gc.collect()
    gc.callbacks.append(looks)
    gc.set_threshold(*GC_THRESHOLDS)
    try:
        kept: list[list[None]] = [[] for _ in range(1_100_000)]
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(looks)
    assert len(kept) / 10_000 < len(looked)
    assert max(looked) < 70_000


async def test_the_last_lines_of_a_log_that_have_no_end_are_given_up() -> None:
    """Every running job is looked at in this way, every few seconds."""
    seen = []

    async def read(client: Client) -> None:
        async for lines in follow_log(client, LogRequest("n", "p", tail=10, follow=False)):
            seen.extend(lines)

    async with served(LOG, FLOODS["log: lines without end"].answer) as client:
        with pytest.raises(Unreadable, match="more than the last 10 lines"):
            await read(client)
    assert len(seen) < 5000


class Taken:
    """Bytes of the lines of a log that were taken."""

    size = 0

    def __call__(self, batch: list[tuple[float, bytes]]) -> None:
        self.size += sum(len(line) for _, line in batch)


@pytest.mark.parametrize(
    ("flood", "tail", "words"),
    [
        ("log: lines without end", 10, "sends more than the last 10 lines"),
        ("log: a line without end", 10, "a line of it goes on after 1 MiB"),
        ("log: long lines without end", 10, "it goes on after 1 MiB"),
        ("log: lines without end", None, "it goes on after 2 MiB"),
    ],
)
async def test_a_log_that_is_read_once_and_has_no_end_is_given_up_in_words(
    flood: str, tail: int | None, words: str
) -> None:
    """`a4 nccl` and `a4 training` read so, each container's log poured into its part."""
    take = Taken()
    async with served(LOG, FLOODS[flood].answer) as client:
        with pytest.raises(Unreadable, match=words):
            await LogStream(client, LogRequest("n", "p", tail=tail, follow=False, max_bytes=2 << 20)).run(take)
    assert take.size < 3 << 20


def test_a_line_of_500_megabytes_is_cut_in_words_and_never_held() -> None:
    piece, cutter = b"x" * (1 << 20), LineSplitter()
    tracemalloc.start()
    try:
        assert not [line for _ in range(500) for line in cutter.feed(piece)]
        (line, after) = cutter.feed(b"\nnext\n")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert line == piece + f" … ({499 << 20} bytes more)".encode()
    assert after == b"next"
    assert peak < 8 << 20


async def test_a_log_of_a_gigabyte_in_a_megabyte_of_gzip_is_not_unpacked() -> None:
    """Logs are asked for as they are: what comes packed all the same is no more than came."""
    take, packed = Taken(), bomb()
    async with served(LOG, body(packed, **{"Content-Encoding": "gzip"})) as client:  # type: ignore[arg-type]
        await LogStream(client, LogRequest("n", "p", follow=False)).run(take)
    assert 0 < take.size <= len(packed) + (1 << 16)


@SLOW
async def test_a_log_that_is_read_once_and_only_drips_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("console.kube.http.MIN_SPEED_SECONDS", 1)
    async with served(LOG, FLOODS["log: a drip without end"].answer) as client:
        with pytest.raises(Unreachable, match="in time"):
            await LogStream(client, LogRequest("n", "p", tail=10, follow=False)).run(lambda _: None)


def test_work_rests_once_keys_are_pressed_and_not_before(monkeypatch: pytest.MonkeyPatch) -> None:
    interval = sys.getswitchinterval()
    monkeypatch.setattr("console.work_slices._last_key_press", -math.inf)
    try:
        assert work_slices.rest_seconds(0.01) == 0.0
        work_slices.note_key_press()
        assert work_slices.rest_seconds(0.01) == pytest.approx(0.01 * work_slices.REST_PER_WORK_NEAR_KEYS)
        assert work_slices.rest_seconds(60.0) == work_slices.MAX_REST_SECONDS
        assert sys.getswitchinterval() == pytest.approx(work_slices.SWITCH_SECONDS)
        monkeypatch.setattr(
            "console.work_slices._last_key_press", time.monotonic() - 2 * work_slices.KEY_RECENT_SECONDS
        )
        assert work_slices.rest_seconds(0.01) == pytest.approx(0.01 * work_slices.REST_PER_WORK)
    finally:
        sys.setswitchinterval(interval)


@pytest.mark.parametrize(
    ("limit", "flood", "error", "words"),
    [("client.MIN_FLOW_SECONDS", "a drip without end", Unreachable, "in time"),
     ("api_errors.ERROR_BODY_TIMEOUT", "a refusal that drips", NotAllowed, None)],
)  # fmt: skip
async def test_a_list_that_drips_is_no_answer_and_a_refusal_that_drips_is_known_by_its_status(
    limit: str, flood: str, error: type[ConsoleError], words: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"console.kube.{limit}", 0.3)
    async with served(PODS, FLOODS[f"list: {flood}"].answer) as client:
        with pytest.raises(error, match=words):
            await client.request("GET", PODS, action="list pods")


def test_tasks_that_work_beside_each_other_rest_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("console.work_slices._last_key_press", time.monotonic())
    monkeypatch.setattr("console.work_slices._next_turn_at", 0.0)
    rests = [work_slices._seconds_until_turn(0.01) for _ in range(3)]
    assert rests == pytest.approx([0.03, 0.06, 0.09], abs=0.01)
