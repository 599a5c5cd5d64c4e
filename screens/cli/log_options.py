"""Options of the commands on logs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from console.models.levels import LEVELS

if TYPE_CHECKING:
    from argparse import ArgumentParser


def add_logs(parser: ArgumentParser) -> None:
    """Of `a4 logs`."""
    parser.epilog = (
        "Logs that were followed are kept on this machine, secrets redacted, and are printed when the job is gone: "
        "for 30 days and up to 20 GB, or A4_LOGS_KEEP_DAYS and A4_LOGS_KEEP_GB. See a4 --help for exit codes. "
        "JSON: pod_index (and rank, its older name), time, text, attempt, pod (its name), container; with --consensus "
        "time, text, pods (and ranks, their older name), of, not_read (pods); at the end coverage "
        "(words, total, live, reconnecting, waiting, ended, cut, refused, gaps, lost, why, disk)."
    )
    parser.add_argument("job", metavar="JOB")
    parser.add_argument("rank", metavar="POD", nargs="?", type=int, default=None, help="index of the pod in the job")
    parser.add_argument("-a", "--all", action="store_true", help="of all pods, merged by time, the pod in front")
    parser.add_argument("-f", "--follow", action="store_true", help="until the container, or the job, has ended")
    parser.add_argument("--tail", type=int, metavar="LINES", help="only the last lines (of each pod)")
    parser.add_argument(
        "-p",
        "--previous",
        action="store_true",
        help="of the previous container (before its last restart), or of an earlier pod",
    )
    parser.add_argument("--since", metavar="TIME", help="lines from then on: 90s, 5m, 2h ago, or a date and time")
    parser.add_argument("--grep", metavar="RE", help="lines in which the regular expression is found")
    parser.add_argument("--level", choices=LEVELS, help="minimum severity")
    parser.add_argument(
        "--consensus", action="store_true", help="collapse identical lines across pods: 7/8 (all but 7)"
    )
    parser.add_argument(
        "--raw",
        action="store_true",
        help="colours and control characters as they were printed; else a terminal gets text alone",
    )
    parser.add_argument("--json", action="store_true", help="an object a line, the last one says what is missing")


def add_why(parser: ArgumentParser) -> None:
    """Of `a4 why`."""
    parser.epilog = (
        "JSON: namespace, name, state, why (one sentence), card (what ended badly first; null if nothing did: first: "
        "rank: index of the pod, pod, node, exit_code, reason, time, …; others, lines: the last of its log, named: "
        "failures in it, with kind, text, line, rank, host, hint, times), alarms (of a job that "
        "runs: kind, words, time, …; it is watched for 3 s, longer by a4 alarms). See a4 --help for exit codes."
    )
    parser.add_argument("job", metavar="JOB")
    parser.add_argument("--json", action="store_true", help="as JSON")


def add_view(parser: ArgumentParser) -> None:
    """Of `a4 view`."""
    parser.add_argument("file", metavar="FILE")
