"""Formats of one's own in plain commands: a file, and jobs of the practice cluster."""

import json
from pathlib import Path

import pytest

from console.folders import make_private
from console.settings_file import config_path
from screens.__main__ import main
from tests.screens.cli.commands import Commands

JOB = "llama-70b"
OURS = r"""
[[formats]]
name = "ours"
pattern = 'iteration +(?P<step>(?P<loss>\d+))/ *(?P<total>\d+) \|'
"""
"""Of its lines the step counts as the loss, which no other format would say."""


@pytest.fixture(autouse=True)
def settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    make_private(config_path().parent)
    config_path().write_text(OURS)


@pytest.mark.slow(reason="commands as processes on a practice cluster")
def test_jobs_of_a_cluster_are_read_by_it(a4: Commands) -> None:
    (run,) = a4.json("training", JOB)["training"]
    assert run["format"] == "ours (own)"
    assert all(each["loss"] == each["step"] for each in run["steps"])
    job = next(each for each in a4.json("jobs")["items"] if each["name"] == JOB)
    assert min(job["trend"]) > 100, "losses of its known format are below 12"


def test_a_file_is_read_by_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config_path().write_text("[[formats]]\nname = \"nova\"\npattern = 'it (?P<step>\\d+) obj (?P<loss>\\S+)'\n")
    (tmp_path / "log").write_text("it 1 obj 2.5\nit 2 obj 2.25\n")
    assert main(["read", str(tmp_path / "log"), "--json"]) == 0
    (run,) = json.loads(capsys.readouterr().out)["training"]
    assert (run["format"], [each["loss"] for each in run["steps"]]) == ("nova (own)", [2.5, 2.25])


def test_a_wrong_one_is_named_by_a4_config_check(capsys: pytest.CaptureFixture[str]) -> None:
    config_path().write_text("[[formats]]\nname = \"nova\"\npattern = 'it (?P<number>\\d+)'\n")
    assert main(["config", "check"]) == 2
    said = capsys.readouterr().out
    assert f"{config_path()}:3: formats[1].pattern has no group (?P<step>…), by which steps are counted." in said
