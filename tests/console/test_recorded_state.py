"""What 0.1 (commit 0304c174) left in its folders, as tests/fixtures/state-0.1, is read by this version."""

import shutil
from pathlib import Path

import pytest

from console.attach.tunnel.tunnel_files import last_port, read_profiles
from console.kube.pod_address import PodAddress
from console.launch.profiles import Profiles
from console.launch.run_database import RunHistory
from console.launch.run_record import Outcome
from console.metrics.nccl_history import NcclHistory
from console.scheduling.job_arrivals import read_seen_workloads
from console.session import load_catalog

RECORDED = Path(__file__).parents[1] / "fixtures" / "state-0.1"
SERVER = "https://127.0.0.1:36181"


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("state", "config"):
        shutil.copytree(RECORDED / name, tmp_path / name / "a4")
        monkeypatch.setenv(f"XDG_{name.upper()}_HOME", str(tmp_path / name))
    return tmp_path / "state" / "a4"


async def test_what_the_version_before_has_kept_is_read(state: Path) -> None:
    history, tests = RunHistory(state / "history.db"), NcclHistory(state / "nccl-tests.jsonl")
    (run,) = await history.list_runs()
    assert (run.name, run.outcome, run.peak_busbw, run.values) == (
        "recorded-nccl", Outcome.SUCCEEDED, 700.1, {"launcher": {"gpus": 16}},
    )  # fmt: skip
    await history.close()
    (test,) = await tests.load()
    assert (test.test.ranks, test.test.version, history.note, tests.note) == (16, "2.19.6", "", "")
    assert "eval-32" in {each.workload.owner_name for each in read_seen_workloads(state / "workloads.json")}
    assert [(each.name, each.job, each.ports) for each in read_profiles()] == [
        ("metrics", "llama-70b", ("18080:8080",))
    ]
    assert last_port(SERVER, PodAddress.parse("default", "llama-70b", "0"), 8080) == 18080
    profiles = Profiles(load_catalog, state.parents[1] / "config" / "a4" / "profiles")
    assert (await profiles.default_name(), (await profiles.read("team-b")).values) == (
        "team-b", {"image": "registry.example/a4:1"},
    )  # fmt: skip
