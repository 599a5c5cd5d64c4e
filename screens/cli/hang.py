"""`a4 hang`: the hang report of a job."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from dataclasses import replace
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING

from console.errors import NotFound, NotThere
from console.folders import check_new_file
from console.hang.bundle import write_bundle
from console.kube.find_job import find_job
from rankscope import (
    DUMPS_HALT,
    MAX_ASKED_SECONDS,
    HangReport,
    SlowReport,
    TracedProcess,
    format_analysis_lines,
    format_processes,
    format_report,
    format_slow_report,
    report_to_json,
    seconds_to_ask,
    slow_report_to_json,
)
from screens.cli.arguments import Command, Commands, Options, count, flag, json_flag, option, seconds_of_an_hour, word
from screens.cli.job_arguments import JOB_KINDS
from screens.cli.lists import read_diagnoses, read_progress_of_jobs
from screens.cli.open_session import open_session
from screens.cli.output import print_json, print_line, print_result, show_progress, warn
from screens.cli.prompts import confirm, is_interactive

if TYPE_CHECKING:
    from console.kube.objects.jobset import JobSet
    from console.session import Session


BUNDLE_KINDS = ("nodes", "events")  # kinds of which a bundle has facts


async def run_hang(options: HangOptions) -> int:
    """Print the report; returns 0 if no rank stands out, 1 if one does or nothing could be inspected."""
    await _check_files(options)
    async with open_session(options, (*JOB_KINDS, *BUNDLE_KINDS) if options.bundle else JOB_KINDS) as session:
        wanted = not (options.facts_of or options.record)
        doubt = await _reason_to_ask(session, options.job)
        # What is asked of one process needs no dump of all ranks.
        agreed = bool(wanted or options.bundle) and await _may_dump(doubt, options)
        if options.install:
            await _install_pyspy(session, options, reads_recorder=agreed)
        report = await session.inspector.inspect_job(
            session.namespace, options.job, all_stacks=options.all, reads_recorder=agreed
        )
        if wanted and not options.json:
            for line in format_report(report, stacks=options.all):
                print_line(line)
            show_progress("Asking PyTorch's own analyser…")
        if wanted or options.bundle:
            report = await session.inspector.add_torch_analysis(session.namespace, options.job, report)
            show_progress("")
        if options.bundle:
            await _write_bundle(session, report, options.bundle)
            report = replace(report, bundle=options.bundle)
        if options.facts_of:
            facts = await session.inspector.read_process_fact(
                session.namespace, options.job, find_process(report, options.rank), options.facts_of
            )
            print_line(facts.rstrip("\n"))
            return 0
        if options.record:
            return await _record_process(session, report, options)
    if options.json:
        print_json(report_to_json(report))
    else:
        for line in format_analysis_lines(report):
            print_line(line)
    return int(bool(report.suspects or report.absent) or not report.groups)


async def _check_files(options: HangOptions | SlowOptions) -> None:
    recording = options.out if isinstance(options, HangOptions) and options.record else ""
    for file in (options.bundle, recording):
        if file:
            await asyncio.to_thread(check_new_file, Path(file))


async def _write_bundle(session: Session, report: HangReport | SlowReport, file: str) -> None:
    size = await write_bundle(session.watch, session.namespace, report, Path(file))
    warn(f"{file}: {size:,} bytes, secrets redacted.")


async def _reason_to_ask(session: Session, job: str) -> str:
    """The reason to ask first (another's job, or one that runs well), or "". Raises NotFound if no pod runs."""
    await session.wait_until_listed(*JOB_KINDS)
    jobset = find_job(session.fleet, session.namespace, job)
    session.watch.connection_for_change(f"inspect {job}")
    session.inspector.running_ranks(session.namespace, job)
    proof = await session.own_job_inspector.read_proof(jobset)
    return "" if proof.may_look else proof.why_not(jobset.owner)


async def _may_dump(reason_to_ask: str, options: HangOptions | SlowOptions) -> bool:
    """Whether flight recorders may be dumped: of the person's own job, else with --yes or after a question."""
    if not reason_to_ask or options.yes:
        warn(DUMPS_HALT)
        return True
    if not is_interactive():
        warn(f"The flight recorders of {options.job} are not asked without --yes: {reason_to_ask}.")
        return False
    return await confirm([f"{reason_to_ask}.", DUMPS_HALT], f"Ask the flight recorders of {options.job}?")


async def _install_pyspy(session: Session, options: HangOptions, *, reads_recorder: bool) -> None:
    before = await session.inspector.inspect_job(session.namespace, options.job, reads_recorder=reads_recorder)
    missing = [pod.pod for pod in before.without_py_spy]
    if not missing:
        return
    installed = await session.inspector.install_py_spy(session.namespace, options.job, missing)
    failed = {pod: why for pod, why in installed.items() if why}
    warn(f"py-spy is installed in {len(missing) - len(failed)} of {len(missing)} pods.")
    for pod, why in failed.items():
        warn(f"{pod}: {why}")


async def _record_process(session: Session, report: HangReport, options: HangOptions) -> int:
    process = find_process(report, options.rank)
    place = Path(options.out or f"{options.job}-rank-{process.rank}.svg")
    tool = next((pod.py_spy for pod in report.pods if pod.pod == process.pod), "")
    size = await session.inspector.record_profile(session.namespace, options.job, process, tool, options.record, place)
    print_line(
        f"Flame graph of {format_processes(process.sort_place)} ({options.record:g} s): {place}, {size:,} bytes."
    )
    return 0


def find_process(report: HangReport, rank: int | None) -> TracedProcess:
    """The process of a rank; without a rank, of the first suspect. Raises NotThere or NotFound if there is none."""
    if rank is None:
        groups = report.suspects or report.groups
        if not groups:
            raise NotFound(f"No process of a training or an NCCL test was found in {report.job}.")
        return groups[0].members[0]
    found = next((each for each in report.processes if each.rank == rank), None)
    if found is None:
        raise NotThere(f"{report.job} has no process of rank {rank}.", f"There are {len(report.processes)} processes.")
    return found


async def run_slow(options: SlowOptions) -> int:
    """Print which ranks the others wait for; 0 if no rank is slow, 1 if one is or it is unknown."""
    await _check_files(options)
    async with open_session(options, (*JOB_KINDS, *BUNDLE_KINDS) if options.bundle else JOB_KINDS) as session:
        await session.wait_until_listed(*JOB_KINDS)
        job = find_job(session.fleet, session.namespace, options.job)
        if options.its_pace:
            return await _accept_pace(session, job, as_json=options.json)
        recorder = options.recorder and await _may_dump(await _reason_to_ask(session, options.job), options)
        with ExitStack() as ended:
            ended.callback(show_progress, "")
            show_progress("Reading in the log how long a step takes…")
            seconds = options.seconds or seconds_to_ask(await _step_time(session, options.job))
            ended.callback(asyncio.create_task(_show_countdown(seconds), name="slow:progress").cancel)
            report = await session.inspector.find_slow_ranks(
                session.namespace,
                options.job,
                seconds,
                reads_recorder=recorder,
                max_seconds=options.seconds or MAX_ASKED_SECONDS,
            )
            if options.bundle:
                await _write_bundle(session, report, options.bundle)
    print_result(options.json, slow_report_to_json(report), *format_slow_report(report))
    return int(bool(report.slow) or not report.has_verdict)


async def _accept_pace(session: Session, jobset: JobSet, *, as_json: bool) -> int:
    """Accept the current step time of a job as normal, which ends its "slower" alarm; 1 if it has no such alarm."""
    from screens.columns.jobs import JobLine
    from screens.columns.live_jobs import with_diagnoses

    await read_diagnoses(session)
    progress = (await read_progress_of_jobs(session, [jobset])).get(jobset.uid)
    found = with_diagnoses(session, JobLine(jobset, session.fleet, progress)).job_progress
    words = found.slower if found is not None else ""
    if found is not None and words:
        await session.diagnoses.accept_pace(jobset.uid, words, found.slower_since)
    sentence = f"That is its pace now: {words}." if words else f"By its log the steps of {jobset.name} are not slower."
    print_result(as_json, {"job": jobset.name, "slower": words}, sentence)
    return int(not words)


async def _show_countdown(seconds: float) -> None:
    for left in range(ceil(seconds), 0, -1):
        show_progress(f"Asking NCCL for which rank the others wait: {left} s more…")
        await asyncio.sleep(1)
    show_progress("Asking NCCL until it has seen enough steps…")


async def _step_time(session: Session, name: str) -> float | None:
    """Seconds per step by the job's log; None if unknown."""
    job = await session.measures.read_job(session.namespace, name)
    return job.track.pace() if job.track is not None else None


class SlowOptions(Options):
    job: str = word("JOB")
    seconds: float | None = option(
        "--seconds", type=seconds_of_an_hour, metavar="S", help="ask for so long (default: for 12 steps, 10 to 300 s)"
    )
    recorder: bool = flag(
        "--recorder",
        help="also have every rank dump its flight recorder: slow GPUs and links; the first halts it for 2 to 5 s",
    )
    bundle: str = option(
        "--bundle",
        metavar="FILE",
        help="also write all of it to a new .tar.gz: report, NCCL's lines, ends of logs, nodes, events",
    )
    its_pace: bool = flag(
        "--its-pace",
        help="ask nobody: that its steps are slower is its pace now, and is not told until they become slower yet",
    )
    yes: bool = flag("--yes", help="ask the flight recorders also of a job that is not known to be yours")
    json: bool = json_flag()


class HangOptions(Options):
    job: str = word("JOB")
    install: bool = flag("--install", help="install py-spy (pip) in pods that lack it, first")
    all: bool = flag("--all", help="ask every rank for its stack, and print them, not one of each group")
    rank: int | None = option(
        "--rank", type=count, metavar="R", help="a process's RANK, for --record and --proc (default: who stands out)"
    )
    record: float = option(
        "--record",
        type=seconds_of_an_hour,
        metavar="SECONDS",
        default=0.0,
        help="record a flame graph of a rank and save it here",
    )
    out: str = option("--out", metavar="FILE", help="of --record (default: JOB-rank-R.svg; .json is for speedscope)")
    facts_of: str = option(
        "--proc",
        choices=("status", "limits", "fd", "maps", "strace"),
        help="show that of a rank's process (strace: for ten seconds)",
    )
    bundle: str = option(
        "--bundle",
        metavar="FILE",
        help="also write all of it to a new .tar.gz: report, stacks, NCCL's answers, dumps, logs' ends, nodes, events",
    )
    yes: bool = flag("--yes", help="ask the flight recorders also of a job that is not known to be yours")
    json: bool = json_flag()


COMMANDS: Commands = {
    "hang": Command(
        run_hang,
        HangOptions,
        description="""\
Inspect a job that hangs: what PyTorch's flight recorder, NCCL RAS, the kernel (/proc) and the RDMA devices
say; whether every pod reaches the master; py-spy dump of the ranks for which the others wait, or of every
rank where nothing names them; equal stacks together, who stands out first.
Of an NCCL test, which is no Python, the kernel tells of its processes and of mpirun and orted.
A rank is a process (its RANK), a pod may hold several; a4 logs, shell and others take the index of the pod.""",
        epilog="""\
Exit codes: 0 no rank stands out, 1 one does (or has no running pod, or nothing was found out), 2 usage,
3 not allowed, 4 cannot reach the cluster.
JSON: job, at, bundle (the archive that --bundle has written), asked (how many pods answered, and by which
way), summary, verdict, torch_analyser (what PyTorch's own analyser says of the dumps; null: not asked),
advice, groups (doing, in, suspect, ranks, words), processes (rank, pod_index and, an
older name, pod_rank: index of its pod, pod,
node, pid, local_rank, command, state, wchan, threads, stacks, where, problem, program: name if it is no
Python, cpu: percent of a core since its start), pods (pod_index, py_spy, master, reached, unreached, rdma,
failure, believed: false where it told of ranks that are not its own, launchers: mpirun and orted, gdb),
recorder (words: which ranks gave a dump of PyTorch's flight recorder; found: kind, ranks, what, waiting,
frame; null: no rank waits by the dumps), ras (version, groups, odd, most, text, words, problem), absent
(pod_index, status: pods that do not run beside those that do).""",
    ),
    "slow": Command(
        run_slow,
        SlowOptions,
        description="""\
Find the rank for which the others wait: for 12 steps (10 to 300 s), or --seconds, one pod asks NCCL's RAS service (NCCL
2.24 and newer) many times a second which ranks have launched fewer operations. The share of the step is what
the others wait for such a rank at most; the brackets hold its bounds with 95 % confidence. There is none where
too little was seen or where the hosts run ahead of their GPUs. Whether the others wait at all
--recorder tells: it asks every rank how long it was in each collective, and also sees a slow GPU or link.
py-spy then looks for 5 to 15 s where a late rank is, and one that is not: only what it finds names a host.""",
        epilog="""\
Exit codes: 0 no rank is slow, 1 one is (or no verdict), 2 usage, 3 not allowed, 4 cannot reach the cluster;
of --its-pace 0, or 1 if by its log the steps are not slower. JSON of that: job, slower (in words).
JSON: job, at, told (whether there is a verdict), words, advice (what to do next), problem (why there is no
verdict), version, form (json or text), ranks, polls, seconds, steps (times that operations were launched;
null: not told), late (rank, host, pid, gpu, pod_index, node, share (0: not known), low, high: of the step in
which it is late, 95 % confidence, slow: the others wait for it, suspect: one witness alone says so, timed: its
share is by the times of collectives, partly: in some communicators only, runs_ahead: the others launch meanwhile,
cause: host, GPU, network, data or not known, evidence, a phrase, where: the line of the program at which it is,
cost: about what share of each step it costs, null where that is not known to a third, cost_at_most: null: not known),
bound (share that no other rank reaches), timed (which ranks told how long collectives took; empty: not asked),
no_gpu_slow (by that, none is slow), sampled (at which ranks py-spy looked, or why that told nothing; empty: no
host is late).""",
    ),
}
