"""What the GPU-time of runs went into, by command."""

import asyncio
import csv
import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

from console.launch.run_database import RunHistory, default_path
from console.launch.run_record import Outcome, RunRecord
from console.metrics.alarm import Alarm, AlarmKind
from console.metrics.gpu_time_ledger import Ledger, LedgerBox
from console.metrics.health import SLOW_RANK_HEALTH
from console.metrics.time_spans import RecordedSpans, SpanKind, TimeSpan
from screens.__main__ import main
from screens.columns.runs import cost_lines, cost_words
from tests.screens.cli.commands import Commands

STEPS = TimeSpan(160.0, 1000.0, SpanKind.STEPS, 0, 420)
HUNG = TimeSpan(1000.0, 1402.0, SpanKind.PAUSE, 420, 421)
MORE = TimeSpan(1402.0, 1600.0, SpanKind.STEPS, 421, 520)


def run(name: str, who: str, queue: str, nodes: tuple[str, ...], *, ago: float = 3600.0) -> RunRecord:
    """A run that waited 60 s, started for 100 s, and hung for 400 s of its 1,600."""
    begin = time.time() - ago - 1600
    spans = [TimeSpan(begin + each.start, begin + each.end, each.kind, each.first, each.last)
             for each in (TimeSpan(130, 160, SpanKind.BEFORE), STEPS, HUNG, MORE)]  # fmt: skip
    alarm = Alarm(AlarmKind.STALL, "no step for 400 s", begin + 1060, "team", name, over=begin + 1402,
                  more="inspected: rank 9 is in dataloader.py:88", began=begin + 1000)  # fmt: skip
    return RunRecord(
        "ddp-smoke", name, "team", launched=begin, started=begin + 60, ended=begin + 1600, who=who, queue=queue,
        gpus=8 * len(nodes), outcome=Outcome.SUCCEEDED, alarms=(alarm,),
        seen=RecordedSpans(begin, begin + 120, nodes, 0, tuple(spans)).encode(),
    )  # fmt: skip


@pytest.fixture
def stored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))

    async def fill() -> None:
        history = RunHistory(default_path())
        for each in (
            run("one", "ada@lab.org", "research", ("n0", "n1")),
            run("two", "bob@lab.org", "research", ("n1",)),
            run("old", "ada@lab.org", "research", ("n0",), ago=40 * 86400.0),
        ):
            await history.add_run(each)
        await history.close()

    asyncio.run(fill())


def ledger_json(capfd: pytest.CaptureFixture[str], *argv: str) -> Any:
    assert main(["ledger", *argv, "--json"]) == 0
    return json.loads(capfd.readouterr().out)


@pytest.mark.usefixtures("stored")
def test_a_run_by_its_name_says_where_its_time_went_and_why(capfd: pytest.CaptureFixture[str]) -> None:
    found = ledger_json(capfd, "one")
    assert (found["allocated_gpu_seconds"], found["nodes"], found["restarts"]) == (16 * 1540, ["n0", "n1"], 0)
    boxes = found["gpu_seconds"]
    assert {box: took / 16 for box, took in boxes.items() if took} == {
        "queued": 60, "pull": 60, "init": 40, "productive": 1040, "hang": 400,
    }  # fmt: skip
    assert sum(boxes.values()) == 16 * 1600
    assert main(["ledger", "one"]) == 0
    said = capfd.readouterr().out
    assert "6.84 GPU-hours allocated (16 GPUs)" in said
    assert "1.78 GPU-h   26 %  hang" in said
    assert sum(int(share) for share in re.findall(r"(\d+) %", said)) == 100
    assert "16.0 GPU-min      " in said, "less than an hour is told in minutes"
    assert "rank 9 is in dataloader.py:88" in said
    short = Ledger(8, {LedgerBox.QUEUED: 8_000, LedgerBox.PRODUCTIVE: 8 * 15_000})
    assert cost_lines(short)[0] == "2.0 GPU-minutes allocated (8 GPUs)"
    assert cost_words(short) == "2.0 GPU-minutes: 100 % productive"


@pytest.mark.usefixtures("stored")
@pytest.mark.parametrize(
    ("by", "held"),
    [("owner", {"ada": 16 * 1540, "bob": 8 * 1540}), ("queue", {"research": 24 * 1540}),
     ("recipe", {"ddp-smoke": 24 * 1540}), ("node", {"n1": 16 * 1540, "n0": 8 * 1540})],
)  # fmt: skip
def test_groups_sum_to_the_same(by: str, held: dict[str, int], capfd: pytest.CaptureFixture[str]) -> None:
    found = ledger_json(capfd, "--by", by)
    assert {each[by]: each["allocated_gpu_seconds"] for each in found["items"]} == held
    assert found["total"]["allocated_gpu_seconds"] == 24 * 1540
    assert found["total"]["runs"] == 2
    assert sum(each["gpu_seconds"]["hang"] for each in found["items"]) == 24 * 400
    assert main(["ledger", "--by", by, "--csv"]) == 0
    rows = list(csv.DictReader(capfd.readouterr().out.splitlines()))
    assert {row[by]: float(row["allocated_gpu_seconds"]) for row in rows} == held
    assert {row[by]: int(row["runs"]) for row in rows} == {each[by]: each["runs"] for each in found["items"]}


