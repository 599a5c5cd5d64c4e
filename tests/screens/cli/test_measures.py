import json
import time
from pathlib import Path
from typing import cast

import pytest
from msgspec.structs import replace

from console.errors import NotFound
from console.kube.objects.meta import Condition
from console.logs.log_line import LogLine
from console.metrics.alarm import AlarmKind
from console.session import Session
from screens.cli import nccl_training_gpus
from screens.cli.wait_and_alarms import _read_state
from tests.fakes import FakeSession, monitor
from tests.screens.cli.commands import given, parse
from tests.screens.queue_scene import queue_scene, table_text
from tests.screens.test_training import last_rank, training

FIRST = ("default", "llama-workload-0-0-x7k0")


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeSession:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return FakeSession(queue_scene())


def prints(session: FakeSession, key: tuple[str, str], lines: list[str]) -> None:
    session.printed[key] = [LogLine(time.time(), text) for text in lines]


async def test_the_tests_of_a_job_and_their_verdict(session: FakeSession, capsys: pytest.CaptureFixture[str]) -> None:
    prints(session, FIRST, table_text(600.0, 620.0, 640.0, finished=True))
    assert await nccl_training_gpus.run_nccl(parse(["nccl", "llama"]), given(session)) == 0
    out = capsys.readouterr().out
    assert "passed, 2 GiB alone 640 GB/s is over the pass line" in out
    assert "tests:" not in out
    assert "101 %" in out
    assert await nccl_training_gpus.run_nccl(parse(["nccl", "llama", "--json", "--pass", "700"]), given(session)) == 1
    told = json.loads(capsys.readouterr().out)
    assert (told["pass_line"], told["nccl"][0]["verdict"], len(told["nccl"][0]["rows"])) == (700.0, "failed", 3)
    assert await nccl_training_gpus.run_nccl(parse(["nccl", "-", "--history"]), given(session)) == 0
    assert "all_reduce_perf" in capsys.readouterr().out
    assert await nccl_training_gpus.run_nccl(parse(["nccl", "-", "--nodes", "--json"]), given(session)) == 0
    assert {each["job"] for each in json.loads(capsys.readouterr().out)} == {"llama"}


async def test_wrong_values_fail_however_fast(session: FakeSession, capsys: pytest.CaptureFixture[str]) -> None:
    prints(session, FIRST, table_text(900.0, 900.0, 900.0, finished=True, wrong=2))
    assert await nccl_training_gpus.run_nccl(parse(["nccl", "llama"]), given(session)) == 1
    assert "failed, 6 wrong values" in capsys.readouterr().out


