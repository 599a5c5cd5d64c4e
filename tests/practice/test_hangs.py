"""Every way in which a rank of a practice training hangs: the real probe asks its pods, and the console says why."""

import asyncio
import io
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest
from msgspec import structs

from console.hang import inspector
from console.hang.inspector import JobInspector
from console.kube.objects.pod import Pod
from practice.node.fake_binaries import activity_of, write_activity, write_fake_binaries
from practice.node.flight_recorder import PIPE, FlightRecorders
from practice.node.proc_files import process_environment
from practice.programs.hangs import DATA_GROUP, HOW
from practice.programs.steps import SharedFacts
from rankscope import (
    ACTIVITY_ADVICE,
    DESYNC_ADVICE as RECORDER_ADVICE,
    FAILED_ADVICE,
    GONE_ADVICE,
    Activity,
    Desync,
    HangReport,
    poll_ras,
    probe,
)
from tests.fakes import fleet_of
from tests.practice.test_mishaps import member, until_stuck
from tests.screens.scene import jobset, rank

REPLICAS = {"A4_RECIPE": "swift-dpo-multinode", "A4_SWIFT_TP": "4"}
STAGES = {"A4_RECIPE": "qwen3-30b-pretrain", "A4_TP": "2", "A4_PP": "2"}


class Cluster:
    def __init__(self, pods: int) -> None:
        job = jobset("hung", pods)
        several = [rank(job, number, f"node-{number}") for number in range(pods)]
        self.fleet = fleet_of(job, *(structs.replace(each, ip=f"10.0.0.{at + 1}") for at, each in enumerate(several)))

    def connection_for_change(self, action: str) -> None:
        """Allow everything."""


class Pods:
    """The pods of a job that has come to the step at which it hangs."""

    def __init__(
        self, folder: Path, how: str, monkeypatch: pytest.MonkeyPatch, env: dict[str, str], pods: int = 2
    ) -> None:
        room = SharedFacts()
        env = {**env, "PRACTICE_FAULT": f"hang:7:{how}", PIPE: "/tmp/a4-recorder-"}
        self.places = [member(number, room, pods, **env) for number in range(pods)]
        self.folders = [folder / str(number) for number in range(pods)]
        self._patch = monkeypatch
        for place, home in zip(self.places, self.folders, strict=True):
            until_stuck(env["A4_RECIPE"], place)
            home.mkdir()
            write_fake_binaries(home, place)

    async def inspect(self, *, all_stacks: bool = False) -> HangReport:
        recorders, ends, lock = FlightRecorders(), set[Any](), asyncio.Lock()
        for place, home in zip(self.places, self.folders, strict=True):
            write_activity(home, place)
            recorders.listen(home, place, partial(activity_of, place), 0.8, ends)

        async def run(pod: Pod, argv: Sequence[str], stdin: bytes, take: Callable[[int, bytes], None]) -> int:
            async with lock:  # of one process, which has one environment
                take(1, await asyncio.to_thread(self._ask, self.folders[pod.completion_index], argv[5:]))
            return 0

        try:
            looking = JobInspector(cast("Any", Cluster(len(self.places))), run)
            return await looking.inspect_job("default", "hung", all_stacks=all_stacks)
        finally:
            recorders.close()

    def _ask(self, home: Path, options: Sequence[str]) -> bytes:
        for name, value in process_environment(home).items():
            self._patch.setenv(name, value)
        self._patch.setenv("PATH", f"{home / '.bin'}:/usr/bin:/bin")
        self._patch.setattr(probe, "PROC_FOLDER", process_environment(home)["A4_PROC"])
        self._patch.setattr(sys, "argv", ["probe", *options])
        with redirect_stdout(io.StringIO()) as said:
            probe.main()
        return said.getvalue().encode()

    def run_in(self, number: int, *argv: str) -> str:
        path = {"PATH": f"{self.folders[number] / '.bin'}:/usr/bin:/bin"}
        return subprocess.run(
            ["sh", "-c", " ".join(argv)], env=path, capture_output=True, text=True, check=False
        ).stdout


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspector, "RAS_PAUSE", 0.0)
    monkeypatch.setattr(probe, "PIPE_UNREAD_TIMEOUT", 2.0)


class Told(NamedTuple):
    kind: Desync | None
    doing: Activity
    words: str
    advice: tuple[str, ...]


