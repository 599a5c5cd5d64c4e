"""`a4 nccl`, `a4 training`: what a job has measured, also after its end; `a4 gpus`: its GPUs now, the worst first."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import asdict
from typing import TYPE_CHECKING

from console.errors import BadInput, ConsoleError, NotFound
from console.kube.find_job import find_job
from console.kube.stream_completeness import SERVER_CLOCK
from console.metrics.export_results import (
    draw_curve_svg,
    draw_training_svg,
    format_rows_csv,
    format_training_csv,
    training_json,
)
from console.metrics.gpu_metrics import DCGM, GPU_METRICS, NVIDIA_SMI, GpuBoard, GpuSource, find_metric, mfu
from console.metrics.health import STEPLESS_WORDS, JobHealth
from console.metrics.job_progress import progress_of_runs
from console.metrics.nccl_history import (
    MeasuredTest,
    NodeBandwidth,
    comparable_tests,
    compare_sizes,
    mean_speedup,
    usual_bandwidth,
)
from console.metrics.training_run import TrainingRun
from screens import wording
from screens.cli.arguments import (
    EXIT_ALARM,
    STEP_KEYS,
    TEST_KEYS,
    Command,
    Commands,
    Options,
    above_zero,
    flag,
    json_flag,
    option,
    word,
)
from screens.cli.job_arguments import JOB_KINDS, health_code
from screens.cli.lists import read_diagnoses
from screens.cli.open_session import Connect, open_session
from screens.cli.output import print_json, print_line, print_table, warn, write_text
from screens.columns.jobs import JobLine, health_json
from screens.columns.live_jobs import with_diagnoses
from trainlog import PASS_LINE, NcclResult, NcclTest, expected_busbw, is_comparable, judge_test, nccl_test_json

if TYPE_CHECKING:
    from console.metrics.job_measures import JobMeasures
    from console.session import Session


MEASURED_KINDS = (*JOB_KINDS, "nodes")


async def run_nccl(options: NcclOptions, connect: Connect = open_session) -> int:
    async with connect(options, MEASURED_KINDS, waits=False) as session:
        if options.by_node:
            await session.measures.test_history.load()
            return _print_nodes(session.measures.test_history.nodes, options)
        if options.history:
            return _print_history(await session.measures.test_history.load(), options)
        job = await _read_measures(session, options.job)
        kept = await session.measures.test_history.load()
        if not job.tests:
            raise _no_results_error(options.job, job, "nccl", "table of nccl-tests")
        line = options.pass_line or session.measures.pass_line
        other = _test_to_compare(options.compare, kept, job.tests[-1]) if options.compare else None
        await _print_tests(job.tests, kept, other, line, options)
        _warn_unreadable_lines(job, "nccl")
        failed = any(judge_test(each.test, line, each.accelerator).passing is NcclResult.FAILED for each in job.tests)
    return int(failed) or _warn_unread_logs(job)


async def run_training(options: TrainingOptions, connect: Connect = open_session) -> int:
    async with connect(options, MEASURED_KINDS) as session:
        job = await _read_measures(session, options.job)
        track = job.track
        if track is None or track.last is None:
            raise _no_results_error(options.job, job, "training", "step of training")
        now = SERVER_CLOCK.now()
        jobset = session.fleet.jobsets.get((session.namespace, options.job))  # None: it is not there any more
        progress = progress_of_runs([track], now)
        await read_diagnoses(session)
        line = JobLine(jobset, session.fleet, progress) if jobset is not None else None
        health = with_diagnoses(session, line).health if line is not None else None
        if options.json:
            runs = [training_json(each, job.accelerator, now=now) for each in job.tracks]
            print_json({"name": options.job, "health": health_json(health) if health else None, "training": runs})
        elif options.csv:
            sys.stdout.write(format_training_csv(job.tracks))
        elif options.svg:
            earlier = await session.measures.read_earlier_runs(job) if options.earlier else []
            await asyncio.to_thread(
                write_text, options.svg, draw_training_svg(options.job, track, earlier, options.metric)
            )
        else:
            _print_training(options.job, job, track, health)
        _warn_unreadable_lines(job, "training")
    unread, gone = _warn_unread_logs(job), EXIT_ALARM if track.nan else 0
    return (health_code(health) if health is not None else gone) or unread


async def _read_measures(session: Session, name: str) -> JobMeasures:
    """The job's measurements so far. Raises NotFound if neither the job nor a stored log exists."""
    fleet = await session.wait_until_listed(*MEASURED_KINDS)
    job = await session.measures.read_job(session.namespace, name)
    if (session.namespace, name) not in fleet.jobsets:
        if not job.tests and not job.tracks:
            find_job(fleet, session.namespace, name)
        warn(f"{name} is not in the cluster any more: this is from its log as it was kept.")
    return job


