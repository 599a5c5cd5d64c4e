"""Options of the commands that watch a job: hang, gpus, wait."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from console.metrics.alarm_rules import LEAST, Thresholds
from console.metrics.gpu import DCGM, METRICS, SMI

if TYPE_CHECKING:
    from collections.abc import Callable


def add_watching(command: Callable[[str, str], argparse.ArgumentParser]) -> None:
    """All of them."""
    add_hang(command("hang", "why a job hangs: the stacks of all its processes, grouped; NCCL, network, RDMA"))
    add_wait(command("wait", "wait until a job has reached something; an alarm, a failure and a timeout end it too"))
    add_alarms(command("alarms", "what is wrong with the jobs that run: stalls, nan, low bandwidth, failures, …"))
    add_gpus(
        command(
            "gpus", "GPUs of all pods of a job: utilization, memory, power, temperature, clock, ECC; the worst first"
        )
    )


def add_hang(parser: argparse.ArgumentParser) -> None:
    """`a4 hang`."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = (
        "X-ray of a job that hangs: py-spy dump of every training process, equal stacks together, who stands out\n"
        "first; what the kernel (/proc), NCCL RAS and the RDMA devices say; whether every pod reaches the master.\n"
        "Of an NCCL test, which is no Python, the kernel tells of its processes and of mpirun and orted.\n"
        "A rank is a process (its RANK), a pod may hold several; a4 logs, shell and others take the index of the pod."
    )
    parser.epilog = (
        "Exit codes: 0 no rank stands out, 1 one does (or has no running pod, or nothing was found out), 2 usage,\n"
        "3 not allowed, 4 cannot reach the cluster.\n"
        "JSON: job, at, summary, verdict, advice, groups (doing, in, suspect, ranks, words), processes (rank,\n"
        "pod_index and, an older name, pod_rank: index of its pod, pod, node, pid, local_rank, command, state,\n"
        "wchan, threads, stacks, where, problem, program: name if it is no Python, cpu: percent of a core since its\n"
        "start), pods (pod_index, py_spy,\n"
        "master, reached, unreached, rdma, failure, launchers: mpirun and orted, gdb), ras (version, groups, odd,\n"
        "most, text, words, problem), absent (pod_index, status: pods that do not run beside those that do)."
    )
    parser.add_argument("job", metavar="JOB")
    parser.add_argument("--install", action="store_true", help="install py-spy (pip) in pods that lack it, first")
    parser.add_argument("--all", action="store_true", help="the stack of every rank, not one of each group")
    parser.add_argument(
        "--rank", type=int, metavar="R", help="a process's RANK, for --record and --proc (default: who stands out)"
    )
    parser.add_argument(
        "--record", type=_seconds, metavar="SECONDS", help="record a flame graph of a rank and save it here"
    )
    parser.add_argument("--out", metavar="FILE", help="of --record (default: JOB-rank-R.svg; .json is for speedscope)")
    parser.add_argument(
        "--proc", dest="facts_of", choices=("status", "limits", "fd", "maps", "strace"),
        help="show that of a rank's process (strace: for ten seconds)",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="as JSON")