OF_ALL, OF_DATA = "never entered all_reduce #4,117 of the group of all ranks", "all_reduce #8,233 of the data group"
TOLD = {
    "data": Told(Desync.MISSED, Activity.DATA, f"{OF_ALL}; it is in the data loader",
                 (ACTIVITY_ADVICE[Activity.DATA],)),
    "checkpoint": Told(
        Desync.MISSED, Activity.CHECKPOINT, f"{OF_ALL}; it is in a checkpoint", (ACTIVITY_ADVICE[Activity.CHECKPOINT],)
    ),
    "lock": Told(Desync.MISSED, Activity.LOCK, f"{OF_ALL}; it is waiting for a lock",
                 (ACTIVITY_ADVICE[Activity.LOCK],)),
    "skip": Told(
        Desync.MISSED, Activity.COLLECTIVE,
        f"never entered {OF_DATA} and waits in all_reduce #4,117 of the group of all ranks",
        (RECORDER_ADVICE[Desync.MISSED],),
    ),
    "order": Told(None, Activity.COLLECTIVE, "reported Invalid usage in NCCL", (FAILED_ADVICE,)),
    "shape": Told(
        Desync.SHAPE, Activity.COLLECTIVE,
        "is at all_reduce #8,227 of the data group with 100663296, BFloat16, where 3 others are at it with 67108864",
        (RECORDER_ADVICE[Desync.SHAPE],),
    ),
    "epoch": Told(
        Desync.EPOCH, Activity.COLLECTIVE,
        "are at all_reduce_barrier #4,117 of the group of all ranks, where 12 others are at all_reduce: not in the",
        (RECORDER_ADVICE[Desync.EPOCH],),
    ),
    "stage": Told(
        Desync.STAGE, Activity.WAIT, "never sent to rank 1 (recv #8,234 of the pipeline group); it is in make_cubin",
        (RECORDER_ADVICE[Desync.STAGE], ACTIVITY_ADVICE[Activity.WAIT]),
    ),
    "dead": Told(None, Activity.UNKNOWN, "has no process any more", (GONE_ADVICE,)),
    "stop": Told(
        Desync.NO_DUMP, Activity.UNKNOWN, f"gave no dump and {OF_ALL}; it is stopped",
        (RECORDER_ADVICE[Desync.NO_DUMP], GONE_ADVICE),
    ),
    "gpu": Told(
        Desync.GPU, Activity.COLLECTIVE, f"launched {OF_DATA}, but its GPU has not come to it",
        (RECORDER_ADVICE[Desync.GPU],),
    ),
    "teardown": Told(None, Activity.TEARDOWN, "is in teardown while", (ACTIVITY_ADVICE[Activity.TEARDOWN],)),
}  # fmt: skip
OF_ONE_REPLICA = (8, 9, 10, 11)


MAY_BE_THE_NODE = {"dead", "stop", "gpu", "stage"}


@pytest.mark.slow(reason="a practice cluster runs a job")
@pytest.mark.parametrize("how", HOW)
async def test_the_rank_is_named_with_what_keeps_it(how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pods = Pods(tmp_path, how, monkeypatch, STAGES if how == "stage" else REPLICAS)
    report, told = await pods.inspect(), TOLD[how]
    ranks = tuple(each for group in report.suspects for each in group.ranks)
    assert ranks == (OF_ONE_REPLICA if how == "epoch" else (9,)), report.verdict
    assert (report.recorded.kind if report.recorded else None) == told.kind, report.verdict
    assert {group.doing for group in report.suspects} == {told.doing}
    assert told.words in report.short
    assert report.advice == told.advice
    assert report.suspected_nodes == ("node-1",)
    assert report.blames_program == (how not in MAY_BE_THE_NODE)
    assert "15 others" in report.short or report.short.endswith(f"{16 - len(ranks)} wait."), report.short
    loads = pods.run_in(1, "nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader").split("\n")[1:9]
    assert [load == "0 %" for load in loads] == [gpu == 1 and HOW[how].idle for gpu in range(8)]
    progress, behind, members, _ = poll_ras.read_json(json.loads(pods.run_in(0, "ncclras -v -f json")))
    assert max(map(len, members.values())) == 16 - (how in ("dead", "stop"))
    assert len(progress or {}) == 1 + (HOW[how].group == DATA_GROUP)
    assert {process[:2] for _, _, late in behind for process in late} <= {("10.0.0.2", 1202)}


@pytest.mark.slow(reason="a practice cluster runs a job")
async def test_between_the_gpus_of_one_pod_another_order_is_no_error_of_nccl(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = await Pods(tmp_path, "order", monkeypatch, REPLICAS, pods=1).inspect()
    assert report.recorded is not None
    assert (report.recorded.kind, report.recorded.ranks) == (Desync.ORDER, (1,))
    assert (
        "is at broadcast #8,233 of the data group, where the other is at all_reduce: the order differs" in report.short
    )
    assert report.advice == (RECORDER_ADVICE[Desync.ORDER],)


async def test_a_process_that_is_dead_is_in_no_list_of_its_pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pods = Pods(tmp_path, "dead", monkeypatch, REPLICAS)
    write_activity(pods.folders[1], pods.places[1])
    assert pods.run_in(1, "pgrep -f 'python3 -u'").split() == [str(pid) for pid in range(1201, 1209) if pid != 1202]
    assert "1202" not in pods.run_in(1, "nvidia-smi")
    assert not pods.run_in(1, "py-spy dump --pid 1202")


def test_the_guide_names_every_way_to_hang() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "practice.md").read_text()
    assert [how for how in HOW if f"`{how}`" not in guide] == []


@pytest.mark.slow(reason="a practice cluster runs a job")
async def test_of_two_replicas_the_one_that_skipped_is_reported_by_the_other_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = await Pods(tmp_path, "skip", monkeypatch, REPLICAS, pods=1).inspect()
    assert report.recorded is not None
    assert (report.recorded.kind, report.recorded.ranks) == (Desync.MISSED, (1,))
    assert TOLD["skip"].words in report.short


@pytest.mark.slow(reason="a practice cluster runs a job")
@pytest.mark.parametrize("how", ["shape", "epoch", "gpu"])
async def test_of_two_replicas_the_ranks_are_named_as_of_more(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = await Pods(tmp_path, how, monkeypatch, REPLICAS, pods=1).inspect()
    assert report.recorded is not None
    assert (report.recorded.kind, report.recorded.ranks) == (TOLD[how].kind, (0, 1, 2, 3) if how == "epoch" else (1,))
