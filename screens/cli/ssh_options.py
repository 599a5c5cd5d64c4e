"""Options of the commands that use SSH: ssh, code, doctor."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from console.models.attach import EDITORS

if TYPE_CHECKING:
    import argparse


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
    _rank(parser)
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
    _rank(parser)
    parser.add_argument("--json", action="store_true", help="as JSON")


def _rank(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", metavar="JOB")
    parser.add_argument("rank_text", metavar="POD", nargs="?", help="index of the pod in the job (0 unless named)")


def _common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--identity", type=Path, metavar="FILE", help="a key to use instead of the one a4 chooses")
    parser.add_argument("-y", "--yes", action="store_true", help="put the key into a pod that lacks it, unasked")
    parser.add_argument("-q", "--quiet", action="store_true", help="do not say what was set up")
    parser.add_argument("--json", action="store_true", help="as JSON; nothing is started")
