"""The reports on hangs and slow ranks as lines of text and as JSON, for the Hang tab, commands and bundles (pure)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from rankscope.rank_names import format_processes
from rankscope.slow_rank_texts import DUMPS_HALT
from trainlog import format_ranges

if TYPE_CHECKING:
    from rankscope.hang_report import HangGroup, HangReport, MpiLauncher, PodTrace, TracedProcess
    from rankscope.slow_rank_texts import LateRank
    from rankscope.slow_ranks import SlowReport

MAX_FRAMES = 12  # calls of a stack that are shown
MAX_STACKS = 16  # processes of one group that are shown
MAX_LAUNCHERS = 8  # processes of MPI that are shown
_COMMUNICATOR = re.compile(r"(#(\d{1,9})-\d+ \(\w+\))")
MAX_ANALYSED_GROUPS = 8  # process groups in which PyTorch's own analyser found something that are shown


def format_report(report: HangReport, *, stacks: bool = False) -> list[str]:
    """The report as lines, the verdict first, with one stack per group or per rank."""
    lines = [*report.verdict, *report.advice]
    for group in report.groups:
        lines += ["", f"── {'✗' if group.suspect else '●'} {group.sentence}"]
        lines += format_member_lines(group, limit=len(group.members) if stacks else 1, apart=False)
    lines += ["", *format_pod_lines(report)]
    return lines


def _with_index(process: TracedProcess | PodTrace) -> dict[str, object]:
    """A process or pod as JSON, with `pod_index` beside its older name `pod_rank`."""
    return {"pod_index": process.pod_rank, **msgspec.to_builtins(process)}


def report_to_json(report: HangReport) -> dict[str, object]:
    groups = [
        {"doing": each.doing, "in": each.label, "suspect": each.suspect, "ranks": each.ranks, "words": each.sentence}
        for each in report.groups
    ]
    return {
        "job": report.job,
        "at": report.at,
        "bundle": report.bundle,
        "asked": report.asked,
        "summary": report.summary,
        "verdict": report.verdict,
        "advice": report.advice,
        "groups": groups,
        "absent": [{"pod_index": number, "pod_rank": number, "status": status} for number, status in report.absent],
        "processes": [_with_index(each) for each in report.processes],
        "pods": [_with_index(each) for each in report.pods],
        "recorder": {"words": report.recorder_words, "found": msgspec.to_builtins(report.recorded)},
        "torch_analyser": None
        if report.analysis is None
        else {"words": describe_analysis(report)}
        | {name: fact for name, fact in msgspec.to_builtins(report.analysis).items() if name != "log"},
        "ras": msgspec.to_builtins(report.ras) | {"words": report.ras.words, "problem": report.ras_problem},
    }


def describe_analysis(report: HangReport) -> str:
    """The finding of PyTorch's own analyser, and whether it agrees with this program's; empty without an answer."""
    if report.analysis is None:
        return ""
    suspects = sorted({rank for group in report.suspects for rank in group.ranks})
    named = report.recorded.ranks if report.recorded is not None else suspects
    with_dump = {dump.rank for dump in report.dumps if dump.history}
    sentence = report.analysis.compare([rank for rank in named if rank in with_dump])
    deaf = [rank for rank in named if rank not in with_dump]
    several = "s" if len(deaf) > 1 else ""
    return f"{sentence} It knows nothing of rank{several} {format_ranges(deaf)}, without a dump." if deaf else sentence


def format_analysis_lines(report: HangReport) -> list[str]:
    """The finding of PyTorch's own analyser, with its first findings if there are several."""
    if report.analysis is None:
        return []
    found = [f"   ✗ {each.words}" for each in report.analysis.found[:MAX_ANALYSED_GROUPS]]
    return [f"── {describe_analysis(report)}", *(found if len(found) > 1 else ())]


def format_member_lines(group: HangGroup, *, limit: int = MAX_STACKS, apart: bool = True) -> list[str]:
    """The processes of a group as lines; compiled programs share a line, with the command where it changes."""
    lines, command = list[str](), ""
    for process in group.members[:limit]:
        found = format_stack_lines(process)
        if process.program:
            lines += found[:1] if process.command == command else found
            command = process.command
        else:
            lines += [*found, ""] if apart else found
    return [*lines, ""] if apart and command else lines


def format_stack_lines(process: TracedProcess) -> list[str]:
    """One process as lines: its kernel state and main thread, or for a compiled program its command."""
    facts = [format_processes(process.sort_place), *(format_kernel_state(process) if process.pid else [])]
    lines = ["   " + "  ".join([*facts, process.node or process.pod])]
    if process.program:
        return [*lines, f"     {process.command}"]
    if process.problem:
        return [*lines, f"     {process.problem}"]
    threads = sorted(process.stacks.threads if process.stacks else (), key=lambda each: each.name != "MainThread")
    for frame in threads[0].frames[:MAX_FRAMES] if threads else ():
        lines.append(f"     {frame.function} ({frame.file}{f':{frame.line}' if frame.line else ''})")
    left = len(threads[0].frames) - MAX_FRAMES if threads else 0
    return [*lines, f"     … {left} more"] if left > 0 else lines