def _no_results_error(name: str, job: JobMeasures, subject: str, called: str) -> ConsoleError:
    """The error for a job whose log has no results: NotFound, or why the log could not be read to its end."""
    _warn_unreadable_lines(job, subject)
    return job.unread[0] if job.unread else NotFound(f"{name} has printed no {called}.", f"Its log: a4 logs {name}")


def _warn_unread_logs(job: JobMeasures) -> int:
    """Print which logs were not read; returns the exit code for the first of them, 0 if there are none."""
    if not job.unread:
        return 0
    first, others = job.unread[0], len(job.unread) - 1
    warn(str(first) + (f" So it is with {others} more." if others else ""))
    return first.exit_code


def _warn_unreadable_lines(job: JobMeasures, subject: str) -> None:
    if subject in job.unreadable:
        rank, problem = job.unreadable[subject]
        warn(f"pod {rank}: {problem.summary}: {problem.text}")


# tests


def _test_to_compare(given_run: str, tests: Sequence[MeasuredTest], shown_test: MeasuredTest) -> MeasuredTest:
    """The test to compare with, given by job name or number. Raises NotFound, which lists the comparable tests."""
    fitting = comparable_tests(tests, shown_test)
    found = next((each for each in fitting if each.job == given_run), None)
    if found is None and given_run.isdigit() and 0 < int(given_run) <= len(tests):
        found = tests[int(given_run) - 1]
    if found is None:
        names = ", ".join(dict.fromkeys(each.job for each in fitting[:5]))
        raise NotFound(f"No test of {given_run} is kept that can be compared.", f"There are: {names}." if names else "")
    return found


async def _print_tests(
    tests: Sequence[MeasuredTest],
    past: Sequence[MeasuredTest],
    other: MeasuredTest | None,
    line: float,
    options: NcclOptions,
) -> None:
    last = tests[-1]
    if options.json:
        print_json(
            {"name": options.job, "pass_line": line, "nccl": [_test_json(each, past, other, line) for each in tests]}
        )
    elif options.csv:
        sys.stdout.write(format_rows_csv([each.test for each in tests]))
    elif options.svg:
        others = [(other.job, other.test)] if other else []
        compared = is_comparable(last.test, last.accelerator)
        await asyncio.to_thread(
            write_text, options.svg, draw_curve_svg(options.job, last.test, others, is_compared=compared)
        )
    else:
        for number, each in enumerate(tests, start=1):
            _print_test(options.job, f"test {number} of {len(tests)}", each, past, other, line)
        if len(tests) > 1:
            _print_summary(tests, line)


def _test_json(
    test: MeasuredTest, tests: Sequence[MeasuredTest], compared_test: MeasuredTest | None, pass_line: float
) -> dict[str, object]:
    verdict, own = judge_test(test.test, pass_line, test.accelerator), usual_bandwidth(comparable_tests(tests, test))
    found: dict[str, object] = nccl_test_json(test.test) | {
        "attempt": test.attempt,
        "rank": test.rank,
        "pod_index": test.rank,
        "at": test.at,
        "nodes": test.nodes,
        "verdict": verdict.passing,
        "why": verdict.why,
        "usual": {str(size): middle for size, (_, middle, _) in own.sizes.items()} if own else None,
    }
    if compared_test is not None:
        found["compared"] = {
            "job": compared_test.job,
            "faster": mean_speedup(compared_test.test, test.test),
            "sizes": [
                {"size": size.size, "before": size.before, "after": size.after, "share": size.share}
                for size in compare_sizes(compared_test.test, test.test)
            ],
        }
    return found


