"""Options of the commands that watch a job: hang, gpus, wait."""

from __future__ import annotations

import argparse


def add_hang(parser: argparse.ArgumentParser) -> None:
    """`a4 hang`."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = (
        "X-ray of a job that hangs: py-spy dump of every training process, equal stacks together, who stands out\n"
        "first; what the kernel (/proc), NCCL RAS and the RDMA devices say; whether every pod reaches the master."
    )
    parser.epilog = (
        "Exit codes: 0 no rank stands out, 1 one does (or nothing could be looked into), 2 usage, 3 not allowed,\n"
        "4 cannot reach the cluster.\n"
        "JSON: job, at, summary, verdict, advice, groups (doing, in, suspect, ranks, words), processes (rank,\n"
        "pod_rank, pod, node, pid, local_rank, command, state, wchan, threads, stacks, where, problem), pods (py_spy,\n"
        "master, reached, unreached, rdma, failure), ras (version, groups, odd, most, text, words, problem)."
    )
    parser.add_argument("job", metavar="JOB")
    parser.add_argument("--install", action="store_true", help="install py-spy (pip) in pods that lack it, first")
    parser.add_argument("--all", action="store_true", help="the stack of every rank, not one of each group")
    parser.add_argument("--rank", type=int, metavar="R", help="of --record and --proc (default: who stands out)")
    parser.add_argument(
        "--record", type=_seconds, metavar="SECONDS", help="record a flame graph of a rank and save it here as SVG"
    )
    parser.add_argument("--out", metavar="FILE", help="of --record (default: JOB-rank-R.svg)")
    parser.add_argument(
        "--proc", dest="facts_of", choices=("status", "limits", "fd", "maps", "strace"),
        help="show that of a rank's process (strace: for ten seconds)",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="as JSON")


def _seconds(text: str) -> float:
    number = float(text)
    if not 0 < number <= 3600:
        raise argparse.ArgumentTypeError("seconds above 0, at most 3600")
    return number