async def test_two_tests_are_compared(session: FakeSession, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [*table_text(500.0, 600.0, finished=True), *table_text(550.0, 660.0, finished=True)]
    prints(session, FIRST, lines)
    await nccl_training_gpus.run_nccl(parse(["nccl", "llama", "--compare", "llama", "--json"]), given(session))
    found = json.loads(capsys.readouterr().out)["nccl"][1]["compared"]
    assert found["faster"] == pytest.approx(0.1)
    with pytest.raises(NotFound, match="No test of nothing"):
        await nccl_training_gpus.run_nccl(parse(["nccl", "llama", "--compare", "nothing"]), given(session))


async def test_the_training_of_a_job(session: FakeSession, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    prints(session, ("default", last_rank(session)), training(60))
    assert await nccl_training_gpus.run_training(parse(["training", "llama"]), given(session)) == 0
    assert "step 60 of 200 (30 %), megatron" in capsys.readouterr().out
    await nccl_training_gpus.run_training(parse(["training", "llama", "--json"]), given(session))
    told = json.loads(capsys.readouterr().out)["training"][0]
    assert (len(told["steps"]), told["eta_s"], told["mfu"]) == (60, pytest.approx(980.0, abs=5), 0.5)
    svg = str(tmp_path / "a.svg")
    await nccl_training_gpus.run_training(parse(["training", "llama", "--svg", svg, "--metric", "lr"]), given(session))
    assert "learning rate" in (tmp_path / "a.svg").read_text()
    await nccl_training_gpus.run_training(parse(["training", "llama", "--csv"]), given(session))
    assert capsys.readouterr().out.count("\n") == 61


async def test_no_time_is_left_of_a_job_that_failed(session: FakeSession, capsys: pytest.CaptureFixture[str]) -> None:
    prints(session, ("default", last_rank(session)), training(60))
    assert await nccl_training_gpus.run_training(parse(["training", "llama"]), given(session)) == 0
    assert "  left " in capsys.readouterr().out
    failed = replace(session.fleet.jobsets["default", "llama"], conditions=(Condition("Failed", "True"),))
    session.show(jobsets={**session.fleet.jobsets, failed.key: failed})
    assert await nccl_training_gpus.run_training(parse(["training", "llama"]), given(session)) == 1
    assert "  left " not in capsys.readouterr().out
    await nccl_training_gpus.run_training(parse(["training", "llama", "--json"]), given(session))
    assert json.loads(capsys.readouterr().out)["training"][0]["eta_s"] is None


async def test_what_was_not_measured_is_named(session: FakeSession) -> None:
    prints(session, FIRST, ["hello"])
    with pytest.raises(NotFound, match="has printed no step of training"):
        await nccl_training_gpus.run_training(parse(["training", "llama"]), given(session))
    with pytest.raises(NotFound, match="has printed no table"):
        await nccl_training_gpus.run_nccl(parse(["nccl", "llama"]), given(session))
    with pytest.raises(NotFound, match="There is no job nothing"):
        await nccl_training_gpus.run_nccl(parse(["nccl", "nothing"]), given(session))


async def test_a_nan_is_an_exit_code(session: FakeSession) -> None:
    line = training(1)[0].replace("| lm loss: 8.950000E+00 ", "").replace("1/ 200", "2/ 200")
    prints(session, ("default", last_rank(session)), [*training(1), line])
    assert await nccl_training_gpus.run_training(parse(["training", "llama"]), given(session)) == 5


async def test_a_training_that_makes_no_steps_any_more_says_so(
    session: FakeSession, capsys: pytest.CaptureFixture[str]
) -> None:
    begun = time.time() - 1000
    session.printed["default", last_rank(session)] = [
        LogLine(begun + 7 * at, text) for at, text in enumerate(training(60))
    ]
    words = "no step for 9 min after step 60, usually one takes 7 s"
    assert await nccl_training_gpus.run_training(parse(["training", "llama"]), given(session)) == 5
    assert f"stalled          {words}" in capsys.readouterr().out
    await nccl_training_gpus.run_training(parse(["training", "llama", "--json"]), given(session))
    health = json.loads(capsys.readouterr().out)["health"]
    assert {name: value for name, value in health.items() if value} == {
        "state": "stalled",
        "level": "bad",
        "words": words,
    }


async def test_a_wait_that_is_given_up_says_the_state_that_the_list_of_jobs_says(
    session: FakeSession, capsys: pytest.CaptureFixture[str]
) -> None:
    begun = time.time() - 1000
    session.printed["default", last_rank(session)] = [
        LogLine(begun + 7 * at, text) for at, text in enumerate(training(60))
    ]
    words = "no step for 9 min after step 60, usually one takes 7 s"
    watched = monitor(("default", "llama"))
    watched.measures = await session.measures.read_job("default", "llama")
    for off, kind in (((), AlarmKind.STALL), ((AlarmKind.STALL,), None)):
        state, alarm = await _read_state(cast("Session", session), watched, off, replaying=False)
        assert (state, alarm and alarm.kind) == (f"it is stalled: {words}", kind), "an exit code 5, or 6"


async def test_each_test_of_a_job_is_named_and_the_summary_is_last(
    session: FakeSession, capsys: pytest.CaptureFixture[str]
) -> None:
    prints(session, FIRST, [*table_text(500.0, 600.0, finished=True), *table_text(50.0, 60.0, 55.0, finished=True)])
    assert await nccl_training_gpus.run_nccl(parse(["nccl", "llama"]), given(session)) == 1
    out = capsys.readouterr().out
    assert "llama, test 1 of 2: all_reduce_perf 2.19.6, 16 ranks, 512 MiB to 1 GiB, pod 0" in out
    assert "llama, test 2 of 2: all_reduce_perf 2.19.6, 16 ranks, 512 MiB to 2 GiB, pod 0" in out
    summary = out[out.index("\n2 tests:") :].splitlines()[2:]
    assert [line.split()[:2] for line in summary] == [
        ["TEST", "PROGRAM"],
        ["1", "all_reduce_perf"],
        ["2", "all_reduce_perf"],
    ]
    assert "failed" in summary[-1]
