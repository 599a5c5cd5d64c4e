"""Options of the commands that reach into pods: exec, shell, cp, rm, facts."""

from __future__ import annotations

import argparse


def _rank(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", metavar="JOB", help="or pod/NAME, without RANK")
    parser.add_argument(
        "rank_text", metavar="RANK", nargs="?", default="", help="a number over the whole job (0), or REPLICATED/INDEX"
    )


def _container(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-c", "--container", metavar="C", help="instead of the one that does the work")


def add_exec(parser: argparse.ArgumentParser) -> None:
    """`a4 exec`."""
    parser.usage = "a4 exec [-i] [-c C] JOB (RANK | --all | --ranks 0-3,7) [--json] -- COMMAND [ARGUMENT ...]"
    parser.description = (
        "Run a command in one rank of a job, or in many. a4 exits with its code, of many with the highest. Of many "
        "ranks a terminal shows equal outputs once; a pipe gets each line after its rank."
    )
    _rank(parser)
    _container(parser)
    parser.add_argument("-i", "--stdin", action="store_true", help="pass standard input on to the command")
    parser.add_argument("--all", dest="every_rank", action="store_true", help="in every rank")
    parser.add_argument("--ranks", metavar="LIST", help="in these ranks, such as 0-3,7")
    parser.add_argument("--at-once", type=_positive, metavar="N", help="ranks at the same time (default: 16)")
    parser.add_argument(
        "--limit", type=_seconds, metavar="SECONDS", help="give a rank up after that (of many: 60 unless given)"
    )
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument("--lines", action="store_true", help="each line after its rank, as it comes")
    shown.add_argument("--grouped", action="store_true", help="equal outputs once, with their ranks")
    shown.add_argument("--json", action="store_true", help="as JSON: code, and per rank its output and code")


def add_shell(parser: argparse.ArgumentParser) -> None:
    """`a4 shell`."""
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


def add_copy(parser: argparse.ArgumentParser) -> None:
    """`a4 cp`."""
    parser.usage = "a4 cp [-c C] JOB:RANK:PATH ... HERE | a4 cp [-c C] HERE ... JOB:RANK:PATH"
    parser.description = (
        "Copy files and folders from or to ranks: modes, times and links too. RANK is a number, REPLICATED/INDEX, or "
        "all (from each rank into a folder of its own); pod/NAME:PATH is a pod. What broke off is gone on with by the "
        "same command; a copy gets its name only once its checksum is that of the original."
    )
    parser.add_argument("sources", metavar="SOURCE", nargs="+")
    parser.add_argument("target", metavar="TARGET")
    _container(parser)
    parser.add_argument(
        "-r", "--recursive", action="store_true", help="folders too; they are copied without it as well"
    )
    parser.add_argument("--ranks", metavar="LIST", help="instead of the RANK that was written: these, such as 0-3,7")
    parser.add_argument("--by", choices=("sftp", "exec"), help="one way only (default: SFTP where sshd answers)")
    parser.add_argument("--json", action="store_true", help="as JSON")


def add_rm(parser: argparse.ArgumentParser) -> None:
    """`a4 rm`."""
    parser.description = (
        "Delete a file of a rank, or a folder with all that is in it. Not deleted: folders of the root, and mounts."
    )
    parser.epilog = "JSON: kind, rank, pod, place. Exit code 1 if the answer to the question was no."
    parser.add_argument("place", metavar="JOB:RANK:PATH | pod/NAME:PATH")
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