def _print_test(
    job: str, number: str, each: MeasuredTest, tests: Sequence[MeasuredTest], other: MeasuredTest | None, line: float
) -> None:
    test, own = each.test, usual_bandwidth(comparable_tests(tests, each))
    compared = is_comparable(test, each.accelerator)
    about = [
        f"{test.program or 'nccl-tests'} {test.version or ''}".strip(),
        f"{test.ranks} ranks" if test.ranks else "",
        _format_size_range(test),
        f"pod {each.rank}",
        f"restart {each.attempt}" if each.attempt else "",
        wording.clock(each.at) if each.at else "",
    ]
    print_line(f"{job}, {number}: {', '.join(filter(None, about))}")
    if not test.rows:
        print_line(_verdict_words(test, line, each.accelerator))
        return
    titles = ["SIZE", "OUT OF PLACE GB/s", "IN PLACE GB/s", "WRONG", *["% OF A4"] * compared]
    titles += [*["% OF USUAL"] * bool(own), *[f"% OF {each.job}" for each in [other] if each]]
    before = {row.size: row.best_busbw for row in other.test.rows} if other else {}
    rows = []
    for row in test.rows:
        halves = (row.out_of_place, row.in_place)
        wrong = [half.wrong for half in halves if half and half.wrong is not None]
        cells = [wording.size(row.size)]
        cells += [f"{half.busbw:,.1f}" if half and half.busbw is not None else "-" for half in halves]
        cells.append(str(sum(wrong)) if wrong else "-")
        if compared:
            cells.append(_format_share(row.best_busbw, expected_busbw(row.size)))
        if own:
            cells.append(_format_share(row.best_busbw, own.usual_at(row.size)))
        if other:
            cells.append(_format_share(row.best_busbw, before.get(row.size)))
        rows.append(cells)
    print_table([f">{title}" for title in titles], rows)
    legend = "Bus bandwidth (busbw of nccl-tests)"
    legend += ", % OF A4: of the reference for that size" * compared
    legend += ", % OF USUAL: of the median of your earlier tests of that size" * bool(own)
    print_line(f"{legend}.")
    print_line(_verdict_words(test, line, each.accelerator))


def _format_size_range(test: NcclTest) -> str:
    sizes = [row.size for row in test.rows]
    return f"{wording.size(min(sizes))} to {wording.size(max(sizes))}" if sizes else "no row was read"


def _verdict_words(test: NcclTest, pass_line: float, accelerator: str) -> str:
    verdict = judge_test(test, pass_line, accelerator)
    average = f"average {test.avg_busbw:,.1f} GB/s: " if test.avg_busbw is not None else ""
    return f"{average}{verdict.passing}{f', {verdict.why}' if verdict.why else ''}"


def _print_summary(tests: Sequence[MeasuredTest], pass_line: float) -> None:
    print_line(f"{len(tests)} tests:")
    rows = [
        [
            str(number),
            each.test.program or "nccl-tests",
            str(each.test.ranks or ""),
            str(each.rank),
            _format_size_range(each.test),
            f"{each.test.peak_busbw:,.1f}" if each.test.peak_busbw is not None else "-",
            _verdict_words(each.test, pass_line, each.accelerator),
        ]
        for number, each in enumerate(tests, start=1)
    ]
    print_table([">TEST", "PROGRAM", ">RANKS", ">POD", "SIZES", ">PEAK GB/s", "VERDICT"], rows)


def _format_share(value: float | None, whole: float | None) -> str:
    return f"{100 * value / whole:.0f} %" if value is not None and whole else ""


def _print_history(tests: Sequence[MeasuredTest], options: NcclOptions) -> int:
    shown = [(at, each) for at, each in enumerate(tests, start=1) if options.job in {"-", each.job}]
    if options.json:
        print_json([_test_json(each, tests, None, options.pass_line or 0.0) | {"job": each.job} for _, each in shown])
        return 0
    if not shown:
        raise BadInput(f"No test of {options.job} is kept.", "Of all jobs: a4 nccl - --history")
    rows = [
        [
            str(at),
            each.job,
            wording.clock(each.at),
            each.test.program or "",
            str(each.test.ranks or ""),
            f"{each.test.peak_busbw or 0:,.0f}",
            f"{each.test.avg_busbw or 0:,.0f}",
            str(len(each.nodes)),
        ]
        for at, each in shown
    ]
    print_table([">#", "JOB", "WHEN", "PROGRAM", ">RANKS", ">PEAK GB/s", ">AVERAGE GB/s", ">NODES"], rows)
    return 0