@pytest.mark.usefixtures("stored")
def test_the_owner_is_you_where_a_person_reads_it(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LOGNAME", "ada")
    assert main(["ledger", "--by", "owner"]) == 0
    assert [line.split()[0] for line in capfd.readouterr().out.splitlines()] == ["OWNER", "you", "bob", "all"]
    assert [each["owner"] for each in ledger_json(capfd, "--by", "owner")["items"]] == ["ada", "bob"]


def test_the_loss_of_a_run_that_never_saved_names_no_checkpoint() -> None:
    assert "checkpoint" not in LedgerBox.LOST.words


@pytest.mark.usefixtures("stored")
def test_all_runs_since_a_time(capfd: pytest.CaptureFixture[str]) -> None:
    assert [each["run"] for each in ledger_json(capfd)["items"]] == ["1 one", "2 two"]
    assert len(ledger_json(capfd, "--since", "60d")["items"]) == 3
    assert ledger_json(capfd, "-n", "elsewhere")["items"] == []
    assert main(["ledger"]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert lines[0].split() == ["RUN", "RUNS", "GPU-TIME", "QUEUED", "PULL", "INIT", "PRODUCTIVE", "HANG"]
    assert lines[-1].split() == ["all", "2", "10.27", "h", "24.0", "min", "4", "%", "3", "%", "67", "%", "26", "%"]


@pytest.mark.usefixtures("stored")
@pytest.mark.parametrize(("argv", "code"), [(["nope"], 1), (["one", "--by", "node"], 2), (["--since", "x"], 2)])
def test_what_cannot_be_answered(argv: list[str], code: int, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["ledger", *argv]) == code
    assert capfd.readouterr().err


@pytest.mark.slow(reason="commands as processes on a practice cluster")
def test_the_slow_rank_that_a_command_found_is_reported_by_the_ledger_the_list_and_why(a4: Commands) -> None:
    values = ("gpus=16", "queue=research", "recipe.train.globalBatch=16", "recipe.train.amount=20000000")
    faults = ("env.PRACTICE_FAULT=slowrank:9:30%", "env.PRACTICE_PACE=0.2")
    words = [word for value in (*values, *faults) for word in ("--set", value)]
    assert a4.run("launch", "qwen3-30b-pretrain", "--name", "slowed", *words, "--no-preflight")[0] == 0
    assert a4.run("wait", "slowed", "--until", "step=20", "--timeout", "60")[0] == 0
    before = a4.json("ledger", "slowed")["gpu_seconds"]
    assert (before["productive"] > 0, before["slow"]) == (True, 0.0), "no console has followed its log"
    # Where the machine is busy 5 s may see too few launches to name anybody, or to be sure.
    asked = (a4.json("slow", "slowed", "--seconds", seconds, "--recorder", code=1) for seconds in ("5", "10", "20"))
    found = next(told["late"] for told in asked if told["late"] and told["late"][0]["slow"])
    assert found[0]["cause"] == "host"
    share = found[0]["share"]
    assert share == pytest.approx(0.3, abs=0.1)
    found = a4.json("ledger", "slowed")
    boxes = found["gpu_seconds"]
    # Steps that a busy machine makes longer count as slow, too, while a rank is known to be.
    assert boxes["slow"] / (boxes["slow"] + boxes["productive"]) == pytest.approx(share, abs=0.25)
    assert sum(took for box, took in boxes.items() if box != "queued") == pytest.approx(found["allocated_gpu_seconds"])
    (job,) = [each for each in a4.json("jobs")["items"] if each["name"] == "slowed"]
    assert (job["state"], job["health"]["level"], job["why"]) == ("running", "late", SLOW_RANK_HEALTH)
    assert job["verdict"].startswith("Rank 9 (pod 1, GPU 1) on ")
    costs = r"costs (about|at most about) \d+(\.\d+)? % of each step \(host(: [^)]+)?\) \(measured at \d\d:\d\d\)$"
    assert re.search(costs, job["verdict"])
    said = a4.run("why", "slowed")[1]
    assert said.startswith(
        f"slowed runs, but {SLOW_RANK_HEALTH}.\n{job['verdict']}.\nHost: look at what else runs on that node"
    )


@pytest.mark.slow(reason="commands as processes on a practice cluster")
def test_a_run_of_the_practice_cluster_has_its_boxes(a4: Commands) -> None:
    assert a4.run("launch", "ddp-smoke", "--name", "smoke", "--set", "gpus=16", "--queue", "research", "--wait")[0] == 0
    (known,) = a4.json("history", "ddp-smoke")["items"]
    assert known["outcome"] == "succeeded"
    assert "seen" not in known
    found = a4.json("ledger", "smoke")
    assert found["gpus"] == 16
    assert len(found["nodes"]) == 2
    held = sum(took for box, took in found["gpu_seconds"].items() if box != "queued")
    assert held == pytest.approx(found["allocated_gpu_seconds"])
