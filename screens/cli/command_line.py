"""The command line of `a4`: which words there are, and what they mean."""

from __future__ import annotations

import argparse
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from console.assets import release
from screens.cli.arguments.google import add_google, add_images
from screens.cli.arguments.launch import (
    add_history,
    add_launch,
    add_preflight,
    add_profiles,
    add_releases,
    add_reuse,
    add_rollback,
    add_stop,
    add_upgrade,
    add_values,
)
from screens.cli.arguments.logs import add_logs, add_measuring, add_view, add_why
from screens.cli.arguments.pods import (
    add_code,
    add_copy,
    add_doctor,
    add_exec,
    add_facts,
    add_forward,
    add_rm,
    add_shell,
    add_ssh,
    add_tunnels,
)
from screens.cli.arguments.watch import add_watching
from screens.cli.columns import LAYOUTS
from screens.cli.options import Options
from screens.cli.output import Parser, say

if TYPE_CHECKING:
    from collections.abc import Callable

LISTS = {
    "pools": "node pools: machines, provisioning, nodes ready, GPUs used and free, faults",
    "nodes": "nodes: pool, place in the network, GPUs, faults, maintenance",
    "queues": "ClusterQueues and LocalQueues: quota, used, borrowed, lent, pending",
    "workloads": "Kueue workloads in queue order: position, and why each one waits",
    "jobs": "JobSets: state, pods, restarts, GPUs, and why one does not run",
    "pods": "pods: phase, reason, node, index, restarts",
}
"""Listing commands and what each shows."""

EXIT_CODES = (
    "exit codes: 0 ok, 1 it failed or is not there, 2 usage, 3 not allowed, 4 cannot reach the cluster; with --json "
    'standard error is JSON too, an object a line: {"error": what failed and why, "hint": what to do next}, {"note": …}'
)


def parse(argv: list[str] | None = None) -> Options:
    """The options of one command line; argparse itself answers `--help` and bad usage (exit code 2)."""
    argv, program = _split_program(argv)
    given: dict[str, Any] = vars(_parser().parse_args(argv))
    if program:
        given["argv"] = tuple(program)
    for each in fields(Options):
        if isinstance(each.default, tuple) and each.name in given:  # argparse collects lists
            given[each.name] = tuple(given[each.name])
    return Options(**given)


def _split_program(argv: list[str] | None) -> tuple[list[str] | None, list[str]]:
    """What comes before and after the first `--`: after it stands a program for a pod, whose words are not ours."""
    if argv is None or "--" not in argv:
        return argv, []
    cut = argv.index("--")
    return argv[:cut], argv[cut + 1 :]


