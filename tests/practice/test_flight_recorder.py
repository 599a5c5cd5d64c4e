"""The flight recorders of practice pods: what the probe reads in them names rank and cause, as in real ones."""

import asyncio
import json
import pickle
import shlex
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from practice.node import flight_recorder
from practice.node.fake_binaries import write_fake_binaries
from practice.node.flight_recorder import PIPE, FlightRecorders, find_recording, make_dump, recorder_variables
from practice.node.proc_files import process_environment, write_proc_files
from practice.node.ras_status import FIRST_PID, ras_arguments
from practice.programs.hangs import HUNG_FACT
from practice.programs.steps import ProgramContext
from rankscope import (
    Desync,
    LateRank,
    PodTimes,
    RankDump,
    SlowReport,
    add_samples,
    find_late_on_gpu,
    judge_dumps,
    parse_samples,
    probe,
)
from tests.practice.test_mishaps import member

PODS, STEP, NOW = 3, 0.8, 1_795_000_000.0
AWK = Path(flight_recorder.__file__).parent.parent / "data" / "ncclras.awk"


def pod(rank: int, fault: str = "", pipe: str = "") -> ProgramContext:
    env = {PIPE: pipe, "GPUS_PER_NODE": "8", "PRACTICE_FAULT": fault, "A4_RECIPE": "qwen3-30b-pretrain"}
    return member(rank, None, PODS, **env)


def ask_all(folder: Path, fault: str, read: Any, facts: dict[str, Any] | None = None) -> list[list[dict[str, Any]]]:
    """What the probe reads in the dump of each rank, pod by pod."""
    told: list[list[dict[str, Any]]] = []
    for number in range(PODS):
        where = pod(number, fault)
        where.room.facts |= facts or {}
        told.append([])
        for rank in range(number * 8, number * 8 + 8):
            path = folder / f"dump-{rank}"
            path.write_bytes(pickle.dumps(make_dump(where, "train", rank, STEP, NOW + number / 7), 2))
            told[-1].append({"rank": rank, **read(str(path))})
    return told