def _print_nodes(nodes: dict[str, NodeBandwidth], options: NcclOptions) -> int:
    if options.json:
        print_json([{"node": node, "busbw": each.last, "trend": each.trend, "tests": len(each.values), "at": each.at,
                   "job": each.job, "ranks": each.gpus} for node, each in sorted(nodes.items())])  # fmt: skip
        return 0
    rows = [
        [
            node,
            f"{each.last:,.0f}",
            f"{each.arrow} {100 * each.trend:+.0f} %" if each.trend is not None else "",
            str(len(each.values)),
            each.job,
            wording.clock(each.at),
        ]
        for node, each in sorted(nodes.items())
    ]
    print_table(["NODE", ">BUSBW GB/s", ">TREND", ">TESTS", "LAST JOB", "WHEN"], rows)
    return 0


# training


def _print_training(name: str, job: JobMeasures, run: TrainingRun, health: JobHealth | None) -> None:
    last = run.last
    assert last is not None
    total = f" of {run.total:,} ({wording.percent(last.step or 0, run.total)})" if run.total else ""
    print_line(f"{name}: step {last.step if last.step is not None else '?'}{total}, {run.format}")
    reached = run.recent_mean("tflops_per_gpu")
    left, share, where = run.eta(SERVER_CLOCK.now()), mfu(reached, job.accelerator), run.position()
    lost = where.what.removeprefix("loss is ").lower() if where.what.startswith("loss") else ""
    facts = [
        (health.state, health.words) if health else ("diverged", where.nan_words),
        (
            "slow rank" if health and health.state not in STEPLESS_WORDS else "waits for",
            health.verdict if health else "",
        ),
        ("loss", lost or _format_figure(run.latest_value("loss"))),
        ("grad norm", _format_figure(run.latest_value("grad_norm") if last.grad_norm is None else last.grad_norm)),
        ("learning rate", _format_figure(run.latest_value("lr"))),
        ("step time", f"{pace:.4g} s" if (pace := run.pace()) is not None else ""),
        ("TFLOP/s per GPU", _format_figure(reached)),
        ("MFU", f"{100 * share:.1f} % of the dense BF16 peak of {job.accelerator}" if share is not None else ""),
        ("tokens/s", _format_figure(run.recent_mean("tokens_per_s"))),
        ("left", "finished" if run.finished else wording.duration(left) if left is not None else ""),
    ]
    for label, value in facts:
        if value:
            print_line(f"  {label:16} {value}")
    for mark in run.list_events():
        print_line(f"  {mark.kind:16} {mark.words}{f', {wording.clock(mark.time)}' if mark.time else ''}")


def _format_figure(value: float | None) -> str:
    return "" if value is None else f"{value:,.6g}"


PLOTTED_METRICS = ("loss", "grad_norm", "lr", "step_time_s", "tokens_per_s", "tflops_per_gpu")


_TEST_TITLES = (
    ">POD", ">GPU", ">UTIL %", ">MEM MiB", ">OF MiB", ">W", ">OF W", ">°C", ">MHz", ">NVLINK IN", ">OUT GB/s", ">ECC",
    "NODE", "FAULTS",
)  # fmt: skip


async def run_gpus(options: GpusOptions, connect: Connect = open_session) -> int:
    """Print one reading, or with --follow one after the other; returns 1 if a GPU has a fault or none can be read."""
    what = find_metric(options.metric)
    async with connect(options, JOB_KINDS) as session:
        if not options.follow:
            board = await session.gpus.read_once(session.namespace, options.job, source=options.source)
            return _print_gpus(board, options)
        async with aclosing(
            session.gpus.follow_boards(session.namespace, options.job, source=options.source)
        ) as boards:
            async for board in boards:
                if board.all_gpus:
                    rank, gpu = board.sort_by_badness(what)[0]
                    worst = f"pod {rank.rank} GPU {gpu.index} ({_format_decimal(what.value(gpu))} {what.unit})"
                    print_line(f"{board.summary}; worst by {what.title.lower()}: {worst}")
    return 0


