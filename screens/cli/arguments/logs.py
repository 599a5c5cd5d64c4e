"""Options of the commands on logs.

Options of the commands on what jobs measure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from console.logs.line import LEVELS
from screens.cli.arguments.pods import add_nccl_quick

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Callable


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


_TEST = (
    "program, version, ranks, rows: size, count, type, redop, root, out_of_place and in_place: time_us, algbw, busbw, "
    "wrong; avg_busbw, out_of_bounds, ok, finished, error"
)
_STEP = "step, total, loss, grad_norm, lr, step_time_s, tflops_per_gpu, tokens_per_s, skipped, nan, extra"
"""Keys of JSON."""


def add_measuring(command: Callable[[str, str], ArgumentParser]) -> None:
    """The commands themselves."""
    _add_nccl(command("nccl", "the NCCL tests of a job: bandwidth, verdict, beside the reference and your own past"))
    add_nccl_quick(command("nccl-quick", "a short NCCL test inside a pod that runs, over its own GPUs"))
    _add_training(command("training", "how far the training of a job is: loss, speed, time left, what happened"))
    reading = command("read", "what stands in a log: NCCL tests, steps of training, failures; needs no cluster")
    reading.epilog = (
        f"JSON: nccl ({_TEST}), training (format, steps: {_STEP}), failures (kind, rank, host, line, text, hint, "
        "times), restarts (run: its place in training, last and first: step before and after), ended (what torchrun, "
        "mpirun or Slurm says at the end), scores (of lm-eval: task, metric, value, error, shots, filter, version, "
        "depth, group, better), stacks (of py-spy: pid, command, python, threads, error), and unreadable (first, last, "
        "lines, text, goes_on) where lines could not be "
        'read. What is not known is null, never 0; numbers that are none are the texts "nan" and "inf". Exit codes: 0 '
        "it was read, 2 it cannot be, 1 with --check if a test failed or a failure is named; see a4 --help."
    )
    reading.add_argument("--check", action="store_true", help="exit with 1 if a test failed or a failure is named")
    reading.add_argument("file", metavar="FILE", help="a log, or - for standard input as it comes")
    reading.add_argument("--json", action="store_true", help="as JSON, once the log has ended")


def _add_nccl(parser: ArgumentParser) -> None:
    """Of `a4 nccl`."""
    parser.epilog = (
        "A test passes whose average over 2 to 8 GiB is over the pass line: 250 GB/s, A4_NCCL_PASS, or --pass. "
        "Exit codes: 0 passed or not judged, 1 failed (too slow, wrong values) or no table; see a4 --help for others. "
        f"JSON: name, pass_line, nccl ({_TEST}, attempt, pod_index (and rank, its older name), at, nodes, verdict, "
        f"why, usual: GB/s by size of "
        "your own past, compared: job, faster, sizes)."
    )
    _add(parser)
    parser.add_argument("--compare", metavar="RUN", default="",
                        help="beside the last test of that job, or the number of a test in --history")  # fmt: skip
    parser.add_argument("--pass", dest="pass_line", type=float, metavar="GB/S", help="the pass line")
    parser.add_argument("--history", action="store_true", help="tests that are kept of that job (- for all jobs)")
    parser.add_argument(
        "--nodes", dest="by_node", action="store_true", help="of each node its last bandwidth and trend (JOB: -)"
    )


def _add_training(parser: ArgumentParser) -> None:
    """Of `a4 training`."""
    parser.epilog = (
        "Exit codes: 0, or 1 where the last step is not a number or none was printed; see a4 --help. JSON: name, "
        f"training (format, steps: {_STEP}; finished, step, total, eta_s, mfu, marks: kind, step, time, words)."
    )
    _add(parser)
    parser.add_argument("--earlier", action="store_true", help="earlier runs of the recipe in the picture too")
    names = "loss, grad_norm, lr, step_time_s, tokens_per_s, tflops_per_gpu"
    parser.add_argument("--metric", choices=names.split(", "), default="loss", metavar="NAME", help=f"of it: {names}")


def _add(parser: ArgumentParser) -> None:
    parser.add_argument("job", metavar="JOB")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="as JSON")
    form.add_argument("--csv", action="store_true", help="as CSV")
    form.add_argument("--svg", metavar="FILE", default="", help="the curve as a picture, in that file (- for stdout)")