def _parser() -> argparse.ArgumentParser:
    common = _common()
    parser = Parser(
        prog="a4",
        parents=[common],
        description="The console for training on A4 machines. Without a command it opens; a command does one thing.",
        epilog=EXIT_CODES,
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    parser.set_defaults(command="")
    parser.add_argument(
        "--version", action=_Version, nargs=0, default=argparse.SUPPRESS, help="which a4 this is, and its commit"
    )

    def command(name: str, help_: str, **more: Any) -> argparse.ArgumentParser:
        return commands.add_parser(
            name, parents=[common], help=help_, description=help_[0].upper() + help_[1:] + ".",
            argument_default=argparse.SUPPRESS, **{"epilog": EXIT_CODES, **more},
        )  # fmt: skip

    _add_lists(command)
    command("recipes", "what can be launched").add_argument("--json", action="store_true", help="as JSON")
    add_values(command("values", "every value of a recipe at its default, explained: a file for launch -f"))
    launching = command("launch", "launch a recipe", epilog=EXIT_CODES)
    add_launch(launching)
    add_reuse(launching)
    add_stop(command("stop", "stop jobs: uninstall their releases, or delete their JobSets", epilog=EXIT_CODES))
    add_history(command("history", "what was launched, and what came of it"))
    add_profiles(command("profiles", "named sets of values under every form; needs no cluster"))
    add_releases(command("releases", "releases of the chart, or the revisions of one"))
    add_upgrade(command("upgrade", "give a release other values, as far as its objects may change", epilog=EXIT_CODES))
    add_rollback(command("rollback", "go back to an earlier revision of a release", epilog=EXIT_CODES))
    add_logs(command("logs", "the log of one pod of a job (pod 0 unless named), or of all"))
    add_exec(command("exec", "run a command in one pod of a job, or in many; a4 exits with its code"))
    add_shell(command("shell", "a shell in a pod, in tmux where the image has it; a4 exits with its code"))
    add_copy(command("cp", "copy files and folders from or to pods of a job"))
    add_rm(command("rm", "delete a file or folder of a pod; asks first"))
    add_facts(command("facts", "GPUs, disks, mounts, NCCL environment, InfiniBand, C library and Python of a pod"))
    add_ssh(command("ssh", "ssh to a pod by name, set up on the way"))
    add_code(command("code", "open a pod in VS Code or another editor of this machine"))
    add_doctor(command("doctor", "each step from your token to an editor in a pod, its time, and what fixes it"))
    add_forward(
        command("forward", "ports of this machine that lead to a pod of a job, and follow it when it is replaced")
    )
    add_tunnels(command("tunnels", "tunnels that are open, whoever opened them: list and stop them; profiles"))
    # For the list of commands only: `main` leaves this one to `cli.proxy`.
    command("proxy", "standard input and output lead to a port of a pod, for ssh's ProxyCommand")
    add_watching(command)
    add_measuring(command)
    add_why(command("why", "what failed first in a job, or why it does not run"))
    add_view(command("view", "a log file in the log view, of any size: search, filters, levels; needs no cluster"))
    add_google(command)
    add_images(command)
    add_preflight(command("preflight", "what a launch needs of cluster and project, checked; fixes some of it"))
    _add_own_worlds(command)
    return parser


class _Version(argparse.Action):
    """Asks for the version only when it is wanted: the commit is git's answer."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        say(f"a4 {release()}")
        parser.exit()


def _add_lists(command: Callable[..., argparse.ArgumentParser]) -> None:
    """The lists of what is in the cluster."""
    for name, help_ in LISTS.items():
        listing = command(name, help_, formatter_class=argparse.RawDescriptionHelpFormatter, epilog=_keys(name))
        listing.add_argument("-A", "--all-namespaces", action="store_true", help="of all namespaces")
        listing.add_argument("--json", action="store_true", help="as JSON")
        if name == "jobs":
            listing.add_argument("--mine", action="store_true", help="only those that you launched")


def _add_own_worlds(command: Callable[[str, str], argparse.ArgumentParser]) -> None:
    """The practice cluster, and the tour through it."""
    practice = command("practice", "serve the practice cluster until Ctrl-C and print its KUBECONFIG")
    practice.add_argument("--speed", dest="demo_speed", type=_speed, help="speed-up of the practice cluster")
    tour = command(
        "tour", "drive the console through its main job on the practice cluster and keep a screenshot of every screen"
    )
    tour.add_argument("folder", nargs="?", type=Path, default=None, help="where the screenshots go (default: ./tour)")


def _common() -> Parser:
    """Options that stand before or after the command; absent ones leave no trace, so neither place overrides."""
    common = Parser(add_help=False, argument_default=argparse.SUPPRESS)
    cluster = common.add_argument_group("cluster")
    cluster.add_argument("--demo", action="store_true", help="the practice cluster: no cluster needed")
    cluster.add_argument(
        "--demo-speed",
        type=_speed,
        metavar="N",
        help="speed-up of the practice cluster; alarms wait for seconds of real time all the same",
    )
    cluster.add_argument(
        "--seed", type=int, metavar="S", help="the same seed gives the same run of the practice cluster"
    )
    cluster.add_argument("--kubeconfig", type=Path, metavar="FILE", help="instead of $KUBECONFIG or ~/.kube/config")
    cluster.add_argument("--context", metavar="C", help="instead of the kubeconfig's current one")
    cluster.add_argument("-n", "--namespace", metavar="N", help="instead of the context's")
    cluster.add_argument(
        "--read-only",
        action="store_true",
        help=(
            "nothing that changes the cluster can be done; what only reads inside pods (ls, cp from one, facts, doctor)"
            " still runs there"
        ),
    )
    return common


def _keys(name: str) -> str:
    """The JSON keys of a list and their meaning."""
    columns = LAYOUTS[name].columns
    width = max(len(column.key) for column in columns)
    lines = "\n".join(f"  {column.key:{width}}  {column.meaning}" for column in columns)
    head = "JSON: kind, at, unread (kinds that could not be read, and why), items with these keys:"
    return f"{head}\n{lines}\n\n{EXIT_CODES}"


def _speed(text: str) -> float:
    speed = float(text)
    if not 0 < speed <= 1000:
        raise argparse.ArgumentTypeError("a number above 0, at most 1000")
    return speed
