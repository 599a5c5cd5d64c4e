"""The command line: which words are understood, and where."""

import argparse
import re
import shlex
from collections.abc import Iterable
from pathlib import Path

import pytest

from console.metrics.export_results import training_json
from console.metrics.training_run import TrainingRun
from screens.cli.arguments import Options
from screens.cli.command_line import COMMAND_HELP, GROUPS, ConsoleOptions, command_of, whole_parser
from screens.cli.lists import LISTS, layout_of
from tests.screens.cli.commands import loaded, parse
from trainlog import NcclTest, Step, nccl_test_json, step_json


def test_no_command_opens_the_console() -> None:
    assert parse([]) == ConsoleOptions()


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
    ("line", "said"),
    [
        ("jbos", "There is no command jbos. Did you mean jobs? a4 --help says more."),
        ("xyzzy", "There is no command xyzzy. a4 --help says more."),
        ("--demo-speed 0", "--demo-speed has to be a number above 0, at most 1000. a4 --help says more."),
        ("--demo-speed fast", "--demo-speed has to be a number, not 'fast'. a4 --help says more."),
        ("logs", "Missing: JOB. a4 logs --help says more."),
        ("logs job --tail", "--tail needs a value. a4 logs --help says more."),
        ("logs job --tail -3", "--tail has to be a whole number, not below 0. a4 logs --help says more."),
        ("logs job --tail x", "--tail has to be a whole number, not 'x'. a4 logs --help says more."),
        ("logs job -1", "POD has to be a whole number, not below 0. a4 logs --help says more."),
        ("why ''", "JOB is empty: is a variable of your shell not set? a4 why --help says more."),
        ("logs job 0 more", "logs has no use for 'more'. a4 logs --help says more."),
        ("exec job --at-once 0 -- ls", "--at-once has to be a number above 0. a4 exec --help says more."),
        ("jobs --jsn", "jobs has no option --jsn. Did you mean --json? a4 jobs --help says more."),
        ("exec --rank 9 job -- ls", "exec has no option --rank. Did you mean --ranks? a4 exec --help says more."),
        ("jobs --nope", "jobs has no option --nope. a4 jobs --help says more."),
        ("logs job --nope", "logs has no option --nope. a4 logs --help says more."),
        ("--demo-sped 3 jobs", "There is no option --demo-sped. Did you mean --demo-speed? a4 --help says more."),
        ("launch --wait --dry-run", "--dry-run cannot be used with --wait. a4 launch --help says more."),
        (
            "tunnels lst",
            "'lst' is not a value of a4 tunnels. The allowed values are list, stop, profiles, forget. "
            "Did you mean list? a4 tunnels --help says more.",
        ),
    ],
)
def test_what_is_not_understood_is_reported_in_a_sentence(
    line: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        parse(shlex.split(line))
    assert stop.value.code == 2
    assert capsys.readouterr().err == f"a4: {said}\n"


def test_no_option_of_any_command_is_understood_by_its_beginning() -> None:
    """Otherwise `exec --rank 9` would be taken for another option."""
    parser = whole_parser()
    (commands,) = (each for each in parser._actions if each.dest == "command")
    assert isinstance(commands.choices, dict)
    assert set(commands.choices) == set(COMMAND_HELP)
    parsers = (parser, *(each.parser for each in commands.choices.values()))
    assert not [each.prog for each in parsers if each.allow_abbrev]


def test_the_help_lists_every_command_once_in_groups() -> None:
    _, *groups = whole_parser().format_help().partition("\ncommands:\n")[2].split("\n\n")
    listed = {group.partition(":\n")[0]: re.findall(r"^  ([a-z]\S*)", group, re.M) for group in groups}
    listed.pop(next(title for title in listed if title.startswith("exit codes")))
    assert listed == {title: list(group) for title, group in GROUPS.items()}


@pytest.mark.parametrize(
    "line",
    ["logs j --tail -1", "hang j --rank -1", "builds --limit -1", "resize pool -1",
     "wait j --timeout -1", "wait j --timeout nan", "nccl j --pass -1", "nccl-quick j --gpus -1"],
)  # fmt: skip
def test_what_counts_is_never_negative(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        parse(line.split())
    assert stop.value.code == 2
    assert " has to be a " in capsys.readouterr().err


def test_a_practice_cluster_replaces_kubeconfig_and_context() -> None:
    settings = parse(["--demo", "--context", "other", "--read-only"]).settings(Path("/practice"))
    assert (settings.kubeconfig, settings.context, settings.practice) == (Path("/practice"), "", True)
    assert settings.read_only


@pytest.mark.parametrize(
    "name", sorted(COMMAND_HELP.keys() - {"view", "tour", "practice", "proxy"})
)  # screens.__main__ runs these
def test_every_command_that_is_listed_is_there(name: str) -> None:
    assert callable(command_of(name).run)


def test_what_a_parser_takes_is_what_the_class_of_its_options_has() -> None:
    """Otherwise a command line would end in a TypeError, or a field would never be set."""
    typed: dict[type[Options], set[str]] = {}
    for name in sorted(COMMAND_HELP.keys() - {"view", "tour", "practice", "proxy"}):
        command, parser = command_of(name), argparse.ArgumentParser(argument_default=argparse.SUPPRESS, add_help=False)
        command.configure_parser(parser)
        defaults = {name: each.default for name, each in command.options.fields.items()}
        for action in parser._actions:
            assert action.dest in defaults, (name, action.dest)
            if action.default not in (argparse.SUPPRESS, None, []):
                assert action.default == defaults[action.dest], (name, action.dest)
        typed.setdefault(command.options, set()).update(action.dest for action in parser._actions)
    common, after_dashes = {*Options.fields}, {"argv"}
    for kind, names in typed.items():
        assert {*kind.fields} - common - after_dashes <= names, kind


def test_a_command_loads_its_own_module_and_help_none() -> None:
    names = ("logs", "wait", "ssh", "launch", "why", "pods")
    of_commands = {getattr(command_of(name).run, "__module__", "") for name in names}
    assert len(of_commands) == len(names)
    assert not of_commands & loaded("--help")
    assert of_commands & loaded("logs", "--help") == {"screens.cli.logs"}


@pytest.mark.parametrize("name", LISTS)
def test_help_documents_every_json_key(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse([name, "--help"])
    said = capsys.readouterr().out
    for column in layout_of(name).columns:
        assert f"  {column.key}" in said
        assert column.meaning in said


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("nccl", {*nccl_test_json(NcclTest()), "verdict", "usual", "compared"}),
        ("training", training_json(TrainingRun("megatron")).keys()),
        ("read", {*nccl_test_json(NcclTest()), *step_json(Step(1))}),
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


def test_every_command_that_asks_takes_the_short_yes() -> None:
    lines = ("stop j", "rm j:0:/x", "resize p 3", "build-cancel b", "report n", "clusters", "preflight", "ssh j")
    for line in lines:
        with_short, written_out = parse([*line.split(), "-y"]), parse([*line.split(), "--yes"])
        assert with_short == written_out
        assert with_short.yes