def add_gpus(parser: argparse.ArgumentParser) -> None:
    """`a4 gpus`."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = (
        "GPUs of all pods of a job, the worst first: nvidia-smi in every pod, or the DCGM exporter of its node where\n"
        "there is no nvidia-smi and in read-only mode. Only DCGM tells the last Xid."
    )
    parser.epilog = (
        "Exit codes: 0 all is well, 1 a GPU has a fault (uncorrected ECC, Xid, clock cut for heat or power) or none\n"
        "could be read, 2 usage, 3 not allowed, 4 cannot reach the cluster.\n"
        "JSON: words, pods (and ranks, an older name: pod_index, rank, pod, node, at, source, problem, gpus: index,\n"
        "name, utilization in %, memory_used\n"
        "and memory_total in MiB, temperature in °C, power and power_limit in W, clock and clock_max in\n"
        "MHz, ecc_uncorrected, ecc_corrected, throttle (bits), recovery, xid, bus, pod)."
    )
    parser.add_argument("job", metavar="JOB")
    names = [each.name for each in METRICS]
    parser.add_argument("--metric", choices=names, default="utilization", help="what orders them")
    parser.add_argument("--source", choices=(SMI, DCGM), default="", help="ask only that")
    parser.add_argument("-f", "--follow", action="store_true", help="a line for each reading, until Ctrl-C")
    parser.add_argument("--json", action="store_true", help="as JSON")


def add_alarms(parser: argparse.ArgumentParser) -> None:
    """`a4 alarms`."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = (
        "Alarms of all running jobs of the namespace. A log or two of each is followed: the first and the last pod,\n"
        "then the one that tells of steps or tests; of no more than `streams` logs together, the largest jobs first.\n"
        "Of the others only restarts and failures are told. GPUs are asked by the DCGM exporter."
    )
    parser.epilog = (
        "Exit codes: 0 no alarm, 2 usage, 3 not allowed, 4 cannot reach the cluster, 5 an alarm.\n"
        "Thresholds are in $XDG_CONFIG_HOME/a4/alarms.toml, see a4 wait --help; running = false: the console watches\n"
        "only jobs whose page was opened.\n"
        "JSON: coverage (running, heard, streams, most, refused, words), alarms (kind, words, time: when it was\n"
        "noticed, namespace, job, over, began: when it happened, 0 not known, ended, more, held,\n"
        "next); with --follow one alarm a line as it begins."
    )
    parser.add_argument("-A", "--all-namespaces", action="store_true", help="of all namespaces")
    parser.add_argument(
        "--listen", type=_seconds, default=15.0, metavar="SECONDS", help="how long to listen first (default: 15)"
    )
    parser.add_argument("-f", "--follow", action="store_true", help="each alarm as it begins, until Ctrl-C")
    parser.add_argument("--json", action="store_true", help="as JSON")


def add_wait(parser: argparse.ArgumentParser) -> None:
    """`a4 wait`."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = (
        "Wait until a job has reached something. An alarm ends the wait too, unless --ignore-alarms is given: no new\n"
        "iteration (stall) or line (silent), nan, a loss spike, busbw under the line, a pod behind, a restart, a GPU\n"
        "fault (gpu). Warm-up, evaluation and checkpoints have more time."
    )
    defaults = Thresholds()
    parser.epilog = (
        "Exit codes: 0 reached, 1 the job failed, 2 usage, 3 not allowed, 4 cannot reach the cluster, 5 an alarm,\n"
        "6 timed out, 7 the job ended without it.\n"
        "Thresholds are kept in $XDG_CONFIG_HOME/a4/alarms.toml (~/.config), where options are not given:\n"
        + "".join(f"  {name} = {getattr(defaults, name):g}\n" for name in LEAST)
        + '  off = ["spike"]   # alarms that nobody wants\n  notify = false    # no bell and no notification in the '
        "console's terminal\n"
        "in seconds; stall_steps: usual steps, the longer of both counts; behind: steps; gpus: between two looks at\n"
        "the GPUs, 0 for none; busbw: GB/s, 0 for the usual pass line; warm_up and pause: silence before the pace is\n"
        "known, and while it evaluates or saves; streams: logs that are followed of running jobs whose page is not\n"
        "open (running = false: of none).\n"
        "JSON: job, code, result (reached, failed, alarm, timeout, ended), words, step, loss, busbw, alarms."
    )
    parser.add_argument("job", metavar="JOB")
    parser.add_argument(
        "--until", action="append", metavar="WHAT", default=argparse.SUPPRESS,
        help="busbw>250 (GB/s, the last test), step=100, loss<2, running, or done (default); one of several is enough",
    )  # fmt: skip
    parser.add_argument("--timeout", type=float, metavar="SECONDS", help="give up after that (default: never)")
    parser.add_argument("--ignore-alarms", action="store_true", help="only the job's end and the timeout count")
    parser.add_argument("--without", metavar="ALARMS", help="alarms that do not count, such as spike,gpu")
    parser.add_argument("--silent", type=float, metavar="S", help="seconds without a line of any pod")
    parser.add_argument("--stall", type=float, metavar="S", help="seconds without a new iteration")
    parser.add_argument("--behind", type=int, metavar="N", help="steps that a pod may be behind")
    parser.add_argument("--busbw", type=float, metavar="GB/S", help="pass line of NCCL tests")
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress on standard error")
    parser.add_argument("--json", action="store_true", help="as JSON")


def _seconds(text: str) -> float:
    number = float(text)
    if not 0 < number <= 3600:
        raise argparse.ArgumentTypeError("seconds above 0, at most 3600")
    return number