@pytest.mark.slow(reason="a practice cluster runs a job")
@pytest.mark.parametrize("fault", ["slowrank:9:8%", "slowrank:9:8%:gpu", "slowrank:9:8%:data", "slowrank:9:8%:network"])
def test_times_name_the_slow_rank_or_the_slow_nic(fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = ask_all(tmp_path, fault, lambda path: probe.read_times(path, 10.0))
    pods = {}
    for number, ranks in enumerate(told):
        folder = tmp_path / str(number)
        (folder / ".bin").mkdir(parents=True)
        write_proc_files(folder, pod(number, fault), "train")
        monkeypatch.setenv("A4_RDMA", process_environment(folder)["A4_RDMA"])
        told_here = {"ranks": ranks, "rdma": probe.read_rdma_state(), "clock": "of this machine"}
        pods[number] = msgspec.convert(told_here, PodTimes)
    found = find_late_on_gpu(pods, {})
    if fault.endswith("network"):
        assert found.link is not None
        assert (found.link.pod, found.late) == (1, ())
    else:
        (late,) = found.late
        assert (late.rank, late.pod, late.gpu, found.link) == (9, 1, 1, None)
        assert abs(late.share - 0.08) < 0.08 / 3
        assert late.by_host is not (fault.endswith("gpu"))


@pytest.mark.parametrize("cause", ["host", "gpu", "data"])
def test_dumps_hold_the_collectives_that_were_recorded_of_such_a_rank(cause: str) -> None:
    recorded = find_recording(cause)
    percent, step = round(100 * recorded.share), recorded.seconds / recorded.steps
    where = pod(1, f"slowrank:9:{percent}%:{cause}")
    usual, slow = (make_dump(where, "train", rank, step, NOW)["entries"] for rank in (8, 9))
    known = {each["collective_seq_id"]: each for each in slow}
    compared = [(each, known[each["collective_seq_id"]]) for each in usual if each["collective_seq_id"] in known]
    assert len(compared) > 10 * len(recorded.calls)
    for mine, its in compared:
        call = recorded.calls[mine["collective_seq_id"] % len(recorded.calls)]
        assert [mine["duration_ms"], its["duration_ms"]] == pytest.approx([call.took / 1000, call.its / 1000], rel=0.03)
        later = (its["time_created_ns"] - mine["time_created_ns"]) / 1000
        assert later == pytest.approx(call.later, rel=0.03, abs=2)


@pytest.mark.parametrize("cause", ["host", "gpu", "data"])
def test_nccl_counts_the_launches_that_recorders_hold(cause: str) -> None:
    where, behind = pod(1, f"slowrank:9:20%:{cause}"), 0
    for moment in range(20):
        now = NOW + moment * 0.37
        given = ["-v", f"now={now:.6f}", *shlex.split(ras_arguments(where, "train", STEP)), "-f", str(AWK)]
        answer = subprocess.run(["awk", *given], capture_output=True, check=True).stdout
        counts = {each["rank"]: each["collective_counts"]["AllReduce"]
                  for each in json.loads(answer)["communicators"][0]["ranks"]}  # fmt: skip
        for rank in (8, 9):
            launched = [each["collective_seq_id"] for each in make_dump(where, "train", rank, STEP, now)["entries"]]
            assert counts[rank] == max(launched) + 1
        behind += counts[9] < counts[8]
    assert (behind > 5) is (cause != "gpu"), "the loss is read in each step, so that the host of a slow GPU is in time"


@pytest.mark.slow(reason="a practice cluster runs a job")
def test_a_healthy_job_has_no_slow_rank_and_waits_for_nobody(tmp_path: Path) -> None:
    pods = enumerate(ask_all(tmp_path, "", lambda path: probe.read_times(path, 10.0)))
    found = find_late_on_gpu({number: msgspec.convert({"ranks": ranks}, PodTimes) for number, ranks in pods}, {})
    assert (found.late, found.has_verdict) == ((), True)
    told = ask_all(tmp_path, "", probe.read_dump)
    assert judge_dumps([msgspec.convert(each, RankDump) for ranks in told for each in ranks]) is None


@pytest.mark.slow(reason="a practice cluster runs a job")
def test_of_a_hang_they_name_who_never_entered_the_collective(tmp_path: Path) -> None:
    told = ask_all(tmp_path, "", probe.read_dump, {HUNG_FACT: 2})
    found = judge_dumps([msgspec.convert(each, RankDump) for ranks in told for each in ranks])
    assert found is not None
    assert (found.kind, found.ranks, found.waiting) == (Desync.MISSED, (17,), 23)
    assert found.what == "never entered all_reduce #4,117 of the group of all ranks"
    assert found.frame == "param_and_grad_buffer.py:405"


async def test_a_rank_dumps_when_its_pipe_is_written_to_and_not_after_its_end(tmp_path: Path) -> None:
    where = pod(1, pipe="/tmp/a4-recorder-")
    variables = recorder_variables(tmp_path, where)
    assert all(path.startswith(str(tmp_path)) for path in variables.values())
    ends: set[Any] = set()
    recorders = FlightRecorders()
    for _ in range(2):  # several look into one pod
        recorders.listen(tmp_path, where, lambda: "train", STEP, ends)
    each = {"rank": 9, "env": variables}
    told = await asyncio.to_thread(probe.recorder, each, probe.read_dump)
    assert told["rank"] == 9
    assert {one["state"] for one in told["operations"]} == {"completed"}
    (end,) = ends
    end()
    recorders.close()
    told = await asyncio.to_thread(probe.recorder, each, probe.read_dump)
    assert told["why"].startswith("its recorder does not listen (")


def test_without_the_chart_s_variables_there_is_no_pipe(tmp_path: Path) -> None:
    assert recorder_variables(tmp_path, pod(0)) == {}


@pytest.mark.parametrize(
    ("fault", "cause", "place"),
    [("slowrank:9:8%:data", "data", "megatron/training/utils.py:385"), ("slowrank:9:8%", "host", "python collector"),
     ("slowrank:1:8%:data", "host", "")],
)  # fmt: skip
def test_py_spy_finds_a_rank_where_the_fault_has_it(fault: str, cause: str, place: str, tmp_path: Path) -> None:
    told = []
    for number in range(2):
        folder = tmp_path / str(number)
        folder.mkdir()
        where = pod(number, fault)
        write_fake_binaries(folder, where)
        (folder / ".bin" / "doing").write_text("train")
        write_proc_files(folder, where, "train")
        tool = str(folder / ".bin" / "py-spy")
        told.append(probe.sample_main_thread(tool, {"rank": number * 8 + 1, "pid": FIRST_PID + 1}, 1.0))
    late = LateRank(9, "10.0.0.2", 1202, 1, 0.08, 0.07, 0.09, suspect=True, timed=True, cause="host")
    report = add_samples(
        SlowReport(late=(late,), timed="16 of 16 ranks told"), parse_samples(msgspec.json.encode({"ranks": told}))
    )
    assert report.late[0].cause == cause
    assert report.late[0].where == place
    assert report.sampled == "py-spy looked at ranks 1, 9"
