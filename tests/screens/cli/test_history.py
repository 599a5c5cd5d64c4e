"""What was launched, stopped and kept, by commands: on the practice cluster, each command a console of its own."""

import asyncio
import json
import os
import pty
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from console.connection_settings import login_name
from console.kube.objects.meta import short_name
from console.launch.run_database import RunHistory, default_path
from console.launch.run_record import Outcome, RunRecord, finish_record
from console.metrics.alarm import Alarm, AlarmKind
from screens.__main__ import main
from screens.cli.history import as_item, show_run
from screens.columns.column import text_table
from screens.columns.runs import RUNS, outcome_cell, run_sentence
from tests.contract.client import Api
from tests.kubeconfigs import write_kubeconfig
from tests.screens.cli.commands import Commands


@pytest.mark.slow(reason="commands as processes on a practice cluster")
def test_a_run_from_its_launch_to_its_memory(a4: Commands) -> None:
    first = ("--set", "gpus=8", "--set", "queue=research", "--set", "recipe.nccl.end=64M")
    assert a4.run("launch", "nccl-all-reduce", "--name", "one", *first, "--wait")[0] == 0
    (run,) = a4.json("history")["items"]
    assert a4.run("history", "-n", "nope")[:2] == (0, "No runs in namespace nope in the history.\n")
    assert (run["number"], run["name"], run["recipe"], run["outcome"]) == (1, "one", "nccl-all-reduce", "succeeded")
    assert run["values"] == {"gpus": 8, "queue": "research", "recipe": {"nccl": {"end": "64M"}}}
    assert run["peak_busbw"] > run["average_busbw"] > 1
    assert run["seconds"] == run["ended"] - run["started"]

    # again, with one thing changed
    code, _, _ = a4.run(
        "launch",
        "--like",
        "one",
        "--name",
        "two",
        "--set",
        "recipe.nccl.end=128M",
        "--set",
        "env.PRACTICE_FAULT=hang:3",
    )
    assert code == 0
    two = a4.json("history", "--show", "two")
    assert two["values"] == {
        "env": {"PRACTICE_FAULT": "hang:3"},
        "gpus": 8,
        "queue": "research",
        "recipe": {"nccl": {"end": "128M"}},
    }
    assert two["last_success"] == 1
    assert {"path": "recipe.nccl.end", "before": "64M", "after": "128M"} in two["differences"]
    assert a4.json("history", "--diff", "1", "2")["differences"] == two["differences"]
    code, out, _ = a4.run("history")
    assert [line.split()[:3] for line in out.splitlines()[1:]] == [
        ["2", "nccl-all-reduce", "two"], ["1", "nccl-all-reduce", "one"],
    ]  # fmt: skip
    code, out, _ = a4.run("history", "--show", "two")
    assert "end: 128M" in out
    assert f" by you ({login_name()}) in " in out
    assert "recipe.nccl.end" in out

    code, _, told = a4.run("history", "--forget", "two")
    assert (code, "the job of two still runs" in told, "a4 stop two ends it" in told) == (1, True, True)
    assert a4.json("history", "--show", "two")["number"] == 2

    # a stop says what stays, and is remembered
    out, _ = a4.outputs("stop", "two", "--dry-run")
    assert "goes: " in out
    assert "not by you" not in out
    assert "JobSet two" in out
    assert a4.json("stop", "two")["release"] == "two"
    assert a4.json("history", "--show", "two")["outcome"] == "stopped"
    code, _, told = a4.run("why", "two")
    assert (code, "two is no longer in the cluster (run 2): stopped. a4 history 2 has more" in told) == (1, True), told
    assert a4.json("history", "--forget", "two")["forgotten"] == [2]
    assert [item["number"] for item in a4.json("history")["items"]] == [1]
    assert a4.run("history", "--show", "two")[0] == 1
    assert a4.run("history", "ddp-smoke")[1] == "No runs in the history.\n"
    a4.run("stop", "one")


