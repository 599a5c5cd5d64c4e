"""The command line: which words are understood, and where."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from console.metrics.nccl.results import NcclTest, nccl_json
from console.metrics.training.export import step_json, track_json
from console.metrics.training.run import TrainingRun
from console.metrics.training.steps import Step
from screens.cli.columns import LAYOUTS
from screens.cli.command_line import HELP, command_of, parse
from screens.cli.options import Options
from tests.screens.cli.commands import loaded

if TYPE_CHECKING:
    from collections.abc import Iterable


def test_no_command_opens_the_console() -> None:
    assert parse([]) == Options()


def test_cluster_options_may_stand_before_or_after_the_command() -> None:
    assert parse(["--demo", "pools", "--json"]) == parse(["pools", "--json", "--demo"])
    assert parse(["--context", "c", "pods"]).context == "c"
    assert parse(["pods", "--context", "c"]).context == "c"


def test_what_follows_two_dashes_belongs_to_the_pod() -> None:
    options = parse(["exec", "train", "3", "--", "sh", "-c", "echo --json; exit 3"])
    assert (options.job, options.rank_text, options.argv) == ("train", "3", ("sh", "-c", "echo --json; exit 3"))
    assert not options.json


def test_settings_of_each_launch_value_are_kept_in_order() -> None:
    options = parse(["launch", "nccl-all-reduce", "--set", "gpus=16", "--set", "queue=a4", "--dry-run"])
    assert (options.recipe, options.set, options.dry_run) == ("nccl-all-reduce", ("gpus=16", "queue=a4"), True)


@pytest.mark.parametrize(
    "argv", [["nonsense"], ["--demo-speed", "0"], ["logs"], ["exec", "job", "--at-once", "0", "--", "ls"]]
)
def test_what_is_not_understood_is_usage(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        parse(argv)
    assert stop.value.code == 2
    assert "usage:" in capsys.readouterr().err


def test_a_practice_cluster_replaces_kubeconfig_and_context() -> None:
    settings = parse(["--demo", "--context", "other", "--read-only"]).settings(Path("/practice"))
    assert (settings.kubeconfig, settings.context, settings.practice) == (Path("/practice"), "", True)
    assert settings.read_only


@pytest.mark.parametrize(
    "name", sorted(HELP.keys() - {"view", "tour", "practice", "proxy"})
)  # screens.__main__ runs these
def test_every_command_that_is_listed_is_there(name: str) -> None:
    assert callable(command_of(name).run)


def test_a_command_loads_its_own_module_and_help_none() -> None:
    names = ("logs", "wait", "ssh", "launch", "why", "pods")
    of_commands = {getattr(command_of(name).run, "__module__", "") for name in names}
    assert len(of_commands) == len(names)
    assert not of_commands & loaded("--help")
    assert of_commands & loaded("logs", "--help") == {"screens.cli.logs"}


@pytest.mark.parametrize("name", LAYOUTS)
def test_help_documents_every_json_key(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse([name, "--help"])
    said = capsys.readouterr().out
    for column in LAYOUTS[name].columns:
        assert f"  {column.key}" in said
        assert column.meaning in said


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("nccl", {*nccl_json(NcclTest()), "verdict", "usual", "compared"}),
        ("training", track_json(TrainingRun("megatron")).keys()),
        ("read", {*nccl_json(NcclTest()), *step_json(Step(1))}),
        ("logs", {"rank", "time", "text", "ranks", "coverage"}),
        ("why", {"state", "why", "card", "exit_code"}),
    ],
)
def test_help_of_what_watches_names_the_keys_too(
    name: str, keys: Iterable[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parse([name, "--help"])
    said = capsys.readouterr().out
    assert [key for key in keys if not re.search(rf"\b{key}\b", said)] == []