def _print_gpus(board: GpuBoard, options: GpusOptions) -> int:
    faulty = any(gpu.faults for _, gpu in board.all_gpus)
    if options.json:
        pods = [{"pod_index": each.rank, **asdict(each)} for each in board.ranks]
        print_json({"words": board.summary, "pods": pods, "ranks": pods})
    else:
        print_line(board.summary)
        rows = [
            [
                str(rank.rank), str(gpu.index), *map(_format_decimal, (
                    gpu.utilization, gpu.memory_used, gpu.memory_total, gpu.power, gpu.power_limit, gpu.temperature,
                    gpu.clock,
                )), _format_gb(gpu.nvlink_received), _format_gb(gpu.nvlink_sent), _format_decimal(gpu.ecc_uncorrected),
                rank.node,
                "; ".join(gpu.faults),
            ]
            for rank, gpu in board.sort_by_badness(find_metric(options.metric))
        ]  # fmt: skip
        if rows:
            print_table(_TEST_TITLES, rows)
        links = [
            (str(rank.rank), link.name, _format_gb(link.received, 1), _format_gb(link.sent, 1))
            for rank in board.ranks
            for link in rank.rdma
        ]
        if links:
            print_table((">POD", "RDMA CARD", ">IN GB/s", ">OUT GB/s"), links)
        elif board.all_gpus:
            print_line("RDMA: not known: no counter of a network card can be read in these pods.")
        for rank in board.ranks:
            if rank.problem:
                warn(f"pod {rank.rank} ({rank.node}): {rank.problem}")
    return int(faulty or not board.all_gpus)


def _format_decimal(value: float | None, digits: int = 0) -> str:
    return "─" if value is None else f"{value:.{digits}f}"


def _format_gb(rate: float | None, digits: int = 0) -> str:
    return _format_decimal(None if rate is None else rate / 1e9, digits)


class ResultOptions(Options):
    job: str = word("JOB")
    json: bool = json_flag(apart="form")
    csv: bool = flag("--csv", apart="form", help="as CSV")
    svg: str = option("--svg", metavar="FILE", apart="form", help="the curve as a picture, in that file (- for stdout)")


class NcclOptions(ResultOptions):
    compare: str = option(
        "--compare", metavar="RUN", help="beside the last test of that job, or the number of a test in --history"
    )
    pass_line: float | None = option("--pass", type=above_zero, metavar="GB/S", help="the pass line")
    history: bool = flag("--history", help="tests that are kept of that job (- for all jobs)")
    by_node: bool = flag("--nodes", help="of each node its last bandwidth and trend (JOB: -)")


class TrainingOptions(ResultOptions):
    earlier: bool = flag("--earlier", help="earlier runs of the recipe in the picture too")
    metric: str = option(
        "--metric", choices=PLOTTED_METRICS, default="loss", metavar="NAME", help=f"of it: {', '.join(PLOTTED_METRICS)}"
    )


class GpusOptions(Options):
    job: str = word("JOB")
    metric: str = option(
        "--metric", choices=[each.name for each in GPU_METRICS], default="utilization", help="what orders them"
    )
    source: GpuSource = option("--source", choices=(NVIDIA_SMI, DCGM), help="ask only that")
    follow: bool = flag("-f", "--follow", help="a line for each reading, until Ctrl-C")
    json: bool = json_flag()


COMMANDS: Commands = {
    "nccl": Command(
        run_nccl,
        NcclOptions,
        epilog="A test passes whose average over 2 to 8 GiB is over the pass line: --pass, busbw of the settings' "
        f"alarms, A4_NCCL_PASS, or {PASS_LINE:.0f} GB/s. "
        "Exit codes: 0 passed or not judged, 1 failed (too slow, wrong values) or no table; see a4 --help for others. "
        f"JSON: name, pass_line, nccl ({TEST_KEYS}, attempt, pod_index (and rank, its older name), at, nodes, verdict, "
        "why, usual: GB/s by size of your own past, compared: job, faster, sizes).",
    ),
    "training": Command(
        run_training,
        TrainingOptions,
        epilog="Exit codes: as of a4 why: 5 where it diverged or stalled, 1 where it failed or printed no step. JSON: "
        "name, health (state, level, words, as of a4 jobs; null: the job is not in the cluster any more), "
        f"training (format, steps: {STEP_KEYS}; finished, step, total, eta_s, mfu, marks: kind, step, time, words).",
    ),
    "gpus": Command(
        run_gpus,
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