def format_kernel_state(process: TracedProcess | MpiLauncher) -> list[str]:
    facts = [f"pid {process.pid}", f"state {process.state or '?'}"]
    facts += [f"in the kernel at {process.wchan}"] if process.wchan else []
    facts += [f"{process.threads} thread{'s' if process.threads > 1 else ''}"] if process.threads else []
    return facts + ([f"cpu {process.cpu:.0f} %"] if process.cpu is not None else [])


def format_pod_lines(report: HangReport) -> list[str]:
    """The sections on the pods, on MPI or the master, and on RDMA and NCCL RAS."""
    return [
        *([f"── Bundle: {report.bundle}"] if report.bundle else []),
        *([f"── Pods: {report.asked}"] if report.asked else []),
        *_format_mpi_lines(report),
        *([] if report.only_compiled_programs else _format_master_lines(report)),
        *_format_rdma_lines(report),
    ]


def _format_mpi_lines(report: HangReport) -> list[str]:
    """The launchers of MPI (such as mpirun): the pods that run them, and the process state of the first few."""
    found = [(pod, each) for pod in report.pods for each in pod.launchers]
    if not found:
        return ["── MPI: no mpirun, each pod tests by itself"] if report.only_compiled_programs else []
    names = dict.fromkeys(each.program for _, each in found)
    pods = {name: format_ranges(pod.pod_rank for pod, each in found if each.program == name) for name in names}
    lines = ["── MPI: " + ", ".join(f"{name} in pod {pods[name]}" for name in names)]
    for pod, each in found[:MAX_LAUNCHERS]:
        lines.append(
            "   " + "  ".join([each.program, f"pod {pod.pod_rank}", *format_kernel_state(each), pod.node or pod.pod])
        )
    return [*lines, f"   … {len(found) - MAX_LAUNCHERS} more"] if len(found) > MAX_LAUNCHERS else lines


def _format_master_lines(report: HangReport) -> list[str]:
    asked = [pod for pod in report.pods if pod.reached is not None]
    if not asked:
        return ["── Master: no pod knows MASTER_ADDR and MASTER_PORT"]
    reached = sum(bool(pod.reached) for pod in asked)
    lines = [f"── Master {asked[0].master}: reached from {reached} of {len(asked)} pods"]
    return lines + [f"   ✗ pod {pod.pod_rank}, {pod.node}: {pod.unreached}" for pod in report.unreached]


def _format_rdma_lines(report: HangReport) -> list[str]:
    devices = {len(pod.rdma) for pod in report.pods if not pod.failure}
    down = [(pod, name, state) for pod in report.pods for name, state in pod.rdma if "ACTIVE" not in state]
    number = "–".join(str(each) for each in sorted({min(devices), max(devices)})) if devices else "no"
    state = "" if not any(devices) else f", {len(down)} not active" if down else ", all active"
    lines = [f"── RDMA: {number} devices a pod{state}"]
    lines += [f"   ✗ pod {pod.pod_rank}, {pod.node}: {name} {state}" for pod, name, state in down[:8]]
    lines.append(f"── Flight recorder: {report.recorder_words}")
    lines += format_analysis_lines(report)
    lines.append(f"── NCCL RAS: {report.ras.words or report.ras_problem}")
    return lines + _format_ras_lines(report)


def _format_ras_lines(report: HangReport) -> list[str]:
    """NCCL's own report on ranks that are behind, by communicator."""
    lines, within = list[str](), ""
    sizes = {group.number: group.ranks for group in report.ras.groups}
    for line in report.ras.text.splitlines():
        if found := _COMMUNICATOR.match(line):
            size = sizes.get(int(found[2]), 0)
            smaller = 0 < size < len(report.processes)
            within = f"   {found[1]}, which numbers its {size} ranks from 0:" if smaller else ""
        elif "launched up to operation" in line or "DEAD" in line:
            lines += [within] if within else []
            lines.append(f"   ✗ {line}")
            within = ""
    return lines


def format_slow_report(report: SlowReport) -> list[str]:
    """The report on slow ranks as lines, the verdict first."""
    lines = [*report.words, *report.advice]
    if report.polls:
        steps = f", {report.steps:,} launches" if report.steps is not None else ""
        lines.append(
            f"NCCL {report.version} answered {report.polls:,} times in {report.seconds:.0f} s for "
            f"{report.ranks:,} ranks{steps} ({report.form})."
        )
    if report.timed:
        lines.append(f"{report.timed}.")
    elif not report.slow and not report.suspects and not report.problem:
        lines.append(f"--recorder also tells of slow GPUs and links. {DUMPS_HALT}")
    if report.sampled:
        lines.append(f"{report.sampled}.")
    return lines


def _late_rank_to_json(late: LateRank) -> dict[str, object]:
    made: dict[str, object] = msgspec.to_builtins(late)
    for name in ("estimate", "least", "most"):
        del made[name]
    return made | {"cost": late.cost, "cost_at_most": late.cost_at_most}


def slow_report_to_json(report: SlowReport) -> dict[str, object]:
    made: dict[str, object] = msgspec.to_builtins(report)
    late = [_late_rank_to_json(each) for each in report.late]
    return made | {"late": late, "words": report.words, "told": report.has_verdict, "advice": report.advice}
