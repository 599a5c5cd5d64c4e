"""The command `a4 hang`: where every process of a job is, who is not where the others are, and what to do."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from console.errors import BadInput, NotFound
from console.models.everywhere import rank_words
from screens.cli.connect import connected
from screens.cli.output import say, say_json, warn
from screens.cli.ranks import KINDS

if TYPE_CHECKING:
    from console.models.hang import HangGroup, HangReport, Launcher, Traced
    from console.session import Session
    from screens.cli.options import Options

FRAMES = 12
"""Calls of a stack that are shown."""
STACKS = 16
"""Processes of one group that are shown."""
STARTERS = 8
"""Processes of MPI that are shown."""


async def hang(options: Options) -> int:
    """Print what was found; 0 if no rank stands out, 1 if one does, or if nothing could be looked into."""
    async with connected(options, KINDS) as session:
        await session.listed(*KINDS)
        if options.install:
            await _install(session, options)
        report = await session.xray.job(session.namespace, options.job)
        if options.facts_of:
            return await _facts(session, report, options)
        if options.record:
            return await _record(session, report, options)
    if options.json:
        say_json(as_json(report))
    else:
        for line in told(report, stacks=options.all):
            say(line)
    return int(bool(report.suspects or report.absent) or not report.groups)


async def _install(session: Session, options: Options) -> None:
    """Install py-spy where it is missing."""
    before = await session.xray.job(session.namespace, options.job)
    missing = [pod.pod for pod in before.without_py_spy]
    if not missing:
        return
    failed = {
        pod: why for pod, why in (await session.xray.install(session.namespace, options.job, missing)).items() if why
    }
    warn(f"py-spy is installed in {len(missing) - len(failed)} of {len(missing)} pods.")
    for pod, why in failed.items():
        warn(f"{pod}: {why}")


async def _record(session: Session, report: HangReport, options: Options) -> int:
    process = chosen(report, options.rank)
    place = Path(options.out or f"{options.job}-rank-{process.rank}.svg")
    tool = next((pod.py_spy for pod in report.pods if pod.pod == process.pod), "")
    size = await session.xray.record(session.namespace, options.job, process, tool, options.record, place)
    say(f"Flame graph of rank {process.rank} ({options.record:g} s): {place}, {size:,} bytes.")
    return 0


async def _facts(session: Session, report: HangReport, options: Options) -> int:
    process = chosen(report, options.rank)
    say((await session.xray.facts(session.namespace, options.job, process, options.facts_of)).rstrip("\n"))
    return 0


def chosen(report: HangReport, rank: int | None) -> Traced:
    """The process of that rank, of the first suspect unless one is named."""
    if rank is None:
        groups = report.suspects or report.groups
        if not groups:
            raise NotFound(f"No process of a training or an NCCL test was found in {report.job}.")
        return groups[0].members[0]
    found = next((each for each in report.processes if each.rank == rank), None)
    if found is None:
        raise BadInput(f"{report.job} has no process of rank {rank}.", f"There are {len(report.processes)} processes.")
    return found


def told(report: HangReport, *, stacks: bool = False) -> list[str]:
    """The report in lines; one stack of each group, or of every rank."""
    lines = [report.summary, "", *report.verdict, *report.advice]
    for group in report.groups:
        lines += ["", f"── {'✗' if group.suspect else '●'} {group.words}"]
        lines += member_lines(group, most=len(group.members) if stacks else 1, apart=False)
    lines += ["", *pod_lines(report)]
    return lines


def member_lines(group: HangGroup, *, most: int = STACKS, apart: bool = True) -> list[str]:
    """Processes of a group; compiled programs stand close together, and their command where it changes."""
    lines, command = list[str](), ""
    for process in group.members[:most]:
        found = stack_lines(process)
        if process.program:
            lines += found[:1] if process.command == command else found
            command = process.command
        else:
            lines += [*found, ""] if apart else found
    return [*lines, ""] if apart and command else lines


def stack_lines(process: Traced) -> list[str]:
    """One process: what the kernel says, and its main thread; of a compiled program its command."""
    facts = [f"rank {process.rank}", f"pod {process.pod_rank}", *(kernel_words(process) if process.pid else [])]
    lines = ["   " + "  ".join([*facts, process.node or process.pod])]
    if process.program:
        return [*lines, f"     {process.command}"]
    if process.problem:
        return [*lines, f"     {process.problem}"]
    threads = sorted(process.stacks.threads if process.stacks else (), key=lambda each: each.name != "MainThread")
    for frame in threads[0].frames[:FRAMES] if threads else ():
        lines.append(f"     {frame.function} ({frame.file}{f':{frame.line}' if frame.line else ''})")
    left = len(threads[0].frames) - FRAMES if threads else 0
    return [*lines, f"     … {left} more"] if left > 0 else lines


def kernel_words(process: Traced | Launcher) -> list[str]:
    """What /proc says of it."""
    said = [f"pid {process.pid}", f"state {process.state or '?'}"]
    said += [f"in the kernel at {process.wchan}"] if process.wchan else []
    said += [f"{process.threads} thread{'s' if process.threads > 1 else ''}"] if process.threads else []
    return said + ([f"cpu {process.cpu:.0f} %"] if process.cpu is not None else [])


def pod_lines(report: HangReport) -> list[str]:
    """Master or MPI, RDMA and NCCL."""
    return [*_mpi_lines(report), *([] if report.compiled else _master_lines(report)), *_device_lines(report)]


def _mpi_lines(report: HangReport) -> list[str]:
    """The processes that start the others."""
    found = [(pod, each) for pod in report.pods for each in pod.launchers]
    if not found:
        return ["── MPI: no mpirun, each pod tests by itself"] if report.compiled else []
    names = {name: rank_words(pod.pod_rank for pod, each in found if each.program == name)
             for name in dict.fromkeys(each.program for _, each in found)}  # fmt: skip
    lines = ["── MPI: " + ", ".join(f"{name} in pod {pods}" for name, pods in names.items())]
    for pod, each in found[:STARTERS]:
        lines.append("   " + "  ".join([each.program, f"pod {pod.pod_rank}", *kernel_words(each), pod.node or pod.pod]))
    return [*lines, f"   … {len(found) - STARTERS} more"] if len(found) > STARTERS else lines


def _master_lines(report: HangReport) -> list[str]:
    reached = [pod for pod in report.pods if pod.reached]
    asked = [pod for pod in report.pods if pod.reached is not None]
    master = next((pod.master for pod in asked), "")
    lines = [f"── Master {master}: reached from {len(reached)} of {len(asked)} pods" if asked else
             "── Master: no pod knows MASTER_ADDR and MASTER_PORT"]  # fmt: skip
    return lines + [f"   ✗ pod {pod.pod_rank}, {pod.node}: {pod.unreached}" for pod in report.unreached]


def _device_lines(report: HangReport) -> list[str]:
    devices = {len(pod.rdma) for pod in report.pods if not pod.failure}
    down = [(pod, name, state) for pod in report.pods for name, state in pod.rdma if "ACTIVE" not in state]
    number = "–".join(str(each) for each in sorted({min(devices), max(devices)})) if devices else "no"
    lines = [f"── RDMA: {number} devices a pod, {len(down) or 'none'} not active"]
    lines += [f"   ✗ pod {pod.pod_rank}, {pod.node}: {name} {state}" for pod, name, state in down[:8]]
    lines.append(f"── NCCL RAS: {report.ras.words or report.ras_problem}")
    lines += [
        f"   ✗ {each}" for each in report.ras.text.splitlines() if "launched up to operation" in each or "DEAD" in each
    ]
    return lines


def group_json(group: HangGroup) -> dict[str, object]:
    """A group for programs."""
    return {
        "doing": group.doing,
        "in": group.label,
        "suspect": group.suspect,
        "ranks": group.ranks,
        "words": group.words,
    }


def as_json(report: HangReport) -> dict[str, object]:
    """The report for programs; the keys are in `a4 hang --help`."""
    return {
        "job": report.job, "at": report.at, "summary": report.summary, "verdict": report.verdict,
        "advice": report.advice, "groups": [group_json(group) for group in report.groups],
        "absent": [{"pod_rank": number, "status": status} for number, status in report.absent],
        "processes": report.processes, "pods": report.pods,
        "ras": msgspec.to_builtins(report.ras) | {"words": report.ras.words, "problem": report.ras_problem},
    }  # fmt: skip