@pytest.mark.slow(reason="commands as processes on a practice cluster")
def test_several_jobs_are_stopped_when_somebody_agrees(a4: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("red", "blue"):
        assert a4.run("launch", "interactive", "--name", name, "--set", "gpus=8", "--set", "queue=research")[0] == 0
    _, told = a4.outputs("stop", "red", "blue", code=2)
    assert "Add --yes" in told
    keys, screen = pty.openpty()
    os.write(keys, b"n\n")
    with os.fdopen(screen, encoding="utf-8") as stdin, os.fdopen(os.dup(screen), "w", encoding="utf-8") as stderr:
        monkeypatch.setattr(sys, "stdin", stdin)
        monkeypatch.setattr(sys, "stderr", stderr)
        assert a4.run("stop", "red", "blue")[0] == 1
        shown = b""
        while b"Stop 2 jobs? [y/N]" not in shown:  # the echo of what is typed comes first, at times alone
            shown += os.read(keys, 1 << 16)
    os.close(keys)
    monkeypatch.undo()
    assert {item["name"] for item in a4.json("jobs")["items"]} >= {"red", "blue"}
    assert a4.run("stop", "red", "nope", "--yes")[0] == 1  # nothing is stopped where one name is wrong
    reports = a4.json("stop", "red", "blue", "--yes")
    assert [report["name"] for report in reports] == ["red", "blue"]
    assert a4.run("stop", "red")[0] == 1
    assert a4.run("stop")[0] == 2


@pytest.mark.slow(reason="commands as processes on a practice cluster")
def test_orphaned_resources_are_listed_and_removed(a4: Commands) -> None:
    nfs = ("--set", "storage.nfs.server=10.0.0.2", "--set", "storage.nfs.claim=cli-shared")
    launched = a4.run("launch", "interactive", "--name", "writer", "--set", "gpus=8", "--set", "queue=research", *nfs)
    assert launched[0] == 0
    code, out, _ = a4.run("stop", "writer")
    assert "Stays: " in out
    assert "PersistentVolumeClaim cli-shared" in out
    left = a4.json("stop", "--orphaned", "writer")
    assert {item["kind"] for item in left["items"]} == {"PersistentVolume", "PersistentVolumeClaim"}
    assert all(item["holds_data"] for item in left["items"])
    assert a4.json("stop", "--orphaned", "writer", "--yes")["removed"] == []  # data needs to be said
    assert len(a4.json("stop", "--orphaned", "writer", "--data", "--yes")["removed"]) == 2
    code, out, _ = a4.run("stop", "--orphaned", "writer")
    assert (code, out) == (0, "No orphaned resources.\n")


@pytest.mark.slow(reason="commands as processes on a practice cluster")
def test_what_one_launches_is_ones_own(a4: Commands) -> None:
    assert a4.run("launch", "interactive", "--name", "own-one", "--set", "gpus=1", "--set", "queue=research")[0] == 0
    jobs = {job["name"]: job for job in a4.json("jobs")["items"]}
    assert jobs["own-one"]["owner"] == short_name(login_name())
    mine = [job["name"] for job in a4.json("jobs", "--mine")["items"]]
    assert "own-one" in mine
    assert {"llama-70b", "own-one"} - set(mine) == {"llama-70b"}
    assert all(jobs[name]["mine"] for name in mine)
    owners = {each["job"]: each["owner"] for each in a4.json("workloads")["items"]}
    assert owners["own-one"] == jobs["own-one"]["owner"]


def create(a4: Commands, plural: str, body: dict[str, Any]) -> None:
    async def made() -> None:
        async with Api.open(a4.kubeconfig) as api:
            await api.create(f"/api/v1/namespaces/default/{plural}", {"apiVersion": "v1", **body})

    asyncio.run(made())


def test_what_runs_of_a_handmade_training_goes_only_where_it_is_named(a4: Commands) -> None:
    role = {"role": "worker"}
    container = {"name": "c", "image": "busybox:1", "command": ["sleep", "1000"]}
    create(a4, "pods", {"kind": "Pod", "metadata": {"name": "training-worker-1", "labels": role},
                     "spec": {"containers": [container]}})  # fmt: skip
    port = {"port": 29500, "name": "training"}
    create(a4, "services", {"kind": "Service", "metadata": {"name": "training-worker"},
                         "spec": {"clusterIP": "None", "selector": role, "ports": [port]}})  # fmt: skip
    assert a4.json("stop", "--orphaned", "--yes")["removed"] == []
    out, _ = a4.outputs("stop", "--orphaned", "training-worker-1", "--yes")
    assert out.splitlines()[1].startswith("Pod   default    training-worker-1")
    assert out.splitlines()[-1] == "Removed Pod training-worker-1."


@pytest.mark.slow(reason="commands as processes on a practice cluster")
def test_a_profile_is_laid_under_a_launch(a4: Commands) -> None:
    assert a4.run("profiles", "cli", "--set", "queue=research", "--set", "gpus=8", "--default")[0] == 0
    try:
        assert a4.json("profiles") | {"folder": ""} == {
            "kind": "profiles", "folder": "", "default": "cli", "items": ["cli"],
        }  # fmt: skip
        for more, gpus in (((), 8), (("--set", "gpus=16"), 16), (("--no-profile", "--set", "queue=research"), 16)):
            shown = a4.json("launch", "nccl-all-reduce", "--dry-run", *more)["manifests"]
            (jobset,) = (each["text"] for each in shown if each["kind"] == "JobSet")
            assert 'kueue.x-k8s.io/queue-name: "research"' in jobset
            assert f"parallelism: {gpus // 8}\n" in jobset
        assert a4.run("profiles", "cli", "--set", "env.HF_TOKEN=hunter2")[0] == 2
        assert a4.run("launch", "nccl-all-reduce", "--profile", "nope", "--dry-run")[0] == 1
    finally:
        a4.run("profiles", "cli", "--delete")
    assert a4.run("profiles", "cli")[0] == 1


@pytest.mark.slow(reason="commands as processes on a practice cluster")
def test_history_of_one_recipe_is_asked_for_by_name_or_number(a4: Commands) -> None:
    _, told = a4.outputs("launch", "W05", "--name", "numbered", "--set", "gpus=1", "--queue", "none")
    assert "No queue, as requested: " in told
    for word in ("ddp-smoke", "W05", "w05"):
        assert "numbered" in {item["name"] for item in a4.json("history", word)["items"]}
    assert a4.json("history", "W21")["items"] == []
    _, told = a4.outputs("history", "nope", code=1)
    assert "There is neither a recipe nor a run nope." in told
    code, _, told = a4.run("history", "999")
    assert (code, "There is no run 999 in the history." in told) == (1, True)
    assert "numbered" in a4.run("history", "numbered")[1]


def test_without_a_recipe_or_a_run_nothing_is_launched(a4: Commands) -> None:
    assert a4.run("launch")[0] == 2
    assert a4.run("launch", "--like", "nope")[0] == 1


def test_history_needs_no_cluster(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert main(["history", "--json"]) == 0
    assert json.loads(capfd.readouterr().out) == {"kind": "history", "note": "", "items": []}


def test_what_is_open_on_a_cluster_that_is_away_is_shown_as_it_was(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    server = "https://127.0.0.1:9"
    config = write_kubeconfig(tmp_path / "kubeconfig", {"server": server}, {"token": "x"})
    lost = RunRecord("ddp-smoke", "far", "team", server=server, launched=1000.0, outcome=Outcome.RUNNING)
    asyncio.run(RunHistory(default_path()).add_run(lost))
    assert main(["history", "--kubeconfig", str(config), "--json"]) == 0
    said = capfd.readouterr()
    assert [item["outcome"] for item in json.loads(said.out)["items"]] == ["running"]
    assert "The outcome of open runs is not known: " in said.err


@pytest.mark.slow(reason="commands as processes on a practice cluster")
def test_a_stalled_run_is_shown_as_stopped(capsys: pytest.CaptureFixture[str]) -> None:
    alarm = Alarm(AlarmKind.STALL, "no step for 5 min after step 1,240", 1100.0, "team", "far")
    ended = RunRecord("ddp-smoke", "far", "team", number=3, launched=1000.0, ended=1500.0, outcome=Outcome.STOPPED)
    stalled = finish_record(replace(ended, step=1240, alarms=(alarm,)))
    titles, cells = text_table(RUNS, [stalled, ended])
    assert [(row[titles.index("OUTCOME")], row[titles.index("WHY")]) for row in cells] == [
        ("✗ stopped", "stopped by a person, stalled since step 1,240"),
        ("‖ stopped", ""),
    ]
    told = as_item(stalled, 2000.0)
    assert (told["outcome"], told["state"]) == ("stopped", "stopped")
    show_run(stalled, [stalled], as_json=False)
    assert capsys.readouterr().out.startswith("far: ddp-smoke, run 3, stopped by a person, stalled since step 1,240\n")
    cell = "".join(each.text for each in outcome_cell(stalled))
    assert cell == "✗ stopped"
    assert len(cell) <= next(each.width for each in RUNS if each.title == "OUTCOME")
    assert "".join(each.text for each in run_sentence(stalled)) == (
        "✗ far stopped by a person, stalled since step 1,240"
    )
