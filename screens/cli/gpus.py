"""`a4 gpus`: the GPUs of all ranks of a job, worst first."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import asdict

from console.metrics.gpu_metrics import DCGM, METRICS, SMI, GpuBoard, Source, find_metric
from screens.cli.arguments import Command, Commands, Options, flag, json_flag, option, word
from screens.cli.connect import open_session
from screens.cli.job import KINDS
from screens.cli.output import print_json, print_line, print_table, warn

_TITLES = (
    "POD", "GPU", "UTIL %", "MEM MiB", "OF MiB", "W", "OF W", "°C", "MHz", "NVLINK IN", "OUT GB/s", "ECC", "NODE",
    "FAULTS",
)  # fmt: skip
_RIGHT = (True,) * 12 + (False, False)


async def gpus(options: GpusOptions) -> int:
    """Print one reading, or with --follow one after the other; returns 1 if a GPU has a fault or none can be read."""
    what = find_metric(options.metric)
    async with open_session(options, KINDS) as session:
        if not options.follow:
            board = await session.gpus.read_once(session.namespace, options.job, source=options.source)
            return _show(board, options)
        async with aclosing(
            session.gpus.follow_boards(session.namespace, options.job, source=options.source)
        ) as boards:
            async for board in boards:
                if board.all_gpus:
                    rank, gpu = board.sort_by_badness(what)[0]
                    worst = f"pod {rank.rank} GPU {gpu.index} ({_decimal(what.value(gpu))} {what.unit})"
                    print_line(f"{board.summary}; worst by {what.title.lower()}: {worst}")
    return 0


def _show(board: GpuBoard, options: GpusOptions) -> int:
    faulty = any(gpu.faults for _, gpu in board.all_gpus)
    if options.json:
        pods = [{"pod_index": each.rank, **asdict(each)} for each in board.ranks]
        print_json({"words": board.summary, "pods": pods, "ranks": pods})
    else:
        print_line(board.summary)
        rows = [
            [
                str(rank.rank), str(gpu.index), *map(_decimal, (
                    gpu.utilization, gpu.memory_used, gpu.memory_total, gpu.power, gpu.power_limit, gpu.temperature,
                    gpu.clock,
                )), _gigabytes(gpu.nvlink_received), _gigabytes(gpu.nvlink_sent), _decimal(gpu.ecc_uncorrected),
                rank.node,
                "; ".join(gpu.faults),
            ]
            for rank, gpu in board.sort_by_badness(find_metric(options.metric))
        ]  # fmt: skip
        if rows:
            print_table(_TITLES, rows, _RIGHT)
        links = [(rank, link) for rank in board.ranks for link in rank.rdma]
        if links:
            print_table(
                ("POD", "RDMA CARD", "IN GB/s", "OUT GB/s"),
                [
                    (str(rank.rank), link.name, _gigabytes(link.received, 1), _gigabytes(link.sent, 1))
                    for rank, link in links
                ],
                (True, False, True, True),
            )
        elif board.all_gpus:
            print_line("RDMA: not known: no counter of a network card can be read in these pods.")
        for rank in board.ranks:
            if rank.problem:
                warn(f"pod {rank.rank} ({rank.node}): {rank.problem}")
    return int(faulty or not board.all_gpus)


def _decimal(value: float | None, digits: int = 0) -> str:
    return "─" if value is None else f"{value:.{digits}f}"


def _gigabytes(rate: float | None, digits: int = 0) -> str:
    return _decimal(None if rate is None else rate / 1e9, digits)


class GpusOptions(Options):
    job: str = word("JOB")
    metric: str = option(
        "--metric", choices=[each.name for each in METRICS], default="utilization", help="what orders them"
    )
    source: Source = option("--source", choices=(SMI, DCGM), help="ask only that")
    follow: bool = flag("-f", "--follow", help="a line for each reading, until Ctrl-C")
    json: bool = json_flag()


COMMANDS: Commands = {
    "gpus": Command(
        gpus,
        GpusOptions,
        description="GPUs of all pods of a job, the worst first: nvidia-smi in every pod, or the DCGM exporter of its "
        "node where\nthere is no nvidia-smi and in read-only mode. Only DCGM reports the last Xid.",
        epilog="""\
Exit codes: 0 all is well, 1 a GPU has a fault (uncorrected ECC, Xid, throttled by temperature or power) or
none could be read, 2 usage, 3 not allowed, 4 cannot reach the cluster.
JSON: words, pods (and ranks, an older name: pod_index, rank, pod, node, at, source, problem, gpus: index,
name, utilization in %, memory_used and memory_total in MiB, temperature in °C, power and power_limit in W,
clock and clock_max in MHz, ecc_uncorrected, ecc_corrected, throttle (bits), recovery, xid, bus, pod).""",
    ),
}
