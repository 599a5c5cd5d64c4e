"""The table of commands; a command's module is imported only when the command is used."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from screens.cli.arguments import (
    ALL_EXIT_CODES,
    Command,
    Commands,
    JsonOptions,
    Options,
    add_arguments,
    flag,
    option,
    speed,
    word,
)
from screens.cli.output import print_line
from screens.cli.parser import CommandLineParser

GROUPS = {
    "what is there and who waits": {
        "pools": "node pools: machines, provisioning, nodes ready, GPUs used and free, faults",
        "nodes": "nodes: pool, place in the network, GPUs, faults, maintenance",
        "queues": "ClusterQueues and LocalQueues: quota, used, borrowed, lent, pending",
        "workloads": "Kueue workloads in queue order: position, and why each one waits",
        "jobs": "JobSets: state, pods, restarts, GPUs, and why one does not run",
        "pods": "pods: phase, reason, node, index, restarts",
        "forecast": "when waiting jobs would start, by the progress of what runs",
        "whatif": "who would start or be preempted if something were changed; changes nothing",
    },
    "launch and stop": {
        "recipes": "what can be launched",
        "values": "every value of a recipe at its default, explained: a file for launch -f",
        "preflight": "what a launch needs of cluster and project, checked; fixes some of it",
        "launch": "launch a recipe",
        "stop": "stop jobs: uninstall their releases, or delete their JobSets",
        "history": "the history of launched runs and their outcome",
        "ledger": "what the GPU-time of runs went into: productive, starting, checkpoints, hangs, lost, not seen",
        "profiles": "named sets of default values for every form; needs no cluster",
        "releases": "releases of the chart",
    },
    "follow a job": {
        "logs": "the log of one pod of a job (pod 0 unless named), or of all",
        "wait": "wait for a state or metric of a job; an alarm, a failure or a timeout ends the wait too",
        "alarms": "alarms of running jobs: stalls, nan, low bandwidth, failures, …",
        "training": "how far the training of a job is: loss, speed, time left, what happened",
        "nccl": "the NCCL tests of a job: bandwidth, verdict, beside the reference and your own past",
        "nccl-quick": "a short NCCL test inside a pod that runs, over its own GPUs",
        "gpus": "GPUs of all pods of a job: utilization, memory, power, temperature, clock, ECC; the worst first",
        "checkpoints": "saved states of a run: which are complete, and what would be lost if it ended now",
        "store-logs": "put what all pods of a job have printed into a bucket",
    },
    "find what is wrong": {
        "why": "what failed first in a job, or why it does not run",
        "hang": "why a job hangs: the stacks of all its processes, grouped; NCCL, network, RDMA",
        "slow": "for which rank of a job the others wait, and for what share of each step, as NCCL tells",
        "facts": "GPUs, disks, mounts, NCCL environment, InfiniBand, C library and Python of a pod",
        "cordon": "keep new pods off nodes, with a reason; pods that run there stay",
        "uncordon": "let new pods on nodes again",
    },
    "work in pods": {
        "exec": "run a command in one pod of a job, or in many; a4 exits with its code",
        "shell": "a shell in a pod, in tmux where the image has it; a4 exits with its code",
        "ssh": "ssh to a pod by name, set up on the way",
        "code": "open a pod in VS Code or another editor of this machine",
        "doctor": "each step from your token to an editor in a pod, its time, and what fixes it",
        "cp": "copy files and folders from or to pods of a job",
        "ls": "what is in a folder of a bucket or of a pod; of a bucket: the last complete checkpoint marked",
        "rm": "delete a file or folder of a pod; asks first",
        "forward": "ports of this machine that lead to a pod of a job, and follow it when it is replaced",
        "tunnels": "tunnels that are open, whoever opened them: list and stop them; profiles",
        "proxy": "standard input and output lead to a port of a pod, for ssh's ProxyCommand",
    },
    "logs as files": {
        "read": "the contents of a log: NCCL tests, steps of training, failures; needs no cluster",
        "view": "a log file in the log view, of any size: search, filters, levels; needs no cluster",
    },
    "Google Cloud": {
        "clusters": "clusters of Google's that the login may see; connect to one",
        "nodepools": "node pools as Google has them, beside the nodes: target sizes, limits, repairs",
        "operations": "running and recent operations of Google on the cluster: upgrades, repairs, resizes",
        "resize": "another size of a node pool, or other limits of its autoscaling",
        "report": "report the host of a node as faulty, so that Google replaces it",
        "images": "images in the registries of the project, and what can be built",
        "build": "build an image with Cloud Build",
        "builds": "builds of the project, or one of them",
        "build-log": "what a build has printed",
        "build-cancel": "end a build that is under way",
        "buckets": "buckets of the project, those that lie by the cluster first",
        "get": "bring an object or a folder out of a bucket, checked by crc32c",
        "lustre": "Lustre instances of the project; with a name, the values that mount it",
        "filestore": "Filestore shares of the project; with a name, the values that mount it",
    },
    "a4 itself": {
        "config": "your settings: what is in force and from where, what is wrong in the file; needs no cluster",
        "completion": "the script by which a shell completes a4's words; needs no cluster",
        "practice": "serve the practice cluster until Ctrl-C and print its KUBECONFIG",
        "tour": "drive the console through its main job on the practice cluster and keep a screenshot of every screen",
    },
}
"""Every command, in the order of `a4 --help`, and what it is for."""

COMMAND_HELP = {name: what for group in GROUPS.values() for name, what in group.items()}


def command_of(name: str) -> Command[Any]:
    """The command of that name; imports its module."""
    return _module_of(name)[name]


def _module_of(name: str) -> Commands:  # noqa: C901, PLR0912, PLR0915 - a case for each module
    match name:
        case "pools" | "nodes" | "queues" | "workloads" | "jobs" | "pods":
            from screens.cli.lists import COMMANDS
        case "recipes" | "values" | "launch" | "profiles":
            from screens.cli.launch import COMMANDS
        case "history" | "ledger":
            from screens.cli.history import COMMANDS
        case "releases" | "stop":
            from screens.cli.releases_and_stop import COMMANDS
        case "logs":
            from screens.cli.logs import COMMANDS
        case "exec" | "shell" | "facts" | "nccl-quick":
            from screens.cli.exec import COMMANDS
        case "cp" | "rm":
            from screens.cli.files import COMMANDS
        case "ssh" | "code" | "doctor":
            from screens.cli.ssh import COMMANDS
        case "forward" | "tunnels":
            from screens.cli.tunnels import COMMANDS
        case "hang" | "slow":
            from screens.cli.hang import COMMANDS
        case "wait" | "alarms":
            from screens.cli.wait_and_alarms import COMMANDS
        case "nccl" | "training" | "gpus":
            from screens.cli.nccl_training_gpus import COMMANDS
        case "read":
            from screens.cli.read import COMMANDS
        case "forecast" | "whatif":
            from screens.cli.forecast_and_what_if import COMMANDS
        case "why":
            from screens.cli.why import COMMANDS
        case "clusters" | "nodepools" | "operations" | "resize" | "report" | "cordon" | "uncordon":
            from screens.cli.clusters_and_nodes import COMMANDS
        case "images" | "build" | "builds" | "build-log" | "build-cancel":
            from screens.cli.images import COMMANDS
        case "buckets" | "ls" | "get" | "store-logs" | "lustre" | "filestore" | "checkpoints":
            from screens.cli.storage import COMMANDS
        case "preflight":
            from screens.cli.preflight import COMMANDS
        case "completion":
            from screens.cli.completion import COMMANDS
        case _:
            return APP_COMMANDS
    return COMMANDS


def parse_command_line(argv: list[str] | None = None) -> Options:
    """Parse a command line (None: this process's); argparse itself handles `--help` and errors (exit code 2)."""
    program: list[str] = []  # to run in a pod: what follows the first `--`
    if argv is not None and "--" in argv:
        cut = argv.index("--")
        argv, program = argv[:cut], argv[cut + 1 :]
    if argv and argv[0] in COMMAND_HELP:  # the parsers of sixty others would take 1 ms
        given: dict[str, Any] = vars(CommandParser(**_about_command(argv[0])).parser.parse_args(argv[1:]))
        given["command"] = argv[0]
    else:
        given = vars(whole_parser().parse_args(argv))
    kind = command_of(given["command"]).options if given["command"] else ConsoleOptions
    if given["command"]:
        given.pop("plain", None)  # every command but the console prints lines
    if program and "argv" in kind.fields:
        given["argv"] = program
    typed: dict[str, Any] = {  # argparse collects lists
        name: tuple(value) if isinstance(value, list) else value for name, value in given.items()
    }
    return kind(**typed)


class CommandParser:
    """The parser of one command, which is built, and its module imported, on first use."""

    def __init__(self, *, command: str, **given: Any) -> None:
        self._command, self._given = command, given

    @cached_property
    def parser(self) -> CommandLineParser:
        made = CommandLineParser(**self._given)
        command_of(self._command).configure_parser(made)
        return made

    def parse_known_args(
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        return self.parser.parse_known_args(args, namespace)


def _about_command(name: str) -> dict[str, Any]:
    what = COMMAND_HELP[name]
    described = f"{what[0].upper()}{what[1:]}."
    return {"command": name, "prog": f"a4 {name}", "description": described, "argument_default": argparse.SUPPRESS}


class _GroupedHelpFormatter(argparse.HelpFormatter):
    """Formats the help without argparse's flat list of commands, which follow in groups."""

    def _iter_indented_subactions(self, action: argparse.Action) -> Iterator[argparse.Action]:  # type: ignore[override]
        return iter(())


def whole_parser() -> argparse.ArgumentParser:
    parser = CommandLineParser(
        prog="a4",
        formatter_class=_GroupedHelpFormatter,
        argument_default=argparse.SUPPRESS,
        description="The console for training on A4 machines. Without a command it opens; a command does one thing.",
        epilog=ALL_EXIT_CODES,
    )
    add_arguments(parser, ConsoleOptions)
    commands = parser.add_subparsers(  # type: ignore[type-var]  # argparse calls nothing else of it
        prog="a4",
        dest="command",
        metavar="COMMAND",
        help="one of these; a4 COMMAND --help says more",
        title="commands",
        parser_class=CommandParser,
    )
    parser.set_defaults(command="")
    parser.add_argument(
        "--version", action=_VersionAction, nargs=0, default=argparse.SUPPRESS, help="which a4 this is, and its commit"
    )
    for title, group in GROUPS.items():
        listed = parser.add_argument_group(title)
        for name, what in group.items():
            commands.add_parser(name, help=what, **_about_command(name))
            listed._group_actions.append(commands._choices_actions[-1])
    return parser


def parser_of_line(line: str) -> tuple[argparse.ArgumentParser, list[argparse.Action]]:
    """(parser with the commands that a line names, arguments that these and `a4` itself take)."""
    parser = whole_parser()
    actions = [*parser._actions]
    for commands in actions:
        if isinstance(commands, argparse._SubParsersAction):
            known: dict[str, Any] = commands.choices
            for name in known.keys() & set(line.split()):
                if isinstance(known[name], CommandParser):
                    known[name] = known[name].parser
                    actions += known[name]._actions
    return parser, actions


class _VersionAction(argparse.Action):
    """Prints the version, which is found out only now, as that asks git for the commit."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from console.assets import release_name

        print_line(f"a4 {release_name()}")
        parser.exit()


class ConsoleOptions(Options):
    plain: bool = flag(
        "--plain",
        help="without a command, for screen readers and pipes: what the console shows as lines, then a line for each "
        "change of a job, queue, pool, node or alarm, until Ctrl-C",
    )


class ViewOptions(Options):
    file: str = word("FILE")


class TourOptions(Options):
    folder: Path | None = word(
        "folder", nargs="?", type=Path, default=None, help="where the screenshots go (default: ./tour)"
    )


class PracticeOptions(Options):
    speed: float | None = option("--speed", type=speed, help="speed-up of the practice cluster")


class ConfigOptions(JsonOptions):
    what: Literal["show", "check", "keys", "lists", "schema", "notify"] = word(
        nargs="?",
        choices=("show", "check", "keys", "lists", "schema", "notify"),
        default="show",
        help="show: each setting, its value, and where it comes from; check: what is wrong in the file, by line (exit "
        "code 2); keys: the bindings that may have other keys; lists: the lists and their columns; schema: the JSON "
        "schema of the file, for editors; notify: sends a message to the addresses of [notifications]",
    )


SETTINGS_HELP = """Your settings stand in $XDG_CONFIG_HOME/a4/config.toml (~/.config), which a4 never
writes; docs/settings.md has all of them. A command of your own, by a key and in the palette:

  [[commands]]
  name = "Top"
  key = "ctrl+y"
  command = "kubectl -n {namespace} top pod -l job={job}"
  changes = false   # it only reads: no question, and there with --read-only too"""


def _refuse_main_command(options: Options) -> int:
    raise AssertionError(f"screens.__main__ runs {options.command}: it knows terminal programs too")


APP_COMMANDS: Commands = {
    "view": Command(_refuse_main_command, ViewOptions),
    "tour": Command(_refuse_main_command, TourOptions),
    "practice": Command(_refuse_main_command, PracticeOptions),
    "config": Command(_refuse_main_command, ConfigOptions, description=SETTINGS_HELP),
    "proxy": Command(_refuse_main_command, Options),
}
