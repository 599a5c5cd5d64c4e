"""Options of the commands that reach into pods: exec, shell, cp, rm, facts.

Options of the commands that use SSH: ssh, code, doctor.

Options of the commands that make and show tunnels: forward, tunnels.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from console.attach.ssh.editors import EDITORS


def _rank(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", metavar="JOB", help="or pod/NAME, without an index")
    parser.add_argument(
        "rank_text", metavar="POD", nargs="?", default="", help="index of the pod in the job (0), or REPLICATED/INDEX"
    )


def _container(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-c", "--container", metavar="C", help="instead of the one that does the work")


def add_exec(parser: argparse.ArgumentParser) -> None:
    """`a4 exec`."""
    parser.usage = "a4 exec [-i] [-c C] JOB (POD | --all | --pods 0-3,7) [--json] -- COMMAND [ARGUMENT ...]"
    parser.description = (
        "Run a command in one pod of a job, or in many. a4 exits with its code, of many with the highest. Of many "
        "pods a terminal shows equal outputs once; a pipe gets each line after its pod. What one pod prints "
        "passes as it is, control characters too."
    )
    _rank(parser)
    _container(parser)
    parser.add_argument("-i", "--stdin", action="store_true", help="pass standard input on to the command")
    parser.add_argument("--all", dest="every_rank", action="store_true", help="in every pod")
    parser.add_argument("--pods", "--ranks", dest="ranks", metavar="LIST", help="in these pods, such as 0-3,7")
    parser.add_argument("--at-once", type=_positive, metavar="N", help="pods at the same time (default: 16)")
    parser.add_argument(
        "--limit", type=_seconds, metavar="SECONDS", help="give a pod up after that (of many: 60 unless given)"
    )
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument("--lines", action="store_true", help="each line after its pod, as it comes")
    shown.add_argument("--grouped", action="store_true", help="equal outputs once, with their pods")
    shown.add_argument(
        "--json",
        action="store_true",
        help="as JSON: code, and of each pod (under ranks, an older name) pod_index, output and code",
    )


def add_shell(parser: argparse.ArgumentParser) -> None:
    """`a4 shell`."""
    parser.description = "A shell in a pod. What it prints passes as it is, control characters too."
    _rank(parser)
    _container(parser)
    parser.add_argument(
        "--no-tmux", dest="tmux", action="store_false", help="no tmux, even where the image has it: the shell itself"
    )


def add_facts(parser: argparse.ArgumentParser) -> None:
    """`a4 facts`."""
    _rank(parser)
    _container(parser)
    parser.add_argument("--json", action="store_true", help="as JSON")


def add_nccl_quick(parser: argparse.ArgumentParser) -> None:
    """`a4 nccl-quick`."""
    parser.description = (
        "Run all_reduce_perf over the GPUs of one running pod, in one process and with gIB's environment, and print "
        "its rows as they come. It shares the GPUs with what runs there, which is slower meanwhile. Exit codes: 0, or "
        "1 where it failed or values are wrong; see a4 --help for others. JSON: as of a4 read."
    )
    _rank(parser)
    _container(parser)
    parser.add_argument("--first", dest="first_size", metavar="SIZE", help="first message size (default: 1M)")
    parser.add_argument("--last", dest="last_size", metavar="SIZE", help="last message size (default: 1G)")
    parser.add_argument(
        "--gpus", dest="test_gpus", type=int, metavar="N", help="of the pod's GPUs so many (default: all)"
    )
    parser.add_argument("--limit", type=_seconds, metavar="SECONDS", help="give up after that (default: 120)")
    parser.add_argument("--json", action="store_true", help="as JSON, once it has ended")


def add_copy(parser: argparse.ArgumentParser) -> None:
    """`a4 cp`."""
    parser.usage = "a4 cp [-c C] JOB:POD:PATH ... HERE | a4 cp [-c C] HERE ... JOB:POD:PATH"
    parser.description = (
        "Copy files and folders from or to pods: modes, times and links too. POD is the index of the pod in the job, "
        "REPLICATED/INDEX, or "
        "all (from each pod into a folder of its own); pod/NAME:PATH is a pod. What broke off is gone on with by the "
        "same command; a copy gets its name only once its checksum is that of the original."
    )
    parser.add_argument("sources", metavar="SOURCE", nargs="+")
    parser.add_argument("target", metavar="TARGET")
    _container(parser)
    parser.add_argument(
        "-r", "--recursive", action="store_true", help="folders too; they are copied without it as well"
    )
    parser.add_argument(
        "--pods", "--ranks", dest="ranks", metavar="LIST", help="instead of the POD that was written, such as 0-3,7"
    )
    parser.add_argument("--by", choices=("sftp", "exec"), help="one way only (default: SFTP where sshd answers)")
    parser.add_argument("--json", action="store_true", help="as JSON")


def add_rm(parser: argparse.ArgumentParser) -> None:
    """`a4 rm`."""
    parser.description = (
        "Delete a file of a pod, or a folder with all that is in it. Not deleted: folders of the root, and mounts."
    )
    parser.epilog = "JSON: kind, pod_index (and rank, its older name), pod, place. Exit code 1 if the answer was no."
    parser.add_argument("place", metavar="JOB:POD:PATH | pod/NAME:PATH")
    _container(parser)
    parser.add_argument("--yes", action="store_true", help="do not ask first")
    parser.add_argument("--json", action="store_true", help="as JSON")


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("a number above 0")
    return number


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds <= 86400:
        raise argparse.ArgumentTypeError("seconds above 0, at most a day")
    return seconds


def add_ssh(parser: argparse.ArgumentParser) -> None:
    """a4 ssh."""
    parser.usage = (
        "a4 ssh JOB [POD] [-- COMMAND ...] | a4 ssh --write-config [JOB ...] | a4 ssh --forget JOB ... | a4 ssh --undo"
    )
    parser.epilog = (
        "Pods of a job get the names a4-JOB-POD for ssh, scp, sftp, rsync and editors. The hosts stand in "
        "~/.ssh/a4/config, which one line of ~/.ssh/config includes; the variable A4_SSH_FOLDER names a folder to use "
        "instead of ~/.ssh. "
        "Host keys are read through the API and always checked. Without JOB the hosts are listed. "
        "--forget and --undo need no cluster. JSON: of a pod its host (host, job, namespace, rank: index of the pod, "
        "command, …); of the list kind and items with these keys; of --write-config hosts and forgotten; of --forget "
        "forgotten; of "
        "--undo done."
    )
    parser.add_argument("jobs", metavar="JOB [POD]", nargs="*", help="a job, and a pod of it (0 unless named)")
    parser.add_argument("--write-config", action="store_true", help="write the hosts of these jobs, or of all, only")
    parser.add_argument("--forget", action="store_true", help="remove the hosts and known host keys of these jobs")
    parser.add_argument("--undo", action="store_true", help="take away all that a4 wrote for ssh")
    parser.add_argument("--share", action="store_true", help="let connections be shared (ControlMaster) from now on")
    parser.add_argument("--no-share", dest="share", action="store_false", help="let them not be shared any more")
    _common(parser)


def add_code(parser: argparse.ArgumentParser) -> None:
    """a4 code."""
    _ssh_rank(parser)
    parser.add_argument("--editor", choices=EDITORS, metavar="EDITOR", help=f"one of {', '.join(EDITORS)} (default: "
                        "the first that is on this machine)")  # fmt: skip
    parser.add_argument("--folder", dest="at", metavar="FOLDER", help="in the pod (default: where its image works)")
    _common(parser)


def add_doctor(parser: argparse.ArgumentParser) -> None:
    """a4 doctor."""
    parser.epilog = (
        "JSON: kind, job, pod_index (and rank, its older name), items: the steps, each with name, title, state (ok, "
        "warning, failed, skipped), seconds, found, fix."
    )
    _ssh_rank(parser)
    parser.add_argument("--json", action="store_true", help="as JSON")


def _ssh_rank(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", metavar="JOB")
    parser.add_argument("rank_text", metavar="POD", nargs="?", help="index of the pod in the job (0 unless named)")


def _common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--identity", type=Path, metavar="FILE", help="a key to use instead of the one a4 chooses")
    parser.add_argument("-y", "--yes", action="store_true", help="put the key into a pod that lacks it, unasked")
    parser.add_argument("-q", "--quiet", action="store_true", help="do not say what was set up")
    parser.add_argument("--json", action="store_true", help="as JSON; nothing is started")


ACTIONS = ("list", "stop", "profiles", "forget")


def add_forward(parser: argparse.ArgumentParser) -> None:
    """a4 forward."""
    parser.usage = (
        "a4 forward JOB POD [LOCAL:]REMOTE ... [--background] [--save NAME] [--json] | a4 forward --profile NAME"
    )
    parser.epilog = (
        "POD counts over the whole job (3) or in one replicated job (workers/3); pod/NAME without an index is a pod by "
        "its name. Without LOCAL a port gets the number it had last time, else its own, else a free one. The ports are "
        "open on this machine only, and lead to whichever pod fills that place when somebody connects."
    )
    parser.add_argument("words", metavar="JOB POD PORT", nargs="*", default=())
    parser.add_argument("--background", action="store_true", help="go on after this command, until the job is over")
    parser.add_argument("--save", metavar="NAME", help="save it as a profile")
    parser.add_argument("--profile", metavar="NAME", help="open what was saved under that name")
    parser.add_argument("--json", action="store_true", help="as JSON, once the ports are open")


def add_tunnels(parser: argparse.ArgumentParser) -> None:
    """a4 tunnels."""
    parser.usage = "a4 tunnels [--json] | a4 tunnels stop NAME ...|--all | a4 tunnels profiles | a4 tunnels forget NAME"
    parser.epilog = (
        "JSON: kind, items with name, namespace, job, rank (index of the pod), context, server, state (ready, "
        "waiting, lost, ended), "
        "words (why), pod, listeners (local, remote, open, connections, sent, received), last_end and last_end_at (of "
        "the last connection that broke), reconnections, since, pid, kept (in the background). Needs no cluster."
    )
    parser.add_argument("action", choices=ACTIONS, nargs="?", default="list", help="default: list")
    parser.add_argument("words", metavar="NAME", nargs="*", default=())
    parser.add_argument("--all", action="store_true", help="with stop: every one")
    parser.add_argument("--json", action="store_true", help="as JSON")
